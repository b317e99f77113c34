//! What each change does to the index in memory, the same when submitted and when replayed.

use std::ops::{Bound, Range};

use bytes::Bytes;
use codec::BLOCK_BYTES;
use types::{CollId, HObject, Mutation, TxnOp};

use super::{Store, write::keep};
use crate::{
    device::BLOCK,
    index::Index,
    journal::{Body, Direct},
    onode::Onode,
    pending::Amount,
    pool_usage::PoolUsage,
    space::Run,
};

static ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

impl Store {
    /// Applies a transaction out of the journal, of which nothing keeps the memory into which it was read.
    pub(super) fn apply_body(&mut self, body: &Body, txn: u64) {
        let mut directs = body.directs.iter().peekable();
        for (at, op) in body.txn.ops.iter().enumerate() {
            while let Some(direct) = directs.next_if(|direct| direct.before_op as usize <= at) {
                self.apply_direct(body.txn.coll, direct, txn);
            }
            let mut op = op.clone();
            keep(&mut op);
            self.apply_op(body.txn.coll, op, txn);
        }
        directs.for_each(|direct| self.apply_direct(body.txn.coll, direct, txn));
    }

    pub(super) fn apply_op(&mut self, coll: CollId, op: TxnOp, txn: u64) {
        match op {
            TxnOp::CreateCollection => {
                self.index.make_coll(coll);
            }
            TxnOp::RemoveCollection => self.remove_coll(coll),
            TxnOp::Merge(merge) => {
                self.index.make_coll(coll);
                self.index.unpack_coll(merge.source);
                let objects = self.index.colls.get(&merge.source).into_iter();
                let range = objects.flat_map(|objects| objects.onodes.range(&merge.from..&merge.to));
                let moved: Vec<HObject> = range.map(|(object, _)| object.clone()).collect();
                for object in &moved {
                    self.remove_object(coll, object);
                    self.move_object(merge.source, coll, object, txn);
                }
                self.remove_coll(merge.source);
            }
            TxnOp::Split(split) => {
                self.index.make_coll(split.child);
                self.index.unpack_objects(coll, &split.from, &split.to);
                let objects = self.index.colls.get(&coll).into_iter();
                let range = objects.flat_map(|objects| objects.onodes.range(&split.from..&split.to));
                let moved: Vec<HObject> = range.map(|(object, _)| object.clone()).collect();
                for object in &moved {
                    self.remove_object(split.child, object);
                    self.move_object(coll, split.child, object, txn);
                }
                if !split.omap.is_empty() {
                    self.mutate(split.child, &split.record, Mutation::OmapSet(split.omap), txn);
                }
            }
            TxnOp::Object(object, Mutation::Remove) => {
                self.remove_object(coll, &object);
                self.index.make_coll(coll);
            }
            TxnOp::Object(object, Mutation::CloneFrom { source }) => {
                if *source != object {
                    self.clone_object(coll, &source, &object, txn);
                } else {
                    self.index.make(coll, &object);
                }
            }
            TxnOp::Object(object, mutation) => self.mutate(coll, &object, mutation, txn),
        }
    }

    fn remove_coll(&mut self, coll: CollId) {
        self.index.unpack_coll(coll);
        let objects = self.index.colls.get(&coll);
        let names: Vec<HObject> =
            objects.map_or_else(Vec::new, |objects| objects.onodes.keys().cloned().collect());
        names.iter().for_each(|object| self.remove_object(coll, object));
        self.index.colls.remove(&coll);
    }

