//! What was changed in the configuration database, and when: kept as configuration keys, as in Ceph
//! (`config-history/N/`, with `+` and `-` before what was set and removed).

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use codec::Decode;
use types::UTime;

use crate::{
    Mon,
    state::{State, value},
};

const PREFIX: &str = "config-history/";
/// The version of a database in which nothing was set.
const FIRST: u64 = 1;
/// Changes that are kept.
const KEPT: u64 = 1_000;

/// Values of one option, before and after.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) before: Option<String>,
    pub(crate) after: Option<String>,
}

/// What one command changed (`ConfigChangeSet`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangeSet {
    pub(crate) version: u64,
    pub(crate) stamp: UTime,
    /// What the command did, where it says so: `reset to 5`.
    pub(crate) name: String,
    /// By key, `osd/osd_memory_target`.
    pub(crate) changes: BTreeMap<String, Change>,
}

/// The number behind the prefix, and what follows it.
fn parse(key: &str) -> Option<(u64, &str)> {
    let (version, rest) = key.strip_prefix(PREFIX)?.split_once('/')?;
    Some((version.parse().ok()?, rest))
}

/// The newest version.
pub(crate) fn last_version(state: &State) -> u64 {
    let keys = state.config_keys.range(PREFIX.to_owned()..);
    let versions =
        keys.map_while(|(key, _)| key.starts_with(PREFIX).then(|| parse(key)).map(|p| p.map(|(v, _)| v)));
    versions.flatten().max().unwrap_or(FIRST)
}

/// The versions that are known: the first, and those of which there are change sets. They are keys like others, which
/// an operator may write, so they need not follow each other.
pub(crate) fn versions(state: &State) -> BTreeSet<u64> {
    let keys = state.config_keys.range(PREFIX.to_owned()..).map_while(|(key, _)| key.strip_prefix(PREFIX));
    let known = keys.filter_map(|key| key.strip_suffix('/')?.parse().ok());
    known.chain([FIRST]).collect()
}

/// One change set.
pub(crate) fn load(state: &State, version: u64) -> Option<ChangeSet> {
    let prefix = format!("{PREFIX}{version}/");
    let header = state.config_keys.get(&prefix)?;
    let (stamp, name) = <(UTime, String)>::from_prefix(header.clone()).ok()?;
    let mut set = ChangeSet { version, stamp, name, changes: BTreeMap::new() };
    for (key, data) in state.config_keys.range(prefix.clone()..) {
        let Some(rest) = key.strip_prefix(&prefix) else { break };
        let text = String::from_utf8_lossy(data).into_owned();
        if let Some(name) = rest.strip_prefix('+') {
            set.changes.entry(name.to_owned()).or_default().after = Some(text);
        } else if let Some(name) = rest.strip_prefix('-') {
            set.changes.entry(name.to_owned()).or_default().before = Some(text);
        }
    }
    Some(set)
}

/// What differs from `state` if these keys are given these values.
pub(crate) fn changes_from(
    state: &State,
    wanted: impl IntoIterator<Item = (String, Option<String>)>,
) -> BTreeMap<String, Change> {
    let before = |key: &str| {
        let (who, name) = super::split_key(key);
        state.config.get(who).and_then(|options| options.get(name)).cloned()
    };
    let changes = wanted.into_iter().map(|(key, after)| {
        let change = Change { before: before(&key), after };
        (key, change)
    });
    changes.filter(|(_, change)| change.before != change.after).collect()
}

impl Mon {
    /// A module of the manager changes an option of its own, or takes it back.
    pub(crate) fn set_module_option(&mut self, wall: UTime, name: &str, value: Option<String>) {
        let changes = changes_from(&self.next, [(format!("mgr/{name}"), value)]);
        self.change_config(wall, "", changes);
    }

    /// Changes the database and records what was changed, even if that is nothing: each command makes a version.
    pub(crate) fn change_config(&mut self, wall: UTime, name: &str, changes: BTreeMap<String, Change>) {
        let version = last_version(&self.next).saturating_add(1);
        let header = value(&(wall, name.to_owned()));
        self.put_config_key(&format!("{PREFIX}{version}/"), header);
        for (key, change) in changes {
            let before = change.before.map(|text| ('-', text));
            let after = change.after.clone().map(|text| ('+', text));
            for (sign, text) in before.into_iter().chain(after) {
                self.put_config_key(&format!("{PREFIX}{version}/{sign}{key}"), Some(Bytes::from(text)));
            }
            self.put_config_key(&format!("config/{key}"), change.after.map(Bytes::from));
        }
        if let Some(old) = version.checked_sub(KEPT) {
            let prefix = format!("{PREFIX}{old}/");
            let keys = self.next.config_keys.range(prefix.clone()..).map(|(key, _)| key.clone());
            let keys: Vec<String> = keys.take_while(|key| key.starts_with(&prefix)).collect();
            keys.iter().for_each(|key| self.put_config_key(key, None));
        }
    }
}
