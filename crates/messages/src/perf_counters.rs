//! What daemons count, under Ceph's names: declared once, shown by `perf dump` and `perf schema`, and reported to the
//! manager's part, whose module `prometheus` shows it again. A counter that no daemon counts is not declared.
//!
//! Authority: `PerfCountersBuilder`, `PerfCounters::dump_formatted_generic`, `osd_perf_counters.cc`,
//! `ClusterStatistics` of `Monitor.cc` (16.2).

use std::collections::BTreeMap;

use codec::Codec;
use serde_json::{Map, Value, json};

/// What kind of number a counter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerfKind {
    /// May rise and fall: `perf reset` leaves it.
    Gauge,
    /// Only rises.
    Counter,
    /// How often something happened and how long it took, in nanoseconds.
    Latency,
}

/// One counter.
#[derive(Debug)]
pub struct PerfCounter {
    /// Ceph's name.
    pub name: &'static str,
    /// What kind of number it is.
    pub kind: PerfKind,
    /// What it is counted in.
    pub unit: &'static str,
    /// Ceph's short name for columns of `daemonperf`.
    pub nick: &'static str,
    /// Ceph's priority: from [`PERF_USEFUL`] on, the manager gets it.
    pub priority: u8,
    /// What it counts.
    pub help: &'static str,
}

/// `PRIO_USEFUL`: from this priority on counters are reported.
pub const PERF_USEFUL: u8 = 5;

/// A section of counters.
#[derive(Debug)]
pub struct PerfLogger {
    /// Ceph's name of it.
    pub name: &'static str,
    /// Its counters.
    pub counters: &'static [PerfCounter],
}

/// A counter's value.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerfValue {
    /// The number; of a latency, the sum in nanoseconds.
    pub sum: u64,
    /// Of a latency, how often.
    pub count: u64,
}

impl From<u64> for PerfValue {
    fn from(sum: u64) -> PerfValue {
        PerfValue { sum, count: 0 }
    }
}

/// Values of a section's counters by name.
pub type PerfValues = BTreeMap<String, PerfValue>;

const NONE: &str = "none";
const BYTES: &str = "bytes";

macro_rules! counters {
    ($($kind:ident $name:literal $unit:ident $nick:literal $priority:literal $help:literal)*) => {
        &[$(PerfCounter {
            name: $name,
            kind: PerfKind::$kind,
            unit: $unit,
            nick: $nick,
            priority: $priority,
            help: $help,
        }),*]
    };
}

/// What OSDs count.
pub static OSD_PERF: PerfLogger = PerfLogger {
    name: "osd",
    counters: counters! {
        Gauge "op_wip" NONE "" 5 "Requests of clients that are held"
        Counter "op" NONE "ops" 10 "Requests of clients"
        Counter "op_in_bytes" BYTES "wr" 8 "Bytes that came with them"
        Counter "op_out_bytes" BYTES "rd" 8 "Bytes that were read for them"
        Latency "op_latency" NONE "l" 9 "Time from their coming to their answer"
        Counter "op_r" NONE "" 5 "Requests that read"
        Counter "op_r_out_bytes" BYTES "" 5 "Bytes that they read"
        Latency "op_r_latency" NONE "" 5 "Time that they took"
        Counter "op_w" NONE "" 5 "Requests that change"
        Counter "op_w_in_bytes" NONE "" 5 "Bytes that came with them"
        Latency "op_w_latency" NONE "" 5 "Time that they took"
        Counter "op_rw" NONE "" 5 "Requests that read and change"
        Counter "op_rw_in_bytes" BYTES "" 5 "Bytes that came with them"
        Counter "op_rw_out_bytes" BYTES "" 5 "Bytes that they read"
        Latency "op_rw_latency" NONE "" 5 "Time that they took"
        Counter "subop" NONE "" 0 "Changes that came from primaries"
        Latency "subop_latency" NONE "" 0 "Time until they were durable here"
        Counter "subop_w" NONE "" 0 "Changes that came from primaries"
        Latency "subop_w_latency" NONE "" 0 "Time until they were durable here"
        Gauge "numpg" NONE "pgs" 5 "PGs"
        Gauge "numpg_primary" NONE "" 0 "PGs that this OSD leads"
        Gauge "heartbeat_to_peers" NONE "" 0 "OSDs that are sent heartbeats"
        Counter "map_messages" NONE "" 0 "Messages with OSD maps"
        Counter "map_message_epochs" NONE "" 0 "Maps in them"
        Counter "messages_delayed_for_map" NONE "" 0 "Messages that waited for a map"
        Gauge "stat_bytes" BYTES "size" 5 "Size of the device"
        Gauge "stat_bytes_used" BYTES "used" 5 "Space used on it"
        Gauge "stat_bytes_avail" BYTES "" 0 "Space left on it"
    },
};

