//! `crush_ln`: 2^44 * log2(x + 1) in fixed point, by table.

use crate::generated::ln_tables::{LL, RH_LH};

/// For x up to 0xffff.
pub(crate) fn crush_ln(x: u32) -> u64 {
    let mut x = x + 1;
    let mut exponent = 15u64;
    // Shift so that bit 15 or 16 is the highest.
    if x & 0x1_8000 == 0 {
        let bits = (x & 0x1_ffff).leading_zeros() - 16;
        x <<= bits;
        exponent = 15 - u64::from(bits);
    }
    let index = ((x >> 8) << 1) as usize - 256;
    let (reciprocal, log_high) = (RH_LH[index], RH_LH[index + 1]);
    // x / (index as a number) - 1, in the low bits.
    let product = u64::from(x).wrapping_mul(reciprocal) >> 48;
    let log_low = LL[(product & 0xff) as usize];
    (exponent << 44) + ((log_high + log_low) >> 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_regular_entries_are_the_formula() {
        for k in 0..128u64 {
            let exact = (1u128 << 55).div_ceil(128 + u128::from(k));
            assert_eq!(u128::from(RH_LH[2 * k as usize]), exact);
            let log = (1.0 + k as f64 / 128.0).log2() * (1u64 << 48) as f64;
            assert!((RH_LH[2 * k as usize + 1] as f64 - log).abs() < 2.0, "{k}");
        }
        assert!(LL.windows(2).all(|w| w[0] < w[1]));
    }

    #[test]
    fn it_is_the_logarithm_but_for_the_tables_irregularities() {
        assert_eq!(crush_ln(0), 0);
        assert_eq!(crush_ln(0xffff), 0x0000_ffff_f000_0000);
        for x in 0..0xffffu32 {
            let exact = f64::from(x + 1).log2() * (1u64 << 44) as f64;
            assert!((crush_ln(x) as f64 - exact).abs() < (1u64 << 31) as f64, "{x}");
        }
    }
}
