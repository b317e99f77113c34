//! What is kept for each epoch of a map, in parts that copies share: there may be very many epochs, and the states
//! before and after a change are both in memory.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use types::Epoch;

/// Epochs in a part. A change copies one part, and the list of all, where another copy has them, too.
const PART: u32 = 256;

type Part = BTreeMap<Epoch, Bytes>;

/// Bytes by epoch.
#[derive(Clone, Debug, Default)]
pub(crate) struct EpochMap {
    /// None of them is empty.
    parts: Arc<BTreeMap<u32, Arc<Part>>>,
}

impl EpochMap {
    pub(crate) fn get(&self, epoch: Epoch) -> Option<&Bytes> {
        self.parts.get(&(epoch.0 / PART))?.get(&epoch)
    }

    /// All from this epoch on, in order.
    pub(crate) fn from(&self, first: Epoch) -> impl Iterator<Item = (Epoch, &Bytes)> {
        let parts = self.parts.range(first.0 / PART..);
        parts.flat_map(move |(_, part)| part.range(first..).map(|(epoch, bytes)| (*epoch, bytes)))
    }

    /// The oldest epoch.
    pub(crate) fn first(&self) -> Option<Epoch> {
        self.from(Epoch(0)).next().map(|(epoch, _)| epoch)
    }

    /// Sets what is kept for an epoch, or drops it.
    pub(crate) fn set(&mut self, epoch: Epoch, value: Option<Bytes>) {
        let (parts, at) = (Arc::make_mut(&mut self.parts), epoch.0 / PART);
        match value {
            Some(value) => {
                Arc::make_mut(parts.entry(at).or_default()).insert(epoch, value);
            }
            None => {
                let Some(part) = parts.get_mut(&at) else { return };
                Arc::make_mut(part).remove(&epoch);
                if part.is_empty() {
                    parts.remove(&at);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(epochs: std::ops::RangeInclusive<u32>) -> EpochMap {
        let mut map = EpochMap::default();
        for epoch in epochs {
            map.set(Epoch(epoch), Some(Bytes::from(epoch.to_string())));
        }
        map
    }

    #[test]
    fn epochs_are_in_order_over_all_parts() {
        let mut map = filled(10..=1_000);
        let from =
            |map: &EpochMap, first| map.from(Epoch(first)).map(|(epoch, _)| epoch.0).collect::<Vec<_>>();
        assert_eq!(from(&map, 0), (10..=1_000).collect::<Vec<_>>());
        assert_eq!(from(&map, 255), (255..=1_000).collect::<Vec<_>>());
        assert_eq!((map.first(), from(&map, 1_001)), (Some(Epoch(10)), vec![]));
        assert_eq!(map.get(Epoch(512)).map(|bytes| &bytes[..]), Some(&b"512"[..]));
        (10..=600).for_each(|epoch| map.set(Epoch(epoch), None));
        map.set(Epoch(5_000), None);
        assert_eq!((map.first(), map.get(Epoch(600)), map.parts.len()), (Some(Epoch(601)), None, 2));
    }

    #[test]
    fn a_change_copies_one_part() {
        let before = filled(1..=10_000);
        let mut after = before.clone();
        after.set(Epoch(10_001), Some(Bytes::new()));
        after.set(Epoch(9_990), None);
        let is_shared = |at: &u32| Arc::ptr_eq(&before.parts[at], &after.parts[at]);
        assert_eq!(before.parts.keys().filter(|at| !is_shared(at)).count(), 1);
        assert_eq!((before.get(Epoch(10_001)), before.get(Epoch(9_990)).is_some()), (None, true));
    }
}
