//! For property tests: what becomes of bytes that others may have made.

use bytes::Bytes;
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

/// What happens to some bytes.
#[derive(Clone, Debug)]
pub(crate) enum Damage {
    /// Another byte.
    Byte(Index, u8),
    /// A number of 8 bytes.
    Long(Index, u64),
    /// A number of 4 bytes.
    Short(Index, u32),
    /// Nothing is there from here on.
    Cut(Index),
    /// There is more here.
    More(Index, Vec<u8>),
}

impl Damage {
    /// Does it; nothing happens to no bytes.
    pub(crate) fn apply(&self, bytes: &mut Vec<u8>) {
        let len = bytes.len();
        if len == 0 {
            return;
        }
        let mut put = |at: &Index, number: &[u8]| {
            bytes[at.index(len)..].iter_mut().zip(number).for_each(|(byte, new)| *byte = *new);
        };
        match self {
            Damage::Byte(at, value) => put(at, &[*value]),
            Damage::Long(at, value) => put(at, &value.to_le_bytes()),
            Damage::Short(at, value) => put(at, &value.to_le_bytes()),
            Damage::Cut(at) => bytes.truncate(at.index(len)),
            Damage::More(at, more) => {
                let at = at.index(len);
                drop(bytes.splice(at..at, more.iter().copied()));
            }
        }
    }
}

/// Something that happens to some bytes.
pub(crate) fn damage() -> impl Strategy<Value = Damage> {
    let more = proptest::collection::vec(any::<u8>(), 1..12);
    prop_oneof![
        4 => (any::<Index>(), any::<u8>()).prop_map(|(at, value)| Damage::Byte(at, value)),
        2 => (any::<Index>(), number()).prop_map(|(at, value)| Damage::Long(at, value)),
        2 => (any::<Index>(), number()).prop_map(|(at, value)| Damage::Short(at, value as u32)),
        1 => any::<Index>().prop_map(Damage::Cut),
        1 => (any::<Index>(), more).prop_map(|(at, more)| Damage::More(at, more)),
    ]
}

/// Bytes to which all of that happened.
pub(crate) fn damaged(bytes: &[u8], damages: &[Damage]) -> Bytes {
    let mut bytes = bytes.to_vec();
    damages.iter().for_each(|damage| damage.apply(&mut bytes));
    bytes.into()
}
