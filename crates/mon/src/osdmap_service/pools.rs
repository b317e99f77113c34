//! Making and deleting pools.

use crush::CrushMap;
use types::{
    AutoscaleMode, CrushBlob, Errno, Incremental, OsdMap, PgPool, PoolFlags, PoolId, PoolOpts, PoolType,
    UTime,
};

use crate::{Mon, MonOptions};

/// The most PGs that a pool may have.
pub(crate) const PG_NUM_MAX: u32 = 65_536;

/// A CRUSH rule, as the request for a pool names it.
#[derive(Clone, Debug)]
pub(crate) enum RuleRef {
    /// By its name.
    Name(String),
    /// By its number.
    Id(u8),
}

/// What a new pool shall be like; `None` takes the default.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolParams {
    pub(crate) name: String,
    pub(crate) pg_num: Option<u32>,
    pub(crate) pgp_num: Option<u32>,
    pub(crate) size: Option<u8>,
    pub(crate) rule: Option<RuleRef>,
    pub(crate) autoscale: Option<AutoscaleMode>,
    pub(crate) is_bulk: bool,
    /// What it is to be told of its size to come.
    pub(crate) opts: PoolOpts,
}

/// A refusal: errno and the line for the operator.
type Refusal = (Errno, String);

/// The pool that `params` describe, checked against the map.
fn new_pool(map: &OsdMap, options: &MonOptions, params: &PoolParams, wall: UTime) -> Result<PgPool, Refusal> {
    if params.name.is_empty() || params.name.contains('\0') {
        return Err((Errno::EINVAL, "pool name is empty".to_owned()));
    }
    let crush = map.crush.map();
    let rule = match &params.rule {
        Some(RuleRef::Name(name)) => {
            crush.rule_of(name).ok_or((Errno::ENOENT, format!("specified rule {name} doesn't exist")))?
        }
        Some(RuleRef::Id(id)) if crush.rule(*id).is_none() => {
            return Err((Errno::ENOENT, format!("CRUSH rule {id} not found")));
        }
        Some(RuleRef::Id(id)) => *id,
        None => (0..=u8::MAX)
            .find(|id| crush.rule(*id).is_some_and(|r| r.kind == PoolType::REPLICATED.0))
            .ok_or((
                Errno::ENOENT,
                "no suitable CRUSH rule exists, check 'osd pool default crush rule'".to_owned(),
            ))?,
    };
    let size = params.size.unwrap_or(options.pool_size);
    fits(crush, rule, PoolType::REPLICATED, size)?;
    let pg_num = params.pg_num.unwrap_or(options.pool_pg_num);
    let pgp_num = params.pgp_num.unwrap_or(pg_num);
    check_pg_num_range(pg_num)?;
    check_pg_sum(map, options, None, pg_num, size)?;
    if pgp_num == 0 || pgp_num > pg_num {
        let text = format!(
            "'pgp_num' must be greater than 0 and lower or equal than 'pg_num', which in this case is {pg_num}"
        );
        return Err((Errno::ERANGE, text));
    }
    let mut pool = PgPool::new(PoolType::REPLICATED, size, options.min_size_of(size), rule, pg_num);
    (pool.pgp_num, pool.pgp_num_target) = (pgp_num, pgp_num);
    pool.create_time = wall;
    pool.pg_autoscale_mode = params.autoscale.unwrap_or(options.pool_autoscale_mode);
    if params.is_bulk {
        pool.flags = pool.flags.with(PoolFlags::BULK, true);
    }
    pool.opts = params.opts.clone();
    Ok(pool)
}

/// Why pools of a kind and a size cannot be placed by a rule: their PGs would be nowhere.
///
/// Authority: `CrushWrapper::check_crush_rule`, `OSDMap::validate_crush_rules` (16.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleMismatch {
    /// There is no such rule.
    NoRule,
    /// It is an old rule, whose number and ruleset differ.
    OtherRuleset,
    /// It is for another kind of pools.
    OtherKind,
    /// It is for larger pools.
    TooSmall,
    /// It is for smaller pools.
    TooLarge,
}

/// Whether the rule with this number places pools of that kind and size.
pub(crate) fn rule_mismatch(crush: &CrushMap, rule: u8, kind: PoolType, size: u8) -> Option<RuleMismatch> {
    let Some(found) = crush.rule(rule) else { return Some(RuleMismatch::NoRule) };
    match () {
        () if found.ruleset != rule => Some(RuleMismatch::OtherRuleset),
        () if found.kind != kind.0 => Some(RuleMismatch::OtherKind),
        () if size < found.min_size => Some(RuleMismatch::TooSmall),
        () if size > found.max_size => Some(RuleMismatch::TooLarge),
        () => None,
    }
}

