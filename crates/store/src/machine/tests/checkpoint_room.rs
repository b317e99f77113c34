//! Transactions of all sizes on a device that is nearly full, with crashes: each finds room or waits, and a mount does.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::DeviceCommand;
use crate::machine::{Background, moves::mark};

const BYTES: u64 = 16 << 20;

fn small_journal() -> Config {
    Config { journal_bytes: 1 << 20, page_bytes_max: 4 << 10, ..config() }
}

/// Objects that a transaction makes, with their sizes, and those that it removes.
type UnderWay = (Vec<(u32, u64)>, Vec<u32>);

/// Makes objects, each by one transaction, and knows which of them must be there.
struct Filler {
    name: String,
    next: u32,
    /// Submitted and not committed.
    under_way: BTreeMap<u64, UnderWay>,
    /// Sizes of objects that must be there; none of one that is on its way, in or out.
    there: BTreeMap<u32, u64>,
}

impl Filler {
    fn new(name: String) -> Filler {
        Filler { name, next: 0, under_way: BTreeMap::new(), there: BTreeMap::new() }
    }

    fn put(&mut self, sizes: &[u64]) -> Transaction {
        let mut txn = Transaction::new(coll(0));
        let mut made = Vec::new();
        for &bytes in sizes {
            let data = Bytes::from(vec![self.next as u8; bytes as usize]);
            txn.push(&object(self.next), Mutation::Write { offset: 0, data: data.into() });
            made.push((self.next, bytes));
            self.next += 1;
        }
        self.under_way.insert(u64::from(self.next), (made, Vec::new()));
        txn
    }

    fn put_omap(&mut self, keys: u32) -> Transaction {
        let mut txn = Transaction::new(coll(0));
        let pair = |key: u32| (Bytes::from(format!("{key:08}")), Bytes::from(vec![7; 900]));
        txn.push(&object(self.next), Mutation::OmapSet((0..keys).map(pair).collect()));
        self.next += 1;
        self.under_way.insert(u64::from(self.next), (vec![(self.next - 1, 0)], Vec::new()));
        txn
    }

    /// A write of many small pieces that are far from each other.
    fn put_pieces(&mut self, count: u64) -> Transaction {
        let mut txn = Transaction::new(coll(0));
        for at in 0..count {
            let data = Bytes::from(vec![self.next as u8; 16]);
            txn.push(&object(self.next), Mutation::Write { offset: at * 32, data: data.into() });
        }
        self.next += 1;
        self.under_way.insert(u64::from(self.next), (vec![(self.next - 1, 16)], Vec::new()));
        txn
    }

    fn remove(&mut self, count: usize) -> Transaction {
        let gone: Vec<u32> = self.there.keys().copied().take(count).collect();
        let mut txn = Transaction::new(coll(0));
        for number in &gone {
            txn.push(&object(*number), Mutation::Remove);
            self.there.remove(number);
        }
        self.next += 1;
        self.under_way.insert(u64::from(self.next), (Vec::new(), gone));
        txn
    }

    fn random(&mut self, rng: &mut StdRng) -> Transaction {
        match rng.random_range(0..10) {
            0..5 => self.put(&[rng.random_range(150 << 10..500 << 10)]),
            5 => self.put(&[300 << 10, rng.random_range(20..60_000), 90 << 10]),
            6 => self.put(&[60 << 10; 6]),
            7 => self.put_omap(rng.random_range(1..300)),
            8 => self.put_pieces(rng.random_range(1..1_000)),
            _ => self.put(&[rng.random_range(1..9_000)]),
        }
    }

    fn submit(&mut self, store: &mut Store, txn: Transaction) {
        store.submit(Token(u64::from(self.next)), txn);
        store.kick();
    }

    fn note(&mut self, done: Vec<Completion>) {
        for done in done {
            let Completion::Committed(token) = done else { continue };
            let (made, _) = self.under_way.remove(&token.0).expect("it was submitted");
            self.there.extend(made);
        }
    }

