//! From an object to its placement group and from there to its OSDs (`OSDMap::_pg_to_up_acting_osds` and
//! what it calls). Clients and OSDs compute this on their own and must agree to the last bit.

use crush::{ITEM_NONE, ceph_stable_mod, ceph_str_hash_rjenkins, crush_hash32_2};

use super::{OsdMap, PRIMARY_AFFINITY_DEFAULT, PgPool, PoolFlags};
use crate::{OsdId, PgId, PoolId};

/// The byte between a namespace and a name in what is hashed.
const NAMESPACE_SEPARATOR: u8 = 0x1f;

/// Where a PG lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpActing {
    /// What placement says, of the OSDs that are up; [`OsdId::HOLE`] where a shard has none.
    pub up: Vec<OsdId>,
    /// The first of them by affinity; [`OsdId::NONE`] without one.
    pub up_primary: OsdId,
    /// The OSDs that serve the PG: `up` unless a temporary mapping says otherwise.
    pub acting: Vec<OsdId>,
    /// The OSD that orders the writes; [`OsdId::NONE`] without one.
    pub acting_primary: OsdId,
}

/// A PG that no OSD serves.
impl Default for UpActing {
    fn default() -> Self {
        UpActing { up: Vec::new(), up_primary: OsdId::NONE, acting: Vec::new(), acting_primary: OsdId::NONE }
    }
}

/// The hash of an object: of its locator key if there is one, else of its name. Every pool has the same.
pub fn object_hash(nspace: &[u8], key: &[u8], oid: &[u8]) -> u32 {
    let name = if key.is_empty() { oid } else { key };
    if nspace.is_empty() {
        return ceph_str_hash_rjenkins(name);
    }
    let mut text = Vec::with_capacity(nspace.len() + 1 + name.len());
    text.extend_from_slice(nspace);
    text.push(NAMESPACE_SEPARATOR);
    text.extend_from_slice(name);
    ceph_str_hash_rjenkins(&text)
}

impl PgPool {
    /// `raw_pg_to_pg`: the PG that holds objects of this hash.
    pub fn pg_of_hash(&self, pool: PoolId, hash: u32) -> PgId {
        PgId::new(pool, ceph_stable_mod(hash, self.pg_num, self.pg_num_mask()))
    }

    /// `raw_pg_to_pps`: the number that CRUSH places the PG by.
    pub fn placement_seed(&self, pg: PgId) -> u32 {
        let seed = ceph_stable_mod(pg.seed, self.pgp_num, self.pgp_num_mask());
        // Pool ids above 2^32 are cut, as Ceph cuts them.
        let pool = pg.pool.0 as u32;
        if self.flags.has(PoolFlags::HASHPSPOOL) {
            crush_hash32_2(seed, pool)
        } else {
            seed.wrapping_add(pool)
        }
    }
}

impl OsdMap {
    /// The full hash of an object and the PG that holds it; none when there is no such pool.
    pub fn object_to_pg(&self, pool: PoolId, nspace: &[u8], key: &[u8], oid: &[u8]) -> Option<(u32, PgId)> {
        let p = self.pools.get(&pool)?;
        let hash = object_hash(nspace, key, oid);
        Some((hash, p.pg_of_hash(pool, hash)))
    }

    /// `pg_to_raw_osds`: the OSDs that CRUSH chooses for a PG, holes as [`OsdId::HOLE`]; empty without a
    /// rule that fits the pool.
    pub fn pg_to_raw_osds(&self, pg: PgId) -> Vec<OsdId> {
        let Some(pool) = self.pools.get(&pg.pool) else { return Vec::new() };
        let crush = self.crush.map();
        let fits = |rule: &crush::Rule| {
            rule.ruleset == pool.crush_rule
                && rule.kind == pool.kind.0
                && (rule.min_size..=rule.max_size).contains(&pool.size)
        };
        let rules = (0..=u8::MAX).zip(&crush.rules);
        let found = rules.filter_map(|(id, rule)| Some((id, rule.as_ref()?))).find(|(_, rule)| fits(rule));
        let Some((rule, _)) = found else { return Vec::new() };
        let args = crush.choose_args_of(pg.pool.0);
        let x = pool.placement_seed(pg);
        let chosen = crush.do_rule(rule, x, usize::from(pool.size), &self.osd_weight, args);
        chosen.into_iter().map(|item| if item == ITEM_NONE { OsdId::HOLE } else { OsdId(item) }).collect()
    }

    /// `pg_to_raw_upmap`: those OSDs that exist, as upmaps have it.
    pub fn pg_to_raw_upmap(&self, pg: PgId) -> Vec<OsdId> {
        let Some(pool) = self.pools.get(&pg.pool) else { return Vec::new() };
        let mut raw = self.only(pool, &self.pg_to_raw_osds(pg), |osd| self.exists(osd));
        self.apply_upmap(pool, pg, &mut raw);
        raw
    }

    /// `pg_to_up_acting_osds`: where a PG lives. All empty when there is no such PG.
    pub fn pg_to_up_acting(&self, pg: PgId) -> UpActing {
        self.up_acting_of_raw(pg, &self.pg_to_raw_osds(pg))
    }

