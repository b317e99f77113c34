//! For property tests: what becomes of bytes that others may have made, and the numbers that mean something in them.

pub(crate) use ::damage::{Damage, damaged};
use proptest::{
    prelude::*,
    sample::{Index, select},
};

/// Where sums, lengths and places end: of integers, of signed ones, of objects, of snapshots.
const EDGES: &[u64] = &[
    u64::MAX,
    u64::MAX - 1,
    u64::MAX - 2,
    1 << 63,
    (1 << 63) - 1,
    1 << 62,
    1 << 32,
    u32::MAX as u64,
    1 << 31,
    i32::MAX as u64,
    (128 << 20) + 1,
    128 << 20,
    (128 << 20) - 1,
];

/// A number: mostly one that means something, else one that is hardly meant.
pub(crate) fn number() -> impl Strategy<Value = u64> {
    prop_oneof![12 => 0u64..24, 3 => select(EDGES), 1 => any::<u64>()]
}

/// Something that happens to some bytes.
pub(crate) fn damage() -> impl Strategy<Value = Damage> {
    let more = proptest::collection::vec(any::<u8>(), 1..12);
    prop_oneof![
        4 => (any::<Index>(), any::<u8>()).prop_map(|(at, value)| Damage::Byte(at, value)),
        2 => (any::<Index>(), number()).prop_map(|(at, value)| Damage::Number(at, value, 8)),
        2 => (any::<Index>(), number()).prop_map(|(at, value)| Damage::Number(at, value, 4)),
        1 => any::<Index>().prop_map(Damage::Cut),
        1 => (any::<Index>(), more).prop_map(|(at, more)| Damage::More(at, more)),
    ]
}
