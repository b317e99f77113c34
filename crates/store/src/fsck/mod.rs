//! Checking a store that nobody runs, without changing it.
//!
//! What is read is read by the mount's own readers; what is checked is what a running store relies on.

mod problem;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use codec::{BLOCK_BYTES, crc32c};
use types::{CollId, HObject, Token};

pub use problem::{Owner, Problem};

use crate::{
    Config, DeviceCommand, DeviceError, DeviceRole, DeviceSizes, Inspected, Mount, ReadError, Store,
    allocator::Run, device::BLOCK,
};

/// Reads in flight while data is verified.
const READS_MAX: usize = 8;
/// Blocks of one of them.
const READ_BLOCKS_MAX: u64 = 1024;

/// What a store holds. Bytes unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounts {
    /// How many collections.
    pub collections: u64,
    /// How many objects.
    pub objects: u64,
    /// Sum of the objects' sizes.
    pub object_bytes: u64,
    /// Data in its place on the device; what objects share counts for each.
    pub mapped_bytes: u64,
    /// Data that is in the journal or the index only.
    pub pending_bytes: u64,
    /// How many pieces on the device the objects' data is in.
    pub extents: u64,
    /// How many omap entries.
    pub omap_entries: u64,
    /// How many xattrs.
    pub xattrs: u64,
    /// How many pages of the index.
    pub pages: u64,
    /// How many journal records the last checkpoint does not hold.
    pub records: u64,
    /// Free, or free after the next checkpoint.
    pub free_bytes: u64,
    /// Blocks verified against their checksum.
    pub verified_blocks: u64,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FsckReport {
    /// What is wrong; the store is sound if there is nothing.
    pub problems: Vec<Problem>,
    /// What is as a crash may leave it, and goes with the next start.
    pub notes: Vec<String>,
    /// What there is.
    pub counts: StoreCounts,
}

/// A check on its way: execute its commands, answer them, until [`Fsck::take`] has the report.
#[derive(Debug)]
pub struct Fsck {
    is_deep: bool,
    commands: Vec<DeviceCommand>,
    step: Step,
}

#[derive(Debug)]
enum Step {
    Open(Box<Mount>),
    Deep(Box<Deep>),
    Done(Option<FsckReport>),
}

/// Verifying data.
#[derive(Debug)]
struct Deep {
    store: Store,
    report: FsckReport,
    objects: Vec<(CollId, HObject)>,
    /// In the order of the device.
    waiting: VecDeque<Piece>,
    reading: BTreeMap<u64, Piece>,
    next_token: u64,
}

/// Consecutive blocks of an object on the device.
#[derive(Clone, Copy, Debug)]
struct Piece {
    device: u64,
    count: u64,
    object: usize,
    block: u64,
}

impl Fsck {
    /// Starts to check the store on a device; `is_deep` reads all data, too.
    pub fn new(sizes: impl Into<DeviceSizes>, config: Config, is_deep: bool) -> Fsck {
        let mount = Box::new(Store::inspect(sizes, config));
        Fsck { is_deep, commands: Vec::new(), step: Step::Open(mount) }
    }

    /// The commands to execute, in any order: all of them read.
    pub fn take_commands(&mut self) -> Vec<DeviceCommand> {
        match &mut self.step {
            Step::Open(mount) => mount.take_commands(),
            Step::Deep(_) | Step::Done(_) => std::mem::take(&mut self.commands),
        }
    }

    /// A command was executed.
    pub fn device_done(&mut self, token: Token, result: Result<Option<Bytes>, DeviceError>) {
        match &mut self.step {
            Step::Open(mount) => {
                mount.device_done(token, result);
                if let Some(result) = mount.take_inspected() {
                    self.step = match result {
                        Ok(inspected) => opened(inspected, self.is_deep),
                        Err(error) => {
                            let problems = vec![Problem::Unmountable(error)];
                            Step::Done(Some(FsckReport { problems, ..FsckReport::default() }))
                        }
                    };
                }
            }
            Step::Deep(deep) => deep.read_done(token, result),
            Step::Done(_) => {}
        }
        if let Step::Deep(deep) = &mut self.step {
            deep.read_on(&mut self.commands);
            if deep.reading.is_empty() {
                self.step = Step::Done(Some(std::mem::take(&mut deep.report)));
            }
        }
    }

    /// The report, once; `None` until it is complete.
    pub fn take(&mut self) -> Option<FsckReport> {
        match &mut self.step {
            Step::Done(report) => report.take(),
            Step::Open(_) | Step::Deep(_) => None,
        }
    }
}

fn opened(inspected: Inspected, is_deep: bool) -> Step {
    let report = inspected.check();
    let store = inspected.store;
    if !is_deep {
        return Step::Done(Some(report));
    }
    let (objects, waiting) = pieces(&store);
    let (reading, next_token) = (BTreeMap::new(), 1);
    Step::Deep(Box::new(Deep { store, report, objects, waiting, reading, next_token }))
}

/// All data on the device.
fn pieces(store: &Store) -> (Vec<(CollId, HObject)>, VecDeque<Piece>) {
    let (mut objects, mut pieces) = (Vec::new(), Vec::new());
    store.each_onode(|coll, name, onode| {
        let object = objects.len();
        objects.push((coll, name.clone()));
        for (block, device, crcs) in onode.extents.range(0, u64::MAX) {
            let count = crcs.len() as u64;
            for at in (0..count).step_by(READ_BLOCKS_MAX as usize) {
                let count = READ_BLOCKS_MAX.min(count - at);
                pieces.push(Piece { device: device + at, count, object, block: block + at });
            }
        }
    });
    pieces.sort_by_key(|piece| piece.device);
    (objects, pieces.into())
}

