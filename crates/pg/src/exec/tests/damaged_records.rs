//! What the PG keeps with objects, damaged: it cannot be read, or means something else, and is dealt with either way.

use std::{collections::BTreeMap, fmt::Debug};

use bytes::Bytes;
use codec::{Decode, Encode, Features, Payload};
use messages::Message;
use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
};
use store::ObjectStore;
use types::{
    Chunk, EVersion, EntityAddr, Epoch, HObject, IntervalSet, Mutation, ObjectManifest, SnapId, Token,
    Transaction, UTime,
};

use super::{
    any_requests::{NAMES, check_answer, check_objects, example, given, serve},
    bench::{Bench, copy_data},
    copies::copy_from,
};
use crate::{
    damage::{Damage, damage, damaged, number},
    exec::{
        CloneInfo, INFO_XATTR, Kept, Manifest, MeasuredOmap, ObjectInfo, SNAPSET_XATTR, SnapSet, TrimStep,
        copy_out, execute, info_at,
        object_info::{WatchInfo, snapset_at},
        put_chunk, remove_watcher, trim_object, trim_step,
    },
    log::PgLog,
};

fn infos() -> [ObjectInfo; 2] {
    let watcher = |addr: &str| WatchInfo { addr: EntityAddr::parse(addr).unwrap(), timeout_sec: 30 };
    let watchers = [((7, 9), watcher("v2:10.0.0.1:0/5")), ((8, 1), watcher("v2:[fe80::1%2]:0/6"))];
    let target = HObject { oid: "t".into(), key: "key".into(), nspace: "ns".into(), ..HObject::default() };
    let chunk = |offset| Chunk {
        offset,
        length: 4,
        target: target.clone(),
        is_missing: offset == 8,
        has_reference: true,
    };
    let chunked = ObjectManifest::Chunked([(0, chunk(8)), (4, chunk(0))].into());
    let info = |manifest| ObjectInfo {
        version: EVersion::new(Epoch(4), 9),
        prior_version: EVersion::new(Epoch(3), 7),
        user_version: 8,
        mtime: UTime::new(5, 6),
        is_whiteout: false,
        watchers: BTreeMap::from(watchers.clone()),
        truncate_seq: 3,
        truncate_size: 4096,
        is_clean: true,
        manifest: Some(Box::new(Manifest { manifest, has_reference: true })),
    };
    [info(ObjectManifest::Redirect(target.clone())), info(chunked)]
}

fn snapset() -> SnapSet {
    let clone = |id: u64| {
        let mut overlap = IntervalSet::new();
        [(0, 4), (8, id)].iter().for_each(|(at, len)| overlap.insert(*at, *len));
        CloneInfo { id: SnapId(id), snaps: vec![SnapId(id), SnapId(id - 1)], size: 16, overlap }
    };
    SnapSet { seq: SnapId(7), clones: vec![clone(3), clone(5), clone(7)] }
}

/// What can be read is written as something that says the same, and is not much longer.
fn check_reading<T: Decode + Encode + Debug + PartialEq>(bytes: &Bytes) {
    if let Ok(read) = T::from_bytes(bytes.clone()) {
        let written = read.to_bytes(Features::default());
        assert!(written.len() <= 2 * bytes.len() + 256, "{} bytes of {}", written.len(), bytes.len());
        assert_eq!(T::from_bytes(written), Ok(read));
    }
}

/// Damages what is kept with some of the objects, of heads more often than of clones.
fn damage_kept(bench: &mut Bench, damages: &[(Index, bool, Vec<Damage>)]) {
    let coll = bench.ctx.coll;
    let objects = bench.store.list(coll, &HObject::min(), usize::MAX).unwrap();
    let mut txn = Transaction::new(coll);
    for (at, is_snapset, damages) in damages {
        let object = at.get(&objects);
        let name = if *is_snapset && object.is_head() { SNAPSET_XATTR } else { INFO_XATTR };
        let kept = bench.store.xattr(coll, object, name).unwrap().expect("it is kept with every object");
        let pair = (Bytes::from_static(name), damaged(&kept, damages));
        txn.push(object, Mutation::SetXattrs([pair].into()));
    }
    bench.store.submit(Token(0), txn);
}

fn is_readable(bench: &Bench, head: &HObject) -> bool {
    let (info, snapset) =
        (info_at(&bench.store, bench.ctx.coll, head), snapset_at(&bench.store, bench.ctx.coll, head));
    info.unwrap() != Kept::Undecodable && snapset.unwrap() != Kept::Undecodable
}

