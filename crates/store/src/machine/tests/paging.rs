//! An index of which little is in memory.

use super::*;
use crate::{DeviceError, IndexMemory, Inspected};

const OBJECTS: u32 = 1_500;

fn small() -> Config {
    Config { index_bytes_max: 128 << 10, page_bytes_max: 1 << 10, ..config() }
}

fn data(number: u32) -> Bytes {
    Bytes::from(vec![number as u8; 100])
}

fn put(number: u32) -> Transaction {
    let mut txn = Transaction::new(coll(number % 2));
    txn.ops.push(TxnOp::CreateCollection);
    txn.push(&object(number), Mutation::Write { offset: 0, data: data(number).into() });
    txn.push(&object(number), Mutation::SetXattrs([(Bytes::from("n"), data(number))].into()));
    txn
}

/// A store with many objects, settled.
fn filled(rng: &mut StdRng) -> (Store, VirtualDisk) {
    let mut disk = formatted(64 << 20, &small());
    let mut store = disk.mount(small(), rng).unwrap();
    for number in 0..OBJECTS {
        store.submit(Token(u64::from(number)), put(number));
        store.kick();
        settle(&mut store, &mut disk, rng);
    }
    (store, disk)
}

#[test]
fn what_is_dropped_is_read_again() {
    let mut rng = StdRng::seed_from_u64(12);
    let (mut store, mut disk) = filled(&mut rng);
    store.set_index_bytes(1 << 30);
    let all = |store: &mut Store, disk: &mut VirtualDisk, rng: &mut StdRng| {
        for number in 0..OBJECTS {
            let (c, name) = (coll(number % 2), object(number));
            let read = ask(store, disk, rng, |s| s.read(c, &name, 0, 200)).unwrap();
            assert_eq!(read, data(number));
        }
    };
    all(&mut store, &mut disk, &mut rng);
    let before = store.cached();
    assert!(before.data.bytes > 0 && before.onodes.items > 1_000, "{before:?}");
    store.drop_cache();
    store.kick();
    let after = store.cached();
    assert!(after.data.bytes == 0 && after.onodes.items < 100, "{after:?}");
    all(&mut store, &mut disk, &mut rng);
}

/// Lets eviction look at everything.
fn rest(store: &mut Store, disk: &mut VirtualDisk, rng: &mut StdRng) -> IndexMemory {
    for _ in 0..100 {
        store.kick();
        settle(store, disk, rng);
    }
    store.index_memory()
}

#[test]
fn more_objects_than_memory_holds_are_all_there() {
    let mut rng = StdRng::seed_from_u64(5);
    let (mut store, mut disk) = filled(&mut rng);
    let memory = rest(&mut store, &mut disk, &mut rng);
    assert!(memory.loaded < memory.pages / 2, "{memory:?}");
    assert!(memory.bytes <= small().index_bytes_max * 5 / 4, "{memory:?}");
    for c in [0, 1] {
        let names = ask(&mut store, &mut disk, &mut rng, |s| s.list(coll(c), &HObject::min(), usize::MAX));
        assert_eq!(names.unwrap().len() as u32, OBJECTS / 2);
    }
    for number in (0..OBJECTS).rev() {
        let (c, o) = (coll(number % 2), object(number));
        assert_eq!(read(&mut store, &mut disk, &mut rng, c, &o, (0, 200)), Ok(data(number)));
    }
    assert!(store.index_memory().reads > memory.reads);
    let missing = ask(&mut store, &mut disk, &mut rng, |s| s.meta(coll(0), &object(OBJECTS)));
    assert_eq!(missing, Ok(None));
    store.check_invariants();
    store.unmount_after(&mut disk, &mut rng);

    // A mount reads what it needs and no more; one with room reads all.
    let mut store = disk.mount(small(), &mut rng).unwrap();
    let memory = store.index_memory();
    assert!(memory.reads < 10 && memory.pages > 100, "{memory:?}");
    assert_eq!(store.usage().data_bytes, u64::from(OBJECTS) * BLOCK);
    assert_eq!(read(&mut store, &mut disk, &mut rng, coll(0), &object(8), (0, 200)), Ok(data(8)));
    let config = Config { index_bytes_max: u64::MAX, ..small() };
    let store = disk.mount(config, &mut rng).unwrap();
    assert_eq!(store.index_memory().loaded, store.index_memory().pages);
    store.check_invariants();
    assert_eq!(disk.fsck(small(), &mut rng).problems, []);
}

