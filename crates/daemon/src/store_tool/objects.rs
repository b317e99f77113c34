//! `loligo store objects`: how a store does with more objects than memory holds.
//!
//! It makes a store in a file of its own, fills it with small objects, with the attributes that an image's objects
//! have, and measures requests whose objects are in memory and requests whose objects are not, all under a memory
//! target as an OSD keeps it. Then it drops everything as a kill does, and mounts.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use rand::{Rng, RngCore, SeedableRng, rngs::StdRng};
use reactor::Reactor;
use serde_json::{Value, json};
use store::{Completion, ObjectStore, StoreIdentity};
use types::{CollId, HObject, Mutation, PgId, PoolId, SnapId, Transaction, TxnOp, Uuid, pretty_json};

use super::{
    measure::{Clocked, Round},
    store_runner::StoreRunner,
};
use crate::{Workload, clock, device::Device, device_paths::DevicePaths, memory::Memory};

const OBJECT_BYTES: u64 = 4096;
/// Collections that the objects are spread over.
const COLLECTIONS: u64 = 32;
/// One object in so many has data; the others are holes of the same size.
const DATA_PART: u64 = 16;
/// What an object's attributes hold, as those of an image's object.
const ATTRIBUTES: [(&str, usize); 2] = [("_", 270), ("snapset", 31)];
const FILL_DEPTH: usize = 256;
/// Objects of rounds whose objects are in memory.
const HOT_OBJECTS: u64 = 2_000;
const LOOK_EVERY: Duration = Duration::from_millis(40);
/// Looks at rate and memory while the store is filled.
const FILL_PARTS: u64 = 10;
/// As long as a filling may take, about: its curve is not shown.
const FILL_DURATION: Duration = Duration::from_secs(3600);

/// Arguments of `loligo store objects`.
pub struct ObjectsOptions {
    /// The file to be made, which is removed at the end.
    pub file: PathBuf,
    /// How many objects.
    pub objects: u64,
    /// Bytes of memory, as `osd_memory_target`.
    pub memory_bytes: u64,
    /// Requests in flight.
    pub depth: usize,
    /// Length of a round.
    pub duration: Duration,
}

struct Run {
    runner: StoreRunner,
    memory: Memory,
    objects: u64,
    peak_bytes: u64,
    looked: types::Instant,
    rng: StdRng,
}

fn place(number: u64) -> (CollId, HObject) {
    let hash = (number as u32).wrapping_mul(0x9e37_79b9);
    let pool = PoolId(1);
    let coll = CollId::pg(PgId::new(pool, (number % COLLECTIONS) as u32));
    let oid = Bytes::from(format!("rbd_data.ab3f5c2d91e0.{number:016x}"));
    (coll, HObject { oid, pool, hash, snap: SnapId::HEAD, ..HObject::default() })
}

/// Measures, and prints JSON.
pub fn store_objects(options: &ObjectsOptions) -> Result<()> {
    if options.file.exists() {
        bail!("{} exists: the store is to be a new one", options.file.display());
    }
    if options.objects == 0 {
        bail!("there is nothing to measure without objects: change --objects");
    }
    let outcome = measure(options);
    std::fs::remove_file(&options.file).ok();
    println!("{}", pretty_json(&outcome?));
    Ok(())
}

