//! crc32c in Ceph's convention: the caller gives the running value, nothing is inverted at the end
//! (`ceph_crc32c`). The usual seed is all ones; frame preambles use 0.
//!
//! A checksum of parts follows from those of the parts without a look at their bytes: what is before a part
//! counts as if as many zeros followed, and behind zeros a checksum is the old one times a power of x, modulo
//! the polynomial.

use crc_fast::{CrcAlgorithm, Digest};

use crate::{crc_short, traffic};

/// `ceph_crc32c(seed, data)`.
pub fn crc32c(seed: u32, data: &[u8]) -> u32 {
    traffic::summed(data.len());
    uncounted(seed, data)
}

/// The same, of which [`traffic`] hears nothing.
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

/// The polynomial without its highest power, lowest power in the highest bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// Lengths are taken apart in digits of this base.
const DIGIT: usize = 16;

/// x to the power of 8 · d · 16^n, by n and d.
static POWERS: [[u32; DIGIT]; 16] = powers();

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

#[cfg(test)]
mod tests {
    use super::*;

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
