//! crc32c in Ceph's convention: the caller gives the running value, nothing is inverted at the end
//! (`ceph_crc32c`). The usual seed is all ones; frame preambles use 0.
//!
//! A checksum of parts follows from those of the parts without a look at their bytes: what is before a part
//! counts as if as many zeros followed, and behind zeros a checksum is the old one times a power of x, modulo
//! the polynomial.

use crc_fast::{CrcAlgorithm, Digest};

use crate::{BLOCK_BYTES, crc_short, traffic};

/// `ceph_crc32c(seed, data)`.
pub fn crc32c(seed: u32, data: &[u8]) -> u32 {
    traffic::summed(data.len());
    uncounted(seed, data)
}

/// `ceph_crc32c(seed, data)`, not counted by [`traffic`].
pub(crate) fn uncounted(seed: u32, data: &[u8]) -> u32 {
    let short = (data.len() <= crc_short::BYTES_MAX).then(|| crc_short::crc32c(seed, data)).flatten();
    short.unwrap_or_else(|| long(seed, data))
}

fn long(seed: u32, data: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(seed));
    digest.update(data);
    // crc-fast applies the standard's final inversion; Ceph does not have it.
    (digest.finalize() as u32) ^ u32::MAX
}

/// crc32c of `count` zero bytes.
pub(crate) fn crc32c_zeros(seed: u32, count: usize) -> u32 {
    let (mut crc, mut rest) = (seed, count);
    for powers in &POWERS {
        if rest == 0 || crc == 0 {
            break;
        }
        let digit = rest % DIGIT;
        if digit > 0 {
            crc = times(crc, powers[digit]);
        }
        rest /= DIGIT;
    }
    crc
}

/// crc32c with `seed` of what has `first` as its checksum with that seed, followed by `count` bytes whose
/// checksum with all ones as the seed is `second`.
pub(crate) fn crc32c_concat(first: u32, second: u32, count: usize) -> u32 {
    crc32c_zeros(first ^ u32::MAX, count) ^ second
}

/// crc32c, with all ones as the seed, of blocks of [`BLOCK_BYTES`] end to end with these checksums, each of the same
/// seed.
pub fn crc32c_of_blocks(crcs: &[u32]) -> u32 {
    // As `crc32c_concat`, of which a block's length costs ten times as much.
    let behind_block = |crc: u32| {
        let by_byte = crc.to_le_bytes().into_iter().zip(&TIMES_BLOCK);
        by_byte.fold(0, |sum, (byte, products)| sum ^ products[usize::from(byte)])
    };
    let join = |crc: u32, block: &u32| behind_block(crc ^ u32::MAX) ^ block;
    crcs.split_first().map_or(u32::MAX, |(first, rest)| rest.iter().fold(*first, join))
}

/// The polynomial without its highest power, lowest power in the highest bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// Lengths are taken apart in digits of this base.
const DIGIT: usize = 16;

/// x to the power of 8 · d · 16^n, by n and d.
static POWERS: [[u32; DIGIT]; 16] = powers();

/// What a block of zeros makes of a checksum, by the place of a byte in it, and the byte.
static TIMES_BLOCK: [[u32; 256]; 4] = times_block();

/// The product of two polynomials, modulo [`POLYNOMIAL`].
const fn times(a: u32, b: u32) -> u32 {
    let (mut product, mut bit) = (0u32, 0);
    while bit < u32::BITS {
        // From the highest power of `b` down: the sum so far times x, and `a` where `b` has the power.
        let carry = (product & 1).wrapping_neg() & POLYNOMIAL;
        let term = (b >> bit & 1).wrapping_neg() & a;
        product = (product >> 1) ^ carry ^ term;
        bit += 1;
    }
    product
}

const fn powers() -> [[u32; DIGIT]; 16] {
    const ONE: u32 = 1 << 31;
    let mut out = [[ONE; DIGIT]; 16];
    let mut base = ONE >> 8;
    let mut n = 0;
    while n < out.len() {
        let mut digit = 1;
        while digit < DIGIT {
            out[n][digit] = times(out[n][digit - 1], base);
            digit += 1;
        }
        base = times(out[n][DIGIT - 1], base);
        n += 1;
    }
    out
}

const fn times_block() -> [[u32; 256]; 4] {
    // 16 to the power of 3 bytes.
    const { assert!(BLOCK_BYTES == DIGIT * DIGIT * DIGIT) };
    let block = powers()[3][1];
    let mut out = [[0; 256]; 4];
    let mut place = 0;
    while place < out.len() {
        let mut byte = 0;
        while byte < 256 {
            out[place][byte] = times((byte as u32) << (8 * place), block);
            byte += 1;
        }
        place += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_give_the_checksum_of_all() {
        let data: Vec<u8> = (0..5 * BLOCK_BYTES as u32).map(|at| ((at * at) >> 3) as u8).collect();
        let crcs: Vec<u32> = data.chunks(BLOCK_BYTES).map(|block| crc32c(u32::MAX, block)).collect();
        for count in 0..=crcs.len() {
            let expected = crc32c(u32::MAX, &data[..count * BLOCK_BYTES]);
            assert_eq!(crc32c_of_blocks(&crcs[..count]), expected, "{count}");
        }
    }

    #[test]
    fn short_and_long_ones_are_summed_alike() {
        let data: Vec<u8> = (0..crc_short::BYTES_MAX as u32 + 9).map(|at| ((at * at) >> 2) as u8).collect();
        for seed in [0, 1, u32::MAX] {
            for count in 0..data.len() {
                assert_eq!(uncounted(seed, &data[..count]), long(seed, &data[..count]), "{count}");
            }
        }
    }
}
