//! Changed pages that come faster than a slow disk takes them.

use super::*;
use crate::space::Run;

const COLLECTIONS: u32 = 4;

fn small() -> Config {
    Config { index_bytes_max: 256 << 10, page_bytes_max: 1 << 10, ..config() }
}

fn put(number: u32) -> Transaction {
    let mut txn = Transaction::new(coll(number % COLLECTIONS));
    txn.ops.push(TxnOp::CreateCollection);
    txn.push(&object(number), Mutation::SetXattrs([(Bytes::from("n"), Bytes::from(vec![1; 100]))].into()));
    txn
}

/// A change of what the OSD keeps for itself, in a collection of its own.
fn put_own(number: u32) -> Transaction {
    let mut txn = Transaction::new(coll(100));
    let own = HObject { pool: PoolId(-1), ..object(0) };
    txn.push(&own, Mutation::OmapSet([(Bytes::from(format!("{number:08}")), Bytes::from("x"))].into()));
    txn
}

/// What changed pages take, and may take.
fn changed(store: &Store) -> (u64, u64) {
    let bytes = store.index.dirty_memory() + store.index.frozen_memory();
    (bytes, store.changed_bytes_max())
}

/// Answers some commands and takes the numbers of what is committed.
fn answer(store: &mut Store, disk: &mut VirtualDisk, rng: &mut StdRng, count: usize) -> Vec<u64> {
    for _ in 0..count {
        disk.submit(store.take_commands());
        let Some((token, result)) = disk.step(rng) else { break };
        store.device_done(token, result);
    }
    let committed = |done| match done {
        Completion::Committed(token) => Some(token.0),
        Completion::Loaded(..) => None,
    };
    store.take_completions().into_iter().filter_map(committed).collect()
}

#[test]
fn writers_wait_while_many_pages_are_changed() {
    let mut rng = StdRng::seed_from_u64(21);
    let mut disk = formatted(64 << 20, &small());
    let mut store = disk.mount(small(), &mut rng).unwrap();
    let (mut most, mut held) = (0, 0);
    let mut committed: Vec<u64> = Vec::new();
    let mut txn = Transaction::new(coll(100));
    txn.ops.push(TxnOp::CreateCollection);
    store.submit(Token(2_000_000), txn);
    let mut own_left = Vec::new();
    for number in 0..6_000 {
        store.submit(Token(u64::from(number)), put(number));
        if number % 50 == 0 && store.waiting.has_held() {
            held += 1;
            let token = u64::from(number) + 1_000_000;
            store.submit(Token(token), put_own(number));
            assert!(!store.waiting.colls().any(|c| c == coll(100)), "its own records never wait");
            own_left.push(token);
        }
        if number % 8 == 0 {
            store.kick();
        }
        // The disk does less than a command for each transaction.
        let count = usize::from(rng.random_bool(0.5));
        committed.extend(answer(&mut store, &mut disk, &mut rng, count));
        let (bytes, max) = changed(&store);
        most = most.max(bytes);
        assert!(bytes <= max + max / 4, "{number}: {bytes} of {max}");
    }
    assert!(held > 20 && most > small().index_bytes_max / 4, "{held} {most}");
    store.kick();
    while store.uncommitted_count() > 0 {
        committed.extend(answer(&mut store, &mut disk, &mut rng, 1));
    }
    own_left.iter().for_each(|token| assert!(committed.contains(token)));
    // In order within a collection, and none is lost.
    for c in 0..COLLECTIONS {
        let of_coll =
            committed.iter().filter(|n| **n < 1_000_000 && **n % u64::from(COLLECTIONS) == u64::from(c));
        let of_coll: Vec<u64> = of_coll.copied().collect();
        assert!(of_coll.is_sorted() && of_coll.len() == 6_000 / COLLECTIONS as usize);
    }
    store.check_invariants();
}

#[test]
fn a_power_cut_while_writers_wait_loses_nothing_that_was_committed() {
    for seed in 0..12 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut disk = formatted(64 << 20, &small());
        let mut store = disk.mount(small(), &mut rng).unwrap();
        let mut committed = Vec::new();
        let mut number = 0;
        let mut left = rng.random_range(0..2_000);
        while !store.waiting.has_held() || left > 0 {
            left -= i32::from(store.waiting.has_held()).min(left);
            store.submit(Token(u64::from(number)), put(number));
            store.kick();
            let count = rng.random_range(0..3);
            committed.extend(answer(&mut store, &mut disk, &mut rng, count));
            number += 1;
        }
        disk.submit(store.take_commands());
        disk.crash(&mut rng);
        assert_eq!(disk.fsck(small(), &mut rng).problems, []);
        let mut store = disk.mount(small(), &mut rng).unwrap();
        store.check_invariants();
        for number in committed {
            let (c, o) = (coll(number as u32 % COLLECTIONS), object(number as u32));
            let found = ask(&mut store, &mut disk, &mut rng, |s| s.meta(c, &o));
            assert!(found.unwrap().is_some(), "seed {seed}: {number} was committed");
        }
    }
}

