//! COPY_FROM: an object takes over the contents of another, which may be in any PG. The PG fetches
//! them and runs the request again, as it does for what has to be loaded.

use std::ops::Bound;

use bytes::Bytes;
use classes::Stop;
use codec::{Decode, DecodeError, Payload, Reader};
use messages::{MPgCopyData, ObjectLocator, OpCode, OsdOp};
use store::{ObjectStore, OmapMost};
use types::{CollId, Errno, HObject, Mutation, ObjectManifest, SnapId, Transaction, TxnOp};

use super::{
    Output, Run,
    object_info::{Kept, SnapSet, USER_XATTR, info_at, snapset_at},
};
use crate::replication::CHANGE_BYTES_MAX;

/// `CEPH_OSD_COPY_FROM_FLAG_TRUNCATE_SEQ`, and all flags of COPY_FROM2.
const FLAG_TRUNCATE: u8 = 32;
const FLAGS: u8 = 63;

/// An object to be copied, as the client names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopySource {
    /// Pool, namespace and key.
    pub(crate) locator: ObjectLocator,
    /// Name.
    pub(crate) oid: Bytes,
    /// The head or a snapshot.
    pub(crate) snap: SnapId,
}

/// What the op's data says: the source, and a truncation that the copy is to know instead of the
/// source's.
fn parse(step: &OsdOp) -> Result<(CopySource, Option<(u32, u64)>), DecodeError> {
    let mut reader = Reader::new(step.data.clone());
    let oid = Bytes::decode(&mut reader)?;
    let locator = ObjectLocator::decode(&mut reader)?;
    let has_truncation = step.code == OpCode::COPY_FROM2 && step.params.u8_at(16) & FLAG_TRUNCATE != 0;
    let truncation = if has_truncation { Some(Decode::decode(&mut reader)?) } else { None };
    Ok((CopySource { locator: locator.of(&oid), oid, snap: step.params.snap() }, truncation))
}

impl Run<'_, '_> {
    pub(super) fn copy_from(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        if step.code == OpCode::COPY_FROM2 && step.params.u8_at(16) & !FLAGS != 0 {
            return Err(Errno::EINVAL.into());
        }
        let (source, truncation) = parse(step).map_err(|_| Errno::EINVAL)?;
        if self.view.is_head_of(&source) {
            return Err(Errno::EINVAL.into());
        }
        let subop = self.view.subop();
        let Some(copied) = self.ctx.copied.get(&subop) else {
            return Err(self.view.want_copy(subop, source));
        };
        if copied.result < 0 {
            return Err(Errno::of_result(copied.result).into());
        }
        match step.params.u64_at(8) {
            0 => {}
            wanted if wanted < copied.user_version => return Err(Errno::ERANGE.into()),
            wanted if wanted > copied.user_version => return Err(Errno::EOVERFLOW.into()),
            _ => {}
        }
        self.view.become_copy(copied)?;
        if let Some(truncation) = truncation {
            (self.view.info.truncate_seq, self.view.info.truncate_size) = truncation;
        }
        Ok(Output::default())
    }
}

/// The writes that make these ranges of an object's data, ascending ones without holes (offset and length).
pub(crate) fn data_writes(
    store: &dyn ObjectStore,
    coll: CollId,
    object: &HObject,
    ranges: Vec<(u64, u64)>,
) -> Result<Vec<Mutation>, store::NotCached> {
    let (Some((begin, _)), Some((last, len))) = (ranges.first(), ranges.last()) else {
        return Ok(Vec::new());
    };
    // First all of it, so that one load brings it.
    store.read_pieces(coll, object, *begin, last + len - begin)?;
    let write = |(offset, len)| {
        let pieces = store.read_pieces(coll, object, offset, len)?;
        // The receiver puts a large write to new space as a whole.
        Ok(Mutation::Write { offset, data: Payload::joined(pieces) })
    };
    ranges.into_iter().map(write).collect()
}

/// What an entry of an omap, or an xattr, takes in memory beside its bytes: two handles, and its place among the
/// others.
const ENTRY_BYTES: usize = 100;

/// What a copy takes in memory, or more.
pub(crate) fn held_bytes(txn: &Transaction) -> usize {
    let entries = |op: &TxnOp| match op {
        TxnOp::Object(_, Mutation::SetXattrs(pairs)) => pairs.len(),
        TxnOp::Object(_, Mutation::OmapSet(pairs)) => pairs.len(),
        _ => 0,
    };
    txn.bytes_at_most() + txn.ops.iter().map(entries).sum::<usize>() * ENTRY_BYTES
}

/// How far an object's omap has been measured, and found not too large for a copy. Entries that were measured are not
/// measured again when something has to be loaded; they may change meanwhile, but the length of the whole copy is
/// checked in the end.
#[derive(Debug, Default)]
pub(crate) struct MeasuredOmap {
    /// The last key.
    last: Option<Bytes>,
    bytes: usize,
    is_whole: bool,
}

