//! Which copies to move so that each OSD has its share of a pool's PGs: upmaps to make, change or drop, a few at a
//! time.
//!
//! A copy moves to where the pool's rule might have placed it: below what the rule takes, in the same buckets down to
//! the last level at which the rule chooses, and there in one that has no copy yet.
//!
//! Authority: `OSDMap::calc_pg_upmaps`, `CrushWrapper::try_remap_rule` (16.2), for what counts; the search is ours.

use std::collections::{BTreeMap, BTreeSet};

use crush::{CrushMap, step};
use types::{CrushBlob, OsdId, OsdMap, PgId, PgPool, PoolId};

use crate::{
    osdmap_service::{Holders, suits_rule},
    stats::rule_shares,
};

/// One copy's way from where CRUSH places it to where it is to be.
pub(crate) type Pair = (OsdId, OsdId);

/// What a pool's rule asks of an OSD in the place of another.
struct Domains {
    seats: BTreeMap<OsdId, Seat>,
}

/// Where an OSD is, as far as the rule asks.
#[derive(Default)]
struct Seat {
    /// Which of the rule's `take`s may choose it.
    takes: Vec<usize>,
    /// The buckets that hold it, of the types that the rule chooses, outermost first, without the last.
    outer: Vec<Option<i32>>,
    /// The bucket of the last type, or the OSD itself: it has one copy of a PG at most.
    domain: Option<i32>,
}

