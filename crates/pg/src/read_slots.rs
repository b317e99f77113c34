//! Requests of all PGs of an OSD, or of a shard of it, that keep what they have loaded while they load more: few at a
//! time, as each may hold several times the largest object. PGs whose requests wait for a slot have their turns one
//! after the other. PGs are known by their ids alone.

use std::{cell::RefCell, collections::VecDeque, fmt, rc::Rc};

use types::PgId;

use crate::{Slot, Slots};

/// Slots that there are. The store reads 64 MiB at a time, so that more would not make requests faster.
const READING_MAX: u64 = 4;

/// Counts slots; clones count together.
#[derive(Clone, Default)]
pub struct ReadSlots {
    slots: Slots,
    /// A PG for each request that waits.
    waiting: Rc<RefCell<VecDeque<PgId>>>,
}

impl ReadSlots {
    /// Takes a slot, if one is free that no other request waits for.
    pub(crate) fn take(&self) -> Option<Slot> {
        (self.waiting.borrow().is_empty() && self.slots.taken() < READING_MAX).then(|| self.slots.take())
    }

    /// Takes the slot that was free when the PG's turn came.
    pub(crate) fn take_in_turn(&self) -> Slot {
        self.slots.take()
    }

    /// A request of the PG waits for a slot: the PG gets a turn for it.
    pub(crate) fn wait(&self, pgid: PgId) {
        self.waiting.borrow_mut().push_back(pgid);
    }

    /// The PG whose turn it is to take a slot, which is to be given [`Event::ReadTurn`](crate::Event::ReadTurn). The
    /// caller asks for it after anything that PGs have done, until there is none.
    pub fn next_turn(&self) -> Option<PgId> {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.is_empty() || self.slots.taken() >= READING_MAX { None } else { waiting.pop_front() }
    }

    /// How many are taken.
    pub fn taken(&self) -> u64 {
        self.slots.taken()
    }

    /// How many requests wait for one, those included that have ended meanwhile.
    pub fn waiting(&self) -> usize {
        self.waiting.borrow().len()
    }
}

impl fmt::Debug for ReadSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadSlots({} taken, {} waiting)", self.taken(), self.waiting())
    }
}

#[cfg(test)]
mod tests {
    use types::PoolId;

    use super::*;

    #[test]
    fn a_request_that_comes_later_does_not_overtake_one_that_waits() {
        let slots = ReadSlots::default();
        let mut taken: Vec<Slot> = (0..READING_MAX).map(|_| slots.take().unwrap()).collect();
        assert!(slots.take().is_none());
        let pgs = [7, 3, 7].map(|seed| PgId::new(PoolId(1), seed));
        pgs.into_iter().for_each(|pgid| slots.wait(pgid));
        assert_eq!(slots.next_turn(), None);
        for pgid in pgs {
            taken.pop();
            assert!(slots.take().is_none());
            assert_eq!(slots.next_turn(), Some(pgid));
            taken.push(slots.take_in_turn());
            assert_eq!(slots.next_turn(), None);
        }
        taken.pop();
        assert!(slots.take().is_some());
    }
}
