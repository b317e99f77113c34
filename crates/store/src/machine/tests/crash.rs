//! Power cuts at every point of short workloads and at random points of long ones, and bits that flip.
//!
//! After each: the checker finds nothing wrong, the store mounts, what was committed is there, transactions are
//! there whole and in order, and no block is corrupt.

use std::{collections::BTreeMap, time::Duration};

use types::Instant;

use super::*;

/// STORE_CRASH_FIRST and STORE_CRASH_SEEDS (its end) choose other seeds than the `default` first ones.
pub(super) fn seeds(default: u64) -> std::ops::Range<u64> {
    let number = |name, default| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default);
    number("STORE_CRASH_FIRST", 0)..number("STORE_CRASH_SEEDS", default)
}

/// What was done until now.
struct History {
    name: String,
    config: Config,
    /// After each transaction.
    states: Vec<MemStore>,
    /// How many of them are committed.
    committed: usize,
    /// Those of them that begin with a removal, and of which collection.
    removals: BTreeMap<usize, CollId>,
}

impl History {
    fn new(name: String, config: Config) -> History {
        History { name, config, states: vec![MemStore::new()], committed: 0, removals: BTreeMap::new() }
    }

    /// The model of a crash is one order of all transactions: it holds within a collection if some have to wait
    /// for pages.
    fn colls(&self) -> u32 {
        if self.config.index_bytes_max == u64::MAX { 2 } else { 1 }
    }

    fn last(&self) -> &MemStore {
        self.states.last().expect("the first state is the empty one")
    }

    fn submit(&mut self, store: &mut Store, txn: Transaction) {
        let mut next = self.last().clone();
        next.submit(Token(0), txn.clone());
        next.complete();
        if txn.ops.first() == Some(&TxnOp::RemoveCollection) {
            self.removals.insert(self.states.len(), txn.coll);
        }
        store.submit(Token(self.states.len() as u64), txn);
        self.states.push(next);
    }

    fn take_commits(&mut self, store: &mut Store) {
        for done in store.take_completions() {
            if let Completion::Committed(token) = done {
                self.committed += 1;
                assert_eq!(token.0, self.committed as u64, "{}: commits come in order", self.name);
            }
        }
    }

    /// Goes on from a state, all of it committed.
    fn restart(&mut self, state: MemStore) {
        self.states = vec![state];
        self.committed = 0;
        self.removals.clear();
    }

    fn check_device(&self, disk: &mut VirtualDisk, rng: &mut StdRng) {
        let report = disk.fsck(self.config, rng);
        assert_eq!(report.problems, [], "{}", self.name);
    }

    /// Mounts what a crash left, and finds out which state it is.
    fn survive(&self, disk: &mut VirtualDisk, rng: &mut StdRng) -> MemStore {
        self.check_device(disk, rng);
        let mut store = disk.mount(self.config, rng).unwrap_or_else(|e| panic!("{}: {e}", self.name));
        store.check_invariants();
        let state = self.state_of(&mut store, disk, rng, self.committed);
        let state = state.or_else(|| self.half_removed(&mut store, disk, rng, self.committed + 1));
        let count = self.states.len() - 1;
        state.unwrap_or_else(|| panic!("{}: no legal state, {} of {count}", self.name, self.committed))
    }

    /// A large collection goes some objects at a time: the state before a removal, not one before `first`, without the
    /// first of them.
    fn half_removed(
        &self,
        store: &mut Store,
        disk: &mut VirtualDisk,
        rng: &mut StdRng,
        first: usize,
    ) -> Option<MemStore> {
        self.removals.range(first..).find_map(|(at, c)| {
            let mut model = self.states[at - 1].clone();
            let left = ask(store, disk, rng, |s| s.list(*c, &HObject::min(), 1)).ok()?;
            let mut txn = Transaction::new(*c);
            let all = model.list(*c, &HObject::min(), usize::MAX).ok()?;
            for gone in all.iter().take_while(|o| left.first() != Some(*o)) {
                txn.push(gone, Mutation::Remove);
            }
            model.submit(Token(0), txn);
            model.complete();
            is_same(store, &model, disk, rng).then_some(model)
        })
    }

    /// Which state, not older than `first`, the store has.
    fn state_of(
        &self,
        store: &mut Store,
        disk: &mut VirtualDisk,
        rng: &mut StdRng,
        first: usize,
    ) -> Option<MemStore> {
        self.states[first..].iter().find(|model| is_same(store, model, disk, rng)).cloned()
    }

