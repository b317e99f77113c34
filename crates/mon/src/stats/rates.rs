//! Client and recovery rates: differences of totals over the last seconds.

use std::{collections::BTreeMap, time::Duration};

use types::{Instant, OsdId, PgStatSum, PoolId};

use super::Stats;

/// Samples kept; they are a second apart. OSDs report every few seconds, so a window must span some.
const SAMPLES: usize = 8;

/// Totals at one time.
#[derive(Debug)]
pub(super) struct Sample {
    at: Instant,
    pools: BTreeMap<PoolId, PgStatSum>,
    /// Of the PGs that each OSD leads.
    osds: BTreeMap<OsdId, PgStatSum>,
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
}

impl Rates {
    fn add(&mut self, before: &PgStatSum, after: &PgStatSum, window: Duration) {
        let per_sec = |a: u64, b: u64| (b.saturating_sub(a) as f64 / window.as_secs_f64()) as u64;
        self.read_bytes += per_sec(before.read_bytes, after.read_bytes);
        self.write_bytes += per_sec(before.write_bytes, after.write_bytes);
        self.reads += per_sec(before.reads, after.reads);
        self.writes += per_sec(before.writes, after.writes);
        self.recovered_bytes += per_sec(before.bytes_recovered, after.bytes_recovered);
        self.recovered_objects += per_sec(before.objects_recovered, after.objects_recovered);
    }
}

impl Stats {
    /// Remembers the totals of this moment.
    pub(crate) fn sample(&mut self, now: Instant) {
        let mut sample = Sample { at: now, pools: BTreeMap::new(), osds: BTreeMap::new() };
        for (pg, stat) in &self.pgs {
            let pool = sample.pools.entry(pg.pool).or_default();
            *pool = super::add(*pool, stat.sum);
            let osd = sample.osds.entry(stat.acting_primary).or_default();
            *osd = super::add(*osd, stat.sum);
        }
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
        let mut out = Rates::default();
        let Some((first, last, window)) = self.window() else { return out };
        for (id, after) in last.pools.iter().filter(|(id, _)| pool.is_none_or(|p| p == **id)) {
            // A pool without an earlier sample has just been reported: its totals are no activity.
            if let Some(before) = first.pools.get(id) {
                out.add(before, after, window);
            }
        }
        out
    }

    /// The rates of the PGs that an OSD leads. What it took over meanwhile shows as activity for some seconds.
    pub(crate) fn osd_rates(&self, osd: OsdId) -> Rates {
        let mut out = Rates::default();
        if let Some((first, last, window)) = self.window()
            && let (Some(before), Some(after)) = (first.osds.get(&osd), last.osds.get(&osd))
        {
            out.add(before, after, window);
        }
        out
    }
}
