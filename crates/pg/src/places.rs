//! How much of one kind is under way at a time: each has a place. How many there may be is known where one is taken.

use std::{cell::Cell, fmt, rc::Rc};

/// Counts the places that are taken; clones count together.
#[derive(Clone, Default)]
pub struct Places(Rc<Cell<u64>>);

impl Places {
    /// Takes a place until it is dropped.
    pub fn take(&self) -> Place {
        self.0.set(self.0.get() + 1);
        Place(Rc::clone(&self.0))
    }

    /// How many are taken.
    pub fn taken(&self) -> u64 {
        self.0.get()
    }
}

/// A place that is taken, given back when it is dropped.
pub struct Place(Rc<Cell<u64>>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Places({} taken)", self.taken())
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Place")
    }
}

#[cfg(test)]
mod tests {
    use super::Places;

    #[test]
    fn a_dropped_place_is_free_again() {
        let places = Places::default();
        let (first, second) = (places.take(), places.clone().take());
        assert_eq!(places.taken(), 2);
        drop(first);
        assert_eq!(places.taken(), 1);
        drop(second);
        assert_eq!(places.taken(), 0);
    }
}
