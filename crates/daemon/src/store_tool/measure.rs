//! What `loligo store bench` measures, and how it is printed.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    time::Duration,
};

use anyhow::Result;
use hdrhistogram::{Counter, Histogram};
use serde_json::{Map, Value, json};
use store::Activity;
use types::{Instant, Token};

use crate::{Workload, clock};

/// Longest latency told apart, in nanoseconds: ten minutes.
const LATENCY_MAX_NS: u64 = 600_000_000_000;
const LATENCY_DIGITS: u8 = 3;
/// The curve has so many points.
const WINDOWS: u32 = 100;

/// Digits of a point of the curve: all of them together must be small beside the store that is measured.
const CURVE_DIGITS: u8 = 1;

/// Latencies in nanoseconds.
type Latencies = Histogram<u64>;

fn latencies() -> Result<Latencies> {
    Ok(Histogram::new_with_max(LATENCY_MAX_NS, LATENCY_DIGITS)?)
}

/// The requests that ended in one part of a round.
struct Window {
    latency: Histogram<u32>,
    /// The slowest thing that the store did meanwhile.
    activity: Activity,
}

/// Takes the time of requests.
pub(super) struct Clocked {
    start: Instant,
    started: BTreeMap<u64, u64>,
    next: u64,
    measured: Measured,
}

/// What requests took.
pub(super) struct Measured {
    elapsed: Duration,
    window: Duration,
    latency: Latencies,
    /// Latencies by what the store did when requests ended.
    by_activity: BTreeMap<Activity, Latencies>,
    windows: Vec<Window>,
}

impl Clocked {
    /// Of a round that lasts so long.
    pub(super) fn new(duration: Duration) -> Result<Clocked> {
        let measured = Measured {
            elapsed: Duration::ZERO,
            // Not zero, as it divides.
            window: (duration / WINDOWS).max(Duration::from_millis(1)),
            latency: latencies()?,
            by_activity: BTreeMap::new(),
            windows: Vec::new(),
        };
        Ok(Clocked { start: clock::now(), started: BTreeMap::new(), next: 0, measured })
    }

    /// Requests that have not ended.
    pub(super) fn in_flight(&self) -> usize {
        self.started.len()
    }

    pub(super) fn start(&mut self) -> Token {
        self.next += 1;
        self.started.insert(self.next, clock::now().0);
        Token(self.next)
    }

    /// A request ended, while the store did this.
    pub(super) fn end(&mut self, token: Token, activity: Activity) -> Result<()> {
        let Some(since) = self.started.remove(&token.0) else { return Ok(()) };
        let now = clock::now();
        let took = now.0 - since;
        let Measured { window, latency, by_activity, windows, .. } = &mut self.measured;
        latency.saturating_record(took);
        let latency = match by_activity.entry(activity) {
            Entry::Vacant(place) => place.insert(latencies()?),
            Entry::Occupied(known) => known.into_mut(),
        };
        latency.saturating_record(took);
        let at = (now.since(self.start).as_nanos() / window.as_nanos()) as usize;
        while windows.len() <= at {
            let latency = Histogram::new_with_max(LATENCY_MAX_NS, CURVE_DIGITS)?;
            windows.push(Window { latency, activity: Activity::Idle });
        }
        windows[at].latency.saturating_record(took);
        windows[at].activity = windows[at].activity.max(activity);
        Ok(())
    }

    pub(super) fn finish(mut self) -> Measured {
        self.measured.elapsed = clock::now().since(self.start);
        self.measured
    }
}

impl Measured {
    /// How many there were.
    pub(super) fn requests(&self) -> u64 {
        self.latency.len()
    }

    /// How long they took.
    pub(super) fn latency_json(&self) -> Value {
        percentiles(&self.latency).into()
    }
}

/// What one round measured.
pub(super) struct Round {
    /// `store` or `disk`.
    pub(super) target: &'static str,
    pub(super) workload: Workload,
    pub(super) block_bytes: u64,
    pub(super) depth: usize,
    pub(super) measured: Measured,
}

const MIB: f64 = (1 << 20) as f64;

fn us_at(latency: &Histogram<impl Counter>, percentile: f64) -> f64 {
    latency.value_at_percentile(percentile) as f64 / 1e3
}

fn name(activity: Activity) -> &'static str {
    match activity {
        Activity::Idle => "idle",
        Activity::Flush => "flush",
        Activity::Checkpoint => "checkpoint",
    }
}

fn percentiles(latency: &Histogram<impl Counter>) -> Map<String, Value> {
    let mut out = Map::new();
    out.insert("requests".into(), json!(latency.len()));
    out.insert("mean_us".into(), json!(latency.mean() / 1e3));
    for (key, percentile) in [("p50_us", 50.0), ("p99_us", 99.0), ("p99_9_us", 99.9), ("max_us", 100.0)] {
        out.insert(key.into(), json!(us_at(latency, percentile)));
    }
    out
}

impl Round {
    fn iops(&self) -> f64 {
        self.measured.latency.len() as f64 / self.measured.elapsed.as_secs_f64()
    }

    fn mib_per_sec(&self) -> f64 {
        self.iops() * self.block_bytes as f64 / MIB
    }

    pub(super) fn json(&self) -> Value {
        let mut out = Map::new();
        for (key, value) in [
            ("target", json!(self.target)),
            ("workload", json!(self.workload.name())),
            ("block_bytes", json!(self.block_bytes)),
            ("depth", json!(self.depth)),
            ("iops", json!(self.iops())),
            ("mib_per_sec", json!(self.mib_per_sec())),
        ] {
            out.insert(key.into(), value);
        }
        out.extend(percentiles(&self.measured.latency));
        if self.target == "store" {
            let by_activity = self.measured.by_activity.iter();
            let by_activity = by_activity
                .map(|(activity, latency)| (name(*activity).to_owned(), Value::from(percentiles(latency))));
            out.insert("while".into(), by_activity.collect::<Map<_, _>>().into());
            out.insert("curve".into(), self.curve());
        }
        out.into()
    }

    /// The round in equal parts, one after the other.
    fn curve(&self) -> Value {
        let windows = self.measured.windows.iter().zip(0u32..);
        let points = windows.map(|(window, number)| {
            let mut point = Map::new();
            point.insert("at_s".into(), json!((self.measured.window * number).as_secs_f64()));
            point.insert("activity".into(), json!(name(window.activity)));
            point.extend(percentiles(&window.latency));
            Value::from(point)
        });
        points.collect()
    }
}

/// For people: latencies in microseconds, the raw device below the store.
pub(super) fn table(rounds: &[Round]) -> String {
    let mut out = format!(
        "{:<10} {:>8} {:>6} {:<6} {:>10} {:>9} {:>10} {:>10} {:>10} {:>10}\n",
        "workload", "bytes", "depth", "", "IOPS", "MiB/s", "mean us", "p50 us", "p99 us", "p99.9 us"
    );
    for round in rounds {
        let latency = &round.measured.latency;
        let [p50, p99, p99_9] = [50.0, 99.0, 99.9].map(|percentile| us_at(latency, percentile));
        out.push_str(&format!(
            "{:<10} {:>8} {:>6} {:<6} {:>10.0} {:>9.1} {:>10.1} {p50:>10.1} {p99:>10.1} {p99_9:>10.1}\n",
            round.workload.name(),
            round.block_bytes,
            round.depth,
            round.target,
            round.iops(),
            round.mib_per_sec(),
            latency.mean() / 1e3,
        ));
    }
    out
}