fn measure(options: &ObjectsOptions) -> Result<Value> {
    let memory = Memory::with_target(options.memory_bytes);
    let mut reactor = Reactor::new(reactor::Config::default())?;
    let device = made(&options.file, options.objects, &mut reactor)?;
    let (mut run, _) = Run::mount(reactor, device, memory, options.objects)?;
    let filling = clock::now();
    let (parts, fill_latency) = run.fill()?;
    let mut out = json!({
        "objects": options.objects,
        "osd_memory_target": options.memory_bytes,
        "fill_objects_per_sec": options.objects as f64 / clock::now().since(filling).as_secs_f64(),
        "fill_latency": fill_latency,
        "filling": parts,
        "filled": run.memory_json(),
    });
    let mut rounds = Vec::new();
    for is_hot in [true, false] {
        for is_write in [false, true] {
            // A first round brings in what is hot.
            if is_hot {
                run.round(is_hot, is_write, options)?;
            }
            rounds.push(run.round(is_hot, is_write, options)?);
        }
    }
    out["rounds"] = rounds.into();
    let Run { runner, memory, .. } = run;
    let (reactor, device) = runner.into_parts()?;
    let (mut run, ms) = Run::mount(reactor, device, memory, options.objects)?;
    let replayed = run.runner.store.replayed();
    out["mount_after_kill"] = json!({
        "ms": ms,
        "journal_bytes": replayed.bytes,
        "transactions": replayed.transactions,
        "pages_read": run.runner.store.index_memory().reads,
        "memory": run.memory_json(),
    });
    run.runner.unmount()?;
    let Run { runner, memory, .. } = run;
    let (reactor, device) = runner.into_parts()?;
    let (run, ms) = Run::mount(reactor, device, memory, options.objects)?;
    out["mount_after_stop"] = json!({"ms": ms, "pages_read": run.runner.store.index_memory().reads});
    Ok(out)
}

/// A new store, large enough.
fn made(file: &Path, objects: u64, reactor: &mut Reactor) -> Result<Device> {
    let paths = DevicePaths { main: file.to_owned(), journal: None, index: None };
    let bytes = (8 << 30) + objects * 2 * OBJECT_BYTES;
    let device = Device::create(reactor, &paths, bytes, &mut |_| Ok(()))?;
    let store_uuid = Uuid(*b"many small files");
    let identity = StoreIdentity { store_uuid, fsid: Uuid::NIL, osd: 0, shard: 0, shards: 1 };
    device.format(identity, reactor)?;
    Ok(device)
}

impl Run {
    /// How long it took, in milliseconds, comes with it.
    fn mount(reactor: Reactor, device: Device, memory: Memory, objects: u64) -> Result<(Run, f64)> {
        let config = memory.configure(device.store_config());
        let begin = clock::now();
        let runner = StoreRunner::mount(reactor, device, config)?;
        let (rng, looked) = (StdRng::seed_from_u64(1), clock::now());
        let ms = looked.since(begin).as_secs_f64() * 1e3;
        Ok((Run { runner, memory, objects, peak_bytes: 0, looked, rng }, ms))
    }

    fn turn(&mut self) -> Result<Vec<Completion>> {
        self.look();
        self.runner.turn()
    }

    /// Keeps to the memory target.
    fn look(&mut self) {
        if clock::now() < self.looked + LOOK_EVERY {
            return;
        }
        self.looked = clock::now();
        self.peak_bytes = self.peak_bytes.max(reactor::resident_bytes().unwrap_or_default());
        self.memory.govern(&mut self.runner.store);
    }

    /// Memory now, and the most since the last call.
    fn memory_json(&mut self) -> Value {
        let resident = reactor::resident_bytes().unwrap_or_default();
        let (index, peak) = (self.runner.store.index_memory(), self.peak_bytes.max(resident));
        self.peak_bytes = 0;
        json!({
            "resident_bytes": resident,
            "peak_bytes": peak,
            "index_bytes_estimated": index.bytes,
            "index_bytes_max": self.memory.sizes().index,
            "pages_in_memory": index.loaded,
            "pages": index.pages,
            "directory_bytes": index.directory_bytes,
        })
    }

    /// A turn while the store is filled.
    fn fill_turn(&mut self, clocked: &mut Clocked) -> Result<()> {
        for completion in self.turn()? {
            if let Completion::Committed(token) = completion {
                clocked.end(token, self.runner.store.activity())?;
            }
        }
        Ok(())
    }

