//! Drops upmaps that have no effect any more, or that a rule forbids, from the map.
//!
//! Authority: `OSDMap::check_pg_upmaps`, `clean_pg_upmaps`, `CrushWrapper::verify_upmap` (16.2; the size as in newer
//! ones). Ceph checks them as it makes a map, which then comes without them; here the next map does.

use std::collections::{BTreeMap, BTreeSet};

use crush::{CrushMap, step};
use types::{OsdId, PgId, PgPool, UTime};

use crate::{Mon, stats::rule_weights};

type Pairs = Vec<(OsdId, OsdId)>;

/// What holds each item of the CRUSH map, by [`CrushMap::holders`].
pub(crate) type Holders = BTreeMap<i32, (i32, usize)>;

impl Mon {
    /// Once for each map, drops the upmaps, or pairs of them, that have no effect, or one that the pool's rule forbids.
    pub(super) fn tick_upmaps(&mut self, wall: UTime) {
        let epoch = self.next.osdmap.epoch;
        if std::mem::replace(&mut self.osds.upmaps_seen, epoch) == epoch {
            return;
        }
        let map = self.next.osdmap.clone();
        if map.pg_upmap.is_empty() && map.pg_upmap_items.is_empty() {
            return;
        }
        let holders = map.crush.map().holders();
        let mut weights = BTreeMap::new();
        let mut over: BTreeSet<PgId> = BTreeSet::new();
        let mut left: BTreeMap<PgId, Pairs> = BTreeMap::new();
        for pg in map.pg_upmap.keys().chain(map.pg_upmap_items.keys()) {
            let Some(pool) = map.pools.get(&pg.pool).filter(|pool| pg.seed < pool.pg_num) else {
                over.insert(*pg);
                continue;
            };
            let of_rule = weights
                .entry(pool.crush_rule)
                .or_insert_with(|| rule_weights(map.crush.map(), pool.crush_rule, &map));
            let mut raw = map.pg_to_raw_osds(*pg);
            raw.retain(|osd| map.exists(*osd));
            let placed = map.pg_to_raw_upmap(*pg);
            let is_usable = |osd: &OsdId| of_rule.get(osd).is_some_and(|weight| *weight > 0.0);
            // An upmap of fewer OSDs than the pool has copies would leave the PG undersized for good.
            let size = usize::from(pool.size);
            let is_redundant = map.pg_upmap.get(pg).is_some_and(|osds| *osds == raw || osds.len() != size);
            let suits = || suits_rule(map.crush.map(), &holders, pool, &placed);
            if is_redundant || !placed.iter().all(is_usable) || !suits() {
                over.insert(*pg);
            } else if let Some(pairs) = map.pg_upmap_items.get(pg) {
                let mut kept = pairs.clone();
                kept.retain(|(from, to)| raw.contains(from) && !map.is_out(*to));
                if kept != *pairs {
                    left.insert(*pg, kept);
                }
            }
        }
        let (gone, changed): (Vec<_>, Vec<_>) = left.into_iter().partition(|(_, pairs)| pairs.is_empty());
        if over.is_empty() && gone.is_empty() && changed.is_empty() {
            return;
        }
        self.change_osdmap(wall, |map, inc| {
            inc.old_pg_upmap.extend(map.pg_upmap.keys().filter(|pg| over.contains(*pg)));
            inc.old_pg_upmap_items.extend(map.pg_upmap_items.keys().filter(|pg| over.contains(*pg)));
            inc.old_pg_upmap_items.extend(gone.iter().map(|(pg, _)| *pg));
            inc.new_pg_upmap_items.extend(changed);
        });
    }
}

/// True where each of these OSDs is in a bucket of its own, of the type that the rule chooses leaves in, and in no more
/// others than the rule chooses. An upmap that places copies otherwise leaves the map.
pub(crate) fn suits_rule(crush: &CrushMap, holders: &Holders, pool: &PgPool, placed: &[OsdId]) -> bool {
    let Some(rule) = crush.rule(pool.crush_rule) else { return true };
    rule.steps.iter().filter(|step| step.arg2 > 0).all(|chosen| {
        let mut buckets: Vec<i32> =
            placed.iter().filter_map(|osd| bucket_of(crush, holders, *osd, chosen.arg2)).collect();
        buckets.sort_unstable();
        buckets.dedup();
        match chosen.op {
            step::CHOOSELEAF_FIRSTN | step::CHOOSELEAF_INDEP => buckets.len() == placed.len(),
            step::CHOOSE_FIRSTN | step::CHOOSE_INDEP => {
                let most = if chosen.arg1 <= 0 { chosen.arg1 + i32::from(pool.size) } else { chosen.arg1 };
                i32::try_from(buckets.len()).is_ok_and(|count| count <= most)
            }
            _ => true,
        }
    })
}

/// The bucket of that type that holds the OSD.
fn bucket_of(crush: &CrushMap, holders: &Holders, osd: OsdId, kind: i32) -> Option<i32> {
    let mut at = osd.0;
    while i32::from(crush.bucket(at).map_or(0, |bucket| bucket.kind)) != kind {
        at = holders.get(&at)?.0;
    }
    Some(at)
}
