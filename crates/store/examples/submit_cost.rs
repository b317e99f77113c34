//! Prints what the pure path of a 4 KiB write costs, device excluded, and how long single calls of the store
//! take, those that make a checkpoint, or a step of a split, a merge or a removal, among them: `cargo run --release -p
//! store --example submit_cost`.
//!
//! The device answers durable writes at once, and for each request one of the others: so flushes take their
//! time, and checkpoints find much that is pending.

use std::{collections::VecDeque, time::Instant};

use bytes::Bytes;
use codec::AlignedBuf;
use rand::{SeedableRng, rngs::StdRng};
use store::{
    Config, DeviceCommand, JournalKey, ObjectStore, Store, StoreIdentity, virtual_disk::VirtualDisk,
};
use types::{
    CollId, CollMerge, CollSplit, HObject, Mutation, PgId, PoolId, SnapId, Token, Transaction, TxnOp, Uuid,
};

const WRITES: u64 = 200_000;
/// Of 4 MiB each: an image of 3 GiB.
const OBJECTS: u64 = 768;
const OBJECT_BYTES: usize = 4 << 20;
/// Small ones that are split off, merged and removed, and the index' memory for that: all of it, or little.
const MOVED: u64 = 300_000;
const INDEX_BYTES: [u64; 2] = [u64::MAX, 16 << 20];

fn main() {
    let config = Config { pending_bytes_max: 32 << 20, ..Config::default() };
    let mut store = made(config).0;
    let mut device = Device::default();
    fill(&mut store, &mut device);
    for depth in [1, 32] {
        run(&mut store, &mut device, depth);
    }
    for index_bytes_max in INDEX_BYTES {
        resize(Config { index_bytes_max, ..config });
    }
}

/// A new store, and its disk.
fn made(config: Config) -> (Store, VirtualDisk) {
    let bytes = 4 << 30;
    let mut disk = VirtualDisk::new(bytes);
    let identity =
        StoreIdentity { store_uuid: Uuid([1; 16]), fsid: Uuid([2; 16]), osd: 0, shard: 0, shards: 1 };
    let key = JournalKey::new([3; 16]);
    for command in Store::format(bytes, identity, key, &config).expect("large enough") {
        disk.execute(command).1.expect("the disk works");
    }
    let store = disk.mount(config, &mut StdRng::seed_from_u64(1)).expect("it was just formatted");
    (store, disk)
}

fn coll() -> CollId {
    CollId::pg(PgId::new(PoolId(1), 0))
}

fn names() -> Vec<HObject> {
    named(OBJECTS)
}

fn named(count: u64) -> Vec<HObject> {
    (0..count)
        .map(|n| HObject {
            oid: Bytes::from(format!("rbd_data.1234567890ab.{n:016x}")),
            pool: PoolId(1),
            hash: (n as u32).wrapping_mul(0x9e37_79b9),
            snap: SnapId::HEAD,
            ..HObject::default()
        })
        .collect()
}

/// Writes every block of every object.
fn fill(store: &mut Store, device: &mut Device) {
    let payload = Bytes::from(AlignedBuf::zeroed(OBJECT_BYTES));
    for name in names() {
        let mut txn = Transaction::new(coll());
        txn.push(&name, Mutation::Write { offset: 0, data: payload.clone().into() });
        store.submit(Token(0), txn);
        store.kick();
        device.answer(store, u64::MAX);
    }
}

/// A device that drops all data: only the store's own time is left.
#[derive(Default)]
struct Device {
    /// Background writes that are not answered.
    held: VecDeque<Token>,
    /// Nanoseconds that each call of the store took.
    calls: Vec<u128>,
}

impl Device {
    /// Answers what does not wait, and up to `count` of what does.
    fn answer(&mut self, store: &mut Store, count: u64) {
        for _ in 0..count {
            let Some(token) = self.held.pop_front() else { break };
            self.done(store, token, None);
        }
        loop {
            let commands = store.take_commands();
            if commands.is_empty() {
                break;
            }
            for command in commands {
                match command {
                    DeviceCommand::Read { token, len, .. } => {
                        self.done(store, token, Some(Bytes::from(vec![7; len as usize])));
                    }
                    DeviceCommand::Write { token, durable: false, .. } => self.held.push_back(token),
                    DeviceCommand::Write { token, .. }
                    | DeviceCommand::Flush { token }
                    | DeviceCommand::Discard { token, .. } => self.done(store, token, None),
                }
            }
        }
        store.take_completions();
    }

