//! Weight sets (`choose_args`) follow the changes of `edit`: each has one weight per item of its
//! bucket, or no decoder takes the map.
//!
//! Authority: `CrushWrapper::bucket_add_item`, `bucket_remove_item`,
//! `choose_args_adjust_item_weight_in_bucket`, `device_class_clone` (16.2).

use std::collections::BTreeMap;

use crate::map::{Bucket, ChooseArg, CrushMap, slot};

/// Where a weight set for all pools without one of their own is kept.
pub const COMPAT_SET: i64 = -1;

impl CrushMap {
    /// Makes a weight set of so many positions, with the weights that items have; `set` is a pool's id or
    /// [`COMPAT_SET`]. False if it is there already.
    pub fn create_weight_set(&mut self, set: i64, positions: usize) -> bool {
        if self.choose_args.contains_key(&set) {
            return false;
        }
        let arg = |b: &Bucket| Some((key(b.id)?, with_own_weights(b, positions)));
        let args = self.all_buckets().filter_map(arg).collect();
        self.choose_args.insert(set, args);
        true
    }

    /// How many weights an item has in a set; [`None`] without the set.
    pub fn weight_set_positions(&self, set: i64) -> Option<usize> {
        let args = self.choose_args.get(&set)?;
        Some(args.values().map(|arg| arg.weight_set.len()).max().unwrap_or(1))
    }

    /// Gives an item other weights in a set, a weight for each position. Buckets that were made after the set are added
    /// to it with their own weights. False if nothing changed: no bucket holds the item, and all buckets are in the
    /// set.
    pub fn reweigh_in_set(&mut self, set: i64, item: i32, weights: &[u32]) -> bool {
        let mut changed = self.complete_weight_set(set, weights.len());
        for parent in self.parents_of(item) {
            let at = self.bucket(parent).and_then(|b| b.items.iter().position(|i| *i == item));
            let arg = key(parent).and_then(|k| self.choose_args.get_mut(&set)?.get_mut(&k));
            let (Some(at), Some(arg)) = (at, arg) else { continue };
            for (own, weight) in arg.weight_set.iter_mut().zip(weights) {
                if let Some(own) = own.get_mut(at) {
                    *own = *weight;
                }
            }
            changed.push(parent);
        }
        self.weight_sets_pass_on(&changed);
        self.rebuild_shadows();
        !changed.is_empty()
    }

    /// Adds all buckets that are missing in a set, and returns which these are.
    fn complete_weight_set(&mut self, set: i64, positions: usize) -> Vec<i32> {
        let is_absent = |b: &&Bucket| {
            let arg = key(b.id).and_then(|k| self.choose_args.get(&set)?.get(&k));
            arg.is_none_or(|arg| arg.weight_set.is_empty())
        };
        let absent: Vec<(i32, ChooseArg)> =
            self.all_buckets().filter(is_absent).map(|b| (b.id, with_own_weights(b, positions))).collect();
        let Some(args) = self.choose_args.get_mut(&set) else { return Vec::new() };
        for (bucket, arg) in &absent {
            if let Some(key) = key(*bucket) {
                args.entry(key).or_default().weight_set.clone_from(&arg.weight_set);
            }
        }
        absent.into_iter().map(|(bucket, _)| bucket).collect()
    }

    /// Updates what holds these buckets, up to the roots: in all sets, each bucket weighs what its items weigh.
    fn weight_sets_pass_on(&mut self, buckets: &[i32]) {
        for (child, holders) in self.upward(buckets) {
            for (holder, at) in holders {
                self.weight_sets_sum_up(holder, at, child);
            }
        }
    }

    fn args_of_bucket(&mut self, bucket: i32) -> impl Iterator<Item = &mut ChooseArg> {
        let key = key(bucket);
        self.choose_args.values_mut().filter_map(move |set| set.get_mut(&key?))
    }

    /// `item` became the last of `bucket`.
    pub(crate) fn weight_sets_push(&mut self, bucket: i32, item: i32, weight: u32) {
        for arg in self.args_of_bucket(bucket) {
            arg.weight_set.iter_mut().for_each(|weights| weights.push(weight));
            if !arg.ids.is_empty() {
                arg.ids.push(item);
            }
        }
    }

