//! Ops on data, xattrs and omap, alone and together.

use std::collections::BTreeMap;

use bytes::Bytes;
use codec::{Decode, Encode, Features};
use messages::{OpCode, OsdOp, op_flag};
use types::{Errno, UTime};

use super::bench::{
    Bench, call, compared_xattr, encoded, entries, extent, has_changed, plain, range, step, truncated, xattr,
};

fn flagged(op: OsdOp, flags: u32) -> OsdOp {
    OsdOp { flags, ..op }
}

fn size_of(bench: &mut Bench) -> Option<u64> {
    let done = bench.run(vec![plain(OpCode::STAT)]).ok()?;
    Some(<(u64, UTime)>::from_bytes(done.ops[0].data.clone()).unwrap().0)
}

#[test]
fn writes_do_to_the_size_what_they_do_in_ceph() {
    const MAX: u64 = 128 << 20;
    let check = |before: Option<&'static str>, op: OsdOp, result: i32, size: Option<u64>| {
        let mut bench = Bench::new();
        before.into_iter().for_each(|data| bench.put(data));
        let what = format!("{op:?} on {before:?}");
        assert_eq!(bench.result(vec![op]), result, "{what}");
        assert_eq!(size_of(&mut bench), size, "{what}");
    };
    let ten = Some("0123456789");
    check(None, extent(OpCode::WRITE, 5, "abc"), 0, Some(8));
    check(None, extent(OpCode::WRITE, 100, ""), 0, Some(100));
    check(ten, extent(OpCode::WRITE, 4, ""), 0, Some(10));
    check(ten, extent(OpCode::WRITEFULL, 0, "abc"), 0, Some(3));
    check(ten, extent(OpCode::APPEND, 0, "abc"), 0, Some(13));
    check(None, extent(OpCode::APPEND, 0, "abc"), 0, Some(3));
    check(ten, range(OpCode::TRUNCATE, 3, 0), 0, Some(3));
    check(ten, range(OpCode::TRUNCATE, 30, 0), 0, Some(30));
    check(None, range(OpCode::TRUNCATE, 3, 0), 0, None);
    // Zeros at the end are cut off.
    check(ten, range(OpCode::ZERO, 4, 100), 0, Some(4));
    check(ten, range(OpCode::ZERO, 4, 2), 0, Some(10));
    check(ten, range(OpCode::ZERO, 40, 100), 0, Some(10));
    // Even far beyond the end.
    check(ten, range(OpCode::ZERO, 4, MAX), 0, Some(4));
    check(ten, range(OpCode::ZERO, MAX - 1, 100), 0, Some(10));
    check(None, range(OpCode::ZERO, MAX - 1, 100), -27, None);
    check(None, range(OpCode::ZERO, 4, 2), 0, None);
    // Sizes have a limit, and nothing begins there.
    check(None, extent(OpCode::WRITE, MAX - 1, "x"), 0, Some(MAX));
    check(None, extent(OpCode::WRITE, MAX - 1, "xy"), -27, None);
    check(None, extent(OpCode::WRITE, MAX, ""), -27, None);
    check(None, extent(OpCode::WRITE, u64::MAX, "x"), -27, None);
    check(ten, range(OpCode::TRUNCATE, MAX, 0), -27, Some(10));
    check(ten, range(OpCode::ZERO, MAX, 1), -27, Some(10));
    check(None, plain(OpCode::CREATE), 0, Some(0));
    check(ten, plain(OpCode::CREATE), 0, Some(10));
    check(ten, flagged(plain(OpCode::CREATE), op_flag::EXCL), -17, Some(10));
    check(ten, plain(OpCode::DELETE), 0, None);
    check(None, plain(OpCode::DELETE), -2, None);
    check(None, plain(OpCode::SETALLOCHINT), 0, Some(0));
}

