//! Damaged bytes of what OSDs keep and tell each other of PGs and objects: an error, or a value that can be written
//! again.

use std::{collections::BTreeMap, fmt::Debug};

use ::damage::{Damage, damaged};
use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
};

use super::*;

const F: Features = Features::PACIFIC;

fn number() -> impl Strategy<Value = u64> {
    let edges = vec![u64::MAX, u64::MAX - 1, 1 << 63, 1 << 62, u64::from(u32::MAX), 1 << 31, 128 << 20];
    prop_oneof![2 => 0u64..24, 2 => select(edges), 1 => any::<u64>()]
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        4 => (any::<Index>(), any::<u8>()).prop_map(|(at, value)| Damage::Byte(at, value)),
        2 => (any::<Index>(), number()).prop_map(|(at, value)| Damage::Number(at, value, 8)),
        2 => (any::<Index>(), number()).prop_map(|(at, value)| Damage::Number(at, value, 4)),
        1 => any::<Index>().prop_map(Damage::Cut),
        1 => (any::<Index>(), vec(any::<u8>(), 1..12)).prop_map(|(at, more)| Damage::More(at, more)),
    ]
}

/// What can be read is written as something that says the same, and is not much longer.
fn check_reading<T: Decode + Encode + Debug + PartialEq>(bytes: Bytes) {
    if let Ok(read) = T::from_bytes(bytes.clone()) {
        let written = read.to_bytes(F);
        assert!(written.len() <= 3 * bytes.len() + 512, "{} bytes of {}", written.len(), bytes.len());
        assert_eq!(T::from_bytes(written), Ok(read));
    }
}

fn check<T: Decode + Encode + Debug + PartialEq>(value: &T, damages: &[Damage]) {
    let bytes = value.to_bytes(F);
    assert_eq!(T::from_bytes(bytes.clone()).as_ref(), Ok(value));
    check_reading::<T>(damaged(&bytes, damages));
}

fn object(name: &'static str) -> HObject {
    let (key, nspace) = (Bytes::from_static(b"key"), Bytes::from_static(b"ns"));
    HObject { oid: name.into(), key, nspace, pool: PoolId(3), hash: 77, snap: SnapId(4), is_max: false }
}

fn at(version: u64) -> EVersion {
    EVersion::new(Epoch(3), version)
}

fn set() -> IntervalSet {
    let mut set = IntervalSet::new();
    [(1, 2), (9, 1), (20, 7)].iter().for_each(|(start, len)| set.insert(*start, *len));
    set
}

fn entry(version: u64) -> LogEntry {
    LogEntry {
        version: at(version),
        object: object("o"),
        prior_version: at(version - 1),
        reqid: ReqId { name: EntityNum::client(7), tid: 8, inc: 1 },
        user_version: 9,
        result: -2,
        mtime: UTime::new(5, 6),
        is_error: true,
        returns: vec![(0, Bytes::from_static(b"output")), (-5, Bytes::new())],
        lost_to: Some(at(1)),
        ..LogEntry::default()
    }
}

fn scrubs() -> ScrubHistory {
    let stamp = UTime::new(5, 6);
    ScrubHistory { last_scrub: at(2), last_scrub_stamp: stamp, shallow_errors: 1, ..ScrubHistory::default() }
}

fn info() -> PgInfo {
    let totals = PgTotals { objects: 4, clones: 1, bytes: 9 };
    PgInfo { last_update: at(9), purged_snaps: set(), totals, scrubs: scrubs(), ..PgInfo::default() }
}

fn interval() -> PgInterval {
    let acting = vec![OsdId(1), OsdId::HOLE, OsdId(2)];
    PgInterval {
        first: Epoch(1),
        last: Epoch(2),
        acting,
        primary: OsdId(1),
        maybe_went_rw: true,
        forgotten_since: Epoch(0),
    }
}

fn chunked() -> ObjectManifest {
    let chunk = |offset| Chunk {
        offset,
        length: 4,
        target: object("target"),
        is_missing: offset > 0,
        has_reference: true,
    };
    ObjectManifest::Chunked([(0, chunk(8)), (4, chunk(0))].into())
}

fn scrubbed() -> ScrubObject {
    let sum = XattrSum { bytes: 5_000, crc: 7 };
    ScrubObject {
        object: object("o"),
        size: 9,
        xattrs: BTreeMap::from([(Bytes::from_static(b"_"), Bytes::from_static(b"info"))]),
        data_digest: Some(5),
        long_xattrs: BTreeMap::from([(Bytes::from_static(b"ulong"), sum)]),
        more_xattrs: Some(sum),
        ..ScrubObject::default()
    }
}

fn stat() -> PgStat {
    PgStat {
        pgid: PgId::new(PoolId(3), 5),
        up: vec![OsdId(1), OsdId(2)],
        acting: vec![OsdId(1)],
        scrubs: scrubs(),
        blocked_by: vec![OsdId(4)],
        purged_snaps: set(),
        lacking: vec![OsdId(2)],
        ..PgStat::default()
    }
}