    /// The item at `index` of `bucket` went.
    pub(crate) fn weight_sets_remove(&mut self, bucket: i32, index: usize) {
        for arg in self.args_of_bucket(bucket) {
            arg.weight_set.iter_mut().filter(|w| index < w.len()).for_each(|weights| {
                weights.remove(index);
            });
            if index < arg.ids.len() {
                arg.ids.remove(index);
            }
        }
    }

    /// The device at `index` of `bucket` got another weight, which becomes its weight in all sets.
    pub(crate) fn weight_sets_assign(&mut self, bucket: i32, index: usize, weight: u32) {
        for arg in self.args_of_bucket(bucket) {
            arg.weight_set.iter_mut().filter_map(|w| w.get_mut(index)).for_each(|w| *w = weight);
        }
    }

    /// `child`, at `index` of `bucket`, weighs in each set what its items weigh there.
    pub(crate) fn weight_sets_sum_up(&mut self, bucket: i32, index: usize, child: i32) {
        let own = self.bucket(child).map_or(0, |b| b.weight);
        let (Some(key), Some(child)) = (key(bucket), key(child)) else { return };
        for set in self.choose_args.values_mut() {
            let Some(mut arg) = set.remove(&key) else { continue };
            for (position, weights) in arg.weight_set.iter_mut().enumerate() {
                if let Some(weight) = weights.get_mut(index) {
                    *weight = sum_at(set.get(&child), position).unwrap_or(own);
                }
            }
            set.insert(key, arg);
        }
    }

    /// Gives `shadow` the weights that its items have in the sets of `original`; shadows below it
    /// have theirs already.
    pub(crate) fn weight_sets_copy(&mut self, original: i32, shadow: i32) {
        if self.choose_args.is_empty() {
            return;
        }
        let (Some(from), Some(to)) = (self.bucket(original), self.bucket(shadow)) else { return };
        let index: BTreeMap<i32, usize> =
            from.items.iter().enumerate().map(|(at, item)| (*item, at)).collect();
        // For each item: its index in the original, or the shadow that weighs for it.
        let item = |(at, item): (usize, &i32)| (index.get(item).copied(), *item, to.item_weight(at));
        let items: Vec<(Option<usize>, i32, u32)> = to.items.iter().enumerate().map(item).collect();
        let (Some(from), Some(to)) = (key(original), key(shadow)) else { return };
        for set in self.choose_args.values_mut() {
            let positions: Vec<Vec<u32>> = set.get(&from).map_or(Vec::new(), |a| a.weight_set.clone());
            if positions.is_empty() {
                set.remove(&to);
                continue;
            }
            let weigh = |position: usize, (index, item, own): &(Option<usize>, i32, u32)| match index {
                Some(index) => positions[position].get(*index).copied().unwrap_or(*own),
                None => key(*item).and_then(|k| sum_at(set.get(&k), position)).unwrap_or(*own),
            };
            let weight_set = (0..positions.len())
                .map(|position| items.iter().map(|item| weigh(position, item)).collect())
                .collect();
            set.insert(to, ChooseArg { weight_set, ids: Vec::new() });
        }
    }

    /// `bucket` is gone: its slot may serve another.
    pub(crate) fn weight_sets_forget(&mut self, bucket: i32) {
        if let Some(key) = key(bucket) {
            self.choose_args.values_mut().for_each(|set| {
                set.remove(&key);
            });
        }
    }
}

fn with_own_weights(bucket: &Bucket, positions: usize) -> ChooseArg {
    let weights: Vec<u32> = (0..bucket.items.len()).map(|at| bucket.item_weight(at)).collect();
    ChooseArg { weight_set: vec![weights; positions], ids: Vec::new() }
}

/// Weight sets are kept by bucket slot.
fn key(bucket: i32) -> Option<u32> {
    slot(bucket).and_then(|slot| u32::try_from(slot).ok())
}

/// What a bucket weighs at a position; the last serves all behind, as in the mapper.
fn sum_at(arg: Option<&ChooseArg>, position: usize) -> Option<u32> {
    let sets = &arg?.weight_set;
    let weights = sets.get(position).or(sets.last())?;
    Some(weights.iter().fold(0u32, |sum, weight| sum.saturating_add(*weight)))
}
