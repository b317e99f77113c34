//! Structs of the rbd class (cls/rbd/cls_rbd_types.h, include/rbd/features.h), and what the header
//! object keeps.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use codec::{Codec, Decode, DecodeError, Encode, Features, Reader};
use types::{SnapId, UTime};

/// `RBD_FEATURE_*`.
pub(super) mod feature {
    pub(in crate::rbd) const LAYERING: u64 = 1;
    pub(in crate::rbd) const STRIPINGV2: u64 = 1 << 1;
    const EXCLUSIVE_LOCK: u64 = 1 << 2;
    const OBJECT_MAP: u64 = 1 << 3;
    const FAST_DIFF: u64 = 1 << 4;
    pub(in crate::rbd) const DEEP_FLATTEN: u64 = 1 << 5;
    const JOURNALING: u64 = 1 << 6;
    pub(in crate::rbd) const DATA_POOL: u64 = 1 << 7;
    pub(in crate::rbd) const OPERATIONS: u64 = 1 << 8;
    pub(in crate::rbd) const MIGRATING: u64 = 1 << 9;
    const NON_PRIMARY: u64 = 1 << 10;
    const DIRTY_CACHE: u64 = 1 << 11;

    /// All that 16.2 knows.
    pub(in crate::rbd) const ALL: u64 = (1 << 12) - 1;
    /// A client that does not know one of these cannot even read the image.
    pub(in crate::rbd) const INCOMPATIBLE: u64 = LAYERING | STRIPINGV2 | DATA_POOL | DIRTY_CACHE;
    /// A client that does not know one of these cannot write the image.
    pub(in crate::rbd) const RW_INCOMPATIBLE: u64 = ALL;
    /// Set by methods of their own only.
    pub(in crate::rbd) const INTERNAL: u64 = OPERATIONS | MIGRATING;
    /// May be switched on and off.
    pub(in crate::rbd) const MUTABLE: u64 =
        EXCLUSIVE_LOCK | OBJECT_MAP | FAST_DIFF | JOURNALING | NON_PRIMARY | DIRTY_CACHE;
    /// May be switched off, never on.
    pub(in crate::rbd) const DISABLE_ONLY: u64 = DEEP_FLATTEN;
}

/// `RBD_OPERATION_FEATURE_*`.
pub(super) mod op_feature {
    pub(in crate::rbd) const CLONE_PARENT: u64 = 1;
    pub(in crate::rbd) const CLONE_CHILD: u64 = 1 << 1;
    pub(in crate::rbd) const GROUP: u64 = 1 << 2;
    pub(in crate::rbd) const SNAP_TRASH: u64 = 1 << 3;
    pub(in crate::rbd) const ALL: u64 = CLONE_PARENT | CLONE_CHILD | GROUP | SNAP_TRASH;
}

/// `SnapshotNamespaceType`.
pub(super) mod namespace {
    pub(in crate::rbd) const USER: u32 = 0;
    pub(in crate::rbd) const GROUP: u32 = 1;
    pub(in crate::rbd) const TRASH: u32 = 2;
    pub(in crate::rbd) const MIRROR: u32 = 3;
}

/// `SnapshotNamespace`: the kind of a snapshot and the fields of that kind, kept as they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SnapshotNamespace {
    pub(super) kind: u32,
    pub(super) fields: Bytes,
}

impl Encode for SnapshotNamespace {
    fn encode(&self, out: &mut Vec<u8>, features: Features) {
        codec::encode_envelope(out, 1, 1, |out| {
            self.kind.encode(out, features);
            out.extend_from_slice(&self.fields);
        });
    }
}

impl Decode for SnapshotNamespace {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        codec::decode_envelope(input, 1, "SnapshotNamespace", |input, _| {
            Ok(SnapshotNamespace { kind: u32::decode(input)?, fields: input.take_rest() })
        })
    }
}

/// `TrashSnapshotNamespace`: what a deleted snapshot was.
#[derive(Codec)]
pub(super) struct TrashNamespace {
    pub(super) original_name: Bytes,
    pub(super) original_kind: u32,
}

/// A snapshot as the header keeps it (`cls_rbd_snap`; the encoding is ours).
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(super) struct Snap {
    pub(super) id: SnapId,
    pub(super) name: Bytes,
    pub(super) image_size: u64,
    pub(super) protection_status: u8,
    pub(super) flags: u64,
    pub(super) namespace: SnapshotNamespace,
    pub(super) timestamp: UTime,
    pub(super) child_count: u32,
    /// How much of the snapshot lies over the image's parent; none without a parent.
    pub(super) parent_overlap: Option<u64>,
}

