//! Devices that are filled to the end, and beyond.

use super::*;
use crate::DeviceCommand;

const BYTES: u64 = 16 << 20;

/// The main device alone, and with small and large ones for the index.
fn all_sizes() -> [DeviceSizes; 3] {
    [None, Some(1 << 20), Some(128 << 20)].map(|index| DeviceSizes { index, ..BYTES.into() })
}

fn small_journal() -> Config {
    Config { journal_bytes: 1 << 20, page_bytes_max: 4 << 10, ..config() }
}

fn large(number: u32) -> Transaction {
    let mut txn = Transaction::new(coll(0));
    let data = Bytes::from(vec![number as u8; 100 << 10]);
    txn.push(&object(number), Mutation::Write { offset: 0, data: data.into() });
    txn
}

fn omap(number: u32, rng: &mut StdRng) -> Transaction {
    let mut txn = Transaction::new(coll(0));
    let key = Bytes::from(format!("{number:08}"));
    let map = [(key, Bytes::from(vec![number as u8; 900]))].into();
    txn.push(&object(rng.random_range(0..3_000)), Mutation::OmapSet(map));
    txn
}

fn all_objects(store: &mut Store, disk: &mut VirtualDisk, rng: &mut StdRng) -> Vec<HObject> {
    let mut out: Vec<HObject> = Vec::new();
    loop {
        let from = out.pop().unwrap_or_else(HObject::min);
        let found = ask(store, disk, rng, |s| s.list(coll(0), &from, 100)).unwrap();
        let is_end = found.len() < 100;
        out.extend(found);
        if is_end {
            return out;
        }
    }
}

fn removal(gone: &[HObject]) -> Transaction {
    let mut txn = Transaction::new(coll(0));
    gone.iter().for_each(|o| txn.push(o, Mutation::Remove));
    txn
}

/// Fills a device until what is written waits for room, and goes on. The power is cut then, or the store ended; a mount
/// has what was committed, and when objects are removed there is room for others.
fn fill(
    name: &str,
    (sizes, config): (DeviceSizes, Config),
    txn: impl Fn(u32, &mut StdRng) -> Transaction,
    seed: u64,
    is_cut: bool,
) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut disk = formatted(sizes, &config);
    let mut store = disk.mount(config, &mut rng).unwrap();
    let (mut committed, mut number, mut beyond) = (0, 0, 0);
    while beyond < 200 {
        store.submit(Token(u64::from(number)), txn(number, &mut rng));
        number += 1;
        store.kick();
        for _ in 0..rng.random_range(0..12) {
            disk.submit(store.take_commands());
            let Some((token, result)) = disk.step(&mut rng) else { break };
            store.device_done(token, result);
        }
        committed += store.take_completions().len();
        beyond += u32::from(store.is_at_an_end());
        assert!(!store.has_no_room(), "{name}: a checkpoint found no room");
        assert!(
            store.pending.bytes < 4 * config.pending_bytes_max,
            "{name}: {} pending",
            store.pending.bytes
        );
        assert!(number < 100_000, "{name}: the device is small");
    }
    if is_cut {
        disk.submit(store.take_commands());
        disk.crash(&mut rng);
    } else {
        committed += settle(&mut store, &mut disk, &mut rng).len();
        assert!(store.waiting.has_held() && !store.has_no_room(), "{name}");
        store.check_invariants();
        store.unmount_after(&mut disk, &mut rng);
        assert_eq!(store.superblock.is_clean, 1, "{name}");
    }
    assert_eq!(disk.fsck(config, &mut rng).problems, [], "{name}");
    let mut store = disk.mount(config, &mut rng).unwrap_or_else(|e| panic!("{name}: {e}"));
    store.check_invariants();
    let there = all_objects(&mut store, &mut disk, &mut rng);
    if txn(0, &mut rng).ops == txn(0, &mut rng).ops {
        let expected: Vec<HObject> = (0..committed as u32).map(object).collect();
        assert!(expected.iter().all(|o| there.contains(o)), "{name}: {committed} were committed");
    }
    // As much as before fits when much is gone.
    for gone in there.chunks(10).take(there.len() / 20 + 1) {
        store.submit(Token(0), removal(gone));
        store.kick();
        let done = settle(&mut store, &mut disk, &mut rng);
        assert_eq!(done, [Completion::Committed(Token(0))], "{name}: what is removed is committed");
    }
    for number in 0..20 {
        store.submit(Token(1), txn(1_000_000 + number, &mut rng));
        store.kick();
        let done = settle(&mut store, &mut disk, &mut rng);
        assert_eq!(done, [Completion::Committed(Token(1))], "{name}: there is room again");
    }
    store.check_invariants();
    store.unmount_after(&mut disk, &mut rng);
    assert_eq!(disk.fsck(config, &mut rng).problems, [], "{name}");
}

