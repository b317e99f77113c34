use bytes::Bytes;
use codec::{Decode, Encode, Features};
use types::{Errno, UTime};

use super::{
    URGENT_BYTES_MAX,
    types::{CommitOp, ExpireOp, RemoveOp, ReservationId, ReservationsReply, ReserveOp, StatsReply},
};
use crate::{queue::types::InitOp, test_view::TestView};

/// The input of methods that take none.
const NOTHING: Bytes = Bytes::new();

fn queue(bytes: u64) -> TestView {
    let mut view = TestView { exists: true, ..TestView::default() };
    let op = InitOp { bytes, urgent_bytes_max: 0, urgent: Bytes::new() };
    call(&mut view, "2pc_queue_init", &op).unwrap();
    view
}

fn call(view: &mut TestView, name: &str, op: &impl Encode) -> Result<Bytes, Errno> {
    view.call("2pc_queue", name, op.to_bytes(Features::PACIFIC))
}

fn reserve(view: &mut TestView, bytes: u64) -> Result<u32, Errno> {
    let reply = call(view, "2pc_queue_reserve", &ReserveOp { bytes, entries: 1 })?;
    Ok(ReservationId::from_bytes(reply).unwrap().id)
}

fn reservations(view: &mut TestView) -> usize {
    let reply = call(view, "2pc_queue_list_reservations", &NOTHING).unwrap();
    ReservationsReply::from_bytes(reply).unwrap().reservations.len()
}

#[test]
fn what_is_reserved_is_there_until_it_is_used_or_given_up() {
    let mut view = queue(100);
    let ids = [40, 40].map(|bytes| reserve(&mut view, bytes).unwrap());
    assert_eq!(reserve(&mut view, 1), Err(Errno::ENOSPC));
    let too_much = CommitOp { id: ids[0], entries: vec![Bytes::from(vec![0; 41])] };
    assert_eq!(call(&mut view, "2pc_queue_commit", &too_much), Err(Errno::EINVAL));
    let commit = CommitOp { id: ids[0], entries: vec![Bytes::from(vec![0; 30])] };
    call(&mut view, "2pc_queue_commit", &commit).unwrap();
    assert_eq!(call(&mut view, "2pc_queue_commit", &commit), Err(Errno::ENOENT));
    let stats = StatsReply::from_bytes(call(&mut view, "2pc_queue_get_topic_stats", &NOTHING).unwrap());
    assert_eq!(stats.unwrap(), StatsReply { bytes: 40, entries: 1 });
    call(&mut view, "2pc_queue_abort", &ReservationId { id: ids[1] }).unwrap();
    call(&mut view, "2pc_queue_abort", &ReservationId { id: ids[1] }).unwrap();
    assert_eq!(reserve(&mut view, 50), Ok(3), "all but the entry is free again");
}

#[test]
fn more_reservations_than_the_head_has_room_for_are_kept() {
    let mut view = queue(1 << 20);
    let ids: Vec<u32> = (0..1_000).map(|_| reserve(&mut view, 1).unwrap()).collect();
    assert_eq!(reservations(&mut view), 1_000);
    for id in ids {
        let commit = CommitOp { id, entries: vec![Bytes::from_static(b"x")] };
        call(&mut view, "2pc_queue_commit", &commit).unwrap();
    }
    assert_eq!(reservations(&mut view), 0);
}

#[test]
fn all_entries_that_are_removed_are_counted_however_many() {
    let mut view = queue(1 << 20);
    let op = ReserveOp { bytes: 1, entries: 70_001 };
    let reply = call(&mut view, "2pc_queue_reserve", &op).unwrap();
    let ReservationId { id } = ReservationId::from_bytes(reply).unwrap();
    let commit = CommitOp { id, entries: vec![Bytes::new(); 70_001] };
    call(&mut view, "2pc_queue_commit", &commit).unwrap();
    // The last entry stays.
    let end_marker = Bytes::from(format!("0/{}", URGENT_BYTES_MAX + 1_024 + 700_000));
    call(&mut view, "2pc_queue_remove_entries", &RemoveOp { end_marker }).unwrap();
    let stats = StatsReply::from_bytes(call(&mut view, "2pc_queue_get_topic_stats", &NOTHING).unwrap());
    assert_eq!(stats.unwrap(), StatsReply { bytes: 10, entries: 1 });
}

#[test]
fn old_reservations_can_be_given_up() {
    let mut view = queue(1_000);
    view.context.now = UTime::new(100, 0);
    reserve(&mut view, 1).unwrap();
    view.context.now = UTime::new(200, 0);
    reserve(&mut view, 1).unwrap();
    call(&mut view, "2pc_queue_expire_reservations", &ExpireOp { stale: UTime::new(150, 0) }).unwrap();
    assert_eq!(reservations(&mut view), 1);
}
