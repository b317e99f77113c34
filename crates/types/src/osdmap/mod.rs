//! The OSD map (`OSDMap`, osd/OSDMap.h): which OSDs there are, where they listen, which pools there are
//! and where each placement group lives. Encoded byte for byte as Ceph 16.2 does, so that the checksum
//! that the monitors put on a map holds wherever it is re-encoded.
//!
//! Invariants: every per-OSD vector has `max_osd` elements (`osd_primary_affinity` may be empty), decoding
//! refuses anything else; applying an [`Incremental`] either succeeds or leaves the map as it was.

mod apply;
mod crush_blob;
mod incremental;
mod mapping;
mod names;
mod osd_info;
mod pool;
mod pool_opts;
mod queries;
mod ranges;
mod sections;

use std::collections::BTreeMap;

use bytes::Bytes;
use codec::{Decode, DecodeError, Encode, Features, Reader};

pub use apply::ApplyError;
pub use crush_blob::CrushBlob;
pub use incremental::Incremental;
pub use mapping::{UpActing, object_hash};
pub use names::{MapFlags, OsdState, PoolFlags, Release};
pub use osd_info::{OsdInfo, OsdXInfo};
pub use pool::{AutoscaleMode, HitSetParams, PgMergeMeta, PgPool, PoolSnapInfo, PoolType};
pub use pool_opts::{PoolOptKey, PoolOptKind, PoolOptValue, PoolOpts};
pub use ranges::{RangeBlocklist, RangeChange};

use sections::{WRAPPER_VERSION, crc_around, wire_sections};

use crate::{EntityAddr, EntityAddrVec, Epoch, IntervalSet, OsdId, PgId, PoolId, UTime, Uuid};

/// `CEPH_OSD_IN`: the weight of an OSD that is fully in. 0 is out.
pub const WEIGHT_IN: u32 = 0x1_0000;

/// `CEPH_OSD_DEFAULT_PRIMARY_AFFINITY`: the OSD becomes primary as often as its place says.
pub const PRIMARY_AFFINITY_DEFAULT: u32 = 0x1_0000;

/// The most OSD ids that a map may have. Ceph's `mon_max_osd` is 10,000; a full map stays below 64 MiB here.
pub const OSD_COUNT_MAX: i32 = 100_000;

/// Profiles of erasure codes: name to parameters.
pub type ErasureCodeProfiles = BTreeMap<String, BTreeMap<String, String>>;

