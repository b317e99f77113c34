//! Pools: their quotas, applications, flags and numbers of PGs.

use types::PoolFlags;

use super::{Health, Severity};
use crate::Mon;

impl Mon {
    pub(super) fn check_pools(&self, health: &mut Health) {
        let map = &self.committed.osdmap;
        let (mut no_app, mut lone, mut odd) = (Vec::new(), Vec::new(), Vec::new());
        for (id, pool) in &map.pools {
            let name = map.pool_name(*id).unwrap_or_default();
            if pool.application_metadata.is_empty() && self.stats.pool_sum(*id).objects > 0 {
                no_app.push(format!("application not enabled on pool '{name}'"));
            }
            if pool.size == 1 {
                lone.push(format!("pool '{name}' has no replicas configured"));
            }
            if !pool.pg_num_target.is_power_of_two() {
                odd.push(format!("pool '{name}' pg_num {} is not a power of two", pool.pg_num_target));
            }
        }
        if !no_app.is_empty() {
            let count = no_app.len();
            let text = format!("application not enabled on {count} pool(s)");
            no_app.push("use 'ceph osd pool application enable <pool-name> <app-name>', where <app-name> is 'cephfs', 'rbd', 'rgw', or freeform for custom applications.".to_owned());
            health.add("POOL_APP_NOT_ENABLED", Severity::Warn, text, count, no_app);
        }
        if !odd.is_empty() && self.warns("mon_warn_on_pool_pg_num_not_power_of_two") {
            let count = odd.len();
            let text = format!("{count} pool(s) have non-power-of-two pg_num");
            health.add("POOL_PG_NUM_NOT_POWER_OF_TWO", Severity::Warn, text, count, odd);
        }
        if !lone.is_empty() && self.warns("mon_warn_on_pool_no_redundancy") {
            let count = lone.len();
            let text = format!("{count} pool(s) have no replicas configured");
            health.add("POOL_NO_REDUNDANCY", Severity::Warn, text, count, lone);
        }
    }

    /// Pools that are full, or nearly.
    pub(super) fn check_pool_space(&self, health: &mut Health) {
        let map = &self.committed.osdmap;
        let (mut full, mut backfill, mut near) = (Vec::new(), Vec::new(), Vec::new());
        for (id, pool) in &map.pools {
            let name = map.pool_name(*id).unwrap_or_default();
            match pool.flags {
                flags if flags.has(PoolFlags::FULL | PoolFlags::FULL_QUOTA) => {
                    full.push(format!("pool '{name}' is full (running out of quota)"));
                }
                flags if flags.has(PoolFlags::FULL) => full.push(format!("pool '{name}' is full (no space)")),
                flags if flags.has(PoolFlags::BACKFILLFULL) => {
                    backfill.push(format!("pool '{name}' is backfillfull"));
                }
                flags if flags.has(PoolFlags::NEARFULL) => near.push(format!("pool '{name}' is nearfull")),
                _ => {}
            }
        }
        for (code, what, list) in [
            ("POOL_FULL", "full", full),
            ("POOL_BACKFILLFULL", "backfillfull", backfill),
            ("POOL_NEARFULL", "nearfull", near),
        ] {
            if !list.is_empty() {
                let count = list.len();
                health.add(code, Severity::Warn, format!("{count} pool(s) {what}"), count, list);
            }
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
            health.add("POOL_SCRUB_FLAGS", Severity::Ok, text, 0, detail);
        }
    }
}
