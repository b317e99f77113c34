//! `perf dump`, `perf schema`, `perf reset` of a monitor.
//!
//! Authority: `ClusterStatistics`, `Monitor::update_loggers`, `MgrStatMonitor::update_logger` (16.2).

use messages::{CLUSTER_PERF, MON_PERF, PerfValues, perf_dump, perf_reset_answer, perf_schema};
use types::PgState;

use super::{Reply, Request, Row};
use crate::Mon;

pub(super) const ROWS: [Row; 3] = [
    Row {
        sig: "perf dump name=logger,type=CephString,req=false name=counter,type=CephString,req=false",
        help: "dump perfcounters value",
        module: "mon",
        perm: "r",
        run: dump,
    },
    Row { sig: "perf schema", help: "dump perfcounters schema", module: "mon", perm: "r", run: schema },
    Row {
        sig: "perf reset name=var,type=CephString",
        help: "perf reset <name>: perf reset all or one perfcounter name",
        module: "mon",
        perm: "rw",
        run: reset,
    },
];

pub(super) fn dump(req: &mut Request<'_>) -> Reply {
    let (mon, cluster) = (req.mon.perf_values(), req.mon.cluster_perf_values());
    let all = [(&MON_PERF, &mon), (&CLUSTER_PERF, &cluster)];
    let (logger, counter) = (req.args.text("logger"), req.args.text("counter"));
    Reply::json(req.args, perf_dump(&all, logger.as_deref(), counter.as_deref()))
}

pub(super) fn schema(req: &mut Request<'_>) -> Reply {
    Reply::json(req.args, perf_schema(&[&MON_PERF, &CLUSTER_PERF]))
}

/// All that a monitor shows may rise and fall: a reset leaves such counters.
fn reset(req: &mut Request<'_>) -> Reply {
    let name = req.args.text("var").unwrap_or_default();
    Reply::json(req.args, perf_reset_answer(&[&MON_PERF, &CLUSTER_PERF], &name))
}

fn named<const N: usize>(values: [(&str, u64); N]) -> PerfValues {
    values.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
}

impl Mon {
    /// What the monitor counts of itself.
    pub(crate) fn perf_values(&self) -> PerfValues {
        named([("num_sessions", self.sessions.len() as u64)])
    }

    /// What it knows of the cluster.
    fn cluster_perf_values(&self) -> PerfValues {
        let map = &self.committed.osdmap;
        let count =
            |is_so: &dyn Fn(types::OsdId) -> bool| map.osds().filter(|osd| is_so(*osd)).count() as u64;
        let devices = self.stats.all_devices(map);
        let total = self.stats.total();
        let states: Vec<PgState> =
            map.pgs().map(|pg| self.stats.state_of(map, pg, self.is_creating(pg))).collect();
        let pgs = |wanted: &[PgState]| {
            states.iter().filter(|state| wanted.iter().all(|part| state.has(*part))).count() as u64
        };
        let mons = self.committed.monmap.mons().count() as u64;
        named([
            ("num_mon", mons),
            ("num_mon_quorum", mons),
            ("num_osd", count(&|_| true)),
            ("num_osd_up", count(&|osd| map.is_up(osd))),
            ("num_osd_in", count(&|osd| map.is_in(osd))),
            ("osd_epoch", map.epoch.0.into()),
            ("osd_bytes", devices.kb << 10),
            ("osd_bytes_used", devices.kb.saturating_sub(devices.kb_avail) << 10),
            ("osd_bytes_avail", devices.kb_avail << 10),
            ("num_pool", map.pools.len() as u64),
            ("num_pg", states.len() as u64),
            ("num_pg_active_clean", pgs(&[PgState::ACTIVE, PgState::CLEAN])),
            ("num_pg_active", pgs(&[PgState::ACTIVE])),
            ("num_pg_peering", pgs(&[PgState::PEERING])),
            ("num_object", total.objects),
            ("num_object_degraded", total.degraded),
            ("num_object_misplaced", total.misplaced),
            ("num_object_unfound", total.unfound),
            ("num_bytes", total.bytes),
        ])
    }
}
