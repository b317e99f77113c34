//! crc32c in Ceph's convention: the caller gives the running value, nothing is inverted at the end
//! (`ceph_crc32c`). The usual seed is all ones; frame preambles use 0.

use crc_fast::{CrcAlgorithm, Digest};

/// `ceph_crc32c(seed, data)`.
pub fn crc32c(seed: u32, data: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(seed));
    digest.update(data);
    // crc-fast applies the standard's final inversion; Ceph does not have it.
    (digest.finalize() as u32) ^ u32::MAX
}

/// crc32c of `count` zero bytes.
pub fn crc32c_zeros(seed: u32, mut count: usize) -> u32 {
    const ZEROS: [u8; 4096] = [0; 4096];
    let mut crc = seed;
    while count > 0 {
        let chunk = count.min(ZEROS.len());
        crc = crc32c(crc, &ZEROS[..chunk]);
        count -= chunk;
    }
    crc
}
