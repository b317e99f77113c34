//! What the cluster measures, from its maps and the statistics that came in, under the names that Ceph's module gives
//! it.

use std::collections::BTreeMap;

use types::{EntityAddrVec, MapFlags, OsdId, PgPool, PgStatSum, PoolId, PoolOptValue};

use super::{
    daemons, history, images,
    page::{
        Kind::{self, Counter, Gauge, Untyped},
        Page,
    },
};
use crate::{
    Mon,
    health::Severity,
    manager::modules::{self, Running},
    stats::{PoolSpace, Rates, pool_space},
};

/// States of PGs that are counted pool by pool: all that Ceph has names for.
const PG_STATES: [&str; 34] = [
    "activating",
    "active",
    "backfill_toofull",
    "backfill_unfound",
    "backfill_wait",
    "backfilling",
    "clean",
    "creating",
    "deep",
    "degraded",
    "down",
    "failed_repair",
    "forced_backfill",
    "forced_recovery",
    "incomplete",
    "inconsistent",
    "laggy",
    "peered",
    "peering",
    "premerge",
    "recovering",
    "recovery_toofull",
    "recovery_unfound",
    "recovery_wait",
    "remapped",
    "repair",
    "scrubbing",
    "snaptrim",
    "snaptrim_error",
    "snaptrim_wait",
    "stale",
    "undersized",
    "unknown",
    "wait",
];

const FLAGS: [&str; 9] =
    ["noup", "nodown", "noout", "noin", "nobackfill", "norebalance", "norecover", "noscrub", "nodeep-scrub"];

/// The page that is served.
pub(super) fn page(mon: &Mon) -> String {
    let mut page = Page::default();
    health(mon, &mut page);
    monitors(mon, &mut page);
    osds(mon, &mut page);
    daemons::counters(mon, &mut page);
    daemons::disks(mon, &mut page);
    daemons::health(mon, &mut page);
    daemons::mirrors(mon, &mut page);
    images::images(mon, &mut page);
    space(mon, &mut page);
    pools(mon, &mut page);
    pg_states(mon, &mut page);
    page.end()
}

fn flag(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}

fn health(mon: &Mon, page: &mut Page) {
    let health = mon.health();
    let status = match health.status() {
        Severity::Ok => 0.0,
        Severity::Warn => 1.0,
        Severity::Err => 2.0,
    };
    page.single("health_status", Untyped, "Health of the cluster: 0 is OK, 1 a warning, 2 an error", status);
    page.family("health_detail", Gauge, "Health checks: 1 is raised, 0 was raised before");
    let seen = history::read(&mon.committed.config_keys);
    for (code, event) in &seen {
        let is_raised = health.checks.contains_key(code.as_str());
        page.sample(&[("name", code), ("severity", event.severity.name())], flag(is_raised));
    }
    for (code, check) in health.checks.iter().filter(|(code, _)| !seen.contains_key(code.as_ref())) {
        page.sample(&[("name", code), ("severity", check.severity.name())], 1.0);
    }
    let up = mon.stats.slow_ops().filter(|(osd, _)| mon.committed.osdmap.is_up(*osd));
    let slow: f64 = up.map(|(_, (count, _))| f64::from(count)).sum();
    page.single("healthcheck_slow_ops", Gauge, "Requests that take long", slow);
    for name in FLAGS {
        let is_set = MapFlags::parse(name).is_some_and(|flag| mon.committed.osdmap.flags.has(flag));
        let family = format!("osd_flag_{}", name.replace('-', "_"));
        page.single(&family, Untyped, "A flag of the OSD map", flag(is_set));
    }
}

fn monitors(mon: &Mon, page: &mut Page) {
    let version = &mon.options.version();
    let monmap = &mon.committed.monmap;
    let named: Vec<(String, String, String)> = monmap
        .mons()
        .zip(0u32..)
        .map(|(mon, rank)| (format!("mon.{}", mon.name), ip_of(Some(&mon.public_addrs)), rank.to_string()))
        .collect();
    page.family("mon_quorum_status", Gauge, "Monitors in the quorum");
    named.iter().for_each(|(name, ..)| page.sample(&[("ceph_daemon", name)], 1.0));
    page.family("mon_metadata", Untyped, "Monitors");
    for (name, ip, rank) in &named {
        let labels = [
            ("ceph_daemon", name.as_str()),
            ("hostname", &mon.options.hostname),
            ("public_addr", ip),
            ("rank", rank),
            ("ceph_version", version),
        ];
        page.sample(&labels, 1.0);
    }
    let manager = format!("mgr.{}", mon.options.name);
    page.family("mgr_metadata", Gauge, "Managers");
    let labels =
        [("ceph_daemon", manager.as_str()), ("hostname", &mon.options.hostname), ("ceph_version", version)];
    page.sample(&labels, 1.0);
    page.family("mgr_status", Gauge, "1 for the manager that is active");
    page.sample(&[("ceph_daemon", &manager)], 1.0);
    page.family("mgr_module_can_run", Gauge, "1 for a module that can be enabled");
    for name in modules::available() {
        page.sample(&[("name", name)], 1.0);
    }
    page.family("mgr_module_status", Gauge, "Modules: 0 is off, 1 on, 2 always on");
    for (name, running) in modules::all(mon) {
        let value = match running {
            Running::Off => 0.0,
            Running::On => 1.0,
            Running::Always => 2.0,
        };
        page.sample(&[("name", name)], value);
    }
}

