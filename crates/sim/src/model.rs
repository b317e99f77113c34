//! What an object must hold that only one client writes, one request at a time.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use client::Response;
use codec::{Decode, Encode, Features};
use messages::{OpCode, OpParams, OsdOp};
use rand::{Rng, rngs::StdRng};
use types::{Errno, SnapContext, SnapId, UTime};

use crate::change::{Change, Guard, Source, step};

/// Snapshots that a client makes of an object, at most.
const SNAPS_MAX: usize = 4;
/// The newest snapshot of all.
pub(crate) const SNAP_LAST: SnapId = SnapId(8);

/// An object's content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) data: Vec<u8>,
    pub(crate) xattrs: BTreeMap<Bytes, Bytes>,
    pub(crate) omap_header: Bytes,
    pub(crate) omap: BTreeMap<Bytes, Bytes>,
}

/// The object as its one writer knows it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    head: Option<Content>,
    /// True after a change of which nobody knows what became, as one from a snapshot that was being removed: the next
    /// read tells what the head is.
    is_vague: bool,
    /// The head's version as users see it, if it was read since the last change.
    version: Option<u64>,
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
    /// All of the object, at the head or a snapshot; none if any content is right.
    Content(SnapId, Option<Option<Content>>),
    /// The head becomes `head` and the result is `result`, unless the snapshot `of`, from which the head is made, was
    /// being removed meanwhile.
    Change { head: Option<Content>, result: Result<i32, Errno>, of: Option<SnapId> },
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
        if let Some(next) = next.filter(|_| self.snaps.len() < SNAPS_MAX && !self.is_vague) {
            self.newest = next;
            self.snaps.insert(next, self.head.clone());
        }
    }

    /// The snapshot is being removed: what a read of it finds is not known.
    pub(crate) fn forget_snap(&mut self, snap: SnapId) {
        self.snaps.remove(&snap);
        self.removed.insert(snap);
    }

    /// Nobody knows what became of the last change.
    pub(crate) fn be_vague(&mut self) {
        (self.version, self.is_vague) = (None, true);
    }

    /// True for the head and for snapshots that are not being removed.
    pub(crate) fn has(&self, snap: SnapId) -> bool {
        !self.removed.contains(&snap)
    }

    /// The head and all snapshots.
    pub(crate) fn views(&self) -> Vec<SnapId> {
        self.snaps.keys().copied().chain([SnapId::HEAD]).collect()
    }

    /// True if it has to be read before it can be changed.
    pub(crate) fn is_vague(&self) -> bool {
        self.is_vague
    }

    /// What others may copy: the head, or the object as of `snap`.
    pub(crate) fn content(&self, snap: SnapId) -> Option<Content> {
        self.snaps.get(&snap).unwrap_or(&self.head).clone()
    }

    /// A request that reads everything, as of `snap`.
    pub(crate) fn read(&self, snap: SnapId) -> (Vec<OsdOp>, Expected) {
        let all = (Bytes::new(), 1_000u64, Bytes::new()).to_bytes(Features::default());
        let ops = vec![
            step(OpCode::READ, OpParams::extent(0, 0), Bytes::new()),
            step(OpCode::OMAPGETVALS, OpParams::default(), all),
            OsdOp::new(OpCode::OMAPGETHEADER),
            OsdOp::new(OpCode::GETXATTRS),
            OsdOp::new(OpCode::STAT),
        ];
        let is_vague = self.is_vague && snap == SnapId::HEAD;
        (ops, Expected::Content(snap, (!is_vague).then(|| self.content(snap))))
    }

    /// A random request that changes the object, one step or several, perhaps only if it is as it should be, or as it
    /// should not.
    pub(crate) fn change(
        &self,
        rng: &mut StdRng,
        stamp: u64,
        source: Option<&Source>,
    ) -> (Vec<OsdOp>, Expected) {
        let (mut head, mut result, mut ops) = (self.head.clone(), Ok(0), Vec::new());
        if rng.random_bool(0.25)
            && let Some(guard) = Guard::random(rng, &self.head, self.version)
        {
            ops.push(guard.op());
            result = guard.holds(&self.head, self.version);
        }
        if let Some(source) = source {
            ops.push(source.op());
            let taken = source.take(&mut head);
            result = result.and(taken).map(|()| 0);
        } else {
            for part in 0..=rng.random_range(0..3) / 2 {
                let change = Change::random(rng, stamp * 2 + part);
                ops.push(change.op());
                result = result.and_then(|before| {
                    let result = if change.keeps_result(&head) { before } else { 0 };
                    change.apply(&mut head).map(|()| result)
                });
            }
        }
        let head = if result.is_ok() { head } else { self.head.clone() };
        let of = source.map(Source::snap).filter(|snap| *snap != SnapId::HEAD);
        (ops, Expected::Change { head, result, of })
    }

    /// Compares what came, and takes it as done.
    pub(crate) fn done(&mut self, expected: Expected, response: &Response) -> Result<(), String> {
        match expected {
            Expected::Content(snap, content) => {
                let found = found(response)?;
                if let Some(content) = content.filter(|content| *content != found) {
                    return Err(format!("read {}, expected {}", brief(&found), brief(&content)));
                }
                if snap == SnapId::HEAD {
                    self.version = found.is_some().then_some(response.user_version);
                    (self.head, self.is_vague) = (found, false);
                }
            }
            Expected::Change { of: Some(snap), .. } if self.removed.contains(&snap) => {
                self.be_vague();
            }
            Expected::Change { head, result, .. } => {
                let wanted = result.unwrap_or_else(|errno| -errno.0);
                if response.result != wanted {
                    return Err(format!("a change ended with {}, expected {wanted}", response.result));
                }
                if result.is_ok() {
                    self.version = None;
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
    let [read, omap, header, xattrs, stat] = &response.ops[..] else {
        return Err(format!("a read ended with {} and {} ops", response.result, response.ops.len()));
    };
    if response.result < 0 || response.ops.iter().any(|op| op.result < 0) {
        return Err(format!("a read ended with {}", response.result));
    }
    let broken = |error| format!("what was read is not decodable: {error}");
    let (omap, has_more) = <(BTreeMap<Bytes, Bytes>, bool)>::from_bytes(omap.data.clone()).map_err(broken)?;
    let xattrs = BTreeMap::from_bytes(xattrs.data.clone()).map_err(broken)?;
    let (size, _) = <(u64, UTime)>::from_bytes(stat.data.clone()).map_err(broken)?;
    if has_more || size != read.data.len() as u64 {
        return Err(format!("{size} bytes by its stat, {} read; more omap: {has_more}", read.data.len()));
    }
    Ok(Some(Content { data: read.data.to_vec(), xattrs, omap_header: header.data.clone(), omap }))
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
    let Content { data, xattrs, omap_header, omap } = content;
    format!("{} bytes (long runs {runs:?}), xattrs {xattrs:?}, omap {omap_header:?} {omap:?}", data.len())
}
