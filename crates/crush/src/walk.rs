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

    /// A bucket and all above it, each once however many ways lead to it, before those that hold it, which stand
    /// beside it.
    pub(crate) fn upward(&self, id: i32) -> Vec<(i32, Vec<i32>)> {
        let mut parents = BTreeMap::new();
        let mut open = vec![id];
        while let Some(at) = open.pop() {
            parents.entry(at).or_insert_with(|| {
                let above = self.parents_of(at);
                open.extend(&above);
                above
            });
        }
        // How many of those below each bucket are still to come before it.
        let mut waiting: BTreeMap<i32, usize> = BTreeMap::new();
        parents.values().flatten().for_each(|above| *waiting.entry(*above).or_default() += 1);
        let (mut out, mut ready) = (Vec::new(), vec![id]);
        while let Some(at) = ready.pop() {
            let Some(above) = parents.remove(&at) else { continue };
            for parent in &above {
                if let Some(count) = waiting.get_mut(parent) {
                    *count -= 1;
                    ready.extend((*count == 0).then_some(*parent));
                }
            }
            out.push((at, above));
        }
        out
    }
}