#[test]
fn a_crash_of_a_store_larger_than_memory_costs_the_pages_that_the_journal_names() {
    let mut rng = StdRng::seed_from_u64(6);
    let (mut store, mut disk) = filled(&mut rng);
    store.unmount_after(&mut disk, &mut rng);
    let mut store = disk.mount(small(), &mut rng).unwrap();
    for number in [700, 40, 1_200] {
        let mut txn = Transaction::new(coll(number % 2));
        txn.push(&object(number), Mutation::Remove);
        store.submit(Token(1), txn);
    }
    store.submit(Token(1), put(OBJECTS + 4));
    store.kick();
    settle(&mut store, &mut disk, &mut rng);
    disk.crash_cleanly();
    let mut store = disk.mount(small(), &mut rng).unwrap();
    assert!(store.replayed().transactions >= 4);
    assert!(store.index_memory().reads < 20, "{:?}", store.index_memory());
    for number in [700, 40, 1_200] {
        let (c, o) = (coll(number % 2), object(number));
        assert_eq!(ask(&mut store, &mut disk, &mut rng, |s| s.meta(c, &o)), Ok(None));
    }
    let names = ask(&mut store, &mut disk, &mut rng, |s| s.list(coll(0), &HObject::min(), usize::MAX));
    assert_eq!(names.unwrap().len() as u32, OBJECTS / 2 - 2);
}

#[test]
fn what_waits_for_a_page_is_applied_in_order_and_never_half_seen() {
    let mut rng = StdRng::seed_from_u64(7);
    let (mut store, mut disk) = filled(&mut rng);
    store.unmount_after(&mut disk, &mut rng);
    let mut store = disk.mount(small(), &mut rng).unwrap();
    // Collections are 0: even numbers, 1: odd ones.
    let (gone, kept, new) = (object(100), object(102), object(OBJECTS + 100));
    let all = ask(&mut store, &mut disk, &mut rng, |s| s.list(coll(0), &HObject::min(), usize::MAX)).unwrap();
    let mut txn = Transaction::new(coll(0));
    txn.push(&gone, Mutation::Remove);
    store.unmount_after(&mut disk, &mut rng);
    let mut store = disk.mount(small(), &mut rng).unwrap();
    store.submit(Token(1), txn);
    let mut txn = Transaction::new(coll(0));
    txn.push(&kept, Mutation::Truncate { size: 7 });
    txn.push(&new, Mutation::Touch);
    store.submit(Token(2), txn);
    assert_eq!(store.uncommitted_count(), 2);
    for o in [&gone, &kept, &new] {
        assert!(store.meta(coll(0), o).is_err(), "what is waited for is not at hand");
    }
    // Nothing of the other collection has to wait for that.
    let mut txn = Transaction::new(coll(9));
    txn.ops.push(TxnOp::CreateCollection);
    store.submit(Token(3), txn);
    assert!(store.collection_exists(coll(9)) && store.collection_exists(coll(0)));
    store.load(Token(50), store.meta(coll(0), &new).unwrap_err());
    store.kick();
    let done = settle(&mut store, &mut disk, &mut rng);
    let committed = |token| done.iter().position(|found| *found == Completion::Committed(Token(token)));
    assert!(committed(1).unwrap() < committed(2).unwrap());
    assert!(done.contains(&Completion::Loaded(Token(50), Ok(()))));
    assert_eq!(store.meta(coll(0), &new), Ok(Some(ObjectMeta { size: 0 })));
    assert_eq!(ask(&mut store, &mut disk, &mut rng, |s| s.meta(coll(0), &gone)), Ok(None));
    let size = ask(&mut store, &mut disk, &mut rng, |s| s.meta(coll(0), &kept)).unwrap();
    assert_eq!(size, Some(ObjectMeta { size: 7 }));
    let now = ask(&mut store, &mut disk, &mut rng, |s| s.list(coll(0), &HObject::min(), usize::MAX)).unwrap();
    let mut expected: Vec<HObject> = all.into_iter().filter(|o| *o != gone).chain([new]).collect();
    expected.sort_unstable();
    assert_eq!(now, expected);
}

