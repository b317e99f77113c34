//! What two answers to the same request have in common.

use std::collections::BTreeMap;

use bytes::Bytes;
use client::Response;
use codec::{Codec, Decode, Reader};
use messages::{MWatchNotify, OpCode, OsdOp};
use types::{ReqId, SnapId, UTime};

use crate::{calls, cluster::Outcome, plan::Step};

/// Methods whose output has times of the OSD's clock or clients' addresses in it.
const VOLATILE: &[&str] = &[
    "lock.get_info",
    "rbd.get_snapshot_timestamp",
    "rbd.snapshot_get",
    "rbd.get_create_timestamp",
    "rbd.mirror_image_status_get",
    "rbd.mirror_image_status_list",
    "hello.replay",
    "version.read",
    "log.list",
    "log.info",
    "timeindex.list",
];

/// How a step's outcome in the second cluster differs from that in the first.
pub(crate) fn outcomes(step: &Step, outcomes: &[Option<Outcome>; 2]) -> Option<String> {
    match (step, outcomes) {
        (_, [None, None]) => None,
        (
            Step::Request(planned),
            [Some(Outcome::Answer(real, step)), Some(Outcome::Answer(ours, our_step))],
        ) => difference(&planned.request.ops, real, ours)
            .or_else(|| (step != our_step).then(|| format!("version: {step:?}, ours {our_step:?}"))),
        (_, [Some(Outcome::Commanded(real)), Some(Outcome::Commanded(ours))]) => {
            (real != ours).then(|| format!("command: {real}, ours {ours}"))
        }
        (_, [Some(Outcome::Listed(real, objects)), Some(Outcome::Listed(ours, our_objects))]) => {
            if real != ours {
                return Some(format!("listing: {real}, ours {ours}"));
            }
            (objects != our_objects).then(|| "objects of a listing".to_owned())
        }
        (_, [Some(Outcome::Nothing), Some(Outcome::Nothing)]) => None,
        (_, [real, ours]) => Some(format!("answers: {real:?}, ours {ours:?}")),
    }
}

/// How the messages to watchers and notifiers differ between the two clusters.
pub(crate) fn notifications(notified: &[Vec<MWatchNotify>; 2]) -> Option<String> {
    let [real, ours] = notified;
    let kinds = |all: &[MWatchNotify]| all.iter().map(|message| message.opcode.0).collect::<Vec<_>>();
    if real == ours {
        None
    } else if kinds(real) != kinds(ours) {
        Some(format!("notified: {:?}, ours {:?}", kinds(real), kinds(ours)))
    } else {
        Some("content of notifications".to_owned())
    }
}

/// How the second answer differs from the first; none if it does not. Short, for the same cause the same.
fn difference(ops: &[OsdOp], real: &Response, ours: &Response) -> Option<String> {
    let name = |op: &OsdOp| if op.code == OpCode::CALL { calls::name(op) } else { format!("{:?}", op.code) };
    let is_refused = real.result < 0;
    if real.ops.len() != ours.ops.len() {
        return Some(format!("{} ops answered, ours {}", real.ops.len(), ours.ops.len()));
    }
    for (asked, (real, ours)) in ops.iter().zip(real.ops.iter().zip(&ours.ops)) {
        // An absent object gets the one or the other, as an OSD remembers it or not.
        let is_of_cache = [OpCode::CACHE_FLUSH, OpCode::CACHE_EVICT, OpCode::TIER_FLUSH, OpCode::TIER_EVICT]
            .contains(&asked.code);
        if is_of_cache && [real.result, ours.result].iter().all(|result| [0, -2, -22].contains(result)) {
            return None;
        }
        // EINPROGRESS of copies, whose end is the result of the whole.
        if real.result != ours.result && real.result != -115 {
            return Some(format!("{}: op result {}, ours {}", name(asked), real.result, ours.result));
        }
        let is_error = real.result < 0 && asked.code != OpCode::CALL;
        if !is_error && let Some(how) = of_data(asked, &real.data, &ours.data) {
            return Some(format!("{}: {how}", name(asked)));
        }
        let echoed = match asked.code {
            _ if is_error || is_refused => 0..0,
            OpCode::READ | OpCode::CHECKSUM => 8..16,
            OpCode::GETXATTR => 4..8,
            _ => 0..0,
        };
        let (real, ours) = (&real.params.0[echoed.clone()], &ours.params.0[echoed]);
        if real != ours {
            return Some(format!("{}: length {real:02x?}, ours {ours:02x?}", name(asked)));
        }
    }
    let names: Vec<String> = ops.iter().map(name).collect();
    if real.result != ours.result {
        return Some(format!("{names:?}: result {}, ours {}", real.result, ours.result));
    }
    None
}