/// Ends the watch, and takes the snapshots from all clones.
fn tidy_up(bench: &mut Bench, removed: &[u64]) {
    let (coll, is_removed) = (bench.ctx.coll, |snap: SnapId| removed.contains(&snap.0));
    let at = bench.ctx.next_version;
    for head in bench.store.list(coll, &HObject::min(), usize::MAX).unwrap() {
        if let Some(staged) = remove_watcher(&bench.store, coll, &head, (7, 9), at).unwrap() {
            bench.store.submit(Token(0), staged.txn);
        }
        let trimmed = trim_object(&bench.store, coll, &head, &is_removed, at).unwrap();
        assert!(trimmed.is_none() || is_readable(bench, &head));
    }
    let (mut from, mut steps) = (HObject::min(), 0);
    loop {
        match trim_step(&bench.store, coll, &from, &is_removed, at).unwrap() {
            TrimStep::Done => return,
            TrimStep::Continue(next) => from = next,
            TrimStep::Change(_, staged, _) => bench.store.submit(Token(0), staged.txn),
        }
        steps += 1;
        assert!(steps < 100, "it does not end");
    }
}

proptest! {
    #![proptest_config(::damage::cases(3_000))]

    #[test]
    fn a_damaged_record_cannot_be_read_or_can_be_written_again(damages in vec(damage(), 1..4)) {
        let f = Features::default();
        for info in infos() {
            check_reading::<ObjectInfo>(&damaged(&info.to_bytes(f), &damages));
            check_reading::<Manifest>(&damaged(&info.manifest.unwrap().to_bytes(f), &damages));
        }
        check_reading::<SnapSet>(&damaged(&snapset().to_bytes(f), &damages));
    }

    #[test]
    fn noise_cannot_be_read_or_can_be_written_again(noise in vec(any::<u8>(), 0..99)) {
        let noise = Bytes::from(noise);
        check_reading::<ObjectInfo>(&noise);
        check_reading::<Manifest>(&noise);
        check_reading::<SnapSet>(&noise);
    }
}

proptest! {
    #![proptest_config(::damage::cases(300))]

    #[test]
    fn objects_with_damaged_records_are_served_or_refused(
        damages in vec((any::<Index>(), any::<bool>(), vec(damage(), 1..3)), 1..4),
        requests in vec(given(), 1..4),
        removed in vec(0u64..9, 0..4),
        snap in number(),
    ) {
        let mut bench = example();
        damage_kept(&mut bench, &damages);
        for given in &requests {
            let request = given.request(&bench);
            let is_readable = is_readable(&bench, &request.head());
            let is_of_pg = request.ops.iter().any(|step| step.code.is_pg());
            let done = serve(&mut bench, &request, given.answer);
            prop_assert!(is_readable || is_of_pg || done.is_none(), "what it is is not known");
        }
        for object in bench.store.list(bench.ctx.coll, &HObject::min(), usize::MAX).unwrap() {
            let (object, mut copy) = (object.with_snap(SnapId(snap)), copy_data(bench.ctx.coll));
            let measured = &mut MeasuredOmap::default();
            copy_out(&bench.store, bench.ctx.coll, &object, false, measured, &mut copy).unwrap();
        }
        tidy_up(&mut bench, &removed);
    }

    /// What another OSD tells of an object to be copied, chunks included.
    #[test]
    fn a_copy_of_anything_is_taken_or_refused(
        (source, name) in (select(NAMES.to_vec()), select(NAMES.to_vec())),
        snap in prop_oneof![Just(SnapId::HEAD), number().prop_map(SnapId)],
        damages in vec(damage(), 0..4),
    ) {
        let mut bench = example();
        let coll = bench.ctx.coll;
        let (source, mut copy) = (Bench::object(source).with_snap(snap), copy_data(coll));
        copy_out(&bench.store, coll, &source, false, &mut MeasuredOmap::default(), &mut copy).unwrap();
        let mut raw = Message::from(copy).encode(0);
        raw.data = Payload::joined(std::mem::take(&mut raw.data_more));
        raw.front = damaged(&raw.front, &damages);
        let Ok(Message::MPgCopyData(mut copy)) = Message::decode(raw) else { return Ok(()) };
        let told = copy.clone();
        for (at, chunk) in &told.missing {
            put_chunk(&mut copy, *at, chunk, &told);
        }
        bench.ctx.copied.insert(0, copy);
        let request = bench.request(name, SnapId::HEAD, vec![copy_from("elsewhere", SnapId::HEAD, 0)]);
        let at = bench.ctx.next_version;
        if let Ok(done) = execute(&bench.store, &bench.ctx, &request) {
            bench.apply(&done);
            let tail = EVersion { version: at.version - 1, ..at };
            check_answer(&request, &done, at, &mut PgLog::default(), tail);
        }
        check_objects(&bench);
    }
}
