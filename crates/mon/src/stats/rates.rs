//! Client and recovery rates: differences of totals over the last seconds.

use std::{collections::BTreeMap, time::Duration};

use types::{Instant, PgStatSum, PoolId};

use super::Stats;

/// Samples kept; they are a second apart. OSDs report every few seconds, so a window must span some.
const SAMPLES: usize = 8;

/// Totals at one time.
#[derive(Debug)]
pub(super) struct Sample {
    at: Instant,
    pools: BTreeMap<PoolId, PgStatSum>,
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

impl Stats {
    /// Remembers the totals of this moment.
    pub(crate) fn sample(&mut self, now: Instant) {
        let mut pools: BTreeMap<PoolId, PgStatSum> = BTreeMap::new();
        for (pg, stat) in &self.pgs {
            let sum = pools.entry(pg.pool).or_default();
            *sum = super::add(*sum, stat.sum);
        }
        self.samples.push_back(Sample { at: now, pools });
        while self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
    }

    /// The rates of one pool, or of all.
    pub(crate) fn rates(&self, pool: Option<PoolId>) -> Rates {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else {
            return Rates::default();
        };
        let window = last.at.since(first.at);
        if window < Duration::from_secs(1) {
            return Rates::default();
        }
        let mut out = Rates::default();
        let per_sec = |a: u64, b: u64| (b.saturating_sub(a) as f64 / window.as_secs_f64()) as u64;
        for (id, after) in last.pools.iter().filter(|(id, _)| pool.is_none_or(|p| p == **id)) {
            // A pool without an earlier sample has just been reported: its totals are no activity.
            let Some(before) = first.pools.get(id) else { continue };
            out.read_bytes += per_sec(before.read_bytes, after.read_bytes);
            out.write_bytes += per_sec(before.write_bytes, after.write_bytes);
            out.reads += per_sec(before.reads, after.reads);
            out.writes += per_sec(before.writes, after.writes);
            out.recovered_bytes += per_sec(before.bytes_recovered, after.bytes_recovered);
            out.recovered_objects += per_sec(before.objects_recovered, after.objects_recovered);
        }
        out
    }
}