    fn step(&mut self, store: &mut Store, disk: &mut VirtualDisk, rng: &mut StdRng, count: usize) {
        for _ in 0..count {
            disk.submit(store.take_commands());
            let Some((token, result)) = disk.step(rng) else { break };
            store.device_done(token, result);
            assert!(!store.has_no_room(), "{}: a checkpoint found no room", self.name);
        }
        self.note(store.take_completions());
    }

    /// Does all there is to do; true if nothing waits.
    fn settle(&mut self, store: &mut Store, disk: &mut VirtualDisk, rng: &mut StdRng) -> bool {
        self.step(store, disk, rng, usize::MAX);
        assert_eq!(store.uncommitted_count(), self.under_way.len(), "{}", self.name);
        self.under_way.is_empty()
    }

    /// The power fails, or the process ends, and the store is mounted: it has all that was committed.
    fn crash(&mut self, mut store: Store, disk: &mut VirtualDisk, rng: &mut StdRng, config: Config) -> Store {
        disk.submit(store.take_commands());
        if rng.random_bool(0.5) {
            disk.crash(rng)
        } else {
            disk.kill(rng)
        }
        let mut store = disk.mount(config, rng).unwrap_or_else(|e| panic!("{}: {e}", self.name));
        store.check_invariants();
        let found: BTreeSet<HObject> =
            ask(&mut store, disk, rng, |s| s.list(coll(0), &HObject::min(), usize::MAX))
                .unwrap()
                .into_iter()
                .collect();
        for (&number, &bytes) in &self.there {
            let o = object(number);
            assert!(found.contains(&o), "{}: {number} was committed", self.name);
            let data = read(&mut store, disk, rng, coll(0), &o, (0, bytes)).unwrap();
            assert!(data.len() as u64 == bytes && data.iter().all(|byte| *byte == number as u8));
        }
        // What was not committed is there or not.
        for (made, gone) in std::mem::take(&mut self.under_way).into_values() {
            let sizes = made.into_iter().chain(gone.into_iter().map(|number| (number, 0)));
            self.there.extend(sizes.filter(|(number, _)| found.contains(&object(*number))));
        }
        store
    }
}

fn fill(seed: u64, index: Option<u64>) {
    let mut rng = StdRng::seed_from_u64(seed);
    let memory = if seed.is_multiple_of(3) { 128 << 10 } else { u64::MAX };
    let config = Config { index_bytes_max: memory, ..small_journal() };
    let mut disk = formatted(DeviceSizes { index, ..BYTES.into() }, &config);
    let mut store = disk.mount(config, &mut rng).unwrap();
    let mut filler = Filler::new(String::new());
    for round in 0..12 {
        filler.name = format!("seed {seed}, index {index:?}, round {round}");
        let mut left = rng.random_range(1..60);
        while left > 0 && store.uncommitted_count() < 12 {
            let txn = filler.random(&mut rng);
            filler.submit(&mut store, txn);
            let count = [0, 1, 5, 20, usize::MAX][rng.random_range(0..5)];
            filler.step(&mut store, &mut disk, &mut rng, count);
            left -= 1;
        }
        if rng.random_bool(0.7) {
            store = filler.crash(store, &mut disk, &mut rng, config);
        }
        // Each round leaves a device that takes about as much again.
        let mut removals = 0;
        while !filler.settle(&mut store, &mut disk, &mut rng) || removals < round % 3 {
            // All that waits is of one collection: what removes has to be of another, or is behind it.
            store = filler.crash(store, &mut disk, &mut rng, config);
            let txn = filler.remove(4);
            filler.submit(&mut store, txn);
            assert!(
                filler.settle(&mut store, &mut disk, &mut rng),
                "{}: what removes is committed",
                filler.name
            );
            removals += 1;
        }
    }
    store.check_invariants();
    store.unmount_after(&mut disk, &mut rng);
    assert_eq!(store.superblock.is_clean, 1, "{}", filler.name);
    assert_eq!(disk.fsck(config, &mut rng).problems, [], "{}", filler.name);
}

#[test]
fn on_a_nearly_full_device_every_crash_is_survived() {
    for seed in crash::seeds(3) {
        for index in [None, Some(256 << 10), Some(1 << 20), Some(64 << 20)] {
            fill(seed, index);
        }
    }
}

