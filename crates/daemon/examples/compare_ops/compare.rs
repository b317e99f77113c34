//! What two answers to the same request have in common.

use std::collections::BTreeMap;

use bytes::Bytes;
use client::Response;
use codec::{Decode, Reader};
use messages::{OpCode, OsdOp};

use crate::calls;

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

/// How the second answer differs from the first; none if it does not. Short, for the same cause the same.
pub(crate) fn difference(ops: &[OsdOp], real: &Response, ours: &Response) -> Option<String> {
    let name = |op: &OsdOp| if op.code == OpCode::CALL { calls::name(op) } else { format!("{:?}", op.code) };
    if real.ops.len() != ours.ops.len() {
        return Some(format!("{} ops answered, ours {}", real.ops.len(), ours.ops.len()));
    }
    for (asked, (real, ours)) in ops.iter().zip(real.ops.iter().zip(&ours.ops)) {
        // EINPROGRESS of copies, whose end is the result of the whole.
        if real.result != ours.result && real.result != -115 {
            return Some(format!("{}: op result {}, ours {}", name(asked), real.result, ours.result));
        }
        let is_error = real.result < 0 && asked.code != OpCode::CALL;
        if !is_error && let Some(how) = of_data(asked, &real.data, &ours.data) {
            return Some(format!("{}: {how}", name(asked)));
        }
        let echoed = match asked.code {
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
        OpCode::STAT => real.get(..8) == ours.get(..8),
        OpCode::SPARSE_READ => content(real) == content(ours),
        OpCode::MAPEXT | OpCode::NOTIFY => true,
        OpCode::LIST_WATCHERS => real.len() == ours.len(),
        OpCode::CALL => VOLATILE.contains(&calls::name(asked).as_str()) && real.len() == ours.len(),
        _ => false,
    };
    (!is_same).then(|| format!("data {:02x?}, ours {:02x?}", head(real), head(ours)))
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
