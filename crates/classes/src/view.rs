//! The view of one object that op execution and class methods share.

use std::collections::BTreeMap;

use bytes::Bytes;
use types::{EntityAddr, EntityNum, Errno, SnapContext, SnapId, UTime};

/// Why a method or op stops before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Refused: the client gets this errno.
    Refused(Errno),
    /// Refused, and the client gets these words with the errno.
    Explained(Errno, &'static str),
    /// Something must be loaded first (the view remembers what); the whole operation is run again
    /// from its start then. Methods just pass it on with `?`.
    Missing,
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        Stop::Refused(errno)
    }
}

/// Size and time of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectStat {
    /// Bytes.
    pub size: u64,
    /// Last modification, by the clients' clocks.
    pub mtime: UTime,
}

/// The caller, and what the object's PG knows at the time of the call.
#[derive(Clone, Debug, Default)]
pub struct CallContext {
    /// `client.4123` (`cls_get_request_origin`).
    pub origin: EntityNum,
    /// The client's address, as blocklists and lock owners name it.
    pub origin_addr: EntityAddr,
    /// The OSD's wall clock (`ceph_clock_now` in Ceph's classes).
    pub now: UTime,
    /// The features that the client's request names (`MOSDOp::features`).
    pub features: u64,
    /// Lowest release that clients must have (`cls_get_min_compatible_client`), 16 for Pacific.
    pub min_compat_client: u8,
    /// The write's snapshot context.
    pub snapc: SnapContext,
    /// The version of the PG's last change (`cls_current_version`).
    pub current_version: u64,
    /// Subop number inside the operation (`cls_current_subop_num`).
    pub subop: u32,
    /// Random bits for methods that ask for them (`cls_gen_random_bytes`), drawn per operation by the
    /// primary from its seeded generator.
    pub random_seed: u64,
    /// Largest object, in bytes (`osd_max_object_size`).
    pub object_bytes_max: u64,
}

/// One object, as ops of one operation see it: the stored state overlaid with the mutations that were
/// made through this view so far.
///
/// Reads of an object that does not exist answer as for an empty one, except [`ObjectView::stat`].
pub trait ObjectView {
    /// The caller, and what the object's PG knows.
    fn context(&self) -> &CallContext;

    /// The `seq` of the object's SnapSet (`cls_get_snapset_seq`). An object that was removed and lives on in clones
    /// still has one, unlike an object that never existed. `None` if there is neither an object nor a clone.
    fn snapset_seq(&self) -> Option<SnapId>;
    /// Size and mtime, `None` if the object does not exist.
    fn stat(&mut self) -> Result<Option<ObjectStat>, Stop>;
    /// Data of `[offset, offset + len)`, cut at the size.
    fn read(&mut self, offset: u64, len: u64) -> Result<Bytes, Stop>;
    /// A user xattr (without Ceph's `_` prefix).
    fn xattr(&mut self, name: &[u8]) -> Result<Option<Bytes>, Stop>;
    /// All user xattrs.
    fn xattrs(&mut self) -> Result<BTreeMap<Bytes, Bytes>, Stop>;
    /// The omap header.
    fn omap_header(&mut self) -> Result<Bytes, Stop>;
    /// One omap value.
    fn omap_get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Stop>;
    /// The clients that watch the object, with their addresses (`cls_cxx_list_watchers`).
    fn watchers(&self) -> Vec<(EntityNum, EntityAddr)>;
    /// How often the object, with its snapshots, refers to chunks with this name (`cls_get_manifest_ref_count`).
    fn chunk_references(&mut self, oid: &[u8]) -> Result<i32, Stop>;
    /// What the method answers when it succeeds, besides its output: 0 or more.
    fn set_result(&mut self, result: i32);
    /// Up to `count_max` entries with a key greater than `after` that starts with `prefix`, ascending;
    /// and whether there are more.
    fn omap_list(
        &mut self,
        after: &[u8],
        prefix: &[u8],
        count_max: usize,
    ) -> Result<(Vec<(Bytes, Bytes)>, bool), Stop>;
    /// Sees to it that the entries with a key greater than `after` that starts with `prefix` are in memory, or the
    /// first `count_max` of them. A method that looks at many of them asks for them before it looks at anything:
    /// otherwise it would run again, over all of that, for each part of them that is not.
    fn omap_bring(&mut self, after: &[u8], prefix: &[u8], count_max: u64) -> Result<(), Stop>;

    /// Makes the object exist; EEXIST if it does and `exclusive`.
    fn create(&mut self, exclusive: bool) -> Result<(), Stop>;
    /// Writes at `offset`. EFBIG beyond the size limit.
    fn write(&mut self, offset: u64, data: Bytes) -> Result<(), Stop>;
    /// Replaces the data.
    fn write_full(&mut self, data: Bytes) -> Result<(), Stop>;
    /// Sets the size.
    fn truncate(&mut self, size: u64) -> Result<(), Stop>;
    /// Makes a range read as zeros; never grows the object.
    fn zero(&mut self, offset: u64, len: u64) -> Result<(), Stop>;
    /// Removes the object; ENOENT if there is none.
    fn remove(&mut self) -> Result<(), Stop>;
    /// Sets a user xattr; creates the object.
    fn set_xattr(&mut self, name: &[u8], value: Bytes) -> Result<(), Stop>;
    /// Removes a user xattr.
    fn remove_xattr(&mut self, name: &[u8]) -> Result<(), Stop>;
    /// Sets omap entries; creates the object.
    fn omap_set(&mut self, entries: BTreeMap<Bytes, Bytes>) -> Result<(), Stop>;
    /// Removes omap entries; those that are not there are no error.
    fn omap_remove(&mut self, keys: Vec<Bytes>) -> Result<(), Stop>;
    /// Removes the omap entries with `first <= key < last`, without reading them.
    fn omap_remove_range(&mut self, first: &Bytes, last: &Bytes) -> Result<(), Stop>;
    /// Removes all omap entries and the header.
    fn omap_clear(&mut self) -> Result<(), Stop>;
    /// Sets the omap header.
    fn omap_set_header(&mut self, header: Bytes) -> Result<(), Stop>;
}
