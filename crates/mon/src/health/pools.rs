//! Pools: their quotas, applications, flags and numbers of PGs.

use types::{AutoscaleMode, PoolFlags};

use super::{Health, Severity};
use crate::Mon;

impl Mon {
    pub(super) fn check_pools(&self, health: &mut Health) {
        let map = &self.committed.osdmap;
        let (mut no_app, mut full, mut lone) = (Vec::new(), Vec::new(), Vec::new());
        for (id, pool) in &map.pools {
            let name = map.pool_name(*id).unwrap_or_default();
            if pool.application_metadata.is_empty() && self.stats.pool_sum(*id).objects > 0 {
                no_app.push(format!("application not enabled on pool '{name}'"));
            }
            if pool.flags.has(PoolFlags::FULL) {
                let why = if pool.flags.has(PoolFlags::FULL_QUOTA) { " (running out of quota)" } else { "" };
                full.push(format!("pool '{name}' is full{why}"));
            }
            if pool.size == 1 {
                lone.push(format!("pool '{name}' has no replicas configured"));
            }
        }
        if !no_app.is_empty() {
            let text = format!("application not enabled on {} pool(s)", no_app.len());
            no_app.push("use 'ceph osd pool application enable <pool-name> <app-name>', where <app-name> is 'cephfs', 'rbd', 'rgw', or freeform for custom applications.".to_owned());
            health.add("POOL_APP_NOT_ENABLED", Severity::Warn, text, no_app);
        }
        if !full.is_empty() {
            health.add("POOL_FULL", Severity::Warn, format!("{} pool(s) full", full.len()), full);
        }
        if !lone.is_empty() {
            health.add(
                "POOL_NO_REDUNDANCY",
                Severity::Warn,
                format!("{} pool(s) have no replicas configured", lone.len()),
                lone,
            );
        }
    }

    /// Pools that operators keep from being scrubbed.
    pub(super) fn check_scrub_flags(&self, health: &mut Health) {
        let map = &self.committed.osdmap;
        let (mut detail, mut all) = (Vec::new(), PoolFlags::default());
        for (id, pool) in &map.pools {
            for flag in [PoolFlags::NOSCRUB, PoolFlags::NODEEP_SCRUB] {
                if pool.flags.has(flag) {
                    all |= flag;
                    detail.push(format!("Pool {} has {flag} flag", map.pool_name(*id).unwrap_or_default()));
                }
            }
        }
        if !detail.is_empty() {
            let names: Vec<&str> = all.names().collect();
            let text = format!("Some pool(s) have the {} flag(s) set", names.join(", "));
            health.add("POOL_SCRUB_FLAGS", Severity::Ok, text, detail);
        }
    }

    /// What the autoscaler would change of pools that it is to warn of.
    pub(super) fn check_pg_nums(&self, health: &mut Health) {
        let map = &self.committed.osdmap;
        if !map.pools.values().any(|pool| pool.pg_autoscale_mode == AutoscaleMode::WARN) {
            return;
        }
        let (mut few, mut many) = (Vec::new(), Vec::new());
        for (pool, advice) in self.pg_advice() {
            if advice.mode != AutoscaleMode::WARN || !advice.is_far {
                continue;
            }
            let name = map.pool_name(advice.id).unwrap_or_default();
            let (is, wanted) = (pool.pg_num_target, advice.pg_num);
            let list = if wanted > is { &mut few } else { &mut many };
            list.push(format!("Pool {name} has {is} placement groups, should have {wanted}"));
        }
        for (code, what, list) in [("POOL_TOO_FEW_PGS", "few", few), ("POOL_TOO_MANY_PGS", "many", many)] {
            if !list.is_empty() {
                let text = format!("{} pools have too {what} placement groups", list.len());
                health.add(code, Severity::Warn, text, list);
            }
        }
    }
}
