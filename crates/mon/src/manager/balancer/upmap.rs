//! Which copies to move so that each OSD has its share of a pool's PGs: upmaps to make, change or drop, a few at a
//! time.
//!
//! A copy moves to where the pool's rule might have placed it: below what the rule takes, in the same buckets down to
//! the last level at which the rule chooses, and there in one that has no copy yet.
//!
//! Authority: `OSDMap::calc_pg_upmaps`, `CrushWrapper::try_remap_rule` (16.2), for what counts; the search is ours.

use std::collections::{BTreeMap, BTreeSet};

use crush::{CrushMap, step};
use types::{OsdId, OsdMap, PgId, PoolId};

use crate::stats::rule_shares;

/// One copy's way from where CRUSH places it to where it is to be.
pub(crate) type Pair = (OsdId, OsdId);

/// What a pool's rule asks of an OSD in the place of another.
struct Domains<'a> {
    crush: &'a CrushMap,
    /// What each `take` of the rule may choose.
    taken: Vec<BTreeSet<OsdId>>,
    /// The types of buckets that it chooses, outermost first; 0 for OSDs.
    kinds: Vec<i32>,
}

impl Domains<'_> {
    fn of(crush: &CrushMap, rule: u8) -> Option<Domains<'_>> {
        let steps = &crush.rule(rule)?.steps;
        let mut taken = Vec::new();
        for take in steps.iter().filter(|s| s.op == step::TAKE) {
            let mut devices = Vec::new();
            crush.devices_below(take.arg1, &mut devices);
            taken.push(devices.into_iter().map(OsdId).collect());
        }
        let chooses = |op| {
            matches!(
                op,
                step::CHOOSE_FIRSTN | step::CHOOSE_INDEP | step::CHOOSELEAF_FIRSTN | step::CHOOSELEAF_INDEP
            )
        };
        let mut chosen: Vec<(i32, i32)> =
            steps.iter().filter(|s| chooses(s.op)).map(|s| (s.arg2, s.arg1)).collect();
        // Choosing one OSD below the bucket that was chosen asks for nothing more. Where there are several buckets, a
        // copy stays in its own, as another one would be one too many.
        if chosen.len() > 1 && chosen.last() == Some(&(0, 1)) {
            chosen.pop();
        }
        let mut kinds: Vec<i32> = chosen.into_iter().map(|(kind, _)| kind).collect();
        kinds.dedup();
        Some(Domains { crush, taken, kinds })
    }

    /// The bucket of that type that holds the OSD.
    fn domain(&self, osd: OsdId, kind: i32) -> Option<i32> {
        let mut at = osd.0;
        while kind != 0 && i32::from(self.crush.bucket(at).map_or(0, |bucket| bucket.kind)) != kind {
            at = self.crush.parent_of(at)?;
        }
        Some(at)
    }

    /// True where `to` may stand for `from` among `at`.
    fn may_replace(&self, at: &[OsdId], from: OsdId, to: OsdId) -> bool {
        let Some((last, outer)) = self.kinds.split_last() else { return false };
        let is_taken = self.taken.iter().any(|osds| osds.contains(&from) && osds.contains(&to));
        let stays = outer.iter().all(|kind| self.domain(from, *kind) == self.domain(to, *kind));
        let domain = self.domain(to, *last);
        let is_free =
            at.iter().filter(|osd| **osd != from).all(|osd| *osd != to && self.domain(*osd, *last) != domain);
        is_taken && stays && domain.is_some() && is_free
    }
}

/// The copies of a PG: where CRUSH places them, and where they are to be instead.
#[derive(Clone)]
struct Place {
    raw: Vec<OsdId>,
    at: Vec<OsdId>,
}

impl Place {
    fn of(map: &OsdMap, pg: PgId) -> Option<Place> {
        let (mut raw, at) = (map.pg_to_raw_osds(pg), map.pg_to_raw_upmap(pg));
        if raw.len() != at.len() {
            raw.retain(|osd| map.exists(*osd));
        }
        (raw.len() == at.len()).then_some(Place { raw, at })
    }

    /// These places with one copy moved.
    fn with(&self, from: OsdId, to: OsdId) -> Place {
        let mut out = self.clone();
        if let Some(place) = out.at.iter_mut().find(|osd| **osd == from) {
            *place = to;
        }
        out
    }

    /// The pairs that bring the copies there, in an order in which no copy moves to an OSD that still has another one;
    /// none where there is no such order.
    fn pairs(&self) -> Option<Vec<Pair>> {
        let moved = self.raw.iter().zip(&self.at).filter(|(from, to)| from != to && **to != OsdId::HOLE);
        let mut left: Vec<Pair> = moved.map(|(from, to)| (*from, *to)).collect();
        let (mut now, mut out) = (self.raw.clone(), Vec::new());
        while !left.is_empty() {
            let (from, to) = left.remove(left.iter().position(|(_, to)| !now.contains(to))?);
            if let Some(place) = now.iter_mut().find(|osd| **osd == from) {
                *place = to;
            }
            out.push((from, to));
        }
        Some(out)
    }
}

/// How a pool's PGs lie, and what was changed of that.
struct Layout<'a> {
    domains: Domains<'a>,
    places: BTreeMap<PgId, Place>,
    /// Copies that an OSD has, and those that are its share.
    shares: BTreeMap<OsdId, (f64, f64)>,
}

