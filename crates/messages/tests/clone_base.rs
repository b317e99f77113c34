//! What OSDs of different versions make of objects that begin with a neighbour.

use bytes::Bytes;
use codec::{Codec, Decode, Encode, Features};
use messages::{CloneBase, MPgActivated, MPgPull, MPgPush, Message, ObjectCursor, RawMessage};
use types::{CollId, EVersion, Epoch, HObject, Missing, PgId, PoolId, SnapId, Transaction};

/// As it was before.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
struct OlderCursor {
    data: u64,
    has_data: bool,
    xattr: Option<Bytes>,
    has_xattrs: bool,
    omap: Option<Bytes>,
}

#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 2, compat = 1)]
struct OlderPull {
    pgid: PgId,
    epoch: Epoch,
    object: HObject,
    version: EVersion,
    begin: OlderCursor,
}

#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
struct OlderActivated {
    pgid: PgId,
    epoch: Epoch,
    missing: Missing,
}

fn base() -> CloneBase {
    let version = |version| EVersion::new(Epoch(5), version);
    CloneBase { snap: SnapId(0x0102), version: version(3), head: version(4) }
}

fn reread<T: Decode>(value: &impl Encode) -> T {
    T::from_bytes(value.to_bytes(Features::PACIFIC)).expect("it can be read")
}

fn push(begin: ObjectCursor, next: Option<ObjectCursor>) -> MPgPush {
    let pgid = PgId::new(PoolId(1), 2);
    let (epoch, object) = (Epoch(7), HObject { oid: Bytes::from("o"), ..HObject::default() });
    let (version, txn) = (EVersion::new(Epoch(5), 4), Transaction::new(CollId::pg(pgid)));
    MPgPush { pgid, epoch, object, version, txn, begin, next }
}

#[test]
fn a_base_is_encoded_so() {
    let version = |version: u8| [&[version, 0, 0, 0, 0, 0, 0, 0][..], &[5, 0, 0, 0]].concat();
    let body = [&[2, 1, 0, 0, 0, 0, 0, 0][..], &version(3), &version(4)].concat();
    let bytes = [&[1, 1, body.len() as u8, 0, 0, 0][..], &body].concat();
    assert_eq!(base().to_bytes(Features::PACIFIC), bytes);
    assert_eq!(CloneBase::from_bytes(bytes.into()), Ok(base()));
}

#[test]
fn what_an_older_osd_says_asks_for_whole_objects() {
    let begin = OlderCursor { data: 9, xattr: Some(Bytes::from("x")), ..OlderCursor::default() };
    let pull: MPgPull = reread(&OlderPull { begin, epoch: Epoch(7), ..OlderPull::default() });
    assert_eq!((pull.epoch, pull.begin.data, pull.begin.base, pull.lacks), (Epoch(7), 9, None, None));
    let activated: MPgActivated = reread(&OlderActivated { epoch: Epoch(7), ..OlderActivated::default() });
    assert_eq!((activated.epoch, activated.takes_clones), (Epoch(7), false));
}

#[test]
fn an_older_osd_reads_what_it_knows() {
    let begin = ObjectCursor { data: 9, ..ObjectCursor::default() };
    let pull = MPgPull { epoch: Epoch(7), begin, lacks: Some(vec![SnapId(3)]), ..MPgPull::default() };
    let older: OlderPull = reread(&pull);
    assert_eq!((older.epoch, older.begin.data), (Epoch(7), 9));
    assert_eq!(reread::<MPgPull>(&pull), pull);
    let activated = MPgActivated { epoch: Epoch(7), takes_clones: true, ..MPgActivated::default() };
    assert_eq!(reread::<OlderActivated>(&activated).epoch, Epoch(7));
    assert_eq!(reread::<MPgActivated>(&activated), activated);
}

#[test]
fn a_push_that_begins_with_a_neighbour_is_for_osds_that_know_of_it() {
    let next = ObjectCursor { data: 8, base: Some(base()), ..ObjectCursor::default() };
    let first = ObjectCursor { base: Some(base()), ..ObjectCursor::default() };
    assert!(first.is_begin() && !next.is_begin());
    let part = ObjectCursor { data: 8, ..ObjectCursor::default() };
    let whole = ObjectCursor::default();
    for (begin, next, compat) in [
        (whole.clone(), None, 1),
        (whole, Some(part.clone()), 2),
        (part, None, 2),
        (first.clone(), None, 3),
        (first, Some(next.clone()), 3),
        (next, None, 3),
    ] {
        let push = push(begin, next);
        let raw: RawMessage = push.to_raw(0);
        assert_eq!((raw.version, raw.compat), (3, compat));
        let Message::MPgPush(read) = Message::decode(raw).unwrap() else { panic!("another message") };
        assert_eq!(*read, push);
    }
}
