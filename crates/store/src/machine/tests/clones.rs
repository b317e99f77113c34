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
