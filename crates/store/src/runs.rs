//! Blocks that belong together: nearly always one run, which takes no memory beside itself.

use std::{iter, ops::Deref, option, slice, vec};

use codec::{Decode, DecodeError, Encode, Features, Reader};

use crate::space::Run;

/// Runs in order. On the device they are a list as any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    One(Run),
    Many(Box<[Run]>),
}

impl Default for Runs {
    fn default() -> Runs {
        Runs::Many(Box::default())
    }
}

impl From<Vec<Run>> for Runs {
    fn from(runs: Vec<Run>) -> Runs {
        match runs[..] {
            [only] => Runs::One(only),
            _ => Runs::Many(runs.into()),
        }
    }
}

impl Deref for Runs {
    type Target = [Run];

    fn deref(&self) -> &[Run] {
        match self {
            Runs::One(only) => slice::from_ref(only),
            Runs::Many(runs) => runs,
        }
    }
}

impl<'a> IntoIterator for &'a Runs {
    type Item = &'a Run;
    type IntoIter = slice::Iter<'a, Run>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for Runs {
    type Item = Run;
    type IntoIter = iter::Chain<option::IntoIter<Run>, vec::IntoIter<Run>>;

    fn into_iter(self) -> Self::IntoIter {
        let (one, many) = match self {
            Runs::One(only) => (Some(only), Vec::new()),
            Runs::Many(runs) => (None, runs.into_vec()),
        };
        one.into_iter().chain(many)
    }
}

impl Encode for Runs {
    fn encode(&self, out: &mut Vec<u8>, f: Features) {
        (self.len() as u32).encode(out, f);
        self.iter().for_each(|run| run.encode(out, f));
    }
}

impl Decode for Runs {
    fn decode(input: &mut Reader) -> Result<Runs, DecodeError> {
        Vec::<Run>::decode(input).map(Runs::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_a_list_on_the_device() {
        let run = |start| Run { start, count: 3 };
        for list in [vec![], vec![run(7)], vec![run(7), run(40)]] {
            let runs = Runs::from(list.clone());
            let bytes = runs.to_bytes(Features::default());
            assert_eq!(bytes, list.to_bytes(Features::default()));
            assert_eq!(Runs::from_bytes(bytes).unwrap(), runs);
            assert_eq!(runs.iter().copied().collect::<Vec<Run>>(), list);
            assert_eq!(runs.into_iter().collect::<Vec<Run>>(), list);
        }
    }
}
