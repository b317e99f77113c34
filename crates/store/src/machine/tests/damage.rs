//! Damaged bytes with right checksums: whatever a store finds on its devices, it is an error or a value, never a panic,
//! nor more work or memory than there is to look at.

mod faults;
mod parts;
mod sample;
mod stores;

use proptest::{prelude::*, sample::Index};

use super::*;

/// What happens to some bytes, whose number stays.
#[derive(Clone, Debug)]
enum Damage {
    Byte(Index, u8),
    Bit(Index, u8),
    Half(Index, u32),
    Number(Index, u64),
    /// Some of them again at another place: references and names that are there twice.
    Again(Index, Index, usize),
}

impl Damage {
    fn apply(&self, bytes: &mut [u8]) {
        let len = bytes.len();
        if len == 0 {
            return;
        }
        let mut put = |at: &Index, new: &[u8]| {
            bytes[at.index(len)..].iter_mut().zip(new).for_each(|(byte, new)| *byte = *new);
        };
        match self {
            Damage::Byte(at, value) => put(at, &[*value]),
            Damage::Bit(at, bit) => bytes[at.index(len)] ^= 1 << (bit % 8),
            Damage::Half(at, value) => put(at, &value.to_le_bytes()),
            Damage::Number(at, value) => put(at, &value.to_le_bytes()),
            Damage::Again(from, to, count) => {
                let from = from.index(len);
                let copy = bytes[from..len.min(from + count)].to_vec();
                let to = to.index(len);
                bytes[to..].iter_mut().zip(copy).for_each(|(byte, new)| *byte = new);
            }
        }
    }
}

fn number() -> impl Strategy<Value = u64> {
    // Blocks of a sample, and numbers at which something overflows.
    prop_oneof![
        3 => 0u64..2_048,
        1 => (0u64..20).prop_map(|less| u64::MAX - less),
        1 => (0u32..64).prop_map(|bits| 1u64 << bits),
        1 => any::<u64>(),
    ]
}

fn damage() -> impl Strategy<Value = Damage> {
    let index = any::<Index>;
    prop_oneof![
        3 => (index(), any::<u8>()).prop_map(|(at, value)| Damage::Byte(at, value)),
        3 => (index(), any::<u8>()).prop_map(|(at, bit)| Damage::Bit(at, bit)),
        2 => (index(), number()).prop_map(|(at, value)| Damage::Half(at, value as u32)),
        4 => (index(), number()).prop_map(|(at, value)| Damage::Number(at, value)),
        1 => (index(), index(), 1usize..200).prop_map(|(from, to, count)| Damage::Again(from, to, count)),
    ]
}

/// STORE_DAMAGE_CASES chooses another number of cases than the `default` one.
fn cases(default: u32) -> ProptestConfig {
    let number = std::env::var("STORE_DAMAGE_CASES").ok().and_then(|number| number.parse().ok());
    ProptestConfig::with_cases(number.unwrap_or(default))
}
