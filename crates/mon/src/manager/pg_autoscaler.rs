//! The manager's module `pg_autoscaler`: how many PGs pools should have by what they hold and are expected to hold.
//!
//! Authority: `pybind/mgr/pg_autoscaler/module.py` of 16.2, whose numbers these are.

use std::collections::{BTreeMap, BTreeSet};

use types::{AutoscaleMode, MapFlags, OsdId, OsdMap, PgPool, PoolFlags, PoolId, PoolOptValue, UTime};

use crate::{
    Mon,
    osdmap_service::{check_pg_num_range, check_pg_sum, least_pg_num},
};

/// `mon_target_pg_per_osd`.
const PGS_PER_OSD: f64 = 100.0;
/// A pool without `pg_num_min` has at least so many PGs.
const PG_NUM_MIN: u32 = 32;
/// A number of PGs that is off by no more than this factor is good enough.
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
    /// True when `pg_num` is far from the number that the pool moves to, as far as all that it depends on is known.
    pub(crate) is_far: bool,
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

    /// The part of the capacity that the pool needs.
    fn ratio(&self) -> f64 {
        self.part(self.raw_expected()).max(self.effective_ratio)
    }
}

/// What pools below one bucket share.
#[derive(Debug, Default)]
struct Root {
    osds: BTreeSet<i32>,
    capacity: u64,
    /// False until all that its pools hold and all its devices were reported: before that they look empty.
    is_known: bool,
    ratios: f64,
    bytes: f64,
    /// PGs that no pool has taken, copies counted.
    left: f64,
    /// Pools that have not taken any yet.
    pools: usize,
}

impl Root {
    /// A pool takes its part of the PGs that are left.
    fn take(&mut self, part: f64) -> f64 {
        let taken = part * self.left;
        self.left -= taken.trunc();
        self.pools -= 1;
        taken
    }

    /// The part of each pool that has none yet, if they share equally.
    fn even_part(&self) -> f64 {
        1.0 / self.pools.max(1) as f64
    }
}

fn root_of(map: &OsdMap, pool: &PgPool) -> i32 {
    let rule = map.crush.map().rule(pool.crush_rule);
    let take = rule.and_then(|rule| rule.steps.iter().find(|step| step.op == crush::step::TAKE));
    take.map_or(0, |step| step.arg1)
}

