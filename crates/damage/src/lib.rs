//! For property tests: what becomes of bytes that others may have made, or a device spoilt, and how many cases are
//! tried.
//!
//! How often what happens, and which numbers mean something, each test knows for what it reads.

use bytes::Bytes;
use proptest::{sample::Index, test_runner::Config};

/// Cases that proptest tries unless the variable `PROPTEST_CASES` says something else.
const USUAL_CASES: u32 = 256;

/// So many cases, or as many times more as `PROPTEST_CASES` says more than what is usual.
pub fn cases(number: u32) -> Config {
    let config = Config::default();
    Config { cases: number.saturating_mul(config.cases.div_ceil(USUAL_CASES)), ..config }
}

/// What happens to some bytes. Nothing happens where there are none, unless they get more.
#[derive(Clone, Debug)]
pub enum Damage {
    /// Another byte.
    Byte(Index, u8),
    /// One bit is another; counted modulo eight.
    Bit(Index, u8),
    /// A number of so many bytes, at most eight, the least significant first; as much of it as there is room for.
    Number(Index, u64, usize),
    /// A number of eight bytes is what they begin with: often a length, or a count.
    First(u64),
    /// Some of them, from the first place on, again at the second: what is there twice.
    Again(Index, Index, usize),
    /// These bytes instead of as many.
    Text(Index, &'static str),
    /// Nothing is there from here on.
    Cut(Index),
    /// There is more here, or behind all.
    More(Index, Vec<u8>),
    /// Others altogether.
    Noise(Vec<u8>),
}

impl Damage {
    /// Does what leaves their number as it is.
    pub fn overwrite(&self, bytes: &mut [u8]) {
        let len = bytes.len();
        if len == 0 {
            return;
        }
        match self {
            Damage::Byte(at, value) => bytes[at.index(len)] = *value,
            Damage::Bit(at, bit) => bytes[at.index(len)] ^= 1 << (bit % 8),
            Damage::Number(at, value, width) => {
                let number = value.to_le_bytes();
                put(&mut bytes[at.index(len)..], &number[..number.len().min(*width)]);
            }
            Damage::First(value) => put(bytes, &value.to_le_bytes()),
            Damage::Again(from, to, count) => {
                let from = from.index(len);
                let copy = bytes[from..len.min(from + count)].to_vec();
                put(&mut bytes[to.index(len)..], &copy);
            }
            Damage::Text(..) | Damage::Cut(_) | Damage::More(..) | Damage::Noise(_) => {}
        }
    }

    /// Does it.
    pub fn apply(&self, bytes: &mut Vec<u8>) {
        let len = bytes.len();
        match self {
            Damage::More(at, more) => {
                let at = at.index(len + 1);
                bytes.splice(at..at, more.iter().copied());
            }
            Damage::Noise(noise) => bytes.clone_from(noise),
            Damage::Text(at, text) if len > 0 => {
                let at = at.index(len);
                bytes.splice(at..len.min(at + text.len()), text.bytes());
            }
            Damage::Cut(at) if len > 0 => bytes.truncate(at.index(len)),
            _ => self.overwrite(bytes),
        }
    }
}

/// Puts what there is room for at the beginning.
fn put(bytes: &mut [u8], new: &[u8]) {
    bytes.iter_mut().zip(new).for_each(|(byte, new)| *byte = *new);
}

/// Bytes to which all of that happened, in that order.
pub fn damaged(bytes: &[u8], damages: &[Damage]) -> Bytes {
    let mut bytes = bytes.to_vec();
    damages.iter().for_each(|damage| damage.apply(&mut bytes));
    bytes.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(bytes: &[u8], damage: Damage) -> Vec<u8> {
        damaged(bytes, &[damage]).to_vec()
    }

    proptest! {
        #[test]
        fn each_does_what_it_says(at: Index, to: Index, old in proptest::collection::vec(any::<u8>(), 0..20)) {
            let (len, text) = (old.len(), "ab");
            prop_assert_eq!(one(&old, Damage::More(at, vec![1, 2])).len(), len + 2);
            prop_assert_eq!(one(&old, Damage::Noise(vec![1])), vec![1]);
            let others = [
                Damage::Byte(at, 7), Damage::Bit(at, 9), Damage::Number(at, 0x0102, 2), Damage::First(5),
                Damage::Again(at, to, 3), Damage::Text(at, text), Damage::Cut(at),
            ];
            let new = others.map(|damage| one(&old, damage));
            if len == 0 {
                prop_assert!(new.iter().all(Vec::is_empty));
                return Ok(());
            }
            let [byte, bit, number, first, again, words, cut] = new;
            let (at, to) = (at.index(len), to.index(len));
            prop_assert_eq!((byte[at], bit[at], number[at], first[0]), (7, old[at] ^ 2, 2, 5));
            prop_assert!(number.get(at + 1).is_none_or(|byte| *byte == 1));
            prop_assert_eq!((again[to], words[at], &cut[..]), (old[at], b'a', &old[..at]));
            prop_assert!([byte, bit, number, first, again].iter().all(|bytes| bytes.len() == len));
            prop_assert_eq!(words.len(), len.max(at + text.len()));
        }
    }
}
