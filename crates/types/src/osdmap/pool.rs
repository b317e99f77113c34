//! Pools (`pg_pool_t`, osd/osd_types.h), version 29 as Pacific writes them outside stretch mode.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use bytes::Bytes;
use codec::{Codec, Decode, DecodeError, Encode, Features, Reader};
use crush::ceph_stable_mod;

use super::{PoolFlags, PoolOptKey, PoolOptValue, PoolOpts};
use crate::{EVersion, Epoch, IntervalSet, PgId, PoolId, SnapId, UTime};

/// How a pool keeps its objects (`pg_pool_t::TYPE_*`).
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolType(pub u8);

impl PoolType {
    /// `size` copies.
    pub const REPLICATED: PoolType = PoolType(1);
    /// Shards of an erasure code.
    pub const ERASURE: PoolType = PoolType(3);
}

impl fmt::Display for PoolType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            PoolType::REPLICATED => "replicated",
            PoolType::ERASURE => "erasure",
            PoolType(_) => "???",
        })
    }
}

/// `pg_pool_t::pg_autoscale_mode_t`: what happens when the number of PGs is not the best.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AutoscaleMode(pub u8);

impl AutoscaleMode {
    /// Nothing.
    pub const OFF: AutoscaleMode = AutoscaleMode(0);
    /// A health warning.
    pub const WARN: AutoscaleMode = AutoscaleMode(1);
    /// It is changed.
    pub const ON: AutoscaleMode = AutoscaleMode(2);

    /// Parses `off`, `warn`, `on`.
    pub fn parse(text: &str) -> Option<AutoscaleMode> {
        [Self::OFF, Self::WARN, Self::ON].into_iter().find(|m| m.name() == text)
    }

    /// `off`, `warn`, `on`.
    pub fn name(self) -> &'static str {
        match self {
            AutoscaleMode::OFF => "off",
            AutoscaleMode::WARN => "warn",
            AutoscaleMode::ON => "on",
            AutoscaleMode(_) => "???",
        }
    }
}

/// `pool_snap_info_t`: a snapshot of a whole pool.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 2, compat = 2)]
pub struct PoolSnapInfo {
    /// Its id.
    pub snapid: SnapId,
    /// When it was taken.
    pub stamp: UTime,
    /// Its name.
    pub name: String,
}

/// `pg_merge_meta_t`: where the last merge of two PGs happened. All zero without one.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct PgMergeMeta {
    /// The PG that went away.
    pub source_pgid: PgId,
    /// When both were ready.
    pub ready_epoch: Epoch,
    /// Of the source.
    pub last_epoch_started: Epoch,
    /// Of the source.
    pub last_epoch_clean: Epoch,
    /// The source's last version.
    pub source_version: EVersion,
    /// The target's last version.
    pub target_version: EVersion,
}

/// `HitSet::Params`: how a cache tier samples hits. Kept as bytes: cache tiers are not served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HitSetParams {
    /// The kind of hit set, 0 for none.
    pub kind: u8,
    /// The kind's own parameters.
    pub params: Bytes,
}

impl Encode for HitSetParams {
    fn encode(&self, out: &mut Vec<u8>, features: Features) {
        codec::encode_envelope(out, 1, 1, |out| {
            self.kind.encode(out, features);
            out.extend_from_slice(&self.params);
        });
    }
}

impl Decode for HitSetParams {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        codec::decode_envelope(input, 1, "HitSet::Params", |input, _| {
            Ok(HitSetParams { kind: u8::decode(input)?, params: input.take_rest() })
        })
    }
}

