//! What an object must hold that only one client writes, one request at a time.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use client::Response;
use codec::{Decode, Encode, Features};
use messages::{OpCode, OpParams, OsdOp};
use rand::{Rng, rngs::StdRng};
use types::{Errno, SnapContext, SnapId};

/// Data that a write may have, in bytes: some go by the journal, some straight to the device.
const WRITE_BYTES_MAX: usize = 24 << 10;
/// Objects end somewhere below.
const OBJECT_BYTES_MAX: u64 = 64 << 10;
/// Snapshots that a client makes of an object, at most.
const SNAPS_MAX: usize = 4;
/// The newest snapshot of all.
pub(crate) const SNAP_LAST: SnapId = SnapId(8);

/// An object's content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    data: Vec<u8>,
    omap: BTreeMap<Bytes, Bytes>,
}

/// One step of a request that changes the object.
#[derive(Clone, Debug)]
enum Change {
    Write { offset: u64, data: Bytes },
    WriteFull(Bytes),
    Append(Bytes),
    Truncate(u64),
    Delete,
    OmapSet(Bytes, Bytes),
    OmapRemove(Bytes),
}

/// The object as its one writer knows it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    head: Option<Content>,
    /// The head when each snapshot was made.
    snaps: BTreeMap<SnapId, Option<Content>>,
    /// The newest that was made.
    newest: SnapId,
    /// Snapshots that are removed from the pool.
    removed: BTreeSet<SnapId>,
}

/// What a request does, and what must come of it.
#[derive(Debug)]
pub(crate) enum Expected {
    /// All of the object, at the head or a snapshot.
    Content(Option<Content>),
    /// The head becomes this, and the result is that.
    Change(Option<Content>, Result<(), Errno>),
}

fn step(code: OpCode, params: OpParams, data: Bytes) -> OsdOp {
    OsdOp { params, data, ..OsdOp::new(code) }
}

impl Change {
    fn random(rng: &mut StdRng, stamp: u64) -> Change {
        // Every write tells itself apart from every other.
        let data = |rng: &mut StdRng| {
            let mut data = vec![(stamp % 251) as u8; rng.random_range(1..=WRITE_BYTES_MAX)];
            data.iter_mut().zip(stamp.to_be_bytes()).for_each(|(to, from)| *to = from);
            Bytes::from(data)
        };
        let key = |rng: &mut StdRng| Bytes::from(format!("key{}", rng.random_range(0..5)));
        match rng.random_range(0..20) {
            0..8 => Change::Write { offset: rng.random_range(0..OBJECT_BYTES_MAX), data: data(rng) },
            8..11 => Change::WriteFull(data(rng)),
            11..13 => Change::Append(data(rng)),
            13 => Change::Truncate(rng.random_range(0..OBJECT_BYTES_MAX)),
            14 => Change::Delete,
            15..19 => Change::OmapSet(key(rng), Bytes::from(stamp.to_string())),
            _ => Change::OmapRemove(key(rng)),
        }
    }

    fn op(&self) -> OsdOp {
        let extent = |offset: u64, data: &Bytes| OpParams::extent(offset, data.len() as u64);
        let encoded = |code, input: Bytes| step(code, OpParams::default(), input);
        match self {
            Change::Write { offset, data } => step(OpCode::WRITE, extent(*offset, data), data.clone()),
            Change::WriteFull(data) => step(OpCode::WRITEFULL, extent(0, data), data.clone()),
            Change::Append(data) => step(OpCode::APPEND, extent(0, data), data.clone()),
            Change::Truncate(size) => step(OpCode::TRUNCATE, OpParams::extent(*size, 0), Bytes::new()),
            Change::Delete => OsdOp::new(OpCode::DELETE),
            Change::OmapSet(key, value) => {
                let entries = BTreeMap::from([(key.clone(), value.clone())]);
                encoded(OpCode::OMAPSETVALS, entries.to_bytes(Features::default()))
            }
            Change::OmapRemove(key) => {
                encoded(OpCode::OMAPRMKEYS, vec![key.clone()].to_bytes(Features::default()))
            }
        }
    }

    fn apply(&self, head: &mut Option<Content>) -> Result<(), Errno> {
        match self {
            Change::Write { offset, data } => {
                let content = &mut head.get_or_insert_default().data;
                let (start, end) = (*offset as usize, *offset as usize + data.len());
                content.resize(content.len().max(end), 0);
                content[start..end].copy_from_slice(data);
            }
            Change::WriteFull(data) => head.get_or_insert_default().data = data.to_vec(),
            Change::Append(data) => head.get_or_insert_default().data.extend_from_slice(data),
            Change::Truncate(size) => {
                if let Some(content) = head {
                    content.data.resize(*size as usize, 0);
                }
            }
            Change::Delete => drop(head.take().ok_or(Errno::ENOENT)?),
            Change::OmapSet(key, value) => {
                head.get_or_insert_default().omap.insert(key.clone(), value.clone());
            }
            Change::OmapRemove(key) => drop(head.as_mut().ok_or(Errno::ENOENT)?.omap.remove(key)),
        }
        Ok(())
    }
}