    /// Cuts the power of a copy of the disk, in some ways, and lives on.
    fn cut(&self, disk: &VirtualDisk, rng: &mut StdRng) {
        let mut clean = disk.clone();
        clean.crash_cleanly();
        self.survive(&mut clean, rng);
        for _ in 0..2 {
            let mut copy = disk.clone();
            copy.crash(rng);
            self.survive(&mut copy, rng);
        }
    }

    /// The power fails while a store is mounted after a crash, or after its process was killed, at each command.
    fn cut_mounts(&self, disk: &VirtualDisk, rng: &mut StdRng) {
        let (mut crashed, mut killed) = (disk.clone(), disk.clone());
        crashed.crash(rng);
        self.cut_mount(crashed, rng);
        killed.kill(rng);
        self.cut_mount(killed, rng);
    }

    fn cut_mount(&self, mut disk: VirtualDisk, rng: &mut StdRng) {
        let mut mount = Store::mount(disk.sizes(), self.config, JOURNAL_KEY);
        while mount.take().is_none() {
            disk.submit(mount.take_commands());
            let mut copy = disk.clone();
            copy.crash(rng);
            self.survive(&mut copy, rng);
            let (token, result) = disk.step(rng).expect("a mount that is not done waits for the disk");
            mount.device_done(token, result);
        }
    }
}

/// True where the store has what the model has.
fn is_same(store: &mut Store, model: &MemStore, disk: &mut VirtualDisk, rng: &mut StdRng) -> bool {
    let is_same = same_shape(store, model, disk, rng).expect("no page is corrupt after a crash");
    is_same && same_data(store, model, disk, rng)
}

/// With and without devices for the journal and for the index, which is too small.
fn sizes(seed: u64) -> DeviceSizes {
    DeviceSizes {
        main: DISK_BYTES,
        journal: (seed % 4 >= 2).then_some(2 << 20),
        index: (seed % 8 >= 4).then_some(256 << 10),
    }
}

/// Settings that make a few transactions go through all that a store does.
fn tiny_config(seed: u64) -> Config {
    let config = Config {
        journal_bytes: 256 << 10,
        pending_bytes_max: 24 << 10,
        cache_bytes_max: 64 << 10,
        small_write_bytes_max: 8 << 10,
        record_bytes_max: 64 << 10,
        prepares_journal: seed.is_multiple_of(3),
        discard: seed.is_multiple_of(2),
        ..Config::default()
    };
    if seed / 8 % 2 == 1 { paged(config, seed) } else { config }
}

/// The time, which goes by in leaps: long enough for a rest, or for what waits longest.
#[derive(Default)]
struct Clock(Instant);

impl Clock {
    fn later(&mut self, rng: &mut StdRng) -> Instant {
        let ms = [0, 1, 200, 70_000][rng.random_range(0..4)];
        self.0 = self.0 + Duration::from_millis(ms);
        self.0
    }
}

/// The power fails at each device command of a short workload.
fn cut_everywhere(seed: u64, txns: usize) {
    let mut rng = StdRng::seed_from_u64(seed);
    let config = tiny_config(seed);
    let mut disk = formatted(sizes(seed), &config);
    let mut history = History::new(format!("seed {seed}"), config);
    let mut store = disk.mount(config, &mut rng).unwrap();
    let mut clock = Clock::default();
    for _ in 0..txns {
        store.set_time(clock.later(&mut rng));
        let txn = random_txn(&mut rng, history.last(), history.colls());
        history.submit(&mut store, txn);
        if rng.random_bool(0.8) {
            store.kick();
        }
        disk.submit(store.take_commands());
        // Deep queues and empty ones.
        for _ in 0..rng.random_range(0..8) {
            history.cut(&disk, &mut rng);
            let Some((token, result)) = disk.step(&mut rng) else { break };
            store.device_done(token, result);
            disk.submit(store.take_commands());
            history.take_commits(&mut store);
        }
    }
    history.cut_mounts(&disk, &mut rng);
    store.unmount();
    while !store.is_unmounted() {
        disk.submit(store.take_commands());
        let Some((token, result)) = disk.step(&mut rng) else { break };
        history.cut(&disk, &mut rng);
        store.device_done(token, result);
        history.take_commits(&mut store);
    }
    assert_eq!(history.committed, txns, "seed {seed}: an orderly end commits all");
    history.cut(&disk, &mut rng);
}

