//! Copies that differ, as a chunk's maps show them; words and counts are those that Ceph 16.2.15 wrote of the same
//! damage.

mod damage;

use std::collections::BTreeMap;

use bytes::Bytes;
use codec::{Decode, Encode, Features};
use messages::LogLevel;
use store::{MemStore, ObjectStore};
use types::{
    CollId, EVersion, Epoch, HObject, IntervalSet, Mutation, OsdId, PgId, PoolId, ScrubObject, SnapId, Token,
    Transaction,
};

use super::{
    compare::{self, Maps},
    policy::OmapMax,
    scan::{Scan, Step},
    snapsets,
    verdict::{BadCopies, Verdict},
    wire::{copy_error, object_error, snapset_error},
};
use crate::exec::{CloneInfo, INFO_XATTR, ObjectInfo, SNAPSET_XATTR, SnapSet};

const ME: OsdId = OsdId(1);

fn pgid() -> PgId {
    PgId::new(PoolId(3), 0)
}

fn object(name: &'static str) -> HObject {
    HObject {
        oid: Bytes::from_static(name.as_bytes()),
        pool: PoolId(3),
        snap: SnapId::HEAD,
        ..HObject::default()
    }
}

fn xattrs(version: u64, snapset: &SnapSet) -> BTreeMap<Bytes, Bytes> {
    let f = Features::default();
    let version = EVersion::new(Epoch(22), version);
    let info = ObjectInfo { version, user_version: version.version, ..ObjectInfo::default() };
    BTreeMap::from([
        (Bytes::from_static(INFO_XATTR), info.to_bytes(f)),
        (Bytes::from_static(SNAPSET_XATTR), snapset.to_bytes(f)),
        (Bytes::from_static(b"ufoo"), Bytes::from_static(b"bar")),
    ])
}

/// A head as a deep scrub sees it.
fn head(name: &'static str) -> ScrubObject {
    ScrubObject {
        object: object(name),
        size: 5_000,
        xattrs: xattrs(3, &SnapSet::default()),
        has_omap: true,
        data_digest: Some(0x19f2_f0e8),
        omap_digest: Some(0x3e92_75cd),
        is_unreadable: false,
        omap_keys: 1,
        omap_bytes: 2,
        ..ScrubObject::default()
    }
}

/// Three copies of the same objects.
fn maps(objects: &[ScrubObject]) -> Maps {
    let all: BTreeMap<HObject, ScrubObject> = objects.iter().map(|o| (o.object.clone(), o.clone())).collect();
    [0, 1, 2].map(|osd| (OsdId(osd), all.clone())).into()
}

fn verdict_of(maps: &Maps) -> Verdict {
    let mut verdict = Verdict::default();
    let sound = compare::compare(maps, ME, (pgid(), EVersion::new(Epoch(22), 9)), &mut verdict);
    snapsets::check(&sound, pgid(), "deep-scrub", &mut verdict);
    verdict
}

fn lines(verdict: &Verdict) -> Vec<&str> {
    verdict.log.iter().map(|(_, line)| line.as_str()).collect()
}

fn bad(missing: &[i32], inconsistent: &[i32]) -> BadCopies {
    let set = |osds: &[i32]| osds.iter().map(|osd| OsdId(*osd)).collect();
    BadCopies { missing: set(missing), inconsistent: set(inconsistent), version: EVersion::new(Epoch(22), 3) }
}

fn at(maps: &mut Maps, osd: i32) -> &mut ScrubObject {
    maps.get_mut(&OsdId(osd)).and_then(|map| map.values_mut().next()).unwrap()
}

#[test]
fn equal_copies_are_sound() {
    let verdict = verdict_of(&maps(&[head("a"), head("b")]));
    assert_eq!((verdict.errors(), lines(&verdict).len(), verdict.objects.len()), (0, 0, 0));
    assert_eq!((verdict.totals.objects, verdict.totals.bytes, verdict.omap_keys), (2, 10_000, 2));
}

