//! Objects to which all clients append: the order is not known in advance, but all clients must see the same one.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use client::Response;
use messages::{OpCode, OpParams, OsdOp};
use types::{Errno, PoolId};

use crate::{conditional_objects::ConditionalObjects, listing::Listed, watching::Watched};

/// Bytes of a record.
const RECORD_BYTES: usize = 16;

/// A record's name: its client, and its number among that client's records.
type Record = (u64, u64);

/// One object.
#[derive(Debug, Default)]
struct Shared {
    /// The longest content that a read has found.
    seen: Vec<Record>,
    /// Records whose append was acknowledged.
    acknowledged: BTreeSet<Record>,
    /// Appends that were begun, by client.
    begun: BTreeMap<u64, u64>,
}

/// All of them; what one client learns binds the others.
#[derive(Debug, Default)]
pub(crate) struct SharedObjects {
    appended: Vec<Shared>,
    pub(crate) conditional: ConditionalObjects,
    pub(crate) listed: Listed,
    pub(crate) watched: Watched,
    /// Pools that an operator has ordered to be deleted.
    pub(crate) deleted: BTreeSet<PoolId>,
    /// What happened that does not happen in every world.
    pub(crate) seen: BTreeSet<&'static str>,
}

/// A request under way.
#[derive(Debug)]
pub(crate) enum InFlightOp {
    Append {
        object: usize,
        record: Record,
    },
    /// What must be there: this, in this order, and that.
    Read {
        object: usize,
        seen: Vec<Record>,
        acknowledged: BTreeSet<Record>,
    },
}

impl SharedObjects {
    pub(crate) fn new(count: usize) -> SharedObjects {
        let appended = (0..count).map(|_| Shared::default()).collect();
        SharedObjects { appended, ..SharedObjects::default() }
    }

    pub(crate) fn count(&self) -> usize {
        self.appended.len()
    }

    pub(crate) fn name(object: usize) -> Bytes {
        Bytes::from(format!("shared{object}"))
    }

    pub(crate) fn append(&mut self, object: usize, client: u64) -> (Vec<OsdOp>, InFlightOp) {
        let count = self.appended[object].begun.entry(client).or_default();
        *count += 1;
        let record = (client, *count);
        let data = Bytes::from([record.0.to_be_bytes(), record.1.to_be_bytes()].concat());
        let params = OpParams::extent(0, data.len() as u64);
        let op = OsdOp { params, data, ..OsdOp::new(OpCode::APPEND) };
        (vec![op], InFlightOp::Append { object, record })
    }

    pub(crate) fn read(&self, object: usize) -> (Vec<OsdOp>, InFlightOp) {
        let Shared { seen, acknowledged, .. } = &self.appended[object];
        let op = OsdOp { params: OpParams::extent(0, 0), ..OsdOp::new(OpCode::READ) };
        (vec![op], InFlightOp::Read { object, seen: seen.clone(), acknowledged: acknowledged.clone() })
    }

    pub(crate) fn done(&mut self, in_flight: InFlightOp, response: &Response) -> Result<(), String> {
        match in_flight {
            InFlightOp::Append { object, record } => {
                if response.result != 0 {
                    return Err(format!("append of {record:?} ended with {}", response.result));
                }
                self.appended[object].acknowledged.insert(record);
            }
            InFlightOp::Read { object, seen, acknowledged } => {
                let found = records(response)?;
                check(&found, &seen, &acknowledged).map_err(|why| format!("shared{object}: {why}"))?;
                let shared = &mut self.appended[object];
                let (longer, shorter) = match found.len() > shared.seen.len() {
                    true => (&found, &shared.seen),
                    false => (&shared.seen, &found),
                };
                if !longer.starts_with(shorter) {
                    return Err(format!("shared{object}: reads disagree: {longer:?} and {shorter:?}"));
                }
                shared.seen = longer.clone();
            }
        }
        Ok(())
    }
}

fn records(response: &Response) -> Result<Vec<Record>, String> {
    if response.result == -Errno::ENOENT.0 {
        return Ok(Vec::new());
    }
    let Some(read) = response.ops.first().filter(|read| response.result >= 0 && read.result >= 0) else {
        return Err(format!("a read ended with {}", response.result));
    };
    let half = |chunk: &[u8]| chunk.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    let chunks = read.data.chunks(RECORD_BYTES);
    Ok(chunks.map(|chunk| (half(&chunk[..chunk.len().min(8)]), half(&chunk[chunk.len().min(8)..]))).collect())
}

fn check(found: &[Record], seen: &[Record], acknowledged: &BTreeSet<Record>) -> Result<(), String> {
    if !found.starts_with(seen) {
        return Err(format!("a read found {found:?} after another one had found {seen:?}"));
    }
    let unique: BTreeSet<Record> = found.iter().copied().collect();
    if unique.len() != found.len() {
        return Err(format!("a record is there twice: {found:?}"));
    }
    if let Some(lost) = acknowledged.difference(&unique).next() {
        return Err(format!("{lost:?} was acknowledged and is not there: {found:?}"));
    }
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    for (client, count) in found {
        if last.insert(*client, *count).is_some_and(|before| before > *count) {
            return Err(format!("records of a client changed their order: {found:?}"));
        }
    }
    Ok(())
}
