//! Prints what the pure path of a 4 KiB write costs, device excluded: `cargo run --release -p store
//! --example submit_cost`.

use std::time::Instant;

use bytes::Bytes;
use store::{Config, DeviceCommand, ObjectStore, Store, StoreIdentity, virtual_disk::VirtualDisk};
use types::{CollId, HObject, Mutation, PgId, PoolId, SnapId, Token, Transaction};

const WRITES: u64 = 200_000;
const OBJECTS: u64 = 256;

fn main() {
    let bytes = 4 << 30;
    let config = Config { pending_bytes_max: 32 << 20, ..Config::default() };
    let mut disk = VirtualDisk::new(bytes);
    let identity = StoreIdentity { store_uuid: [1; 16], fsid: [2; 16], osd: 0 };
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
    for depth in [1, 32] {
        run(&mut store, depth);
    }
}

/// Answers journal writes at once and drops all data: only the store's own time is left.
fn run(store: &mut Store, depth: u64) {
    let coll = CollId::pg(PgId::new(PoolId(1), 0));
    let names: Vec<HObject> = (0..OBJECTS)
        .map(|n| HObject {
            oid: Bytes::from(format!("rbd_data.1234567890ab.{n:016x}")),
            pool: PoolId(1),
            hash: (n as u32).wrapping_mul(0x9e37_79b9),
            snap: SnapId::HEAD,
            ..HObject::default()
        })
        .collect();
    let payload = Bytes::from(vec![7; 4096]);
    let (mut foreground, mut slowest) = (0, 0);
    let start = Instant::now();
    for turn in 0..WRITES / depth {
        let begin = Instant::now();
        for at in 0..depth {
            let random = (turn * depth + at).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            let mut txn = Transaction::new(coll);
            let offset = random / OBJECTS % 1024 * 4096;
            txn.push(&names[(random % OBJECTS) as usize], Mutation::Write { offset, data: payload.clone() });
            store.submit(Token(at), txn);
        }
        store.kick();
        let took = begin.elapsed().as_nanos();
        foreground += took;
        slowest = slowest.max(took);
        loop {
            let commands = store.take_commands();
            if commands.is_empty() {
                break;
            }
            for command in commands {
                match command {
                    DeviceCommand::Read { token, len, .. } => {
                        store.device_done(token, Ok(Some(Bytes::from(vec![7; len as usize]))));
                    }
                    DeviceCommand::Write { token, .. }
                    | DeviceCommand::Flush { token }
                    | DeviceCommand::Discard { token, .. } => store.device_done(token, Ok(None)),
                }
            }
        }
        store.take_completions();
    }
    let writes = WRITES as u128;
    println!(
        "depth {depth}: {} ns per write submitted and journaled, {} ns with flush and checkpoints, slowest turn {} us",
        foreground / writes,
        start.elapsed().as_nanos() / writes,
        slowest / 1000
    );
}