/// What to change of the pool's upmaps so that no OSD has more than `max_deviation` PGs too many or too few: at most
/// `max_changes` PGs, with the pairs that they are to have; no pairs where the upmap is removed.
pub(crate) fn plan(
    map: &OsdMap,
    id: PoolId,
    max_deviation: f64,
    max_changes: usize,
) -> BTreeMap<PgId, Vec<Pair>> {
    let mut changed = BTreeMap::new();
    let Some(mut layout) = Layout::of(map, id) else { return changed };
    while changed.len() < max_changes {
        let Some(pg) = layout.improve(max_deviation) else { break };
        changed.insert(pg, layout.places.get(&pg).and_then(Place::pairs).unwrap_or_default());
    }
    changed.retain(|pg, pairs| map.pg_upmap_items.get(pg).map_or(&[][..], |items| items) != &pairs[..]);
    changed
}

impl Layout<'_> {
    fn of(map: &OsdMap, id: PoolId) -> Option<Layout<'_>> {
        // PGs that are to be merged are where the pool places them.
        let pool = map.pools.get(&id).filter(|pool| pool.pg_num <= pool.pg_num_target)?;
        let crush = map.crush.map();
        let mut weights = rule_shares(crush, pool.crush_rule, map);
        weights.retain(|osd, weight| *weight > 0.0 && map.is_up(*osd));
        let all: f64 = weights.values().sum();
        let copies = f64::from(pool.pg_num) * f64::from(pool.size);
        let mut shares: BTreeMap<OsdId, (f64, f64)> =
            weights.iter().map(|(osd, weight)| (*osd, (0.0, copies * weight / all))).collect();
        for osd in map.pgs_of(id).flat_map(|pg| map.pg_to_up_acting(pg).up) {
            if let Some((has, _)) = shares.get_mut(&osd) {
                *has += 1.0;
            }
        }
        // A PG that an operator has placed as a whole stays there, and counts.
        let movable = map.pgs_of(id).filter(|pg| !map.pg_upmap.contains_key(pg));
        let places = movable.filter_map(|pg| Some((pg, Place::of(map, pg)?))).collect();
        Some(Layout { domains: Domains::of(crush, pool.crush_rule)?, places, shares })
    }

    fn deviation(&self, osd: OsdId) -> Option<f64> {
        self.shares.get(&osd).map(|(has, share)| has - share)
    }

    /// Moves one copy from an OSD that has too many to one that has too few, if an OSD is further off than it may be;
    /// gives the PG of that copy.
    fn improve(&mut self, max_deviation: f64) -> Option<PgId> {
        let mut by_need: Vec<(OsdId, f64)> =
            self.shares.iter().map(|(osd, (has, share))| (*osd, has - share)).collect();
        by_need.sort_by(|a, b| a.1.total_cmp(&b.1));
        if by_need.iter().all(|(_, off)| off.abs() <= max_deviation) {
            return None;
        }
        let (pg, from, to) = by_need.iter().rev().find_map(|(from, _)| {
            // Copies that were moved before go back first, so that upmaps do not pile up.
            self.way_back(*from).or_else(|| self.way_on(*from, &by_need))
        })?;
        self.relocate(pg, from, to);
        Some(pg)
    }

    /// True where moving a copy from the first OSD to the second makes the pool more even.
    fn evens(&self, from: OsdId, to: OsdId) -> bool {
        let off = |osd| self.deviation(osd);
        matches!((off(from), off(to)), (Some(from), Some(to)) if from > 0.0 && from - to > 1.0)
    }

    /// True where the copy may be moved, and upmaps can say so.
    fn fits(&self, place: &Place, from: OsdId, to: OsdId) -> bool {
        place.at.contains(&from)
            && self.domains.may_replace(&place.at, from, to)
            && place.with(from, to).pairs().is_some()
    }

    fn way_back(&self, from: OsdId) -> Option<(PgId, OsdId, OsdId)> {
        self.places.iter().find_map(|(pg, place)| {
            let (to, _) = place.raw.iter().zip(&place.at).find(|(raw, at)| **at == from && raw != at)?;
            (self.evens(from, *to) && self.fits(place, from, *to)).then_some((*pg, from, *to))
        })
    }

    fn way_on(&self, from: OsdId, by_need: &[(OsdId, f64)]) -> Option<(PgId, OsdId, OsdId)> {
        by_need.iter().filter(|(to, _)| self.evens(from, *to)).find_map(|(to, _)| {
            let found = self.places.iter().find(|(_, place)| self.fits(place, from, *to));
            found.map(|(pg, _)| (*pg, from, *to))
        })
    }

    fn relocate(&mut self, pg: PgId, from: OsdId, to: OsdId) {
        for (osd, by) in [(from, -1.0), (to, 1.0)] {
            if let Some((has, _)) = self.shares.get_mut(&osd) {
                *has += by;
            }
        }
        if let Some(place) = self.places.get_mut(&pg) {
            *place = place.with(from, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn osds<const N: usize>(ids: [i32; N]) -> Vec<OsdId> {
        ids.map(OsdId).to_vec()
    }

    #[test]
    fn copies_are_moved_in_an_order_that_upmaps_can_express() {
        let place = Place { raw: osds([1, 2, 3]), at: osds([2, 4, 3]) };
        let pair = |from, to| (OsdId(from), OsdId(to));
        assert_eq!(place.pairs(), Some(vec![pair(2, 4), pair(1, 2)]));
        assert_eq!(place.with(OsdId(2), OsdId(5)).pairs(), Some(vec![pair(1, 5), pair(2, 4)]));
        assert_eq!(place.with(OsdId(4), OsdId(1)).pairs(), None, "two cannot change places");
        assert_eq!(Place { raw: osds([1, 2]), at: osds([1, 2]) }.pairs(), Some(Vec::new()));
    }
}