#[test]
fn an_object_with_much_omap_is_told_of() {
    let max = OmapMax { keys: 3, bytes: 100 };
    let mut verdict = Verdict::default();
    for (omap_keys, omap_bytes) in [(3, 100), (4, 8), (1, 101)] {
        verdict.note_omap(&ScrubObject { omap_keys, omap_bytes, ..head("a") }, pgid(), max);
    }
    let line = |of| format!("Large omap object found. Object: 3:00000000:::a:head PG: 3.0 (3.0) {of}");
    let expected = [line("Key count: 4 Size (bytes): 8"), line("Key count: 1 Size (bytes): 101")];
    assert_eq!(lines(&verdict), expected);
    assert_eq!((verdict.errors(), verdict.large_omap_objects), (0, 2));
}

#[test]
fn a_missing_copy_is_an_error_of_its_own() {
    let mut maps = maps(&[head("b")]);
    maps.insert(OsdId(0), BTreeMap::new());
    let verdict = verdict_of(&maps);
    assert_eq!(lines(&verdict), ["3.0 shard 0 3:00000000:::b:head : missing"]);
    assert_eq!((verdict.shallow_errors, verdict.deep_errors), (1, 0));
    assert_eq!(verdict.bad[&object("b")], bad(&[0], &[]));
    assert_eq!(verdict.missing_text(&object("b")), "{3:00000000:::b:head=0}");
    assert_eq!(verdict.objects[0].copy_errors(), copy_error::MISSING);
}

#[test]
fn the_primarys_missing_copy_is_judged_by_the_others() {
    let mut maps = maps(&[head("h")]);
    maps.insert(ME, BTreeMap::new());
    let verdict = verdict_of(&maps);
    assert_eq!(verdict.bad[&object("h")], bad(&[1], &[]));
    assert_eq!(verdict.totals.objects, 1, "the good copies count");
}

#[test]
fn differences_are_told_by_the_primarys_copy() {
    let mut maps = maps(&[head("c")]);
    at(&mut maps, 2).xattrs.insert(Bytes::from_static(b"ufoo"), Bytes::from_static(b"other"));
    at(&mut maps, 2).omap_digest = Some(0x35fc_ecce);
    let verdict = verdict_of(&maps);
    let line = "3.0 soid 3:00000000:::c:head : omap_digest 0x35fcecce != omap_digest 0x3e9275cd from shard 1, \
                attr value mismatch '_foo'";
    assert_eq!(lines(&verdict), [line]);
    assert_eq!((verdict.shallow_errors, verdict.deep_errors), (0, 1));
    assert_eq!(verdict.objects[0].errors, object_error::OMAP_DIGEST | object_error::ATTR_VALUE);
    assert_eq!(verdict.bad[&object("c")], bad(&[], &[2]));
}

#[test]
fn an_attribute_too_many_is_one_error_and_two_bad_copies() {
    let mut maps = maps(&[head("e")]);
    at(&mut maps, 1).xattrs.insert(Bytes::from_static(b"unew"), Bytes::from_static(b"other"));
    let verdict = verdict_of(&maps);
    assert_eq!(lines(&verdict), ["3.0 soid 3:00000000:::e:head : attr name mismatch '_new'"; 2]);
    assert_eq!(verdict.errors(), 1);
    assert_eq!(verdict.bad[&object("e")], bad(&[], &[0, 2]));
}

#[test]
fn an_unreadable_copy_is_not_gone_by() {
    let mut maps = maps(&[head("a")]);
    for osd in [1, 2] {
        let copy = at(&mut maps, osd);
        (copy.is_unreadable, copy.data_digest, copy.omap_digest) = (true, None, None);
    }
    let verdict = verdict_of(&maps);
    let line = |osd| format!("3.0 shard {osd} soid 3:00000000:::a:head : candidate had a read error");
    assert_eq!(lines(&verdict), [line(1), line(2)]);
    assert_eq!((verdict.shallow_errors, verdict.deep_errors), (0, 2));
    assert_eq!(verdict.bad[&object("a")], bad(&[], &[1, 2]));
    assert!(verdict.objects[0].copies[&OsdId(0)].is_selected);
}

#[test]
fn without_any_good_copy_nothing_is_replaced() {
    let mut maps = maps(&[head("a")]);
    for osd in 0..3 {
        at(&mut maps, osd).is_unreadable = true;
    }
    let verdict = verdict_of(&maps);
    assert_eq!(
        lines(&verdict).last(),
        Some(&"3.0 soid 3:00000000:::a:head : failed to pick suitable object info")
    );
    assert_eq!((verdict.deep_errors, verdict.bad.len()), (3, 0));
}