/// A store that has changed pages, whose free space is gone by a bug but for some blocks, and whose checkpoint has
/// found no room.
fn without_room(objects: u32, left: u64, rng: &mut StdRng) -> (Store, VirtualDisk) {
    let config = Config { journal_bytes: 512 << 10, ..small() };
    let mut disk = formatted(8 << 20, &config);
    let mut store = disk.mount(config, rng).unwrap();
    for number in 0..objects {
        store.submit(Token(u64::from(number)), put(number));
    }
    store.kick();
    settle(&mut store, &mut disk, rng);
    let free: Vec<Run> = store.space.free_runs().collect();
    free.into_iter().for_each(|run| assert!(store.space.reserve(run)));
    store.space.free(Run { start: store.superblock.area.end() - left, count: left });
    store.start_checkpoint();
    settle(&mut store, &mut disk, rng);
    assert!(store.has_no_room());
    (store, disk)
}

fn remove(number: u32) -> Transaction {
    let mut txn = Transaction::new(coll(number % COLLECTIONS));
    txn.push(&object(number), Mutation::Remove);
    txn
}

#[test]
fn where_there_is_no_room_for_a_checkpoint_what_removes_does_not_wait_for_one() {
    let mut rng = StdRng::seed_from_u64(23);
    let (mut store, mut disk) = without_room(100, 0, &mut rng);
    for number in 0..50 {
        store.submit(Token(u64::from(number)), remove(number));
    }
    store.kick();
    assert!(!store.waiting.has_held());
    assert_eq!(settle(&mut store, &mut disk, &mut rng).len(), 50);
    // An end without a checkpoint, which is none in order.
    store.unmount();
    settle(&mut store, &mut disk, &mut rng);
    assert!(store.is_unmounted());
    assert_eq!(store.superblock.is_clean, 0);
}

/// Fills the journal with changes, each looked at when all that it leads to is done. How many they were.
fn fill_journal(
    store: &mut Store,
    disk: &mut VirtualDisk,
    rng: &mut StdRng,
    look: impl Fn(&Store, u32),
) -> u32 {
    let mut number = 0;
    while !store.is_journal_full {
        store.submit(Token(u64::from(number)), put_own(number));
        store.kick();
        settle(store, disk, rng);
        look(store, number);
        number += 1;
        assert!(number < 10_000, "the journal is small");
    }
    number
}

#[test]
fn a_store_ends_though_it_has_no_room_to_commit_all() {
    let mut rng = StdRng::seed_from_u64(24);
    let (mut store, mut disk) = without_room(100, 0, &mut rng);
    fill_journal(&mut store, &mut disk, &mut rng, |_, _| ());
    store.unmount();
    settle(&mut store, &mut disk, &mut rng);
    assert!(store.is_unmounted() && store.uncommitted_count() > 0);
}

#[test]
fn pages_that_checkpoints_without_room_have_placed_are_not_needed_again() {
    let mut rng = StdRng::seed_from_u64(27);
    let (mut store, mut disk) = without_room(100, 12, &mut rng);
    let need = store.index.dirty_need();
    for round in 0..10 {
        for number in 0..100 {
            store.submit_now(Token(u64::from(number)), put(number));
        }
        store.start_checkpoint();
        settle(&mut store, &mut disk, &mut rng);
        assert!(store.has_no_room());
        let now = store.index.dirty_need();
        assert!(now <= need * 3 / 2, "round {round}: {now} after {need}");
    }
}

#[test]
fn tables_that_a_checkpoint_without_room_has_left_are_needed() {
    let mut rng = StdRng::seed_from_u64(29);
    // Enough for the page above what is a mount's, but not for what leads to it.
    let (store, _) = without_room(2, 9, &mut rng);
    assert_eq!((store.space.mount_reserve(), store.index.dirty_count()), (8, 0), "the page is placed");
    assert!(store.index_need() >= 3 * BLOCK, "{}: a table, the root and the map", store.index_need());
}

#[test]
fn a_checkpoint_without_room_is_tried_again_when_something_has_changed() {
    let mut rng = StdRng::seed_from_u64(28);
    let (mut store, mut disk) = without_room(100, 0, &mut rng);
    let number = fill_journal(&mut store, &mut disk, &mut rng, |store, number| {
        assert!(!store.wants_checkpoint(), "{number}: it was tried just now");
    });
    assert!(store.has_no_room() && !store.wants_checkpoint());
    store.submit_now(Token(u64::from(number)), put_own(number));
    assert!(store.wants_checkpoint(), "there is more to commit");
    store.is_stirred = true;
    store.kick();
    assert!(!store.wants_checkpoint());
    // Too little.
    let start = store.superblock.area.start;
    store.space.free(Run { start, count: 1 });
    assert!(store.wants_checkpoint(), "there is more room");
    store.is_stirred = true;
    store.kick();
    settle(&mut store, &mut disk, &mut rng);
    assert!(store.has_no_room() && !store.wants_checkpoint());
    store.space.free(Run { start: start + 1, count: 400 });
    store.is_stirred = true;
    store.kick();
    settle(&mut store, &mut disk, &mut rng);
    assert!(!store.has_no_room() && store.uncommitted_count() == 0);
}