fn ip_of(addrs: Option<&EntityAddrVec>) -> String {
    let socket = addrs.and_then(|addrs| addrs.msgr2_addr()).and_then(|addr| addr.socket);
    socket.map(|socket| socket.ip().to_string()).unwrap_or_default()
}

fn osds(mon: &Mon, page: &mut Page) {
    let map = &mon.committed.osdmap;
    let named: Vec<(OsdId, String)> = map.osds().map(|osd| (osd, format!("osd.{osd}"))).collect();
    page.family("osd_metadata", Untyped, "OSDs");
    for (osd, name) in &named {
        let Some((facts, class)) = daemons::facts(mon, *osd) else { continue };
        let fact = |key: &str| facts.get(key).cloned().unwrap_or_default();
        let labels = [
            ("back_iface", fact("back_iface")),
            ("ceph_daemon", name.clone()),
            ("cluster_addr", ip_of(map.osd_cluster_addrs(*osd))),
            ("device_class", class.to_owned()),
            ("front_iface", fact("front_iface")),
            ("hostname", fact("hostname")),
            ("objectstore", fact("osd_objectstore")),
            ("public_addr", ip_of(map.osd_addrs(*osd))),
            ("ceph_version", fact("ceph_version")),
        ];
        let labels = labels.each_ref().map(|(label, text)| (*label, text.as_str()));
        page.sample(&labels, 1.0);
    }
    type Value<'a> = &'a dyn Fn(OsdId) -> Option<f64>;
    const MS: u64 = 1_000_000;
    let stat = |osd| mon.stats.osd(osd);
    let families: [(&str, _, &str, Value<'_>); 5] = [
        ("osd_weight", Untyped, "Weight of an OSD", &|osd| Some(f64::from(map.weight_fraction(osd)))),
        ("osd_up", Untyped, "1 for an OSD that is up", &|osd| Some(flag(map.is_up(osd)))),
        ("osd_in", Untyped, "1 for an OSD that is in", &|osd| Some(flag(map.is_in(osd)))),
        ("osd_apply_latency_ms", Gauge, "Latency of applying", &|osd| {
            Some((stat(osd)?.apply_latency_ns / MS) as f64)
        }),
        ("osd_commit_latency_ms", Gauge, "Latency of committing", &|osd| {
            Some((stat(osd)?.commit_latency_ns / MS) as f64)
        }),
    ];
    for (family, kind, help, value) in families {
        page.family(family, kind, help);
        for (osd, name) in &named {
            if let Some(value) = value(*osd) {
                page.sample(&[("ceph_daemon", name)], value);
            }
        }
    }
}

fn space(mon: &Mon, page: &mut Page) {
    let devices = mon.stats.all_devices(&mon.committed.osdmap);
    let used_raw = devices.kb.saturating_sub(devices.kb_avail);
    for (name, kb, help) in [
        ("cluster_total_bytes", devices.kb, "Size of all devices"),
        ("cluster_total_used_bytes", devices.kb_used, "Space used on them"),
        ("cluster_total_used_raw_bytes", used_raw, "Space that is not free"),
    ] {
        page.single(name, Gauge, help, (kb << 10) as f64);
    }
    let total = mon.stats.total();
    for (name, value, help) in [
        ("num_objects_degraded", total.degraded, "Copies of objects that are missing"),
        ("num_objects_misplaced", total.misplaced, "Copies of objects that are not in their places"),
        ("num_objects_unfound", total.unfound, "Objects that nobody has"),
    ] {
        page.single(name, Gauge, help, value as f64);
    }
}

/// What is told of a pool.
struct PoolFacts {
    id: String,
    quota_bytes: u64,
    quota_objects: u64,
    space: PoolSpace,
    sum: PgStatSum,
    rates: Rates,
}

type PoolFamily = (&'static str, Kind, &'static str, fn(&PoolFacts) -> f64);

const POOL_FAMILIES: &[PoolFamily] = &[
    ("pool_max_avail", Gauge, "Bytes that clients may still store", |of| of.space.max_avail as f64),
    ("pool_avail_raw", Gauge, "Space for that, with all copies", |of| of.space.avail_raw as f64),
    ("pool_stored", Gauge, "Bytes that clients have stored", |of| of.space.stored as f64),
    ("pool_stored_raw", Gauge, "The same with all copies", |of| of.space.stored_raw as f64),
    ("pool_objects", Gauge, "Objects", |of| of.sum.objects as f64),
    ("pool_dirty", Gauge, "Objects to be flushed to another tier", |_| 0.0),
    ("pool_quota_bytes", Gauge, "Quota of bytes", |of| of.quota_bytes as f64),
    ("pool_quota_objects", Gauge, "Quota of objects", |of| of.quota_objects as f64),
    ("pool_rd", Counter, "Reads", |of| of.sum.reads as f64),
    ("pool_rd_bytes", Counter, "Bytes read", |of| of.sum.read_bytes as f64),
    ("pool_wr", Counter, "Writes", |of| of.sum.writes as f64),
    ("pool_wr_bytes", Counter, "Bytes written", |of| of.sum.write_bytes as f64),
    ("pool_compress_bytes_used", Gauge, "Space that compressed data takes", |_| 0.0),
    ("pool_compress_under_bytes", Gauge, "Data that was compressed", |_| 0.0),
    ("pool_bytes_used", Gauge, "Space used on devices", |of| of.space.used as f64),
    ("pool_percent_used", Gauge, "Part of the pool's space that is used", |of| of.space.used_ratio),
    ("pool_num_objects_recovered", Gauge, "Objects recovered in the last seconds", |of| {
        of.rates.done.objects_recovered as f64
    }),
    ("pool_num_bytes_recovered", Gauge, "Bytes recovered in the last seconds", |of| {
        of.rates.done.bytes_recovered as f64
    }),
    ("pool_objects_repaired", Counter, "Objects repaired", |of| of.sum.objects_repaired as f64),
    ("pool_recovering_objects_per_sec", Gauge, "Objects recovered per second", |of| {
        of.rates.recovered_objects as f64
    }),
    ("pool_recovering_bytes_per_sec", Gauge, "Bytes recovered per second", |of| {
        of.rates.recovered_bytes as f64
    }),
    ("pool_recovering_keys_per_sec", Gauge, "Keys recovered per second", |_| 0.0),
];

fn pools(mon: &Mon, page: &mut Page) {
    let map = &mon.committed.osdmap;
    page.family("pool_metadata", Untyped, "Pools");
    for (id, pool) in &map.pools {
        let (id_text, copies) = (id.to_string(), format!("replica:{}", pool.size));
        let compression = match pool.opts.get("compression_mode") {
            Some(PoolOptValue::Str(mode)) => mode,
            Some(_) | None => "none",
        };
        let labels = [
            ("pool_id", id_text.as_str()),
            ("name", map.pool_name(*id).unwrap_or_default()),
            ("type", "replicated"),
            ("description", &copies),
            ("compression_mode", compression),
        ];
        page.sample(&labels, 1.0);
    }
    let facts = |(id, pool): (&PoolId, &PgPool)| PoolFacts {
        id: id.to_string(),
        quota_bytes: pool.quota_bytes_max,
        quota_objects: pool.quota_objects_max,
        space: pool_space(&mon.stats, map, *id, pool),
        sum: mon.stats.pool_sum(*id),
        rates: mon.stats.rates(Some(*id)),
    };
    let facts: Vec<PoolFacts> = map.pools.iter().map(facts).collect();
    for (name, kind, help, value) in POOL_FAMILIES {
        page.family(name, *kind, help);
        // Ceph's own word for the label of this one.
        let label = if *name == "pool_objects_repaired" { "poolid" } else { "pool_id" };
        facts.iter().for_each(|facts| page.sample(&[(label, &facts.id)], value(facts)));
    }
}

fn pg_states(mon: &Mon, page: &mut Page) {
    let map = &mon.committed.osdmap;
    let mut counts: BTreeMap<(String, PoolId), u32> = BTreeMap::new();
    for pg in map.pgs() {
        let state = mon.stats.state_of(map, pg, mon.is_creating(pg)).to_string();
        for name in state.split('+') {
            *counts.entry((name.to_owned(), pg.pool)).or_default() += 1;
        }
    }
    page.family("pg_total", Gauge, "PGs of a pool");
    for (id, pool) in &map.pools {
        page.sample(&[("pool_id", &id.to_string())], f64::from(pool.pg_num));
    }
    for name in PG_STATES {
        page.family(&format!("pg_{name}"), Gauge, "PGs of a pool in this state");
        for id in map.pools.keys() {
            let count = counts.get(&(name.to_owned(), *id)).copied().unwrap_or_default();
            page.sample(&[("pool_id", &id.to_string())], f64::from(count));
        }
    }
}
