//! The manager's module `pg_autoscaler`: how many PGs pools should have by what they hold and are expected to hold.
//!
//! Authority: `pybind/mgr/pg_autoscaler/module.py` of 16.2, whose numbers these are.

use std::collections::BTreeMap;

use types::{AutoscaleMode, MapFlags, OsdId, OsdMap, PgPool, PoolFlags, PoolId, PoolOptValue, UTime};

use crate::{Mon, osdmap_service::least_pg_num};

/// `mon_target_pg_per_osd`.
const PGS_PER_OSD: f64 = 100.0;
/// A pool without `pg_num_min` has at least so many PGs.
const PG_NUM_MIN: u32 = 32;
/// What is not further off is good enough, as a factor.
const THRESHOLD: f64 = 3.0;

/// What the module says of a pool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Advice {
    pub(crate) id: PoolId,
    /// What is done about it.
    pub(crate) mode: AutoscaleMode,
    /// The bucket that the rule starts from.
    pub(crate) root: i32,
    /// Bytes of all devices that the pool's rule may take.
    pub(crate) capacity: u64,
    /// Bytes that users stored.
    pub(crate) stored: u64,
    /// Bytes on devices for each byte stored.
    pub(crate) rate: f64,
    /// `target_size_bytes`.
    pub(crate) target_bytes: u64,
    /// `target_size_ratio`.
    pub(crate) target_ratio: f64,
    /// That, with the other pools' wishes taken into account.
    pub(crate) effective_ratio: f64,
    /// `pg_autoscale_bias`.
    pub(crate) bias: f64,
    /// PGs before they are rounded.
    pub(crate) ideal: f64,
    /// PGs that the pool should have.
    pub(crate) pg_num: u32,
    /// True when that is far from what the pool moves to.
    pub(crate) would_adjust: bool,
}

impl Advice {
    /// Bytes on devices.
    pub(crate) fn raw_used(&self) -> f64 {
        self.stored as f64 * self.rate
    }

    /// Bytes on devices, or what is expected if that is more.
    pub(crate) fn raw_expected(&self) -> f64 {
        self.stored.max(self.target_bytes) as f64 * self.rate
    }

    /// The part of the capacity that so many bytes are.
    pub(crate) fn part(&self, bytes: f64) -> f64 {
        if self.capacity == 0 { 0.0 } else { bytes / self.capacity as f64 }
    }

    fn final_ratio(&self) -> f64 {
        self.part(self.raw_expected()).max(self.effective_ratio)
    }
}

/// What pools below one bucket share.
#[derive(Debug, Default)]
struct Root {
    osds: usize,
    capacity: u64,
    ratios: f64,
    bytes: f64,
    /// PGs that nobody has taken, copies counted.
    left: f64,
    /// Pools that take an equal part of these.
    bulk: usize,
}

fn root_of(map: &OsdMap, pool: &PgPool) -> i32 {
    let rule = map.crush.map().rule(pool.crush_rule);
    let take = rule.and_then(|rule| rule.steps.iter().find(|step| step.op == crush::step::TAKE));
    take.map_or(0, |step| step.arg1)
}

fn number(pool: &PgPool, name: &str) -> f64 {
    match pool.opts.get(name) {
        Some(PoolOptValue::Int(n)) => *n as f64,
        Some(PoolOptValue::Double(n)) => *n,
        Some(PoolOptValue::Str(_)) | None => 0.0,
    }
}

/// The power of two next to it.
fn nearest_power_of_two(n: f64) -> u32 {
    let above = match n.clamp(0.0, f64::from(1u32 << 30)) as u32 {
        0 => return 0,
        whole => whole.next_power_of_two(),
    };
    let below = above / 2;
    if f64::from(above) - n > n - f64::from(below) { below } else { above }
}

impl Mon {
    /// What the module says of every pool.
    pub(crate) fn pg_advice(&self) -> Vec<(&PgPool, Advice)> {
        let map = &self.committed.osdmap;
        let mut roots: BTreeMap<i32, Root> = BTreeMap::new();
        for pool in map.pools.values() {
            let id = root_of(map, pool);
            let root = roots.entry(id).or_insert_with(|| self.root(id));
            let ratio = number(pool, "target_size_ratio");
            root.ratios += ratio;
            if ratio == 0.0 {
                root.bytes += number(pool, "target_size_bytes") * f64::from(pool.size);
            }
        }
        let mut out: Vec<(&PgPool, Advice)> = map
            .pools
            .iter()
            .filter_map(|(id, pool)| Some((pool, self.advice(map, *id, pool, &roots)?)))
            .collect();
        // Pools take by what they hold; those that will grow large share the rest.
        let is_bulk = |pool: &PgPool| pool.flags.has(PoolFlags::BULK);
        for (pool, advice) in &mut out {
            let Some(root) = roots.get_mut(&advice.root) else { continue };
            let taken = advice.final_ratio() * root.left_of_all();
            if is_bulk(pool) {
                root.bulk += 1;
            } else {
                root.left -= taken;
                advice.ideal = taken / f64::from(pool.size.max(1)) * advice.bias;
            }
        }
        for (pool, advice) in &mut out {
            let Some(root) = roots.get(&advice.root) else { continue };
            if is_bulk(pool) {
                let part = (root.left.max(0.0)) / root.bulk.max(1) as f64;
                let taken = part.max(advice.final_ratio() * root.left_of_all());
                advice.ideal = taken / f64::from(pool.size.max(1)) * advice.bias;
            }
            advice.conclude(pool);
        }
        out
    }

