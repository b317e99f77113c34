//! `loligo store bench`: the store alone, without network and PGs, beside the raw device.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use codec::{AlignedBuf, BLOCK_BYTES};
use rand::{Rng, RngCore, SeedableRng, rngs::StdRng};
use reactor::Reactor;
use serde_json::Value;
use store::{Activity, Completion, Config, DeviceCommand, ObjectStore};
use types::{CollId, HObject, Mutation, PgId, PoolId, SnapId, Token, TxnOp, pretty_json};

use super::{
    StoreTarget,
    measure::{self, Clocked, Round},
    store_runner::StoreRunner,
};
use crate::{Workload, clock};

/// Bytes of each object, and of a large request.
const OBJECT_BYTES: u64 = 4 << 20;
const SMALL_BYTES: u64 = 4 << 10;
/// Writes in flight while objects are made.
const FILL_DEPTH: u64 = 4;
/// Reads are to meet the device.
const CACHE_BYTES: u64 = 1 << 20;

/// No pool has this id: PGs are never here.
const COLLECTION: CollId = CollId(PgId { pool: PoolId(-2), seed: 0 });

const ROUNDS: [(Workload, u64); 4] = [
    (Workload::RandWrite, SMALL_BYTES),
    (Workload::RandRead, SMALL_BYTES),
    (Workload::Write, OBJECT_BYTES),
    (Workload::Read, OBJECT_BYTES),
];

/// Arguments of `loligo store bench`.
pub struct StoreBenchOptions {
    /// Requests in flight, a round for each number.
    pub depths: Vec<usize>,
    /// Length of a round.
    pub duration: Duration,
    /// How many objects of 4 MiB.
    pub objects: u64,
    /// Only this workload; all four without it.
    pub only: Option<Workload>,
    /// JSON instead of a table.
    pub is_json: bool,
}

/// Runs the rounds in a collection of their own, which is removed at the end.
pub fn store_bench(target: &StoreTarget, options: &StoreBenchOptions) -> Result<()> {
    let mut reactor = Reactor::new(reactor::Config::default())?;
    let (_, device) = target.open(&mut reactor)?;
    let config = Config { cache_bytes_max: CACHE_BYTES, ..device.store_config() };
    let runner = StoreRunner::mount(reactor, device, config)?;
    let mut bench = Bench { runner, objects: options.objects, rng: StdRng::seed_from_u64(1) };
    let outcome = bench.run(options);
    // Also after an error: the store is to be as it was.
    bench.end()?;
    let rounds = outcome?;
    if options.is_json {
        println!("{}", pretty_json(&rounds.iter().map(Round::json).collect::<Value>()));
    } else {
        print!("{}", measure::table(&rounds));
    }
    Ok(())
}

struct Bench {
    runner: StoreRunner,
    objects: u64,
    rng: StdRng,
}

fn object(number: u64) -> HObject {
    let oid = Bytes::from(format!("bench{number}"));
    let hash = (number as u32).wrapping_mul(0x9e37_79b9);
    HObject { oid, pool: COLLECTION.0.pool, hash, snap: SnapId::HEAD, ..HObject::default() }
}

impl Bench {
    fn run(&mut self, options: &StoreBenchOptions) -> Result<Vec<Round>> {
        if self.objects == 0 || options.depths.contains(&0) {
            bail!("--objects and --depth are at least 1");
        }
        let deepest = options.depths.iter().copied().max().unwrap_or(1) as u64;
        // Each overwrite takes new space before the old is free.
        let needed = (self.objects * 2 + deepest) * OBJECT_BYTES;
        let available = self.runner.store.usage().available_bytes;
        if available < needed {
            bail!("{needed} bytes must be free for {} objects, {available} are", self.objects);
        }
        self.submit(Token(0), vec![TxnOp::RemoveCollection, TxnOp::CreateCollection]);
        self.fill()?;
        let mut rounds = Vec::new();
        let wanted = |workload: Workload| options.only.is_none_or(|only| only == workload);
        let chosen: Vec<_> = ROUNDS.into_iter().filter(|(workload, _)| wanted(*workload)).collect();
        for &(workload, block_bytes) in &chosen {
            for &depth in &options.depths {
                rounds.push(self.store_round(workload, block_bytes, depth, options.duration)?);
            }
        }
        self.runner.settle()?;
        // The raw rounds come last, as they write over the objects' blocks behind the store's back.
        for (workload, block_bytes) in chosen {
            let places = self.places(block_bytes);
            for &depth in options.depths.iter().filter(|_| !places.is_empty()) {
                let round = (workload, block_bytes, depth, options.duration);
                rounds.push(self.raw_round(round, &places)?);
            }
        }
        rounds.sort_by_key(|round| {
            let row = ROUNDS.iter().position(|known| known.0 == round.workload);
            (row, round.depth, round.target == "disk")
        });
        Ok(rounds)
    }

    fn submit(&mut self, token: Token, ops: Vec<TxnOp>) {
        self.runner.submit(token, COLLECTION, ops);
    }