/// `pg_pool_t`: a pool. Only what Pacific writes is read; the stretch fields of version 30 are skipped.
#[derive(Codec, Clone, Debug, PartialEq)]
#[codec(version = 29, compat = 5)]
pub struct PgPool {
    /// Replicated or erasure-coded.
    pub kind: PoolType,
    /// Copies, or shards.
    pub size: u8,
    /// The CRUSH rule's number.
    pub crush_rule: u8,
    /// Which hash places objects; 2 is rjenkins.
    pub object_hash: u8,
    /// Number of PGs.
    pub pg_num: u32,
    /// Number of PGs that placement tells apart.
    pub pgp_num: u32,
    /// Retired, 0.
    pub lpg_num: u32,
    /// Retired, 0.
    pub lpgp_num: u32,
    /// The epoch that changed the pool last.
    pub last_change: Epoch,
    /// The newest snapshot id.
    pub snap_seq: SnapId,
    /// The epoch that changed the snapshots last.
    pub snap_epoch: Epoch,
    /// Pool snapshots.
    pub snaps: BTreeMap<SnapId, PoolSnapInfo>,
    /// Removed snapshots; empty since Octopus except for pools that stay in the old form.
    pub removed_snaps: IntervalSet,
    /// Retired owner.
    pub auid: u64,
    /// Flags.
    pub flags: PoolFlags,
    /// Retired, 0.
    pub crash_replay_interval: u32,
    /// OSDs that a PG needs to serve.
    pub min_size: u8,
    /// 0: no quota.
    pub quota_bytes_max: u64,
    /// 0: no quota.
    pub quota_objects_max: u64,
    /// Pools that cache this one.
    pub tiers: BTreeSet<PoolId>,
    /// The pool that this one caches, or -1.
    pub tier_of: PoolId,
    /// 0: none.
    pub cache_mode: u8,
    /// Where reads go first, or -1.
    pub read_tier: PoolId,
    /// Where writes go first, or -1.
    pub write_tier: PoolId,
    /// Unused.
    pub properties: BTreeMap<String, String>,
    /// Cache tier.
    pub hit_set_params: HitSetParams,
    /// Cache tier, seconds.
    pub hit_set_period: u32,
    /// Cache tier.
    pub hit_set_count: u32,
    /// Bytes of a full stripe; 0 for replicated pools.
    pub stripe_width: u32,
    /// Cache tier.
    pub target_bytes_max: u64,
    /// Cache tier.
    pub target_objects_max: u64,
    /// Cache tier, parts per million.
    pub cache_target_dirty_ratio_micro: u32,
    /// Cache tier, parts per million.
    pub cache_target_full_ratio_micro: u32,
    /// Cache tier, seconds.
    pub cache_flush_age_min: u32,
    /// Cache tier, seconds.
    pub cache_evict_age_min: u32,
    /// The erasure code profile's name; empty for replicated pools.
    pub erasure_code_profile: String,
    /// Clients before Luminous resend after this epoch.
    pub last_force_op_resend_preluminous: Epoch,
    /// Cache tier.
    pub read_recency_for_promote_min: u32,
    /// What the creator expected, to split directories early.
    pub expected_num_objects: u64,
    /// Cache tier, parts per million.
    pub cache_target_dirty_high_ratio_micro: u32,
    /// Cache tier.
    pub write_recency_for_promote_min: u32,
    /// Cache tier: names of hit sets are in UTC.
    pub use_gmt_hitset: bool,
    /// Reads ask all shards and take the first that suffice.
    pub fast_read: bool,
    /// Cache tier.
    pub hit_set_grade_decay_rate: u32,
    /// Cache tier.
    pub hit_set_search_last_n: u32,
    /// Options set on the pool.
    pub opts: PoolOpts,
    /// Clients before Nautilus resend after this epoch.
    pub last_force_op_resend_prenautilus: Epoch,
    /// By application (`rbd`), its keys and values.
    pub application_metadata: BTreeMap<String, BTreeMap<String, String>>,
    /// When the pool was made.
    pub create_time: UTime,
    /// What `pg_num` moves to.
    pub pg_num_target: u32,
    /// What `pgp_num` moves to.
    pub pgp_num_target: u32,
    /// `pg_num` after the merge that waits, else `pg_num`.
    pub pg_num_pending: u32,
    /// Retired, 0.
    pub pg_num_dec_last_epoch_started: Epoch,
    /// Retired, 0.
    pub pg_num_dec_last_epoch_clean: Epoch,
    /// Clients resend operations of older epochs.
    pub last_force_op_resend: Epoch,
    /// What happens when `pg_num` is not the best.
    pub pg_autoscale_mode: AutoscaleMode,
    /// The last merge.
    pub last_pg_merge_meta: PgMergeMeta,
}

