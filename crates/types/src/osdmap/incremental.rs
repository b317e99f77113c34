//! `OSDMap::Incremental`: what changes from one epoch to the next.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use codec::{Decode, DecodeError, Encode, Features, Reader};

use super::{
    ErasureCodeProfiles, MapFlags, OsdState, OsdXInfo, PgPool, RangeChange, Release, check_crc,
    sections::{WRAPPER_VERSION, crc_around, or_minus_one, wire_sections},
};
use crate::{EntityAddr, EntityAddrVec, Epoch, IntervalSet, OsdId, PgId, PoolId, UTime, Uuid};

/// The feature bits that shape a Pacific map; receivers re-encode the map with them to check `full_crc`.
const ENCODE_FEATURES: u64 = 0x0f00_0880_1021_2a04;

/// `OSDMap::Incremental`. `None` and empty fields change nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Incremental {
    /// The cluster.
    pub fsid: Uuid,
    /// The epoch that it leads to, from the one before.
    pub epoch: Epoch,
    /// When it was made.
    pub modified: UTime,
    /// The highest pool id ever given.
    pub new_pool_max: Option<PoolId>,
    /// All flags of the cluster.
    pub new_flags: Option<MapFlags>,
    /// An encoded full map that replaces everything; empty for none.
    pub fullmap: Bytes,
    /// An encoded CRUSH map; empty for none.
    pub crush: Bytes,
    /// How many OSD ids there are.
    pub new_max_osd: Option<i32>,
    /// Pools that are new or changed; `last_change` becomes this epoch when applied.
    pub new_pools: BTreeMap<PoolId, PgPool>,
    /// Names that are new or changed.
    pub new_pool_names: BTreeMap<PoolId, String>,
    /// Pools that are gone.
    pub old_pools: BTreeSet<PoolId>,
    /// OSDs that are marked up, with their addresses for clients.
    pub new_up_client: BTreeMap<OsdId, EntityAddrVec>,
    /// State bits that are toggled; empty bits mean UP. Toggling UP of an OSD that is up marks it down,
    /// toggling EXISTS of one that exists forgets it.
    pub new_state: BTreeMap<OsdId, OsdState>,
    /// Reweights; marking in clears AUTOOUT and NEW.
    pub new_weight: BTreeMap<OsdId, u32>,
    /// Temporary acting sets; an empty one removes.
    pub new_pg_temp: BTreeMap<PgId, Vec<OsdId>>,
    /// Temporary primaries; [`OsdId::NONE`] removes.
    pub new_primary_temp: BTreeMap<PgId, OsdId>,
    /// Primary affinities.
    pub new_primary_affinity: BTreeMap<OsdId, u32>,
    /// Erasure code profiles that are new or changed.
    pub new_erasure_code_profiles: ErasureCodeProfiles,
    /// Erasure code profiles that are gone.
    pub old_erasure_code_profiles: Vec<String>,
    /// Replacements of whole mappings that are new or changed.
    pub new_pg_upmap: BTreeMap<PgId, Vec<OsdId>>,
    /// Replacements of whole mappings that are gone.
    pub old_pg_upmap: BTreeSet<PgId>,
    /// Replacements of single OSDs that are new or changed.
    pub new_pg_upmap_items: BTreeMap<PgId, Vec<(OsdId, OsdId)>>,
    /// Replacements of single OSDs that are gone.
    pub old_pg_upmap_items: BTreeSet<PgId>,
    /// Snapshots removed.
    pub new_removed_snaps: BTreeMap<PoolId, IntervalSet>,
    /// Snapshots purged by all OSDs.
    pub new_purged_snaps: BTreeMap<PoolId, IntervalSet>,
    /// All zero: unchanged.
    pub new_last_up_change: UTime,
    /// All zero: unchanged.
    pub new_last_in_change: UTime,
    /// Back heartbeat addresses of OSDs that are marked up.
    pub new_hb_back_up: BTreeMap<OsdId, EntityAddrVec>,
    /// Epochs in which OSDs were alive.
    pub new_up_thru: BTreeMap<OsdId, Epoch>,
    /// First and last epoch of intervals that ended with an orderly stop.
    pub new_last_clean_interval: BTreeMap<OsdId, (Epoch, Epoch)>,
    /// OSDs declared lost, and when.
    pub new_lost: BTreeMap<OsdId, Epoch>,
    /// Client addresses refused, and until when.
    pub new_blocklist: BTreeMap<EntityAddr, UTime>,
    /// Client addresses admitted again.
    pub old_blocklist: Vec<EntityAddr>,
    /// Networks refused and admitted again.
    pub ranges: RangeChange,
    /// Addresses for other OSDs, of OSDs that are marked up.
    pub new_up_cluster: BTreeMap<OsdId, EntityAddrVec>,
    /// Retired.
    pub cluster_snapshot: String,
    /// The OSDs' own ids.
    pub new_uuid: BTreeMap<OsdId, Uuid>,
    /// More on the lives of OSDs.
    pub new_xinfo: BTreeMap<OsdId, OsdXInfo>,
    /// Front heartbeat addresses of OSDs that are marked up.
    pub new_hb_front_up: BTreeMap<OsdId, EntityAddrVec>,
    /// The features with which `full_crc` was computed.
    pub encode_features: u64,
    /// Above it an OSD warns.
    pub new_nearfull_ratio: Option<f32>,
    /// Above it an OSD refuses writes.
    pub new_full_ratio: Option<f32>,
    /// Above it an OSD takes no backfill.
    pub new_backfillfull_ratio: Option<f32>,
    /// Older clients are refused.
    pub new_require_min_compat_client: Option<Release>,
    /// Older OSDs are refused.
    pub new_require_osd_release: Option<Release>,
    /// State bits of CRUSH nodes; none set removes.
    pub new_crush_node_flags: BTreeMap<i32, OsdState>,
    /// State bits of device classes; none set removes.
    pub new_device_class_flags: BTreeMap<i32, OsdState>,
    /// The checksum of the full map that it leads to.
    pub full_crc: u32,
}