impl Domains {
    fn of(crush: &CrushMap, rule: u8) -> Option<Domains> {
        let steps = &crush.rule(rule)?.steps;
        let holders = crush.holders();
        let devices = holders.keys().filter(|item| **item >= 0);
        let mut seats: BTreeMap<OsdId, Seat> = devices.map(|id| (OsdId(*id), Seat::default())).collect();
        for (index, take) in steps.iter().filter(|s| s.op == step::TAKE).enumerate() {
            let mut devices = Vec::new();
            crush.devices_below(take.arg1, &mut devices);
            for device in devices {
                seats.entry(OsdId(device)).or_default().takes.push(index);
            }
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
        // The bucket of that type that holds the OSD.
        let bucket_of = |osd: OsdId, kind: i32| {
            let mut at = osd.0;
            while kind != 0 && i32::from(crush.bucket(at).map_or(0, |bucket| bucket.kind)) != kind {
                at = holders.get(&at)?.0;
            }
            Some(at)
        };
        if let Some((last, outer)) = kinds.split_last() {
            for (osd, seat) in &mut seats {
                seat.outer = outer.iter().map(|kind| bucket_of(*osd, *kind)).collect();
                seat.domain = bucket_of(*osd, *last);
            }
        }
        Some(Domains { seats })
    }

    fn domain(&self, osd: OsdId) -> Option<i32> {
        self.seats.get(&osd)?.domain
    }

    /// True where `to` may stand for `from`, for PGs that have no other copy in the domain of `to`.
    fn may_stand(&self, from: OsdId, to: OsdId) -> bool {
        let (Some(from), Some(to)) = (self.seats.get(&from), self.seats.get(&to)) else { return false };
        from.takes.iter().any(|take| to.takes.contains(take)) && from.outer == to.outer
    }

    /// The OSDs in groups that copies do not leave, as no `take` of the rule has OSDs of two of them.
    fn apart(&self, weights: &BTreeMap<OsdId, f64>) -> Vec<BTreeMap<OsdId, f64>> {
        let mut groups: Vec<(BTreeSet<usize>, BTreeMap<OsdId, f64>)> = Vec::new();
        for (osd, weight) in weights {
            let takes = self.seats.get(osd).map_or(&[][..], |seat| &seat.takes);
            let is_shared = |(its, _): &mut (BTreeSet<usize>, _)| takes.iter().any(|take| its.contains(take));
            let mut shared = groups.extract_if(.., is_shared).collect::<Vec<_>>().into_iter();
            let (mut all_takes, mut osds) = shared.next().unwrap_or_default();
            for (more_takes, more_osds) in shared {
                all_takes.extend(more_takes);
                osds.extend(more_osds);
            }
            all_takes.extend(takes);
            osds.insert(*osd, *weight);
            groups.push((all_takes, osds));
        }
        groups.into_iter().map(|(_, osds)| osds).collect()
    }

    /// The copies that are each OSD's share: `copies` by weight, except that a domain takes one copy of each of the
    /// `pgs` at most. What a large domain cannot take falls to the others.
    fn shares(&self, weights: &BTreeMap<OsdId, f64>, pgs: f64, copies: f64) -> BTreeMap<OsdId, f64> {
        let mut domains: BTreeMap<i32, f64> = BTreeMap::new();
        for (osd, weight) in weights {
            if let Some(domain) = self.domain(*osd) {
                *domains.entry(domain).or_default() += weight;
            }
        }
        let mut largest: Vec<(i32, f64)> = domains.into_iter().collect();
        largest.sort_by(|a, b| b.1.total_cmp(&a.1));
        let (mut copies_left, mut weight_left) = (copies, weights.values().sum::<f64>());
        let mut full: BTreeMap<i32, f64> = BTreeMap::new();
        for (domain, weight) in largest {
            if weight * copies_left <= pgs * weight_left {
                break;
            }
            full.insert(domain, pgs / weight);
            (copies_left, weight_left) = (copies_left - pgs, weight_left - weight);
        }
        let share = |osd: OsdId, weight: f64| {
            let full = self.domain(osd).and_then(|domain| full.get(&domain));
            weight * full.copied().unwrap_or(copies_left / weight_left)
        };
        weights.iter().map(|(osd, weight)| (*osd, share(*osd, *weight))).collect()
    }
}

/// The OSDs of a domain, and how many copies more than its share each has: the one that lacks most comes first.
struct Group {
    domain: i32,
    osds: Vec<(OsdId, f64)>,
}

impl Group {
    /// What the OSD that lacks most has more than its share.
    fn least(&self) -> f64 {
        self.osds.first().map_or(0.0, |(_, off)| *off)
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

/// By what the map's upmaps are judged.
struct Rule {
    crush: CrushBlob,
    holders: Holders,
    pool: PgPool,
}

impl Rule {
    fn of(crush: &CrushBlob, pool: &PgPool) -> Rule {
        Rule { crush: crush.clone(), holders: crush.map().holders(), pool: pool.clone() }
    }

    /// True where upmaps can bring the copies there, and the monitor does not drop them for where that is. Where the
    /// rule takes several buckets, it may itself place copies in fewer domains than upmaps have to keep to.
    fn allows(&self, place: &Place) -> bool {
        let is_raw = place.at == place.raw;
        let stays = || suits_rule(self.crush.map(), &self.holders, &self.pool, &place.at);
        is_raw || (place.pairs().is_some() && stays())
    }
}

/// A copy that may be moved.
struct Movable<'a> {
    pg: PgId,
    place: &'a Place,
    /// The domains of the PG's other copies.
    others: Vec<Option<i32>>,
}

impl Movable<'_> {
    /// True where no other copy is in this domain.
    fn leaves_free(&self, domain: i32) -> bool {
        !self.others.contains(&Some(domain))
    }
}

/// How a pool's PGs lie, and what was changed of that.
struct Layout {
    rule: Rule,
    domains: Domains,
    places: BTreeMap<PgId, Place>,
    /// The PGs of `places` that have a copy on the OSD.
    pgs_on: BTreeMap<OsdId, BTreeSet<PgId>>,
    /// Copies that an OSD has, and those that are its share.
    shares: BTreeMap<OsdId, (f64, f64)>,
}

/// What to change of the pool's upmaps so that no OSD has more than `max_deviation` PGs too many or too few: at most
/// `max_changes` PGs, with the pairs that they are to have; no pairs where the upmap is removed. Considers `moves_left`
/// moves at most, and takes those that it considered off.
pub(crate) fn plan(
    map: &OsdMap,
    id: PoolId,
    max_deviation: f64,
    max_changes: usize,
    moves_left: &mut usize,
) -> BTreeMap<PgId, Vec<Pair>> {
    let mut changed = BTreeMap::new();
    let Some(mut layout) = Layout::of(map, id, max_deviation) else { return changed };
    while changed.len() < max_changes {
        let Some(pg) = layout.improve(max_deviation, moves_left) else { break };
        changed.insert(pg, layout.places.get(&pg).and_then(Place::pairs).unwrap_or_default());
    }
    changed.retain(|pg, pairs| map.pg_upmap_items.get(pg).map_or(&[][..], |items| items) != &pairs[..]);
    changed
}

impl Layout {
    /// How the pool's PGs lie; none where no OSD is further off its share than it may be.
    fn of(map: &OsdMap, id: PoolId, max_deviation: f64) -> Option<Layout> {
        // PGs that are to be merged are where the pool places them.
        let pool = map.pools.get(&id).filter(|pool| pool.pg_num <= pool.pg_num_target)?;
        let crush = map.crush.map();
        let mut weights = rule_shares(crush, pool.crush_rule, map);
        weights.retain(|osd, weight| *weight > 0.0 && map.is_up(*osd));
        let domains = Domains::of(crush, pool.crush_rule)?;
        let mut has: BTreeMap<OsdId, f64> = weights.keys().map(|osd| (*osd, 0.0)).collect();
        for osd in map.pgs_of(id).flat_map(|pg| map.pg_to_up_acting(pg).up) {
            if let Some(has) = has.get_mut(&osd) {
                *has += 1.0;
            }
        }
        let mut shares: BTreeMap<OsdId, (f64, f64)> = BTreeMap::new();
        for group in domains.apart(&weights) {
            let copies = group.keys().filter_map(|osd| has.get(osd)).sum();
            let group = domains.shares(&group, f64::from(pool.pg_num), copies);
            shares.extend(group.into_iter().map(|(osd, share)| (osd, (has[&osd], share))));
        }
        if is_even(&shares, max_deviation) {
            return None;
        }
        // A PG that an operator has placed as a whole stays there, and counts.
        let movable = map.pgs_of(id).filter(|pg| !map.pg_upmap.contains_key(pg));
        let places: BTreeMap<PgId, Place> =
            movable.filter_map(|pg| Some((pg, Place::of(map, pg)?))).collect();
        let mut pgs_on: BTreeMap<OsdId, BTreeSet<PgId>> = BTreeMap::new();
        for (pg, place) in &places {
            place.at.iter().for_each(|osd| {
                pgs_on.entry(*osd).or_default().insert(*pg);
            });
        }
        let rule = Rule::of(&map.crush, pool);
        Some(Layout { rule, domains, places, pgs_on, shares })
    }