impl MeasuredOmap {
    /// Entries that are looked at together.
    const PAGE: OmapMost = OmapMost::of(256);

    /// False if it is too large.
    fn fits(
        &mut self,
        store: &dyn ObjectStore,
        coll: CollId,
        object: &HObject,
    ) -> Result<bool, store::NotCached> {
        while !self.is_whole && self.bytes <= CHANGE_BYTES_MAX {
            let from = self.last.as_ref().map_or(Bound::Unbounded, |last| Bound::Excluded(&last[..]));
            let page = store.omap_range(coll, object, from, MeasuredOmap::PAGE)?;
            self.is_whole = !MeasuredOmap::PAGE.is_met_by(&page);
            self.bytes +=
                page.iter().map(|(key, value)| ENTRY_BYTES + key.len() + value.len()).sum::<usize>();
            self.last = page.into_iter().next_back().map(|(key, _)| key);
        }
        Ok(self.bytes <= CHANGE_BYTES_MAX)
    }
}

/// The contents of an object, or of what it was at a snapshot, for a copy; `data` gets all but the
/// envelope. ENOENT in its result if there is no such object, EIO if what the PG keeps with it cannot be decoded,
/// EMSGSIZE if its omap alone takes more than a change may be long.
pub(crate) fn copy_out(
    store: &dyn ObjectStore,
    coll: CollId,
    object: &HObject,
    is_snap_removed: bool,
    measured: &mut MeasuredOmap,
    data: &mut MPgCopyData,
) -> Result<(), store::NotCached> {
    data.txn = Transaction::new(coll);
    data.result = Errno::ENOENT.negated();
    let head = object.head();
    let mut base = head.clone();
    if object.snap != SnapId::HEAD {
        let snapset = match snapset_at(store, coll, &head)? {
            Kept::Known(snapset) => snapset,
            Kept::Absent => SnapSet::default(),
            Kept::Undecodable => return refuse_damaged(object, data),
        };
        if object.snap <= snapset.seq {
            let clone = snapset.clone_of(object.snap).filter(|_| !is_snap_removed);
            let Some(clone) = clone else { return Ok(()) };
            base = head.with_snap(clone);
        }
    }
    let info = match info_at(store, coll, &base)? {
        Kept::Known(info) => info,
        Kept::Absent => return Ok(()),
        Kept::Undecodable => return refuse_damaged(&base, data),
    };
    let Some(meta) = store.meta(coll, &base)? else { return Ok(()) };
    if info.is_whiteout {
        return Ok(());
    }
    if let Some(ObjectManifest::Redirect(target)) = info.manifest.as_ref().map(|m| &m.manifest)
        && meta.size == 0
    {
        data.elsewhere = Some(target.with_snap(object.snap));
        return Ok(());
    }
    if !measured.fits(store, coll, &base)? {
        data.result = Errno::EMSGSIZE.negated();
        return Ok(());
    }
    let chunks = info.chunks().into_iter().flatten().filter(|(_, chunk)| chunk.is_missing);
    data.missing = chunks.map(|(offset, chunk)| (*offset, chunk.clone())).collect();
    // Last what takes long: all of this begins again for each part of the omap that has to be loaded.
    let xattrs = store.xattrs(coll, &base)?.into_iter().filter(|(name, _)| name.first() == Some(&USER_XATTR));
    let xattrs = xattrs.map(|(name, value)| (name.slice(1..), value)).collect();
    data.txn.push(&head, Mutation::SetXattrs(xattrs));
    let header = store.omap_header(coll, &base)?;
    if !header.is_empty() {
        data.txn.push(&head, Mutation::OmapSetHeader(header));
    }
    let omap = store.omap_range(coll, &base, Bound::Unbounded, OmapMost::ALL)?;
    if !omap.is_empty() {
        data.txn.push(&head, Mutation::OmapSet(omap.into_iter().collect()));
    }
    for write in data_writes(store, coll, &base, store.extents(coll, &base, 0, meta.size)?)? {
        data.txn.push(&head, write);
    }
    data.txn.push(&head, Mutation::Truncate { size: meta.size });
    data.result = 0;
    data.user_version = info.user_version;
    data.mtime = Some(info.mtime);
    (data.truncate_seq, data.truncate_size) = (info.truncate_seq, info.truncate_size);
    Ok(())
}

/// Refuses to copy the object: the copy would be one of something else.
fn refuse_damaged(object: &HObject, data: &mut MPgCopyData) -> Result<(), store::NotCached> {
    tracing::error!(%object, "what is kept with an object to copy cannot be decoded");
    data.result = Errno::EIO.negated();
    Ok(())
}

/// The mutations of a copy, which are of one object.
pub(super) fn mutations(copied: &MPgCopyData) -> impl Iterator<Item = &Mutation> {
    copied.txn.ops.iter().filter_map(|op| match op {
        TxnOp::Object(_, mutation) => Some(mutation),
        TxnOp::CreateCollection | TxnOp::RemoveCollection | TxnOp::Split(_) | TxnOp::Merge(_) => None,
    })
}