/// A store just mounted, something that is not in its memory, and where on the device the page is that has it.
fn with_an_absent_page(rng: &mut StdRng) -> (Store, VirtualDisk, NotCached, u64) {
    let (mut store, mut disk) = filled(rng);
    store.unmount_after(&mut disk, rng);
    let store = disk.mount(small(), rng).unwrap();
    let missing = store.meta(coll(0), &object(100)).unwrap_err();
    let NotCached::Index { coll: c, object: o, omap } = missing.clone() else { panic!("{missing:?}") };
    let key = crate::index::Key { coll: c, object: o, omap };
    let offset = store.index.directory.page_at(&key).place.blob.runs[0].start * BLOCK;
    (store, disk, missing, offset)
}

#[test]
fn a_page_that_is_read_wrong_some_times_is_read_again() {
    let mut rng = StdRng::seed_from_u64(8);
    let (mut store, mut disk, missing, offset) = with_an_absent_page(&mut rng);
    let mut good = disk.clone();
    disk.flip_bit(offset + 50, 3);
    store.load(Token(4), missing);
    for wrong in 0..3 {
        let commands = store.take_commands();
        assert!(!commands.is_empty() && store.take_completions().is_empty());
        for command in commands {
            let (token, result) = disk.execute(command);
            // The device fails, or what comes is not what was written.
            store.device_done(token, if wrong == 1 { Err(DeviceError::Io) } else { result });
        }
    }
    let done = settle(&mut store, &mut good, &mut rng);
    assert!(done.contains(&Completion::Loaded(Token(4), Ok(()))));
    assert!(store.fault().is_none());
    store.check_invariants();
}

#[test]
fn a_damaged_page_that_is_read_late_stops_the_store() {
    let mut rng = StdRng::seed_from_u64(8);
    let (mut store, mut disk, missing, offset) = with_an_absent_page(&mut rng);
    disk.flip_bit(offset + 50, 3);
    store.load(Token(4), missing);
    let done = settle(&mut store, &mut disk, &mut rng);
    assert!(done.contains(&Completion::Loaded(Token(4), Err(ReadError::Device))));
    assert!(store.fault().is_some());
    // What the page names is not absent because of that.
    assert!(store.meta(coll(0), &object(100)).is_err());
    let listed = store.list(coll(0), &HObject::min(), usize::MAX);
    assert!(listed.is_err(), "{listed:?}");
}

#[test]
fn who_looks_at_a_store_with_a_damaged_page_is_told() {
    let mut rng = StdRng::seed_from_u64(8);
    let (_, mut disk, _, offset) = with_an_absent_page(&mut rng);
    assert_eq!(inspected(&mut disk, &mut rng).problems(), []);
    disk.flip_bit(offset + 50, 3);
    let mut mount = Store::inspect(disk.sizes(), config());
    let take = Mount::take_inspected;
    let inspected = disk.drive(&mut rng, &mut mount, Mount::take_commands, Mount::device_done, take).unwrap();
    assert_eq!(inspected.problems(), [crate::Problem::Index { what: "index page", offset }]);
}

/// Opens the store to look at it.
fn inspected(disk: &mut VirtualDisk, rng: &mut StdRng) -> Inspected {
    let mut mount = Store::inspect(disk.sizes(), small());
    let take = Mount::take_inspected;
    disk.drive(rng, &mut mount, Mount::take_commands, Mount::device_done, take).unwrap()
}