fn of_data(asked: &OsdOp, real: &Bytes, ours: &Bytes) -> Option<String> {
    if real == ours {
        return None;
    }
    let is_same = match asked.code {
        OpCode::SPARSE_READ => content(real) == content(ours),
        OpCode::MAPEXT | OpCode::NOTIFY => true,
        OpCode::COPY_GET => return copies(copied(real), copied(ours)),
        OpCode::LIST_WATCHERS => real.len() == ours.len(),
        OpCode::CALL => VOLATILE.contains(&calls::name(asked).as_str()) && real.len() == ours.len(),
        _ => false,
    };
    (!is_same).then(|| format!("data {:02x?}, ours {:02x?}", head(real), head(ours)))
}

/// `object_copy_cursor_t`.
#[derive(Codec, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
struct CopyCursor {
    has_attrs: bool,
    data_offset: u64,
    has_data: bool,
    omap_offset: Bytes,
    has_omap: bool,
}

/// `object_copy_data_t`.
#[derive(Codec, PartialEq, Eq)]
#[codec(version = 8, compat = 5)]
struct CopyData {
    size: u64,
    mtime: UTime,
    attrs: BTreeMap<Bytes, Bytes>,
    data: Bytes,
    omap: Bytes,
    cursor: CopyCursor,
    omap_header: Bytes,
    snaps: Vec<SnapId>,
    snap_seq: SnapId,
    flags: u32,
    data_digest: u32,
    omap_digest: u32,
    requests: Vec<(ReqId, u64)>,
    truncate_seq: u64,
    truncate_size: u64,
    errors: BTreeMap<u32, i32>,
}

/// A piece of a copy without times, names of requests and digests.
fn copied(answer: &Bytes) -> Option<CopyData> {
    let mut piece = CopyData::from_prefix(answer.clone()).ok()?;
    piece.mtime = UTime::default();
    (piece.flags, piece.data_digest, piece.omap_digest) = (0, 0, 0);
    for (name, version) in &mut piece.requests {
        (*name, *version) = (ReqId::default(), u64::from(*version > 0));
    }
    Some(piece)
}

/// How a piece of a copy differs: the fields, without what is in them, which may be long.
fn copies(real: Option<CopyData>, ours: Option<CopyData>) -> Option<String> {
    let (Some(real), Some(ours)) = (&real, &ours) else {
        return (real != ours).then(|| "a piece that cannot be read".to_owned());
    };
    if real.requests.len() != ours.requests.len() {
        return Some(format!("{} requests, ours {}", real.requests.len(), ours.requests.len()));
    }
    let fields = [
        ("size", real.size == ours.size),
        ("attrs", real.attrs == ours.attrs),
        ("data", real.data == ours.data),
        ("omap", real.omap == ours.omap && real.omap_header == ours.omap_header),
        ("cursor", real.cursor == ours.cursor),
        ("snaps", real.snaps == ours.snaps && real.snap_seq == ours.snap_seq),
        ("requests", real.requests == ours.requests && real.errors == ours.errors),
    ];
    let differing: Vec<&str> = fields.iter().filter(|(_, is_same)| !is_same).map(|(name, _)| *name).collect();
    (real != ours).then(|| format!("{differing:?} of a copy"))
}

fn head(data: &Bytes) -> &[u8] {
    &data[..data.len().min(96)]
}

/// The bytes that are not zero of what a sparse read gave.
fn content(answer: &Bytes) -> Option<BTreeMap<u64, u8>> {
    let mut input = Reader::new(answer.clone());
    let extents = BTreeMap::<u64, u64>::decode(&mut input).ok()?;
    let data = Bytes::decode(&mut input).ok()?;
    let places = extents.iter().flat_map(|(offset, length)| *offset..offset + length);
    Some(places.zip(data).filter(|(_, byte)| *byte != 0).collect())
}