/// What `pg_pool_t`'s constructor sets.
impl Default for PgPool {
    fn default() -> Self {
        PgPool {
            kind: PoolType(0),
            size: 0,
            crush_rule: 0,
            object_hash: PgPool::HASH_RJENKINS,
            pg_num: 0,
            pgp_num: 0,
            lpg_num: 0,
            lpgp_num: 0,
            last_change: Epoch(0),
            snap_seq: SnapId(0),
            snap_epoch: Epoch(0),
            snaps: BTreeMap::new(),
            removed_snaps: IntervalSet::new(),
            auid: 0,
            flags: PoolFlags(0),
            crash_replay_interval: 0,
            min_size: 0,
            quota_bytes_max: 0,
            quota_objects_max: 0,
            tiers: BTreeSet::new(),
            tier_of: PoolId(-1),
            cache_mode: 0,
            read_tier: PoolId(-1),
            write_tier: PoolId(-1),
            properties: BTreeMap::new(),
            hit_set_params: HitSetParams::default(),
            hit_set_period: 0,
            hit_set_count: 0,
            stripe_width: 0,
            target_bytes_max: 0,
            target_objects_max: 0,
            cache_target_dirty_ratio_micro: 400_000,
            cache_target_full_ratio_micro: 800_000,
            cache_flush_age_min: 0,
            cache_evict_age_min: 0,
            erasure_code_profile: String::new(),
            last_force_op_resend_preluminous: Epoch(0),
            read_recency_for_promote_min: 0,
            expected_num_objects: 0,
            cache_target_dirty_high_ratio_micro: 600_000,
            write_recency_for_promote_min: 0,
            use_gmt_hitset: true,
            fast_read: false,
            hit_set_grade_decay_rate: 0,
            hit_set_search_last_n: 0,
            opts: PoolOpts::default(),
            last_force_op_resend_prenautilus: Epoch(0),
            application_metadata: BTreeMap::new(),
            create_time: UTime::default(),
            pg_num_target: 0,
            pgp_num_target: 0,
            pg_num_pending: 0,
            pg_num_dec_last_epoch_started: Epoch(0),
            pg_num_dec_last_epoch_clean: Epoch(0),
            last_force_op_resend: Epoch(0),
            pg_autoscale_mode: AutoscaleMode::OFF,
            last_pg_merge_meta: PgMergeMeta::default(),
        }
    }
}

/// `2^ceil(log2(count)) - 1`: the mask that `ceph_stable_mod` takes with `count`.
fn mask_of(count: u32) -> u32 {
    count.saturating_sub(1).checked_ilog2().map_or(0, |bits| u32::MAX >> (31 - bits))
}

impl PgPool {
    /// `CEPH_STR_HASH_RJENKINS`: the only object hash in use.
    pub const HASH_RJENKINS: u8 = 2;

    /// A new pool, as a monitor makes it: hashed placement, all PG counts `pg_num`.
    pub fn new(kind: PoolType, size: u8, min_size: u8, crush_rule: u8, pg_num: u32) -> PgPool {
        PgPool {
            kind,
            size,
            min_size,
            crush_rule,
            pg_num,
            pgp_num: pg_num,
            pg_num_target: pg_num,
            pgp_num_target: pg_num,
            pg_num_pending: pg_num,
            flags: PoolFlags::HASHPSPOOL,
            ..PgPool::default()
        }
    }

