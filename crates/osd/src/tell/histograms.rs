//! `perf histogram dump` and `schema`: how long requests took, by their size, of all shards together.
//!
//! Authority: `PerfCountersCollectionImpl::dump_formatted_histograms`, `PerfHistogramCommon` (16.2).

use pg::{BUCKETS, BYTES_QUANT, HISTOGRAMS, NANOS_QUANT, OpHistograms};
use serde_json::{Map, Value, json};

use super::{Answer, Call};
use crate::{Osd, osd::Ctx};

/// The section that they are in.
const SECTION: &str = "osd";

/// Both commands take the names of a section and of one histogram.
fn wanted(call: &Call, show: impl Fn(usize, &'static str) -> Value) -> Answer {
    let is_wanted = |arg: &str, name: &str| call.text(arg).is_none_or(|text| text.is_empty() || text == name);
    let mut out = Map::new();
    if is_wanted("logger", SECTION) {
        let all = HISTOGRAMS.iter().enumerate().filter(|(_, (name, _))| is_wanted("counter", name));
        let shown: Map<String, Value> =
            all.map(|(at, (name, help))| ((*name).to_owned(), show(at, help))).collect();
        out.insert(SECTION.to_owned(), shown.into());
    }
    Ok(Some(out.into()))
}

/// An axis: its bounds double from bucket to bucket. The first is for what is below zero, the last has no end.
fn axis(name: &str, quant: u64) -> Value {
    let bound = |bucket: usize| match bucket {
        1 => 0,
        bucket => quant << (bucket - 2),
    };
    let range = |bucket: usize| match bucket {
        0 => json!({"max": -1}),
        last if last == BUCKETS - 1 => json!({"min": bound(last)}),
        bucket => json!({"min": bound(bucket), "max": bound(bucket + 1) - 1}),
    };
    json!({
        "name": name,
        "min": 0,
        "quant_size": quant,
        "buckets": BUCKETS,
        "scale_type": "log2",
        "ranges": (0..BUCKETS).map(range).collect::<Vec<_>>(),
    })
}

pub(super) fn dump(osd: &mut Osd, call: &Call, _: &mut Ctx<'_>) -> Answer {
    let mut counted = osd.all_histograms();
    counted.since(&osd.perf.histograms_base);
    // Ceph calls them so, and counts nanoseconds.
    let axes = [axis("Latency (usec)", NANOS_QUANT), axis("Request size (bytes)", BYTES_QUANT)];
    wanted(call, |at, _| json!({"axes": axes, "values": counted.rows(at)}))
}

pub(super) fn schema(_: &mut Osd, call: &Call, _: &mut Ctx<'_>) -> Answer {
    wanted(call, |_, help| {
        json!({
            "type": 26,
            "metric_type": "counter",
            "value_type": "integer-2d-histogram",
            "description": help,
            "nick": "",
            "priority": 5,
            "units": "none",
        })
    })
}

impl Osd {
    /// Since this OSD was started.
    pub(super) fn all_histograms(&self) -> OpHistograms {
        let mut all = self.pgs.histograms();
        self.control.reports().for_each(|report| all.add(&report.histograms));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axes_are_those_of_ceph() {
        let time = axis("Latency (usec)", NANOS_QUANT);
        let ranges = time["ranges"].as_array().unwrap();
        // As 16.2.15 shows them.
        assert_eq!(
            ranges[..3],
            [json!({"max": -1}), json!({"min": 0, "max": 99_999}), json!({"min": 100_000, "max": 199_999})]
        );
        assert_eq!(ranges[30], json!({"min": 26_843_545_600_000u64, "max": 53_687_091_199_999u64}));
        assert_eq!((ranges.len(), &ranges[31]), (32, &json!({"min": 53_687_091_200_000u64})));
        let size = axis("Request size (bytes)", BYTES_QUANT);
        assert_eq!(size["ranges"][31], json!({"min": 274_877_906_944u64}));
    }
}
