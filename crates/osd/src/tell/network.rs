//! `dump_osd_network`: the heartbeat peers that take long to answer.
//!
//! Authority: `OSD::asok_command` (16.2). Its heartbeats go over two connections, `front` and `back`; ours share the
//! cluster's connection, `back`.

use std::{cmp::Reverse, time::Duration};

use serde_json::{Value, json};
use types::OsdId;

use super::{Answer, Call};
use crate::{
    Osd,
    osd::Ctx,
    ping_times::{PingSummary, PingTimes},
};

/// An entry without an answer for so long says so.
const STALE: Duration = Duration::from_secs(3_600);

/// Peers whose mean of 1, 5 or 15 minutes is `value` milliseconds at least, the slowest first.
pub(super) fn dump(osd: &mut Osd, call: &Call, ctx: &mut Ctx<'_>) -> Answer {
    // As with 16.2, less than none is none.
    let wanted = call.text("value").and_then(|text| text.parse::<i64>().ok());
    let wanted = wanted.map(|millis| Duration::from_millis(u64::try_from(millis).unwrap_or(0)));
    let threshold = wanted.unwrap_or_else(|| osd.slow_ping());
    let mut entries: Vec<(Duration, Value)> = osd
        .heartbeat
        .ping_times()
        .filter_map(|(peer, times)| {
            let (slowest, entry) = entry(osd.config.whoami, peer, times, ctx)?;
            (slowest >= threshold).then_some((slowest, entry))
        })
        .collect();
    entries.sort_by_key(|(slowest, _)| Reverse(*slowest));
    let entries: Vec<Value> = entries.into_iter().map(|(_, entry)| entry).collect();
    Ok(Some(json!({"threshold": threshold.as_millis() as u64, "entries": entries})))
}

fn millis(of: Duration) -> Value {
    // Microseconds are as much as is shown.
    json!(of.as_micros() as f64 / 1e3)
}

/// The slowest mean of a peer, and what is shown of it.
fn entry(from: OsdId, to: OsdId, times: &PingTimes, ctx: &Ctx<'_>) -> Option<(Duration, Value)> {
    let (at, last) = times.last()?;
    let summaries = times.summaries(ctx.now)?;
    let ago = ctx.now.since(at);
    let of = |what: fn(&PingSummary) -> Duration| {
        let [one, five, fifteen] = summaries.each_ref().map(|summary| millis(what(summary)));
        json!({"1min": one, "5min": five, "15min": fifteen})
    };
    let slowest = summaries.iter().map(|summary| summary.average).max()?;
    let entry = json!({
        "last update": pg::wall_at(at, ctx.now, ctx.wall).asctime(),
        "stale": ago > STALE,
        "from osd": from.0,
        "to osd": to.0,
        "interface": "back",
        "average": of(|summary| summary.average),
        "min": of(|summary| summary.min),
        "max": of(|summary| summary.max),
        "last": millis(last),
    });
    Some((slowest, entry))
}

impl Osd {
    /// What is slow by the options: `mon_warn_on_slow_ping_time` (milliseconds) or, where that is 0,
    /// `mon_warn_on_slow_ping_ratio` of `osd_heartbeat_grace` (seconds).
    fn slow_ping(&self) -> Duration {
        let number = |name: &str| {
            self.settings.get(name).and_then(|text| text.parse::<f64>().ok()).unwrap_or_default()
        };
        let time = number("mon_warn_on_slow_ping_time");
        let ratio = number("mon_warn_on_slow_ping_ratio") * number("osd_heartbeat_grace") * 1e3;
        let millis = if time > 0.0 { time } else { ratio };
        Duration::try_from_secs_f64(millis / 1e3).unwrap_or_default()
    }
}