    /// True for a pool of copies.
    pub fn is_replicated(&self) -> bool {
        self.kind == PoolType::REPLICATED
    }

    /// True for a pool that another one has as its tier.
    pub fn is_tier(&self) -> bool {
        self.tier_of != PoolId(-1)
    }

    /// True for an erasure-coded pool.
    pub fn is_erasure(&self) -> bool {
        self.kind == PoolType::ERASURE
    }

    /// `can_shift_osds`: true when a missing OSD leaves no hole, as copies are all alike.
    pub fn can_shift_osds(&self) -> bool {
        self.is_replicated()
    }

    /// The mask for `pg_num`.
    pub fn pg_num_mask(&self) -> u32 {
        mask_of(self.pg_num)
    }

    /// The mask for `pgp_num`.
    pub fn pgp_num_mask(&self) -> u32 {
        mask_of(self.pgp_num)
    }

    /// How many PGs it began with. What has fewer than the shards of an OSD stays where it was when it is split.
    pub fn first_pg_num(&self) -> u32 {
        match self.opts.0.get(&PoolOptKey::FIRST_PG_NUM) {
            Some(PoolOptValue::Int(first)) => u32::try_from(*first).unwrap_or(self.pg_num),
            Some(PoolOptValue::Str(_) | PoolOptValue::Double(_)) | None => self.pg_num,
        }
    }

    /// Changes the number of PGs.
    pub fn set_pg_num(&mut self, pg_num: u32) {
        // PGs that are made later are split off those that are left.
        let first = PoolOptValue::Int(i64::from(self.first_pg_num().min(pg_num)));
        self.opts.0.insert(PoolOptKey::FIRST_PG_NUM, first);
        self.pg_num = pg_num;
        self.pg_num_pending = pg_num;
    }

    /// PGs of `pg`'s pool that came of it as the number of PGs grew from `before` to `after`
    /// (`pg_t::is_split`).
    pub fn children_of(pg: PgId, before: u32, after: u32) -> impl Iterator<Item = PgId> {
        let mask = mask_of(before);
        let is_child = move |seed: &u32| ceph_stable_mod(*seed, before, mask) == pg.seed;
        (before..after).filter(is_child).map(move |seed| PgId::new(pg.pool, seed))
    }

    /// The PG among the first `count` ones that this one is, or was split off.
    pub fn ancestor_of(pg: PgId, count: u32) -> PgId {
        PgId::new(pg.pool, ceph_stable_mod(pg.seed, count, mask_of(count)))
    }

    /// The PG that is merged next as the number of PGs shrinks, and the PG that it is merged into; none if there is
    /// only one PG. PGs are merged one by one, those that were split off last first.
    pub fn next_merge(&self, pool: PoolId) -> Option<(PgId, PgId)> {
        let left = self.pg_num.checked_sub(1).filter(|left| *left > 0)?;
        let source = PgId::new(pool, left);
        Some((source, PgPool::ancestor_of(source, left)))
    }

    /// True while the PG is about to be merged with another one, and so changes nothing (`is_pending_merge`).
    pub fn is_merging(&self, pg: PgId) -> bool {
        (1..self.pg_num).contains(&self.pg_num_pending)
            && (pg.seed >= self.pg_num_pending
                || PgPool::children_of(pg, self.pg_num_pending, self.pg_num).next().is_some())
    }

    /// True when clients manage the snapshots.
    pub fn is_unmanaged_snaps_mode(&self) -> bool {
        self.flags.has(PoolFlags::SELFMANAGED_SNAPS)
    }

    /// True when the monitors manage the snapshots.
    pub fn is_pool_snaps_mode(&self) -> bool {
        self.flags.has(PoolFlags::POOL_SNAPS)
    }

    /// The pool snapshot of that name.
    pub fn snap_by_name(&self, name: &str) -> Option<SnapId> {
        self.snaps.values().find(|snap| snap.name == name).map(|snap| snap.snapid)
    }
}