#[test]
fn lengths_have_to_be_those_of_the_data() {
    for code in [OpCode::WRITE, OpCode::WRITEFULL, OpCode::APPEND] {
        let op = step(code, messages::OpParams::extent(0, 4), "abc");
        assert_eq!(Bench::new().result(vec![op]), -22);
    }
}

#[test]
fn write_same_repeats_its_data() {
    let same = |len: u64, unit: u64, data: &'static str| {
        let parts = [0u64.to_le_bytes(), len.to_le_bytes(), unit.to_le_bytes()];
        let params = messages::OpParams::from_parts(&[&parts[0], &parts[1], &parts[2]]);
        step(OpCode::WRITESAME, params, data)
    };
    let mut bench = Bench::new();
    assert_eq!(bench.result(vec![same(6, 2, "ab")]), 0);
    assert_eq!(bench.read(), Ok(Bytes::from("ababab")));
    assert_eq!(bench.result(vec![same(5, 2, "ab")]), -22);
    assert_eq!(bench.result(vec![same(6, 3, "ab")]), -22);
    assert_eq!(bench.result(vec![same(0, 0, "")]), 0);
    assert_eq!(bench.result(vec![same(1 << 62, 2, "ab")]), -27);
}

#[test]
fn truncations_and_writes_pass_each_other() {
    let mut bench = Bench::new();
    bench.put("0123456789");
    // The write knows of a truncation to 4 that has not come.
    assert_eq!(bench.result(vec![truncated(extent(OpCode::WRITE, 1, "x"), 2, 4)]), 0);
    assert_eq!(bench.read(), Ok(Bytes::from("0x23")));
    // The truncation comes, and has been done already.
    assert_eq!(bench.result(vec![truncated(range(OpCode::TRUNCATE, 4, 0), 2, 4)]), 0);
    // A write from before it may not bring back what was cut off.
    assert_eq!(bench.result(vec![truncated(extent(OpCode::WRITE, 2, "abcdef"), 1, 0)]), 0);
    assert_eq!(bench.read(), Ok(Bytes::from("0xab")));
    // A reader that knows of a newer one sees no further.
    let done = bench.run(vec![truncated(range(OpCode::READ, 0, 4), 3, 2)]).unwrap();
    assert_eq!(done.ops[0].data, "0x");
    // A write may know of one to the largest size.
    let max = 128 << 20;
    assert_eq!(bench.result(vec![truncated(extent(OpCode::WRITE, 0, "y"), 4, max + 1)]), -27);
    assert_eq!(bench.result(vec![truncated(extent(OpCode::WRITE, 0, "y"), 4, max)]), 0);
    assert_eq!(size_of(&mut bench), Some(max));
}

/// As in Ceph (`_delete_oid`), where an object that is gone for good is all that forgets it.
#[test]
fn a_truncation_is_known_for_as_long_as_anything_is_left_of_the_object() {
    let old_write = || truncated(extent(OpCode::WRITE, 0, "x"), 1, 0);
    for (has_snap, deletion, content) in [
        (false, vec![plain(OpCode::DELETE)], "x"),
        (false, vec![plain(OpCode::DELETE), plain(OpCode::CREATE)], ""),
        (true, vec![plain(OpCode::DELETE)], ""),
    ] {
        let mut bench = Bench::new();
        bench.put("0123456789");
        assert_eq!(bench.result(vec![truncated(extent(OpCode::WRITE, 0, "y"), 2, 4)]), 0);
        if has_snap {
            bench.make_snap(1);
        }
        assert_eq!(bench.result(deletion.clone()), 0);
        assert_eq!(bench.result(vec![old_write()]), 0);
        assert_eq!(bench.read(), Ok(Bytes::from(content)), "{has_snap} {deletion:?}");
    }
}

