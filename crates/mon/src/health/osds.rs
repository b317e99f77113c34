//! OSDs, flags of the cluster and of groups of OSDs, and their space.

use std::collections::BTreeMap;

use types::{MapFlags, OsdId, OsdState};

use super::{Health, Severity, plural};
use crate::Mon;

impl Mon {
    pub(super) fn check_osds(&self, health: &mut Health) {
        let map = &self.committed.osdmap;
        let crush = map.crush.map();
        if map.num_osds() < usize::from(self.options.pool_size) {
            let text =
                format!("OSD count {} < osd_pool_default_size {}", map.num_osds(), self.options.pool_size);
            health.add("TOO_FEW_OSDS", Severity::Warn, text, Vec::new());
        }
        let place = |id: i32| {
            let place = crush.location(id).into_iter().rev().map(|(kind, name)| format!("{kind}={name}"));
            place.collect::<Vec<_>>().join(",")
        };
        let down: Vec<OsdId> = map.osds().filter(|osd| map.is_down(*osd) && map.is_in(*osd)).collect();
        if !down.is_empty() {
            let detail = down.iter().map(|osd| format!("osd.{osd} ({}) is down", place(osd.0))).collect();
            health.add("OSD_DOWN", Severity::Warn, format!("{} osds down", down.len()), detail);
        }
        let hosts = crush.all_buckets().filter(|b| b.kind == 1 && !crush.is_shadow(b.id));
        let mut detail = Vec::new();
        let mut osds_down = 0;
        for host in hosts {
            let mut devices = Vec::new();
            crush.devices_below(host.id, &mut devices);
            let osds: Vec<OsdId> = devices.into_iter().map(OsdId).filter(|osd| map.is_in(*osd)).collect();
            if !osds.is_empty() && osds.iter().all(|osd| map.is_down(*osd)) {
                let name = crush.names.get(&host.id).map_or("", String::as_str);
                osds_down += osds.len();
                detail.push(format!("host {name} ({}) ({} osds) is down", place(host.id), osds.len()));
            }
        }
        if !detail.is_empty() {
            let text = format!("{} host{} ({osds_down} osds) down", detail.len(), plural(detail.len()));
            health.add("OSD_HOST_DOWN", Severity::Warn, text, detail);
        }
    }

    pub(super) fn check_flags(&self, health: &mut Health) {
        let flags = self.committed.osdmap.flags;
        let usual = MapFlags::PACIFIC;
        let worth_saying = flags.without(usual).without(MapFlags(1 << 16 | 1 << 17 | 1 << 18));
        if worth_saying != MapFlags(0) {
            health.add("OSDMAP_FLAGS", Severity::Warn, format!("{worth_saying} flag(s) set"), Vec::new());
        }
    }

    pub(super) fn check_group_flags(&self, health: &mut Health) {
        let map = &self.committed.osdmap;
        let crush = map.crush.map();
        let of_osd = |osd| OsdState(map.state(osd).0 & OsdState::GROUP.0);
        let osds = map.osds().map(|osd| (format!("osd.{osd}"), of_osd(osd)));
        let name = |names: &BTreeMap<i32, String>, id| names.get(id).cloned().unwrap_or_default();
        let nodes = map.crush_node_flags.iter().map(|(id, flags)| (name(&crush.names, id), *flags));
        let classes = map.device_class_flags.iter();
        let classes =
            classes.map(|(id, flags)| (format!("device class '{}'", name(&crush.class_names, id)), *flags));
        let detail: Vec<String> = (osds.chain(nodes).chain(classes))
            .filter(|(_, flags)| *flags != OsdState::default())
            .map(|(who, flags)| format!("{who} has flags {flags}"))
            .collect();
        if !detail.is_empty() {
            let count = detail.len();
            let text = format!(
                "{count} OSDs or CRUSH {{nodes, device-classes}} have {{NOUP,NODOWN,NOIN,NOOUT}} flags set"
            );
            health.add("OSD_FLAGS", Severity::Warn, text, detail);
        }
    }

    /// Ratios that contradict each other.
    pub(super) fn check_ratios(&self, health: &mut Health) {
        let map = &self.committed.osdmap;
        let mut detail = Vec::new();
        let mut below = |small: f32, small_name: &str, large: f32, large_name: &str| {
            if small > large {
                detail.push(format!("{small_name} ({small}) > {large_name} ({large}), increased"));
            }
        };
        below(map.nearfull_ratio, "nearfull_ratio", map.backfillfull_ratio, "backfillfull_ratio");
        below(map.backfillfull_ratio, "backfillfull_ratio", map.full_ratio, "full_ratio");
        if !detail.is_empty() {
            health.add(
                "OSD_OUT_OF_ORDER_FULL",
                Severity::Err,
                "full ratio(s) out of order".to_owned(),
                detail,
            );
        }
    }

    pub(super) fn check_space(&self, health: &mut Health) {
        let map = &self.committed.osdmap;
        let (mut full, mut backfill, mut near) = (Vec::new(), Vec::new(), Vec::new());
        for osd in map.osds().filter(|osd| map.is_up(*osd)) {
            let Some(stat) = self.stats.osd(osd).filter(|stat| stat.kb > 0) else { continue };
            let used = (stat.kb - stat.kb_avail.min(stat.kb)) as f32 / stat.kb as f32;
            if used >= map.full_ratio {
                full.push(format!("osd.{osd} is full"));
            } else if used >= map.backfillfull_ratio {
                backfill.push(format!("osd.{osd} is backfill full"));
            } else if used >= map.nearfull_ratio {
                near.push(format!("osd.{osd} is near full"));
            }
        }
        if !full.is_empty() {
            health.add("OSD_FULL", Severity::Err, format!("{} full osd(s)", full.len()), full);
        }
        if !backfill.is_empty() {
            health.add(
                "OSD_BACKFILLFULL",
                Severity::Warn,
                format!("{} backfillfull osd(s)", backfill.len()),
                backfill,
            );
        }
        if !near.is_empty() {
            health.add("OSD_NEARFULL", Severity::Warn, format!("{} nearfull osd(s)", near.len()), near);
        }
    }
}