/// Refuses a rule that does not place a pool, with the text for the operator who changes the pool.
pub(crate) fn fits(crush: &CrushMap, rule: u8, kind: PoolType, size: u8) -> Result<(), Refusal> {
    let text = match rule_mismatch(crush, rule, kind, size) {
        None => return Ok(()),
        Some(RuleMismatch::NoRule) => format!("crush rule {rule} does not exist"),
        Some(RuleMismatch::OtherRuleset) => format!("rule {rule} mask ruleset does not match rule id"),
        Some(RuleMismatch::OtherKind) => format!("crush rule {rule} type does not match pool"),
        Some(RuleMismatch::TooSmall) => "pool size is smaller than the crush rule min size".to_owned(),
        Some(RuleMismatch::TooLarge) => "pool size is bigger than the crush rule max size".to_owned(),
    };
    Err((Errno::EINVAL, text))
}

/// Refuses a number of PGs that no pool may have.
pub(crate) fn check_pg_num_range(pg_num: u32) -> Result<(), Refusal> {
    if !(1..=PG_NUM_MAX).contains(&pg_num) {
        let text = format!(
            "'pg_num' must be greater than 0 and less than or equal to {PG_NUM_MAX} (you may adjust 'mon max pool pg num' for higher values)"
        );
        return Err((Errno::ERANGE, text));
    }
    Ok(())
}

/// Refuses a number of PGs, of a pool that is to get more or of a new one, that the OSDs could not carry.
pub(crate) fn check_pg_sum(
    map: &OsdMap,
    options: &MonOptions,
    of: Option<PoolId>,
    pg_num: u32,
    size: u8,
) -> Result<(), Refusal> {
    let others = map.pools.iter().filter(|(id, _)| Some(**id) != of);
    let current: u64 = others.map(|(_, p)| u64::from(p.pg_num_target) * u64::from(p.size)).sum();
    let osds = map.num_in().max(3) as u64;
    let wanted = current + u64::from(pg_num) * u64::from(size);
    let limit = u64::from(options.pgs_per_osd_max) * osds;
    if wanted > limit {
        let text = format!(
            "{} pg_num {pg_num} size {size} would mean {wanted} total pgs, which exceeds max {limit} (mon_max_pg_per_osd {} * num_in_osds {osds})",
            of.map_or(String::new(), |id| format!("pool id {id}")),
            options.pgs_per_osd_max
        );
        return Err((Errno::ERANGE, text));
    }
    Ok(())
}

impl Mon {
    /// Makes a pool; its name must be free. Its PGs are queued for creation.
    pub(crate) fn create_pool(&mut self, wall: UTime, params: &PoolParams) -> Result<PoolId, Refusal> {
        let pool = new_pool(&self.next.osdmap, &self.options, params, wall)?;
        let id = PoolId(i64::from(self.next.osdmap.pool_max) + 1);
        let pg_num = pool.pg_num;
        self.change_osdmap(wall, |_, inc| {
            inc.new_pool_max = Some(id);
            inc.new_pools.insert(id, pool);
            inc.new_pool_names.insert(id, params.name.clone());
        });
        let epoch = self.next.osdmap.epoch;
        self.queue_creating(id, 0, pg_num, epoch);
        Ok(id)
    }

    /// Deletes a pool with everything in it.
    pub(crate) fn delete_pool(&mut self, wall: UTime, id: PoolId) -> Result<(), Refusal> {
        let map = &self.next.osdmap;
        let Some(pool) = map.pools.get(&id) else { return Ok(()) };
        let name = |id: &PoolId| map.pool_name(*id).unwrap_or_default();
        if !pool.tiers.is_empty() {
            let tiers: Vec<&str> = pool.tiers.iter().map(name).collect();
            return Err((Errno::EBUSY, format!("pool '{}' has tiers {}", name(&id), tiers.join(","))));
        }
        if pool.is_tier() {
            let text = format!("pool '{}' is a tier of '{}'", name(&id), name(&pool.tier_of));
            return Err((Errno::EBUSY, text));
        }
        if pool.flags.has(PoolFlags::NODELETE) {
            let text = "pool deletion is disabled; you must unset nodelete flag for the pool first";
            return Err((Errno::EPERM, text.to_owned()));
        }
        self.change_osdmap(wall, |map, inc| remove_pool(map, inc, id));
        self.put(crate::ledger_keys::creating(id), None);
        self.put(crate::ledger_keys::removed_snaps(id), None);
        Ok(())
    }
}

fn remove_pool(map: &OsdMap, inc: &mut Incremental, id: PoolId) {
    inc.old_pools.insert(id);
    inc.new_pg_temp.extend(map.pg_temp.keys().filter(|pg| pg.pool == id).map(|pg| (*pg, Vec::new())));
    inc.new_primary_temp
        .extend(map.primary_temp.keys().filter(|pg| pg.pool == id).map(|pg| (*pg, types::OsdId::NONE)));
    inc.old_pg_upmap.extend(map.pg_upmap.keys().filter(|pg| pg.pool == id));
    inc.old_pg_upmap_items.extend(map.pg_upmap_items.keys().filter(|pg| pg.pool == id));
    // A pool's weight set has the pool's id, which is never given out again.
    if map.crush.map().choose_args.contains_key(&id.0) {
        let mut crush = map.crush.map().clone();
        crush.choose_args.remove(&id.0);
        inc.crush = CrushBlob::from(crush).bytes().clone();
    }
}