    fn done(&mut self, store: &mut Store, token: Token, data: Option<Bytes>) {
        let begin = Instant::now();
        store.device_done(token, Ok(data));
        self.calls.push(begin.elapsed().as_nanos());
    }
}

fn run(store: &mut Store, device: &mut Device, depth: u64) {
    let names = names();
    let payload = Bytes::from(vec![7; 4096]);
    let mut foreground = 0;
    device.calls.clear();
    let start = Instant::now();
    for turn in 0..WRITES / depth {
        let begin = Instant::now();
        for at in 0..depth {
            let random = (turn * depth + at).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            let mut txn = Transaction::new(coll());
            let offset = random / OBJECTS % 1024 * 4096;
            txn.push(
                &names[(random % OBJECTS) as usize],
                Mutation::Write { offset, data: payload.clone().into() },
            );
            store.submit(Token(at), txn);
        }
        store.kick();
        let took = begin.elapsed().as_nanos();
        foreground += took;
        device.calls.push(took);
        device.answer(store, depth);
    }
    let slowest = slowest(&mut device.calls);
    let calls = &device.calls;
    let writes = u128::from(WRITES);
    println!(
        "depth {depth}: {} ns per write submitted and journaled, {} ns with flush and checkpoints; \
         p99.9 of calls {} us, the slowest, in ms: {}",
        foreground / writes,
        start.elapsed().as_nanos() / writes,
        calls[calls.len() - calls.len() / 1000 - 1] / 1000,
        slowest
    );
}

/// Splits many small objects off, merges them back, and removes all.
fn resize(config: Config) {
    let (mut store, mut disk) = made(config);
    let mut calls = Vec::new();
    for name in named(MOVED) {
        let mut txn = Transaction::new(coll());
        txn.push(&name, Mutation::SetXattrs([(Bytes::from_static(b"_"), Bytes::from(vec![7; 250]))].into()));
        submit(&mut store, &mut disk, txn, &mut calls);
    }
    let (from, to) = (HObject { pool: PoolId(1), ..HObject::default() }, HObject::max());
    let child = CollId::pg(PgId::new(PoolId(1), 1));
    let record = HObject { pool: PoolId(-2), ..HObject::default() };
    let omap = [(Bytes::from_static(b"info"), Bytes::new())].into();
    let split = TxnOp::Split(Box::new(CollSplit { child, from: from.clone(), to: to.clone(), record, omap }));
    let merge = TxnOp::Merge(Box::new(CollMerge { source: child, from, to }));
    for (what, op) in [("split", split), ("merge", merge), ("removal", TxnOp::RemoveCollection)] {
        let mut txn = Transaction::new(coll());
        txn.ops.push(op);
        calls.clear();
        let start = Instant::now();
        submit(&mut store, &mut disk, txn, &mut calls);
        let (took, memory) = (start.elapsed(), store.index_memory());
        println!(
            "{what} of {MOVED} objects: {:.2} s in {} calls, index {} MiB of memory, the slowest, in ms: {}",
            took.as_secs_f64(),
            calls.len(),
            memory.bytes >> 20,
            slowest(&mut calls)
        );
    }
}

/// Submits a transaction to a store whose disk keeps what it gets, until it is committed; how long calls took.
fn submit(store: &mut Store, disk: &mut VirtualDisk, txn: Transaction, calls: &mut Vec<u128>) {
    let mut timed = |store: &mut Store, call: &mut dyn FnMut(&mut Store)| {
        let begin = Instant::now();
        call(store);
        calls.push(begin.elapsed().as_nanos());
    };
    let mut txn = Some(txn);
    timed(store, &mut |store| {
        txn.take().into_iter().for_each(|txn| store.submit(Token(0), txn));
        store.kick();
    });
    while store.uncommitted_count() > 0 {
        for command in store.take_commands() {
            let (token, result) = disk.execute(command);
            let mut result = Some(result);
            timed(store, &mut |store| {
                result.take().into_iter().for_each(|done| store.device_done(token, done))
            });
        }
        timed(store, &mut |store| store.kick());
    }
    store.take_completions();
}

/// The longest ones, in milliseconds.
fn slowest(calls: &mut [u128]) -> String {
    calls.sort_unstable();
    let slowest = calls.iter().rev().take(12).map(|nanos| format!("{:.1}", *nanos as f64 / 1e6));
    slowest.collect::<Vec<String>>().join(" ")
}