    /// Where a PG lives, given the OSDs that CRUSH chose for it (before any that do not exist are dropped).
    /// All empty when there is no such PG.
    pub fn up_acting_of_raw(&self, pg: PgId, raw: &[OsdId]) -> UpActing {
        match self.pools.get(&pg.pool) {
            Some(pool) if pg.seed < pool.pg_num => self.up_acting(pool, pg, raw),
            _ => UpActing::default(),
        }
    }

    fn up_acting(&self, pool: &PgPool, pg: PgId, raw: &[OsdId]) -> UpActing {
        let seed = pool.placement_seed(pg);
        let mut raw = self.only(pool, raw, |osd| self.exists(osd));
        self.apply_upmap(pool, pg, &mut raw);
        let mut up = self.only(pool, &raw, |osd| self.is_up(osd));
        let up_primary = self.apply_primary_affinity(pool, seed, &mut up);
        let mut temp = self
            .pg_temp
            .get(&pg)
            .map(|osds| self.only(pool, osds, |osd| self.is_up(osd)))
            .unwrap_or_default();
        drop_repeated(pool, &mut temp);
        let temp_primary = match self.primary_temp.get(&pg) {
            Some(osd) => *osd,
            None => first_osd(&temp),
        };
        if !temp.is_empty() {
            return UpActing { up, up_primary, acting: temp, acting_primary: temp_primary };
        }
        let acting_primary = if temp_primary == OsdId::NONE { up_primary } else { temp_primary };
        UpActing { acting: up.clone(), up, up_primary, acting_primary }
    }

    /// True for an OSD that may not be the target of an upmap: in range and marked out.
    fn is_bad_target(&self, osd: OsdId) -> bool {
        let weight = usize::try_from(osd.0).ok().and_then(|at| self.osd_weight.get(at));
        weight == Some(&0)
    }

    fn apply_upmap(&self, pool: &PgPool, pg: PgId, raw: &mut Vec<OsdId>) {
        if let Some(osds) = self.pg_upmap.get(&pg) {
            if osds.iter().any(|osd| self.is_bad_target(*osd)) {
                return;
            }
            raw.clone_from(osds);
            drop_repeated(pool, raw);
        }
        // One after another: a pair sees what the pairs before it did, so two OSDs cannot be swapped.
        for (from, to) in self.pg_upmap_items.get(&pg).into_iter().flatten() {
            if raw.contains(to) || self.is_bad_target(*to) {
                continue;
            }
            if let Some(place) = raw.iter_mut().find(|osd| *osd == from) {
                *place = *to;
            }
        }
    }

    /// The OSDs that qualify; in erasure-coded pools the others leave holes.
    fn only(&self, pool: &PgPool, osds: &[OsdId], qualifies: impl Fn(OsdId) -> bool) -> Vec<OsdId> {
        let osds = osds.iter().copied();
        if pool.can_shift_osds() {
            osds.filter(|osd| qualifies(*osd)).collect()
        } else {
            osds.map(|osd| if qualifies(osd) { osd } else { OsdId::HOLE }).collect()
        }
    }

    /// Picks the primary; in replicated pools it moves to the front.
    fn apply_primary_affinity(&self, pool: &PgPool, seed: u32, up: &mut [OsdId]) -> OsdId {
        let affinity = |osd: OsdId| self.primary_affinity(osd);
        if up.iter().all(|osd| *osd == OsdId::HOLE || affinity(*osd) == PRIMARY_AFFINITY_DEFAULT) {
            return first_osd(up);
        }
        // The hash spreads an OSD's PGs, so that it refuses the share that its affinity says.
        let accepts = |osd: OsdId| {
            let a = affinity(osd);
            a >= PRIMARY_AFFINITY_DEFAULT || (crush_hash32_2(seed, osd.0 as u32) >> 16) < a
        };
        let willing = up.iter().position(|osd| *osd != OsdId::HOLE && accepts(*osd));
        // No OSD accepts by its affinity: the first one that there is.
        let Some(place) = willing.or_else(|| up.iter().position(|osd| *osd != OsdId::HOLE)) else {
            return OsdId::NONE;
        };
        let primary = up[place];
        if pool.can_shift_osds() {
            up[..=place].rotate_right(1);
        }
        primary
    }
}

/// Removes OSDs that upmaps or temporary mappings name more than once: an OSD holds one copy. Ceph refuses such a
/// mapping in the command that sets it, but places by it if it is there by other ways; the primary is the same. What
/// CRUSH repeats stays, as clients have it, too: a rule that takes twice may choose an OSD each time. In an
/// erasure-coded pool an OSD may have several parts.
fn drop_repeated(pool: &PgPool, osds: &mut Vec<OsdId>) {
    if !pool.can_shift_osds() {
        return;
    }
    let mut at = 0;
    while at < osds.len() {
        if osds[..at].contains(&osds[at]) {
            osds.remove(at);
        } else {
            at += 1;
        }
    }
}

/// The first that is not a hole.
fn first_osd(osds: &[OsdId]) -> OsdId {
    osds.iter().copied().find(|osd| *osd != OsdId::HOLE).unwrap_or(OsdId::NONE)
}