/// A long workload that crashes after some device commands, again and again.
fn cut_somewhere(seed: u64, rounds: usize, txns: usize) {
    let mut rng = StdRng::seed_from_u64(seed);
    let config = Config { prepares_journal: !seed.is_multiple_of(3), ..config() };
    let config = Config { discard: seed.is_multiple_of(2), ..config };
    let config = if seed / 2 % 2 == 1 { paged(config, seed) } else { config };
    let mut disk = formatted(sizes(seed), &config);
    let mut history = History::new(String::new(), config);
    let mut clock = Clock::default();
    for round in 0..rounds {
        history.name = format!("seed {seed} round {round}");
        let mut store = disk.mount(config, &mut rng).unwrap();
        assert_same(&mut store, history.last(), &mut disk, &mut rng);
        // The crash leaves a state that is not older than the commits.
        let mut steps = rng.random_range(0..txns * 6);
        let ends_well = rng.random_bool(0.2);
        for _ in 0..txns {
            store.set_time(clock.later(&mut rng));
            let txn = random_txn(&mut rng, history.last(), history.colls());
            history.submit(&mut store, txn);
            if rng.random_bool(0.7) {
                store.kick();
            }
            if rng.random_bool(0.2) {
                store.check_invariants();
            }
            disk.submit(store.take_commands());
            for _ in 0..rng.random_range(0..8) {
                if steps == 0 && !ends_well {
                    break;
                }
                steps = steps.saturating_sub(1);
                let Some((token, result)) = disk.step(&mut rng) else { break };
                store.device_done(token, result);
                disk.submit(store.take_commands());
            }
            history.take_commits(&mut store);
            if steps == 0 && !ends_well {
                break;
            }
            if rng.random_bool(0.05) && steps > 50 {
                let o = object(rng.random_range(0..6));
                let expected = history.last().read(coll(0), &o, 5_000, 70_000).unwrap();
                store.kick();
                if let Ok(found) = store.read(coll(0), &o, 5_000, 70_000) {
                    assert!(found == expected, "{}: a read from memory", history.name);
                }
            }
        }
        if ends_well {
            store.unmount();
            settle(&mut store, &mut disk, &mut rng);
            assert!(store.is_unmounted(), "{}", history.name);
            store.check_invariants();
            history.committed = history.states.len() - 1;
        }
        disk.crash(&mut rng);
        let state = history.survive(&mut disk, &mut rng);
        history.restart(state);
    }
}

#[test]
fn a_power_cut_at_any_point_loses_nothing() {
    for seed in seeds(16) {
        cut_everywhere(seed, 14);
    }
}

#[test]
fn after_a_crash_the_store_is_a_legal_prefix() {
    for seed in seeds(60) {
        cut_somewhere(seed, 4, if seed % 2 == 0 { 60 } else { 250 });
    }
}

/// A store with a history, settled; stopped in order, or with records in its journal.
fn settled(seed: u64, is_clean: bool) -> (History, VirtualDisk, StdRng) {
    let mut rng = StdRng::seed_from_u64(seed);
    let config = tiny_config(seed);
    let mut disk = formatted(sizes(seed), &config);
    let mut history = History::new(format!("seed {seed}"), config);
    let mut store = disk.mount(config, &mut rng).unwrap();
    for _ in 0..rng.random_range(20..40) {
        let txn = random_txn(&mut rng, history.last(), history.colls());
        history.submit(&mut store, txn);
        store.kick();
        settle(&mut store, &mut disk, &mut rng);
    }
    if is_clean {
        store.unmount_after(&mut disk, &mut rng);
    }
    disk.crash_cleanly();
    history.committed = history.states.len() - 1;
    (history, disk, rng)
}

/// Whether some block fails, if every object is otherwise as in the model.
fn has_failures(
    store: &mut Store,
    model: &MemStore,
    disk: &mut VirtualDisk,
    rng: &mut StdRng,
) -> Option<bool> {
    let mut has_failed = false;
    for c in model.collections() {
        for o in model.list(c, &HObject::min(), usize::MAX).unwrap() {
            match read(store, disk, rng, c, &o, (0, u64::MAX)) {
                Ok(found) if found != model.read(c, &o, 0, u64::MAX).unwrap() => return None,
                Ok(_) => {}
                Err(_) => has_failed = true,
            }
        }
    }
    Some(has_failed)
}

