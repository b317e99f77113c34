//! Splits, merges and removals of collections that go in steps.

use super::*;
use crate::machine::{mount::Step, moves::mark};

const OBJECTS: u32 = 300;
const STEP: usize = 16;

/// All of the index in memory, or little of it.
fn configs() -> [Config; 2] {
    let config = Config { step_objects_max: STEP, ..config() };
    [config, Config { index_bytes_max: 24 << 10, page_bytes_max: 512, ..config }]
}

fn record() -> HObject {
    HObject { oid: Bytes::from_static(b"record"), pool: PoolId(-2), ..HObject::default() }
}

fn info(value: &'static str) -> Mutation {
    Mutation::OmapSet([(Bytes::from("info"), Bytes::from(value))].into())
}

fn put(c: u32, number: u32) -> Transaction {
    let mut txn = Transaction::new(coll(c));
    let data = || Bytes::from(vec![number as u8; 100]);
    txn.push(&object(number), Mutation::Write { offset: 0, data: data().into() });
    txn.push(&object(number), Mutation::SetXattrs([(Bytes::from("n"), data())].into()));
    if number.is_multiple_of(7) {
        let pairs = (0..5).map(|at| (Bytes::from(format!("k{at}")), data()));
        txn.push(&object(number), Mutation::OmapSet(pairs.collect()));
    }
    txn
}

/// A store with its model and its disk.
struct Bench {
    config: Config,
    store: Store,
    model: MemStore,
    disk: VirtualDisk,
    rng: StdRng,
    done: Vec<u64>,
}

impl Bench {
    /// Objects are in the first of three collections with a record each.
    fn new(config: Config, seed: u64) -> Bench {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut disk = formatted(16 << 20, &config);
        let store = disk.mount(config, &mut rng).unwrap();
        let mut bench = Bench { config, store, model: MemStore::new(), disk, rng, done: Vec::new() };
        for number in 0..OBJECTS {
            bench.submit(0, put(0, number));
            bench.settle();
        }
        for c in [0, 2] {
            let mut txn = Transaction::new(coll(c));
            txn.push(&record(), info("old"));
            bench.submit(0, txn);
        }
        bench.settle();
        // What a mount reads is not decoded.
        if config.index_bytes_max != u64::MAX {
            bench.restart();
        }
        bench.done.clear();
        bench
    }

    fn submit(&mut self, token: u64, txn: Transaction) {
        self.model.submit(Token(token), txn.clone());
        self.model.complete();
        self.store.submit(Token(token), txn);
    }

    fn settle(&mut self) {
        self.store.kick();
        let done = settle(&mut self.store, &mut self.disk, &mut self.rng);
        self.take(done);
    }

    fn take(&mut self, done: Vec<Completion>) {
        self.done.extend(done.into_iter().filter_map(|done| match done {
            Completion::Committed(token) => Some(token.0),
            Completion::Loaded(..) => None,
        }));
    }

    /// One answer of the disk; false if there is none to come.
    fn step(&mut self) -> bool {
        self.store.kick();
        self.disk.submit(self.store.take_commands());
        let Some((token, result)) = self.disk.step(&mut self.rng) else { return false };
        self.store.device_done(token, result);
        let done = self.store.take_completions();
        self.take(done);
        true
    }

    fn restart(&mut self) {
        self.store.unmount_after(&mut self.disk, &mut self.rng);
        self.store = self.disk.mount(self.config, &mut self.rng).unwrap();
    }

    fn count(&self, c: u32) -> usize {
        self.store.index.colls.get(&coll(c)).map_or(0, |objects| objects.onodes.len())
    }

    fn check(&mut self) {
        self.store.check_invariants();
        assert_same(&mut self.store, &self.model, &mut self.disk, &mut self.rng);
        assert_eq!(self.disk.fsck(self.config, &mut self.rng).problems, []);
    }

    /// Names in the order in which they lie.
    fn names(&self, c: u32) -> Vec<HObject> {
        self.model.list(coll(c), &HObject::min(), usize::MAX).unwrap()
    }

