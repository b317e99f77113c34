//! crc32c of few bytes by the CPU's own instruction: preambles, headers and fronts are too short for what
//! sums many bytes at a time to pay.
#![allow(unsafe_code, reason = "an instruction that not every CPU has")]

/// More bytes than this are summed faster several lanes at a time.
pub(crate) const BYTES_MAX: usize = 768;

/// The running value behind `data`; none where the CPU lacks the instruction.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn crc32c(seed: u32, data: &[u8]) -> Option<u32> {
    if !std::arch::is_x86_feature_detected!("sse4.2") {
        return None;
    }
    // SAFETY: the CPU has the instruction.
    Some(unsafe { sse42(seed, data) })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn sse42(seed: u32, data: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};

    let (words, rest) = data.as_chunks::<8>();
    let crc = words.iter().fold(u64::from(seed), |crc, word| _mm_crc32_u64(crc, u64::from_le_bytes(*word)));
    // The instruction leaves the upper half empty.
    rest.iter().fold(crc as u32, |crc, byte| _mm_crc32_u8(crc, *byte))
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn crc32c(_: u32, _: &[u8]) -> Option<u32> {
    None
}