#[test]
fn a_record_that_is_gone_makes_a_copy_bad() {
    let mut maps = maps(&[head("i")]);
    at(&mut maps, 2).xattrs.remove(INFO_XATTR);
    at(&mut maps, 0).xattrs.insert(Bytes::from_static(SNAPSET_XATTR), Bytes::from_static(b"?"));
    let verdict = verdict_of(&maps);
    assert_eq!(
        lines(&verdict),
        [
            "3.0 shard 0 soid 3:00000000:::i:head : candidate had a corrupt snapset",
            "3.0 shard 2 soid 3:00000000:::i:head : candidate had a missing info key",
        ]
    );
    assert_eq!(verdict.objects[0].copy_errors(), copy_error::SNAPSET_CORRUPTED | copy_error::INFO_MISSING);
}

#[test]
fn the_newest_copy_is_the_one_to_go_by() {
    let mut maps = maps(&[head("f")]);
    for osd in [0, 1] {
        at(&mut maps, osd).xattrs = xattrs(2, &SnapSet::default());
        at(&mut maps, osd).size = 3_000;
    }
    let verdict = verdict_of(&maps);
    let line =
        "3.0 soid 3:00000000:::f:head : object info inconsistent , size 3000 != size 5000 from shard 2";
    assert_eq!(lines(&verdict), [line, line]);
    assert_eq!(verdict.bad[&object("f")], bad(&[], &[0, 1]));
}

fn clone(id: u64) -> CloneInfo {
    CloneInfo { id: SnapId(id), snaps: vec![SnapId(id)], size: 5_000, overlap: IntervalSet::new() }
}

fn with_clones(listed: &[u64], there: &[u64]) -> Verdict {
    let snapset = SnapSet { seq: SnapId(9), clones: listed.iter().map(|id| clone(*id)).collect() };
    let mut objects = vec![ScrubObject { xattrs: xattrs(3, &snapset), ..head("g") }];
    for id in there {
        let mut clone = ScrubObject { object: object("g").with_snap(SnapId(*id)), ..head("g") };
        clone.xattrs.remove(SNAPSET_XATTR);
        objects.push(clone);
    }
    verdict_of(&maps(&objects))
}

#[test]
fn a_copy_of_a_version_that_was_not_made_is_the_bad_one() {
    let mut maps = maps(&[head("b")]);
    at(&mut maps, 2).xattrs = xattrs(u64::MAX, &SnapSet::default());
    let verdict = verdict_of(&maps);
    assert_eq!(verdict.bad[&object("b")], bad(&[], &[2]));
}

#[test]
fn a_clone_that_is_nowhere_is_missed() {
    let verdict = with_clones(&[1, 2], &[2]);
    assert_eq!(
        lines(&verdict),
        [
            "deep-scrub 3.0 3:00000000:::g:head : expected clone 3:00000000:::g:1 {} missing",
            "deep-scrub 3.0 3:00000000:::g:head : 1 missing clone(s)",
        ]
    );
    assert_eq!(verdict.log[1].0, LogLevel::INFO);
    let [found] = &verdict.snapsets[..] else { panic!("{:?}", verdict.snapsets) };
    assert_eq!((found.errors, &found.missing[..]), (snapset_error::CLONE_MISSING, &[SnapId(1)][..]));
    assert_eq!((verdict.totals.objects, verdict.totals.clones), (2, 1));
}

/// There may be a line for each of thousands of clones: none names more than a few of the objects that copies lack.
#[test]
fn what_is_said_of_missing_clones_grows_with_their_number_only() {
    const COUNT: u64 = 2_000;
    let said = |count: u64| {
        let (known, there): (Vec<u64>, Vec<u64>) = ((1..=2 * count).collect(), (1..=count).collect());
        let snapset = SnapSet { seq: SnapId(9), clones: known.iter().map(|id| clone(*id)).collect() };
        let mut objects = vec![ScrubObject { xattrs: xattrs(3, &snapset), ..head("g") }, head("h")];
        for id in there {
            let mut clone = ScrubObject { object: object("g").with_snap(SnapId(id)), ..head("g") };
            clone.xattrs.remove(SNAPSET_XATTR);
            objects.push(clone);
        }
        let mut maps = maps(&objects);
        maps.insert(OsdId(2), BTreeMap::new());
        let verdict = verdict_of(&maps);
        assert_eq!(verdict.snapsets[0].missing.len() as u64, count);
        let missed: Vec<&str> =
            lines(&verdict).into_iter().filter(|line| line.contains("expected")).collect();
        assert_eq!(missed.len() as u64, count);
        missed.iter().map(|line| line.len() as u64).sum::<u64>()
    };
    assert!(said(COUNT) < COUNT / 10 * said(20));
}