impl Deep {
    fn read_on(&mut self, commands: &mut Vec<DeviceCommand>) {
        while self.reading.len() < READS_MAX
            && let Some(piece) = self.waiting.pop_front()
        {
            let token = self.next_token;
            self.next_token += 1;
            self.reading.insert(token, piece);
            let (offset, len) = (piece.device * BLOCK, piece.count * BLOCK);
            commands.push(DeviceCommand::Read { token: Token(token), offset, len });
        }
    }

    fn read_done(&mut self, token: Token, result: Result<Option<Bytes>, DeviceError>) {
        let Some(piece) = self.reading.remove(&token.0) else { return };
        match result {
            Ok(Some(data)) if data.len() as u64 == piece.count * BLOCK => {
                for (at, bytes) in data.chunks(BLOCK_BYTES).enumerate() {
                    self.verify(piece.object, piece.block + at as u64, Some(bytes));
                }
            }
            // One bad sector fails the read of all: each block is asked for by itself.
            Ok(_) | Err(_) if piece.count > 1 => {
                for at in (0..piece.count).rev() {
                    let one = Piece { device: piece.device + at, count: 1, block: piece.block + at, ..piece };
                    self.waiting.push_front(one);
                }
            }
            Ok(_) | Err(_) => self.verify(piece.object, piece.block, None),
        }
    }

    /// A block that pending bytes hide may hold anything: a crash may have left it half overwritten.
    fn verify(&mut self, object: usize, block: u64, bytes: Option<&[u8]>) {
        let (coll, name) = &self.objects[object];
        let Some(onode) = self.store.onode(*coll, name) else { return };
        let Some(mapped) = onode.extents.lookup(block) else { return };
        if onode.pending.covers(block * BLOCK, (block + 1) * BLOCK) {
            return;
        }
        self.report.counts.verified_blocks += 1;
        let offset = block * BLOCK;
        let error = match bytes {
            Some(bytes) if crc32c(u32::MAX, bytes) == mapped.crc => return,
            Some(_) => ReadError::Corrupt { offset },
            None => ReadError::Device,
        };
        let (coll, object) = (*coll, name.clone());
        self.report.problems.push(Problem::Data { coll, object, error, offset });
    }
}

/// Runs with their owners, to be compared with the area that they lie in.
#[derive(Default)]
pub(crate) struct Claims(Vec<(Run, Owner)>);

impl Claims {
    pub(crate) fn add(&mut self, run: Run, owner: Owner) {
        self.0.push((run, owner));
    }

    /// Checks on the area's device that data shares blocks only with data, as often as `shared` says beyond once, that nothing
    /// else overlaps, and that all of `area` is claimed if `is_complete`.
    pub(crate) fn problems(
        &self,
        area: Run,
        shared: &BTreeMap<u64, u32>,
        is_complete: bool,
        out: &mut Vec<Problem>,
    ) {
        let role = DeviceRole::of(area.start * BLOCK).0;
        // Where runs begin and end: place, whether it begins, owner.
        let mut edges: Vec<(u64, bool, Owner)> = self
            .0
            .iter()
            .filter(|(run, _)| run.count > 0 && DeviceRole::of(run.start * BLOCK).0 == role)
            .flat_map(|&(run, owner)| [(run.start, true, owner), (run.end(), false, owner)])
            .collect();
        edges.sort_unstable();
        let mut open: Vec<Owner> = Vec::new();
        let mut last = area.start;
        let mut edges = edges.into_iter().peekable();
        while let Some(&(place, ..)) = edges.peek() {
            judge(Run { start: last, count: place - last.min(place) }, &open, shared, is_complete, out);
            while let Some((_, begins, owner)) = edges.next_if(|edge| edge.0 == place) {
                if begins {
                    open.push(owner);
                } else if let Some(at) = open.iter().position(|other| *other == owner) {
                    open.swap_remove(at);
                }
            }
            last = place;
        }
        let rest = Run { start: last, count: area.end().saturating_sub(last) };
        judge(rest, &open, shared, is_complete, out);
    }
}

/// Judges blocks that all have the same owners.
fn judge(run: Run, owners: &[Owner], shared: &BTreeMap<u64, u32>, is_complete: bool, out: &mut Vec<Problem>) {
    if run.count == 0 {
        return;
    }
    let offset = run.start * BLOCK;
    if owners.is_empty() && is_complete {
        out.push(Problem::Leaked { offset, bytes: run.count * BLOCK });
    }
    let data = owners.iter().filter(|owner| **owner == Owner::Data).count();
    if let Some(other) = owners.iter().find(|owner| **owner != Owner::Data)
        && owners.len() > 1
    {
        let second = if data > 0 { Owner::Data } else { *other };
        out.push(Problem::Overlap { offset, first: *other, second });
    }
    let found = u32::try_from(data).unwrap_or(u32::MAX);
    let mut known = 0;
    for (&block, &extra) in shared.range(run.start..run.end()) {
        known += 1;
        if extra.saturating_add(1) != found {
            out.push(Problem::References { offset: block * BLOCK, expected: extra + 1, found });
        }
    }
    if data > 1 && known < run.count {
        out.push(Problem::References { offset, expected: 1, found });
    }
}

#[cfg(test)]
mod tests;
