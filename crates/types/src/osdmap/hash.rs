//! The hashes of placement (`common/ceph_hash.cc`, `crush/hash.c`): Robert Jenkins' 96-bit mix.

/// Bob Jenkins' mix of three words.
fn mix(mut a: u32, mut b: u32, mut c: u32) -> (u32, u32, u32) {
    for (s, t, u) in [(13, 8, 13), (12, 16, 5), (3, 10, 15)] {
        a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> s);
        b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << t);
        c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> u);
    }
    (a, b, c)
}

/// `crush_hash32_2`: mixes two words.
pub(super) fn crush_hash32_2(a: u32, b: u32) -> u32 {
    const SEED: u32 = 1_315_423_911;
    let (x, y) = (231_232, 1_232);
    let (a, b, hash) = mix(a, b, SEED ^ a ^ b);
    let (_, _, hash) = mix(x, a, hash);
    mix(b, y, hash).2
}

/// `ceph_str_hash_rjenkins`: the hash of an object's name.
pub(super) fn ceph_str_hash_rjenkins(text: &[u8]) -> u32 {
    const GOLDEN_RATIO: u32 = 0x9e37_79b9;
    let (mut a, mut b, mut c) = (GOLDEN_RATIO, GOLDEN_RATIO, 0u32);
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
    let mut blocks = text.chunks_exact(12);
    for block in &mut blocks {
        (a, b, c) = mix(
            a.wrapping_add(word(&block[..4])),
            b.wrapping_add(word(&block[4..8])),
            c.wrapping_add(word(&block[8..])),
        );
    }
    let mut tail = [0; 12];
    let rest = blocks.remainder();
    tail[..rest.len()].copy_from_slice(rest);
    // The lowest byte of the last word is the length's.
    let last = (word(&tail[8..]) << 8).wrapping_add(text.len() as u32);
    mix(a.wrapping_add(word(&tail[..4])), b.wrapping_add(word(&tail[4..8])), c.wrapping_add(last)).2
}

/// `ceph_stable_mod`: `x` modulo `count`, such that most values stay when `count` grows. `mask` is the
/// next power of two less one.
pub(super) fn ceph_stable_mod(x: u32, count: u32, mask: u32) -> u32 {
    if x & mask < count { x & mask } else { x & (mask >> 1) }
}