#[test]
fn after_a_checkpoint_without_room_the_next_one_may_take_what_is_a_mounts() {
    let mut rng = StdRng::seed_from_u64(25);
    // Enough for a page, and what leads to it, but not above the reserve.
    let (mut store, mut disk) = without_room(2, 7, &mut rng);
    assert!(store.space.mount_reserve() >= 7);
    store.start_checkpoint();
    settle(&mut store, &mut disk, &mut rng);
    assert!(!store.has_no_room());
}

fn small_write(number: u32) -> Transaction {
    let mut txn = Transaction::new(coll(0));
    let data = Bytes::from(vec![number as u8; 30_000]);
    txn.push(&object(number), Mutation::Write { offset: 0, data: data.into() });
    txn
}

/// A store of which so much is pending that nothing may add to it, and the number of writes.
fn full_of_pending(rng: &mut StdRng) -> (Store, VirtualDisk, u32) {
    let mut disk = formatted(DISK_BYTES, &config());
    let mut store = mount(&mut disk, rng).unwrap();
    let max = config().pending_bytes_max;
    let mut number = 0;
    while !store.must_hold(&small_write(number), None) {
        store.submit_now(Token(1), small_write(number));
        number += 1;
        // As if no flush found a place for any of it.
        store.pending.left = store.pending.amount();
        assert!(store.pending.memory() < 5 * max, "{:?}", store.pending.amount());
    }
    assert!(store.pending.memory() > 4 * max);
    (store, disk, number)
}

#[test]
fn what_came_while_a_flush_went_is_flushed_though_nothing_more_may_come() {
    let mut rng = StdRng::seed_from_u64(26);
    let (mut store, mut disk, number) = full_of_pending(&mut rng);
    store.submit(Token(2), small_write(number));
    assert!(store.waiting.has_held());
    store.kick();
    let done = settle(&mut store, &mut disk, &mut rng);
    assert!(done.contains(&Completion::Committed(Token(2))), "it waits for ever");
}

#[test]
fn what_flushes_leave_is_bounded_and_what_is_removed_goes_on() {
    let mut rng = StdRng::seed_from_u64(26);
    let (mut store, mut disk, number) = full_of_pending(&mut rng);
    assert!(!store.must_hold(&remove(0), None));
    // A flush finds some.
    store.submit(Token(2), small_write(number));
    assert!(store.waiting.has_held());
    store.pending.lacks_room = true;
    store.start_checkpoint();
    let done = settle(&mut store, &mut disk, &mut rng);
    assert!(done.contains(&Completion::Committed(Token(2))), "it found room behind the checkpoint");
}

/// Pieces of a byte in one transaction, and bytes from one to the next.
const SCATTERED: u64 = 100;
const STRIDE: u64 = 16;

/// Writes single bytes of an object.
fn scattered_write(number: u64) -> Transaction {
    let mut txn = Transaction::new(coll(0));
    for at in 0..SCATTERED {
        let (offset, data) = (STRIDE * (number * SCATTERED + at), Bytes::from(vec![number as u8 + 1]));
        txn.push(&object(0), Mutation::Write { offset, data: data.into() });
    }
    txn
}

#[test]
fn pieces_of_a_byte_are_as_bounded_as_their_memory() {
    const WRITES: u64 = 200;
    let mut rng = StdRng::seed_from_u64(30);
    let config = Config { journal_bytes: 8 << 20, ..config() };
    // A piece takes far more than 100 bytes.
    let pieces_max = 4 * config.pending_bytes_max / 100;
    assert!(WRITES * SCATTERED > 3 * pieces_max);
    for answers in [0, usize::MAX] {
        let mut disk = formatted(64 << 20, &config);
        let mut store = disk.mount(config, &mut rng).unwrap();
        for number in 0..WRITES {
            store.submit(Token(number), scattered_write(number));
            store.kick();
            answer(&mut store, &mut disk, &mut rng, answers);
            let pieces = store.pending.pieces;
            assert!(pieces < pieces_max, "{pieces} after {number}, with {answers} answers");
        }
        assert_eq!(store.waiting.has_held(), answers == 0, "the disk does what it should");
        settle(&mut store, &mut disk, &mut rng);
        assert_eq!(store.uncommitted_count(), 0);
        store.check_invariants();
        let range = (0, STRIDE * WRITES * SCATTERED);
        let found = read(&mut store, &mut disk, &mut rng, coll(0), &object(0), range).unwrap();
        let written = |at: u64| (at / STRIDE / SCATTERED) as u8 + 1;
        let expected = |at: u64| if at.is_multiple_of(STRIDE) { written(at) } else { 0 };
        assert!((0..).zip(&found).all(|(at, byte)| *byte == expected(at)));
    }
}
