//! What clones share.

use super::*;

const OBJECT_BYTES: usize = 4 << 20;
const OBJECTS: u32 = 64;

#[test]
fn what_clones_share_is_known_by_runs() {
    let mut rng = StdRng::seed_from_u64(1);
    let config = Config { journal_bytes: 4 << 20, cache_bytes_max: 1 << 20, ..config() };
    let mut disk = formatted(320 << 20, &config);
    let mut store = disk.mount(config, &mut rng).unwrap();
    let mut submit = |store: &mut Store, disk: &mut VirtualDisk, number: u32, mutation: Mutation| {
        let mut txn = Transaction::new(coll(0));
        txn.push(&object(number), mutation);
        store.submit(Token(0), txn);
        store.kick();
        settle(store, disk, &mut rng);
    };
    let data = Bytes::from(codec::AlignedBuf::zeroed(OBJECT_BYTES));
    for number in 0..OBJECTS {
        let write = Mutation::Write { offset: 0, data: data.clone().into() };
        submit(&mut store, &mut disk, number, write);
        for clone in 1..3 {
            let source = object(number).into();
            submit(&mut store, &mut disk, number + clone * OBJECTS, Mutation::CloneFrom { source });
        }
    }
    let runs = |store: &Store| store.space.shared.iter().collect::<Vec<_>>();
    let blocks = |store: &Store| runs(store).iter().map(|(run, _)| run.count).sum::<u64>();
    assert_eq!(blocks(&store), u64::from(OBJECTS) * OBJECT_BYTES as u64 / BLOCK);
    assert!(store.space.shared.run_count() <= 4 * OBJECTS as usize, "{}", store.space.shared.run_count());
    // Half of each other clone goes, the middle of another is written.
    for number in 0..OBJECTS {
        submit(&mut store, &mut disk, number + OBJECTS, Mutation::Truncate { size: OBJECT_BYTES as u64 / 2 });
        let write = Mutation::Write { offset: 1 << 20, data: data.slice(..64 << 10).into() };
        submit(&mut store, &mut disk, number + 2 * OBJECTS, write);
    }
    let mut rng = StdRng::seed_from_u64(2);
    store.check_invariants();
    let known = runs(&store);
    store.unmount_after(&mut disk, &mut rng);
    let after_flush = runs(&store);
    assert!(known.len() <= 8 * OBJECTS as usize && after_flush.len() <= 8 * OBJECTS as usize);
    assert_eq!(disk.fsck(config, &mut rng).problems, []);
    let store = disk.mount(config, &mut rng).unwrap();
    assert_eq!(runs(&store), after_flush);
    store.check_invariants();
}

/// As where an object is recovered with its clones, one after the other and each as a clone of the one before.
#[test]
fn what_differs_from_a_clone_in_the_making_is_shared_by_clones_of_it() {
    const CLONES: u32 = 20;
    let mut rng = StdRng::seed_from_u64(1);
    let mut disk = formatted(64 << 20, &config());
    let mut store = disk.mount(config(), &mut rng).unwrap();
    let data = |len: u64, byte: u8| Mutation::Write {
        offset: 0,
        data: Bytes::from(vec![byte; len as usize]).into(),
    };
    let mut txn = Transaction::new(coll(0));
    txn.push(&object(0), data(1 << 20, 0xff));
    store.submit(Token(0), txn);
    for number in 1..=CLONES {
        let mut txn = Transaction::new(coll(0));
        txn.push(&object(number), Mutation::CloneFrom { source: object(number - 1).into() });
        let offset = u64::from(number) * 2 * BLOCK;
        let data = Bytes::from(vec![number as u8; BLOCK as usize]).into();
        txn.push(&object(number), Mutation::Write { offset, data });
        store.submit(Token(u64::from(number)), txn);
    }
    assert_eq!(store.pending.bytes, 0);
    settle(&mut store, &mut disk, &mut rng);
    assert_eq!(store.usage().data_bytes, (1 << 20) + u64::from(CLONES) * BLOCK);
    // A transaction that makes a clone and then changes what it was made of does not wait for the change's place.
    let mut txn = Transaction::new(coll(0));
    txn.push(&object(CLONES + 1), Mutation::CloneFrom { source: object(0).into() });
    txn.push(&object(0), data(BLOCK, 7));
    store.submit(Token(99), txn);
    assert_eq!(store.pending.bytes, BLOCK);
    store.check_invariants();
    store.unmount_after(&mut disk, &mut rng);
    assert_eq!(disk.fsck(config(), &mut rng).problems, []);
}