#[test]
fn who_only_looks_needs_no_more_memory_than_it_may_have() {
    let mut rng = StdRng::seed_from_u64(9);
    let (mut store, mut disk) = filled(&mut rng);
    store.unmount_after(&mut disk, &mut rng);
    let report = disk.fsck(small(), &mut rng);
    assert_eq!((report.problems, report.counts.objects), (Vec::new(), u64::from(OBJECTS)));
    assert_eq!(report.counts.object_bytes, u64::from(OBJECTS) * 100);

    let mut inspected = inspected(&mut disk, &mut rng);
    for number in 0..OBJECTS {
        let (c, o) = (coll(number % 2), object(number));
        let layout = ask(&mut inspected.store, &mut disk, &mut rng, |s| s.layout(c, &o)).unwrap();
        assert_eq!(layout.map(|layout| (layout.size, layout.extents.len())), Some((100, 1)));
        inspected.forget();
    }
    let memory = inspected.store.index_memory();
    assert!(memory.reads > memory.pages as u64 && memory.loaded < memory.pages / 2, "{memory:?}");
    assert!(memory.bytes <= small().index_bytes_max * 5 / 4, "{memory:?}");

    // The check reads pages that nobody else reads.
    let key = crate::index::Key::of(coll(1), &object(777));
    let run = inspected.store.index.directory.page_at(&key).place.blob.runs[0];
    disk.flip_bit(run.start * BLOCK + 50, 3);
    let problems = disk.fsck(small(), &mut rng).problems;
    let offset = run.start * BLOCK;
    assert_eq!(problems, [crate::Problem::Index { what: "index page", offset }]);
}

#[test]
fn who_only_looks_goes_on_without_a_damaged_page_and_is_told() {
    let mut rng = StdRng::seed_from_u64(10);
    let (mut store, mut disk) = filled(&mut rng);
    store.unmount_after(&mut disk, &mut rng);
    let mut inspected = inspected(&mut disk, &mut rng);
    let key = crate::index::Key::of(coll(1), &object(777));
    assert!(inspected.store.index.is_absent(&key));
    let run = inspected.store.index.directory.page_at(&key).place.blob.runs[0];
    disk.flip_bit(run.start * BLOCK + 50, 3);
    let (mut names, mut from) = (Vec::new(), HObject::min());
    loop {
        let more = ask(&mut inspected.store, &mut disk, &mut rng, |s| s.list(coll(1), &from, 100)).unwrap();
        let more: Vec<_> = more.into_iter().filter(|name| names.last() != Some(name)).collect();
        inspected.forget();
        let Some(last) = more.last() else { break };
        from = last.clone();
        names.extend(more);
    }
    assert!(!names.contains(&object(777)));
    assert!((OBJECTS as usize / 4..OBJECTS as usize / 2).contains(&names.len()), "{}", names.len());
    assert_eq!(
        inspected.problems(),
        [crate::Problem::Index { what: "index page", offset: run.start * BLOCK }]
    );
}

#[test]
fn who_only_looks_knows_which_objects_lack_a_part() {
    let mut rng = StdRng::seed_from_u64(11);
    let (mut store, mut disk) = filled(&mut rng);
    let big = object(OBJECTS);
    let mut txn = Transaction::new(coll(0));
    let pair = |at: u32| (Bytes::from(format!("{at:06}")), Bytes::from(vec![5; 100]));
    txn.push(&big, Mutation::OmapSet((0..2_000).map(pair).collect()));
    store.submit(Token(1), txn);
    store.unmount_after(&mut disk, &mut rng);
    let mut inspected = inspected(&mut disk, &mut rng);
    let key = crate::index::Key { omap: Some("001000".into()), ..crate::index::Key::of(coll(0), &big) };
    assert!(inspected.store.index.is_absent(&key));
    let run = inspected.store.index.directory.page_at(&key).place.blob.runs[0];
    disk.flip_bit(run.start * BLOCK + 50, 3);
    let all = |store: &Store| store.omap_range(coll(0), &big, Bound::Unbounded, OmapMost::ALL);
    let pairs = ask(&mut inspected.store, &mut disk, &mut rng, all).unwrap();
    inspected.forget();
    assert!((1_000..2_000).contains(&pairs.len()), "{}", pairs.len());
    let is_hidden = |number| inspected.hides_part_of(coll(0), &object(number));
    assert_eq!([0, OBJECTS - 2, OBJECTS].map(is_hidden), [false, false, true]);
}

