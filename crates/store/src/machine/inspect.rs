//! A store read without being changed: what the checker, the dump and the crash tests look at.

use std::collections::BTreeSet;

use codec::DecodeError;
use types::{CollId, HObject, Mutation, TxnOp};

use super::{Mount, MountError, Store, StoreIdentity, invariants::Seen, pages::CorruptPage};
use crate::{
    DeviceRole, DeviceSizes, FsckReport, JournalKey, NotCached, ObjectStore, Problem, StoreCounts,
    device::BLOCK, fsck::Totals, index::Key, journal::Body, onode::Onode, space::Run, superblock::COPIES,
};

/// A journal record that the last checkpoint does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalRecord {
    /// Where it begins on the device, in bytes.
    pub offset: u64,
    /// Its length there, in bytes.
    pub bytes: u64,
    /// Its number; they follow each other.
    pub sequence: u64,
    /// Its first transaction's number.
    pub first_txn: u64,
    /// Its transactions: collection, and each op in words.
    pub txns: Vec<(CollId, Vec<String>)>,
}

/// What a mount saw on its way.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) problems: Vec<Problem>,
    /// The first keys of index pages that cannot be read.
    pub(super) hidden: BTreeSet<Key>,
    /// Which of the superblocks are valid.
    pub(super) copies: [bool; COPIES.len()],
    pub(super) records: Vec<JournalRecord>,
}

/// A store as it would be mounted, read only. See [`Store::inspect`].
#[derive(Debug)]
pub struct Inspected {
    /// Its objects. It is not to be changed.
    pub store: Store,
    findings: Findings,
}

/// What the superblock says. Offsets and lengths are bytes; [`crate::DeviceRole::of`] tells of which device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuperblockInfo {
    /// Whose store it is.
    pub identity: StoreIdentity,
    /// Its number.
    pub sequence: u64,
    /// Size of the device that the store knows.
    pub device_bytes: u64,
    /// The journal: where it begins, how long it is.
    pub journal: (u64, u64),
    /// The data area, the same.
    pub area: (u64, u64),
    /// Where the index is, if it has a device of its own.
    pub index_area: Option<(u64, u64)>,
    /// How often the store was mounted.
    pub epoch: u64,
    /// The first record after the checkpoint: where it is to begin, its number.
    pub next_record: (u64, u64),
    /// The last transaction in the index.
    pub last_txn: u64,
    /// True after an orderly end.
    pub is_clean: bool,
}

/// Where an object's data is. Bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectLayout {
    /// The object's size, holes included.
    pub size: u64,
    /// Pieces on the device, in order.
    pub extents: Vec<LayoutExtent>,
    /// Pieces that are in the journal or the index only, over the extents: offset in the object, length.
    pub pending: Vec<(u64, u64)>,
}

/// A piece of an object on the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutExtent {
    /// Where it begins in the object.
    pub offset: u64,
    /// Where it begins on the device.
    pub device_offset: u64,
    /// crc32c (seed -1, not inverted) of each 4 KiB.
    pub crcs: Vec<u32>,
}

impl Store {
    /// Where an object's data is; `None` if there is no such object.
    pub fn layout(&self, coll: CollId, object: &HObject) -> Result<Option<ObjectLayout>, NotCached> {
        let key = Key::of(coll, object);
        if self.index.is_absent(&key) {
            return Err(key.into());
        }
        Ok(self.index.peek(coll, object).map(|onode| layout(&onode)))
    }

    /// Starts to look at the store on a device. Damage of the index does not end it but is noted; what is
    /// left out is missing in what [`Mount::take_inspected`] gives. Nothing is written. Pages of the index are read
    /// when they are asked for, unless there is room for all.
    pub fn inspect(sizes: impl Into<DeviceSizes>, config: crate::Config) -> Mount {
        // It ends before a key would be given.
        let mut mount = Store::mount(sizes, config, JournalKey::NONE);
        mount.findings = Some(Box::default());
        mount
    }
}