#[test]
fn a_clone_that_nobody_knows_is_too_much() {
    let verdict = with_clones(&[1, 4], &[1, 2, 4]);
    assert_eq!(lines(&verdict), ["deep-scrub 3.0 3:00000000:::g:2 : is an unexpected clone"]);
    let errors: Vec<u64> = verdict.snapsets.iter().map(|found| found.errors).collect();
    assert_eq!(errors, [snapset_error::HEADLESS, snapset_error::EXTRA_CLONES]);
    assert_eq!(verdict.errors(), 1);
}

/// Each of them is a number that a copy tells, or that is kept with it.
#[test]
fn numbers_that_no_object_has_are_errors_and_count_as_far_as_numbers_go() {
    let overlap = vec![(5u64, 5u64), (10, u64::MAX)].to_bytes(Features::default());
    let overlap = IntervalSet::from_bytes(overlap).unwrap();
    let snapset = SnapSet { seq: SnapId(9), clones: vec![CloneInfo { overlap, ..clone(1) }] };
    let of_head = ScrubObject {
        xattrs: xattrs(3, &snapset),
        size: u64::MAX,
        omap_keys: u64::MAX,
        omap_bytes: u64::MAX,
        ..head("g")
    };
    let mut of_snap =
        ScrubObject { object: object("g").with_snap(SnapId(1)), size: 5_000, ..of_head.clone() };
    of_snap.xattrs.remove(SNAPSET_XATTR);
    let verdict = verdict_of(&maps(&[of_head, of_snap]));
    assert_eq!(lines(&verdict), ["deep-scrub 3.0 3:00000000:::g:1 : bad interval_set in clone_overlap"]);
    assert_eq!((verdict.totals.objects, verdict.totals.bytes), (2, u64::MAX));
    assert_eq!((verdict.omap_keys, verdict.omap_bytes), (u64::MAX, u64::MAX));
}

#[test]
fn a_scan_gives_cephs_digests() {
    let coll = CollId::pg(pgid());
    let mut store = MemStore::new();
    let mut txn = Transaction::new(coll);
    let data = Bytes::from_static(b"hello scrub");
    txn.push(&object("d"), Mutation::Write { offset: 0, data: data.clone().into() });
    let omap = [(Bytes::from_static(b"k1"), Bytes::from_static(b"v1"))];
    txn.push(&object("d"), Mutation::OmapSet(omap.into()));
    txn.push(&object("later"), Mutation::Touch);
    store.submit(Token(0), txn);
    let mut scan = Scan::new(ME, 1, HObject::min(), object("later"), Some(4));
    let mut reads = 0;
    while let Step::LoadAnew(..) = scan.step(&store, coll, PoolId(3)) {
        reads += 1;
        scan.on_loaded_anew(true);
    }
    let [found] = &scan.take().unwrap()[..] else { panic!("one object is in the range") };
    assert_eq!((reads, found.size, found.omap_keys, found.omap_bytes), (3, 11, 1, 2));
    assert_eq!(found.data_digest, Some(codec::crc32c(u32::MAX, &data)));
    // As `rados list-inconsistent-obj` showed it of an object with the same omap.
    assert_eq!(found.omap_digest, Some(0x3e92_75cd));
}

/// One copy of an object with these xattrs, as a scan tells of it.
fn scanned(xattrs: &BTreeMap<Bytes, Bytes>) -> ScrubObject {
    scanned_as(&object("x"), xattrs)
}

