//! The configuration database: options by section and mask, pushed to the daemons and clients that they concern.
//!
//! Authority: `ConfigMap` and `ConfigMonitor` of 16.2, and what `ceph config` prints there.

mod history;
mod target;

use std::{borrow::Cow, collections::BTreeMap};

use crush::CrushMap;
use types::{EntityName, EntityType, OsdMap, find_option};

use crate::{Mon, ledger_keys, state::Config};

pub(crate) use history::{Change, ChangeSet, changes_from, last_version, load as load_changes, versions};
pub(crate) use target::Target;

/// Where a daemon or client is, for masks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    /// CRUSH type to bucket: host, rack, ….
    location: BTreeMap<String, String>,
    class: Option<String>,
}

impl Place {
    /// The place of `name`: an OSD's own, else that of its host.
    pub(crate) fn of(map: &OsdMap, name: &EntityName, hostname: &str) -> Place {
        let crush = map.crush.map();
        let device = name.id.parse::<i32>().ok().filter(|_| name.kind == EntityType::OSD);
        let mut place = Place::default();
        if let Some(id) = device.or_else(|| crush.id_of(hostname)) {
            place.location = crush.location(id).into_iter().collect();
        }
        place.class = device.and_then(|id| crush.device_class(id)).map(str::to_owned);
        if device.is_none() && !hostname.is_empty() {
            place.location.insert("host".to_owned(), hostname.to_owned());
        }
        place
    }
}

/// An option as it holds for one daemon or client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Applied<'a> {
    /// Section and mask, as they are kept.
    pub(crate) who: &'a str,
    pub(crate) value: &'a str,
}

/// Sections that concern `name`, the widest first: global, its kind, longer and longer prefixes of its own
/// name (`client.rbd` before `client.rbd.x`).
fn sections(name: &EntityName) -> Vec<String> {
    let own = name.to_string();
    let mut out = vec!["global".to_owned(), name.kind.as_str().to_owned()];
    out.extend(own.match_indices('.').map(|(at, _)| own[..at].to_owned()).skip(1));
    out.push(own);
    out
}

/// The options for `name`: the nearest section wins, within it the most precise mask.
pub(crate) fn applied<'a>(
    config: &'a Config,
    name: &EntityName,
    place: &Place,
    crush: &CrushMap,
) -> BTreeMap<&'a str, Applied<'a>> {
    let mut out = BTreeMap::new();
    if config.is_empty() {
        return out;
    }
    let targets: Vec<(&String, Target)> =
        config.keys().filter_map(|who| Some((who, Target::parse(who)?))).collect();
    for section in sections(name) {
        let mut fitting: Vec<&(&String, Target)> = targets
            .iter()
            .filter(|(_, target)| {
                target.section() == section && target.fits(&place.location, place.class.as_deref())
            })
            .collect();
        // What comes later wins.
        fitting.sort_by_key(|(_, target)| std::cmp::Reverse(target.imprecision(crush)));
        for (who, _) in fitting {
            let options = config.get(*who).into_iter().flatten();
            out.extend(options.map(|(name, value)| (name.as_str(), Applied { who, value })));
        }
    }
    out
}

impl Mon {
    /// The committed options for `name`, which connects from `hostname`.
    pub(crate) fn config_of(&self, name: &EntityName, hostname: &str) -> BTreeMap<String, String> {
        let state = &self.committed;
        if state.config.is_empty() {
            return BTreeMap::new();
        }
        let place = Place::of(&state.osdmap, name, hostname);
        let all = applied(&state.config, name, &place, state.osdmap.crush.map());
        all.into_iter().map(|(name, applied)| (name.to_owned(), applied.value.to_owned())).collect()
    }

    /// Takes the monitor's own options: what was injected, ceph.conf's, the configuration database's; and those of the
    /// manager's part, which only the database has.
    pub(crate) fn apply_config(&mut self) {
        let own = |kind| EntityName::new(kind, self.base_options.name.clone());
        let config = self.config_of(&own(EntityType::MON), &self.base_options.hostname);
        self.mgr_config = self.config_of(&own(EntityType::MGR), &self.base_options.hostname);
        self.settings.set_mon(&config);
        self.options = self.base_options.clone();
        for shown in self.settings.changed() {
            let Some((_, value)) = shown.values.first() else { continue };
            if !self.options.set(shown.name, value) {
                tracing::debug!("option {} does not concern the monitor", shown.name);
            }
        }
        self.op_history.follow(&self.settings);
        self.has_new_options = true;
    }

    /// An option that Ceph's manager goes by: what the database has for the manager, else what holds for the monitor,
    /// which plays its part.
    pub(crate) fn manager_option(&self, name: &str) -> Option<String> {
        let of_manager = self.mgr_config.get(name).and_then(|text| find_option(name)?.normalize(text).ok());
        of_manager.or_else(|| self.settings.get(name))
    }

    /// The same as a number; 0 where it is none.
    pub(crate) fn manager_number(&self, name: &str) -> f64 {
        self.manager_option(name).and_then(|text| text.parse().ok()).unwrap_or(0.0)
    }

    /// An option of a module of the manager, in the form in which it is kept: what is set for this instance, else what
    /// is set for all. None where neither is, or the value is none that the option can have.
    pub(crate) fn module_option(&self, name: &str) -> Option<String> {
        let (module, option) = name.strip_prefix("mgr/")?.split_once('/')?;
        let of_instance = format!("mgr/{module}/{}/{option}", self.base_options.name);
        let text = self.mgr_config.get(&of_instance).or_else(|| self.mgr_config.get(name))?;
        match find_option(name) {
            Some(info) => info.normalize(text).ok(),
            // The module's own notes.
            None => Some(text.clone()),
        }
    }
}

/// Splits what follows `config/` in a key of the database: the section with its mask, and the option. Options of the
/// manager's modules have slashes in their names.
pub(crate) fn split_key(key: &str) -> (&str, &str) {
    match (key.find("/mgr/"), key.rsplit_once('/')) {
        (Some(at), _) => (&key[..at], &key[at + 1..]),
        (None, Some(pair)) => pair,
        (None, None) => ("global", key),
    }
}

/// The key under which a configuration key is kept. An option without a section is one of `global`, and has that key
/// only: with two, the last one that was set would be in force, and after a restart the last by name.
pub(crate) fn kept_key(key: &str) -> Cow<'_, str> {
    let option = key.strip_prefix(ledger_keys::CONFIG).and_then(|rest| rest.strip_prefix('/'));
    match option.filter(|option| !option.contains('/')) {
        Some(name) => Cow::Owned(format!("{}/global/{name}", ledger_keys::CONFIG)),
        None => Cow::Borrowed(key),
    }
}

/// The other key that an option of `global` may have.
pub(crate) fn key_without_section(kept: &str) -> Option<String> {
    let option = kept.strip_prefix(ledger_keys::CONFIG)?.strip_prefix("/global/")?;
    let other = format!("{}/{option}", ledger_keys::CONFIG);
    let is_another = kept_key(&other) == kept;
    is_another.then_some(other)
}

#[cfg(test)]
mod tests;