/// Writes of 68 KiB until two more would leave less than the growth floor and `above` of free space.
fn nearly_full(config: Config, above: u64, rng: &mut StdRng) -> (Store, VirtualDisk, Filler) {
    let bytes = 68 << 10;
    let mut disk = formatted(BYTES, &config);
    let mut store = disk.mount(config, rng).unwrap();
    let mut filler = Filler::new(format!("{above} above"));
    let kept = |store: &Store| store.space.growth_floor() * BLOCK + above;
    while store.space.free_count() * BLOCK > kept(&store) + 2 * bytes {
        let txn = filler.put(&[bytes]);
        filler.submit(&mut store, txn);
        assert!(filler.settle(&mut store, &mut disk, rng));
    }
    (store, disk, filler)
}

#[test]
fn a_large_write_finds_room_for_all_that_it_takes_or_waits() {
    let mut rng = StdRng::seed_from_u64(31);
    for above in (4..=14).map(|at| at * (80 << 10)) {
        let (mut store, mut disk, mut filler) = nearly_full(small_journal(), above, &mut rng);
        for bytes in [400 << 10, 900] {
            let txn = filler.put(&[bytes]);
            filler.submit(&mut store, txn);
            filler.settle(&mut store, &mut disk, &mut rng);
        }
        // Checkpoints go on: the OSD's own records always get through.
        for number in 0..400 {
            let mut txn = Transaction::new(coll(9));
            let record = HObject { pool: PoolId(-1), ..object(1) };
            let map = [(Bytes::from(format!("{}", number % 7)), Bytes::from(vec![1; 2_000]))].into();
            txn.push(&record, Mutation::OmapSet(map));
            filler.next += 1;
            filler.under_way.insert(u64::from(filler.next), Default::default());
            filler.submit(&mut store, txn);
            filler.settle(&mut store, &mut disk, &mut rng);
            assert!(!filler.under_way.contains_key(&u64::from(filler.next)), "{}", filler.name);
        }
        let mut store = filler.crash(store, &mut disk, &mut rng, small_journal());
        let txn = filler.remove(12);
        filler.submit(&mut store, txn);
        let txn = filler.put(&[400 << 10]);
        filler.submit(&mut store, txn);
        assert!(filler.settle(&mut store, &mut disk, &mut rng), "{}: there is room again", filler.name);
    }
}

#[test]
fn what_is_removed_overtakes_what_is_too_large_for_what_is_left() {
    let mut rng = StdRng::seed_from_u64(32);
    let (mut store, mut disk, mut filler) = nearly_full(small_journal(), 300 << 10, &mut rng);
    let mut txn = filler.put(&[2 << 20]);
    txn.coll = coll(1);
    filler.submit(&mut store, txn);
    assert!(!filler.settle(&mut store, &mut disk, &mut rng), "it waits");
    let txn = filler.remove(40);
    filler.submit(&mut store, txn);
    assert!(filler.settle(&mut store, &mut disk, &mut rng), "it was made room for");
    store.check_invariants();
}

#[test]
fn the_names_of_small_pieces_are_counted() {
    let mut rng = StdRng::seed_from_u64(33);
    let config = Config { pending_bytes_max: 1 << 20, ..small_journal() };
    let mut disk = formatted(BYTES, &config);
    let mut store = disk.mount(config, &mut rng).unwrap();
    let mut filler = Filler::new("pieces".to_string());
    for _ in 0..4 {
        let txn = filler.put_pieces(1_000);
        filler.submit(&mut store, txn);
    }
    let counted = store.pending.need(0, 0);
    store.start_checkpoint();
    filler.settle(&mut store, &mut disk, &mut rng);
    let written = store.pending.held_bytes();
    assert!(written > 300_000 && (written..written * 3 / 2).contains(&counted), "{written} of {counted}");
}

/// Objects with an xattr each.
fn put_names(numbers: std::ops::Range<u32>) -> Transaction {
    let mut txn = Transaction::new(coll(0));
    for number in numbers {
        let name = [(Bytes::from("name"), Bytes::from(vec![number as u8; 40]))].into();
        txn.push(&object(number), Mutation::SetXattrs(name));
    }
    txn
}