fn record() -> HObject {
    HObject { oid: Bytes::from_static(b"record"), pool: PoolId(-2), ..HObject::default() }
}

/// A filled store that also has what an OSD keeps of each collection, after an orderly stop.
fn recorded(rng: &mut StdRng) -> (Store, VirtualDisk) {
    let (mut store, mut disk) = filled(rng);
    for c in [0, 1] {
        let mut txn = Transaction::new(coll(c));
        txn.push(&record(), Mutation::OmapSet([(Bytes::from("info"), data(1))].into()));
        store.submit(Token(1), txn);
    }
    store.unmount_after(&mut disk, rng);
    (disk.mount(small(), rng).unwrap(), disk)
}

fn removal(c: u32) -> Transaction {
    let mut txn = Transaction::new(coll(c));
    txn.ops.push(TxnOp::RemoveCollection);
    txn
}

#[test]
fn a_large_collection_goes_step_by_step_and_is_gone_for_readers_at_once() {
    let mut rng = StdRng::seed_from_u64(10);
    let (mut store, mut disk) = recorded(&mut rng);
    store.submit(Token(1), removal(0));
    // What comes next waits for that.
    store.submit(Token(2), put(4));
    store.submit(Token(3), put(5));
    assert_eq!(store.list(coll(0), &HObject::min(), 9).unwrap(), [object(4)]);
    let (mut done, mut loaded) = (Vec::new(), 0);
    while done.len() < 3 {
        store.kick();
        disk.submit(store.take_commands());
        if let Some((token, result)) = disk.step(&mut rng) {
            store.device_done(token, result);
        }
        loaded = loaded.max(store.index_memory().loaded);
        done.extend(store.take_completions());
    }
    // Changed pages may have three quarters, even if nothing is left of them.
    assert!(loaded < store.index_memory().pages / 4 * 3, "{loaded} of {:?}", store.index_memory());
    let place = |token| done.iter().position(|found| *found == Completion::Committed(Token(token)));
    assert!(place(1).unwrap() < place(2).unwrap() && place(3).is_some());
    let names = ask(&mut store, &mut disk, &mut rng, |s| s.list(coll(0), &HObject::min(), usize::MAX));
    assert_eq!(names.unwrap(), [object(4)]);
    store.unmount_after(&mut disk, &mut rng);
    let mut store = disk.mount(small(), &mut rng).unwrap();
    let names = ask(&mut store, &mut disk, &mut rng, |s| s.list(coll(1), &HObject::min(), usize::MAX));
    assert_eq!(names.unwrap().len() as u32, OBJECTS / 2 + 1);
    assert_eq!(store.usage().data_bytes, (u64::from(OBJECTS) / 2 + 1) * BLOCK);
    assert_eq!(disk.fsck(small(), &mut rng).problems, []);
}

