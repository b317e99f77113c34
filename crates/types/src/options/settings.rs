//! The options of one daemon, by where their values come from (`md_config_t`). The strongest wins: a value
//! that was injected, then the file's, then what the monitors keep, then the default.

use std::collections::BTreeMap;

use super::{OptionInfo, OptionValueError, find_option, known_option, options};
use crate::Errno;

/// Where a value comes from, from the weakest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OptionLevel {
    /// The table.
    Default,
    /// The configuration database of the monitors.
    Mon,
    /// `ceph.conf`.
    File,
    /// Given to the running daemon.
    Override,
}

impl OptionLevel {
    const ALL: [(OptionLevel, i32); 4] = [
        (OptionLevel::Default, 0),
        (OptionLevel::Mon, 1),
        (OptionLevel::File, 2),
        (OptionLevel::Override, 5),
    ];

    /// As `config show` calls it.
    pub fn as_str(self) -> &'static str {
        match self {
            OptionLevel::Default => "default",
            OptionLevel::Mon => "mon",
            OptionLevel::File => "file",
            OptionLevel::Override => "override",
        }
    }
}

/// Why an option was not set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionSetError {
    /// There is no such option.
    #[error("unrecognized option")]
    Unknown,
    /// The option is taken at start only.
    #[error("Configuration option '{0}' may not be modified at runtime")]
    NotAtRuntime(String),
    /// The value does not fit.
    #[error(transparent)]
    Value(#[from] OptionValueError),
}

impl OptionSetError {
    /// What a client is answered.
    pub fn errno(&self) -> Errno {
        match self {
            OptionSetError::Unknown => Errno::ENOENT,
            OptionSetError::NotAtRuntime(_) => Errno::EPERM,
            OptionSetError::Value(error) => error.errno,
        }
    }
}

/// The options of one daemon: their values by where they come from, of which the strongest wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Values by name, then by where they come from; those of unknown options stay as they are written.
    values: BTreeMap<String, BTreeMap<OptionLevel, String>>,
    /// Options of the database that this running daemon does not take.
    ignored: BTreeMap<String, String>,
    is_started: bool,
}

/// Values by option, then by the number of their level.
pub type WireSettings = BTreeMap<String, BTreeMap<i32, String>>;

/// How an option's value came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionShown<'a> {
    /// The option.
    pub name: &'a str,
    /// The values, the one in force first.
    pub values: Vec<(OptionLevel, String)>,
    /// The database has a value that is not taken before the next start.
    pub is_mon_ignored: bool,
}

impl OptionShown<'_> {
    /// Values that lose, but for the default: everything overrides that.
    pub fn overridden(&self) -> impl Iterator<Item = (OptionLevel, &str)> {
        let lost = self.values.iter().skip(1).filter(|(level, _)| *level != OptionLevel::Default);
        lost.map(|(level, value)| (*level, value.as_str()))
    }
}

impl Settings {
    /// The options of a file.
    pub fn from_file(file: &BTreeMap<String, String>) -> Settings {
        let mut out = Settings::default();
        for (name, text) in file {
            let value = find_option(name).and_then(|info| info.normalize(text).ok());
            let value = value.unwrap_or_else(|| text.clone());
            out.values.entry(name.clone()).or_default().insert(OptionLevel::File, value);
        }
        out
    }

    /// As daemons report them to the manager: values by name and level, and what is ignored.
    pub fn to_wire(&self) -> (WireSettings, BTreeMap<String, String>) {
        let number =
            |level: &OptionLevel| OptionLevel::ALL.iter().find(|(l, _)| l == level).map_or(0, |(_, n)| *n);
        let levels = |levels: &BTreeMap<OptionLevel, String>| {
            levels.iter().map(|(level, value)| (number(level), value.clone())).collect()
        };
        let values = self.values.iter().map(|(name, values)| (name.clone(), levels(values))).collect();
        (values, self.ignored.clone())
    }