/// `RBD_PROTECTION_STATUS_*`.
pub(super) mod protection {
    pub(in crate::rbd) const UNPROTECTED: u8 = 0;
    pub(in crate::rbd) const LAST: u8 = 3;
}

/// `SnapshotInfo`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
pub(super) struct SnapshotInfo {
    pub(super) id: SnapId,
    pub(super) namespace: SnapshotNamespace,
    pub(super) name: Bytes,
    pub(super) image_size: u64,
    pub(super) timestamp: UTime,
    pub(super) child_count: u32,
}

/// `ParentImageSpec`.
#[derive(Codec, Clone, Debug, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(super) struct ParentSpec {
    pub(super) pool_id: i64,
    pub(super) pool_namespace: Bytes,
    pub(super) image_id: Bytes,
    pub(super) snap_id: SnapId,
}

impl Default for ParentSpec {
    fn default() -> Self {
        ParentSpec {
            pool_id: -1,
            pool_namespace: Bytes::new(),
            image_id: Bytes::new(),
            snap_id: SnapId::HEAD,
        }
    }
}

impl ParentSpec {
    pub(super) fn exists(&self) -> bool {
        self.pool_id >= 0 && !self.image_id.is_empty() && self.snap_id != SnapId::HEAD
    }
}

/// The parent as the header keeps it (`cls_rbd_parent`): the spec, and the overlap while the head
/// itself is a child and not only its snapshots.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(super) struct Parent {
    pub(super) spec: ParentSpec,
    pub(super) head_overlap: Option<u64>,
}

/// `ChildImageSpec`, ordered as Ceph orders it.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 2, compat = 1)]
pub(super) struct ChildSpec {
    pub(super) pool_id: i64,
    pub(super) image_id: Bytes,
    #[codec(since = 2)]
    pub(super) pool_namespace: Bytes,
}

impl Ord for ChildSpec {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        fn key(c: &ChildSpec) -> (i64, &Bytes, &Bytes) {
            (c.pool_id, &c.pool_namespace, &c.image_id)
        }
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for ChildSpec {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Children of a snapshot.
pub(super) type ChildSpecs = BTreeSet<ChildSpec>;

/// `TrashImageSpec`.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 2, compat = 1)]
pub(super) struct TrashImageSpec {
    pub(super) source: u8,
    pub(super) name: Bytes,
    pub(super) deletion_time: UTime,
    pub(super) deferment_end_time: UTime,
    #[codec(since = 2)]
    pub(super) state: u8,
}

/// `MigrationSpec`.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 3, compat = 1)]
pub(super) struct MigrationSpec {
    pub(super) header_type: u8,
    pub(super) pool_id: i64,
    pub(super) pool_namespace: Bytes,
    pub(super) image_name: Bytes,
    pub(super) image_id: Bytes,
    pub(super) snap_seqs: BTreeMap<u64, u64>,
    pub(super) overlap: u64,
    pub(super) flatten: bool,
    pub(super) mirroring: bool,
    pub(super) state: u8,
    pub(super) state_description: Bytes,
    #[codec(since = 2)]
    pub(super) mirror_image_mode: u8,
    #[codec(since = 3)]
    pub(super) source_spec: Bytes,
}

/// `GroupSpec`.
#[derive(Codec, Clone, Debug, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(super) struct GroupSpec {
    pub(super) pool_id: i64,
    pub(super) group_id: Bytes,
}

/// `GroupImageSpec`.
#[derive(Codec, Clone, Debug, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(super) struct GroupImageSpec {
    pub(super) image_id: Bytes,
    pub(super) pool_id: i64,
}

/// `GroupImageStatus`.
#[derive(Codec, Clone, Debug, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(super) struct GroupImageStatus {
    pub(super) spec: GroupImageSpec,
    pub(super) state: u8,
}

/// `ImageSnapshotSpec`.
#[derive(Codec, Clone, Debug, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(super) struct ImageSnapshotSpec {
    pub(super) pool: i64,
    pub(super) image_id: Bytes,
    pub(super) snap_id: SnapId,
}

/// `GroupSnapshot`.
#[derive(Codec, Clone, Debug, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(super) struct GroupSnapshot {
    pub(super) id: Bytes,
    pub(super) name: Bytes,
    pub(super) state: u8,
    pub(super) snaps: Vec<ImageSnapshotSpec>,
}
