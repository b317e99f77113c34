//! Changes to a map as the monitor makes them; weights follow up to the root, shadows of device
//! classes are rebuilt.

use std::collections::BTreeSet;

use thiserror::Error;

use crate::{
    binary::{LEVELS_MAX, SLOTS_MAX},
    map::{Bucket, BucketAlg, CrushMap, Rule, Step, slot, step},
    places::PLACES_MAX,
};

/// Why a change was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EditError {
    /// No item, type, class or rule of that name.
    #[error("{0} does not exist")]
    NotFound(String),
    /// The name is taken.
    #[error("{0} already exists")]
    Exists(String),
    /// A bucket with items cannot go.
    #[error("bucket {0} is not empty")]
    NotEmpty(String),
    /// The item would be below itself.
    #[error("{0} cannot be moved below itself")]
    Loop(String),
    /// A rule or pool needs it.
    #[error("{0} is in use")]
    InUse(String),
    /// A name may hold letters, digits, `-`, `_` and `.` only.
    #[error("{0} is not a valid name")]
    BadName(String),
    /// A location names a bucket by another type than it has.
    #[error("{0} is of another type")]
    WrongType(String),
    /// A device, where a bucket is wanted.
    #[error("{0} is not a bucket")]
    NotBucket(String),
    /// A device's id is negative or larger than any map has.
    #[error("osd.{0} is not a valid device")]
    BadDevice(i32),
    /// The items of the map would have more than [`PLACES_MAX`] places.
    #[error("the hierarchy would have more than {} places", PLACES_MAX)]
    TooManyPlaces,
    /// A location names more than [`LEVELS_MAX`] buckets.
    #[error("the hierarchy would have more than {} levels", LEVELS_MAX)]
    TooManyLevels,
    /// The first is twice in the second.
    #[error("{0} is twice in {1}")]
    Twice(String, String),
}

/// What sets a rule for erasure-coded pools apart from one for replicated ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleForm {
    /// Each copy has a place of its own, which stays empty where no device is found.
    pub is_indep: bool,
    /// The type of the pools that the rule serves: 1 replicated, 3 erasure-coded.
    pub pool_kind: u8,
    /// The smallest and the largest size of these pools.
    pub sizes: (u8, u8),
}

impl RuleForm {
    /// For replicated pools.
    pub const REPLICATED: RuleForm = RuleForm { is_indep: false, pool_kind: 1, sizes: (1, 10) };
}

/// Ceph's types, by number.
const TYPES: &[&str] =
    &["osd", "host", "chassis", "rack", "row", "pdu", "pod", "room", "datacenter", "zone", "region", "root"];

/// A bucket of a location: the number of its type; the type's name and its own.
type Level<'a> = (u16, &'a (String, String));

impl CrushMap {
    /// A map with Ceph's types, a root `default`, and no devices.
    pub fn initial() -> CrushMap {
        let type_names = (0i32..).zip(TYPES).map(|(id, name)| (id, (*name).to_owned())).collect();
        let mut map = CrushMap { type_names, ..CrushMap::default() };
        map.add_bucket("default", "root").expect("the map is empty and has the type");
        map
    }

    pub(crate) fn check_new_name(&self, name: &str) -> Result<(), EditError> {
        let is_valid = !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
        if !is_valid {
            return Err(EditError::BadName(name.to_owned()));
        }
        if self.id_of(name).is_some() { Err(EditError::Exists(name.to_owned())) } else { Ok(()) }
    }

    pub(crate) fn find(&self, name: &str) -> Result<i32, EditError> {
        self.id_of(name).ok_or_else(|| EditError::NotFound(name.to_owned()))
    }

    /// The number of a type of buckets. A map that an operator made may name types by numbers that no bucket can have.
    pub(crate) fn bucket_type(&self, name: &str) -> Result<u16, EditError> {
        let kind = self.type_of(name).and_then(|kind| u16::try_from(kind).ok()).filter(|kind| *kind > 0);
        kind.ok_or_else(|| EditError::NotFound(format!("type {name}")))
    }

