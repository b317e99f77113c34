//! Results of scrubs as `rados list-inconsistent-*` reads them, and an object's own records as Ceph encodes
//! them, for these.
//!
//! Authority: `common/scrub_types`, `object_info_t` version 17 and `SnapSet` version 3 (osd/osd_types, 16.2).

use std::collections::BTreeMap;

use bytes::Bytes;
use codec::{Codec, Decode, Encode, Features, encode_envelope};
use types::{EVersion, HObject, OsdId, ReqId, ScrubObject, SnapId, UTime, XattrSum};

use crate::exec::{INFO_XATTR, ObjectInfo, SNAPSET_XATTR, SnapSet, USER_XATTR};

/// `librados::err_t`: what is wrong with one copy.
pub(super) mod copy_error {
    pub(crate) const MISSING: u64 = 1 << 1;
    pub(crate) const READ: u64 = 1 << 3;
    pub(crate) const INFO_MISSING: u64 = 1 << 14;
    pub(crate) const INFO_CORRUPTED: u64 = 1 << 15;
    pub(crate) const SNAPSET_MISSING: u64 = 1 << 16;
    pub(crate) const SNAPSET_CORRUPTED: u64 = 1 << 17;
    /// Those that only reading all of it finds.
    pub(crate) const DEEP: u64 = READ;
}

/// `librados::obj_err_t`: in what copies differ.
pub(super) mod object_error {
    pub(crate) const INFO: u64 = 1 << 1;
    pub(crate) const DATA_DIGEST: u64 = 1 << 4;
    pub(crate) const OMAP_DIGEST: u64 = 1 << 5;
    pub(crate) const SIZE: u64 = 1 << 6;
    pub(crate) const ATTR_VALUE: u64 = 1 << 7;
    pub(crate) const ATTR_NAME: u64 = 1 << 8;
    pub(crate) const SNAPSET: u64 = 1 << 9;
    /// Those that only reading all of it finds.
    pub(crate) const DEEP: u64 = DATA_DIGEST | OMAP_DIGEST;
}

/// `librados::inconsistent_snapset_t`: what is wrong with an object's clones.
pub(super) mod snapset_error {
    pub(crate) const SNAPSET_MISSING: u64 = 1;
    pub(crate) const SNAPSET_CORRUPTED: u64 = 1 << 1;
    pub(crate) const CLONE_MISSING: u64 = 1 << 2;
    pub(crate) const SNAP: u64 = 1 << 3;
    pub(crate) const HEADLESS: u64 = 1 << 5;
    pub(crate) const SIZE_MISMATCH: u64 = 1 << 6;
    pub(crate) const INFO_MISSING: u64 = 1 << 7;
    pub(crate) const INFO_CORRUPTED: u64 = 1 << 8;
    pub(crate) const EXTRA_CLONES: u64 = 1 << 9;
}

/// `object_id_wrapper`.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
struct ObjectId {
    name: Bytes,
    nspace: Bytes,
    locator: Bytes,
    snap: SnapId,
}

impl ObjectId {
    fn of(object: &HObject) -> ObjectId {
        ObjectId {
            name: object.oid.clone(),
            nspace: object.nspace.clone(),
            locator: object.key.clone(),
            snap: object.snap,
        }
    }
}

/// `osd_shard_wrapper`.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[codec(version = 1, compat = 1)]
struct OsdShard {
    osd: i32,
    /// -1: whole copies.
    shard: i8,
}

/// `shard_info_wrapper`: what a copy has, and what is wrong with it.
#[derive(Clone, Debug, Default)]
pub(super) struct CopyInfo {
    pub(super) errors: u64,
    pub(super) is_primary: bool,
    /// True for the copy that the others are compared with.
    pub(super) is_selected: bool,
    /// None where it is missing.
    pub(super) facts: Option<CopyFacts>,
}

/// What a copy has, in Ceph's form.
#[derive(Clone, Debug, Default)]
pub(super) struct CopyFacts {
    xattrs: BTreeMap<Bytes, Bytes>,
    size: u64,
    omap_digest: Option<u32>,
    data_digest: Option<u32>,
}

impl CopyFacts {
    pub(super) fn of(object: &ScrubObject) -> CopyFacts {
        CopyFacts {
            xattrs: ceph_xattrs(object),
            size: object.size,
            omap_digest: object.omap_digest,
            data_digest: object.data_digest,
        }
    }
}