    /// Its parts come with it: their rate, and the memory at their ends. And how long commits took.
    fn fill(&mut self) -> Result<(Vec<Value>, Value)> {
        let mut clocked = Clocked::new(FILL_DURATION)?;
        let (mut parts, mut part_began) = (Vec::new(), clock::now());
        let part_objects = self.objects.div_ceil(FILL_PARTS);
        let mut bytes = vec![0; OBJECT_BYTES as usize];
        self.rng.fill_bytes(&mut bytes);
        let data = Bytes::from(bytes);
        for number in 0..self.objects {
            let (coll, object) = place(number);
            let mut txn = Transaction::new(coll);
            if number < COLLECTIONS {
                txn.ops.push(TxnOp::CreateCollection);
            }
            let attributes =
                ATTRIBUTES.map(|(name, len)| (Bytes::from(name), Bytes::copy_from_slice(&data[..len])));
            txn.push(&object, Mutation::SetXattrs(attributes.into()));
            txn.push(
                &object,
                if number.is_multiple_of(DATA_PART) {
                    Mutation::Write { offset: 0, data: data.clone().into() }
                } else {
                    Mutation::Truncate { size: OBJECT_BYTES }
                },
            );
            self.runner.store.submit(clocked.start(), txn);
            while clocked.in_flight() >= FILL_DEPTH {
                self.fill_turn(&mut clocked)?;
            }
            if (number + 1).is_multiple_of(part_objects) {
                let mut part = self.memory_json();
                let began = std::mem::replace(&mut part_began, clock::now());
                part["objects_per_sec"] = json!(part_objects as f64 / part_began.since(began).as_secs_f64());
                parts.push(part);
            }
        }
        let latency = clocked.finish().latency_json();
        self.runner.settle()?;
        Ok((parts, latency))
    }

    /// Requests of 4 KiB. A write looks at its object first, as an OSD does.
    fn round(&mut self, is_hot: bool, is_write: bool, options: &ObjectsOptions) -> Result<Value> {
        let mut clocked = Clocked::new(options.duration)?;
        let mut waiting = std::collections::BTreeMap::new();
        let data = Bytes::from(vec![7; OBJECT_BYTES as usize]);
        let with_data = self.objects.div_ceil(DATA_PART);
        let count = if is_hot { HOT_OBJECTS.min(with_data) } else { with_data };
        let reads_before = self.runner.store.index_memory().reads;
        let end = clock::now() + options.duration;
        let mut asked = Vec::new();
        loop {
            while clocked.in_flight() < options.depth && clock::now() < end {
                let number = self.rng.random_range(0..count) * DATA_PART;
                asked.push((clocked.start(), place(number)));
            }
            for (token, (coll, object)) in asked.drain(..) {
                let found = if is_write {
                    self.runner.store.xattr(coll, &object, b"_").map(drop)
                } else {
                    self.runner.store.read(coll, &object, 0, OBJECT_BYTES).map(drop)
                };
                match found {
                    Err(missing) => {
                        self.runner.store.load(token, missing);
                        waiting.insert(token, (coll, object));
                    }
                    Ok(()) if is_write => {
                        self.runner.store.unload(token);
                        let mut txn = Transaction::new(coll);
                        txn.push(&object, Mutation::Write { offset: 0, data: data.clone().into() });
                        self.runner.store.submit(token, txn);
                    }
                    Ok(()) => {
                        self.runner.store.unload(token);
                        clocked.end(token, self.runner.store.activity())?;
                    }
                }
            }
            if clocked.in_flight() == 0 {
                if clock::now() >= end {
                    break;
                }
                // All were answered at once.
                self.look();
                continue;
            }
            for completion in self.turn()? {
                match completion {
                    Completion::Committed(token) => clocked.end(token, self.runner.store.activity())?,
                    Completion::Loaded(token, result) => {
                        result.context("reading what was written")?;
                        asked.extend(waiting.remove(&token).map(|place| (token, place)));
                    }
                }
            }
        }
        let workload = if is_write { Workload::RandWrite } else { Workload::RandRead };
        let (block_bytes, depth, measured) = (OBJECT_BYTES, options.depth, clocked.finish());
        let requests = measured.requests();
        let mut out = Round { target: "store", workload, block_bytes, depth, measured }.json();
        let pages = self.runner.store.index_memory().reads - reads_before;
        out["objects"] = json!(if is_hot { "in memory" } else { "any" });
        out["pages_read_per_request"] = json!(pages as f64 / (requests as f64).max(1.0));
        out["memory"] = self.memory_json();
        Ok(out)
    }
}