#[test]
fn what_grows_in_the_index_is_counted_in_the_blocks_that_its_pages_take() {
    for page_bytes_max in [512, 1 << 10, 4 << 10, 16 << 10] {
        let mut rng = StdRng::seed_from_u64(36);
        let config = Config { page_bytes_max, ..small_journal() };
        let mut disk = formatted(BYTES, &config);
        let mut store = disk.mount(config, &mut rng).unwrap();
        store.submit_now(Token(1), put_names(0..150));
        let of_txn = store.growth_of(&put_names(150..300)).index_bytes;
        store.submit_now(Token(2), put_names(150..300));
        let counted = store.index_need();
        store.start_checkpoint();
        let mut written = 0;
        loop {
            let commands = store.take_commands();
            for command in &commands {
                let DeviceCommand::Write { offset, data, .. } = command else { continue };
                let is_inside = *offset >= store.superblock.area.start * BLOCK;
                written += if is_inside { data.len() as u64 } else { 0 };
            }
            disk.submit(commands);
            let Some((token, result)) = disk.step(&mut rng) else { break };
            store.device_done(token, result);
        }
        // Half of it came by one transaction.
        assert!((written..4 * written).contains(&counted), "{page_bytes_max}: {written} of {counted}");
        assert!((written / 2..2 * written).contains(&of_txn), "{page_bytes_max}: {written}, {of_txn}");
    }
}

#[test]
fn a_mount_places_what_is_pending_where_it_just_fits() {
    let mut rng = StdRng::seed_from_u64(34);
    let config = Config { journal_bytes: 4 << 20, ..small_journal() };
    let (mut store, mut disk, mut filler) = nearly_full(config, 500 << 10, &mut rng);
    // All of it goes by the journal, as a store did that did not ask how much it is.
    store.config.small_write_bytes_max = 1 << 20;
    let bytes = (store.space.free_count() * BLOCK - (300 << 10)) / 1_000 * 1_000;
    let txn = filler.put(&[bytes]);
    store.submit_now(Token(u64::from(filler.next)), txn);
    store.is_stirred = true;
    store.kick();
    let mut left = 1_000;
    while !filler.under_way.is_empty() {
        filler.step(&mut store, &mut disk, &mut rng, 1);
        left -= 1;
        assert!(left > 0, "it is committed");
    }
    let mut store = filler.crash(store, &mut disk, &mut rng, config);
    assert!(store.pending.bytes < BLOCK, "{} of {bytes}", store.pending.bytes);
    store.unmount_after(&mut disk, &mut rng);
    assert_eq!(store.superblock.is_clean, 1);
}

/// A collection of small objects, half of which go to another one.
fn splitting(filler: &mut Filler, store: &mut Store, disk: &mut VirtualDisk, rng: &mut StdRng) -> usize {
    let count = 480;
    for number in 0..count {
        let mut txn = Transaction::new(coll(5));
        let pairs = [(Bytes::from("x"), Bytes::from(vec![number as u8; 300]))].into();
        txn.push(&object(number), Mutation::SetXattrs(pairs));
        filler.next += 1;
        filler.under_way.insert(u64::from(filler.next), Default::default());
        filler.submit(store, txn);
        filler.settle(store, disk, rng);
    }
    let mut names: Vec<HObject> = (0..count).map(object).collect();
    names.sort_unstable();
    let from = names[names.len() / 2].clone();
    let mut txn = Transaction::new(coll(5));
    txn.ops.push(TxnOp::Split(Box::new(CollSplit {
        child: coll(6),
        from,
        to: HObject::max(),
        record: HObject { pool: PoolId(-1), ..object(1) },
        omap: Default::default(),
    })));
    filler.next += 1;
    filler.under_way.insert(u64::from(filler.next), Default::default());
    filler.submit(store, txn);
    names.len() / 2
}

