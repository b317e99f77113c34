//! The options of Ceph 16.2: names, types, defaults and limits, and the form in which values are kept.
//!
//! The table (`generated/options.tsv`) holds what `ceph config help` of 16.2.15 says, without the
//! descriptions, and `mon_auth_allow_insecure_key` of 20.2.4; [`CHANGED_DEFAULTS`] take the place of Ceph's. Most
//! options concern parts of Ceph that do not exist here ([`is_observed`] tells which daemons go by one); they are
//! known all the same, since clients take theirs from the monitors, and scripts set those of the cluster they know.

mod command;
mod observed;
mod sections;
mod settings;
mod value;

use std::{collections::BTreeMap, sync::LazyLock};

pub use command::{CONFIG_COMMANDS, ConfigOwner, ConfigReply, option_json};
pub use observed::is_observed;
pub use sections::{ConfParseError, ConfSections, option_name, parse_conf};
pub use settings::{OptionLevel, OptionSetError, OptionShown, Settings, WireSettings};
pub use value::OptionValueError;

/// What a value is (`Option::type_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// A number without a sign; `K`, `M`, … are powers of 1,000.
    Uint,
    /// A number with a sign.
    Int,
    /// A number with a fraction.
    Float,
    /// True or false.
    Bool,
    /// Any text, or one of some words.
    Str,
    /// Bytes; `K`, `M`, … are powers of 1,024.
    Size,
    /// A duration, kept in seconds.
    Secs,
    /// A duration in milliseconds.
    Millisecs,
    /// One address.
    Addr,
    /// The addresses of a daemon.
    AddrVec,
    /// 16 bytes in hexadecimal.
    Uuid,
}

impl OptionKind {
    const NAMES: [(OptionKind, &'static str); 11] = [
        (OptionKind::Uint, "uint"),
        (OptionKind::Int, "int"),
        (OptionKind::Float, "float"),
        (OptionKind::Bool, "bool"),
        (OptionKind::Str, "str"),
        (OptionKind::Size, "size"),
        (OptionKind::Secs, "secs"),
        (OptionKind::Millisecs, "millisecs"),
        (OptionKind::Addr, "addr"),
        (OptionKind::AddrVec, "addrvec"),
        (OptionKind::Uuid, "uuid"),
    ];

    /// `uint`, `str`, ….
    pub fn as_str(self) -> &'static str {
        Self::NAMES.iter().find(|(kind, _)| *kind == self).map_or("str", |(_, name)| name)
    }
}

/// One option (`Option`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionInfo {
    /// Its name, with underscores.
    pub name: &'static str,
    /// What its values are.
    pub kind: OptionKind,
    /// `basic`, `advanced` or `dev`.
    pub level: &'static str,
    /// A running daemon takes a new value.
    pub can_update_at_runtime: bool,
    flags: &'static str,
    /// The value unless one is set.
    pub default: &'static str,
    /// The default for daemons, where it differs.
    pub daemon_default: &'static str,
    /// The smallest value, where there is one.
    pub min: &'static str,
    /// The largest value, where there is one.
    pub max: &'static str,
    choices: &'static str,
    services: &'static str,
    tags: &'static str,
    see_also: &'static str,
}

fn split(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.split(',').filter(|part| !part.is_empty())
}

impl OptionInfo {
    /// `runtime`, `startup`, `no_mon_update`, `create`, `cluster_create`.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> {
        self.flags.chars().map(|flag| match flag {
            'r' => "runtime",
            's' => "startup",
            'n' => "no_mon_update",
            'c' => "create",
            _ => "cluster_create",
        })
    }

    /// The option is needed to find the monitors, so the monitors do not keep it.
    pub fn is_local(&self) -> bool {
        self.flags.contains('n')
    }

    /// The words that are values; any text where there are none.
    pub fn choices(&self) -> impl Iterator<Item = &'static str> {
        split(self.choices)
    }

    /// Ceph's parts that look at it.
    pub fn services(&self) -> impl Iterator<Item = &'static str> {
        split(self.services)
    }

    /// For searching.
    pub fn tags(&self) -> impl Iterator<Item = &'static str> {
        split(self.tags)
    }

    /// Related options.
    pub fn see_also(&self) -> impl Iterator<Item = &'static str> {
        split(self.see_also)
    }

    /// The default, of a daemon or of a client, in the form of [`OptionInfo::normalize`].
    pub fn default_for(&self, is_daemon: bool) -> String {
        let text =
            if is_daemon && !self.daemon_default.is_empty() { self.daemon_default } else { self.default };
        match self.kind {
            OptionKind::Float => self.normalize(text).unwrap_or_else(|_| text.to_owned()),
            _ => text.to_owned(),
        }
    }

    fn parse(line: &'static str) -> Option<OptionInfo> {
        let mut columns = line.split('\t');
        let name = columns.next()?;
        let kind = columns.next()?;
        let kind = OptionKind::NAMES.iter().find(|(_, text)| *text == kind)?.0;
        let mut column = || columns.next().unwrap_or_default();
        let mut info = OptionInfo {
            name,
            kind,
            level: column(),
            can_update_at_runtime: column() == "1",
            flags: column(),
            default: column(),
            daemon_default: column(),
            min: column(),
            max: column(),
            choices: column(),
            services: column(),
            tags: column(),
            see_also: column(),
        };
        if let Some((_, default)) = CHANGED_DEFAULTS.iter().find(|(changed, _)| *changed == name) {
            info.default = default;
        }
        Some(info)
    }
}

/// Options whose defaults are not Ceph's; `docs/compatibility.md` says why.
const CHANGED_DEFAULTS: [(&str, &str); 5] = [
    ("bdev_enable_discard", "true"),
    ("mon_max_pg_per_osd", "1000"),
    ("mon_osd_report_timeout", "60"),
    ("osd_pool_default_pg_autoscale_mode", "off"),
    ("rbd_default_map_options", "ms_mode=prefer-crc"),
];

static TABLE: LazyLock<Vec<OptionInfo>> =
    LazyLock::new(|| include_str!("generated/options.tsv").lines().filter_map(OptionInfo::parse).collect());

static BY_NAME: LazyLock<BTreeMap<&'static str, &'static OptionInfo>> =
    LazyLock::new(|| TABLE.iter().map(|info| (info.name, info)).collect());

/// All options, in Ceph's order.
pub fn options() -> impl Iterator<Item = &'static OptionInfo> {
    TABLE.iter()
}

/// The option of this name; underscores are not spaces nor dashes here.
pub fn find_option(name: &str) -> Option<&'static OptionInfo> {
    BY_NAME.get(name).copied()
}

/// The option of this name. Those of the manager's modules may name an instance, `mgr/prometheus/a/server_addr`
/// (`MgrMonitor::find_module_option`).
pub fn known_option(name: &str) -> Option<&'static OptionInfo> {
    let of_all = || {
        let (module, of_instance) = name.strip_prefix("mgr/")?.split_once('/')?;
        let (_, option) = of_instance.split_once('/')?;
        find_option(&format!("mgr/{module}/{option}"))
    };
    find_option(name).or_else(of_all)
}

#[cfg(test)]
mod tests;
