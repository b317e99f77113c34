//! How many places the items of a map have: a bucket that two others hold stands in two places, with all below it.
//!
//! A few levels of buckets, each held twice, have millions of places, and a listing of the tree has a line for each. No
//! decoder counts them, so a map that is in use stays readable.

use std::collections::BTreeSet;

use crate::{
    edit::EditError,
    map::{Bucket, CrushMap, slot},
};

/// The most places in a map: those of some 100,000 devices and their shadows, which is more than any cluster has. A
/// listing of so many takes some 300 MiB.
pub const PLACES_MAX: usize = 1 << 18;

impl CrushMap {
    /// The places of all items, shadows included: as these are, or as they become when they are made anew, whichever
    /// are more.
    pub(crate) fn places(&self) -> u64 {
        let below = |bucket: &Bucket| bucket.items.iter().filter_map(|id| slot(*id)).collect::<Vec<_>>();
        // For each bucket: the holders that were not counted yet, and the places that the others give it.
        let mut waiting = vec![0usize; self.buckets.len()];
        let mut places = vec![0u64; self.buckets.len()];
        for at in self.all_buckets().flat_map(below) {
            if let Some(holders) = waiting.get_mut(at) {
                *holders += 1;
            }
        }
        let mut open: Vec<usize> = (0..waiting.len()).filter(|at| waiting[*at] == 0).collect();
        open.iter().for_each(|root| places[*root] = 1);
        let (mut as_is, mut anew) = (0u64, 0u64);
        while let Some(at) = open.pop() {
            let Some(bucket) = &self.buckets[at] else { continue };
            let devices = bucket.items.iter().filter(|id| **id >= 0);
            let own = devices.clone().count() as u64 + 1;
            as_is = as_is.saturating_add(places[at].saturating_mul(own));
            if !self.is_shadow(bucket.id) {
                let is_classed = |id: &&i32| self.device_class(**id).is_some();
                let of_classes = devices.filter(is_classed).count() + self.class_names.len();
                anew = anew.saturating_add(places[at].saturating_mul(own + of_classes as u64));
            }
            for child in below(bucket) {
                let Some(holders) = waiting.get_mut(child) else { continue };
                *holders -= 1;
                if *holders == 0 {
                    open.push(child);
                }
                places[child] = places[child].saturating_add(places[at]);
            }
        }
        as_is.max(anew)
    }

    /// Refuses a map whose items have too many places, or that has an item twice in one bucket: no change could say
    /// which of the two it is for. For maps that come from outside.
    pub fn check_places(&self) -> Result<(), EditError> {
        for bucket in self.all_buckets() {
            let mut seen = BTreeSet::new();
            if let Some(twice) = bucket.items.iter().find(|id| !seen.insert(**id)) {
                let name = |id: i32| self.names.get(&id).cloned().unwrap_or_else(|| id.to_string());
                return Err(EditError::Twice(name(*twice), name(bucket.id)));
            }
        }
        self.may_have_places(PLACES_MAX as u64)
    }

    /// Refuses a change of `before` that gives items too many places, unless there are no more than before.
    pub(crate) fn may_follow(&self, before: &CrushMap) -> Result<(), EditError> {
        self.may_have_places((PLACES_MAX as u64).max(before.places()))
    }

    fn may_have_places(&self, max: u64) -> Result<(), EditError> {
        if self.places() > max { Err(EditError::TooManyPlaces) } else { Ok(()) }
    }
}
