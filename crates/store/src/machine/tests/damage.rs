//! Damaged bytes with right checksums: whatever a store finds on its devices, it is an error or a value, never a panic,
//! nor more work or memory than there is to look at.

mod faults;
mod parts;
mod sample;
mod stores;

use ::damage::Damage;
use proptest::{prelude::*, sample::Index};

use super::*;

fn number() -> impl Strategy<Value = u64> {
    // Blocks of a sample, and numbers at which something overflows.
    prop_oneof![
        3 => 0u64..2_048,
        1 => (0u64..20).prop_map(|less| u64::MAX - less),
        1 => (0u32..64).prop_map(|bits| 1u64 << bits),
        1 => any::<u64>(),
    ]
}

/// The number of the bytes stays.
fn damage() -> impl Strategy<Value = Damage> {
    let index = any::<Index>;
    prop_oneof![
        3 => (index(), any::<u8>()).prop_map(|(at, value)| Damage::Byte(at, value)),
        3 => (index(), any::<u8>()).prop_map(|(at, bit)| Damage::Bit(at, bit)),
        2 => (index(), number()).prop_map(|(at, value)| Damage::Number(at, value, 4)),
        4 => (index(), number()).prop_map(|(at, value)| Damage::Number(at, value, 8)),
        1 => (index(), index(), 1usize..200).prop_map(|(from, to, count)| Damage::Again(from, to, count)),
    ]
}
