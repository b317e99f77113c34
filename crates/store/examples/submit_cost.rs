//! Prints what the pure path of a 4 KiB write costs, device excluded, and how long single calls of the store
//! take, those that make a checkpoint among them: `cargo run --release -p store --example submit_cost`.
//!
//! The device answers durable writes at once, and for each request one of the others: so flushes take their
//! time, and checkpoints find much that is pending.

use std::{collections::VecDeque, time::Instant};

use bytes::Bytes;
use codec::AlignedBuf;
use store::{Config, DeviceCommand, ObjectStore, Store, StoreIdentity, virtual_disk::VirtualDisk};
use types::{CollId, HObject, Mutation, PgId, PoolId, SnapId, Token, Transaction};

const WRITES: u64 = 200_000;
/// Of 4 MiB each: an image of 3 GiB.
const OBJECTS: u64 = 768;
const OBJECT_BYTES: usize = 4 << 20;

fn main() {
    let bytes = 4 << 30;
    let config = Config { pending_bytes_max: 32 << 20, ..Config::default() };
    let mut disk = VirtualDisk::new(bytes);
    let identity = StoreIdentity { store_uuid: [1; 16], fsid: [2; 16], osd: 0, shard: 0, shards: 1 };
    for command in Store::format(bytes, identity, &config).expect("large enough") {
        disk.execute(command).1.expect("the disk works");
    }
    let mut mount = Store::mount(bytes, config);
    let mut store = loop {
        match mount.take() {
            Some(store) => break store.expect("it was just formatted"),
            None => mount.take_commands().into_iter().for_each(|command| {
                let (token, result) = disk.execute(command);
                mount.device_done(token, result);
            }),
        }
    };
    let mut device = Device::default();
    fill(&mut store, &mut device);
    for depth in [1, 32] {
        run(&mut store, &mut device, depth);
    }
}

fn coll() -> CollId {
    CollId::pg(PgId::new(PoolId(1), 0))
}

fn names() -> Vec<HObject> {
    (0..OBJECTS)
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
    let calls = &mut device.calls;
    calls.sort_unstable();
    let slowest: Vec<String> =
        calls.iter().rev().take(12).map(|nanos| format!("{:.1}", *nanos as f64 / 1e6)).collect();
    let writes = u128::from(WRITES);
    println!(
        "depth {depth}: {} ns per write submitted and journaled, {} ns with flush and checkpoints; \
         p99.9 of calls {} us, the slowest, in ms: {}",
        foreground / writes,
        start.elapsed().as_nanos() / writes,
        calls[calls.len() - calls.len() / 1000 - 1] / 1000,
        slowest.join(" ")
    );
}
