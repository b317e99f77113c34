//! Shadow buckets: for each device class, a copy of the hierarchy with the devices of that class alone, which rules
//! start from.
//!
//! Authority: `CrushWrapper::device_class_clone`, `rebuild_roots_with_classes` (16.2).

use std::collections::{BTreeMap, BTreeSet};

use crate::map::{BucketAlg, CrushMap, slot};

/// What is known while shadows are made.
#[derive(Default)]
struct Made {
    /// The shadow of a bucket for a class.
    shadows: BTreeMap<(i32, i32), i32>,
    /// No slot below this one is free.
    first_free: usize,
}

impl CrushMap {
    /// Makes the shadow trees of all classes anew; shadows keep their ids, as rules take them.
    pub(crate) fn rebuild_shadows(&mut self) {
        let used: Vec<i32> = self.class_names.keys().copied().collect();
        let roots = self.roots();
        let mut made = Made::default();
        for class in used {
            for root in &roots {
                self.build_shadow(*root, class, &mut made);
            }
        }
        let wanted: BTreeSet<i32> = made.shadows.values().copied().collect();
        let is_stale = |id: &i32| self.is_shadow(*id) && !wanted.contains(id);
        let stale: Vec<i32> = self.names.keys().copied().filter(is_stale).collect();
        for id in stale {
            self.names.remove(&id);
            self.classes.remove(&id);
            self.weight_sets_forget(id);
            if let Some(slot) = slot(id) {
                self.buckets[slot] = None;
            }
        }
        self.class_buckets.clear();
        for ((bucket, class), shadow) in made.shadows {
            self.class_buckets.entry(bucket).or_default().insert(class, shadow);
        }
    }

    /// The shadow of `id` for `class`: devices of the class, and shadows below. Its id and weight.
    fn build_shadow(&mut self, id: i32, class: i32, made: &mut Made) -> Option<(i32, u32)> {
        // A bucket that two others hold has one shadow for both.
        if let Some(shadow) = made.shadows.get(&(id, class)) {
            return Some((*shadow, self.bucket(*shadow)?.weight));
        }
        let original = self.bucket(id)?.clone();
        let mut items = Vec::new();
        for (at, item) in original.items.iter().enumerate() {
            if *item >= 0 {
                if self.classes.get(item) == Some(&class) {
                    items.push((*item, original.item_weight(at)));
                }
            } else {
                items.extend(self.build_shadow(*item, class, made));
            }
        }
        let class_name = self.class_names.get(&class).cloned().unwrap_or_default();
        let name = format!("{}~{class_name}", self.names.get(&id).map_or("", String::as_str));
        let known = self.class_buckets.get(&id).and_then(|c| c.get(&class)).copied();
        let shadow = known.unwrap_or_else(|| {
            let new = self.new_bucket(made.first_free, &name, original.kind);
            made.first_free = slot(new).map_or(0, |slot| slot + 1);
            new
        });
        self.names.insert(shadow, name);
        self.classes.insert(shadow, class);
        let weight = items.iter().fold(0u32, |sum, (_, w)| sum.saturating_add(*w));
        if let Some(bucket) = self.bucket_mut(shadow) {
            bucket.items = items.iter().map(|(item, _)| *item).collect();
            bucket.alg = BucketAlg::Straw2 { item_weights: items.iter().map(|(_, w)| *w).collect() };
            bucket.weight = weight;
        }
        self.weight_sets_copy(id, shadow);
        made.shadows.insert((id, class), shadow);
        Some((shadow, weight))
    }
}