    fn fill(&mut self) -> Result<()> {
        let data = payload(OBJECT_BYTES, &mut self.rng);
        for number in 0..self.objects {
            let write = Mutation::Write { offset: 0, data: data.clone().into() };
            self.submit(Token(number), vec![TxnOp::Object(object(number), write)]);
            while self.runner.store.uncommitted_count() as u64 >= FILL_DEPTH {
                self.runner.turn()?;
            }
        }
        self.runner.settle()
    }

    /// A place: object and offset.
    fn place(&mut self, block_bytes: u64) -> (HObject, u64) {
        let number = self.rng.random_range(0..self.objects);
        (object(number), self.rng.random_range(0..OBJECT_BYTES / block_bytes) * block_bytes)
    }

    fn store_round(
        &mut self,
        workload: Workload,
        block_bytes: u64,
        depth: usize,
        duration: Duration,
    ) -> Result<Round> {
        let data = payload(block_bytes, &mut self.rng);
        let mut clocked = Clocked::new(duration)?;
        let mut reads: BTreeMap<Token, (HObject, u64)> = BTreeMap::new();
        let end = clock::now() + duration;
        loop {
            while clocked.in_flight() < depth && clock::now() < end {
                let token = clocked.start();
                let (object, offset) = self.place(block_bytes);
                if workload.is_write() {
                    let write = Mutation::Write { offset, data: data.clone().into() };
                    self.submit(token, vec![TxnOp::Object(object, write)]);
                    continue;
                }
                match self.runner.store.read(COLLECTION, &object, offset, block_bytes) {
                    Ok(_) => clocked.end(token, self.runner.store.activity())?,
                    Err(missing) => {
                        self.runner.store.load(token, missing);
                        reads.insert(token, (object, offset));
                    }
                }
            }
            if clocked.in_flight() == 0 {
                break;
            }
            for completion in self.runner.turn()? {
                match completion {
                    Completion::Committed(token) => clocked.end(token, self.runner.store.activity())?,
                    Completion::Loaded(token, result) => {
                        result.context("reading what the bench wrote")?;
                        let Some((object, offset)) = reads.get(&token) else { continue };
                        if let Err(missing) = self.runner.store.read(COLLECTION, object, *offset, block_bytes)
                        {
                            // A block went to another place while it was read.
                            self.runner.store.load(token, missing);
                            continue;
                        }
                        reads.remove(&token);
                        clocked.end(token, self.runner.store.activity())?;
                        self.runner.store.unload(token);
                    }
                }
            }
        }
        Ok(Round { target: "store", workload, block_bytes, depth, measured: clocked.finish() })
    }

    /// Offsets on the device of the objects' data, in pieces of `block_bytes`.
    fn places(&self, block_bytes: u64) -> Vec<u64> {
        let mut out = Vec::new();
        // The whole index is in memory.
        let layout = |number| self.runner.store.layout(COLLECTION, &object(number)).ok().flatten();
        for layout in (0..self.objects).filter_map(layout) {
            for extent in layout.extents {
                let bytes = (extent.crcs.len() * BLOCK_BYTES) as u64;
                let starts = (0..bytes / block_bytes).map(|at| extent.device_offset + at * block_bytes);
                out.extend(starts);
            }
        }
        out
    }

    fn raw_round(
        &mut self,
        (workload, block_bytes, depth, duration): (Workload, u64, usize, Duration),
        places: &[u64],
    ) -> Result<Round> {
        let data = payload(block_bytes, &mut self.rng);
        let mut clocked = Clocked::new(duration)?;
        let end = clock::now() + duration;
        // What is under way ends before anything else is done on the device: the store would take it for its own.
        let mut failed = None;
        loop {
            let mut commands = Vec::new();
            while failed.is_none() && clocked.in_flight() < depth && clock::now() < end {
                let token = clocked.start();
                let offset = places[self.rng.random_range(0..places.len())];
                commands.push(if workload.is_write() {
                    DeviceCommand::Write {
                        token,
                        offset,
                        data: data.clone(),
                        more: Vec::new(),
                        durable: true,
                    }
                } else {
                    DeviceCommand::Read { token, offset, len: block_bytes }
                });
            }
            self.runner.device.submit(commands, &mut self.runner.reactor);
            if clocked.in_flight() == 0 {
                break;
            }
            for (token, result) in self.runner.device.wait(&mut self.runner.reactor)? {
                failed = failed.or(result.err());
                clocked.end(token, Activity::Idle)?;
            }
        }
        if let Some(error) = failed {
            return Err(error.into());
        }
        Ok(Round { target: "disk", workload, block_bytes, depth, measured: clocked.finish() })
    }

    /// Removes the objects and stops the store in order.
    fn end(&mut self) -> Result<()> {
        self.submit(Token(0), vec![TxnOp::RemoveCollection]);
        self.runner.settle()?;
        self.runner.unmount()
    }
}

/// Bytes that do not compress, in memory that a device takes.
fn payload(bytes: u64, rng: &mut StdRng) -> Bytes {
    let mut data = AlignedBuf::zeroed(bytes as usize);
    rng.fill_bytes(data.as_mut_slice());
    data.into()
}
