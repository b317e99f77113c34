//! Prints what the pure path of a 4 KiB write costs, device excluded, and how long single calls of the store
//! take, those that make a checkpoint among them: `cargo run --release -p store --example submit_cost`.

use std::time::Instant;

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
    fill(&mut store);
    for depth in [1, 32] {
        run(&mut store, depth);
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
fn fill(store: &mut Store) {
    let payload = Bytes::from(AlignedBuf::zeroed(OBJECT_BYTES));
    for name in names() {
        let mut txn = Transaction::new(coll());
        txn.push(&name, Mutation::Write { offset: 0, data: payload.clone() });
        store.submit(Token(0), txn);
        store.kick();
        answer(store, &mut Vec::new());
    }
}

/// Answers all commands at once and drops all data: only the store's own time is left. Notes how long each
/// call took.
fn answer(store: &mut Store, calls: &mut Vec<u128>) {
    loop {
        let commands = store.take_commands();
        if commands.is_empty() {
            break;
        }
        for command in commands {
            let (token, data) = match command {
                DeviceCommand::Read { token, len, .. } => (token, Some(Bytes::from(vec![7; len as usize]))),
                DeviceCommand::Write { token, .. }
                | DeviceCommand::Flush { token }
                | DeviceCommand::Discard { token, .. } => (token, None),
            };
            let begin = Instant::now();
            store.device_done(token, Ok(data));
            calls.push(begin.elapsed().as_nanos());
        }
    }
    store.take_completions();
}

fn run(store: &mut Store, depth: u64) {
    let names = names();
    let payload = Bytes::from(vec![7; 4096]);
    let (mut foreground, mut calls) = (0, Vec::new());
    let start = Instant::now();
    for turn in 0..WRITES / depth {
        let begin = Instant::now();
        for at in 0..depth {
            let random = (turn * depth + at).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            let mut txn = Transaction::new(coll());
            let offset = random / OBJECTS % 1024 * 4096;
            txn.push(&names[(random % OBJECTS) as usize], Mutation::Write { offset, data: payload.clone() });
            store.submit(Token(at), txn);
        }
        store.kick();
        let took = begin.elapsed().as_nanos();
        foreground += took;
        calls.push(took);
        answer(store, &mut calls);
    }
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