    fn mutate(&mut self, coll: CollId, object: &HObject, mutation: Mutation, txn: u64) {
        match mutation {
            Mutation::OmapSet(map) => {
                self.index.make(coll, object);
                for (key, value) in map {
                    self.index.omap_set(coll, object, key, value);
                }
            }
            Mutation::OmapRemove(keys) => {
                self.index.make(coll, object);
                keys.iter().for_each(|key| self.index.omap_remove(coll, object, key));
            }
            Mutation::OmapRemoveRange { first, last } => {
                self.index.make(coll, object);
                if first < last {
                    self.index.omap_remove_range(
                        coll,
                        object,
                        Bound::Included(&first),
                        Bound::Excluded(&last),
                    );
                }
            }
            Mutation::OmapClear => {
                self.index.change(coll, object, |onode| onode.omap_header = Bytes::new());
                self.index.omap_remove_range(coll, object, Bound::Unbounded, Bound::Unbounded);
            }
            Mutation::Write { offset, data } => {
                let end = offset + data.len() as u64;
                self.with_data(coll, object, blocks_of(offset, end), |onode, _| {
                    onode.size = onode.size.max(end);
                    onode.pending.insert(offset, data, txn);
                });
            }
            Mutation::Zero { offset, len } => {
                let (blocks, range) = (blocks_of(offset, offset + len), (offset, offset + len));
                self.with_data(coll, object, blocks, |onode, freed| zero(onode, range, txn, freed));
            }
            Mutation::Truncate { size } => {
                let blocks = size / BLOCK..u64::MAX;
                self.with_data(coll, object, blocks, |onode, freed| truncate(onode, size, txn, freed));
            }
            Mutation::Touch
            | Mutation::SetXattrs(_)
            | Mutation::RemoveXattr(_)
            | Mutation::ClearXattrs
            | Mutation::OmapSetHeader(_)
            | Mutation::Remove
            | Mutation::CloneFrom { .. } => {
                self.index.change(coll, object, |onode| mutate_attributes(onode, mutation));
            }
        }
    }

    /// Changes an object's data in these blocks, and keeps the accounts; what `change` unmaps is released.
    fn with_data(
        &mut self,
        coll: CollId,
        object: &HObject,
        blocks: Range<u64>,
        change: impl FnOnce(&mut Onode, &mut Vec<Run>),
    ) {
        let mut freed = Vec::new();
        let sums = |onode: &Onode| (onode.pending.amount(), PoolUsage::within(onode, blocks.clone()));
        let (before, after) = self.index.change(coll, object, |onode| {
            let before = sums(onode);
            change(onode, &mut freed);
            (before, sums(onode))
        });
        self.pending.count(object, before.0, after.0);
        self.index.pools.add(coll, after.1.minus(before.1));
        match (before.0.bytes == 0, after.0.bytes == 0) {
            (true, false) => {
                self.pending.objects.insert((coll, object.detached()));
            }
            (false, true) => {
                self.pending.objects.remove(&(coll, object.clone()));
            }
            (true, true) | (false, false) => {}
        }
        freed.into_iter().for_each(|run| self.release(coll, run));
    }

    /// An object of the collection lets go of blocks.
    pub(super) fn release(&mut self, coll: CollId, run: Run) {
        let kept_count = self.space.release(run);
        self.index.pools.unshare(coll, kept_count);
        if kept_count == 0 {
            // They will not be read again, though their space is free with the next checkpoint only.
            self.cache.remove(run);
        }
    }

    /// An object of the collection gets blocks that another one has.
    fn share(&mut self, coll: CollId, run: Run) {
        self.space.share(run);
        self.index.pools.share(coll, run.count);
    }

    pub(super) fn apply_direct(&mut self, coll: CollId, direct: &Direct, txn: u64) {
        let count = direct.crcs.len() as u64;
        let (from, to) = (direct.block, direct.block + count);
        self.with_data(coll, &direct.object, from..to, |onode, freed| {
            onode.pending.punch_bytes(from * BLOCK, to * BLOCK);
            freed.extend(onode.extents.punch_blocks(from, to));
            let mut at = 0;
            for run in &direct.runs {
                let crcs = &direct.crcs[at..at + run.count as usize];
                onode.extents.insert(from + at as u64, run.start, crcs);
                at += run.count as usize;
            }
            onode.size = onode.size.max(to * BLOCK);
            onode.generation = txn;
        });
    }

    fn remove_object(&mut self, coll: CollId, object: &HObject) {
        let Some(onode) = self.index.remove(coll, object) else { return };
        self.forget_data(coll, object, &onode);
        if !onode.pending.is_empty() {
            self.pending.objects.remove(&(coll, object.clone()));
        }
    }

    fn forget_data(&mut self, coll: CollId, object: &HObject, onode: &Onode) {
        self.pending.count(object, onode.pending.amount(), Amount::default());
        self.index.pools.remove(coll, PoolUsage::of(onode));
        onode.extents.runs().for_each(|run| self.release(coll, run));
    }