fn scanned_as(object: &HObject, xattrs: &BTreeMap<Bytes, Bytes>) -> ScrubObject {
    let coll = CollId::pg(pgid());
    let mut store = MemStore::new();
    let mut txn = Transaction::new(coll);
    txn.push(object, Mutation::SetXattrs(xattrs.clone().into_iter().collect()));
    store.submit(Token(0), txn);
    let mut scan = Scan::new(ME, 1, HObject::min(), HObject::max(), None);
    assert!(matches!(scan.step(&store, coll, PoolId(3)), Step::Done));
    scan.take().unwrap().remove(0)
}

#[test]
fn however_long_xattrs_are_their_differences_are_found_and_little_is_told() {
    let name = |at: usize| Bytes::from(format!("u{at:099}"));
    let mut many = xattrs(3, &SnapSet::default());
    many.extend((0..6_000).map(|at| (name(at), Bytes::from_static(b"value"))));
    many.insert(name(1), Bytes::from(vec![7; 4_096]));
    many.extend([2, 3].map(|at| (name(at), Bytes::from(vec![7; 50 << 20]))));
    let good = scanned(&many);
    assert!(good.to_bytes(Features::default()).len() < 512 << 10 && good.more_xattrs.is_some());
    assert_eq!((good.long_xattrs.len(), &good.xattrs[&name(1)]), (2, &many[&name(1)]));
    assert_eq!(scanned(&many), good);
    let mut other = vec![7; 50 << 20];
    other[9] = 8;
    let shown = |at| format!("'_{at:099}'");
    let last = good.xattrs.keys().rfind(|name| name.len() == 100).unwrap();
    let behind = String::from_utf8(last[1..].to_vec()).unwrap();
    for (changed, value, text) in [
        (3, Some(Bytes::from(other)), format!("attr value mismatch {}", shown(3))),
        (3, Some(Bytes::from_static(b"short")), format!("attr value mismatch {}", shown(3))),
        (3, None, format!("attr name mismatch {}", shown(3))),
        (5_999, Some(Bytes::from_static(b"other")), format!("attr value mismatch behind '_{behind}'")),
        (5_999, None, format!("attr value mismatch behind '_{behind}'")),
    ] {
        let mut xattrs = many.clone();
        match value {
            Some(value) => xattrs.insert(name(changed), value),
            None => xattrs.remove(&name(changed)),
        };
        let mut maps = maps(std::slice::from_ref(&good));
        *at(&mut maps, 2) = scanned(&xattrs);
        let verdict = verdict_of(&maps);
        assert!(lines(&verdict).iter().any(|line| line.contains(&text)), "{text}: {:?}", lines(&verdict));
        assert_eq!(verdict.bad[&object("x")], bad(&[], &[2]));
    }
}

#[test]
fn of_thousands_of_clones_little_is_told() {
    let name = |at: usize| Bytes::from(format!("u{at:03}"));
    let mut many = xattrs(3, &SnapSet::default());
    many.extend((0..250).map(|at| (name(at), Bytes::from(vec![7; 1 << 10]))));
    let clone = object("x").with_snap(SnapId(4));
    let good = scanned_as(&clone, &many);
    assert!(good.to_bytes(Features::default()).len() * 5_000 < 64 << 20 && good.more_xattrs.is_some());
    assert!(scanned(&many).more_xattrs.is_none());
    many.insert(name(249), Bytes::from_static(b"other"));
    let mut maps = maps(std::slice::from_ref(&good));
    maps.insert(OsdId(2), [(clone.clone(), scanned_as(&clone, &many))].into());
    assert_eq!(verdict_of(&maps).bad[&clone], bad(&[], &[2]));
}

#[test]
fn a_scan_ends_where_there_is_too_much_to_tell() {
    let coll = CollId::pg(pgid());
    let mut store = MemStore::new();
    let mut txn = Transaction::new(coll);
    let long = Bytes::from(vec![7; 50 << 20]);
    for name in ["a", "b", "c", "d"] {
        txn.push(&object(name), Mutation::SetXattrs([(Bytes::from_static(INFO_XATTR), long.clone())].into()));
    }
    store.submit(Token(0), txn);
    for (end, told) in [("c", Some(2)), ("d", None), ("e", None)] {
        let mut scan = Scan::new(ME, 1, HObject::min(), object(end), None);
        assert!(matches!(scan.step(&store, coll, PoolId(3)), Step::Done));
        assert_eq!(scan.take().map(|objects| objects.len()), told);
    }
}