#[test]
fn a_power_cut_while_a_large_collection_goes_leaves_it_whole_or_without_its_record() {
    let mut rng = StdRng::seed_from_u64(11);
    let (mut store, mut disk) = recorded(&mut rng);
    let names = |store: &mut Store, disk: &mut VirtualDisk, rng: &mut StdRng, c| {
        ask(store, disk, rng, |s| s.list(coll(c), &HObject::min(), usize::MAX)).unwrap()
    };
    let before = names(&mut store, &mut disk, &mut rng, 0);
    store.set_index_bytes(0);
    rest(&mut store, &mut disk, &mut rng);
    store.submit(Token(1), removal(0));
    let (mut is_committed, mut halves) = (false, 0);
    loop {
        store.kick();
        disk.submit(store.take_commands());
        if rng.random_bool(0.03) {
            let mut copy = disk.clone();
            copy.crash(&mut rng);
            assert_eq!(copy.fsck(small(), &mut rng).problems, []);
            let mut store = copy.mount(small(), &mut rng).unwrap();
            let left = names(&mut store, &mut copy, &mut rng, 0);
            assert!(before.ends_with(&left), "objects go in their order");
            assert!(left.is_empty() || !is_committed);
            assert!(left == before || !left.contains(&record()));
            halves += u32::from(!left.is_empty() && left != before);
            // As an OSD does with what has no record.
            store.submit(Token(1), removal(0));
            store.kick();
            settle(&mut store, &mut copy, &mut rng);
            assert_eq!(store.collections(), [coll(1)]);
            assert_eq!(names(&mut store, &mut copy, &mut rng, 1).len() as u32, OBJECTS / 2 + 1);
            store.unmount_after(&mut copy, &mut rng);
            assert_eq!(copy.fsck(small(), &mut rng).problems, []);
        }
        let Some((token, result)) = disk.step(&mut rng) else { break };
        store.device_done(token, result);
        is_committed |= store.take_completions().contains(&Completion::Committed(Token(1)));
    }
    assert!(is_committed && halves > 2, "{halves}");
}

/// So that a reader of many entries begins anew for each of their pages, at little cost, and for no other page.
#[test]
fn what_is_missing_of_omap_entries_with_a_prefix_is_known_without_reading_them() {
    let mut rng = StdRng::seed_from_u64(17);
    let (mut store, mut disk) = filled(&mut rng);
    let key = |prefix: char, at: u32| Bytes::from(format!("{prefix}_{at:03}"));
    for prefix in ['a', 'b', 'c'] {
        let entries = (0..200).map(|at| (key(prefix, at), data(at)));
        let mut txn = Transaction::new(coll(0));
        txn.push(&object(0), Mutation::OmapSet(entries.collect()));
        store.submit(Token(1), txn);
        store.kick();
        settle(&mut store, &mut disk, &mut rng);
    }
    store.unmount_after(&mut disk, &mut rng);
    let mut store = disk.mount(small(), &mut rng).unwrap();
    let (c, o) = (coll(0), object(0));
    let bytes = |store: &Store, from: &[u8], pages_max: usize, bytes_max: u64| {
        store.omap_bytes(c, &o, Bound::Excluded(from), b"b_", pages_max, bytes_max)
    };
    // Of a page that is more than the caller wants nothing is loaded.
    assert!(bytes(&store, b"b_", usize::MAX, 10).is_ok_and(|bytes| bytes > 10));
    let mut loads = 0;
    while let Err(missing) = bytes(&store, b"b_", usize::MAX, u64::MAX) {
        let NotCached::Index { omap: Some(omap), .. } = &missing else { panic!("{missing:?}") };
        assert!(omap.starts_with(b"b_"), "{omap:?}");
        loads += 1;
        assert_eq!(bytes(&store, b"b_", loads as usize, u64::MAX), Err(missing.clone()));
        store.load(Token(100 + loads), missing);
        settle(&mut store, &mut disk, &mut rng);
        assert!(bytes(&store, b"b_", loads as usize, u64::MAX).is_ok());
    }
    assert!(loads > 10, "{loads}");
    let all = bytes(&store, b"b_", usize::MAX, u64::MAX).unwrap();
    assert!(bytes(&store, b"b_100", usize::MAX, u64::MAX).is_ok_and(|bytes| 0 < bytes && bytes < all));
    for at in 0..200 {
        assert_eq!(store.omap_get(c, &o, &key('b', at)), Ok(Some(data(at))));
    }
    assert!([key('a', 100), key('c', 100)].iter().all(|key| store.omap_get(c, &o, key).is_err()));
}