wire_sections! {
    Incremental { full_crc }
    client 8 / 1 {
        fsid, epoch, modified, new_pool_max via or_minus_one, new_flags via or_minus_one, fullmap, crush,
        new_max_osd via or_minus_one, new_pools, new_pool_names, old_pools, new_up_client, new_state,
        new_weight, new_pg_temp, new_primary_temp, new_primary_affinity, new_erasure_code_profiles,
        old_erasure_code_profiles, new_pg_upmap, old_pg_upmap, new_pg_upmap_items, old_pg_upmap_items,
        new_removed_snaps, new_purged_snaps, new_last_up_change, new_last_in_change,
    }
    osd 9 / 1 {
        new_hb_back_up, new_up_thru, new_last_clean_interval, new_lost, new_blocklist, old_blocklist,
        new_up_cluster, cluster_snapshot, new_uuid, new_xinfo, new_hb_front_up, encode_features,
        new_nearfull_ratio via or_minus_one, new_full_ratio via or_minus_one,
        new_backfillfull_ratio via or_minus_one, new_require_min_compat_client via or_minus_one,
        new_require_osd_release via or_minus_one, new_crush_node_flags, new_device_class_flags,
        ; tail 11 ranges
    }
}

impl Incremental {
    /// One that changes nothing but the epoch.
    pub fn new(fsid: Uuid, epoch: Epoch) -> Incremental {
        Incremental { fsid, epoch, encode_features: ENCODE_FEATURES, ..Incremental::default() }
    }
}

impl Encode for Incremental {
    /// The checksum of the incremental itself is computed here; `full_crc` is the caller's.
    fn encode(&self, out: &mut Vec<u8>, f: Features) {
        let start = out.len();
        codec::encode_envelope(out, WRAPPER_VERSION.0, WRAPPER_VERSION.1, |out| {
            self.encode_sections(out, f);
            0u32.encode(out, f);
            self.full_crc.encode(out, f);
        });
        let at = out.len() - 8;
        let crc = crc_around(&out[start..at], &out[at + 4..]);
        out[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

impl Decode for Incremental {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let whole = input.clone();
        let (inc, stored, tail) =
            codec::decode_envelope(input, WRAPPER_VERSION.0, "OSDMap::Incremental", |input, _| {
                let inc = Incremental::decode_sections(input)?;
                Ok((inc, u32::decode(input)?, input.take_rest()))
            })?;
        let end = whole.remaining() - input.remaining();
        let before = &whole.peek()[..end - tail.len() - 4];
        check_crc("OSDMap::Incremental crc", stored, crc_around(before, &tail))?;
        Ok(Incremental { full_crc: u32::from_prefix(tail)?, ..inc })
    }
}
