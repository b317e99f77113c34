//! COPY_GET answers what a real OSD answered.

use bytes::Bytes;
use codec::{Encode, Features};
use messages::{OpCode, OpParams, OsdOp};
use types::{EntityNum, Errno, LogEntry, ReqId, SnapId, UTime};

use crate::exec::{PastRequest, past_of};

use super::bench::{Bench, encoded, entries, extent, plain, step, xattr};

const CAPTURED: &str = include_str!("../../../testdata/copy_get.tsv");

/// The captured answer to what the file names `what`.
fn captured(what: &str) -> Vec<u8> {
    let line = CAPTURED.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix('\t'));
    let digits: Vec<u32> = line.unwrap().chars().map(|c| c.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

/// Asks for what is behind a cursor, `max` bytes of it.
pub(super) fn copy_get(
    attrs: bool,
    offset: u64,
    data: bool,
    key: &'static str,
    omap: bool,
    max: u64,
) -> OsdOp {
    let cursor = ((attrs, offset), (data, Bytes::from(key), omap));
    let cursor = cursor.to_bytes(Features::default());
    let front = [&[1, 1][..], &(cursor.len() as u32).to_le_bytes(), &cursor, &max.to_le_bytes()];
    step(OpCode::COPY_GET, OpParams::default(), front.concat())
}

fn past(tid: u64, user_version: u64, error: Option<i32>) -> PastRequest {
    let reqid = ReqId { name: EntityNum::client(0x1030), tid, inc: 0 };
    PastRequest { reqid, user_version, error }
}

/// The object that was there when the answers were captured.
fn bench() -> Bench {
    let mut bench = Bench::new();
    let mut request = bench.request(
        "o",
        SnapId::HEAD,
        vec![
            extent(OpCode::WRITE, 0, "0123456789abcdefghij"),
            extent(OpCode::WRITE, 30, "XY"),
            xattr(OpCode::SETXATTR, "k1", "v1"),
            xattr(OpCode::SETXATTR, "k2", "v2"),
            encoded(
                OpCode::OMAPSETVALS,
                entries(&[("a", "value-a"), ("bb", "value-bb"), ("ccc", "value-ccc")]),
            ),
            step(OpCode::OMAPSETHEADER, OpParams::default(), "head"),
        ],
    );
    request.mtime = mtime("whole");
    bench.execute(&request).unwrap();
    bench.ctx.past = vec![past(2, 1, None)];
    bench
}

/// Behind the envelope and the size.
fn mtime(what: &str) -> UTime {
    let bytes = captured(what);
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    UTime { sec: word(14), nsec: word(18) }
}

fn assert_answer(bench: &mut Bench, snapid: SnapId, op: OsdOp, what: &str) {
    let done = bench.at(snapid, vec![op]).unwrap();
    assert_eq!(done.ops[0].data, captured(what), "{what}");
}

#[test]
fn an_object_comes_whole_or_in_pieces() {
    let (mut bench, head) = (bench(), SnapId::HEAD);
    assert_answer(&mut bench, head, copy_get(false, 0, false, "", false, 1 << 20), "whole");
    assert_answer(&mut bench, head, copy_get(false, 0, false, "", false, 5), "five bytes");
    assert_answer(&mut bench, head, copy_get(true, 25, false, "", false, 8), "data and omap");
    assert_answer(&mut bench, head, copy_get(true, 32, true, "a", false, 40), "rest of omap");
    bench.ctx.past.insert(0, past(23, 0, Some(-17)));
    assert_answer(&mut bench, head, copy_get(true, 32, true, "", true, 400), "nothing left");
}

#[test]
fn a_snapshot_comes_with_the_snapshots_of_its_clone() {
    let mut bench = bench();
    bench.make_snap(4);
    bench.make_snap(7);
    bench.put("new");
    assert_answer(&mut bench, SnapId(7), copy_get(false, 0, false, "", false, 1 << 20), "snapshot");
}

#[test]
fn what_is_not_there_has_a_past() {
    let mut bench = Bench::new();
    for (requests, what) in [(vec![], "never there"), (vec![past(20, 3, None), past(19, 2, None)], "gone")] {
        bench.ctx.past = requests;
        let done = bench.run(vec![copy_get(false, 0, false, "", false, 1 << 20)]).unwrap();
        assert_eq!((done.result, done.ops[0].result, done.user_version), (-2, -2, 0));
        assert_eq!(done.ops[0].data, captured(what), "{what}");
    }
    // As the second op it is refused as any other.
    let second = vec![plain(OpCode::STAT), copy_get(false, 0, false, "", false, 1 << 20)];
    assert_eq!(bench.run(second).unwrap_err(), Errno::ENOENT);
    bench.ctx.past.clear();
    for (has_attrs, result) in [(true, 0), (false, -2)] {
        let copy = copy_get(has_attrs, 0, false, "", false, 20);
        let done = bench.run(vec![copy, plain(OpCode::SETALLOCHINT)]).unwrap();
        assert_eq!(done.ops[0].result, result, "it is empty and has no xattrs");
        bench.result(vec![plain(OpCode::DELETE)]);
    }
}

#[test]
fn cursors_that_make_no_sense_are_refused() {
    let mut bench = bench();
    let einval = Errno::EINVAL.negated();
    assert_eq!(bench.result(vec![plain(OpCode::COPY_GET)]), einval);
    // Ends an OSD of Ceph.
    assert_eq!(bench.result(vec![copy_get(true, 40, false, "", false, 8)]), einval);
}

#[test]
fn the_past_is_the_objects_own_newest_first() {
    let bench = Bench::new();
    let entry = |name: &str, tid: u64, is_error: bool| LogEntry {
        object: Bench::object(name),
        reqid: past(tid, 0, None).reqid,
        user_version: tid,
        result: if is_error { -17 } else { 0 },
        is_error,
        ..LogEntry::default()
    };
    let unnamed = LogEntry { reqid: ReqId::default(), ..entry("o", 4, false) };
    let log = [entry("o", 1, false), entry("p", 2, false), entry("o", 3, true), unnamed];
    let asks = |ops| past_of(&Bench::object("o"), &bench.request("o", SnapId::HEAD, ops), log.iter().rev());
    assert_eq!(asks(vec![plain(OpCode::COPY_GET)]), [past(3, 0, Some(-17)), past(1, 1, None)]);
    assert_eq!(asks(vec![plain(OpCode::STAT)]), []);
}
