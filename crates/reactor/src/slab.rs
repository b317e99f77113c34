//! Slots with generations: an id that was freed is never mistaken for the one that took its slot.

/// Generations wrap here, so that an id leaves a bit of a u64 unused.
const GENERATION_MAX: u32 = u32::MAX >> 1;

/// Names one value that was inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SlotId {
    /// Position in the slab.
    pub(crate) index: u32,
    /// How often the slot was reused.
    pub(crate) generation: u32,
}

/// Values by [`SlotId`].
pub(crate) struct Slab<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, value: T) -> SlotId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 things at once")
        });
        let slot = &mut self.slots[index as usize];
        slot.1 = Some(value);
        SlotId { index, generation: slot.0 }
    }

    pub(crate) fn get(&self, id: SlotId) -> Option<&T> {
        let (generation, value) = self.slots.get(id.index as usize)?;
        value.as_ref().filter(|_| *generation == id.generation)
    }

    pub(crate) fn get_mut(&mut self, id: SlotId) -> Option<&mut T> {
        let (generation, value) = self.slots.get_mut(id.index as usize)?;
        value.as_mut().filter(|_| *generation == id.generation)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|(_, value)| value.as_mut())
    }

    pub(crate) fn remove(&mut self, id: SlotId) -> Option<T> {
        let (generation, value) = self.slots.get_mut(id.index as usize)?;
        if *generation != id.generation {
            return None;
        }
        let value = value.take()?;
        *generation = (*generation + 1) & GENERATION_MAX;
        self.free.push(id.index);
        Some(value)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn ids(&self) -> Vec<SlotId> {
        let used = self.slots.iter().enumerate().filter(|(_, (_, value))| value.is_some());
        used.map(|(index, (generation, _))| SlotId { index: index as u32, generation: *generation }).collect()
    }
}