#[test]
fn reads_echo_what_they_read() {
    let mut bench = Bench::new();
    bench.put("0123456789");
    let done = bench.run(vec![range(OpCode::READ, 4, 100)]).unwrap();
    assert_eq!((done.ops[0].data.as_ref(), done.ops[0].params.length()), (&b"456789"[..], 6));
    let done = bench.run(vec![range(OpCode::READ, 40, 100)]).unwrap();
    assert_eq!((done.result, done.ops[0].data.len(), done.ops[0].params.length()), (0, 0, 0));
    let done = bench.run(vec![range(OpCode::SPARSE_READ, 4, 100)]).unwrap();
    let (extents, data) = <(BTreeMap<u64, u64>, Bytes)>::from_bytes(done.ops[0].data.clone()).unwrap();
    assert_eq!((extents, data), ([(4, 6)].into(), Bytes::from("456789")));
    let done = bench.run(vec![range(OpCode::MAPEXT, 4, 100)]).unwrap();
    let extents = <BTreeMap<u64, u64>>::from_bytes(done.ops[0].data.clone()).unwrap();
    assert_eq!(extents, [(4, 6)].into());
}

#[test]
fn comparisons_tell_where_they_fail() {
    let mut bench = Bench::new();
    bench.put("abc");
    assert_eq!(bench.result(vec![extent(OpCode::CMPEXT, 0, "abc")]), 0);
    assert_eq!(bench.result(vec![extent(OpCode::CMPEXT, 0, "abx")]), -4097);
    assert_eq!(bench.result(vec![extent(OpCode::CMPEXT, 1, "bc\0")]), 0);
    assert_eq!(bench.result(vec![extent(OpCode::CMPEXT, 9, "x")]), -4095);
    // A failed comparison keeps the rest from happening.
    assert_eq!(bench.result(vec![extent(OpCode::CMPEXT, 0, "x"), extent(OpCode::WRITE, 0, "y")]), -4095);
    assert_eq!(bench.read(), Ok(Bytes::from("abc")));
    // What is not there is zeros.
    let mut none = Bench::new();
    assert_eq!(none.result(vec![extent(OpCode::CMPEXT, 0, "\0\0"), extent(OpCode::WRITE, 0, "y")]), 0);
}

#[test]
fn checksums_come_in_chunks() {
    let mut bench = Bench::new();
    bench.put("0123456789abcdef");
    let mut check = |kind: u8, offset: u64, len: u64, chunk: u32, init: &'static [u8]| {
        let parts = [offset.to_le_bytes(), len.to_le_bytes()];
        let params = messages::OpParams::from_parts(&[&parts[0], &parts[1], &chunk.to_le_bytes(), &[kind]]);
        let done = bench.run(vec![step(OpCode::CHECKSUM, params, init)]).unwrap();
        (done.result, done.ops[0].data.clone())
    };
    // All observed.
    assert_eq!(check(0, 0, 16, 0, &[0; 4]), (0, Bytes::from_static(b"\x01\0\0\0i[\xc4\xc2")));
    assert_eq!(check(0, 0, 0, 0, &[0; 4]), (0, Bytes::from_static(b"\x01\0\0\0i[\xc4\xc2")));
    let last = b"\x02\0\0\0\x15\xfd\xed\xae\xb7\xae@\xdf";
    assert_eq!(check(0, 8, 16, 4, &[0; 4]), (0, Bytes::from_static(last)));
    assert_eq!(check(1, 0, 16, 0, &[0; 8]), (0, Bytes::from_static(b"\x01\0\0\0\x0bm7N\xc3\x90[\\")));
    assert_eq!(check(2, 8, 16, 0, &[255; 4]), (0, Bytes::from_static(b"\x01\0\0\0y\x1e\";")));
    assert_eq!(check(0, 100, 16, 0, &[0; 4]), (0, Bytes::new()));
    assert_eq!(check(3, 100, 16, 0, &[0; 4]), (0, Bytes::new()));
    assert_eq!(check(0, 0, 16, 5, &[0; 4]).0, -22);
    assert_eq!(check(0, 0, 0, 4, &[0; 4]).0, -22);
    assert_eq!(check(1, 0, 16, 0, &[0; 4]).0, -22);
    assert_eq!(check(3, 0, 16, 0, &[0; 4]).0, -22);
}