    /// Moves one copy from an OSD that has too many to one that has too few, if an OSD is further off than it may be;
    /// gives the PG of that copy.
    fn improve(&mut self, max_deviation: f64, moves_left: &mut usize) -> Option<PgId> {
        if is_even(&self.shares, max_deviation) {
            return None;
        }
        let mut by_need: Vec<(OsdId, f64)> =
            self.shares.iter().map(|(osd, (has, share))| (*osd, has - share)).collect();
        by_need.sort_by(|a, b| a.1.total_cmp(&b.1));
        let groups = self.groups(&by_need);
        let (pg, from, to) = by_need.iter().rev().find_map(|(from, off)| {
            if *moves_left == 0 {
                return None;
            }
            let copies = self.copies_on(*from);
            // Copies that were moved before go back first, so that upmaps do not pile up.
            let found = self
                .way_back(&copies, *from, *off, moves_left)
                .or_else(|| self.way_on(&copies, *from, *off, &groups, moves_left));
            found.map(|(pg, to)| (pg, *from, to))
        })?;
        self.relocate(pg, from, to);
        Some(pg)
    }

    /// The OSDs by domain; the domain with the OSD that lacks most comes first.
    fn groups(&self, by_need: &[(OsdId, f64)]) -> Vec<Group> {
        let mut groups: BTreeMap<i32, Vec<(OsdId, f64)>> = BTreeMap::new();
        for (osd, off) in by_need {
            if let Some(domain) = self.domains.domain(*osd) {
                groups.entry(domain).or_default().push((*osd, *off));
            }
        }
        let mut groups: Vec<Group> =
            groups.into_iter().map(|(domain, osds)| Group { domain, osds }).collect();
        groups.sort_by(|a, b| a.least().total_cmp(&b.least()));
        groups
    }