    /// Makes an empty bucket in the first free slot. None below `first` is free.
    pub(crate) fn new_bucket(&mut self, first: usize, name: &str, kind: u16) -> i32 {
        let mut slots = first..self.buckets.len();
        let free = slots.find(|at| self.buckets[*at].is_none()).unwrap_or(self.buckets.len());
        if free == self.buckets.len() {
            // Ceph doubles its table of buckets; clients see its size only.
            self.buckets.resize(if free == 0 { 8 } else { free * 2 }, None);
        }
        let id = -1 - free as i32;
        // A map may come with weights of a bucket that was there once.
        self.weight_sets_forget(id);
        let alg = BucketAlg::Straw2 { item_weights: Vec::new() };
        let bucket = Bucket { id, kind, alg, hash: 0, weight: 0, items: Vec::new() };
        self.buckets[free] = Some(bucket);
        self.names.insert(id, name.to_owned());
        id
    }

    /// Makes an empty bucket of a type, below nothing.
    pub fn add_bucket(&mut self, name: &str, type_name: &str) -> Result<i32, EditError> {
        self.check_new_name(name)?;
        let kind = self.bucket_type(type_name)?;
        Ok(self.new_bucket(0, name, kind))
    }

    /// Puts a device at `location` (type name to bucket name), or moves it there: into the nearest bucket named there
    /// that exists, with those below it made. `weight` is 16.16.
    pub fn place_device(
        &mut self,
        device: i32,
        name: &str,
        weight: u32,
        location: &[(String, String)],
    ) -> Result<(), EditError> {
        if !usize::try_from(device).is_ok_and(|device| device < SLOTS_MAX) {
            return Err(EditError::BadDevice(device));
        }
        self.whole_or_nothing(|map| {
            map.max_devices = map.max_devices.max(device + 1);
            map.names.insert(device, name.to_owned());
            map.place(device, weight, location)
        })
    }

    /// Makes a change, and the shadows after it; device classes that nothing uses go. The map stays as it was where the
    /// change is refused, or would give items too many places. A map that already has too many may get fewer.
    pub(crate) fn whole_or_nothing<T>(
        &mut self,
        change: impl FnOnce(&mut CrushMap) -> Result<T, EditError>,
    ) -> Result<T, EditError> {
        let mut changed = self.clone();
        let out = change(&mut changed)?;
        changed.forget_unused_classes();
        changed.may_follow(self)?;
        changed.rebuild_shadows();
        *self = changed;
        Ok(out)
    }

