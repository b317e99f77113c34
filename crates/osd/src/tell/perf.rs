//! `perf dump`, `perf schema`, `perf reset`: what this OSD counts, of all its shards together.
//!
//! Authority: `PerfCountersCollectionImpl` (16.2).

use messages::{OSD_PERF, PERF_USEFUL, PerfValue, PerfValues, perf_dump, perf_reset_answer, perf_schema};
use pg::{OpCounts, Served};
use serde_json::json;
use types::Errno;

use super::{Answer, Call};
use crate::{Osd, osd::Ctx};

/// The counters that belong to the OSD itself and not to its PGs.
#[derive(Debug, Default)]
pub(crate) struct Perf {
    /// Messages with maps, and maps in them.
    pub(crate) map_messages: u64,
    pub(crate) map_epochs: u64,
    /// Messages that waited for a map.
    pub(crate) delayed_for_map: u64,
    /// What all counters were at the last reset.
    base: PerfValues,
    /// What the histograms were at the last reset.
    pub(super) histograms_base: pg::OpHistograms,
}

pub(super) fn dump(osd: &mut Osd, call: &Call, ctx: &mut Ctx<'_>) -> Answer {
    let values = osd.perf_values(ctx);
    let (logger, counter) = (call.text("logger"), call.text("counter"));
    Ok(Some(perf_dump(&[(&OSD_PERF, &values)], logger.as_deref(), counter.as_deref())))
}

pub(super) fn schema(_: &mut Osd, _: &Call, _: &mut Ctx<'_>) -> Answer {
    Ok(Some(perf_schema(&[&OSD_PERF])))
}

pub(super) fn reset(osd: &mut Osd, call: &Call, ctx: &mut Ctx<'_>) -> Answer {
    let Some(name) = call.text("var") else {
        return Err((Errno::EINVAL, "missing required parameter var(<string>)".to_owned()));
    };
    if name == "all" || name == OSD_PERF.name {
        osd.perf.base = osd.perf_since_start(ctx);
        osd.perf.histograms_base = osd.all_histograms();
    }
    Ok(Some(perf_reset_answer(&[&OSD_PERF], &name)))
}

/// The devices that its host knows below its store.
pub(super) fn list_devices(osd: &mut Osd, _: &Call, _: &mut Ctx<'_>) -> Answer {
    let fact = |name: &str| osd.config.metadata.get(name).map(String::as_str).unwrap_or_default();
    let ids: Vec<(&str, &str)> =
        fact("device_ids").split(',').filter_map(|pair| pair.split_once('=')).collect();
    let devices = fact("devices").split(',').filter(|name| !name.is_empty()).map(|name| {
        let id = ids.iter().find(|(of, _)| *of == name).map_or("", |(_, id)| id);
        json!({"device": format!("/dev/{name}"), "device_id": id})
    });
    Ok(Some(devices.collect()))
}

/// The values of a kind of requests, under the names that begin with `prefix`.
fn served(values: &mut PerfValues, prefix: &str, of: Served) {
    let latency = PerfValue { sum: of.nanos, count: of.ops };
    for (name, value) in [
        ("", of.ops.into()),
        ("_in_bytes", of.in_bytes.into()),
        ("_out_bytes", of.out_bytes.into()),
        ("_latency", latency),
    ] {
        values.insert(format!("{prefix}{name}"), value);
    }
}

impl Osd {
    /// All counters as they would be without a reset.
    fn perf_since_start(&self, ctx: &Ctx<'_>) -> PerfValues {
        let usage = self.usage(ctx);
        let reports = self.control.reports().map(|report| report.op_counts);
        let counts: OpCounts = reports.chain([self.pgs.op_counts()]).sum();
        let mut values = PerfValues::new();
        served(&mut values, "op", counts.all());
        served(&mut values, "op_r", counts.reads);
        served(&mut values, "op_w", counts.writes);
        served(&mut values, "op_rw", counts.both);
        // Reads bring no data in, and requests that only write send none out.
        values.remove("op_r_in_bytes");
        values.remove("op_w_out_bytes");
        let subop = PerfValue { sum: counts.subops.nanos, count: counts.subops.count };
        for name in ["subop", "subop_w"] {
            values.insert(name.to_owned(), subop.count.into());
            values.insert(format!("{name}_latency"), subop);
        }
        for (name, value) in [
            ("op_wip", self.admission.ops() + self.control.reports().map(|report| report.ops).sum::<u64>()),
            ("numpg", self.pg_count() as u64),
            ("numpg_primary", self.primary_pg_count() as u64),
            ("heartbeat_to_peers", self.heartbeat.peers().count() as u64),
            ("map_messages", self.perf.map_messages),
            ("map_message_epochs", self.perf.map_epochs),
            ("messages_delayed_for_map", self.perf.delayed_for_map),
            ("stat_bytes", usage.total_bytes),
            ("stat_bytes_used", usage.total_bytes.saturating_sub(usage.available_bytes)),
            ("stat_bytes_avail", usage.available_bytes),
        ] {
            values.insert(name.to_owned(), value.into());
        }
        values
    }

    /// All counters since the last reset.
    fn perf_values(&self, ctx: &Ctx<'_>) -> PerfValues {
        let mut values = self.perf_since_start(ctx);
        OSD_PERF.since_reset(&mut values, &self.perf.base);
        values
    }

    /// The counters that the manager gets.
    pub(crate) fn useful_perf(&self, ctx: &Ctx<'_>) -> PerfValues {
        let values = self.perf_values(ctx);
        let useful = OSD_PERF.counters.iter().filter(|counter| counter.priority >= PERF_USEFUL);
        useful
            .filter_map(|counter| values.get_key_value(counter.name))
            .map(|(name, v)| (name.clone(), *v))
            .collect()
    }
}