/// First keys of pages stay in memory: no more of them than it takes.
#[test]
fn long_omap_keys_take_no_memory_where_they_differ_early() {
    const KEYS: u32 = 400;
    let mut rng = StdRng::seed_from_u64(19);
    let mut disk = formatted(64 << 20, &small());
    let mut store = disk.mount(small(), &mut rng).unwrap();
    let (c, o) = (coll(0), object(0));
    let key = |at: u32, len: usize| Bytes::from(format!("{at:03}{:k<len$}", ""));
    // Those of the other object differ in their last byte only, so that no page is without a long key.
    let late = |at: u32| Bytes::from([vec![b'k'; 8_000], at.to_be_bytes().to_vec()].concat());
    for at in 0..KEYS {
        let mut txn = Transaction::new(c);
        txn.ops.push(TxnOp::CreateCollection);
        txn.push(&o, Mutation::OmapSet([(key(at, 8_000), data(at))].into()));
        txn.push(&object(2), Mutation::OmapSet([(late(at), data(at))].into()));
        store.submit(Token(1), txn);
        store.kick();
        settle(&mut store, &mut disk, &mut rng);
    }
    store.unmount_after(&mut disk, &mut rng);
    let mut store = disk.mount(small(), &mut rng).unwrap();
    let memory = store.index_memory();
    assert!(memory.pages as u32 >= 2 * KEYS, "{memory:?}");
    // Each key of the other object, and next to nothing for the first one's.
    let long = u64::from(KEYS) * 8_000;
    assert!((long..long * 5 / 4).contains(&memory.directory_bytes), "{memory:?}");
    assert!(
        store.index.directory.table_count() as u32 > KEYS / 16,
        "{}",
        store.index.directory.table_count()
    );
    for at in 0..KEYS {
        for (object, key) in [(&o, key(at, 8_000)), (&object(2), late(at))] {
            let value = ask(&mut store, &mut disk, &mut rng, |s| s.omap_get(c, object, &key));
            assert_eq!(value, Ok(Some(data(at))));
        }
    }
}

#[test]
fn a_list_of_large_omap_values_ends_for_their_bytes() {
    const VALUE: usize = 300 << 10;
    let mut rng = StdRng::seed_from_u64(23);
    let (mut store, mut disk) = filled(&mut rng);
    let (c, o) = (coll(0), object(0));
    for at in 0..12u8 {
        let mut txn = Transaction::new(c);
        txn.push(&o, Mutation::OmapSet([(Bytes::from(vec![at]), Bytes::from(vec![at; VALUE]))].into()));
        store.submit(Token(1), txn);
        store.kick();
        settle(&mut store, &mut disk, &mut rng);
    }
    let most = OmapMost::of(64);
    let expected: Vec<u8> = (0..4).collect();
    let keys = |page: &[(Bytes, Bytes)]| page.iter().map(|(key, _)| key[0]).collect::<Vec<u8>>();
    let page = ask(&mut store, &mut disk, &mut rng, |s| s.omap_range(c, &o, Bound::Unbounded, most)).unwrap();
    assert_eq!((keys(&page), most.is_met_by(&page)), (expected.clone(), true));

    store.unmount_after(&mut disk, &mut rng);
    let mut store = disk.mount(small(), &mut rng).unwrap();
    let mut loads = 0;
    let page = loop {
        match store.omap_range(c, &o, Bound::Unbounded, most) {
            Ok(page) => break page,
            Err(missing) => {
                // The first page has the object's own entry and others.
                assert!(loads == 0 || store.load_bytes(&missing) >= VALUE as u64, "{missing:?}");
                store.load(Token(100 + loads), missing);
                settle(&mut store, &mut disk, &mut rng);
                loads += 1;
            }
        }
    };
    assert_eq!(keys(&page), expected);
    assert!((3..7).contains(&loads), "{loads}");
    let page =
        ask(&mut store, &mut disk, &mut rng, |s| s.omap_range(c, &o, Bound::Excluded(&[9]), most)).unwrap();
    assert_eq!((keys(&page), most.is_met_by(&page)), (vec![10, 11], false));
}