/// An option of a pool; 0 where it is not set.
pub(crate) fn number(pool: &PgPool, name: &str) -> f64 {
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
    /// What the module says of every pool that it can judge: pools that share OSDs with pools below another bucket are
    /// left alone, and those without space. Pools that will grow large come last.
    pub(crate) fn pg_advice(&self) -> Vec<(&PgPool, Advice)> {
        let map = &self.committed.osdmap;
        let mut roots = self.roots(map);
        let all: Vec<(&PgPool, Advice)> = map
            .pools
            .iter()
            .filter_map(|(id, pool)| Some((pool, self.advice(map, *id, pool, &roots)?)))
            .collect();
        let (bulk, small): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(p, _)| p.flags.has(PoolFlags::BULK));
        let mut out = Vec::new();
        let mut settle = |pool, advice: Advice, roots: &mut BTreeMap<i32, Root>, part: f64| {
            let Some(root) = roots.get_mut(&advice.root) else { return };
            let (taken, is_known) = (root.take(part), root.is_known);
            out.push((pool, advice.concluded(pool, part, taken, is_known)));
        };
        // Pools take PGs by what they hold; those that will grow large share the rest, the ones that need more than an
        // equal part first.
        for (pool, advice) in small {
            let part = advice.ratio();
            settle(pool, advice, &mut roots, part);
        }
        let mut even = Vec::new();
        for (pool, advice) in bulk {
            let part = advice.ratio();
            if roots.get(&advice.root).is_some_and(|root| part > root.even_part()) {
                settle(pool, advice, &mut roots, part);
            } else {
                even.push((pool, advice));
            }
        }
        let shares: BTreeMap<i32, (f64, f64)> =
            roots.iter().map(|(id, root)| (*id, (root.even_part(), root.left * root.even_part()))).collect();
        for (pool, advice) in even {
            let Some((part, taken)) = shares.get(&advice.root).copied() else { continue };
            let is_known = roots.get(&advice.root).is_some_and(|root| root.is_known);
            out.push((pool, advice.concluded(pool, part, taken, is_known)));
        }
        out
    }

    /// What pools share, by the bucket that their rules start from; without buckets whose OSDs are below other such
    /// buckets as well.
    fn roots(&self, map: &OsdMap) -> BTreeMap<i32, Root> {
        let mut roots: BTreeMap<i32, Root> = BTreeMap::new();
        for (id, pool) in &map.pools {
            let root_id = root_of(map, pool);
            let root = roots.entry(root_id).or_insert_with(|| self.root(root_id));
            let ratio = number(pool, "target_size_ratio");
            root.ratios += ratio;
            if ratio == 0.0 {
                root.bytes += number(pool, "target_size_bytes") * f64::from(pool.size);
            }
            root.pools += 1;
            root.is_known &= self.stats.knows_pool(map, *id);
        }
        let overlapping: BTreeSet<i32> = roots
            .iter()
            .filter(|(id, root)| {
                roots.iter().any(|(other, o)| other != *id && !o.osds.is_disjoint(&root.osds))
            })
            .map(|(id, _)| *id)
            .collect();
        roots.retain(|id, root| !overlapping.contains(id) && root.capacity > 0);
        roots
    }

    fn root(&self, id: i32) -> Root {
        let map = &self.committed.osdmap;
        let mut devices = Vec::new();
        map.crush.map().devices_below(id, &mut devices);
        let osds = BTreeSet::from_iter(devices);
        let is_in = || osds.iter().map(|osd| OsdId(*osd)).filter(|osd| map.is_in(*osd));
        let capacity = self.stats.devices(is_in()).kb << 10;
        let is_known = is_in().all(|osd| self.stats.osd(osd).is_some());
        let left = osds.len() as f64 * PGS_PER_OSD;
        Root { osds, capacity, is_known, left, ..Root::default() }
    }

    fn advice(&self, map: &OsdMap, id: PoolId, pool: &PgPool, roots: &BTreeMap<i32, Root>) -> Option<Advice> {
        let root_id = root_of(map, pool);
        let root = roots.get(&root_id)?;
        let target_ratio = number(pool, "target_size_ratio");
        let mut effective_ratio = target_ratio;
        if root.ratios > 0.0 {
            effective_ratio /= root.ratios;
        }
        if root.bytes > 0.0 {
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
            is_far: false,
        })
    }

    /// Has the pools that are left to the module move to the number of PGs that it advises, as far as they can.
    pub(crate) fn tick_pg_autoscaler(&mut self, wall: UTime) {
        let is_on = |pool: &PgPool| pool.pg_autoscale_mode == AutoscaleMode::ON;
        if !self.next.osdmap.pools.values().any(is_on)
            || self.next.osdmap.epoch != self.committed.osdmap.epoch
        {
            return;
        }
        let wanted: Vec<(PoolId, u32)> = self
            .pg_advice()
            .into_iter()
            .filter(|(_, advice)| advice.would_adjust())
            .map(|(_, advice)| (advice.id, advice.pg_num))
            .collect();
        if wanted.is_empty() {
            return;
        }
        // Each pool is judged together with those before it.
        let mut map = OsdMap::clone(&self.next.osdmap);
        let mut changed = BTreeMap::new();
        for (id, pg_num) in wanted {
            if let Some(pool) = self.with_pg_num(&map, id, pg_num) {
                map.pools.insert(id, pool.clone());
                changed.insert(id, pool);
            }
        }
        if !changed.is_empty() {
            self.change_osdmap(wall, |_, inc| inc.new_pools.extend(changed));
        }
    }

    /// The pool with the `pg_num` that it is to move to, if `osd pool set` would allow that.
    fn with_pg_num(&self, map: &OsdMap, id: PoolId, pg_num: u32) -> Option<PgPool> {
        let pool = map.pools.get(&id).filter(|pool| !pool.flags.has(PoolFlags::NOPGCHANGE))?;
        let wanted = pg_num.max(least_pg_num(map, pool));
        check_pg_num_range(wanted).ok()?;
        if wanted > pool.pg_num_target {
            check_pg_sum(map, &self.options, Some(id), wanted, pool.size).ok()?;
        }
        let is_alike = pool.pgp_num_target == pool.pg_num_target;
        let pgp_num_target = if is_alike { wanted } else { pool.pgp_num_target.min(wanted) };
        (wanted != pool.pg_num_target).then(|| PgPool {
            pg_num_target: wanted,
            pgp_num_target,
            ..pool.clone()
        })
    }
}

impl Advice {
    /// True for a pool that the module is to change itself, and far from what it should have.
    pub(crate) fn would_adjust(&self) -> bool {
        self.is_far && self.mode == AutoscaleMode::ON
    }

    /// The advice with the part of its root's PGs that the pool gets, and how many these are with all copies.
    fn concluded(mut self, pool: &PgPool, part: f64, taken: f64, is_known: bool) -> Advice {
        self.ideal = taken / f64::from(pool.size.max(1)) * self.bias;
        let min = Some(number(pool, "pg_num_min") as u32).filter(|min| *min > 0).unwrap_or(PG_NUM_MIN);
        let max = Some(number(pool, "pg_num_max") as u32).filter(|max| *max > 0).unwrap_or(u32::MAX);
        self.pg_num = nearest_power_of_two(self.ideal).max(min).min(max);
        let (advised, is) = (f64::from(self.pg_num), f64::from(pool.pg_num_target));
        let is_far = advised > is * THRESHOLD || advised < is / THRESHOLD;
        self.is_far = is_known && is_far && (0.0..=1.0).contains(&part);
        self
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
