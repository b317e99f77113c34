//! How much space there is and how much of it a pool may still use.

use std::collections::BTreeMap;

use crush::{CrushMap, step};
use types::{OsdId, OsdMap, OsdStat, PgPool, PoolId};

use super::Stats;

/// The space of one pool, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct PoolSpace {
    /// What clients stored, about: what the OSDs store, divided by the number of copies.
    pub(crate) stored: u64,
    /// The part of it in omap.
    pub(crate) stored_omap: u64,
    /// `stored` with all copies.
    pub(crate) stored_raw: u64,
    /// Space on the devices, with all copies.
    pub(crate) used: u64,
    /// The part of it that omap takes.
    pub(crate) used_omap: u64,
    /// What clients may still store.
    pub(crate) max_avail: u64,
    /// Space on the devices for that.
    pub(crate) avail_raw: u64,
    /// The part that `used` is of `used` and the pool's free space together.
    pub(crate) used_ratio: f64,
}

impl Stats {
    /// Sum of the devices of all OSDs that are in: an OSD that is out holds nothing for anybody
    /// (`PGMap::stat_osd_out`).
    pub(crate) fn all_devices(&self, map: &OsdMap) -> OsdStat {
        self.devices(map.osds().filter(|osd| map.is_in(*osd)))
    }

    /// How many OSDs that are in have reported their devices.
    pub(crate) fn num_devices(&self, map: &OsdMap) -> usize {
        map.osds().filter(|osd| map.is_in(*osd) && self.osds.contains_key(osd)).count()
    }

    /// Sum of the devices of a set of OSDs, which may report any number.
    pub(crate) fn devices(&self, osds: impl Iterator<Item = OsdId>) -> OsdStat {
        osds.filter_map(|osd| self.osds.get(&osd)).fold(OsdStat::default(), |sum, stat| OsdStat {
            kb: sum.kb.saturating_add(stat.kb),
            kb_used: sum.kb_used.saturating_add(stat.kb_used),
            kb_used_data: sum.kb_used_data.saturating_add(stat.kb_used_data),
            kb_used_omap: sum.kb_used_omap.saturating_add(stat.kb_used_omap),
            kb_used_meta: sum.kb_used_meta.saturating_add(stat.kb_used_meta),
            kb_avail: sum.kb_avail.saturating_add(stat.kb_avail),
            ..sum
        })
    }
}

/// The space of a pool; the fullest of its OSDs decides what is left (`PGMapDigest::dump_object_stat_sum`).
pub(crate) fn pool_space(stats: &Stats, map: &OsdMap, id: PoolId, pool: &PgPool) -> PoolSpace {
    let sum = stats.pool_sum(id);
    let statfs = stats.pool_statfs_sum(id);
    let used = statfs.allocated.saturating_add(statfs.omap_allocated);
    let avail_raw = avail_raw(stats, map, pool);
    let copies = f64::from(pool.size.max(1)) * there(sum.object_copies, sum.degraded);
    let per_copy = |bytes: u64| if copies > 0.0 { (bytes as f64 / copies) as u64 } else { 0 };
    let (stored_omap, max_avail) = (per_copy(statfs.omap_allocated), per_copy(avail_raw));
    let stored = per_copy(statfs.data_stored).saturating_add(stored_omap);
    let stored_raw = (stored as f64 * copies) as u64;
    let whole = used as f64 + avail_raw as f64;
    let used_ratio = if whole == 0.0 { 0.0 } else { used as f64 / whole };
    let used_omap = statfs.omap_allocated;
    PoolSpace { stored, stored_omap, stored_raw, used, used_omap, max_avail, avail_raw, used_ratio }
}

/// The part of the copies that should exist which do exist.
fn there(copies: u64, degraded: u64) -> f64 {
    if copies == 0 { 1.0 } else { copies.saturating_sub(degraded) as f64 / copies as f64 }
}

/// Bytes that the rule's OSDs may still take until the first of them is full.
fn avail_raw(stats: &Stats, map: &OsdMap, pool: &PgPool) -> u64 {
    let shares = rule_shares(map.crush.map(), pool.crush_rule, map);
    let mut least: Option<f64> = None;
    for (osd, share) in shares.iter().filter(|(_, share)| **share > 0.0) {
        let Some(stat) = stats.osd(*osd) else { continue };
        let unusable = stat.kb as f64 * f64::from(1.0 - map.full_ratio);
        let avail = (stat.kb_avail as f64 - unusable).max(0.0) * 1024.0;
        let projected = avail / share;
        least = Some(least.map_or(projected, |l: f64| l.min(projected)));
    }
    least.unwrap_or(0.0) as u64
}

/// Weights of the OSDs that a rule places data on.
pub(crate) fn rule_weights(crush: &CrushMap, rule: u8, map: &OsdMap) -> BTreeMap<OsdId, f64> {
    let holders = crush.holders();
    takes(crush, rule).flat_map(|bucket| weights_below(crush, &holders, bucket, map)).collect()
}

/// The OSDs' shares of what a rule places below each bucket that it takes: together 1 for each of these buckets
/// (`CrushWrapper::get_rule_weight_osd_map`).
pub(crate) fn rule_shares(crush: &CrushMap, rule: u8, map: &OsdMap) -> BTreeMap<OsdId, f64> {
    let holders = crush.holders();
    let mut out = BTreeMap::new();
    for bucket in takes(crush, rule) {
        let weights = weights_below(crush, &holders, bucket, map);
        let sum: f64 = weights.iter().map(|(_, weight)| weight).sum();
        for (osd, weight) in weights {
            *out.entry(osd).or_default() += if sum > 0.0 { weight / sum } else { 0.0 };
        }
    }
    out
}

/// What a rule takes.
fn takes(crush: &CrushMap, rule: u8) -> impl Iterator<Item = i32> {
    let steps = crush.rule(rule).into_iter().flat_map(|rule| &rule.steps);
    steps.filter(|step| step.op == step::TAKE).map(|step| step.arg1)
}

/// The weights of the OSDs below a bucket; `holders` are the map's.
fn weights_below(
    crush: &CrushMap,
    holders: &BTreeMap<i32, (i32, usize)>,
    bucket: i32,
    map: &OsdMap,
) -> Vec<(OsdId, f64)> {
    let mut devices = Vec::new();
    crush.devices_below(bucket, &mut devices);
    let weight = |device: i32| {
        let held =
            holders.get(&device).and_then(|(bucket, at)| Some(crush.bucket(*bucket)?.item_weight(*at)));
        let weight = f64::from(held.unwrap_or(0)) / f64::from(crush::WEIGHT_ONE);
        weight * f64::from(map.weight_fraction(OsdId(device)))
    };
    devices.into_iter().map(|device| (OsdId(device), weight(device))).collect()
}