impl Model {
    /// What writers say of the snapshots that exist.
    pub(crate) fn snapc(&self) -> SnapContext {
        SnapContext { seq: self.newest, snaps: self.snaps.keys().rev().copied().collect() }
    }

    /// Makes a snapshot, if there may be another.
    pub(crate) fn make_snap(&mut self) {
        let mut later = (self.newest.0 + 1..=SNAP_LAST.0).map(SnapId);
        let next = later.find(|snap| !self.removed.contains(snap));
        if let Some(next) = next.filter(|_| self.snaps.len() < SNAPS_MAX) {
            self.newest = next;
            self.snaps.insert(next, self.head.clone());
        }
    }

    /// The snapshot is being removed: nobody knows what a read of it finds.
    pub(crate) fn forget_snap(&mut self, snap: SnapId) {
        self.snaps.remove(&snap);
        self.removed.insert(snap);
    }

    /// True for the head and for snapshots that are not being removed.
    pub(crate) fn has(&self, snap: SnapId) -> bool {
        !self.removed.contains(&snap)
    }

    /// The head and all snapshots.
    pub(crate) fn views(&self) -> Vec<SnapId> {
        self.snaps.keys().copied().chain([SnapId::HEAD]).collect()
    }

    /// A request that reads everything, as of `snap`.
    pub(crate) fn read(&self, snap: SnapId) -> (Vec<OsdOp>, Expected) {
        let all = (Bytes::new(), 1_000u64, Bytes::new()).to_bytes(Features::default());
        let ops = vec![
            step(OpCode::READ, OpParams::extent(0, 0), Bytes::new()),
            step(OpCode::OMAPGETVALS, OpParams::default(), all),
        ];
        let content = self.snaps.get(&snap).unwrap_or(&self.head).clone();
        (ops, Expected::Content(content))
    }

    /// A random request that changes the object, one step or several.
    pub(crate) fn change(&self, rng: &mut StdRng, stamp: u64) -> (Vec<OsdOp>, Expected) {
        let (mut head, mut result, mut ops) = (self.head.clone(), Ok(()), Vec::new());
        for part in 0..=rng.random_range(0..3) / 2 {
            let change = Change::random(rng, stamp * 2 + part);
            ops.push(change.op());
            result = result.and_then(|()| change.apply(&mut head));
        }
        let head = if result.is_ok() { head } else { self.head.clone() };
        (ops, Expected::Change(head, result))
    }

    /// Compares what came, and takes it as done.
    pub(crate) fn done(&mut self, expected: Expected, response: &Response) -> Result<(), String> {
        match expected {
            Expected::Content(content) => {
                let found = found(response)?;
                if found != content {
                    return Err(format!("read {}, expected {}", brief(&found), brief(&content)));
                }
            }
            Expected::Change(head, result) => {
                let wanted = result.map_or_else(|errno| -errno.0, |()| 0);
                if response.result != wanted {
                    return Err(format!("a change ended with {}, expected {wanted}", response.result));
                }
                self.head = head;
            }
        }
        Ok(())
    }
}

/// What a read of everything found.
fn found(response: &Response) -> Result<Option<Content>, String> {
    if response.result == -Errno::ENOENT.0 {
        return Ok(None);
    }
    let [read, omap] = &response.ops[..] else {
        return Err(format!("a read ended with {} and {} ops", response.result, response.ops.len()));
    };
    if response.result < 0 || read.result < 0 || omap.result < 0 {
        return Err(format!("a read ended with {}", response.result));
    }
    let (omap, _) = <(BTreeMap<Bytes, Bytes>, bool)>::from_bytes(omap.data.clone())
        .map_err(|error| format!("omap: {error}"))?;
    Ok(Some(Content { data: read.data.to_vec(), omap }))
}

/// Enough of a content to tell which write it is of.
fn brief(content: &Option<Content>) -> String {
    let Some(content) = content else { return "no object".to_owned() };
    let mut runs: Vec<(u8, usize)> = Vec::new();
    for byte in &content.data {
        match runs.last_mut() {
            Some((last, count)) if last == byte => *count += 1,
            _ => runs.push((*byte, 1)),
        }
    }
    runs.retain(|(_, count)| *count > 8);
    format!("{} bytes (long runs {runs:?}), omap {:?}", content.data.len(), content.omap)
}
