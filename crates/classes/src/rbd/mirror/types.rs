//! Structs of mirroring (cls/rbd/cls_rbd_types.h).

use bytes::Bytes;
use codec::{Codec, Decode, DecodeError, Encode, Features, Reader};
use types::{EntityAddr, EntityNum, SnapId, UTime};

use std::collections::{BTreeMap, BTreeSet};

/// `MirrorMode`.
pub(super) mod mode {
    pub(in crate::rbd::mirror) const DISABLED: u32 = 0;
    pub(in crate::rbd::mirror) const IMAGE: u32 = 1;
    pub(in crate::rbd::mirror) const POOL: u32 = 2;
    /// Prepared for mirroring, as it was asked for by another cluster (20.2).
    pub(in crate::rbd::mirror) const INIT_ONLY: u32 = 3;
}

/// `MirrorPeerDirection`.
pub(super) mod direction {
    pub(in crate::rbd::mirror) const RX: u8 = 0;
    pub(in crate::rbd::mirror) const TX: u8 = 1;
    pub(in crate::rbd::mirror) const RX_TX: u8 = 2;
}

/// `MirrorPeer`: another cluster's pool.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 2, compat = 1)]
pub(super) struct Peer {
    pub(super) uuid: Bytes,
    pub(super) site_name: Bytes,
    pub(super) client_name: Bytes,
    /// Not used any more, -1.
    pub(super) pool_id: i64,
    #[codec(since = 2)]
    pub(super) direction: u8,
    #[codec(since = 2)]
    pub(super) mirror_uuid: Bytes,
    #[codec(since = 2)]
    pub(super) last_seen: UTime,
}

impl Peer {
    /// Complete for its direction.
    pub(super) fn is_valid(&self) -> bool {
        let has_client = match self.direction {
            direction::TX => true,
            direction::RX | direction::RX_TX => !self.client_name.is_empty(),
            _ => false,
        };
        has_client && !self.uuid.is_empty() && !self.site_name.is_empty()
    }
}

/// `MirrorImageState`.
pub(super) mod image_state {
    pub(in crate::rbd::mirror) const DISABLING: u8 = 0;
    pub(in crate::rbd::mirror) const ENABLED: u8 = 1;
}

/// `MirrorImage`.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 2, compat = 1)]
pub(super) struct Image {
    pub(super) global_id: Bytes,
    pub(super) state: u8,
    #[codec(since = 2)]
    pub(super) mode: u8,
}

/// `MirrorImageStatusState`; greater is better.
pub(super) mod status_state {
    pub(in crate::rbd::mirror) const UNKNOWN: u8 = 0;
    pub(in crate::rbd::mirror) const ERROR: u8 = 1;
}

/// `MirrorImageSiteStatus`: what one site says of an image. The version of its envelope says whether
/// another site's id comes first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SiteStatus {
    /// Empty for the own site.
    pub(super) mirror_uuid: Bytes,
    pub(super) state: u8,
    pub(super) description: Bytes,
    pub(super) last_update: UTime,
    pub(super) is_up: bool,
}

impl SiteStatus {
    fn encode_fields(&self, out: &mut Vec<u8>, features: Features, has_uuid: bool) {
        if has_uuid {
            self.mirror_uuid.encode(out, features);
        }
        self.state.encode(out, features);
        self.description.encode(out, features);
        self.last_update.encode(out, features);
        self.is_up.encode(out, features);
    }
}

impl Decode for SiteStatus {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        codec::decode_envelope(input, 2, "MirrorImageSiteStatus", |input, version| {
            let mirror_uuid = if version >= 2 { Bytes::decode(input)? } else { Bytes::new() };
            Ok(SiteStatus {
                mirror_uuid,
                state: u8::decode(input)?,
                description: Bytes::decode(input)?,
                last_update: UTime::decode(input)?,
                is_up: bool::decode(input)?,
            })
        })
    }
}

/// `MirrorImageStatus`: all sites' word on an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) local: Option<SiteStatus>,
    pub(super) remotes: Vec<SiteStatus>,
}

impl Encode for Status {
    fn encode(&self, out: &mut Vec<u8>, features: Features) {
        codec::encode_envelope(out, 2, 1, |out| {
            self.local.clone().unwrap_or_default().encode_fields(out, features, false);
            self.local.is_some().encode(out, features);
            (self.remotes.len() as u32).encode(out, features);
            self.remotes.iter().for_each(|remote| remote.encode_fields(out, features, true));
        });
    }
}

/// `entity_inst_t`: a client at an address.
pub(super) type Instance = (EntityNum, EntityAddr);

/// A status as it is kept (`MirrorImageSiteStatusOnDisk`; the encoding is ours), with its reporter: the status counts
/// as up while the reporter still watches the object.
#[derive(Codec, Clone, Debug)]
#[codec(version = 1, compat = 1)]
pub(super) struct KeptStatus {
    pub(super) origin: EntityNum,
    pub(super) addr: EntityAddr,
    pub(super) state: u8,
    pub(super) description: Bytes,
    pub(super) last_update: UTime,
}

/// `MirrorImageMap`: which instance of the daemon replays an image.
#[derive(Codec, Clone, Debug, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(super) struct ImageMap {
    pub(super) instance_id: Bytes,
    pub(super) mapped_time: UTime,
    pub(super) data: Bytes,
}

/// `MirrorSnapshotNamespace`: the fields of a mirror snapshot.
#[derive(Codec, Clone, Debug, PartialEq, Eq)]
pub(super) struct MirrorNamespace {
    pub(super) state: u8,
    pub(super) is_complete: bool,
    pub(super) mirror_peer_uuids: BTreeSet<Bytes>,
    pub(super) primary_mirror_uuid: Bytes,
    pub(super) primary_snap_id: SnapId,
    pub(super) last_copied_object_number: u64,
    pub(super) snap_seqs: BTreeMap<u64, u64>,
}

impl MirrorNamespace {
    /// A snapshot that another site is the source of.
    pub(super) fn is_non_primary(&self) -> bool {
        /// `MIRROR_SNAPSHOT_STATE_NON_PRIMARY` and `..._NON_PRIMARY_DEMOTED`.
        const NON_PRIMARY: [u8; 2] = [2, 3];
        NON_PRIMARY.contains(&self.state)
    }
}
