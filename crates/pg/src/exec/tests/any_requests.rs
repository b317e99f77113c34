//! Requests of any ops, with any flags, parameters and inputs, over objects of all kinds: each is answered or refused,
//! and what it leaves behind can be read.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use codec::{Decode, Encode, Features, Payload, Reader};
use messages::{MOSDOp, OpCode, OpParams, OsdOp, op_flag, osd_flag, watch_op};
use proptest::{
    collection::vec,
    option::weighted,
    prelude::*,
    sample::{Index, select},
};
use store::ObjectStore;
use types::{EVersion, Errno, HObject, LogEntry, SnapContext, SnapId, Transaction, TxnOp, UTime};

use super::{
    bench::{
        Bench, POOL, call, compared_xattr, encoded, entries, extent, plain, range, snap, step, truncated,
        watch, xattr,
    },
    chunks::set_chunk,
    copies::copy_from,
    copy_gets::copy_get,
    limits::{repeated, sums},
    manifests::set_redirect,
    model::check_totals,
    snaps, tmaps,
};
use crate::{
    damage::{damage, damaged, number},
    exec::{Blocked, Executed, Kept, OBJECT_BYTES_MAX, execute, info_at, object_info::snapset_at},
    log::PgLog,
};

/// Objects of [`example`], and one that is not there.
pub(super) const NAMES: [&str; 7] = ["o", "t", "c", "r", "m", "w", "none"];

/// Ops that go well with one of the objects at least.
static SAMPLES: LazyLock<Vec<OsdOp>> =
    LazyLock::new(|| [data_ops(), key_ops(), watch_ops(), reference_ops(), class_ops()].concat());

fn data_ops() -> Vec<OsdOp> {
    let map = (Bytes::from("head"), entries(&[("k", "v")])).to_bytes(Features::default());
    vec![
        range(OpCode::READ, 0, 0),
        range(OpCode::SYNC_READ, 2, 4),
        truncated(range(OpCode::SPARSE_READ, 1, 9), 7, 5),
        range(OpCode::MAPEXT, 0, 20),
        plain(OpCode::STAT),
        plain(OpCode::ISDIRTY),
        extent(OpCode::CMPEXT, 1, "1"),
        sums(0, 12, 4),
        extent(OpCode::WRITE, 3, "abc"),
        truncated(extent(OpCode::WRITE, 8, "abc"), 7, 5),
        extent(OpCode::WRITEFULL, 0, "new"),
        repeated(3, 9, "abc"),
        extent(OpCode::APPEND, 0, "more"),
        range(OpCode::TRUNCATE, 5, 0),
        truncated(range(OpCode::TRUNCATE, 5, 0), 9, 5),
        truncated(range(OpCode::TRIMTRUNC, 0, 0), 9, 5),
        range(OpCode::ZERO, 2, 3),
        range(OpCode::ZERO, 2, 30),
        plain(OpCode::CREATE),
        plain(OpCode::DELETE),
        snap(OpCode::ROLLBACK, 3),
        snap(OpCode::ROLLBACK, 7),
        plain(OpCode::LIST_SNAPS),
        plain(OpCode::TMAPGET),
        step(OpCode::TMAPPUT, OpParams::default(), map),
        step(OpCode::TMAPUP, OpParams::default(), tmaps::change(b's', "k", Some("w"))),
    ]
}