#[test]
fn it_is_known_before_what_a_store_would_hold() {
    let (mut rng, config) = (StdRng::seed_from_u64(1), small_journal());
    let mut disk = formatted(BYTES, &config);
    let mut store = disk.mount(config, &mut rng).unwrap();
    let mut number = 0;
    while store.has_room_for(&large(number)) {
        assert!(store.growth_bytes(&large(number)) >= 100 << 10);
        store.submit(Token(u64::from(number)), large(number));
        store.kick();
        let done = settle(&mut store, &mut disk, &mut rng);
        assert_eq!(done, [Completion::Committed(Token(u64::from(number)))]);
        number += 1;
    }
    assert!(number > 100);
    let removal = removal(&[object(0)]);
    assert!(store.has_room_for(&removal) && store.growth_bytes(&removal) == 0);
    store.submit(Token(0), large(number));
    store.kick();
    assert_eq!(settle(&mut store, &mut disk, &mut rng), []);
}

#[test]
fn a_clone_takes_what_the_omap_of_its_source_does() {
    let (mut rng, config) = (StdRng::seed_from_u64(1), small_journal());
    let mut disk = formatted(BYTES, &config);
    let mut store = disk.mount(config, &mut rng).unwrap();
    let mut txn = Transaction::new(coll(0));
    let pairs = (0..1_000).map(|at| (Bytes::from(format!("{at:04}")), Bytes::from(vec![1; 100])));
    txn.push(&object(1), Mutation::OmapSet(pairs.collect()));
    store.submit(Token(0), txn);
    store.kick();
    settle(&mut store, &mut disk, &mut rng);
    let mut txn = Transaction::new(coll(0));
    txn.push(&object(2), Mutation::CloneFrom { source: object(1).into() });
    assert!(txn.bytes_at_most() < 1_000 && store.growth_bytes(&txn) > 100_000);
}

#[test]
fn a_device_that_data_fills_is_usable_when_some_is_removed() {
    for seed in crash::seeds(6) {
        for sizes in all_sizes() {
            let name = format!("data, {sizes:?}, seed {seed}");
            fill(&name, (sizes, small_journal()), |number, _| large(number), seed, seed % 2 == 0);
        }
    }
}

#[test]
fn a_device_that_omap_fills_is_usable_when_some_is_removed() {
    for seed in crash::seeds(3) {
        let memory = if seed % 3 == 0 { 128 << 10 } else { u64::MAX };
        let config = Config { index_bytes_max: memory, ..small_journal() };
        for sizes in &all_sizes()[..2] {
            fill(&format!("omap, {sizes:?}, seed {seed}"), (*sizes, config), omap, seed, seed % 2 == 0);
        }
    }
}

#[test]
fn what_is_removed_overtakes_what_waits_in_other_collections() {
    let mut rng = StdRng::seed_from_u64(9);
    let mut disk = formatted(BYTES, &small_journal());
    let mut store = disk.mount(small_journal(), &mut rng).unwrap();
    for number in 0..10 {
        store.submit(Token(1), Transaction { coll: coll(1), ..large(number) });
    }
    let mut number = 0;
    while !store.waiting.has_held() {
        store.submit(Token(1), large(number));
        store.kick();
        settle(&mut store, &mut disk, &mut rng);
        number += 1;
    }
    let mut txn = removal(&(0..10).map(object).collect::<Vec<HObject>>());
    txn.coll = coll(1);
    store.submit(Token(2), txn);
    store.kick();
    let done = settle(&mut store, &mut disk, &mut rng);
    assert!(done.contains(&Completion::Committed(Token(2))));
    assert!(!store.waiting.has_held(), "what was removed made room for what waited");
    store.check_invariants();
}

#[test]
fn a_checkpoint_begins_before_it_would_need_all_free_space() {
    let mut rng = StdRng::seed_from_u64(10);
    let config = Config { journal_bytes: 8 << 20, ..small_journal() };
    let mut disk = formatted(BYTES, &config);
    let mut store = disk.mount(config, &mut rng).unwrap();
    let sequence = store.superblock.sequence;
    let mut number = 0;
    while !matches!(store.background, super::super::Background::Checkpoint(_)) {
        store.submit(Token(1), omap(number, &mut rng));
        store.kick();
        let is_record = |command: &DeviceCommand| matches!(command, DeviceCommand::Write { .. });
        assert!(number < 20_000 && store.take_commands().iter().all(is_record));
        number += 1;
    }
    assert_eq!(store.superblock.sequence, sequence);
    assert!(store.index.frozen_need() < store.space.free_count() * BLOCK / 3);
    assert!(!store.is_journal_full);
}