impl Encode for CopyInfo {
    fn encode(&self, out: &mut Vec<u8>, f: Features) {
        encode_envelope(out, 3, 3, |out| {
            self.errors.encode(out, f);
            self.is_primary.encode(out, f);
            let Some(facts) = &self.facts else { return };
            facts.xattrs.encode(out, f);
            facts.size.encode(out, f);
            for digest in [facts.omap_digest, facts.data_digest] {
                digest.is_some().encode(out, f);
                digest.unwrap_or_default().encode(out, f);
            }
            self.is_selected.encode(out, f);
        });
    }
}

/// `inconsistent_obj_wrapper`.
#[derive(Clone, Debug)]
pub(super) struct InconsistentObject {
    pub(super) object: HObject,
    pub(super) errors: u64,
    /// The object's version as users see it; 0 where no copy tells.
    pub(super) version: u64,
    pub(super) copies: BTreeMap<OsdId, CopyInfo>,
}

impl InconsistentObject {
    /// What is wrong with any of the copies.
    pub(super) fn copy_errors(&self) -> u64 {
        self.copies.values().fold(0, |all, copy| all | copy.errors)
    }
}

impl Encode for InconsistentObject {
    fn encode(&self, out: &mut Vec<u8>, f: Features) {
        encode_envelope(out, 2, 2, |out| {
            self.errors.encode(out, f);
            ObjectId::of(&self.object).encode(out, f);
            self.version.encode(out, f);
            (self.copies.len() as u32).encode(out, f);
            for (osd, copy) in &self.copies {
                OsdShard { osd: osd.0, shard: -1 }.encode(out, f);
                copy.encode(out, f);
            }
            self.copy_errors().encode(out, f);
        });
    }
}

/// `inconsistent_snapset_wrapper`.
#[derive(Clone, Debug)]
pub(super) struct InconsistentSnapset {
    pub(super) object: HObject,
    pub(super) errors: u64,
    /// Clones that there should not be.
    pub(super) extra: Vec<SnapId>,
    /// Clones that there should be.
    pub(super) missing: Vec<SnapId>,
    pub(super) snapset: Option<SnapSet>,
}

impl InconsistentSnapset {
    pub(super) fn of(object: &HObject) -> InconsistentSnapset {
        InconsistentSnapset {
            object: object.clone(),
            errors: 0,
            extra: Vec::new(),
            missing: Vec::new(),
            snapset: None,
        }
    }
}

impl Encode for InconsistentSnapset {
    fn encode(&self, out: &mut Vec<u8>, f: Features) {
        encode_envelope(out, 2, 1, |out| {
            self.errors.encode(out, f);
            ObjectId::of(&self.object).encode(out, f);
            self.extra.encode(out, f);
            self.missing.encode(out, f);
            self.snapset.as_ref().map(ceph_snapset).unwrap_or_default().encode(out, f);
        });
    }
}

/// `scrub_ls_arg_t`: which results a client wants.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(super) struct ScrubLsArg {
    /// The interval that it knows, 0 at first.
    pub(super) interval: u32,
    /// Not 0: of snapshots; else of objects.
    pub(super) wants_snapsets: u32,
    pub(super) after_name: Bytes,
    pub(super) after_nspace: Bytes,
    pub(super) after_snap: SnapId,
    pub(super) max_return: u64,
}

/// `scrub_ls_result_t`.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(super) struct ScrubLsResult {
    pub(super) interval: u32,
    pub(super) values: Vec<Bytes>,
}

/// An object's xattrs by Ceph's names; its own records, if they can be read, as Ceph encodes them. Of long ones, what
/// is known of them, in words.
fn ceph_xattrs(object: &ScrubObject) -> BTreeMap<Bytes, Bytes> {
    let xattr = |(name, value): (&Bytes, &Bytes)| match &name[..] {
        INFO_XATTR => {
            let info = ObjectInfo::from_bytes(value.clone()).map(|info| ceph_object_info(object, &info));
            (Bytes::from_static(b"_"), info.unwrap_or_else(|_| value.clone()))
        }
        SNAPSET_XATTR => {
            let snapset = SnapSet::from_bytes(value.clone()).map(|snapset| ceph_snapset(&snapset));
            (Bytes::from_static(b"snapset"), snapset.unwrap_or_else(|_| value.clone()))
        }
        _ => (ceph_name(name), value.clone()),
    };
    let long = |(name, sum): (&Bytes, &XattrSum)| {
        (ceph_name(name), format!("({} bytes, crc32c {:#010x})", sum.bytes, sum.crc).into())
    };
    object.xattrs.iter().map(xattr).chain(object.long_xattrs.iter().map(long)).collect()
}

