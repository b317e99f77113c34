//! Which copies to move so that each OSD has its share of a pool's PGs: upmaps to make, change or drop, a few at a time.
//!
//! A copy moves to where the pool's rule might have placed it: below what the rule takes, in the same buckets down to
//! the last level at which the rule chooses, and there in one that has no copy yet.
//!
//! Authority: `OSDMap::calc_pg_upmaps`, `CrushWrapper::try_remap_rule` (16.2), for what counts; the search is ours.

use std::collections::{BTreeMap, BTreeSet};

use crush::{CrushMap, step};
use types::{OsdId, OsdMap, PgId, PoolId};

use crate::stats::rule_weights;

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
        let mut kinds: Vec<i32> = steps.iter().filter(|s| chooses(s.op)).map(|s| s.arg2).collect();
        kinds.dedup();
        // Choosing OSDs below what was chosen asks for nothing more.
        if kinds.len() > 1 && kinds.last() == Some(&0) {
            kinds.pop();
        }
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

    /// True where `to` may stand for `from` among `up`.
    fn may_replace(&self, up: &[OsdId], from: OsdId, to: OsdId) -> bool {
        let Some((last, outer)) = self.kinds.split_last() else { return false };
        let is_taken = self.taken.iter().any(|osds| osds.contains(&from) && osds.contains(&to));
        let stays = outer.iter().all(|kind| self.domain(from, *kind) == self.domain(to, *kind));
        let domain = self.domain(to, *last);
        let is_free =
            up.iter().filter(|osd| **osd != from).all(|osd| *osd != to && self.domain(*osd, *last) != domain);
        is_taken && stays && domain.is_some() && is_free
    }
}

/// How a pool's PGs lie, and what was changed of that.
struct Layout<'a> {
    domains: Domains<'a>,
    up: BTreeMap<PgId, Vec<OsdId>>,
    items: BTreeMap<PgId, Vec<Pair>>,
    /// Copies that an OSD has, and those that are its share.
    shares: BTreeMap<OsdId, (f64, f64)>,
}

/// What to change of the pool's upmaps so that no OSD has more than `max_deviation` PGs too many or too few: at most
/// `max_changes` PGs, with the pairs that they are to have, none where the upmap goes.
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
        changed.insert(pg, layout.items.get(&pg).cloned().unwrap_or_default());
    }
    changed.retain(|pg, pairs| map.pg_upmap_items.get(pg).map_or(&[][..], |items| items) != &pairs[..]);
    changed
}

impl Layout<'_> {
    fn of(map: &OsdMap, id: PoolId) -> Option<Layout<'_>> {
        // PGs that are to be merged are where the pool places them.
        let pool = map.pools.get(&id).filter(|pool| pool.pg_num <= pool.pg_num_target)?;
        let crush = map.crush.map();
        let mut weights = rule_weights(crush, pool.crush_rule, map);
        weights.retain(|osd, weight| *weight > 0.0 && map.is_up(*osd));
        let all: f64 = weights.values().sum();
        let copies = f64::from(pool.pg_num) * f64::from(pool.size);
        // What an operator has placed as a whole stays, and counts.
        let up: BTreeMap<PgId, Vec<OsdId>> =
            map.pgs_of(id).map(|pg| (pg, map.pg_to_up_acting(pg).up)).collect();
        let mut shares: BTreeMap<OsdId, (f64, f64)> =
            weights.iter().map(|(osd, weight)| (*osd, (0.0, copies * weight / all))).collect();
        for osd in up.values().flatten() {
            if let Some((has, _)) = shares.get_mut(osd) {
                *has += 1.0;
            }
        }
        let mut up = up;
        up.retain(|pg, _| !map.pg_upmap.contains_key(pg));
        let items = map.pg_upmap_items.iter().filter(|(pg, _)| pg.pool == id);
        let items = items.map(|(pg, pairs)| (*pg, pairs.clone())).collect();
        Some(Layout { domains: Domains::of(crush, pool.crush_rule)?, up, items, shares })
    }

    fn deviation(&self, osd: OsdId) -> Option<f64> {
        self.shares.get(&osd).map(|(has, share)| has - share)
    }

    /// Moves one copy from an OSD that has too many to one that has too few, if an OSD is further off than it may be; the
    /// PG that it was of.
    fn improve(&mut self, max_deviation: f64) -> Option<PgId> {
        let mut by_need: Vec<(OsdId, f64)> =
            self.shares.iter().map(|(osd, (has, share))| (*osd, has - share)).collect();
        by_need.sort_by(|a, b| a.1.total_cmp(&b.1));
        if by_need.iter().all(|(_, off)| off.abs() <= max_deviation) {
            return None;
        }
        let (pg, from, to) = by_need.iter().rev().find_map(|(from, _)| {
            // What was moved before goes back first: so upmaps do not pile up.
            self.way_back(*from).or_else(|| self.way_on(*from, &by_need))
        })?;
        self.relocate(pg, from, to);
        Some(pg)
    }

    /// True where a copy less here and one more there makes the pool more even.
    fn evens(&self, from: OsdId, to: OsdId) -> bool {
        let off = |osd| self.deviation(osd);
        matches!((off(from), off(to)), (Some(from), Some(to)) if from > 0.0 && from - to > 1.0)
    }

    fn way_back(&self, from: OsdId) -> Option<(PgId, OsdId, OsdId)> {
        self.items.iter().find_map(|(pg, pairs)| {
            let up = self.up.get(pg).filter(|up| up.contains(&from))?;
            let (to, _) = pairs.iter().find(|(_, to)| *to == from)?;
            (self.evens(from, *to) && self.domains.may_replace(up, from, *to)).then_some((*pg, from, *to))
        })
    }

    fn way_on(&self, from: OsdId, by_need: &[(OsdId, f64)]) -> Option<(PgId, OsdId, OsdId)> {
        by_need.iter().filter(|(to, _)| self.evens(from, *to)).find_map(|(to, _)| {
            let fits = |up: &[OsdId]| up.contains(&from) && self.domains.may_replace(up, from, *to);
            self.up.iter().find(|(_, up)| fits(up)).map(|(pg, _)| (*pg, from, *to))
        })
    }

    fn relocate(&mut self, pg: PgId, from: OsdId, to: OsdId) {
        for (osd, by) in [(from, -1.0), (to, 1.0)] {
            if let Some((has, _)) = self.shares.get_mut(&osd) {
                *has += by;
            }
        }
        if let Some(place) = self.up.get_mut(&pg).and_then(|up| up.iter_mut().find(|osd| **osd == from)) {
            *place = to;
        }
        let pairs = self.items.entry(pg).or_default();
        match pairs.iter().position(|(_, at)| *at == from) {
            Some(at) if pairs[at].0 == to => drop(pairs.remove(at)),
            Some(at) => pairs[at].1 = to,
            None => pairs.push((from, to)),
        }
        if pairs.is_empty() {
            self.items.remove(&pg);
        }
    }
}
