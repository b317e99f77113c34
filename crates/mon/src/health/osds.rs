//! OSDs, flags of the cluster and of groups of OSDs, and their space.

use std::collections::BTreeMap;

use types::{MapFlags, OsdId, OsdState};

use super::{Health, Severity, plural};
use crate::Mon;

impl Mon {
    pub(super) fn check_osds(&self, health: &mut Health) {
        let map = &self.committed.osdmap;
        let crush = map.crush.map();
        let (count, size) = (map.num_osds(), usize::from(self.options.pool_size));
        if count < size {
            let text = format!("OSD count {count} < osd_pool_default_size {size}");
            health.add("TOO_FEW_OSDS", Severity::Warn, text, size - count, Vec::new());
        }
        let down: Vec<OsdId> = map.osds().filter(|osd| map.is_down(*osd) && map.is_in(*osd)).collect();
        if !down.is_empty() {
            let detail =
                down.iter().map(|osd| format!("osd.{osd} ({}) is down", self.place(osd.0))).collect();
            let count = down.len();
            health.add("OSD_DOWN", Severity::Warn, format!("{count} osds down"), count, detail);
        }
        let ahead: Vec<String> = self
            .osds_ahead()
            .map(|(osd, epoch)| format!("osd.{osd} has had OSD map {epoch}, and the monitor {}", map.epoch))
            .collect();
        if !ahead.is_empty() {
            let count = ahead.len();
            let text = format!(
                "{count} osds have had newer OSD maps than the monitor, whose ledger is an older copy"
            );
            health.add("MON_LEDGER_OLD", Severity::Err, text, count, ahead);
        }
        self.check_subtrees(health);
        let orphans: Vec<String> = crush
            .all_buckets()
            .filter(|bucket| !crush.is_shadow(bucket.id))
            .flat_map(|bucket| bucket.items.iter().copied())
            .filter(|item| (0..map.max_osd).contains(item) && !map.exists(OsdId(*item)))
            .map(|id| format!("osd.{id} exists in crush map but not in osdmap"))
            .collect();
        if !orphans.is_empty() {
            let count = orphans.len();
            let text = format!("{count} osds exist in the crush map but not in the osdmap");
            health.add("OSD_ORPHAN", Severity::Warn, text, count, orphans);
        }
    }

    /// Buckets of any type in which all OSDs that are in are down.
    fn check_subtrees(&self, health: &mut Health) {
        let map = &self.committed.osdmap;
        let crush = map.crush.map();
        let largest = crush.type_names.keys().next_back().copied();
        let mut by_kind: BTreeMap<i32, (usize, Vec<String>)> = BTreeMap::new();
        for bucket in crush.all_buckets().filter(|bucket| !crush.is_shadow(bucket.id)) {
            let mut devices = Vec::new();
            crush.devices_below(bucket.id, &mut devices);
            let is_in = || devices.iter().map(|id| OsdId(*id)).filter(|osd| map.is_in(*osd));
            if is_in().next().is_none() || is_in().any(|osd| map.is_up(osd)) {
                continue;
            }
            let kind = i32::from(bucket.kind);
            let kind_name = crush.type_names.get(&kind).map_or("", String::as_str);
            let name = crush.names.get(&bucket.id).map_or("", String::as_str);
            let place =
                if Some(kind) == largest { String::new() } else { format!(" ({})", self.place(bucket.id)) };
            let (osds, detail) = by_kind.entry(kind).or_default();
            *osds += devices.len();
            detail.push(format!("{kind_name} {name}{place} ({} osds) is down", devices.len()));
        }
        for (kind, (osds, detail)) in by_kind {
            let kind_name = crush.type_names.get(&kind).map_or("", String::as_str);
            let count = detail.len();
            let text = format!("{count} {kind_name}{} ({osds} osds) down", plural(count));
            let code = format!("OSD_{}_DOWN", kind_name.to_uppercase());
            health.add(code, Severity::Warn, text, count, detail);
        }
    }

    /// `root=default,rack=r1`: what holds an OSD or a bucket.
    fn place(&self, id: i32) -> String {
        let place = self.committed.osdmap.crush.map().location(id).into_iter().rev();
        place.map(|(kind, name)| format!("{kind}={name}")).collect::<Vec<_>>().join(",")
    }

    /// A monitor that never takes OSDs out.
    pub(super) fn check_down_out(&self, health: &mut Health) {
        if self.options.osd_down_out_interval.is_zero()
            && self.warns("mon_warn_on_osd_down_out_interval_zero")
        {
            let name = &self.base_options.name;
            let text = format!("mon {name} has mon_osd_down_out_interval set to 0");
            let detail = vec![format!("mon.{name} has mon_osd_down_out_interval set to 0")];
            health.add("OSD_NO_DOWN_OUT_INTERVAL", Severity::Warn, text, 1, detail);
        }
    }

    pub(super) fn check_flags(&self, health: &mut Health) {
        let flags = self.committed.osdmap.flags;
        let usual = MapFlags::PACIFIC;
        let worth_saying = flags.without(usual).without(MapFlags(1 << 16 | 1 << 17 | 1 << 18));
        if worth_saying != MapFlags(0) {
            let names = worth_saying.to_string();
            let text = format!("{names} flag(s) set");
            // As in Ceph, the length of the names: with another flag it rises.
            health.add("OSDMAP_FLAGS", Severity::Warn, text, names.len(), Vec::new());
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
            health.add("OSD_FLAGS", Severity::Warn, text, count, detail);
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
                0,
                detail,
            );
        }
    }

    pub(super) fn check_space(&self, health: &mut Health) {
        let map = &self.committed.osdmap;
        let (mut full, mut backfill, mut near) = (Vec::new(), Vec::new(), Vec::new());
        for osd in map.osds().filter(|osd| map.is_up(*osd) && map.is_in(*osd)) {
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
        for (code, severity, what, list) in [
            ("OSD_FULL", Severity::Err, "full", full),
            ("OSD_BACKFILLFULL", Severity::Warn, "backfillfull", backfill),
            ("OSD_NEARFULL", Severity::Warn, "nearfull", near),
        ] {
            if !list.is_empty() {
                let count = list.len();
                health.add(code, severity, format!("{count} {what} osd(s)"), count, list);
            }
        }
    }
}
