//! A world in which nothing breaks: a client writes or reads blocks as an RBD client does.
//!
//! It serves to count the instructions of the machines per request: `bench/instructions`.

use std::collections::BTreeSet;

use bytes::Bytes;
use client::Request;
use codec::traffic::Traffic;
use messages::{OpCode, OpParams, OsdOp};
use rand::{Rng, SeedableRng, rngs::StdRng};
use types::{PoolId, Token};

use crate::{Options, World, world::Scale};

const OSDS: usize = 3;
const DISK_BYTES: u64 = 1 << 30;
const BLOCK_BYTES: u64 = 4096;
const OBJECT_BYTES: u64 = 4 << 20;
const OBJECTS: u64 = 8;

/// What the client of a [`World::steady`] does, after it has filled its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Writes, or else reads.
    pub is_write: bool,
    /// Requests of 4 KiB that are not counted, before the others.
    pub warm_up: u64,
    /// Requests of 4 KiB.
    pub requests: u64,
    /// In flight at once.
    pub depth: usize,
    /// PGs of the pool.
    pub pg_num: u32,
    /// How much the stores leave for later, in bytes.
    pub pending_bytes_max: u64,
}

impl Load {
    /// A load on stores with the settings that they have in production.
    pub fn new(is_write: bool, requests: u64, depth: usize) -> Load {
        let pending_bytes_max = store::Config::default().pending_bytes_max;
        Load { is_write, warm_up: 0, requests, depth, pg_num: 4, pending_bytes_max }
    }

    /// A load on stores that age soon: the log of a single PG is full after 3,000 writes, and each write sees its part
    /// of what stores leave for later.
    pub fn aging(self) -> Load {
        Load { pg_num: 1, pending_bytes_max: 4 << 20, ..self }
    }
}

impl World {
    /// Lives through a load, or says what failed. What all OSDs' copies and checksums went over meanwhile, but for the
    /// warm-up, is counted in builds with debug assertions.
    pub fn steady(load: &Load) -> Result<Traffic, String> {
        let options = Options::new(1);
        let store = store::Config { pending_bytes_max: load.pending_bytes_max, ..store::Config::default() };
        let scale = Scale { disk_bytes: DISK_BYTES, ..Scale::new(OSDS, store, load.pg_num) };
        let mut world = World::of(options, scale, StdRng::seed_from_u64(options.seed));
        let pool = world.set_up()?;
        let mut rng = StdRng::seed_from_u64(2);
        let whole = Bytes::from(vec![7; OBJECT_BYTES as usize]);
        let fill = (0..OBJECTS).map(|object| {
            let op = OsdOp { data: whole.clone(), ..OsdOp::new(OpCode::WRITEFULL) };
            let op = OsdOp { params: OpParams::extent(0, OBJECT_BYTES), ..op };
            request(pool, object, vec![op])
        });
        world.all(fill, 2)?;
        let block = whole.slice(..BLOCK_BYTES as usize);
        let mut requests = (0..load.warm_up + load.requests).map(|_| {
            let offset = rng.random_range(0..OBJECT_BYTES / BLOCK_BYTES) * BLOCK_BYTES;
            let params = OpParams::extent(offset, BLOCK_BYTES);
            let ops = match load.is_write {
                true => vec![
                    OsdOp {
                        params: OpParams::extent(OBJECT_BYTES, OBJECT_BYTES),
                        ..OsdOp::new(OpCode::SETALLOCHINT)
                    },
                    OsdOp { params, data: block.clone(), ..OsdOp::new(OpCode::WRITE) },
                ],
                false => vec![OsdOp { params, ..OsdOp::new(OpCode::READ) }],
            };
            request(pool, rng.random_range(0..OBJECTS), ops)
        });
        world.all(requests.by_ref().take(load.warm_up as usize), load.depth)?;
        let before = world.begin_to_count();
        world.all(requests, load.depth)?;
        Ok(world.osd_traffic - before)
    }

    /// What was counted up to now. Never inlined: callgrind counts from here on.
    #[inline(never)]
    fn begin_to_count(&self) -> Traffic {
        self.osd_traffic
    }

    /// Does all these requests, `depth` of them at a time.
    pub(crate) fn all(
        &mut self,
        mut requests: impl Iterator<Item = Request>,
        depth: usize,
    ) -> Result<(), String> {
        let mut in_flight: BTreeSet<Token> = BTreeSet::new();
        let mut next_token = 1;
        loop {
            while in_flight.len() < depth
                && let Some(request) = requests.next()
            {
                in_flight.insert(Token(next_token));
                self.submit(0, Token(next_token), request);
                next_token += 1;
            }
            if in_flight.is_empty() {
                return Ok(());
            }
            self.step();
            for (token, response) in self.take_ended(0) {
                in_flight.remove(&token);
                if response.result < 0 {
                    return Err(format!("a request ended with {}", response.result));
                }
            }
        }
    }
}

fn request(pool: PoolId, object: u64, ops: Vec<OsdOp>) -> Request {
    Request::new(pool, Bytes::from(format!("rbd_data.1.{object:016x}")), ops)
}
