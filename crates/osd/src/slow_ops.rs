//! Ops that take too long: looked for once a second, told to the monitor with the statistics, and to the cluster log.
//!
//! Authority: `OSD::get_health_metrics` (16.2).

use std::{collections::BTreeMap, time::Duration};

use messages::LogLevel;
use pg::{OpRecord, wall_at};
use types::{Instant, OsdMap, PoolId};

use crate::{Osd, osd::Ctx};

/// Between two lines in the cluster log.
const LOG_INTERVAL: Duration = Duration::from_secs(5);

/// How many ops of an OSD, or of a part of it, are older than `osd_op_complaint_time`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlowOps {
    /// How many.
    pub count: u32,
    /// Seconds for which the oldest has been here.
    pub oldest_sec: u32,
    /// How many wait for what.
    types: BTreeMap<&'static str, u32>,
    /// How many are of which pool.
    pools: BTreeMap<PoolId, u32>,
}

impl SlowOps {
    fn of(ops: &[OpRecord], now: Instant) -> SlowOps {
        let mut out = SlowOps::default();
        for op in ops {
            let age = u32::try_from(now.since(op.since()).as_secs()).unwrap_or(u32::MAX);
            out.count += 1;
            out.oldest_sec = out.oldest_sec.max(age);
            *out.types.entry(op.kind()).or_default() += 1;
            *out.pools.entry(op.pool).or_default() += 1;
        }
        out
    }

    fn add(&mut self, other: &SlowOps) {
        self.count += other.count;
        self.oldest_sec = self.oldest_sec.max(other.oldest_sec);
        other.types.iter().for_each(|(kind, count)| *self.types.entry(kind).or_default() += count);
        other.pools.iter().for_each(|(pool, count)| *self.pools.entry(*pool).or_default() += count);
    }

    /// `2 slow requests (by type [ 'delayed' : 2 ] most affected pool [ 'rbd' : 2 ])`.
    fn line(&self, map: &OsdMap) -> String {
        let types: String = self.types.iter().map(|(kind, count)| format!("'{kind}' : {count} ")).collect();
        // If several pools are affected equally, the first one.
        let pool = self.pools.iter().rev().max_by_key(|(_, count)| **count);
        let pool = pool.map(|(id, count)| {
            let name = map.pool_name(*id).map_or_else(|| id.to_string(), ToString::to_string);
            format!(" most affected pool [ '{name}' : {count} ]")
        });
        format!("{} slow requests (by type [ {types}]{})", self.count, pool.unwrap_or_default())
    }
}

impl Osd {
    /// Looks for slow ops, and forgets answered ones that are too old to be shown.
    pub(crate) fn tick_ops(&mut self, ctx: &mut Ctx<'_>) {
        let (complaint, is_enabled) = self.admission.requests.with_history(|history| {
            history.expire(ctx.now);
            (history.complaint, history.is_enabled)
        });
        let too_old =
            Instant(ctx.now.0.saturating_sub(u64::try_from(complaint.as_nanos()).unwrap_or(u64::MAX)));
        let ops = match is_enabled && self.admission.ops() > 0 && ctx.now.since(self.started) >= complaint {
            true => self.ops_until(too_old),
            false => Vec::new(),
        };
        let before = self.slow_ops.count;
        self.slow_ops = SlowOps::of(&ops, ctx.now);
        if (before == 0) != ops.is_empty() {
            // The monitor is told at once when slow ops begin or end.
            self.stats_changed(ctx);
        }
        if !ops.is_empty() && self.settings.get("osd_aggregated_slow_ops_logging").as_deref() == Some("false")
        {
            self.log_each(&ops, ctx);
        }
        if self.config.shard.is_control() {
            self.log_slow_ops(ctx);
        }
    }

    /// What all shards have, as far as they have reported.
    pub(crate) fn all_slow_ops(&self) -> SlowOps {
        let mut all = self.slow_ops.clone();
        self.control.reports().for_each(|report| all.add(&report.slow_ops));
        all
    }

    fn log_slow_ops(&mut self, ctx: &mut Ctx<'_>) {
        let all = self.all_slow_ops();
        let is_each = self.settings.get("osd_aggregated_slow_ops_logging").as_deref() == Some("false");
        if all.count > 0 && !is_each && ctx.now >= self.slow_ops_logged + LOG_INTERVAL {
            self.slow_ops_logged = ctx.now;
            let line = all.line(&self.map);
            self.cluster_log(LogLevel::WARN, line, ctx);
        }
    }

    fn log_each(&mut self, ops: &[OpRecord], ctx: &mut Ctx<'_>) {
        if ctx.now < self.slow_ops_logged + LOG_INTERVAL {
            return;
        }
        self.slow_ops_logged = ctx.now;
        let most = self.admission.requests.with_history(|history| history.log_threshold);
        for op in ops.iter().take(most) {
            let initiated = wall_at(op.since(), ctx.now, ctx.wall);
            let line =
                format!("slow request {} initiated {initiated} currently {}", op.description, op.flag_point);
            self.cluster_log(LogLevel::WARN, line, ctx);
        }
    }
}

#[cfg(test)]
mod tests {
    use pg::Client;
    use types::{CrushBlob, EntityAddr, EntityNum, PgId, UTime, Uuid};

    use super::*;

    #[test]
    fn the_line_names_what_ops_wait_for_and_the_pool_that_has_most() {
        let map = OsdMap::new(Uuid([0; 16]), UTime::default(), CrushBlob::default());
        let (entity, addr) = (EntityNum::client(7), EntityAddr::default());
        let client = Client { session: 1, entity, addr, features: 0 };
        let op = |pool: i64, at: u64| {
            let message = messages::MOSDOp { pgid: PgId::new(PoolId(pool), 0), ..Default::default() };
            OpRecord::new(&client, 1, &message, Instant(at * 1_000_000_000), "waiting for sub ops")
        };
        let mut slow = SlowOps::of(
            &[op(1, 5), op(2, 3).delayed("waiting for peered", Instant(0))],
            Instant(40_000_000_000),
        );
        slow.add(&SlowOps::of(&[op(2, 9)], Instant(40_000_000_000)));
        assert_eq!((slow.count, slow.oldest_sec), (3, 37));
        assert_eq!(
            slow.line(&map),
            "3 slow requests (by type [ 'delayed' : 1 'waiting for sub ops' : 2 ] most affected pool [ '2' : 2 ])",
        );
    }
}
