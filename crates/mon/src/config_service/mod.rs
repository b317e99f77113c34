//! The configuration database: options by section, pushed to whoever they concern.

use std::collections::BTreeMap;

use types::EntityName;

use crate::state::Config;

/// The options for `name`: global ones, then its kind's, then those for longer and longer prefixes of its
/// own name (`client.rbd` before `client.rbd.x`); the nearest wins.
pub(crate) fn config_for(config: &Config, name: &EntityName) -> BTreeMap<String, String> {
    let own = name.to_string();
    let mut sections = vec!["global", name.kind.as_str()];
    sections.extend(own.match_indices('.').map(|(at, _)| &own[..at]).skip(1));
    sections.push(&own);
    let mut out = BTreeMap::new();
    for section in sections {
        out.extend(config.get(section).into_iter().flatten().map(|(k, v)| (k.clone(), v.clone())));
    }
    out
}

/// True for a section that options may be kept under. Masks (`osd/host:x`) are not supported.
pub(crate) fn is_section(who: &str) -> bool {
    let kind = who.split('.').next().unwrap_or_default();
    who == "global"
        || (["mon", "mgr", "osd", "mds", "client"].contains(&kind)
            && !who.contains('/')
            && !who.ends_with('.'))
}

/// An option's name with underscores.
pub(crate) fn option_name(name: &str) -> String {
    name.replace([' ', '-'], "_")
}

/// Options that clients and scripts ask for, with their defaults. Any other option can be set all the same:
/// clients check their own.
const DEFAULTS: &[(&str, &str)] = &[
    ("auth_client_required", "cephx"),
    ("auth_cluster_required", "cephx"),
    ("auth_service_required", "cephx"),
    ("mon_allow_pool_delete", "true"),
    ("mon_max_pg_per_osd", "250"),
    ("mon_osd_down_out_interval", "600"),
    ("mon_osd_min_down_reporters", "2"),
    ("mon_osd_report_timeout", "60"),
    ("osd_heartbeat_grace", "20"),
    ("osd_heartbeat_interval", "6"),
    ("osd_pool_default_min_size", "0"),
    ("osd_pool_default_pg_autoscale_mode", "off"),
    ("osd_pool_default_pg_num", "32"),
    ("osd_pool_default_size", "3"),
    ("rbd_cache", "true"),
    ("rbd_default_features", "61"),
    ("rbd_default_pool", "rbd"),
];

/// The default of an option that is known.
pub(crate) fn option_default(name: &str) -> Option<&'static str> {
    DEFAULTS.iter().find(|(known, _)| *known == name).map(|(_, default)| *default)
}

/// Names of the options that are known.
pub(crate) fn known_options() -> impl Iterator<Item = &'static str> {
    DEFAULTS.iter().map(|(name, _)| *name)
}