fn change() -> Transaction {
    let (object, pair) = (object("o"), (Bytes::from_static(b"k"), Bytes::from_static(b"v")));
    let mut txn = Transaction::new(CollId::pg(PgId::new(PoolId(1), 3)));
    txn.ops.push(TxnOp::CreateCollection);
    txn.push(&object, Mutation::Write { offset: 9, data: Bytes::from_static(b"payload").into() });
    txn.push(&object, Mutation::Zero { offset: 4, len: 3 });
    txn.push(&object, Mutation::SetXattrs([pair.clone()].into()));
    txn.push(&object.head(), Mutation::CloneFrom { source: object.clone().into() });
    txn.push(&object.head(), Mutation::OmapSet([pair.clone()].into()));
    txn.push(&object.head(), Mutation::OmapRemove(vec![pair.0.clone(), pair.1.clone()]));
    let (child, from, to, record) = (txn.coll, object.clone(), HObject::max(), object);
    txn.ops.push(TxnOp::Split(Box::new(CollSplit { child, from, to, record, omap: [pair].into() })));
    txn
}

/// As [`check`], of what has its payload beside it.
fn check_change(damages: &[Damage]) {
    let read = |meta: Bytes, payload: &[u8]| {
        let mut payload = Reader::new(Bytes::copy_from_slice(payload));
        Transaction::decode_split(&mut Reader::new(meta), &mut payload)
    };
    let write = |txn: &Transaction| {
        let (mut meta, mut payloads) = (Vec::new(), Vec::new());
        txn.encode_split(&mut meta, &mut payloads);
        let payload = payloads.iter().flat_map(|payload| payload.iter().copied()).collect::<Vec<u8>>();
        assert!(meta.len() + payload.len() <= txn.bytes_at_most());
        (Bytes::from(meta), payload)
    };
    let (meta, payload) = write(&change());
    let meta = damaged(&meta, damages);
    if let Ok(txn) = read(meta.clone(), &payload) {
        let (written, payload) = write(&txn);
        assert!(written.len() <= 3 * meta.len() + 512, "{} bytes of {}", written.len(), meta.len());
        assert_eq!(read(written, &payload), Ok(txn));
    }
}

proptest! {
    #![proptest_config(::damage::cases(1_500))]

    #[test]
    fn what_is_kept_of_pgs_cannot_be_read_or_can_be_written_again(damages in vec(damage(), 1..4)) {
        check(&entry(7), &damages);
        check(&vec![entry(7), LogEntry::default()], &damages);
        check(&info(), &damages);
        check(&info().progress(), &damages);
        check(&vec![interval(), interval()], &damages);
        check::<Missing>(&[(object("a"), at(1)), (object("b"), at(2))].into(), &damages);
        check::<ObjectVersions>(&vec![(object("a"), at(1)), (HObject::max(), at(2))], &damages);
        check(&scrubs(), &damages);
        check(&set(), &damages);
        check(&stat(), &damages);
        check(&OsdStat { heartbeat_peers: vec![OsdId(1)], ..OsdStat::default() }, &damages);
    }

    #[test]
    fn what_is_kept_of_objects_cannot_be_read_or_can_be_written_again(damages in vec(damage(), 1..4)) {
        check(&object("o"), &damages);
        check(&chunked(), &damages);
        check(&ObjectManifest::Redirect(object("target")), &damages);
        check(&scrubbed(), &damages);
        check(&SnapContext { seq: SnapId(5), snaps: vec![SnapId(5), SnapId(2)] }, &damages);
        check_change(&damages);
        for addr in ["v2:10.0.0.1:6800/5", "v1:[fe80::1%2]:0/6", "any:1.2.3.4"] {
            let addr = EntityAddr::parse(addr).unwrap();
            check(&addr, &damages);
            check(&EntityAddrVec(vec![addr, EntityAddr::default()]), &damages);
        }
    }

    #[test]
    fn noise_cannot_be_read_or_can_be_written_again(noise in vec(any::<u8>(), 0..120)) {
        let noise = Bytes::from(noise);
        check_reading::<Vec<LogEntry>>(noise.clone());
        check_reading::<PgInfo>(noise.clone());
        check_reading::<PgProgress>(noise.clone());
        check_reading::<Vec<PgInterval>>(noise.clone());
        check_reading::<Missing>(noise.clone());
        check_reading::<IntervalSet>(noise.clone());
        check_reading::<ObjectManifest>(noise.clone());
        check_reading::<ScrubObject>(noise.clone());
        check_reading::<PgStat>(noise.clone());
        check_reading::<EntityAddrVec>(noise.clone());
        let _ = Transaction::decode_split(&mut Reader::new(noise.clone()), &mut Reader::new(noise));
    }

    /// Sets come from others, too: the intervals that they are told as may overlap, or reach to the end of all numbers.
    #[test]
    fn sets_of_any_intervals_are_sets(
        one in vec((number(), number()), 0..5),
        other in vec((number(), number()), 0..5),
    ) {
        let [one, other] = [one, other].map(|all| IntervalSet::from_bytes(all.to_bytes(F)).unwrap());
        let mut sum = one.clone();
        sum.union_with(&other);
        let mut difference = one.clone();
        difference.subtract(&other);
        let both = one.intersection(&other);
        prop_assert!(both.size() <= one.size() && difference.size() <= one.size());
        let places = [&one, &other].into_iter().flat_map(IntervalSet::iter).flat_map(|(start, len)| {
            let end = start.saturating_add(len);
            [start.saturating_sub(1), start, end.saturating_sub(1), end]
        });
        // The highest number is in no set.
        for place in places.filter(|place| *place < u64::MAX) {
            let (is_in_one, is_in_other) = (one.contains(place), other.contains(place));
            prop_assert_eq!(sum.contains(place), is_in_one || is_in_other);
            prop_assert_eq!(difference.contains(place), is_in_one && !is_in_other);
            prop_assert_eq!(both.contains(place), is_in_one && is_in_other);
        }
    }
}
