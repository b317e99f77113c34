//! What a PG keeps with each object, in xattrs that clients cannot name. The encodings are ours.

use std::collections::BTreeMap;

use codec::{Codec, Decode};
use store::{NotCached, ObjectStore};
use types::{ChunkMap, CollId, EVersion, EntityAddr, HObject, IntervalSet, ObjectManifest, SnapId, UTime};

/// The xattr of [`ObjectInfo`].
pub(crate) const INFO_XATTR: &[u8] = b"_";
/// The xattr of [`SnapSet`], on heads only.
pub(crate) const SNAPSET_XATTR: &[u8] = b"snapset";
/// In front of users' xattrs.
pub(crate) const USER_XATTR: u8 = b'u';

/// What there is of an xattr that a PG keeps with an object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kept<T> {
    /// There is no such xattr.
    Absent,
    /// What it says.
    Known(T),
    /// Bytes that cannot be decoded. They must not pass for [`Kept::Absent`]: a change on that ground would overwrite
    /// what the object is.
    Undecodable,
}

impl<T: Decode> Kept<T> {
    fn of(
        store: &dyn ObjectStore,
        coll: CollId,
        object: &HObject,
        xattr: &[u8],
    ) -> Result<Kept<T>, NotCached> {
        Ok(match store.xattr(coll, object, xattr)?.map(T::from_bytes) {
            None => Kept::Absent,
            Some(Ok(value)) => Kept::Known(value),
            Some(Err(_)) => Kept::Undecodable,
        })
    }
}

/// What a PG keeps with an object.
pub(crate) fn info_at(
    store: &dyn ObjectStore,
    coll: CollId,
    object: &HObject,
) -> Result<Kept<ObjectInfo>, NotCached> {
    Kept::of(store, coll, object, INFO_XATTR)
}

/// What a PG keeps with a head about its clones.
pub(crate) fn snapset_at(
    store: &dyn ObjectStore,
    coll: CollId,
    head: &HObject,
) -> Result<Kept<SnapSet>, NotCached> {
    Kept::of(store, coll, head, SNAPSET_XATTR)
}

/// A client that watches (`watch_info_t`).
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WatchInfo {
    /// Its address.
    pub(crate) addr: EntityAddr,
    /// Without a sign of life for this many seconds it is gone.
    pub(crate) timeout_sec: u32,
}

/// What an object refers to, and how (`object_info_t::manifest`, `FLAG_REDIRECT_HAS_REFERENCE`, which no chunks have).
#[derive(Codec, Clone, Debug, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(crate) struct Manifest {
    /// What.
    pub(crate) manifest: ObjectManifest,
    /// The other object counts the reference.
    pub(crate) has_reference: bool,
}

impl Manifest {
    /// A redirect's target, if it has to be told when the object does not refer to it any more. Of chunks, see
    /// `chunks`.
    pub(crate) fn counted(&self) -> Option<HObject> {
        match &self.manifest {
            ObjectManifest::Redirect(target) => self.has_reference.then(|| target.clone()),
            ObjectManifest::Chunked(_) => None,
        }
    }
}

/// `object_info_t`.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 3, compat = 1)]
pub(crate) struct ObjectInfo {
    /// The last change.
    pub(crate) version: EVersion,
    /// The change before.
    pub(crate) prior_version: EVersion,
    /// The version as users see it.
    pub(crate) user_version: u64,
    /// By the writer's clock.
    pub(crate) mtime: UTime,
    /// True for a head that is gone but for its clones.
    pub(crate) is_whiteout: bool,
    /// Watchers by global id and cookie.
    pub(crate) watchers: BTreeMap<(u64, u64), WatchInfo>,
    /// The newest truncation that a client named; what it sends with an older one was sent before. As in Ceph, a head
    /// that is gone but for its clones still knows it.
    #[codec(since = 2)]
    pub(crate) truncate_seq: u32,
    /// To where that truncation cut, in bytes.
    #[codec(since = 2)]
    pub(crate) truncate_size: u64,
    /// True from an UNDIRTY on until the next change.
    #[codec(since = 2)]
    pub(crate) is_clean: bool,
    /// What the object refers to instead of having it.
    #[codec(since = 3)]
    pub(crate) manifest: Option<Box<Manifest>>,
}

impl ObjectInfo {
    /// The object's parts that are parts of others.
    pub(crate) fn chunks(&self) -> Option<&ChunkMap> {
        match &self.manifest.as_ref()?.manifest {
            ObjectManifest::Chunked(chunks) => Some(chunks),
            ObjectManifest::Redirect(_) => None,
        }
    }

    /// Makes these all of the object's parts that are parts of others.
    pub(crate) fn set_chunks(&mut self, chunks: ChunkMap) {
        let is_any = !chunks.is_empty();
        let manifest = Manifest { manifest: ObjectManifest::Chunked(chunks), has_reference: false };
        self.manifest = is_any.then(|| Box::new(manifest));
    }
}

/// One clone of an object.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CloneInfo {
    /// Its id: the newest snapshot that it serves.
    pub(crate) id: SnapId,
    /// Snapshots that it serves, newest first.
    pub(crate) snaps: Vec<SnapId>,
    /// Bytes.
    pub(crate) size: u64,
    /// What is the same in the next newer clone, or in the head.
    pub(crate) overlap: IntervalSet,
}

/// `SnapSet`: an object's clones, oldest first.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(crate) struct SnapSet {
    /// The newest snapshot that existed at the last write.
    pub(crate) seq: SnapId,
    /// The clones.
    pub(crate) clones: Vec<CloneInfo>,
}