/// As in Ceph (`do_osd_ops`), which takes back nothing of what a method did.
#[test]
fn a_failed_method_that_may_fail_leaves_what_it_did_before_it_failed() {
    let mut bench = Bench::new();
    let id = "no id!".to_owned().to_bytes(Features::default());
    let name = "image".to_owned().to_bytes(Features::default());
    let add = flagged(call("rbd", "dir_add_image", &[&name[..], &id].concat()), op_flag::FAILOK);
    let done = bench.run(vec![add]).unwrap();
    assert_eq!((done.result, done.ops[0].result), (0, -22));
    assert_eq!(size_of(&mut bench), Some(0), "the method makes the object before it looks at the id");
}

#[test]
fn a_comparisons_result_stays_with_ops_that_have_none_of_their_own() {
    let mut bench = Bench::new();
    assert_eq!(bench.result(vec![xattr(OpCode::SETXATTR, "n", "12")]), 0);
    let guard = || compared_xattr(OpCode::CMPXATTR, "n", b"12", 1, 1);
    // Observed, all.
    let done = bench.run(vec![plain(OpCode::STAT), guard(), plain(OpCode::STAT)]).unwrap();
    let results: Vec<i32> = done.ops.iter().map(|op| op.result).collect();
    assert_eq!((done.result, results), (1, vec![0, 1, 1]));
    assert_eq!(bench.result(vec![guard(), range(OpCode::READ, 0, 5)]), 0);
    assert_eq!(bench.result(vec![guard(), extent(OpCode::WRITE, 0, "x")]), 0);
    // Zeros have nothing to do behind the end.
    for (offset, result) in [(0, 0), (1, 1), (50, 1)] {
        let done = bench.run(vec![guard(), range(OpCode::ZERO, offset, 9)]).unwrap();
        assert_eq!((done.result, done.ops[1].result), (result, result), "{offset}");
        bench.put("x");
    }
}

#[test]
fn clearing_an_empty_omap_is_no_change() {
    let mut bench = Bench::new();
    bench.put("x");
    assert!(!has_changed(&bench.run(vec![plain(OpCode::OMAPCLEAR)]).unwrap()));
    assert_eq!(bench.result(vec![encoded(OpCode::OMAPSETVALS, entries(&[("", "1")]))]), 0);
    assert!(has_changed(&bench.run(vec![plain(OpCode::OMAPCLEAR)]).unwrap()));
    assert!(!has_changed(&bench.run(vec![plain(OpCode::OMAPCLEAR)]).unwrap()));
}

/// Observed with 16.2.15.
#[test]
fn nothing_in_place_of_nothing_is_no_change() {
    let mut bench = Bench::new();
    assert!(has_changed(&bench.run(vec![extent(OpCode::WRITEFULL, 0, "")]).unwrap()));
    assert!(!has_changed(&bench.run(vec![extent(OpCode::WRITEFULL, 0, "")]).unwrap()));
}

/// Observed with 16.2.15.
#[test]
fn keys_that_cannot_be_read_and_may_fail_still_make_the_object() {
    let mut bench = Bench::new();
    let broken = flagged(encoded(OpCode::OMAPSETVALS, 7u32), messages::op_flag::FAILOK);
    let exclusive = messages::OsdOp { flags: 1, ..plain(OpCode::CREATE) };
    assert_eq!(bench.result(vec![broken, exclusive]), Errno::EEXIST.negated());
}