/// `OSDMap`: a full map.
#[derive(Clone, Debug, PartialEq)]
pub struct OsdMap {
    /// The cluster.
    pub fsid: Uuid,
    /// The version of the map.
    pub epoch: Epoch,
    /// When the cluster was made.
    pub created: UTime,
    /// When this epoch was made.
    pub modified: UTime,
    /// Pools.
    pub pools: BTreeMap<PoolId, PgPool>,
    /// Names of the pools.
    pub pool_name: BTreeMap<PoolId, String>,
    /// The highest pool id ever given.
    pub pool_max: i32,
    /// Flags of the cluster.
    pub flags: MapFlags,
    /// OSD ids are below this.
    pub max_osd: i32,
    /// State of each OSD.
    pub osd_state: Vec<OsdState>,
    /// Reweight of each OSD, 0 (out) to [`WEIGHT_IN`].
    pub osd_weight: Vec<u32>,
    /// Addresses for clients.
    pub osd_addrs: Vec<EntityAddrVec>,
    /// Acting sets that differ from the up set for now.
    pub pg_temp: BTreeMap<PgId, Vec<OsdId>>,
    /// Primaries that differ from the computed one for now.
    pub primary_temp: BTreeMap<PgId, OsdId>,
    /// Primary affinity of each OSD, 0 to [`PRIMARY_AFFINITY_DEFAULT`]; empty when all are default.
    pub osd_primary_affinity: Vec<u32>,
    /// The encoded CRUSH map.
    pub crush: CrushBlob,
    /// Erasure code profiles.
    pub erasure_code_profiles: ErasureCodeProfiles,
    /// Operators' replacements of a PG's whole mapping.
    pub pg_upmap: BTreeMap<PgId, Vec<OsdId>>,
    /// Operators' replacements of single OSDs: from, to.
    pub pg_upmap_items: BTreeMap<PgId, Vec<(OsdId, OsdId)>>,
    /// How often the CRUSH map has changed.
    pub crush_version: u32,
    /// Snapshots removed in this epoch.
    pub new_removed_snaps: BTreeMap<PoolId, IntervalSet>,
    /// Snapshots purged in this epoch.
    pub new_purged_snaps: BTreeMap<PoolId, IntervalSet>,
    /// When an OSD last went up or down.
    pub last_up_change: UTime,
    /// When an OSD last went in or out.
    pub last_in_change: UTime,
    /// Back addresses for heartbeats.
    pub hb_back_addrs: Vec<EntityAddrVec>,
    /// Lives of the OSDs.
    pub osd_info: Vec<OsdInfo>,
    /// Client addresses that are refused, and until when.
    pub blocklist: BTreeMap<EntityAddr, UTime>,
    /// Networks that are refused, and until when.
    pub range_blocklist: RangeBlocklist,
    /// Addresses for other OSDs.
    pub cluster_addrs: Vec<EntityAddrVec>,
    /// Retired.
    pub cluster_snapshot_epoch: Epoch,
    /// Retired.
    pub cluster_snapshot: String,
    /// The OSDs' own ids, all zero without one.
    pub osd_uuid: Vec<Uuid>,
    /// More on the lives of the OSDs.
    pub osd_xinfo: Vec<OsdXInfo>,
    /// Front addresses for heartbeats.
    pub hb_front_addrs: Vec<EntityAddrVec>,
    /// Above it an OSD warns.
    pub nearfull_ratio: f32,
    /// Above it an OSD refuses writes.
    pub full_ratio: f32,
    /// Above it an OSD takes no backfill.
    pub backfillfull_ratio: f32,
    /// Older clients are refused.
    pub require_min_compat_client: Release,
    /// Older OSDs are refused.
    pub require_osd_release: Release,
    /// Removed snapshots that are not purged yet.
    pub removed_snaps_queue: BTreeMap<PoolId, IntervalSet>,
    /// [`OsdState`] bits (NOUP to NOOUT) of whole CRUSH nodes.
    pub crush_node_flags: BTreeMap<i32, OsdState>,
    /// [`OsdState`] bits (NOUP to NOOUT) of whole device classes.
    pub device_class_flags: BTreeMap<i32, OsdState>,
}

wire_sections! {
    OsdMap {}
    client 9 / 1 {
        fsid, epoch, created, modified, pools, pool_name, pool_max, flags, max_osd, osd_state, osd_weight,
        osd_addrs, pg_temp, primary_temp, osd_primary_affinity, crush, erasure_code_profiles,
        pg_upmap, pg_upmap_items, crush_version, new_removed_snaps, new_purged_snaps, last_up_change,
        last_in_change,
    }
    osd 9 / 1 {
        hb_back_addrs, osd_info, blocklist, cluster_addrs, cluster_snapshot_epoch, cluster_snapshot,
        osd_uuid, osd_xinfo, hb_front_addrs, nearfull_ratio, full_ratio, backfillfull_ratio,
        require_min_compat_client, require_osd_release, removed_snaps_queue, crush_node_flags,
        device_class_flags,
        ; tail 11 range_blocklist
    }
}

impl OsdMap {
    /// A map of epoch 0: no OSDs, no pools, everything else as a new Pacific cluster has it.
    pub fn new(fsid: Uuid, created: UTime, crush: CrushBlob) -> OsdMap {
        OsdMap {
            fsid,
            epoch: Epoch(0),
            created,
            modified: created,
            pools: BTreeMap::new(),
            pool_name: BTreeMap::new(),
            pool_max: 0,
            flags: MapFlags::PACIFIC,
            max_osd: 0,
            osd_state: Vec::new(),
            osd_weight: Vec::new(),
            osd_addrs: Vec::new(),
            pg_temp: BTreeMap::new(),
            primary_temp: BTreeMap::new(),
            osd_primary_affinity: Vec::new(),
            crush,
            erasure_code_profiles: BTreeMap::new(),
            pg_upmap: BTreeMap::new(),
            pg_upmap_items: BTreeMap::new(),
            crush_version: 1,
            new_removed_snaps: BTreeMap::new(),
            new_purged_snaps: BTreeMap::new(),
            last_up_change: UTime::default(),
            last_in_change: UTime::default(),
            hb_back_addrs: Vec::new(),
            osd_info: Vec::new(),
            blocklist: BTreeMap::new(),
            range_blocklist: RangeBlocklist::default(),
            cluster_addrs: Vec::new(),
            cluster_snapshot_epoch: Epoch(0),
            cluster_snapshot: String::new(),
            osd_uuid: Vec::new(),
            osd_xinfo: Vec::new(),
            hb_front_addrs: Vec::new(),
            nearfull_ratio: 0.85,
            full_ratio: 0.95,
            backfillfull_ratio: 0.90,
            require_min_compat_client: Release::LUMINOUS,
            require_osd_release: Release::PACIFIC,
            removed_snaps_queue: BTreeMap::new(),
            crush_node_flags: BTreeMap::new(),
            device_class_flags: BTreeMap::new(),
        }
    }