fn key_ops() -> Vec<OsdOp> {
    let key = |key: &'static str| Bytes::from(key);
    vec![
        xattr(OpCode::GETXATTR, "a", ""),
        plain(OpCode::GETXATTRS),
        xattr(OpCode::SETXATTR, "b", "2"),
        xattr(OpCode::RMXATTR, "a", ""),
        compared_xattr(OpCode::CMPXATTR, "a", b"1", 1, 1),
        compared_xattr(OpCode::CMPXATTR, "n", &7u64.to_le_bytes(), 1, 2),
        encoded(OpCode::OMAPGETKEYS, (key("k1"), 9u64)),
        encoded(OpCode::OMAPGETVALS, (key(""), 9u64, key("k"))),
        encoded(OpCode::OMAPGETVALSBYKEYS, vec![key("k1"), key("x")]),
        plain(OpCode::OMAPGETHEADER),
        encoded(OpCode::OMAP_CMP, BTreeMap::from([(key("k1"), (key("v1"), 1i32))])),
        encoded(OpCode::OMAPSETVALS, entries(&[("k2", "x"), ("k9", "y")])),
        step(OpCode::OMAPSETHEADER, OpParams::default(), "header"),
        encoded(OpCode::OMAPRMKEYS, vec![key("k1")]),
        encoded(OpCode::OMAPRMKEYRANGE, (key("k1"), key("k3"))),
        plain(OpCode::OMAPCLEAR),
    ]
}

fn watch_ops() -> Vec<OsdOp> {
    let notification = (1u32, 5u32, Bytes::from("hello"));
    let answer = ((900u64, 9u64), Bytes::from("yes"));
    vec![
        watch(watch_op::WATCH, 3),
        watch(watch_op::LEGACY_WATCH, 4),
        watch(watch_op::RECONNECT, 9),
        watch(watch_op::PING, 9),
        watch(watch_op::UNWATCH, 9),
        encoded(OpCode::NOTIFY, notification),
        encoded(OpCode::NOTIFY_ACK, answer),
        plain(OpCode::LIST_WATCHERS),
    ]
}

fn reference_ops() -> Vec<OsdOp> {
    let mut with_truncation = copy_from("t", SnapId::HEAD, 0);
    with_truncation.code = OpCode::COPY_FROM2;
    with_truncation.params.0[16] = 32;
    let truncation = (7u32, 5u64).to_bytes(Features::default());
    with_truncation.data = [with_truncation.data, truncation].concat().into();
    vec![
        copy_from("t", SnapId::HEAD, 0),
        copy_from("c", SnapId(7), 0),
        with_truncation,
        copy_get(false, 0, false, "", false, 1 << 20),
        copy_get(true, 4, false, "k1", false, 9),
        set_redirect(POOL, "t", 0),
        set_redirect(POOL, "none", op_flag::WITH_REFERENCE),
        set_chunk(12, 4, "t", 8),
        set_chunk(2, 2, "none", u64::from(u32::MAX)),
        plain(OpCode::TIER_PROMOTE),
        plain(OpCode::TIER_FLUSH),
        plain(OpCode::TIER_EVICT),
        plain(OpCode::UNSET_MANIFEST),
    ]
}

fn class_ops() -> Vec<OsdOp> {
    let f = Features::default();
    let enveloped = |fields: &[u8]| [&[1, 1][..], &(fields.len() as u32).to_le_bytes(), fields].concat();
    let tag = (Bytes::from("tag"), true).to_bytes(f);
    vec![
        call("hello", "say_hello", b"world"),
        call("lock", "list_locks", b""),
        call("refcount", "get", &enveloped(&tag)),
        call("refcount", "put", &enveloped(&tag)),
        call("numops", "add", &(Bytes::from("n"), Bytes::from("1")).to_bytes(f)),
        call("rbd", "metadata_list", &(Bytes::new(), 9u64).to_bytes(f)),
        call("rbd", "object_map_resize", &(40u64, 1u8).to_bytes(f)),
    ]
}

/// Ops on an object; all are to go well.
fn prepare(bench: &mut Bench, name: &str, ops: Vec<OsdOp>) {
    let request = bench.request(name, SnapId::HEAD, ops);
    let done = serve(bench, &request, 0).expect("it is not refused");
    assert_eq!(done.result, 0, "{name}: {:?}", done.ops);
}