impl Mount {
    /// What was looked at, or why it could not be; `None` until it is decided.
    pub fn take_inspected(&mut self) -> Option<Result<Inspected, MountError>> {
        let result = self.take()?;
        let findings = self.findings.take().map(|findings| *findings).unwrap_or_default();
        Some(result.map(|store| Inspected { store, findings }))
    }
}

impl Inspected {
    /// Lets go of index pages that are not held, until they take no more memory than they may. Those that were damaged
    /// are [`Inspected::problems`] from now on.
    pub fn forget(&mut self) {
        for CorruptPage { first, block, what } in std::mem::take(&mut self.store.page_loads.corrupt) {
            self.findings.hidden.insert(first);
            let problem = Problem::Index { what, offset: block * BLOCK };
            if !self.findings.problems.contains(&problem) {
                self.findings.problems.push(problem);
            }
        }
        self.store.look_again();
        self.store.evict_pages();
    }

    /// The damage that was seen when it was opened, and in what was read since, up to the last [`Inspected::forget`]:
    /// what it hides is missing in the store's answers.
    pub fn problems(&self) -> &[Problem] {
        &self.findings.problems
    }

    /// True where index pages that cannot be read may have had a part of an object, as far as they were read.
    pub fn hides_part_of(&self, coll: CollId, object: &HObject) -> bool {
        let (key, hidden) = (Key::of(coll, object), &self.findings.hidden);
        let is_of_object = |first: &Key| first.coll == coll && first.object == *object;
        hidden.contains(&self.store.index.directory.page_of(&key))
            || hidden.range(key..).next().is_some_and(is_of_object)
    }

    /// The collections that objects were moved between, by a split or a merge, when the store ended: none of them is
    /// whole.
    ///
    /// # Errors
    /// If what tells of it makes no sense.
    pub fn moved_between(&self) -> Result<BTreeSet<CollId>, DecodeError> {
        self.store.moved_between()
    }

    /// The journal's records behind the last checkpoint, in order.
    pub fn records(&self) -> &[JournalRecord] {
        &self.findings.records
    }

    /// The superblock that counts.
    pub fn superblock(&self) -> SuperblockInfo {
        let superblock = &self.store.superblock;
        let bytes = |run: Run| (run.start * BLOCK, run.count * BLOCK);
        let at = superblock.journal_position % superblock.journal.count;
        SuperblockInfo {
            identity: self.store.identity(),
            sequence: superblock.sequence,
            device_bytes: superblock.device_bytes,
            journal: bytes(superblock.journal),
            area: bytes(superblock.area),
            index_area: superblock.has_device(DeviceRole::Index).then(|| bytes(superblock.index_area)),
            epoch: superblock.epoch,
            next_record: ((superblock.journal.start + at) * BLOCK, superblock.journal_sequence),
            last_txn: superblock.last_txn,
            is_clean: superblock.is_clean == 1,
        }
    }

    /// Which of the superblock's copies, A and B, are valid.
    pub fn valid_copies(&self) -> [bool; 2] {
        self.findings.copies
    }

    /// What is known when it is opened: damage on the way.
    pub(crate) fn opened(&self) -> FsckReport {
        let mut report = FsckReport { problems: self.findings.problems.clone(), ..FsckReport::default() };
        for (at, (&valid, block)) in self.findings.copies.iter().zip(COPIES).enumerate() {
            // The power may have failed at any time while it was written: also in the mount that followed upon an
            // orderly end, and then the other copy is that of the end.
            if !valid {
                let (copy, offset) = (['A', 'B'][at], block * BLOCK);
                report.notes.push(format!(
                    "superblock copy {copy} at byte {offset} was being written when the store ended, or is \
                     damaged: the next start writes it"
                ));
            }
        }
        report
    }