/// What the monitor knows of the cluster.
pub static CLUSTER_PERF: PerfLogger = PerfLogger {
    name: "cluster",
    counters: counters! {
        Gauge "num_mon" NONE "" 0 "Monitors"
        Gauge "num_mon_quorum" NONE "" 0 "Monitors in the quorum"
        Gauge "num_osd" NONE "" 0 "OSDs"
        Gauge "num_osd_up" NONE "" 0 "OSDs that are up"
        Gauge "num_osd_in" NONE "" 0 "OSDs that are in"
        Gauge "osd_epoch" NONE "" 0 "The newest OSD map"
        Gauge "osd_bytes" BYTES "" 0 "Size of all devices"
        Gauge "osd_bytes_used" BYTES "" 0 "Space used on them"
        Gauge "osd_bytes_avail" BYTES "" 0 "Space left on them"
        Gauge "num_pool" NONE "" 0 "Pools"
        Gauge "num_pg" NONE "" 0 "PGs"
        Gauge "num_pg_active_clean" NONE "" 0 "PGs that are active and clean"
        Gauge "num_pg_active" NONE "" 0 "PGs that are active"
        Gauge "num_pg_peering" NONE "" 0 "PGs that are peering"
        Gauge "num_object" NONE "" 0 "Objects"
        Gauge "num_object_degraded" NONE "" 0 "Copies that are missing"
        Gauge "num_object_misplaced" NONE "" 0 "Copies that are not in their places"
        Gauge "num_object_unfound" NONE "" 0 "Objects that nobody has"
        Gauge "num_bytes" BYTES "" 0 "Bytes of all objects"
    },
};

/// What the monitor counts of itself.
pub static MON_PERF: PerfLogger = PerfLogger {
    name: "mon",
    counters: counters! {
        Gauge "num_sessions" NONE "sess" 5 "Sessions that are open"
    },
};

impl PerfCounter {
    fn schema(&self) -> Value {
        let (number, metric, value) = match self.kind {
            PerfKind::Gauge => (2, "gauge", "integer"),
            PerfKind::Counter => (10, "counter", "integer"),
            PerfKind::Latency => (5, "gauge", "real-integer-pair"),
        };
        json!({
            "type": number,
            "metric_type": metric,
            "value_type": value,
            "description": self.help,
            "nick": self.nick,
            "priority": self.priority,
            "units": self.unit,
        })
    }

    fn show(&self, value: PerfValue) -> Value {
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        match self.kind {
            PerfKind::Gauge | PerfKind::Counter => value.sum.into(),
            PerfKind::Latency => json!({
                "avgcount": value.count,
                "sum": seconds(value.sum),
                "avgtime": seconds(value.sum.checked_div(value.count).unwrap_or(0)),
            }),
        }
    }
}

