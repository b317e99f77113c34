//! What an operator may set of a monitor. Names and defaults are Ceph's where Ceph has the option.

use std::{collections::BTreeMap, time::Duration};

use types::{AutoscaleMode, OSD_COUNT_MAX};

/// Settings of the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MonOptions {
    /// The monitor's name, `a` of `mon.a`.
    pub name: String,
    /// The commit that it was built from, as `git_version` tells it.
    pub git_version: &'static str,
    /// `mon_osd_min_down_reporters`: so many OSDs must report a failure.
    pub osd_down_reporters_min: usize,
    /// `mon_osd_reporter_subtree_level`: in so many buckets of this type.
    pub osd_reporter_subtree_level: String,
    /// `mon_osd_min_up_ratio`: no OSD is marked down automatically while fewer are up.
    pub osd_up_ratio_min: f64,
    /// `osd_heartbeat_grace`: an OSD must have been silent for that long.
    pub osd_heartbeat_grace: Duration,
    /// `mon_osd_report_timeout`: without statistics for that long an OSD is marked down.
    pub osd_report_timeout: Duration,
    /// `mon_osd_down_out_interval`: an OSD that is down for that long is marked out; zero never.
    pub osd_down_out_interval: Duration,
    /// `mon_osd_down_out_subtree_limit`: not if all below a bucket of this type, or a larger one, are down; empty for
    /// no limit.
    pub osd_down_out_subtree_limit: String,
    /// `mon_osd_min_in_ratio`: no OSD is marked out automatically while fewer are in.
    pub osd_in_ratio_min: f64,
    /// `mon_min_osdmap_epochs`: so many maps are kept, and more as long as a PG may need them.
    pub osdmap_epochs_min: u32,
    /// `mon_max_osd`: ids of OSDs are smaller; no map has more than [`OSD_COUNT_MAX`] of them, whatever this says.
    pub osd_count_max: i32,
    /// `mon_max_pg_per_osd`.
    pub pgs_per_osd_max: u32,
    /// `osd_pool_default_size`.
    pub pool_size: u8,
    /// `osd_pool_default_min_size`; 0 takes `size - size / 2`.
    pub pool_size_min: u8,
    /// `osd_pool_default_pg_num`.
    pub pool_pg_num: u32,
    /// `osd_pool_default_pg_autoscale_mode`.
    pub pool_autoscale_mode: AutoscaleMode,
    /// `mon_allow_pool_size_one`.
    pub is_pool_size_one_allowed: bool,
    /// `mon_allow_pool_delete`.
    pub is_pool_delete_allowed: bool,
    /// `mon_auth_allow_insecure_key`: commands may make keys of type `aes`.
    pub is_insecure_key_allowed: bool,
    /// `mon_debug_deprecated_as_obsolete`: commands with a newer name are refused.
    pub is_deprecated_obsolete: bool,
    /// Auth `none` is accepted: peers' names are believed, and every peer may do everything.
    pub is_auth_none: bool,
    /// The name of the host, for `mon metadata` and `node ls`.
    pub hostname: String,
    /// The options of ceph.conf, for `tell mon.X config show`.
    pub conf: BTreeMap<String, String>,
    /// What else is known of the host, by Ceph's keys of `mon metadata`: `kernel_version`, `cpu`, ….
    pub host: BTreeMap<String, String>,
}

impl Default for MonOptions {
    fn default() -> Self {
        MonOptions {
            name: "a".to_owned(),
            git_version: "no_version",
            osd_down_reporters_min: 2,
            osd_reporter_subtree_level: "host".to_owned(),
            osd_up_ratio_min: 0.3,
            osd_heartbeat_grace: Duration::from_secs(20),
            osd_report_timeout: Duration::from_secs(60),
            osd_down_out_interval: Duration::from_secs(600),
            osd_down_out_subtree_limit: "rack".to_owned(),
            osd_in_ratio_min: 0.75,
            osdmap_epochs_min: 500,
            osd_count_max: 10_000,
            pgs_per_osd_max: 1_000,
            pool_size: 3,
            pool_size_min: 0,
            pool_pg_num: 32,
            pool_autoscale_mode: AutoscaleMode::OFF,
            is_pool_size_one_allowed: false,
            is_pool_delete_allowed: false,
            is_insecure_key_allowed: true,
            is_deprecated_obsolete: false,
            is_auth_none: false,
            hostname: "localhost".to_owned(),
            conf: BTreeMap::new(),
            host: BTreeMap::new(),
        }
    }
}