#[test]
fn xattrs_are_kept_compared_and_removed() {
    let mut bench = Bench::new();
    assert_eq!(bench.result(vec![xattr(OpCode::SETXATTR, "k", "12")]), 0);
    let done = bench.run(vec![xattr(OpCode::GETXATTR, "k", "")]).unwrap();
    assert_eq!((done.ops[0].data.as_ref(), done.ops[0].params.u32_at(4)), (&b"12"[..], 2));
    let done = bench.run(vec![plain(OpCode::GETXATTRS)]).unwrap();
    assert_eq!(
        <BTreeMap<Bytes, Bytes>>::from_bytes(done.ops[0].data.clone()).unwrap(),
        entries(&[("k", "12")])
    );
    assert_eq!(bench.result(vec![xattr(OpCode::GETXATTR, "x", "")]), -61);
    assert_eq!(bench.result(vec![xattr(OpCode::SETXATTR, &"n".repeat(101), "")]), -36);
    assert_eq!(bench.result(vec![xattr(OpCode::SETXATTR, "large", &"v".repeat(5 << 20))]), 0);
    let text = |op| compared_xattr(OpCode::CMPXATTR, "k", b"12", op, 1);
    let results: Vec<i32> = (1..=7).map(|op| bench.result(vec![text(op)])).collect();
    assert_eq!(results, [1, -125, -125, 1, -125, 1, -22]);
    let number = |n: u64, op| compared_xattr(OpCode::CMPXATTR, "k", &n.to_le_bytes(), op, 2);
    // The operator stands between the given value and the stored one.
    assert_eq!(bench.result(vec![number(12, 1)]), 1);
    assert_eq!(bench.result(vec![number(13, 3)]), 1);
    assert_eq!(bench.result(vec![number(11, 3)]), -125);
    for (text, value) in [
        ("-1", u64::MAX),
        ("-18446744073709551615", 1),
        ("18446744073709551616", u64::MAX),
        ("-99999999999999999999", u64::MAX),
        (" \t\n\u{b}\u{c}\r+7x", 7),
        ("--1", 0),
        ("", 0),
    ] {
        assert_eq!(bench.result(vec![xattr(OpCode::SETXATTR, "k", text)]), 0);
        assert_eq!(bench.result(vec![number(value, 1)]), 1, "{text:?}");
    }
    assert_eq!(bench.result(vec![xattr(OpCode::RMXATTR, "k", "")]), 0);
    assert_eq!(bench.result(vec![xattr(OpCode::RMXATTR, "k", "")]), 0);
    assert_eq!(bench.result(vec![xattr(OpCode::GETXATTR, "k", "")]), -61);
    assert_eq!(Bench::new().result(vec![xattr(OpCode::RMXATTR, "k", "")]), -2);
    let guard = compared_xattr(OpCode::CMPXATTR, "k", b"", 1, 1);
    assert_eq!(Bench::new().result(vec![guard, extent(OpCode::WRITE, 0, "y")]), -2);
}

#[test]
fn omap_is_read_in_pages() {
    type Page = (BTreeMap<Bytes, Bytes>, bool);
    let mut bench = Bench::new();
    let all = entries(&[("a", "1"), ("b1", "2"), ("b2", "3"), ("c", "4")]);
    assert_eq!(bench.result(vec![encoded(OpCode::OMAPSETVALS, all)]), 0);
    let mut page = |after: &'static str, count: u64, prefix: &'static str| {
        let input = (Bytes::from(after), count, Bytes::from(prefix));
        let done = bench.run(vec![encoded(OpCode::OMAPGETVALS, input)]).unwrap();
        Page::from_bytes(done.ops[0].data.clone()).unwrap()
    };
    assert_eq!(page("", 2, ""), (entries(&[("a", "1"), ("b1", "2")]), true));
    assert_eq!(page("b1", 9, ""), (entries(&[("b2", "3"), ("c", "4")]), false));
    assert_eq!(page("", 9, "b"), (entries(&[("b1", "2"), ("b2", "3")]), false));
    assert_eq!(page("", 1, "b"), (entries(&[("b1", "2")]), true));
    assert_eq!(page("b1", 9, "b"), (entries(&[("b2", "3")]), false));
    assert_eq!(page("", 0, ""), (entries(&[]), true));
    let done = bench.run(vec![encoded(OpCode::OMAPGETKEYS, (Bytes::from("a"), 1u64))]).unwrap();
    let keys = <(Vec<Bytes>, bool)>::from_bytes(done.ops[0].data.clone()).unwrap();
    assert_eq!(keys, (vec![Bytes::from("b1")], true));
    let wanted = vec![Bytes::from("c"), Bytes::from("x")];
    let done = bench.run(vec![encoded(OpCode::OMAPGETVALSBYKEYS, wanted)]).unwrap();
    assert_eq!(
        <BTreeMap<Bytes, Bytes>>::from_bytes(done.ops[0].data.clone()).unwrap(),
        entries(&[("c", "4")])
    );
}