/// Objects with snapshots, xattrs, omap and a watch (`o`), with chunks (`c`) of another (`t`), one that refers to
/// another (`r`), an old map (`m`), and one of which only a snapshot is left (`w`).
pub(super) fn example() -> Bench {
    let mut bench = snaps::example();
    bench.ctx.connected.insert(9);
    let keys = vec![
        xattr(OpCode::SETXATTR, "a", "1"),
        xattr(OpCode::SETXATTR, "n", "7"),
        encoded(OpCode::OMAPSETVALS, entries(&[("k1", "v1"), ("k2", "v2"), ("k3", "v3"), ("n", "1")])),
        step(OpCode::OMAPSETHEADER, OpParams::default(), "head"),
        watch(watch_op::WATCH, 9),
    ];
    prepare(&mut bench, "o", keys);
    prepare(&mut bench, "t", vec![extent(OpCode::WRITEFULL, 0, "ABCDEFGHIJKLMNOP")]);
    prepare(&mut bench, "c", vec![extent(OpCode::WRITEFULL, 0, "abcdefghijklmnop")]);
    prepare(&mut bench, "c", vec![set_chunk(0, 4, "t", 8), set_chunk(4, 4, "t", 0)]);
    prepare(&mut bench, "c", vec![plain(OpCode::TIER_EVICT)]);
    prepare(&mut bench, "c", vec![set_chunk(8, 4, "t", 4)]);
    prepare(&mut bench, "r", vec![plain(OpCode::CREATE)]);
    prepare(&mut bench, "r", vec![set_redirect(POOL, "t", 0)]);
    let map = (Bytes::from("head"), entries(&[("k", "v")])).to_bytes(Features::default());
    prepare(&mut bench, "m", vec![step(OpCode::TMAPPUT, OpParams::default(), map)]);
    prepare(&mut bench, "w", vec![extent(OpCode::WRITEFULL, 0, "gone")]);
    bench.make_snap(7);
    prepare(&mut bench, "c", vec![extent(OpCode::WRITE, 13, "!")]);
    prepare(&mut bench, "w", vec![plain(OpCode::DELETE)]);
    bench
}

/// Has done what a request waits for, until it is answered or refused. Other objects answer with `answer`.
pub(super) fn serve(bench: &mut Bench, request: &MOSDOp, answer: i32) -> Option<Executed> {
    (bench.ctx.copied, bench.ctx.asked) = Default::default();
    loop {
        match execute(&bench.store, &bench.ctx, request) {
            Ok(done) => {
                bench.apply(&done);
                return Some(done);
            }
            Err(Blocked::Refused(_) | Blocked::PassOn { .. }) => return None,
            Err(Blocked::Copy { subop, source, part }) => {
                assert!(!bench.ctx.copied.contains_key(&subop), "the same is fetched twice");
                bench.fetch(subop, &source, part);
                if let Some(copied) = bench.ctx.copied.get_mut(&subop).filter(|_| answer < 0) {
                    copied.result = answer;
                }
            }
            Err(Blocked::Ask { question, .. }) => {
                assert_eq!(bench.ctx.asked.insert(question, answer), None, "the same is asked twice");
            }
            Err(Blocked::NotCached(missing)) => panic!("all is in memory, not so {missing:?}"),
        }
    }
}

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Given {
    name: &'static str,
    snapid: SnapId,
    /// Snapshots that the client knows, where they are not those of the bench.
    snapc: Option<SnapContext>,
    flags: u32,
    ops: Vec<OsdOp>,
    /// What other objects answer.
    pub(super) answer: i32,
}

impl Given {
    pub(super) fn request(&self, bench: &Bench) -> MOSDOp {
        let mut request = bench.request(self.name, self.snapid, self.ops.clone());
        request.flags = self.flags;
        request.mtime = UTime::new(5, 0);
        if let Some(snapc) = &self.snapc {
            request.snapc = snapc.clone();
        }
        request
    }
}