    /// The inverse of [`Settings::to_wire`]; levels that are not known here are left out.
    pub fn from_wire(values: WireSettings, ignored: BTreeMap<String, String>) -> Settings {
        let level =
            |number: i32| OptionLevel::ALL.iter().find(|(_, n)| *n == number).map(|(level, _)| *level);
        let levels = |levels: BTreeMap<i32, String>| {
            levels.into_iter().filter_map(|(number, value)| Some((level(number)?, value))).collect()
        };
        let values = values.into_iter().map(|(name, values)| (name, levels(values))).collect();
        Settings { values, ignored, is_started: true }
    }

    /// What the monitors keep for this daemon. The first time it is taken whole; later what needs a restart
    /// is left out.
    pub fn set_mon(&mut self, database: &BTreeMap<String, String>) {
        let before: BTreeMap<String, String> = (self.values.iter_mut())
            .filter_map(|(name, levels)| Some((name.clone(), levels.remove(&OptionLevel::Mon)?)))
            .collect();
        self.ignored.clear();
        for (name, text) in database {
            let Some(info) = known_option(name) else { continue };
            if info.is_local() {
                continue;
            }
            let Ok(value) = info.normalize(text) else { continue };
            if self.is_started && !info.can_update_at_runtime && before.get(name) != Some(&value) {
                self.ignored.insert(name.clone(), value);
                continue;
            }
            self.values.entry(name.clone()).or_default().insert(OptionLevel::Mon, value);
        }
        self.is_started = true;
        self.values.retain(|_, levels| !levels.is_empty());
    }

    /// Sets an option of the running daemon. Returns the value as it is kept.
    pub fn inject(&mut self, name: &str, text: &str) -> Result<String, OptionSetError> {
        let info = find_option(name).ok_or(OptionSetError::Unknown)?;
        let value = info.normalize(text)?;
        if !info.can_update_at_runtime {
            return Err(OptionSetError::NotAtRuntime(name.to_owned()));
        }
        self.values.entry(name.to_owned()).or_default().insert(OptionLevel::Override, value.clone());
        Ok(value)
    }

    /// Takes an injected value back. Returns the value that holds then, or `None` where nothing was injected.
    pub fn uninject(&mut self, name: &str) -> Option<String> {
        self.values.get_mut(name)?.remove(&OptionLevel::Override)?;
        self.values.retain(|_, levels| !levels.is_empty());
        self.get(name)
    }

    /// The value in force.
    pub fn get(&self, name: &str) -> Option<String> {
        let set = self.values.get(name).and_then(|levels| levels.values().next_back().cloned());
        set.or_else(|| Some(find_option(name)?.default_for(true)))
    }

    fn shown<'a>(&'a self, name: &'a str, info: Option<&OptionInfo>) -> OptionShown<'a> {
        let mut values: Vec<(OptionLevel, String)> =
            info.map(|i| (OptionLevel::Default, i.default_for(true))).into_iter().collect();
        let is_mon_ignored = self.ignored.contains_key(name);
        values.extend(
            self.values.get(name).into_iter().flatten().map(|(level, value)| (*level, value.clone())),
        );
        values.reverse();
        OptionShown { name, values, is_mon_ignored }
    }

    /// The options whose values do not come from the table, by name.
    pub fn changed(&self) -> Vec<OptionShown<'_>> {
        let mut names: Vec<&String> = self.values.keys().chain(self.ignored.keys()).collect();
        names.sort();
        names.dedup();
        names.into_iter().map(|name| self.shown(name, find_option(name))).collect()
    }

    /// All options, by name.
    pub fn all(&self) -> Vec<OptionShown<'_>> {
        let mut out: Vec<OptionShown<'_>> = options().map(|info| self.shown(info.name, Some(info))).collect();
        out.extend(self.changed().into_iter().filter(|shown| find_option(shown.name).is_none()));
        out.sort_by_key(|shown| shown.name);
        out
    }
}