#[test]
fn omap_is_changed_by_key_range_and_all_at_once() {
    let mut bench = Bench::new();
    let keys = |bench: &mut Bench| {
        let done = bench.run(vec![encoded(OpCode::OMAPGETKEYS, (Bytes::new(), 99u64))]).unwrap();
        let keys = <(Vec<String>, bool)>::from_bytes(done.ops[0].data.clone()).unwrap();
        keys.0.concat()
    };
    let all = entries(&[("a", ""), ("b", ""), ("c", ""), ("d", ""), ("e", "")]);
    assert_eq!(bench.result(vec![encoded(OpCode::OMAPSETVALS, all)]), 0);
    assert_eq!(bench.result(vec![encoded(OpCode::OMAPRMKEYS, vec![Bytes::from("a"), Bytes::from("x")])]), 0);
    assert_eq!(keys(&mut bench), "bcde");
    let removed = (Bytes::from("c"), Bytes::from("e"));
    assert_eq!(bench.result(vec![encoded(OpCode::OMAPRMKEYRANGE, removed)]), 0);
    assert_eq!(keys(&mut bench), "be");
    assert_eq!(bench.result(vec![step(OpCode::OMAPSETHEADER, Default::default(), "head")]), 0);
    let done = bench.run(vec![plain(OpCode::OMAPGETHEADER)]).unwrap();
    assert_eq!(done.ops[0].data, "head");
    assert_eq!(bench.result(vec![plain(OpCode::OMAPCLEAR)]), 0);
    assert_eq!(keys(&mut bench), "");
    let done = bench.run(vec![plain(OpCode::OMAPGETHEADER)]).unwrap();
    assert_eq!(done.ops[0].data, "");
    for code in [OpCode::OMAPCLEAR, OpCode::OMAPRMKEYS, OpCode::OMAPRMKEYRANGE] {
        assert_eq!(Bench::new().result(vec![plain(code)]), -2);
    }
    assert_eq!(bench.result(vec![plain(OpCode::OMAPSETVALS)]), -22);
}

#[test]
fn omap_values_are_compared() {
    let mut bench = Bench::new();
    assert_eq!(bench.result(vec![encoded(OpCode::OMAPSETVALS, entries(&[("k", "m")]))]), 0);
    let mut check = |key: &'static str, value: &'static str, op: i32| {
        let wanted: BTreeMap<Bytes, (Bytes, i32)> = [(Bytes::from(key), (Bytes::from(value), op))].into();
        bench.result(vec![encoded(OpCode::OMAP_CMP, wanted)])
    };
    // Here the operator stands between the stored value and the given one.
    assert_eq!(check("k", "m", 1), 0);
    assert_eq!(check("k", "n", 1), -125);
    assert_eq!(check("k", "a", 3), 0);
    assert_eq!(check("k", "z", 5), 0);
    assert_eq!(check("x", "", 1), 0);
    assert_eq!([check("k", "m", 2), check("k", "m", 4), check("k", "m", 6)], [-22; 3]);
}

