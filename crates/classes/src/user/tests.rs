use bytes::Bytes;
use codec::{Decode, Encode, Features};
use types::{Errno, UTime};

use super::types::{
    Bucket, Entry, GetHeaderReply, Header, ListBucketsOp, ListBucketsReply, RemoveBucketOp, SetBucketsOp,
    Stats, TimeOp,
};
use crate::test_view::TestView;

fn bucket(name: &'static str, placement_id: &'static str) -> Bucket {
    let text = |text: &'static str| Bytes::from_static(text.as_bytes());
    let bucket = Bucket { name: text(name), marker: text("m"), bucket_id: text("id"), ..Bucket::default() };
    if !placement_id.is_empty() {
        return Bucket { placement_id: text(placement_id), ..bucket };
    }
    Bucket { data_pool: text("dp"), index_pool: text("ip"), data_extra_pool: text("ep"), ..bucket }
}

fn entry(name: &'static str, size: u64, count: u64, placement_id: &'static str) -> Entry {
    let bucket = bucket(name, placement_id);
    let mut entry = Entry { bucket, size, size_rounded: 2 * size, count, ..Entry::default() };
    entry.set_creation_time(UTime::new(77, 5));
    entry
}

fn set(view: &mut TestView, entries: Vec<Entry>, add: bool, sec: u32) -> Result<Bytes, Errno> {
    let op = SetBucketsOp { entries, add, time: UTime::new(sec, 0) };
    view.call("user", "set_buckets_info", op.to_bytes(Features::PACIFIC))
}

fn header(view: &mut TestView) -> Header {
    let reply = view.call("user", "get_header", &b"\x01\x01\0\0\0\0"[..]).unwrap();
    GetHeaderReply::from_bytes(reply).unwrap().header
}

fn list(view: &mut TestView, marker: &'static str, max_entries: u32, end: &'static str) -> ListBucketsReply {
    let op = ListBucketsOp { marker: marker.into(), max_entries, end_marker: end.into() };
    let reply = view.call("user", "list_buckets", op.to_bytes(Features::PACIFIC)).unwrap();
    ListBucketsReply::from_bytes(reply).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Bytes that a stock OSD stored for the same calls.
#[test]
fn entries_are_those_of_a_stock_osd() {
    let mut view = TestView::default();
    let both = || vec![entry("a", 10, 3, ""), entry("b", 100, 4, "pl")];
    set(&mut view, both(), false, 50).unwrap();
    assert!(view.omap.is_empty(), "only buckets that are there");
    set(&mut view, both(), true, 60).unwrap();
    assert_eq!(
        hex(&view.omap[&b"a"[..]]),
        "090551000000000000000a000000000000004d0000000300000000000000070322000000010000006102000000\
         6470010000006d0200000069640200000069700200000065701400000000000000014d00000005000000"
    );
    assert_eq!(
        hex(&view.omap[&b"b"[..]]),
        "0905450000000000000064000000000000004d0000000400000000000000090816000000010000006201000000\
         6d02000000696402000000706cc800000000000000014d00000005000000"
    );
    let again = view.omap[&b"b"[..]].clone();
    assert_eq!(Entry::from_bytes(again.clone()).unwrap().to_bytes(Features::PACIFIC), again);
}

#[test]
fn sums_follow_the_buckets() {
    let mut view = TestView::default();
    set(&mut view, vec![entry("a", 10, 3, ""), entry("b", 100, 4, "pl")], true, 60).unwrap();
    let sums = |entries, bytes| Stats { entries, bytes, bytes_rounded: 2 * bytes };
    assert_eq!(header(&mut view).stats, sums(7, 110));
    set(&mut view, vec![entry("a", 11, 5, "")], true, 40).unwrap();
    assert_eq!(header(&mut view).stats, sums(7, 110), "adding a bucket again leaves what it holds");
    set(&mut view, vec![entry("a", 11, 5, "")], false, 40).unwrap();
    assert_eq!(header(&mut view).stats, sums(9, 111));
    assert_eq!(header(&mut view).last_stats_update.sec, 60);
    let remove = RemoveBucketOp { bucket: bucket("a", "") }.to_bytes(Features::PACIFIC);
    view.call("user", "remove_bucket", remove.clone()).unwrap();
    view.call("user", "remove_bucket", remove).unwrap();
    assert_eq!(header(&mut view).stats, sums(4, 100));
    view.header = Bytes::new();
    let time = TimeOp { time: UTime::new(90, 0) }.to_bytes(Features::PACIFIC);
    view.call("user", "reset_user_stats", time).unwrap();
    assert_eq!((header(&mut view).stats, header(&mut view).last_stats_update.sec), (sums(4, 100), 90));
    assert_eq!(set(&mut view, vec![entry("", 1, 1, "")], true, 1).unwrap_err(), Errno::EINVAL);
    view.omap.insert(Bytes::from_static(b"bad"), Bytes::from_static(b"zz"));
    assert_eq!(set(&mut view, vec![entry("bad", 1, 1, "")], true, 1).unwrap_err(), Errno::EIO);
}

#[test]
fn lists_are_cut_where_asked() {
    let mut view = TestView::default();
    set(&mut view, vec![entry("a", 1, 1, ""), entry("b", 1, 1, "pl"), entry("c", 1, 1, "")], true, 1)
        .unwrap();
    for (marker, max_entries, end, count, last, truncated) in [
        ("", 10, "", 3, "", false),
        ("", 2, "", 2, "b", true),
        ("a", 1, "", 1, "b", true),
        ("", 0, "", 0, "", true),
        ("", 10, "b", 1, "", false),
        ("zz", 5, "", 0, "", false),
    ] {
        let reply = list(&mut view, marker, max_entries, end);
        let found = (reply.entries.len(), reply.marker.as_ref(), reply.truncated);
        assert_eq!(found, (count, last.as_bytes(), truncated), "{marker} {max_entries} {end}");
    }
}
