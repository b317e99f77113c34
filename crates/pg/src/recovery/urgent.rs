//! Objects that ops wait for, in the order in which ops began to wait: the first one goes first, however many come
//! after.

use std::collections::BTreeMap;

use types::HObject;

/// The objects that ops wait for, in order.
#[derive(Debug, Default)]
pub(super) struct Urgent {
    in_order: BTreeMap<u64, HObject>,
    places: BTreeMap<HObject, u64>,
    last: u64,
}

impl Urgent {
    /// Takes an object in behind the others. False if it is among them.
    pub(super) fn insert(&mut self, head: &HObject) -> bool {
        let is_new = !self.places.contains_key(head);
        if is_new {
            self.last += 1;
            self.in_order.insert(self.last, head.clone());
            self.places.insert(head.clone(), self.last);
        }
        is_new
    }

    /// No op waits for the object any more.
    pub(super) fn remove(&mut self, head: &HObject) {
        if let Some(place) = self.places.remove(head) {
            self.in_order.remove(&place);
        }
    }

    pub(super) fn contains(&self, head: &HObject) -> bool {
        self.places.contains_key(head)
    }

    /// Those first that are waited for longest.
    pub(super) fn iter(&self) -> impl Iterator<Item = &HObject> {
        self.in_order.values()
    }
}