#[test]
fn ops_see_what_those_before_them_did() {
    let mut bench = Bench::new();
    bench.return_outputs();
    let done = bench
        .run(vec![
            extent(OpCode::WRITEFULL, 0, "0123456789"),
            range(OpCode::ZERO, 2, 3),
            extent(OpCode::WRITE, 12, "ab"),
            range(OpCode::READ, 0, 0),
            xattr(OpCode::SETXATTR, "k", "v"),
            xattr(OpCode::GETXATTR, "k", ""),
            plain(OpCode::DELETE),
            extent(OpCode::APPEND, 0, "new"),
            range(OpCode::READ, 0, 0),
            plain(OpCode::GETXATTRS),
        ])
        .unwrap();
    assert_eq!(done.result, 0);
    assert_eq!(done.ops[3].data.as_ref(), b"01\0\0\x0056789\0\0ab");
    assert_eq!(done.ops[5].data, "v");
    assert_eq!(done.ops[8].data, "new");
    assert_eq!(done.ops[9].data.as_ref(), [0; 4]);
    assert_eq!(bench.read(), Ok(Bytes::from("new")));
}

#[test]
fn changes_answer_with_data_only_when_asked_to() {
    let ops = || vec![plain(OpCode::CREATE), range(OpCode::READ, 0, 0), extent(OpCode::WRITE, 0, "y")];
    let mut bench = Bench::new();
    bench.put("data");
    assert_eq!(bench.run(ops()).unwrap().ops[1].data, "");
    bench.return_outputs();
    let done = bench.run(ops()).unwrap();
    assert_eq!(done.ops[1].data, "yata");
    // A client that repeats the request gets the same.
    let kept = done.staged.unwrap().log.pop().unwrap().returns;
    assert_eq!(kept.iter().map(|(_, data)| data.as_ref()).collect::<Vec<_>>(), [&b""[..], b"yata", b""]);
    let long =
        extent(OpCode::WRITEFULL, 0, "0123456789012345678901234567890123456789012345678901234567890123456");
    assert_eq!(bench.result(vec![long]), 0);
    // More than 64 bytes are too many, and nothing happens.
    let done = bench.run(ops()).unwrap();
    assert_eq!((done.result, done.ops[1].result, has_changed(&done)), (-75, -75, false));
    assert!(done.staged.is_some(), "it is answered when what it read is durable");
    // Nothing is changed: the data comes.
    bench.flags = 0;
    let quiet = vec![range(OpCode::READ, 0, 4), range(OpCode::ZERO, 100, 1)];
    assert_eq!(bench.run(quiet).unwrap().ops[0].data, "0123");
}

#[test]
fn the_first_failure_ends_a_request_unless_it_may_fail() {
    let mut bench = Bench::new();
    bench.put("x");
    let excl = flagged(plain(OpCode::CREATE), op_flag::EXCL);
    let done = bench.run(vec![extent(OpCode::WRITE, 0, "y"), excl.clone(), plain(OpCode::STAT)]).unwrap();
    assert_eq!((done.result, done.ops[1].result, done.ops[2].result), (-17, -17, 0));
    assert_eq!(bench.read(), Ok(Bytes::from("x")));
    let may_fail = flagged(excl, op_flag::EXCL | op_flag::FAILOK);
    let done = bench.run(vec![may_fail, extent(OpCode::WRITE, 0, "y")]).unwrap();
    assert_eq!((done.result, done.ops[0].result), (0, -17));
    assert_eq!(bench.read(), Ok(Bytes::from("y")));
}

#[test]
fn versions_count_changes_and_can_be_asserted() {
    let mut bench = Bench::new();
    let assert_version = |version: u64| {
        let parts = [0u64.to_le_bytes(), version.to_le_bytes()];
        step(OpCode::ASSERT_VER, messages::OpParams::from_parts(&[&parts[0], &parts[1]]), "")
    };
    bench.put("x");
    let version = bench.run(vec![extent(OpCode::WRITE, 0, "y")]).unwrap().user_version;
    assert_eq!(bench.run(vec![plain(OpCode::STAT)]).unwrap().user_version, version);
    assert_eq!(bench.result(vec![assert_version(version)]), 0);
    assert_eq!(bench.result(vec![assert_version(version - 1)]), -34);
    assert_eq!(bench.result(vec![assert_version(version + 1)]), -75);
    assert_eq!(bench.result(vec![assert_version(0)]), -22);
    // What changes nothing gives no version.
    assert_eq!(bench.run(vec![range(OpCode::ZERO, 9, 1)]).unwrap().user_version, version);
    assert!(bench.run(vec![plain(OpCode::CREATE)]).unwrap().user_version > version);
}

