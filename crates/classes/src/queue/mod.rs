//! The `queue` class: a bounded queue in an object's data.
//!
//! Authority: `cls/queue` of Ceph 16.2 to 20.2 (cls_queue.cc, cls_queue_src.cc).

mod ring;
#[cfg(test)]
mod tests;
pub(crate) mod types;

use bytes::Bytes;

pub(crate) use ring::OVERHEAD;
use types::{CapacityReply, EnqueueOp, Head, ListOp, RemoveOp};

use crate::{
    Method, ObjectView, Stop,
    keys::{input, output},
    method::{self, row},
};

const RD: u8 = method::RD;
const RW: u8 = method::RD | method::WR;

/// The methods with their Ceph flags.
pub(crate) const METHODS: &[Method] = &[
    row("queue", "queue_init", RW, init),
    row("queue", "queue_get_capacity", RD, get_capacity),
    row("queue", "queue_enqueue", RW, enqueue),
    row("queue", "queue_list_entries", RD, list_entries),
    row("queue", "queue_remove_entries", RW, remove_entries),
];

fn init(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    Head::init(view, input(bytes)?)?;
    Ok(Bytes::new())
}

pub(crate) fn get_capacity(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    output(&CapacityReply { bytes: Head::load(view)?.capacity() })
}

fn enqueue(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: EnqueueOp = input(bytes)?;
    let mut head = Head::load(view)?;
    head.append(view, &op.entries)?;
    head.save(view)?;
    Ok(Bytes::new())
}

pub(crate) fn list_entries(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: ListOp = input(bytes)?;
    output(&Head::load(view)?.list(view, &op)?)
}

fn remove_entries(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: RemoveOp = input(bytes)?;
    let mut head = Head::load(view)?;
    head.remove(view, &op.end_marker)?;
    head.save(view)?;
    Ok(Bytes::new())
}
