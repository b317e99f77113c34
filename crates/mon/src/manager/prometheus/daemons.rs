//! What daemons count, and which disks they are on. A latency is two families, as with Ceph: its sum in seconds, and
//! how often.

use messages::{MON_PERF, OSD_PERF, PERF_USEFUL, PerfKind, PerfLogger, PerfValue, PerfValues};

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

/// The devices of OSDs that are up and whose stores are on devices of their own.
pub(super) fn disks(mon: &Mon, page: &mut Page) {
    let map = &mon.committed.osdmap;
    page.family("disk_occupation", Untyped, "Which OSD is on which device");
    for osd in map.osds().filter(|osd| map.is_up(*osd)) {
        let facts = mon.committed.osd_metadata.get(&osd);
        let fact = |key: &str| facts.and_then(|facts| facts.get(key)).map_or("", String::as_str);
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
    }
}