#[test]
fn objects_are_dirty_from_a_change_on() {
    let mut bench = Bench::new();
    let is_dirty = |bench: &mut Bench| bench.run(vec![plain(OpCode::ISDIRTY)]).unwrap().ops[0].data[0];
    bench.put("x");
    let version = bench.run(vec![plain(OpCode::STAT)]).unwrap().user_version;
    assert_eq!(is_dirty(&mut bench), 1);
    assert_eq!(bench.run(vec![plain(OpCode::UNDIRTY)]).unwrap().user_version, version);
    assert_eq!(is_dirty(&mut bench), 0);
    bench.put("y");
    assert_eq!(is_dirty(&mut bench), 1);
}

#[test]
fn the_clients_clock_becomes_the_mtime() {
    let mut bench = Bench::new();
    let mut request = bench.request("o", types::SnapId::HEAD, vec![plain(OpCode::CREATE)]);
    request.mtime = UTime { sec: 77, nsec: 1 };
    bench.execute(&request).unwrap();
    bench.put("x");
    let done = bench.run(vec![plain(OpCode::STAT)]).unwrap();
    let (_, mtime) = <(u64, UTime)>::from_bytes(done.ops[0].data.clone()).unwrap();
    assert_eq!(mtime, UTime { sec: 77, nsec: 1 });
}

#[test]
fn methods_change_the_object_whatever_the_clients_flags_say() {
    let mut bench = Bench::new();
    let id = [&3u32.to_le_bytes()[..], b"abc"].concat();
    let request = bench.request(
        "rbd_id.i",
        types::SnapId::HEAD,
        vec![plain(OpCode::CREATE), call("rbd", "set_id", &id)],
    );
    assert_eq!(bench.execute(&request).unwrap().result, 0);
    let request = bench.request("rbd_id.i", types::SnapId::HEAD, vec![call("rbd", "get_id", b"")]);
    let done = bench.execute(&request).unwrap();
    assert_eq!((done.result, done.ops[0].data.as_ref()), (0, id.as_slice()));
    let mut request = bench.request("g", types::SnapId::HEAD, vec![call("rbd", "set_id", &id)]);
    request.flags = messages::osd_flag::READ;
    assert!(crate::exec::may_write(&request));
    assert_ne!(bench.execute(&request).map(|done| done.result), Err(Errno::ENOENT));
}

/// Observed.
#[test]
fn reads_before_the_change_that_makes_the_object_fail_as_in_ceph() {
    let first_result = |op: OsdOp| {
        let done = Bench::new().run(vec![flagged(op, op_flag::FAILOK), plain(OpCode::CREATE)]).unwrap();
        (done.ops[0].result, done.result)
    };
    assert_eq!(first_result(range(OpCode::SPARSE_READ, 0, 10)), (-2, 0));
    assert_eq!(first_result(range(OpCode::MAPEXT, 0, 10)), (-2, 0));
    assert_eq!(first_result(plain(OpCode::LIST_WATCHERS)), (0, 0));
}

#[test]
fn sparse_reads_heed_truncations_under_way() {
    let mut bench = Bench::new();
    bench.put("0123456789");
    let known = [(1, 4, "0123"), (1, 40, "0123456789"), (1, u64::MAX, "0123456789"), (0, 4, "0123456789")];
    for (seq, size, expect) in known {
        let op = truncated(range(OpCode::SPARSE_READ, 0, 10), seq, size);
        let done = bench.run(vec![op]).unwrap();
        let (_, data) = <(BTreeMap<u64, u64>, Bytes)>::from_bytes(done.ops[0].data.clone()).unwrap();
        assert_eq!(data, expect, "{seq} {size}");
    }
}