#[test]
fn a_split_that_has_begun_ends_on_a_device_that_others_fill() {
    for seed in crash::seeds(8) {
        let index_bytes_max = if seed % 4 < 2 { u64::MAX } else { 128 << 10 };
        let config = Config { step_objects_max: 1, index_bytes_max, ..small_journal() };
        let mut rng = StdRng::seed_from_u64(seed);
        let (mut store, mut disk, mut filler) = nearly_full(config, 500 << 10, &mut rng);
        let moving = splitting(&mut filler, &mut store, &mut disk, &mut rng);
        let moved = |store: &Store| store.index.colls.get(&coll(6)).map_or(0, |objects| objects.onodes.len());
        while moved(&store) == 0 {
            filler.step(&mut store, &mut disk, &mut rng, 1);
        }
        // Until what others write waits, and no checkpoint would help it.
        let is_full = |store: &Store| {
            let is_idle = matches!(store.background, Background::Idle) && !store.wants_checkpoint();
            is_idle && store.waiting.has_held() && store.next_held().is_none()
        };
        while !is_full(&store) {
            if filler.under_way.len() < 8 {
                let txn = filler.put(&[68 << 10]);
                filler.submit(&mut store, txn);
            }
            filler.step(&mut store, &mut disk, &mut rng, 1);
        }
        // With little memory for the index, others may wait so long for that that the split is faster.
        let is_under_way = store.waiting.is_first_begun(coll(5));
        assert!(is_under_way || index_bytes_max < u64::MAX, "seed {seed}: {} moved", moved(&store));
        if seed % 2 == 0 {
            store = filler.crash(store, &mut disk, &mut rng, config);
        } else {
            assert!(!filler.settle(&mut store, &mut disk, &mut rng), "the device is full");
        }
        let found = ask(&mut store, &mut disk, &mut rng, |s| s.list(coll(6), &HObject::min(), usize::MAX));
        assert_eq!(found.unwrap().len(), moving, "seed {seed}");
        assert!(!store.waiting.is_first_begun(coll(5)) && store.index.get(coll(5), &mark()).is_none());
        store.check_invariants();
        store.unmount_after(&mut disk, &mut rng);
        assert_eq!(disk.fsck(config, &mut rng).problems, []);
    }
}

/// A merge of a collection with some objects, which writes a log of so many entries.
fn merging(filler: &mut Filler, entries: u32) -> Transaction {
    let mut txn = Transaction::new(coll(5));
    let (from, to) = (HObject::min(), HObject::max());
    txn.ops.push(TxnOp::Merge(Box::new(CollMerge { source: coll(6), from, to })));
    let pair = |entry: u32| (Bytes::from(format!("{entry:08}")), Bytes::from(vec![5; 300]));
    let record = HObject { pool: PoolId(-1), ..object(1) };
    txn.push(&record, Mutation::OmapSet((0..entries).map(pair).collect()));
    filler.next += 1;
    filler.under_way.insert(u64::from(filler.next), Default::default());
    txn
}

#[test]
fn a_merge_whose_log_finds_no_room_waits_before_it_begins() {
    let mut rng = StdRng::seed_from_u64(37);
    let config = Config { page_bytes_max: 512, step_objects_max: 1, ..small_journal() };
    let (mut store, mut disk, mut filler) = nearly_full(config, 600 << 10, &mut rng);
    for number in 0..3 {
        for source in [5, 6] {
            let mut txn = Transaction::new(coll(source));
            txn.push(&object(number), Mutation::Touch);
            filler.next += 1;
            filler.under_way.insert(u64::from(filler.next), Default::default());
            filler.submit(&mut store, txn);
            assert!(filler.settle(&mut store, &mut disk, &mut rng));
        }
    }
    for is_cut in [true, false] {
        let txn = merging(&mut filler, 400);
        filler.submit(&mut store, txn);
        filler.step(&mut store, &mut disk, &mut rng, usize::MAX);
        assert!(!filler.under_way.is_empty(), "it waits");
        assert!(store.index.get(coll(6), &object(0)).is_some(), "nothing has moved");
        if is_cut {
            store = filler.crash(store, &mut disk, &mut rng, config);
        }
    }
    let txn = filler.remove(50);
    filler.submit(&mut store, txn);
    assert!(filler.settle(&mut store, &mut disk, &mut rng), "there is room for all of it");
    let store = filler.crash(store, &mut disk, &mut rng, config);
    assert!(store.index.get(coll(5), &mark()).is_none() && !store.index.colls.contains_key(&coll(6)));
    store.check_invariants();
}