    /// The buckets of a location with the numbers of their types, from the lowest up.
    pub(crate) fn levels<'a>(&self, location: &'a [(String, String)]) -> Result<Vec<Level<'a>>, EditError> {
        if location.len() > LEVELS_MAX {
            return Err(EditError::TooManyLevels);
        }
        let level = |place: &'a (String, String)| Ok((self.bucket_type(&place.0)?, place));
        let mut levels = location.iter().map(level).collect::<Result<Vec<_>, EditError>>()?;
        levels.sort_unstable();
        Ok(levels)
    }

    /// Moves a device or a bucket, with all below it, to `location`, which is read as by `place_device`.
    pub fn move_item(&mut self, name: &str, location: &[(String, String)]) -> Result<(), EditError> {
        let id = self.find(name)?;
        let weight = self.item_weight(id).or_else(|| self.bucket(id).map(|b| b.weight)).unwrap_or(0);
        self.whole_or_nothing(|map| map.place(id, weight, location))
    }

    pub(crate) fn place(
        &mut self,
        id: i32,
        weight: u32,
        location: &[(String, String)],
    ) -> Result<(), EditError> {
        // From the lowest bucket up: make those that are missing, and hang each below the next.
        let mut child = id;
        let mut child_weight = weight;
        for (kind, (_, name)) in self.levels(location)? {
            let (bucket, is_new) = match self.id_of(name) {
                Some(found) if found < 0 => {
                    if self.bucket(found).is_none_or(|b| b.kind != kind) {
                        return Err(EditError::WrongType(name.clone()));
                    }
                    (found, false)
                }
                Some(_) => return Err(EditError::Exists(name.clone())),
                None => {
                    self.check_new_name(name)?;
                    (self.new_bucket(0, name, kind), true)
                }
            };
            if child < 0 && self.is_below(bucket, child) {
                return Err(EditError::Loop(self.names.get(&child).cloned().unwrap_or_default()));
            }
            if self.parent_of(child) != Some(bucket) {
                self.detach(child);
                self.attach(bucket, child, child_weight);
            } else if child == id {
                self.set_weights(&[child].into(), Some(bucket), child_weight);
            }
            // A bucket that exists stays where it is, also where that is below nothing (`CrushWrapper::insert_item`).
            if !is_new {
                break;
            }
            child_weight = self.bucket(bucket).map_or(0, |b| b.weight);
            child = bucket;
        }
        Ok(())
    }

    pub(crate) fn attach(&mut self, parent: i32, item: i32, weight: u32) {
        if let Some(bucket) = self.bucket_mut(parent) {
            bucket.items.push(item);
            bucket.push_weight(weight);
        }
        self.weight_sets_push(parent, item, weight);
        if let Some(at) = self.bucket(parent).map(|b| b.items.len() - 1).filter(|_| item < 0) {
            self.weight_sets_sum_up(parent, at, item);
        }
        self.reweigh_up(&[parent]);
    }

    fn detach(&mut self, item: i32) {
        self.parents_of(item).into_iter().for_each(|parent| self.detach_from(parent, item));
    }

    /// Takes the item out of one bucket.
    pub(crate) fn detach_from(&mut self, parent: i32, item: i32) {
        // An older map may have the item twice.
        while let Some(bucket) = self.bucket_mut(parent)
            && let Some(at) = bucket.items.iter().position(|i| *i == item)
        {
            bucket.straw2_weights().remove(at);
            bucket.items.remove(at);
            self.weight_sets_remove(parent, at);
        }
        self.reweigh_up(&[parent]);
    }

    /// Sets the weight of items in every bucket that holds them, or in one only.
    fn set_weights(&mut self, items: &BTreeSet<i32>, only: Option<i32>, weight: u32) {
        let is_holder = |id: i32| only.map_or_else(|| !self.is_shadow(id), |only| id == only);
        let mut places = Vec::new();
        for bucket in self.all_buckets().filter(|bucket| is_holder(bucket.id)) {
            let held = bucket.items.iter().enumerate().filter(|(_, item)| items.contains(item));
            places.extend(held.map(|(at, item)| (bucket.id, at, *item)));
        }
        for (holder, at, item) in &places {
            let Some(bucket) = self.bucket_mut(*holder) else { continue };
            let is_changed = bucket.item_weight(*at) != weight;
            bucket.set_weight(*at, weight);
            // A set may weigh a device otherwise on purpose: only a real change overrides it.
            if is_changed && *item >= 0 {
                self.weight_sets_assign(*holder, *at, weight);
            }
        }
        let holders: BTreeSet<i32> = places.iter().map(|(holder, ..)| *holder).collect();
        self.reweigh_up(&Vec::from_iter(holders));
    }

    /// Sums the weights of buckets and passes the sums on to those above.
    fn reweigh_up(&mut self, buckets: &[i32]) {
        for (id, holders) in self.upward(buckets) {
            let Some(bucket) = self.bucket_mut(id) else { continue };
            let sum = (0..bucket.items.len()).fold(0u32, |sum, i| sum.saturating_add(bucket.item_weight(i)));
            bucket.weight = sum;
            for (holder, at) in holders {
                if let Some(above) = self.bucket_mut(holder) {
                    above.set_weight(at, sum);
                    self.weight_sets_sum_up(holder, at, id);
                }
            }
        }
    }

    /// Sets the weight of a device, or of every device below a bucket.
    pub fn reweight(&mut self, name: &str, weight: u32) -> Result<(), EditError> {
        let id = self.find(name)?;
        let mut devices = Vec::new();
        self.devices_below(id, &mut devices);
        self.whole_or_nothing(|map| {
            map.set_weights(&devices.into_iter().collect(), None, weight);
            Ok(())
        })
    }

    /// Sums the weights of all buckets anew.
    pub fn reweight_all(&mut self) -> Result<(), EditError> {
        self.whole_or_nothing(|map| {
            let own = map.all_buckets().map(|bucket| bucket.id).filter(|id| !map.is_shadow(*id));
            map.reweigh_up(&Vec::from_iter(own));
            Ok(())
        })
    }

    /// Makes straw2 buckets of all straw ones. False if there were none.
    pub fn straw_to_straw2(&mut self) -> bool {
        let mut is_changed = false;
        for bucket in self.buckets.iter_mut().flatten() {
            if matches!(bucket.alg, BucketAlg::Straw { .. }) {
                bucket.straw2_weights();
                is_changed = true;
            }
        }
        is_changed
    }

    /// Takes a device or an empty bucket out of the map.
    pub fn remove_item(&mut self, name: &str) -> Result<(), EditError> {
        let id = self.find(name)?;
        if self.bucket(id).is_some_and(|b| !b.items.is_empty()) {
            return Err(EditError::NotEmpty(name.to_owned()));
        }
        if self.is_taken(id) {
            return Err(EditError::InUse(name.to_owned()));
        }
        self.whole_or_nothing(|map| {
            map.detach(id);
            map.names.remove(&id);
            map.classes.remove(&id);
            map.weight_sets_forget(id);
            if let Some(slot) = slot(id) {
                map.buckets[slot] = None;
            }
            Ok(())
        })
    }

    /// Adds a rule: copies in different buckets of type `domain` below `root`, on devices of `class` if one is given.
    pub fn add_simple_rule(
        &mut self,
        name: &str,
        root: &str,
        domain: &str,
        class: Option<&str>,
        form: RuleForm,
    ) -> Result<u8, EditError> {
        if self.rule_of(name).is_some() {
            return Err(EditError::Exists(name.to_owned()));
        }
        let mut take = self.find(root)?;
        let kind = self.type_of(domain).ok_or_else(|| EditError::NotFound(format!("type {domain}")))?;
        if let Some(class) = class {
            let class_id =
                self.class_of(class).ok_or_else(|| EditError::NotFound(format!("class {class}")))?;
            let shadow = self.class_buckets.get(&take).and_then(|by_class| by_class.get(&class_id));
            take = *shadow.ok_or_else(|| EditError::NotFound(format!("{root}~{class}")))?;
        }
        let op = match (kind, form.is_indep) {
            (0, false) => step::CHOOSE_FIRSTN,
            (0, true) => step::CHOOSE_INDEP,
            (_, false) => step::CHOOSELEAF_FIRSTN,
            (_, true) => step::CHOOSELEAF_INDEP,
        };
        let mut steps = Vec::new();
        if form.is_indep {
            // A place that finds no device stays empty: more tries than usual.
            steps.push(Step { op: step::SET_CHOOSELEAF_TRIES, arg1: 5, arg2: 0 });
            steps.push(Step { op: step::SET_CHOOSE_TRIES, arg1: 100, arg2: 0 });
        }
        steps.extend([
            Step { op: step::TAKE, arg1: take, arg2: 0 },
            Step { op, arg1: 0, arg2: kind },
            Step { op: step::EMIT, arg1: 0, arg2: 0 },
        ]);
        let id = self.rules.iter().position(Option::is_none).unwrap_or(self.rules.len());
        let ruleset = u8::try_from(id).map_err(|_| EditError::Exists("every rule id".to_owned()))?;
        let rule =
            Rule { ruleset, kind: form.pool_kind, min_size: form.sizes.0, max_size: form.sizes.1, steps };
        if id == self.rules.len() {
            self.rules.push(None);
        }
        self.rules[id] = Some(rule);
        self.rule_names.insert(id as i32, name.to_owned());
        Ok(ruleset)
    }

    /// Removes a rule.
    pub fn remove_rule(&mut self, name: &str) -> Result<(), EditError> {
        let id = self.rule_of(name).ok_or_else(|| EditError::NotFound(format!("rule {name}")))?;
        self.whole_or_nothing(|map| {
            map.rules[usize::from(id)] = None;
            while map.rules.last().is_some_and(Option::is_none) {
                map.rules.pop();
            }
            map.rule_names.remove(&i32::from(id));
            Ok(())
        })
    }
}

impl Bucket {
    /// Weights of items, as a straw2 bucket keeps them: a bucket of another kind becomes one when it
    /// is changed, as all clients know straw2.
    fn straw2_weights(&mut self) -> &mut Vec<u32> {
        if !matches!(self.alg, BucketAlg::Straw2 { .. }) {
            let item_weights = (0..self.items.len()).map(|at| self.item_weight(at)).collect();
            self.alg = BucketAlg::Straw2 { item_weights };
        }
        match &mut self.alg {
            BucketAlg::Straw2 { item_weights } => item_weights,
            _ => unreachable!("the bucket was just made straw2"),
        }
    }

    fn push_weight(&mut self, weight: u32) {
        // The item is there already, its weight is not.
        let item = self.items.pop();
        self.straw2_weights().push(weight);
        self.items.extend(item);
    }

    fn set_weight(&mut self, at: usize, weight: u32) {
        self.straw2_weights()[at] = weight;
    }
}
