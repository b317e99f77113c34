//! The ways through the hierarchy, down from a bucket and up to the roots. Each meets an item once, however many
//! buckets hold it: a few levels of buckets that two others hold have millions of ways.

use std::collections::{BTreeMap, BTreeSet};

use crate::map::CrushMap;

impl CrushMap {
    /// True when `id` is `top` or below it.
    pub(crate) fn is_below(&self, id: i32, top: i32) -> bool {
        let mut is_found = false;
        self.walk(top, |item| is_found |= item == id);
        is_found
    }

    /// Devices at or below `id`.
    pub fn devices_below(&self, id: i32, out: &mut Vec<i32>) {
        self.walk(id, |item| out.extend((item >= 0).then_some(item)));
    }

    /// Buckets and devices at or below `id`.
    pub fn items_below(&self, id: i32, out: &mut BTreeSet<i32>) {
        self.walk(id, |item| {
            out.insert(item);
        });
    }

    /// Visits `top` and all below it, once each even if linked more than once, parents first.
    fn walk(&self, top: i32, mut visit: impl FnMut(i32)) {
        let (mut open, mut seen) = (vec![top], BTreeSet::new());
        while let Some(id) = open.pop() {
            if seen.insert(id) {
                visit(id);
                open.extend(self.bucket(id).iter().flat_map(|b| b.items.iter().rev()));
            }
        }
    }

    /// Buckets and all above them, each once however many ways lead to it, before those that hold it. Beside each stand
    /// its holders, with its index there.
    pub(crate) fn upward(&self, from: &[i32]) -> Vec<(i32, Vec<(i32, usize)>)> {
        let mut holders: BTreeMap<i32, Vec<(i32, usize)>> = BTreeMap::new();
        for bucket in self.all_buckets().filter(|b| !self.is_shadow(b.id)) {
            for (at, child) in bucket.items.iter().enumerate().filter(|(_, child)| **child < 0) {
                holders.entry(*child).or_default().push((bucket.id, at));
            }
        }
        let mut above = BTreeMap::new();
        let mut open = from.to_vec();
        while let Some(id) = open.pop() {
            above.entry(id).or_insert_with(|| {
                let holders = holders.remove(&id).unwrap_or_default();
                open.extend(holders.iter().map(|(holder, _)| *holder));
                holders
            });
        }
        // How many of those below each bucket are still to come before it.
        let mut waiting: BTreeMap<i32, usize> = BTreeMap::new();
        above.values().flatten().for_each(|(holder, _)| *waiting.entry(*holder).or_default() += 1);
        let mut ready: Vec<i32> = above.keys().copied().filter(|id| !waiting.contains_key(id)).collect();
        let mut out = Vec::new();
        while let Some(id) = ready.pop() {
            let Some(holders) = above.remove(&id) else { continue };
            for (holder, _) in &holders {
                if let Some(count) = waiting.get_mut(holder) {
                    *count -= 1;
                    ready.extend((*count == 0).then_some(*holder));
                }
            }
            out.push((id, holders));
        }
        out
    }
}