    /// The encoded map and its checksum, which an [`Incremental`] that leads here carries as `full_crc`.
    pub fn to_bytes_and_crc(&self) -> (Bytes, u32) {
        let bytes = self.to_bytes(Features::PACIFIC);
        let crc = bytes.last_chunk::<4>().copied().map(u32::from_le_bytes);
        (bytes, crc.expect("a map ends with its checksum"))
    }

    /// Gives every per-OSD vector `count` elements; new OSDs do not exist and are out.
    pub fn set_max_osd(&mut self, count: i32) {
        let count = count.clamp(0, OSD_COUNT_MAX);
        let n = count as usize;
        self.max_osd = count;
        self.osd_state.resize(n, OsdState::default());
        self.osd_weight.resize(n, 0);
        self.osd_info.resize(n, OsdInfo::default());
        self.osd_xinfo.resize(n, OsdXInfo::default());
        self.osd_uuid.resize(n, Uuid::NIL);
        for addrs in
            [&mut self.osd_addrs, &mut self.cluster_addrs, &mut self.hb_back_addrs, &mut self.hb_front_addrs]
        {
            addrs.resize(n, EntityAddrVec::default());
        }
        if !self.osd_primary_affinity.is_empty() {
            self.osd_primary_affinity.resize(n, PRIMARY_AFFINITY_DEFAULT);
        }
    }

    /// True when every per-OSD vector has `max_osd` elements.
    fn is_consistent(&self) -> bool {
        let lengths = [
            self.osd_state.len(),
            self.osd_weight.len(),
            self.osd_info.len(),
            self.osd_xinfo.len(),
            self.osd_uuid.len(),
            self.osd_addrs.len(),
            self.cluster_addrs.len(),
            self.hb_back_addrs.len(),
            self.hb_front_addrs.len(),
        ];
        let Ok(n) = usize::try_from(self.max_osd) else { return false };
        let affinity = self.osd_primary_affinity.len();
        self.max_osd <= OSD_COUNT_MAX
            && lengths.iter().all(|len| *len == n)
            && (affinity == 0 || affinity == n)
    }
}

impl Encode for OsdMap {
    fn encode(&self, out: &mut Vec<u8>, f: Features) {
        let start = out.len();
        codec::encode_envelope(out, WRAPPER_VERSION.0, WRAPPER_VERSION.1, |out| {
            self.encode_sections(out, f);
            0u32.encode(out, f);
        });
        // The envelope's length counts, so the checksum can only be taken once it is written.
        let at = out.len() - 4;
        let crc = crc_around(&out[start..at], &[]);
        out[at..].copy_from_slice(&crc.to_le_bytes());
    }
}

impl Decode for OsdMap {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let whole = input.clone();
        let (map, stored, tail) = codec::decode_envelope(input, WRAPPER_VERSION.0, "OSDMap", |input, _| {
            let map = OsdMap::decode_sections(input)?;
            Ok((map, u32::decode(input)?, input.take_rest()))
        })?;
        let end = whole.remaining() - input.remaining();
        let before = &whole.peek()[..end - tail.len() - 4];
        check_crc("OSDMap crc", stored, crc_around(before, &tail))?;
        if !map.is_consistent() {
            return Err(DecodeError::Invalid { what: "OSDMap max_osd", value: map.max_osd as u64 });
        }
        Ok(map)
    }
}

fn check_crc(what: &'static str, stored: u32, computed: u32) -> Result<(), DecodeError> {
    if stored != computed {
        return Err(DecodeError::Invalid { what, value: u64::from(stored) });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