impl MonOptions {
    /// The version that `ceph version` and `ceph versions` show.
    pub fn version(&self) -> String {
        types::daemon_version_line(self.git_version)
    }

    /// The `min_size` of a pool of that size, when it is made or its size is changed: with fewer copies it takes no
    /// writes.
    pub fn min_size_of(&self, size: u8) -> u8 {
        if self.pool_size_min > 0 { self.pool_size_min.min(size) } else { size - size / 2 }
    }

    /// OSD ids that there may be; a map that has more keeps them.
    pub fn osd_ids(&self) -> std::ops::Range<i32> {
        0..self.osd_count_max.min(OSD_COUNT_MAX)
    }

    /// Sets an option by Ceph's name; false for an unknown one or a value that does not fit.
    pub fn set(&mut self, name: &str, value: &str) -> bool {
        fn put<T: std::str::FromStr>(slot: &mut T, value: &str) -> bool {
            value.parse().map(|parsed| *slot = parsed).is_ok()
        }
        let put_secs = |slot: &mut Duration| {
            let secs = value.parse::<f64>().ok().and_then(|secs| Duration::try_from_secs_f64(secs).ok());
            secs.map(|secs| *slot = secs).is_some()
        };
        let put_bool = |slot: &mut bool| {
            let parsed = match value {
                "true" | "1" => true,
                "false" | "0" => false,
                _ => return false,
            };
            *slot = parsed;
            true
        };
        match name {
            "mon_osd_min_down_reporters" => put(&mut self.osd_down_reporters_min, value),
            "mon_osd_reporter_subtree_level" => put(&mut self.osd_reporter_subtree_level, value),
            "mon_osd_min_up_ratio" => put(&mut self.osd_up_ratio_min, value),
            "osd_heartbeat_grace" => put_secs(&mut self.osd_heartbeat_grace),
            "mon_osd_report_timeout" => put_secs(&mut self.osd_report_timeout),
            "mon_osd_down_out_interval" => put_secs(&mut self.osd_down_out_interval),
            "mon_osd_down_out_subtree_limit" => put(&mut self.osd_down_out_subtree_limit, value),
            "mon_osd_min_in_ratio" => put(&mut self.osd_in_ratio_min, value),
            "mon_min_osdmap_epochs" => put(&mut self.osdmap_epochs_min, value),
            "mon_max_osd" => put(&mut self.osd_count_max, value),
            "mon_max_pg_per_osd" => put(&mut self.pgs_per_osd_max, value),
            "osd_pool_default_size" => put(&mut self.pool_size, value),
            "osd_pool_default_min_size" => put(&mut self.pool_size_min, value),
            "osd_pool_default_pg_num" => put(&mut self.pool_pg_num, value),
            "osd_pool_default_pg_autoscale_mode" => {
                AutoscaleMode::parse(value).map(|mode| self.pool_autoscale_mode = mode).is_some()
            }
            "mon_allow_pool_size_one" => put_bool(&mut self.is_pool_size_one_allowed),
            "mon_allow_pool_delete" => put_bool(&mut self.is_pool_delete_allowed),
            "mon_debug_deprecated_as_obsolete" => put_bool(&mut self.is_deprecated_obsolete),
            "mon_auth_allow_insecure_key" => put_bool(&mut self.is_insecure_key_allowed),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_table_and_what_can_be_set_is_observed() {
        for info in types::options() {
            let mut options = MonOptions::default();
            if options.set(info.name, &info.default_for(true)) {
                assert_eq!(options, MonOptions::default(), "{}", info.name);
                assert!(types::is_observed(types::EntityType::MON, info.name), "{}", info.name);
            }
        }
    }
}