    /// The object's entry goes to another collection: its data stays where it is.
    fn move_object(&mut self, from: CollId, to: CollId, object: &HObject, txn: u64) {
        self.index.unpack_object(from, object);
        let omap = self.index.omap(from, object).cloned().unwrap_or_default();
        let Some(mut moved) = self.index.remove(from, object) else { return };
        if self.pending.objects.remove(&(from, object.clone())) {
            self.pending.objects.insert((to, object.clone()));
        }
        // A flush that is under way does not find it any more.
        moved.pending.stamp(txn);
        self.index.change(to, object, |onode| {
            *onode = Onode { generation: txn, touched: onode.touched, ..moved };
        });
        for (key, value) in omap {
            self.index.omap_set(to, object, key, value);
        }
    }

    fn clone_object(&mut self, coll: CollId, source: &HObject, target: &HObject, txn: u64) {
        self.index.unpack_object(coll, source);
        let found = self.index.get(coll, source).cloned().unwrap_or_default();
        let omap = self.index.omap(coll, source).cloned().unwrap_or_default();
        self.remove_object(coll, target);
        found.extents.runs().for_each(|run| self.share(coll, run));
        self.index.pools.add(coll, PoolUsage::of(&found));
        self.pending.count(target, Amount::default(), found.pending.amount());
        if !found.pending.is_empty() {
            self.pending.objects.insert((coll, target.detached()));
        }
        let index: &mut Index = &mut self.index;
        let mut pending = found.pending;
        pending.stamp(txn);
        index.change(coll, target, |onode| {
            *onode = Onode {
                size: found.size,
                extents: found.extents,
                pending,
                xattrs: found.xattrs,
                omap_header: found.omap_header,
                generation: txn,
                touched: onode.touched,
                is_used: true.into(),
            };
        });
        for (key, value) in omap {
            index.omap_set(coll, target, key, value);
        }
    }
}

/// The blocks that `[from, to)` touches.
fn blocks_of(from: u64, to: u64) -> Range<u64> {
    from / BLOCK..to.div_ceil(BLOCK)
}

fn mutate_attributes(onode: &mut Onode, mutation: Mutation) {
    match mutation {
        Mutation::SetXattrs(map) => {
            for (name, value) in map {
                match onode.xattrs.get_mut(&name) {
                    Some(old) => *old = value,
                    // The name may be a part of much that came with it.
                    None => onode.xattrs.insert(Bytes::copy_from_slice(&name), value),
                }
            }
        }
        Mutation::RemoveXattr(name) => {
            onode.xattrs.remove(&name);
        }
        Mutation::ClearXattrs => onode.xattrs.clear(),
        Mutation::OmapSetHeader(header) => onode.omap_header = header,
        // The others change data or omap, or are no more than an object's being.
        Mutation::Touch
        | Mutation::Write { .. }
        | Mutation::Zero { .. }
        | Mutation::Truncate { .. }
        | Mutation::Remove
        | Mutation::OmapSet(_)
        | Mutation::OmapRemove(_)
        | Mutation::OmapRemoveRange { .. }
        | Mutation::OmapClear
        | Mutation::CloneFrom { .. } => {}
    }
}

fn zero(onode: &mut Onode, (from, to): (u64, u64), txn: u64, freed: &mut Vec<Run>) {
    let (first, last) = (from.div_ceil(BLOCK), to / BLOCK);
    if first < last {
        onode.pending.punch_bytes(first * BLOCK, last * BLOCK);
        freed.extend(onode.extents.punch_blocks(first, last));
        onode.generation = txn;
        blank(onode, from, first * BLOCK, txn);
        blank(onode, last * BLOCK, to, txn);
    } else {
        // Less than a block in each of at most two blocks.
        let middle = (last * BLOCK).clamp(from, to);
        blank(onode, from, middle, txn);
        blank(onode, middle, to, txn);
    }
    onode.size = onode.size.max(to);
}

/// Makes part of one block read as zeros.
fn blank(onode: &mut Onode, from: u64, to: u64, txn: u64) {
    if from < to {
        onode.pending.insert(from, Bytes::from_static(&ZEROS[..(to - from) as usize]).into(), txn);
    }
}

fn truncate(onode: &mut Onode, size: u64, txn: u64, freed: &mut Vec<Run>) {
    if size < onode.size {
        let first = size.div_ceil(BLOCK);
        onode.pending.punch_bytes(size, u64::MAX);
        freed.extend(onode.extents.punch_blocks(first, u64::MAX));
        onode.generation = txn;
        // What the object may grow over again must read as zeros.
        if onode.extents.lookup(size / BLOCK).is_some() {
            blank(onode, size, first * BLOCK, txn);
        }
    }
    onode.size = size;
}
