//! Weight sets (`choose_args`) follow the changes of `edit`: each has one weight per item of its
//! bucket, or no decoder takes the map.
//!
//! Authority: `CrushWrapper::bucket_add_item`, `bucket_remove_item`,
//! `choose_args_adjust_item_weight_in_bucket`, `device_class_clone` (16.2).

use crate::map::{ChooseArg, CrushMap, slot};

impl CrushMap {
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

    /// The device at `index` of `bucket` got another weight: it is its weight in all sets.
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
        let (Some(from), Some(to)) = (self.bucket(original), self.bucket(shadow)) else { return };
        // For each item: its index in the original, or the shadow that weighs for it.
        let items: Vec<(Option<usize>, i32, u32)> = to
            .items
            .iter()
            .enumerate()
            .map(|(at, item)| (from.items.iter().position(|i| i == item), *item, to.item_weight(at)))
            .collect();
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
