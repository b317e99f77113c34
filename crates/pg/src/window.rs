//! Values by consecutive numbers, where most are taken out in the order in which they were put in.
//!
//! A value that stays keeps the slots of all that came after it: each has to be taken out in the end.

use std::collections::VecDeque;

/// A queue of values by consecutive numbers, which begin anew after 2³².
#[derive(Debug)]
pub(crate) struct Window<T> {
    /// The number of the first slot.
    first: u32,
    slots: VecDeque<Option<T>>,
}

impl<T> Default for Window<T> {
    fn default() -> Window<T> {
        Window { first: 0, slots: VecDeque::new() }
    }
}

impl<T> Window<T> {
    /// Puts a value in; its number.
    pub(crate) fn push(&mut self, value: T) -> u32 {
        let number = self.first.wrapping_add(self.slots.len() as u32);
        self.slots.push_back(Some(value));
        number
    }

    /// Takes the value with this number out, if it is there.
    pub(crate) fn take(&mut self, number: u32) -> Option<T> {
        let at = number.wrapping_sub(self.first) as usize;
        let value = self.slots.get_mut(at)?.take();
        while matches!(self.slots.front(), Some(None)) {
            self.slots.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        value
    }

    /// How many values are there.
    pub(crate) fn len(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// All values, oldest first.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    /// All values, oldest first.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_window_is_a_map_whose_numbers_follow_each_other() {
        // It passes the end of the numbers.
        let mut window = Window { first: u32::MAX - 100, slots: VecDeque::new() };
        let mut model = BTreeMap::new();
        for (value, at) in (u64::from(u32::MAX - 100)..).enumerate().take(1_000) {
            let number = window.push(value);
            assert_eq!(number, at as u32);
            model.insert(at, value);
            // Now and then all but a few go, in an order that leaves gaps.
            while model.len() > value % 20 {
                let nth = value * 7 % model.len();
                let number = *model.keys().nth(nth).unwrap();
                assert_eq!(window.take(number as u32), model.remove(&number));
                assert_eq!(window.take(number as u32), None, "it is out");
            }
            assert!(window.values_mut().map(|value| *value).eq(model.values().copied()));
        }
        model.keys().for_each(|number| assert!(window.take(*number as u32).is_some()));
        assert!(window.slots.is_empty());
    }
}
