//! Client and recovery rates: what was done in the last seconds.

use std::{collections::BTreeMap, time::Duration};

use types::{Instant, OsdId, OsdMap, PoolId};

use super::{Stats, counters::Counters};

/// Samples kept; they are a second apart. OSDs report every few seconds, so a window must span some.
const SAMPLES: usize = 8;

/// What has been done since this monitor hears of it: the differences between reports alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Activity {
    pools: BTreeMap<PoolId, Counters>,
    /// By the OSDs that led the PGs.
    osds: BTreeMap<OsdId, Counters>,
}

impl Activity {
    /// A PG of the pool, led by the OSD, has done this.
    pub(super) fn note(&mut self, pool: PoolId, osd: OsdId, done: Counters) {
        let of_pool = self.pools.entry(pool).or_default();
        *of_pool = of_pool.plus(done);
        let of_osd = self.osds.entry(osd).or_default();
        *of_osd = of_osd.plus(done);
    }

    /// Drops the pools that the map no longer has.
    pub(super) fn follow(&mut self, map: &OsdMap) {
        self.pools.retain(|pool, _| map.pools.contains_key(pool));
    }

    pub(super) fn forget_osd(&mut self, osd: OsdId) {
        self.osds.remove(&osd);
    }
}

/// What had been done at one time.
#[derive(Debug)]
pub(super) struct Sample {
    at: Instant,
    activity: Activity,
}

/// Per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rates {
    pub(crate) read_bytes: u64,
    pub(crate) write_bytes: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) recovered_bytes: u64,
    pub(crate) recovered_objects: u64,
    /// What was done in all of the time that the rates are of: something even where each rate is less than one.
    pub(crate) done: Counters,
}

impl Rates {
    pub(crate) fn new(done: Counters, window: Duration) -> Rates {
        let per_sec = |count: u64| (count as f64 / window.as_secs_f64()) as u64;
        Rates {
            read_bytes: per_sec(done.read_bytes),
            write_bytes: per_sec(done.write_bytes),
            reads: per_sec(done.reads),
            writes: per_sec(done.writes),
            recovered_bytes: per_sec(done.bytes_recovered),
            recovered_objects: per_sec(done.objects_recovered),
            done,
        }
    }

    /// Reads and writes together.
    pub(crate) fn ops(&self) -> u64 {
        self.reads.saturating_add(self.writes)
    }
}

impl Stats {
    /// Remembers what has been done by now.
    pub(crate) fn sample(&mut self, now: Instant) {
        let sample = Sample { at: now, activity: self.activity.clone() };
        self.samples.push_back(sample);
        while self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
    }

    /// The oldest and the newest sample, and the time between them, if it is long enough to tell.
    fn window(&self) -> Option<(&Sample, &Sample, Duration)> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        let window = last.at.since(first.at);
        (window >= Duration::from_secs(1)).then_some((first, last, window))
    }

    /// The rates of one pool, or of all.
    pub(crate) fn rates(&self, pool: Option<PoolId>) -> Rates {
        let Some((first, last, window)) = self.window() else { return Rates::default() };
        let mut done = Counters::default();
        for (id, after) in last.activity.pools.iter().filter(|(id, _)| pool.is_none_or(|p| p == **id)) {
            let before = first.activity.pools.get(id).copied().unwrap_or_default();
            done = done.plus(after.since(before));
        }
        Rates::new(done, window)
    }

    /// The rates of the PGs that an OSD leads.
    pub(crate) fn osd_rates(&self, osd: OsdId) -> Rates {
        let Some((first, last, window)) = self.window() else { return Rates::default() };
        let of = |sample: &Sample| sample.activity.osds.get(&osd).copied().unwrap_or_default();
        Rates::new(of(last).since(of(first)), window)
    }
}
