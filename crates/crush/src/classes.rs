//! Device classes: made, given to devices, renamed, removed; and the names of rules.
//!
//! Authority: `CrushWrapper::remove_class_name`, `rename_class`, `class_is_in_use`, `cleanup_dead_classes`,
//! `rename_rule` (16.2).

use std::collections::BTreeSet;

use crate::{
    edit::EditError,
    map::{CrushMap, step},
};

impl CrushMap {
    /// A class without devices, which goes with the next change unless that gives it one. The name must be free.
    pub fn create_class(&mut self, name: &str) -> Result<i32, EditError> {
        let mut changed = self.clone();
        let id = changed.new_class(name);
        changed.may_follow(self)?;
        *self = changed;
        Ok(id)
    }

    /// Gives devices a class, made if new; none takes their classes away.
    pub fn set_device_classes(&mut self, devices: &[i32], class: Option<&str>) -> Result<(), EditError> {
        if devices.iter().all(|device| self.device_class(*device) == class) {
            // An OSD that starts says of itself what is known: that is no change.
            return Ok(());
        }
        self.whole_or_nothing(|map| {
            let class = class.map(|name| map.class_of(name).unwrap_or_else(|| map.new_class(name)));
            for device in devices {
                match class {
                    Some(class) => map.classes.insert(*device, class),
                    None => map.classes.remove(device),
                };
            }
            Ok(())
        })
    }

    fn new_class(&mut self, name: &str) -> i32 {
        let ids = || self.class_names.keys().copied();
        let next = ids().next_back().map_or(Some(0), |last| last.checked_add(1));
        // A map that an operator made may use the last number.
        let free = || ids().filter(|id| *id >= 0).zip(0..).find(|(id, at)| id != at).map(|(_, at)| at);
        let id = next.or_else(free).unwrap_or_default();
        self.class_names.insert(id, name.to_owned());
        id
    }

    /// Forgets the classes that no device has and no rule takes.
    pub(crate) fn forget_unused_classes(&mut self) {
        let of_devices = self.classes.range(0..).map(|(_, class)| *class);
        let used: BTreeSet<i32> = of_devices.chain(self.classes_in_rules()).collect();
        self.class_names.retain(|class, _| used.contains(class));
    }

    /// The classes of which a rule takes the devices alone.
    fn classes_in_rules(&self) -> BTreeSet<i32> {
        let steps = self.rules.iter().flatten().flat_map(|rule| &rule.steps);
        let taken: BTreeSet<i32> = steps.filter(|s| s.op == step::TAKE).map(|s| s.arg1).collect();
        let shadows = self.class_buckets.values().flatten().filter(|(_, shadow)| taken.contains(shadow));
        shadows.map(|(class, _)| *class).collect()
    }

    /// Takes a class from its devices and forgets it. No rule may take it.
    pub fn remove_class(&mut self, class: i32) -> Result<(), EditError> {
        self.whole_or_nothing(|map| {
            map.classes.retain(|id, of| *id < 0 || *of != class);
            map.class_names.remove(&class);
            Ok(())
        })
    }

    /// Gives a class another name, and its shadow buckets theirs. The name must be free.
    pub fn rename_class(&mut self, class: i32, to: &str) {
        let Some(from) = self.class_names.insert(class, to.to_owned()) else { return };
        let suffix = format!("~{from}");
        for shadows in self.class_buckets.values() {
            if let Some(name) = shadows.get(&class).and_then(|id| self.names.get_mut(id))
                && let Some(original) = name.strip_suffix(&suffix)
            {
                *name = format!("{original}~{to}");
            }
        }
    }

    /// Gives a rule another name, which must be free.
    pub fn rename_rule(&mut self, rule: u8, to: &str) {
        self.rule_names.insert(i32::from(rule), to.to_owned());
    }

    /// Rules that take devices of a class, or from a root as such.
    pub fn rules_of_class(&self, class: i32) -> Vec<u8> {
        let shadows: Vec<i32> =
            self.class_buckets.values().filter_map(|by| by.get(&class).copied()).collect();
        let takes = |id: &u8| {
            self.rule(*id).is_some_and(|rule| {
                rule.steps.iter().any(|s| s.op == step::TAKE && shadows.contains(&s.arg1))
            })
        };
        (0..=u8::MAX).filter(takes).collect()
    }
}