    /// The upper two thirds of the first collection's objects go to the second one, but for one that is removed before.
    fn split(&self) -> Transaction {
        let names = self.names(0);
        let from = names[names.len() / 3].clone();
        let mut txn = Transaction::new(coll(0));
        txn.push(&names[names.len() / 2], Mutation::Remove);
        txn.ops.push(TxnOp::Split(Box::new(CollSplit {
            child: coll(1),
            from,
            to: HObject::max(),
            record: record(),
            omap: [(Bytes::from("info"), Bytes::from(vec![b'c'; 10_000]))].into(),
        })));
        txn.push(&record(), info("new"));
        txn
    }

    /// All of the first collection's objects go to the third one.
    fn merge(&self) -> Transaction {
        let mut txn = Transaction::new(coll(2));
        let from = self.names(0)[1].clone();
        txn.ops.push(TxnOp::Merge(Box::new(CollMerge { source: coll(0), from, to: HObject::max() })));
        txn.push(&record(), info("new"));
        txn
    }
}

#[test]
fn a_large_collection_is_split_and_merged_step_by_step() {
    for (seed, config) in (0..).zip(configs()) {
        let mut bench = Bench::new(config, seed);
        let names = bench.names(0);
        bench.submit(1, bench.split());
        // What comes next in these collections waits, others go on.
        bench.submit(2, put(0, 1_000));
        bench.submit(3, put(1, 1_001));
        bench.submit(4, put(2, 1_002));
        let (moving, staying) = (&names[OBJECTS as usize - 1], &names[1]);
        let mut waits = 0;
        let mut before = bench.count(0);
        while bench.store.uncommitted_count() > 0 {
            if !bench.done.contains(&1) {
                waits += u32::from(bench.store.meta(coll(1), moving).is_err());
                assert!(bench.store.meta(coll(1), moving) != Ok(None), "what comes is never missing");
                assert!(!bench.store.xattr(coll(0), staying, b"n").is_ok_and(|value| value.is_none()));
            }
            assert!(bench.store.collection_exists(coll(1)));
            bench.step();
            // Whatever is decoded meanwhile is little.
            let now = bench.count(0);
            assert!(before.saturating_sub(now) <= 2 * STEP || config.index_bytes_max != u64::MAX);
            before = now;
        }
        assert!(waits > 2 * OBJECTS / 3 / STEP as u32, "{waits} turns");
        let place = |token| bench.done.iter().position(|done| *done == token);
        assert!(place(1) < place(2) && place(1) < place(3) && place(4) < place(1), "{:?}", bench.done);
        bench.check();

        bench.submit(5, bench.merge());
        assert!(!bench.store.collection_exists(coll(0)));
        bench.submit(6, put(0, 1_003));
        let all = ask(&mut bench.store, &mut bench.disk, &mut bench.rng, |s| {
            s.list(coll(2), &HObject::min(), usize::MAX)
        });
        assert_eq!(all.unwrap(), bench.names(2), "a listing waits for what comes");
        bench.settle();
        bench.check();
        bench.restart();
        bench.check();
    }
}

#[test]
fn what_moves_takes_no_more_memory_than_a_step() {
    let [_, config] = configs();
    let mut bench = Bench::new(config, 3);
    let pages = bench.store.index_memory().pages;
    for txn in [Bench::split, Bench::merge] {
        bench.submit(1, txn(&bench));
        let mut loaded = 0;
        while bench.store.uncommitted_count() > 0 {
            bench.step();
            loaded = loaded.max(bench.store.index_memory().bytes);
        }
        assert!(pages > 100 && loaded <= 2 * config.index_bytes_max, "{loaded} bytes, {pages} pages");
        bench.settle();
    }
    bench.check();
}

/// Cuts the power again and again until the transaction is committed. How often it was found to be under way.
fn cut(bench: &mut Bench, txn: fn(&Bench) -> Transaction) -> u32 {
    let before = bench.model.clone();
    bench.submit(1, txn(bench));
    bench.done.clear();
    let (mut halves, often) = (0, if bench.config.index_bytes_max == u64::MAX { 0.4 } else { 0.05 });
    loop {
        if bench.rng.random_bool(often) {
            let mut copy = bench.disk.clone();
            copy.crash(&mut bench.rng);
            assert_eq!(copy.fsck(bench.config, &mut bench.rng).problems, []);
            let mut mount = Store::inspect(copy.sizes(), bench.config);
            let (take, done) = (Mount::take_commands, Mount::device_done);
            let mut rng = StdRng::seed_from_u64(0);
            let inspected = copy.drive(&mut rng, &mut mount, take, done, Mount::take_inspected);
            let moved = inspected.unwrap().moved_between().unwrap();
            let is_half = survive(bench, copy, &before);
            // A mark may be there without a move that a mount would have to make.
            let is_told = !moved.is_empty() && moved.is_subset(&[0, 1, 2].map(coll).into());
            assert!(!is_half || is_told, "{moved:?}");
            halves += u32::from(is_half);
        }
        if !bench.step() {
            break;
        }
    }
    assert_eq!(bench.done, [1]);
    halves
}

