//! How much of one kind is under way at a time: each has a slot. How many there may be is known where one is taken.

use std::{cell::Cell, fmt, rc::Rc};

/// Counts the slots that are taken; clones count together.
#[derive(Clone, Default)]
pub struct Slots(Rc<Cell<u64>>);

impl Slots {
    /// Takes a slot until it is dropped.
    pub fn take(&self) -> Slot {
        self.0.set(self.0.get() + 1);
        Slot(Rc::clone(&self.0))
    }

    /// How many are taken.
    pub fn taken(&self) -> u64 {
        self.0.get()
    }
}

/// A slot that is taken, given back when it is dropped.
pub struct Slot(Rc<Cell<u64>>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slots({} taken)", self.taken())
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slot")
    }
}

#[cfg(test)]
mod tests {
    use super::Slots;

    #[test]
    fn a_dropped_slot_is_free_again() {
        let slots = Slots::default();
        let (first, second) = (slots.take(), slots.clone().take());
        assert_eq!(slots.taken(), 2);
        drop(first);
        assert_eq!(slots.taken(), 1);
        drop(second);
        assert_eq!(slots.taken(), 0);
    }
}
