//! How many PGs there are: of pools, and for each OSD.
//!
//! Authority: `PGMap::get_health_checks`, `pybind/mgr/pg_autoscaler/module.py` (16.2).

use std::collections::BTreeMap;

use types::AutoscaleMode;

use super::{Health, Severity};
use crate::{
    Mon, format,
    manager::pg_autoscaler::{Advice, number},
};

impl Mon {
    /// Warns of changes that the autoscaler would make to pools for which it is only to warn.
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
                let count = list.len();
                let text = format!("{count} pools have too {what} placement groups");
                health.add(code, Severity::Warn, text, count, list);
            }
        }
    }

    /// Warns of targets that operators set for pools: too much, or the same in two ways.
    pub(super) fn check_targets(&self, health: &mut Health) {
        let map = &self.committed.osdmap;
        if map.pools.values().all(|pool| number(pool, "target_size_bytes") == 0.0) {
            return;
        }
        let advice = self.pg_advice();
        let name = |advice: &Advice| map.pool_name(advice.id).unwrap_or_default();
        let both: Vec<String> = advice
            .iter()
            .filter(|(pool, advice)| advice.target_ratio > 0.0 && number(pool, "target_size_bytes") > 0.0)
            .map(|(_, advice)| {
                format!("Pool {} has target_size_bytes and target_size_ratio set", name(advice))
            })
            .collect();
        if !both.is_empty() {
            let count = both.len();
            let text = format!("{count} pools have both target_size_bytes and target_size_ratio set");
            health.add("POOL_HAS_TARGET_SIZE_BYTES_AND_RATIO", Severity::Warn, text, count, both);
        }
        let mut roots: BTreeMap<i32, Vec<&Advice>> = BTreeMap::new();
        for (_, advice) in &advice {
            roots.entry(advice.root).or_default().push(advice);
        }
        let over: Vec<String> = roots.into_values().filter_map(|root| overcommitted(&root, &name)).collect();
        if !over.is_empty() {
            let count = over.len();
            let text = format!("{count} subtrees have overcommitted pool target_size_bytes");
            health.add("POOL_TARGET_SIZE_BYTES_OVERCOMMITTED", Severity::Warn, text, count, over);
        }
    }

    /// OSDs that have more PGs than they should.
    pub(super) fn check_pgs_per_osd(&self, health: &mut Health) {
        let in_osds = self.committed.osdmap.num_in();
        let copies: usize = self.stats.pgs().map(|stat| stat.up.len().max(1)).sum();
        let Some(count) = copies.checked_div(in_osds) else { return };
        let max = self.manager_number("mon_max_pg_per_osd") as usize;
        if max > 0 && count > max {
            let text = format!("too many PGs per OSD ({count} > max {max})");
            health.add("TOO_MANY_PGS", Severity::Warn, text, count - max, Vec::new());
        }
    }

    /// Pools whose PGs hold far more objects than those of others, and those whose PGs are not all placed apart.
    pub(super) fn check_object_skew(&self, health: &mut Health) {
        let map = &self.committed.osdmap;
        let least = self.manager_number("mon_pg_warn_min_objects");
        let least_of_pool = self.manager_number("mon_pg_warn_min_pool_objects");
        let skew_max = self.manager_number("mon_pg_warn_max_object_skew");
        let total = self.stats.total().objects;
        let average = total.checked_div(self.stats.pgs().count() as u64).unwrap_or(0);
        let (mut many, mut small) = (Vec::new(), Vec::new());
        for (id, pool) in &map.pools {
            let name = map.pool_name(*id).unwrap_or_default();
            let (pg_num, pgp_num) = (pool.pg_num_target, pool.pgp_num_target);
            if pg_num > pgp_num {
                small.push(format!("pool {name} pg_num {pg_num} > pgp_num {pgp_num}"));
            }
            let objects = self.stats.pool_sum(*id).objects;
            let is_large = average > 0 && total as f64 >= least && objects as f64 >= least_of_pool;
            let per_pg = objects / u64::from(pg_num.max(1));
            let skew = per_pg as f64 / average.max(1) as f64;
            let is_left_alone = pool.pg_autoscale_mode != AutoscaleMode::ON;
            if is_large && is_left_alone && skew_max > 0.0 && skew > skew_max {
                many.push(format!(
                    "pool {name} objects per pg ({per_pg}) is more than {} times cluster average ({average})",
                    format::decimal(skew)
                ));
            }
        }
        if !small.is_empty() {
            let count = small.len();
            let text = format!("{count} pools have pg_num > pgp_num");
            health.add("SMALLER_PGP_NUM", Severity::Warn, text, count, small);
        }
        if !many.is_empty() {
            let count = many.len();
            let text = format!("{count} pools have many more objects per pg than average");
            health.add("MANY_OBJECTS_PER_PG", Severity::Warn, text, count, many);
        }
    }
}

/// What is said of pools below one bucket that are expected to hold more than there is room for.
fn overcommitted<'a>(pools: &[&'a Advice], name: &impl Fn(&'a Advice) -> &'a str) -> Option<String> {
    let capacity = pools.first()?.capacity as f64;
    let total: f64 =
        pools.iter().map(|advice| advice.raw_used().max(advice.target_bytes as f64 * advice.rate)).sum();
    let targets = || pools.iter().filter(|advice| advice.target_bytes > 0);
    let expected: f64 = targets().map(|advice| advice.target_bytes as f64 * advice.rate).sum();
    let list = |names: Vec<&str>| format!("['{}']", names.join("', '"));
    (expected > 0.0 && total > capacity).then(|| {
        format!(
            "Pools {} overcommit available storage by {:.3}x due to target_size_bytes {} on pools {}",
            list(pools.iter().map(|advice| name(advice)).collect()),
            total / capacity,
            format::short_bytes(expected as u64, 5),
            list(targets().map(|advice| name(advice)).collect())
        )
    })
}