    fn copies_on(&self, osd: OsdId) -> Vec<Movable<'_>> {
        let copy = |pg: &PgId| {
            let place = self.places.get(pg)?;
            let others = place.at.iter().filter(|other| **other != osd);
            Some(Movable {
                pg: *pg,
                place,
                others: others.map(|other| self.domains.domain(*other)).collect(),
            })
        };
        self.pgs_on.get(&osd).into_iter().flatten().filter_map(copy).collect()
    }

    /// Moves back a copy that upmaps brought to this OSD.
    fn way_back(
        &self,
        copies: &[Movable<'_>],
        from: OsdId,
        off: f64,
        moves_left: &mut usize,
    ) -> Option<(PgId, OsdId)> {
        for copy in copies {
            *moves_left = moves_left.checked_sub(1)?;
            let mut ways = copy.place.raw.iter().zip(&copy.place.at);
            let Some((to, _)) = ways.find(|(raw, at)| **at == from && raw != at) else { continue };
            let Some((has, share)) = self.shares.get(to) else { continue };
            if evens(off, has - share)
                && self.domains.may_stand(from, *to)
                && self.domains.domain(*to).is_some_and(|domain| copy.leaves_free(domain))
                && self.rule.allows(&copy.place.with(from, *to))
            {
                return Some((copy.pg, *to));
            }
        }
        None
    }

    /// Moves a copy on to the OSD that lacks most, of those in domains that a copy may move to.
    fn way_on(
        &self,
        copies: &[Movable<'_>],
        from: OsdId,
        off: f64,
        groups: &[Group],
        moves_left: &mut usize,
    ) -> Option<(PgId, OsdId)> {
        for group in groups.iter().take_while(|group| evens(off, group.least())) {
            let tos = group.osds.iter().take_while(|(_, to_off)| evens(off, *to_off));
            for (to, _) in tos.filter(|(to, _)| self.domains.may_stand(from, *to)) {
                let mut is_full = true;
                for copy in copies {
                    *moves_left = moves_left.checked_sub(1)?;
                    if !copy.leaves_free(group.domain) {
                        continue;
                    }
                    is_full = false;
                    if self.rule.allows(&copy.place.with(from, *to)) {
                        return Some((copy.pg, *to));
                    }
                }
                // What no copy may move to because of the domain, none may move to beside.
                if is_full {
                    break;
                }
            }
        }
        None
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
        if let Some(pgs) = self.pgs_on.get_mut(&from) {
            pgs.remove(&pg);
        }
        self.pgs_on.entry(to).or_default().insert(pg);
    }
}

/// True where no OSD has more copies too many or too few than it may have.
fn is_even(shares: &BTreeMap<OsdId, (f64, f64)>, max_deviation: f64) -> bool {
    shares.values().all(|(has, share)| (has - share).abs() <= max_deviation)
}

/// True where moving a copy makes a pool more even, from an OSD that is so far off its share to one that is so far off.
fn evens(from: f64, to: f64) -> bool {
    from > 0.0 && from - to > 1.0
}

#[cfg(test)]
mod tests;