/// Mounts what a crash left, where the mount crashes, too. True if the transaction was under way.
fn survive(bench: &mut Bench, mut disk: VirtualDisk, before: &MemStore) -> bool {
    let rng = &mut bench.rng;
    let (mut is_half, mut crashes) = (false, 0);
    let mut mount = Store::mount(disk.sizes(), bench.config, JOURNAL_KEY);
    let mut store = loop {
        if let Some(result) = mount.take() {
            break result.unwrap();
        }
        disk.submit(mount.take_commands());
        is_half |= matches!(mount.step, Step::Moves(_));
        if crashes < 3 && rng.random_bool(0.02) {
            crashes += 1;
            disk.crash(rng);
            mount = Store::mount(disk.sizes(), bench.config, JOURNAL_KEY);
            continue;
        }
        let (token, result) = disk.step(rng).expect("a mount that is not done waits for the disk");
        mount.device_done(token, result);
    };
    store.check_invariants();
    assert!(store.index.colls.values().all(|objects| !objects.onodes.contains_key(&mark())));
    let is_after = same_shape(&mut store, &bench.model, &mut disk, rng).unwrap();
    assert!(is_after || !is_half && bench.done.is_empty());
    assert_same(&mut store, if is_after { &bench.model } else { before }, &mut disk, rng);
    is_half
}

#[test]
fn a_power_cut_at_any_step_leaves_all_or_nothing() {
    for (seed, config) in (20..).zip(configs()) {
        let mut bench = Bench::new(config, seed);
        let halves = [Bench::split, Bench::merge].map(|txn| cut(&mut bench, txn));
        assert!(halves.iter().all(|halves| *halves > 2), "{halves:?}");
        bench.check();
    }
}

#[test]
fn a_split_into_several_goes_step_by_step() {
    for (seed, config) in (30..).zip(configs()) {
        let mut bench = Bench::new(config, seed);
        let names = bench.names(0);
        let mut txn = Transaction::new(coll(0));
        // Ranges next to each other, the last one first.
        for child in [9, 8, 7, 6, 5] {
            let at = |child: usize| names[child * OBJECTS as usize / 10].clone();
            txn.ops.push(TxnOp::Split(Box::new(CollSplit {
                child: coll(child as u32),
                from: at(child),
                to: if child == 9 { HObject::max() } else { at(child + 1) },
                record: record(),
                omap: [(Bytes::from("info"), Bytes::from("child"))].into(),
            })));
        }
        bench.submit(1, txn);
        let mut turns = 0;
        while bench.store.uncommitted_count() > 0 {
            bench.step();
            turns += 1;
        }
        assert!(turns > OBJECTS / 2 / STEP as u32, "{turns}");
        bench.settle();
        bench.check();
    }
}

#[test]
fn collections_are_removed_no_faster_than_a_step_in_a_turn() {
    let [config, _] = configs();
    let mut bench = Bench::new(config, 40);
    for c in 100..140 {
        (0..STEP as u32 / 2).for_each(|number| bench.submit(0, put(c, number)));
    }
    bench.settle();
    bench.done.clear();
    for c in (100..140).chain([0]) {
        let mut txn = Transaction::new(coll(c));
        txn.ops.push(TxnOp::RemoveCollection);
        bench.submit(u64::from(c), txn);
    }
    assert_eq!(bench.store.collections(), [coll(2)], "all are gone for readers");
    let count = |bench: &Bench| (100..140).chain([0]).map(|c| bench.count(c)).sum::<usize>();
    let mut before = count(&bench);
    assert_eq!(before, OBJECTS as usize + 1 + 38 * STEP / 2, "two fit in a turn");
    while bench.store.uncommitted_count() > 0 {
        bench.step();
        let now = count(&bench);
        assert!(before - now <= STEP, "{before} to {now}");
        before = now;
    }
    bench.check();
}
