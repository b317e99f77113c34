use bytes::Bytes;
use codec::{Decode, Encode, Features};
use types::Errno;

use super::types::{EnqueueOp, InitOp, ListOp, ListReply, RemoveOp};
use crate::test_view::TestView;

fn queue(bytes: u64) -> TestView {
    let mut view = TestView { exists: true, ..TestView::default() };
    let op = InitOp { bytes, urgent_bytes_max: 0, urgent: Bytes::new() };
    call(&mut view, "queue_init", &op).unwrap();
    view
}

fn call(view: &mut TestView, name: &str, op: &impl Encode) -> Result<Bytes, Errno> {
    view.call("queue", name, op.to_bytes(Features::PACIFIC))
}

fn enqueue(view: &mut TestView, entries: &[&'static str]) -> Result<Bytes, Errno> {
    let entries = entries.iter().map(|e| Bytes::from_static(e.as_bytes())).collect();
    call(view, "queue_enqueue", &EnqueueOp { entries })
}

fn list(view: &mut TestView, max: u64, start_marker: Bytes) -> ListReply {
    let op = ListOp { max, start_marker, end_marker: Bytes::new() };
    ListReply::from_bytes(call(view, "queue_list_entries", &op).unwrap()).unwrap()
}

fn texts(reply: &ListReply) -> Vec<&[u8]> {
    reply.entries.iter().map(|e| e.data.as_ref()).collect()
}

#[test]
fn entries_come_in_order_page_by_page_and_leave_from_the_front() {
    let mut view = queue(1000);
    enqueue(&mut view, &["one", "two", "three"]).unwrap();
    let first = list(&mut view, 2, Bytes::new());
    assert_eq!((texts(&first), first.is_truncated), (vec![&b"one"[..], b"two"], true));
    assert_eq!(first.entries[0].marker, "0/1024");
    let rest = list(&mut view, 9, first.next_marker.clone());
    assert_eq!((texts(&rest), rest.is_truncated), (vec![&b"three"[..]], false));
    call(&mut view, "queue_remove_entries", &RemoveOp { end_marker: first.next_marker }).unwrap();
    assert_eq!(texts(&list(&mut view, 9, Bytes::new())), [b"three"]);
    let nonsense = RemoveOp { end_marker: Bytes::from_static(b"7/7") };
    assert_eq!(call(&mut view, "queue_remove_entries", &nonsense), Err(Errno::EINVAL));
}

#[test]
fn the_ring_goes_on_at_its_beginning_and_is_never_overfull() {
    // Room for two entries of four bytes, and for three bytes of a third.
    let mut view = queue(31);
    for round in 0..40 {
        enqueue(&mut view, &["abcd", "efgh"]).unwrap();
        assert_eq!(enqueue(&mut view, &["ijkl"]), Err(Errno::ENOSPC), "round {round}");
        let all = list(&mut view, 9, Bytes::new());
        assert_eq!(texts(&all), [b"abcd", b"efgh"], "round {round}");
        call(&mut view, "queue_remove_entries", &RemoveOp { end_marker: all.next_marker }).unwrap();
        assert!(list(&mut view, 9, Bytes::new()).entries.is_empty());
    }
}

#[test]
fn a_queue_is_made_once_with_its_object_if_need_be() {
    let mut view = queue(100);
    let op = InitOp { bytes: 1, urgent_bytes_max: 0, urgent: Bytes::new() };
    assert_eq!(call(&mut view, "queue_init", &op), Err(Errno::EEXIST));
    let mut absent = TestView::default();
    assert_eq!(enqueue(&mut absent, &["abcd"]), Err(Errno::EINVAL));
    assert!(call(&mut absent, "queue_init", &op).is_ok() && absent.exists);
}

#[test]
fn a_head_that_does_not_fit_before_the_ring_is_refused() {
    let init = |urgent_bytes_max: u64, urgent_bytes: usize| {
        let urgent = Bytes::from(vec![7; urgent_bytes]);
        call(&mut TestView::default(), "queue_init", &InitOp { bytes: 100, urgent_bytes_max, urgent })
    };
    assert!(init(0, 900).is_ok());
    assert_eq!(init(0, 1024), Err(Errno::EINVAL));
    assert!(init(1024, 1024).is_ok());
}

/// However many there are: entries without data take memory, too.
#[test]
fn a_list_has_so_many_entries_and_says_that_there_are_more() {
    let mut view = queue(1 << 20);
    enqueue(&mut view, &[""; 70_000]).unwrap();
    let first = list(&mut view, u64::MAX, Bytes::new());
    assert_eq!((first.entries.len(), first.is_truncated), (65_536, true));
    let rest = list(&mut view, u64::MAX, first.next_marker);
    assert_eq!((rest.entries.len(), rest.is_truncated), (4_464, false));
    // There is room for 34,857 more.
    assert_eq!(enqueue(&mut view, &[""; 34_858]), Err(Errno::ENOSPC));
    enqueue(&mut view, &[""; 34_857]).unwrap();
}