    /// Compares the books with what all entries come to.
    pub(crate) fn judge(&self, totals: &Totals, report: &mut FsckReport) {
        // Without part of the index it is unknown what the rest of the space holds.
        let seen = if report.problems.is_empty() { Seen::All } else { Seen::Readable };
        report.problems.extend(self.store.problems(totals, seen));
        report.counts = StoreCounts {
            collections: self.store.collections().len() as u64,
            pages: self.store.index.directory.page_count() as u64,
            records: self.findings.records.len() as u64,
            free_bytes: self.store.usage().available_bytes,
            verified_blocks: report.counts.verified_blocks,
            ..totals.counts
        };
    }
}

fn layout(onode: &Onode) -> ObjectLayout {
    let extents = onode.extents.range(0, u64::MAX).map(|(block, device, crcs)| LayoutExtent {
        offset: block * BLOCK,
        device_offset: device * BLOCK,
        crcs: crcs.to_vec(),
    });
    let pending = onode.pending.range(0, u64::MAX).map(|(at, part, _)| (at, part.len() as u64));
    ObjectLayout { size: onode.size, extents: extents.collect(), pending: pending.collect() }
}

/// A transaction in words, data left out.
pub(super) fn describe(body: &Body) -> (CollId, Vec<String>) {
    let mut out = Vec::new();
    for direct in &body.directs {
        let (offset, len) = (direct.block * BLOCK, direct.crcs.len() as u64 * BLOCK);
        out.push(format!("write {} {offset}~{len} to new space", direct.object));
    }
    out.extend(body.txn.ops.iter().map(|op| match op {
        TxnOp::CreateCollection => "create collection".to_owned(),
        TxnOp::RemoveCollection => "remove collection".to_owned(),
        TxnOp::Split(split) => format!("split off {} from {} to {}", split.child.0, split.from, split.to),
        TxnOp::Merge(merge) => format!("merge with {} from {} to {}", merge.source.0, merge.from, merge.to),
        TxnOp::Object(object, mutation) => format!("{} {object}{}", verb(mutation), extent(mutation)),
    }));
    (body.txn.coll, out)
}

fn verb(mutation: &Mutation) -> &'static str {
    match mutation {
        Mutation::Touch => "touch",
        Mutation::Write { .. } => "write",
        Mutation::Zero { .. } => "zero",
        Mutation::Truncate { .. } => "truncate",
        Mutation::Remove => "remove",
        Mutation::SetXattrs(_) => "set xattrs of",
        Mutation::RemoveXattr(_) => "remove an xattr of",
        Mutation::ClearXattrs => "clear xattrs of",
        Mutation::OmapSet(_) => "set omap of",
        Mutation::OmapRemove(_) => "remove omap keys of",
        Mutation::OmapRemoveRange { .. } => "remove a range of omap of",
        Mutation::OmapClear => "clear omap of",
        Mutation::OmapSetHeader(_) => "set omap header of",
        Mutation::CloneFrom { .. } => "clone to",
    }
}

fn extent(mutation: &Mutation) -> String {
    let names = |keys: Vec<&[u8]>| keys.iter().map(|key| format!(" {}", key.escape_ascii())).collect();
    match mutation {
        Mutation::Write { offset, data } => format!(" {offset}~{}", data.len()),
        Mutation::Zero { offset, len } => format!(" {offset}~{len}"),
        Mutation::Truncate { size } => format!(" {size}"),
        Mutation::CloneFrom { source } => format!(" from {source}"),
        Mutation::SetXattrs(map) | Mutation::OmapSet(map) => names(map.keys().map(AsRef::as_ref).collect()),
        Mutation::RemoveXattr(name) => names(vec![name]),
        Mutation::OmapRemove(keys) => names(keys.iter().map(AsRef::as_ref).collect()),
        Mutation::OmapRemoveRange { first, last } => names(vec![first, last]),
        Mutation::Touch
        | Mutation::Remove
        | Mutation::ClearXattrs
        | Mutation::OmapClear
        | Mutation::OmapSetHeader(_) => String::new(),
    }
}