/// A user's xattr as Ceph's logs and results name it.
pub(super) fn ceph_name(name: &Bytes) -> Bytes {
    match name.split_first() {
        Some((&USER_XATTR, rest)) => [b"_", rest].concat().into(),
        _ => name.clone(),
    }
}

/// Flags of `object_info_t`.
mod info_flag {
    pub(super) const WHITEOUT: u32 = 1 << 1;
    pub(super) const DIRTY: u32 = 1 << 2;
    pub(super) const OMAP: u32 = 1 << 3;
    pub(super) const MANIFEST: u32 = 1 << 7;
    pub(super) const REDIRECT_HAS_REFERENCE: u32 = 1 << 9;
}

/// `object_locator_t`, version 6, of an object without a locator of its own.
fn encode_locator(object: &HObject, out: &mut Vec<u8>, f: Features) {
    encode_envelope(out, 6, 3, |out| {
        object.pool.encode(out, f);
        // No preferred OSD, and no hash in place of a name's.
        (-1i32).encode(out, f);
        object.key.encode(out, f);
        object.nspace.encode(out, f);
        (-1i64).encode(out, f);
    });
}

/// `object_info_t`. Digests are not kept with objects here, nor are watchers told of.
fn ceph_object_info(object: &ScrubObject, info: &ObjectInfo) -> Bytes {
    let (f, mut out) = (Features::PACIFIC, Vec::new());
    encode_envelope(&mut out, 17, 8, |out| {
        object.object.encode(out, f);
        encode_locator(&object.object, out, f);
        0u32.encode(out, f);
        (info.version, info.prior_version, ReqId::default()).encode(out, f);
        (object.size, info.mtime).encode(out, f);
        match object.object.is_head() {
            true => ReqId::default().encode(out, f),
            false => 0u32.encode(out, f),
        }
        (u64::from(info.truncate_seq), info.truncate_size, false).encode(out, f);
        0u32.encode(out, f);
        let user_version = EVersion { version: info.user_version, ..EVersion::default() };
        (user_version, false, 0u32).encode(out, f);
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let flags = flag(info.is_whiteout, info_flag::WHITEOUT)
            | flag(!info.is_clean, info_flag::DIRTY)
            | flag(object.has_omap, info_flag::OMAP)
            | flag(info.manifest.is_some(), info_flag::MANIFEST)
            | flag(
                info.manifest.as_ref().is_some_and(|manifest| manifest.has_reference),
                info_flag::REDIRECT_HAS_REFERENCE,
            );
        (flags, UTime::default()).encode(out, f);
        (u32::MAX, u32::MAX).encode(out, f);
        // Hints of sizes are not kept.
        (0u64, 0u64, 0u32).encode(out, f);
        info.manifest.iter().for_each(|manifest| manifest.manifest.encode(out, f));
    });
    out.into()
}

/// `SnapSet`.
fn ceph_snapset(snapset: &SnapSet) -> Bytes {
    let (f, mut out) = (Features::PACIFIC, Vec::new());
    let clones = &snapset.clones;
    encode_envelope(&mut out, 3, 2, |out| {
        // The snapshots themselves are told with each clone only.
        (snapset.seq, true, Vec::<SnapId>::new()).encode(out, f);
        clones.iter().map(|clone| clone.id).collect::<Vec<_>>().encode(out, f);
        let overlaps: BTreeMap<_, Vec<(u64, u64)>> =
            clones.iter().map(|clone| (clone.id, clone.overlap.iter().collect())).collect();
        overlaps.encode(out, f);
        clones.iter().map(|clone| (clone.id, clone.size)).collect::<BTreeMap<_, _>>().encode(out, f);
        clones.iter().map(|clone| (clone.id, clone.snaps.clone())).collect::<BTreeMap<_, _>>().encode(out, f);
    });
    out.into()
}

#[cfg(test)]
mod tests;
