use bytes::Bytes;
use codec::{Decode, Encode, Features};
use types::{Errno, UTime};

use super::types::{AddOp, Entry, Header, InfoReply, ListOp, ListReply, Monotonic, TrimOp};
use crate::test_view::TestView;

fn entry(sec: u32, nsec: u32, id: &'static str) -> Entry {
    Entry { timestamp: UTime::new(sec, nsec), id: Bytes::from_static(id.as_bytes()), ..Entry::default() }
}

fn add(view: &mut TestView, entries: Vec<Entry>, monotonic_inc: bool) {
    let op = AddOp { entries, monotonic_inc: Monotonic(monotonic_inc) };
    view.call("log", "add", op.to_bytes(Features::PACIFIC)).unwrap();
}

fn list(view: &mut TestView, from: u32, marker: &'static str, to: u32, max_entries: u32) -> ListReply {
    let op = ListOp {
        from_time: UTime::new(from, 0),
        marker: Bytes::from_static(marker.as_bytes()),
        to_time: UTime::new(to, 0),
        max_entries,
    };
    ListReply::from_bytes(view.call("log", "list", op.to_bytes(Features::PACIFIC)).unwrap()).unwrap()
}

fn trim(view: &mut TestView, to: u32, to_marker: &'static str) -> Result<Bytes, Errno> {
    let op = TrimOp {
        from_time: UTime::default(),
        to_time: UTime::new(to, 0),
        from_marker: Bytes::new(),
        to_marker: Bytes::from_static(to_marker.as_bytes()),
    };
    view.call("log", "trim", op.to_bytes(Features::PACIFIC))
}

fn keys(view: &TestView) -> Vec<&str> {
    view.omap.keys().map(|key| std::str::from_utf8(key).unwrap()).collect()
}

#[test]
fn keys_that_the_osd_makes_never_go_back_in_time() {
    let mut view = TestView::default();
    view.context.current_version = 2;
    add(&mut view, vec![entry(10, 1_234_567, "id1"), entry(5, 0, ""), entry(5, 0, "")], true);
    assert_eq!(keys(&view), ["1_0000000010.001234_2.1", "1_0000000010.001234_2.2", "id1"]);
    assert_eq!(view.changes, 2, "the entries together, and the header");
    let info = view.call("log", "info", &b"\x01\x01\0\0\0\0"[..]).unwrap();
    let header = Header { max_marker: Bytes::from_static(b"id1"), max_time: UTime::new(10, 1_234_567) };
    assert_eq!(InfoReply::from_bytes(info).unwrap().header, header);
    add(&mut view, vec![entry(5, 0, "")], false);
    assert_eq!(keys(&view)[0], "1_0000000005.000000_2.0");
}

/// Answers that a stock OSD gave.
#[test]
fn lists_end_where_they_do_on_a_stock_osd() {
    let mut view = TestView::default();
    let ids =
        ["1_0000000005.000000_1", "1_0000000006.000000_1", "1_0000000007.000000_1", "1_0000000008.000000_1"];
    add(&mut view, ids.iter().zip(5..).map(|(id, sec)| entry(sec, 0, id)).collect(), false);
    for (asked, count, marker, truncated) in [
        ((5, "", 7, 0), 2, ids[2], false),
        ((5, "", 7, 1), 1, ids[0], true),
        ((6, "", 6, 0), 0, ids[1], false),
        ((0, "", 7, 0), 4, ids[3], false),
        ((7, "", 3, 0), 2, ids[3], false),
        ((0, ids[1], 0, 1), 1, ids[2], true),
    ] {
        let reply = list(&mut view, asked.0, asked.1, asked.2, asked.3);
        let found = (reply.entries.len(), reply.marker.as_ref(), reply.truncated);
        assert_eq!(found, (count, marker.as_bytes(), truncated), "{asked:?}");
    }
}

#[test]
fn a_trim_takes_all_up_to_its_end() {
    let mut view = TestView::default();
    let ids = ["1_0000000006.000000_1", "1_0000000007.000000_1", "1_0000000008.000000_1"];
    add(&mut view, ids.iter().zip(6..).map(|(id, sec)| entry(sec, 0, id)).collect(), false);
    assert_eq!(trim(&mut view, 2, "").unwrap_err(), Errno::ENODATA);
    trim(&mut view, 6, "").unwrap();
    trim(&mut view, 0, ids[1]).unwrap();
    assert_eq!(keys(&view), [ids[2]]);
}
