//! Items in several places at once, and buckets that change places or names.
//!
//! Authority: `CrushWrapper::link_bucket`, `remove_item_under`, `_bucket_is_in_use`, `swap_bucket` (16.2).

use crate::{
    edit::EditError,
    map::{CrushMap, step},
};

impl CrushMap {
    /// Buckets that hold the item, without shadows.
    pub fn parents_of(&self, id: i32) -> Vec<i32> {
        let holds = self.all_buckets().filter(|b| b.items.contains(&id) && !self.is_shadow(b.id));
        holds.map(|b| b.id).collect()
    }

    /// Puts a bucket at `location` besides where it is. The nearest bucket named there holds it; buckets that do not
    /// exist are made.
    pub fn link_bucket(&mut self, name: &str, location: &[(String, String)]) -> Result<(), EditError> {
        let id = self.find(name)?;
        let weight = self.bucket(id).ok_or_else(|| EditError::NotFound(format!("bucket {name}")))?.weight;
        let wanted = self.levels(location)?;
        let Some((kind, nearest)) = wanted.first().copied() else { return Ok(()) };
        let above: Vec<(String, String)> = wanted[1..].iter().map(|(_, place)| (*place).clone()).collect();
        self.whole_or_nothing(|map| {
            let parent = match map.id_of(&nearest.1) {
                Some(found) if map.bucket(found).is_some_and(|b| b.kind == kind) => found,
                Some(_) => return Err(EditError::WrongType(nearest.1.clone())),
                None => {
                    let made = map.add_bucket(&nearest.1, &nearest.0)?;
                    map.place(made, 0, &above)?;
                    made
                }
            };
            if map.is_below(parent, id) {
                return Err(EditError::Loop(name.to_owned()));
            }
            if !map.parents_of(id).contains(&parent) {
                map.attach(parent, id, weight);
            }
            Ok(())
        })
    }

    /// Takes an item out of every bucket that holds it, or of those at and below `ancestor`. A bucket stays in the map,
    /// a device that nothing holds any more loses its name. False if it was in none of them.
    pub fn unlink_item(&mut self, name: &str, ancestor: Option<&str>) -> Result<bool, EditError> {
        let id = self.find(name)?;
        let top = ancestor.map(|name| self.find(name)).transpose()?;
        let mut parents = self.parents_of(id);
        parents.retain(|parent| top.is_none_or(|top| self.is_below(*parent, top)));
        self.whole_or_nothing(|map| {
            for parent in &parents {
                map.detach_from(*parent, id);
            }
            if id >= 0 && map.parents_of(id).is_empty() {
                map.names.remove(&id);
                map.classes.remove(&id);
            }
            Ok(!parents.is_empty() || top.is_none())
        })
    }

    /// True when a rule starts from the item, or from its devices of one class. The item may not be removed then: the
    /// next new bucket would get its id, or that of its shadow, and the rule would start from that bucket.
    pub fn is_taken(&self, id: i32) -> bool {
        let is_own = |taken: i32| {
            let mut shadows = self.class_buckets.get(&id).into_iter().flat_map(|by_class| by_class.values());
            taken == id || shadows.any(|shadow| *shadow == taken)
        };
        let mut steps = self.rules.iter().flatten().flat_map(|rule| &rule.steps);
        steps.any(|s| s.op == step::TAKE && is_own(s.arg1))
    }

    /// Renames a bucket.
    pub fn rename_bucket(&mut self, from: &str, to: &str) -> Result<(), EditError> {
        let id = self.find(from)?;
        self.check_new_name(to)?;
        if id >= 0 {
            return Err(EditError::NotBucket(from.to_owned()));
        }
        self.whole_or_nothing(|map| {
            map.names.insert(id, to.to_owned());
            Ok(())
        })
    }

    /// Gives two buckets each other's items and names, so that each stands where the other stood.
    pub fn swap_buckets(&mut self, a: &str, b: &str) -> Result<(), EditError> {
        let (first, second) = (self.find(a)?, self.find(b)?);
        for (name, id) in [(a, first), (b, second)] {
            self.bucket(id).ok_or_else(|| EditError::NotFound(format!("bucket {name}")))?;
        }
        if self.is_below(first, second) || self.is_below(second, first) {
            return Err(EditError::Loop(a.to_owned()));
        }
        let (of_first, of_second) = (self.weighed_items(first), self.weighed_items(second));
        self.whole_or_nothing(|map| {
            for (bucket, old, new) in [(first, &of_first, &of_second), (second, &of_second, &of_first)] {
                old.iter().for_each(|(item, _)| map.detach_from(bucket, *item));
                new.iter().for_each(|(item, weight)| map.attach(bucket, *item, *weight));
            }
            map.names.insert(first, b.to_owned());
            map.names.insert(second, a.to_owned());
            Ok(())
        })
    }

    fn weighed_items(&self, id: i32) -> Vec<(i32, u32)> {
        let Some(bucket) = self.bucket(id) else { return Vec::new() };
        bucket.items.iter().enumerate().map(|(at, item)| (*item, bucket.item_weight(at))).collect()
    }
}