fn op() -> impl Strategy<Value = OsdOp> {
    let sample = prop_oneof![
        8 => any::<Index>().prop_map(|at| at.get(&SAMPLES[..]).clone()),
        1 => select(OpCode::ALL).prop_map(OsdOp::new),
        1 => any::<u16>().prop_map(|code| OsdOp::new(OpCode(code))),
    ];
    let flags = select(vec![0, op_flag::EXCL, op_flag::FAILOK, op_flag::WITH_REFERENCE, u32::MAX]);
    let field = (select(vec![0, 4, 8, 16, 20]), number());
    (sample, weighted(0.3, flags), vec(field, 0..2), vec(damage(), 0..2), vec(damage(), 0..2)).prop_map(
        |(mut op, flags, fields, of_params, of_data)| {
            op.flags = flags.unwrap_or(op.flags);
            for (at, value) in fields {
                op.params.0[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
            let params = damaged(&op.params.0, &of_params);
            op.params.0.iter_mut().zip(&params).for_each(|(byte, new)| *byte = *new);
            op.data = damaged(&op.data, &of_data);
            op
        },
    )
}

fn snap_context() -> impl Strategy<Value = SnapContext> {
    (number(), vec(number(), 0..4), 0..4).prop_map(|(mut seq, mut snaps, order)| {
        if order > 0 {
            snaps.sort_unstable_by(|one, other| other.cmp(one));
            snaps.dedup();
            seq = seq.max(snaps.first().copied().unwrap_or(0));
        }
        SnapContext { seq: SnapId(seq), snaps: snaps.into_iter().map(SnapId).collect() }
    })
}

const FLAGS: &[u32] =
    &[osd_flag::RETURNVEC, osd_flag::FULL_TRY, osd_flag::ORDERSNAP, osd_flag::IGNORE_REDIRECT];

pub(super) fn given() -> impl Strategy<Value = Given> {
    let snapid = prop_oneof![
        8 => Just(SnapId::HEAD),
        1 => Just(SnapId::DIR),
        2 => number().prop_map(SnapId),
    ];
    let flags = prop_oneof![
        3 => Just(0),
        2 => select(FLAGS),
        1 => any::<u32>(),
    ];
    let answer = prop_oneof![6 => Just(0), 1 => Just(-2), 1 => Just(i32::MIN), 1 => any::<i32>()];
    (select(NAMES.to_vec()), snapid, weighted(0.4, snap_context()), flags, vec(op(), 1..=4), answer).prop_map(
        |(name, snapid, snapc, flags, ops, answer)| Given { name, snapid, snapc, flags, ops, answer },
    )
}

/// What the PG is while it serves.
#[derive(Clone, Debug)]
struct Around {
    is_full: bool,
    notify_room: u64,
    removed: Vec<u64>,
    has_snaps: bool,
}

impl Around {
    fn set(&self, bench: &mut Bench) {
        bench.ctx.full = self.is_full.then_some(Errno::ENOSPC);
        bench.ctx.notify_room = self.notify_room;
        self.removed.iter().for_each(|snap| Arc::make_mut(&mut bench.ctx.removed_snaps).insert(*snap, 1));
        bench.ctx.pool_snapc = self.has_snaps.then(|| bench.snapc.clone());
    }
}

fn around() -> impl Strategy<Value = Around> {
    let room = prop_oneof![3 => Just(u64::MAX), 1 => Just(0), 1 => Just(1_000)];
    (prop::bool::weighted(0.1), room, vec(1u64..8, 0..2), prop::bool::weighted(0.1)).prop_map(
        |(is_full, notify_room, removed, has_snaps)| Around { is_full, notify_room, removed, has_snaps },
    )
}

/// What a request is answered, and what of it goes to other copies and to the log.
pub(super) fn check_answer(request: &MOSDOp, done: &Executed, at: EVersion, log: &mut PgLog, tail: EVersion) {
    assert_eq!(done.ops.len(), request.ops.len());
    let Some(staged) = &done.staged else { return };
    assert!(done.result >= 0 || staged.txn.ops.is_empty(), "what fails changes nothing");
    assert!(staged.length().is_some());
    let (mut meta, mut payloads) = (Vec::new(), Vec::new());
    staged.txn.encode_split(&mut meta, &mut payloads);
    let mut payload = Reader::new(Payload::joined(payloads).into_bytes());
    let received = Transaction::decode_split(&mut Reader::new(meta.into()), &mut payload);
    assert_eq!(received.as_ref(), Ok(&staged.txn));
    let is_of_object = |op: &TxnOp| matches!(op, TxnOp::Object(object, _) if object.head() == request.head());
    assert!(staged.txn.ops.iter().all(is_of_object), "{:?}", staged.txn);
    for (nth, entry) in staged.log.iter().enumerate() {
        assert_eq!(entry.version, EVersion { version: at.version + nth as u64, ..at });
        assert!(log.is_followed_by(entry, tail), "{entry:?} does not name what was before it");
        let bytes = entry.to_bytes(Features::default());
        assert!(bytes.len() < 8 << 10, "an entry has {} bytes", bytes.len());
        assert_eq!(LogEntry::from_bytes(bytes).as_ref(), Ok(entry));
        log.extend([entry.clone()]);
    }
}

/// What is kept of objects is whole: heads know their clones, and clones what they are.
pub(super) fn check_objects(bench: &Bench) {
    let (store, coll) = (&bench.store, bench.ctx.coll);
    for object in store.list(coll, &HObject::min(), usize::MAX).unwrap() {
        let Kept::Known(info) = info_at(store, coll, &object).unwrap() else {
            panic!("{object}: what is kept with it cannot be read");
        };
        let Kept::Known(snapset) = snapset_at(store, coll, &object.head()).unwrap() else {
            panic!("{object}: what is known of its clones cannot be read");
        };
        let size = store.meta(coll, &object).unwrap().unwrap().size;
        assert!(size <= OBJECT_BYTES_MAX);
        for (at, chunk) in info.chunks().into_iter().flatten() {
            assert!(at + u64::from(chunk.length) <= size, "{object}: a chunk reaches beyond its end");
        }
        if let Some(clone) = snapset.clones.iter().find(|clone| clone.id == object.snap) {
            assert_eq!(clone.size, size, "{object}");
            assert!(clone.overlap.iter().all(|(at, len)| at + len <= size), "{object}: {clone:?}");
        } else {
            assert!(object.is_head(), "{object}: its head does not know it");
        }
        let ids: Vec<SnapId> = snapset.clones.iter().map(|clone| clone.id).collect();
        assert!(ids.is_sorted_by(|one, next| one < next) && ids.last() <= Some(&snapset.seq));
        for clone in &snapset.clones {
            assert!(store.meta(coll, &object.with_snap(clone.id)).unwrap().is_some(), "{object}: {clone:?}");
            assert!(clone.snaps.is_sorted_by(|one, next| one > next) && clone.snaps[0] <= clone.id);
        }
    }
    check_totals(bench);
}

#[test]
fn what_is_varied_goes_well() {
    for op in SAMPLES.iter() {
        let is_well = |(name, snapid): (&str, SnapId)| {
            let mut bench = example();
            let request = bench.request(name, snapid, vec![op.clone()]);
            serve(&mut bench, &request, 0).is_some_and(|done| done.result >= 0)
        };
        let at = |name| [(name, SnapId::HEAD), (name, SnapId::DIR)];
        assert!(NAMES.into_iter().flat_map(at).any(is_well), "{op:?}");
    }
    check_objects(&example());
}

proptest! {
    #![proptest_config(::damage::cases(300))]

    #[test]
    fn any_request_is_answered_or_refused(around in around(), requests in vec(given(), 1..4)) {
        let mut bench = example();
        around.set(&mut bench);
        let tail = EVersion { version: bench.ctx.next_version.version - 1, ..bench.ctx.next_version };
        let mut log = PgLog::default();
        for given in &requests {
            let (request, at) = (given.request(&bench), bench.ctx.next_version);
            if let Some(done) = serve(&mut bench, &request, given.answer) {
                check_answer(&request, &done, at, &mut log, tail);
            }
            check_objects(&bench);
        }
    }
}