    fn root(&self, id: i32) -> Root {
        let mut devices = Vec::new();
        self.committed.osdmap.crush.map().devices_below(id, &mut devices);
        let kb: u64 = devices.iter().filter_map(|id| self.stats.osd(OsdId(*id))).map(|stat| stat.kb).sum();
        let osds = devices.len();
        Root { osds, capacity: kb << 10, left: osds as f64 * PGS_PER_OSD, ..Root::default() }
    }

    fn advice(&self, map: &OsdMap, id: PoolId, pool: &PgPool, roots: &BTreeMap<i32, Root>) -> Option<Advice> {
        let root_id = root_of(map, pool);
        let root = roots.get(&root_id)?;
        let target_ratio = number(pool, "target_size_ratio");
        let mut effective_ratio = target_ratio;
        if root.ratios > 0.0 {
            effective_ratio /= root.ratios;
        }
        if root.bytes > 0.0 && root.capacity > 0 {
            effective_ratio *= 1.0 - (root.bytes / root.capacity as f64).min(1.0);
        }
        let bias = Some(number(pool, "pg_autoscale_bias")).filter(|bias| *bias > 0.0);
        let is_off = map.has_flag(MapFlags::NOAUTOSCALE);
        Some(Advice {
            id,
            mode: if is_off { AutoscaleMode::OFF } else { pool.pg_autoscale_mode },
            root: root_id,
            capacity: root.capacity,
            stored: self.stats.pool_sum(id).bytes,
            rate: f64::from(pool.size),
            // Where both are set the ratio counts.
            target_bytes: if target_ratio > 0.0 { 0 } else { number(pool, "target_size_bytes") as u64 },
            target_ratio,
            effective_ratio,
            bias: bias.unwrap_or(1.0),
            ideal: 0.0,
            pg_num: pool.pg_num_target,
            would_adjust: false,
        })
    }

    /// Has pools that are left to the module move to what it advises, as far as they can.
    pub(crate) fn tick_pg_autoscaler(&mut self, wall: UTime) {
        let is_on = |pool: &PgPool| pool.pg_autoscale_mode == AutoscaleMode::ON;
        if !self.next.osdmap.pools.values().any(is_on)
            || self.next.osdmap.epoch != self.committed.osdmap.epoch
        {
            return;
        }
        let wanted: Vec<(PoolId, PgPool)> = self
            .pg_advice()
            .into_iter()
            .filter(|(_, advice)| advice.mode == AutoscaleMode::ON && advice.would_adjust)
            .map(|(pool, advice)| {
                let pg_num_target = advice.pg_num.max(least_pg_num(&self.next.osdmap, pool));
                (advice.id, PgPool { pg_num_target, pgp_num_target: pg_num_target, ..pool.clone() })
            })
            .filter(|(id, pool)| {
                let is = self.next.osdmap.pools.get(id).map(|pool| pool.pg_num_target);
                is != Some(pool.pg_num_target)
            })
            .collect();
        if !wanted.is_empty() {
            self.change_osdmap(wall, |_, inc| inc.new_pools.extend(wanted));
        }
    }
}

impl Root {
    fn left_of_all(&self) -> f64 {
        self.osds as f64 * PGS_PER_OSD
    }
}

impl Advice {
    /// Rounds what the pool should have.
    fn conclude(&mut self, pool: &PgPool) {
        let min = Some(number(pool, "pg_num_min") as u32).filter(|min| *min > 0).unwrap_or(PG_NUM_MIN);
        let max = Some(number(pool, "pg_num_max") as u32).filter(|max| *max > 0).unwrap_or(u32::MAX);
        self.pg_num = nearest_power_of_two(self.ideal).max(min).min(max);
        let (advised, is) = (f64::from(self.pg_num), f64::from(pool.pg_num_target));
        let is_far = advised > is * THRESHOLD || advised < is / THRESHOLD;
        self.would_adjust = is_far && (0.0..=1.0).contains(&self.final_ratio());
    }
}

#[cfg(test)]
mod tests {
    use super::nearest_power_of_two;

    #[test]
    fn pgs_are_rounded_as_ceph_rounds_them() {
        let cases = [(0.3, 0), (1.0, 1), (3.0, 4), (5.9, 4), (6.1, 8), (100.0, 128), (96.0, 128)];
        for (n, rounded) in cases {
            assert_eq!(nearest_power_of_two(n), rounded, "{n}");
        }
    }
}
