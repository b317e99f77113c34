//! What daemons count, and which disks they are on. A latency is two families, as with Ceph: its sum in seconds, and
//! how often.

use std::collections::BTreeMap;

use messages::{MON_PERF, OSD_PERF, PERF_USEFUL, PerfKind, PerfLogger, PerfValue, PerfValues};
use types::OsdId;

use super::page::{
    Kind::{Counter, Gauge, Untyped},
    Page,
};
use crate::Mon;

/// Families of the counters that a manager gets (`mgr_stats_threshold`).
pub(super) fn counters(mon: &Mon, page: &mut Page) {
    let osds = mon.committed.osdmap.osds();
    let osds: Vec<(String, &PerfValues)> =
        osds.filter_map(|osd| Some((format!("osd.{osd}"), mon.stats.perf(osd)?))).collect();
    section(&OSD_PERF, &osds, page);
    let values = mon.perf_values();
    section(&MON_PERF, &[(format!("mon.{}", mon.options.name), &values)], page);
}

fn section(logger: &PerfLogger, daemons: &[(String, &PerfValues)], page: &mut Page) {
    let mut family = |name: &str, kind, help: &str, of: &str, show: &dyn Fn(PerfValue) -> f64| {
        page.family(&format!("{}_{name}", logger.name), kind, help);
        for (daemon, values) in daemons {
            if let Some(value) = values.get(of) {
                page.sample(&[("ceph_daemon", daemon)], show(*value));
            }
        }
    };
    for row in logger.counters.iter().filter(|row| row.priority >= PERF_USEFUL) {
        let (name, help) = (row.name, row.help);
        match row.kind {
            PerfKind::Gauge => family(name, Gauge, help, name, &|value| value.sum as f64),
            PerfKind::Counter => family(name, Counter, help, name, &|value| value.sum as f64),
            PerfKind::Latency => {
                let (sum, count) = (format!("{name}_sum"), format!("{name}_count"));
                family(&sum, Counter, &format!("{help} Total"), name, &|value| value.sum as f64 / 1e9);
                family(&count, Counter, &format!("{help} Count"), name, &|value| value.count as f64);
            }
        }
    }
}

/// What an OSD has told of itself, and its device class; none of one that was never up, or that CRUSH has no place for.
/// One that is down is told of like the others: alerts look for the host of an OSD that went down.
pub(super) fn facts(mon: &Mon, osd: OsdId) -> Option<(&BTreeMap<String, String>, &str)> {
    let crush = mon.committed.osdmap.crush.map();
    crush.parent_of(osd.0)?;
    Some((mon.committed.osd_metadata.get(&osd)?, crush.device_class(osd.0).unwrap_or_default()))
}

/// The devices of OSDs whose stores are on devices of their own.
pub(super) fn disks(mon: &Mon, page: &mut Page) {
    let mut sharing: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    page.family("disk_occupation", Untyped, "Which OSD is on which device");
    for osd in mon.committed.osdmap.osds() {
        let Some((facts, _)) = facts(mon, osd) else { continue };
        let fact = |key: &str| facts.get(key).map_or("", String::as_str);
        let (device, host) = (fact("bluestore_bdev_dev_node"), fact("hostname"));
        if device.is_empty() || host.is_empty() {
            continue;
        }
        let labels = [
            ("ceph_daemon", &*format!("osd.{osd}")),
            ("device", device),
            ("db_device", fact("bluefs_db_dev_node")),
            ("wal_device", fact("bluefs_wal_dev_node")),
            ("instance", host),
            ("devices", fact("devices")),
            ("device_ids", fact("device_ids")),
        ];
        page.sample(&labels, 1.0);
        sharing.entry((device, host)).or_default().push(format!("osd.{osd}"));
    }
    page.family("disk_occupation_human", Untyped, "Which OSDs share a device, for people to read");
    for ((device, host), osds) in &sharing {
        let labels = [("ceph_daemon", &*osds.join(", ")), ("device", device), ("instance", host)];
        page.sample(&labels, 1.0);
    }
}

/// What OSDs that are up report of their health. They have no PGs that wait to be made.
pub(super) fn health(mon: &Mon, page: &mut Page) {
    page.family("daemon_health_metrics", Gauge, "What daemons report of their health");
    let slow: BTreeMap<OsdId, u32> = mon.stats.slow_ops().map(|(osd, (count, _))| (osd, count)).collect();
    let map = &mon.committed.osdmap;
    for osd in map.osds().filter(|osd| map.is_up(*osd) && mon.stats.osd(*osd).is_some()) {
        let labels = [("type", "SLOW_OPS"), ("ceph_daemon", &*format!("osd.{osd}"))];
        page.sample(&labels, f64::from(slow.get(&osd).copied().unwrap_or_default()));
    }
}

/// The `rbd-mirror` daemons that have made themselves known.
pub(super) fn mirrors(mon: &Mon, page: &mut Page) {
    page.family("rbd_mirror_metadata", Untyped, "Daemons that mirror images");
    for (name, facts) in mon.service_map.facts("rbd-mirror") {
        let fact = |key: &str| facts.get(key).map_or("", String::as_str);
        let labels = [
            ("ceph_daemon", &*format!("rbd-mirror.{name}")),
            ("id", fact("id")),
            ("instance_id", fact("instance_id")),
            ("hostname", fact("hostname")),
            ("ceph_version", fact("ceph_version")),
        ];
        page.sample(&labels, 1.0);
    }
}