impl PerfLogger {
    /// Subtracts the values at the last reset (`base`) from all counters but gauges.
    pub fn since_reset(&self, values: &mut PerfValues, base: &PerfValues) {
        for counter in self.counters.iter().filter(|counter| counter.kind != PerfKind::Gauge) {
            if let (Some(value), Some(base)) = (values.get_mut(counter.name), base.get(counter.name)) {
                value.sum = value.sum.saturating_sub(base.sum);
                value.count = value.count.saturating_sub(base.count);
            }
        }
    }
}

/// `perf schema`.
pub fn perf_schema(loggers: &[&PerfLogger]) -> Value {
    let section = |logger: &&PerfLogger| {
        let rows = logger.counters.iter().map(|counter| (counter.name.to_owned(), counter.schema()));
        (logger.name.to_owned(), Value::Object(rows.collect()))
    };
    Value::Object(loggers.iter().map(section).collect())
}

/// `perf dump`: all counters, or those of one logger, or of one name. An unknown name leaves the answer without them.
pub fn perf_dump(all: &[(&PerfLogger, &PerfValues)], logger: Option<&str>, counter: Option<&str>) -> Value {
    let is_wanted = |wanted: Option<&str>, name: &str| wanted.is_none_or(|w| w.is_empty() || w == name);
    let mut out = Map::new();
    for (section, values) in all.iter().filter(|(section, _)| is_wanted(logger, section.name)) {
        let rows = section.counters.iter().filter(|row| is_wanted(counter, row.name));
        let shown = rows.filter_map(|row| Some((row.name.to_owned(), row.show(*values.get(row.name)?))));
        out.insert(section.name.to_owned(), Value::Object(shown.collect()));
    }
    out.into()
}

/// What `perf reset NAME` answers: Ceph succeeds either way.
pub fn perf_reset_answer(loggers: &[&PerfLogger], name: &str) -> Value {
    match name == "all" || loggers.iter().any(|logger| logger.name == name) {
        true => json!({"success": format!("perf reset {name}")}),
        false => json!({"error": format!("Not find: {name}")}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> PerfValues {
        let latency = PerfValue { sum: 3_000_000_000, count: 2 };
        let all = [("op", 7.into()), ("op_latency", latency), ("numpg", 4.into())];
        all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    #[test]
    fn what_was_asked_for_is_shown_as_ceph_shows_it() {
        let values = values();
        let all = [(&OSD_PERF, &values)];
        let latency = json!({"avgcount": 2, "sum": 3.0, "avgtime": 1.5});
        let osd = json!({"osd": {"op": 7, "op_latency": latency, "numpg": 4}});
        assert_eq!(perf_dump(&all, None, None), osd);
        assert_eq!(perf_dump(&all, Some("osd"), Some("op")), json!({"osd": {"op": 7}}));
        assert_eq!(perf_dump(&all, Some("osd"), Some("none")), json!({"osd": {}}));
        assert_eq!(perf_dump(&all, Some("none"), None), json!({}));
    }

    #[test]
    fn a_reset_leaves_what_may_fall() {
        let (mut now, base) = (values(), values());
        now.insert("op".to_owned(), 9.into());
        OSD_PERF.since_reset(&mut now, &base);
        assert_eq!((now["op"].sum, now["op_latency"], now["numpg"].sum), (2, PerfValue::default(), 4));
    }

    #[test]
    fn the_schema_has_the_numbers_of_ceph() {
        let schema = perf_schema(&[&OSD_PERF, &MON_PERF]);
        assert_eq!(schema["osd"]["op"]["type"], 10);
        assert_eq!(schema["osd"]["op_latency"]["value_type"], "real-integer-pair");
        assert_eq!(schema["mon"]["num_sessions"]["metric_type"], "gauge");
        for logger in [&OSD_PERF, &MON_PERF, &CLUSTER_PERF] {
            let section = schema.get(logger.name).and_then(Value::as_object);
            assert!(section.is_none_or(|rows| rows.len() == logger.counters.len()), "a name stands twice");
        }
    }
}