/// One bit flips in a block of the device: the checker says so or it does not matter, and nothing wrong is
/// ever served.
fn flip(history: &History, disk: &VirtualDisk, offset: u64, rng: &mut StdRng) {
    let mut disk = disk.clone();
    let what = format!("{}, a bit in the block at {offset}", history.name);
    disk.flip_bit(offset + rng.random_range(0..BLOCK), rng.random_range(0..8));
    let report = disk.fsck(history.config, rng);
    let mut store = match disk.mount(history.config, rng) {
        Ok(store) => store,
        Err(_) => return assert_ne!(report.problems, [], "{what}"),
    };
    // What the last records held is lost without a trace if they are damaged: only replicas know it.
    let last = history.states.len() - 1;
    let has_failed = (last - history.config.journal_writes_max..=last).rev().find_map(|at| {
        let model = &history.states[at];
        match same_shape(&mut store, model, &mut disk, rng) {
            Ok(true) => has_failures(&mut store, model, &mut disk, rng),
            Ok(false) => None,
            // A page that was not read by the mount.
            Err(_) => Some(true),
        }
    });
    let has_failed = has_failed.or_else(|| {
        let first = last - history.config.journal_writes_max + 1;
        history.half_removed(&mut store, &mut disk, rng, first).map(|_| false)
    });
    let has_failed = has_failed.unwrap_or_else(|| panic!("{what}: no state of the past"));
    assert!(!has_failed || !report.problems.is_empty(), "{what}: the check sees what a read sees");
}

#[test]
fn a_flipped_bit_anywhere_is_an_error_and_never_data() {
    // Each seed has hundreds of blocks.
    for seed in seeds(60).step_by(11) {
        for is_clean in [true, false] {
            let (history, disk, mut rng) = settled(seed, is_clean);
            history.check_device(&mut disk.clone(), &mut rng);
            for offset in disk.written_offsets() {
                flip(&history, &disk, offset, &mut rng);
            }
        }
    }
}

/// The device fails some commands: what is told to be committed is, and nothing is after a failed write.
fn fail_somewhere(seed: u64, txns: usize) {
    let mut rng = StdRng::seed_from_u64(seed);
    let config = tiny_config(seed);
    let mut disk = formatted(sizes(seed), &config);
    let mut history = History::new(format!("seed {seed}"), config);
    let mut store = disk.mount(config, &mut rng).unwrap();
    disk.set_failing(rng.random_range(1..40));
    let mut committed_at_fault = None;
    for _ in 0..txns {
        let txn = random_txn(&mut rng, history.last(), history.colls());
        history.submit(&mut store, txn);
        store.kick();
        disk.submit(store.take_commands());
        for _ in 0..rng.random_range(0..8) {
            let Some((token, result)) = disk.step(&mut rng) else { break };
            store.device_done(token, result);
            disk.submit(store.take_commands());
            history.take_commits(&mut store);
            if store.fault().is_some() {
                let at_fault = *committed_at_fault.get_or_insert(history.committed);
                assert_eq!(
                    history.committed, at_fault,
                    "{}: nothing is committed after a fault",
                    history.name
                );
            }
        }
    }
    disk.set_failing(0);
    if rng.random_bool(0.5) {
        disk.crash(&mut rng)
    } else {
        disk.kill(&mut rng)
    }
    history.survive(&mut disk, &mut rng);
}

#[test]
fn a_device_that_fails_now_and_then_leaves_a_legal_prefix() {
    for seed in seeds(60) {
        fail_somewhere(seed, 40);
    }
}

#[test]
fn a_superblock_torn_by_the_next_start_is_no_damage() {
    let mut rng = StdRng::seed_from_u64(61);
    let mut disk = formatted(DISK_BYTES, &config());
    let mut store = mount(&mut disk, &mut rng).unwrap();
    store.unmount_after(&mut disk, &mut rng);
    let next = (store.superblock.sequence + 1) as usize % crate::superblock::COPIES.len();
    disk.flip_bit(crate::superblock::COPIES[next] * BLOCK + 100, 3);
    let report = disk.fsck(config(), &mut rng);
    assert_eq!((report.problems, report.notes.len()), (Vec::new(), 1));
}
