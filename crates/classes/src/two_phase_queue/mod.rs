//! The `2pc_queue` class: a queue in which room is reserved first and used or given up later.
//!
//! Authority: `cls/2pc_queue` of Ceph 16.2 to 20.2. Other than there, a commit gives back all that its
//! reservation took, what entries take besides their data included.

#[cfg(test)]
mod tests;
mod types;

use ::types::Errno;
use bytes::Bytes;
use codec::Decode;
use types::{
    CommitOp, ExpireOp, RemoveOp, Reservation, ReservationId, Reservations, ReservationsReply, ReserveOp,
    StatsReply, Urgent,
};

use crate::{
    Method, ObjectView, Stop,
    keys::{input, output},
    method::{self, row},
    queue::{
        self, OVERHEAD,
        types::{Head, InitOp},
    },
};

const RD: u8 = method::RD;
const RW: u8 = method::RD | method::WR;
const CLASS: &str = "2pc_queue";

/// The methods with their Ceph flags.
pub(crate) const METHODS: &[Method] = &[
    row(CLASS, "2pc_queue_init", RW, init),
    row(CLASS, "2pc_queue_get_capacity", RD, queue::get_capacity),
    row(CLASS, "2pc_queue_get_topic_stats", RD, get_topic_stats),
    row(CLASS, "2pc_queue_reserve", RW, reserve),
    row(CLASS, "2pc_queue_commit", RW, commit),
    row(CLASS, "2pc_queue_abort", RW, abort),
    row(CLASS, "2pc_queue_list_reservations", RD, list_reservations),
    row(CLASS, "2pc_queue_list_entries", RD, queue::list_entries),
    row(CLASS, "2pc_queue_remove_entries", RW, remove_entries),
    row(CLASS, "2pc_queue_expire_reservations", RW, expire_reservations),
];

/// Room for urgent data in the head: some 780 reservations.
const URGENT_BYTES_MAX: u64 = 23_552;
/// Encoded: urgent data without reservations, and a reservation with its number.
const URGENT_BYTES: u64 = 27;
const RESERVATION_BYTES: u64 = 30;
/// Where the reservations are that the head has no room for.
const MORE_XATTR: &[u8] = b"cls_queue_urgent_data";

impl Reservation {
    /// All that it takes of the ring.
    fn cost(&self) -> u64 {
        self.bytes.saturating_add(u64::from(self.entries) * OVERHEAD)
    }
}

/// The head, and all that is reserved.
fn load(view: &mut dyn ObjectView) -> Result<(Head, Urgent), Stop> {
    let head = Head::load(view)?;
    let mut urgent = Urgent::from_prefix(head.urgent.clone()).map_err(|_| Errno::EINVAL)?;
    if urgent.has_more
        && let Some(more) = view.xattr(MORE_XATTR)?
    {
        urgent.reservations.extend(Reservations::from_prefix(more).map_err(|_| Errno::EINVAL)?);
    }
    Ok((head, urgent))
}

fn save(view: &mut dyn ObjectView, mut head: Head, mut urgent: Urgent) -> Result<(), Stop> {
    let room = head.urgent_bytes_max.saturating_sub(URGENT_BYTES) / RESERVATION_BYTES;
    let first_more = urgent.reservations.keys().nth(room as usize).copied();
    let more = first_more.map(|id| urgent.reservations.split_off(&id)).unwrap_or_default();
    if urgent.has_more || !more.is_empty() {
        view.set_xattr(MORE_XATTR, output(&more)?)?;
    }
    urgent.has_more |= !more.is_empty();
    head.urgent = output(&urgent)?;
    head.save(view)
}

fn init(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: InitOp = input(bytes)?;
    let urgent = output(&Urgent::default())?;
    Head::init(view, InitOp { bytes: op.bytes, urgent_bytes_max: URGENT_BYTES_MAX, urgent })?;
    Ok(Bytes::new())
}

fn get_topic_stats(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    let (head, urgent) = load(view)?;
    output(&StatsReply { bytes: head.used(), entries: urgent.committed_entries })
}

fn reserve(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: ReserveOp = input(bytes)?;
    if op.bytes == 0 || op.entries == 0 {
        return Err(Errno::EINVAL.into());
    }
    let (head, mut urgent) = load(view)?;
    let reservation = Reservation { bytes: op.bytes, made: view.context().now, entries: op.entries };
    let reserved = urgent.reserved_bytes.saturating_add(reservation.cost());
    if reserved > head.free() {
        return Err(Errno::ENOSPC.into());
    }
    urgent.reserved_bytes = reserved;
    urgent.last_id = urgent.last_id.wrapping_add(1);
    let id = urgent.last_id;
    if urgent.reservations.insert(id, reservation).is_some() {
        // All numbers were used, and this one still is.
        return Err(Errno::EAGAIN.into());
    }
    save(view, head, urgent)?;
    output(&ReservationId { id })
}

/// Takes a reservation away.
fn release(urgent: &mut Urgent, id: u32) -> Option<Reservation> {
    let reservation = urgent.reservations.remove(&id)?;
    urgent.reserved_bytes = urgent.reserved_bytes.saturating_sub(reservation.cost());
    Some(reservation)
}

fn commit(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: CommitOp = input(bytes)?;
    let (mut head, mut urgent) = load(view)?;
    let reservation = release(&mut urgent, op.id).ok_or(Errno::ENOENT)?;
    if op.entries.iter().map(|entry| entry.len() as u64).sum::<u64>() > reservation.bytes {
        return Err(Errno::EINVAL.into());
    }
    head.append(view, &op.entries)?;
    urgent.committed_entries = urgent.committed_entries.saturating_add(reservation.entries);
    save(view, head, urgent)?;
    Ok(Bytes::new())
}

/// A reservation that does not exist is no error.
fn abort(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: ReservationId = input(bytes)?;
    let (head, mut urgent) = load(view)?;
    if release(&mut urgent, op.id).is_some() {
        save(view, head, urgent)?;
    }
    Ok(Bytes::new())
}

fn list_reservations(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    let (_, urgent) = load(view)?;
    output(&ReservationsReply { reservations: urgent.reservations })
}

fn expire_reservations(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: ExpireOp = input(bytes)?;
    let (head, mut urgent) = load(view)?;
    let is_stale = |(_, reservation): &(&u32, &Reservation)| reservation.made < op.stale;
    let stale: Vec<u32> = urgent.reservations.iter().filter(is_stale).map(|(id, _)| *id).collect();
    if stale.is_empty() {
        return Ok(Bytes::new());
    }
    for id in stale {
        release(&mut urgent, id);
    }
    save(view, head, urgent)?;
    Ok(Bytes::new())
}

fn remove_entries(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: RemoveOp = input(bytes)?;
    let (mut head, mut urgent) = load(view)?;
    let removed = match head.used() {
        0 => 0,
        _ => head.count(view, &op.end_marker)?,
    };
    head.remove(view, &op.end_marker)?;
    let removed = u32::try_from(removed).unwrap_or(u32::MAX);
    urgent.committed_entries = urgent.committed_entries.saturating_sub(removed);
    save(view, head, urgent)?;
    Ok(Bytes::new())
}
