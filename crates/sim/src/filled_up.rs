//! Devices fill up while the monitor is away, so that no map tells anybody that they are full. Nothing else is wrong.
//!
//! A client goes on writing until OSDs take no more. Then it removes what it wrote, with requests that do not wait for
//! room: all that it ever asked for is done in the end.

use std::{collections::BTreeSet, time::Duration};

use bytes::Bytes;
use client::Request;
use messages::{OpCode, OpParams, OsdOp, osd_flag};
use rand::{SeedableRng, rngs::StdRng};
use types::{PoolId, Token};

use crate::{
    Options, World,
    osd_process::{End, small_store},
    world::{MON, PATIENCE, Scale},
};

const OSDS: usize = 3;
/// Of each shard.
const DISK_BYTES: u64 = 16 << 20;
/// Writes in flight.
const DEPTH: usize = 8;
/// When no write ends for so long, OSDs take no more.
const SILENCE: Duration = Duration::from_secs(20);

impl World {
    /// Lives through it with OSDs of so many shards and objects of so many bytes; what went wrong, if anything did.
    pub fn filled_up(shards: u16, object_bytes: usize) -> Result<(), String> {
        let mut rng = StdRng::seed_from_u64(1);
        let scale = Scale { shards, disk_bytes: DISK_BYTES, ..Scale::new(OSDS, small_store(&mut rng), 8) };
        let mut world = World::of(Options::new(1), scale, rng);
        let pool = world.set_up()?;
        world.until("all PGs to be clean", World::is_clean)?;
        world.end(MON, End::Killed);
        // More than there is room for.
        let objects = 2 * DISK_BYTES / object_bytes as u64 * u64::from(shards);
        let mut ended = BTreeSet::new();
        let mut requests = (0..objects).map(|object| (Token(object), write(pool, object, object_bytes)));
        let begun = world.fill_and_wait(&mut requests, SILENCE, &mut ended)?;
        if begun == ended.len() as u64 {
            return Err("the devices had room for everything".to_owned());
        }
        let written = ended.clone().into_iter();
        let mut requests = written.map(|Token(object)| (Token(object + objects), removal(pool, object)));
        let removed = world.fill_and_wait(&mut requests, PATIENCE, &mut ended)?;
        if ended.len() as u64 != begun + removed {
            let (count, state) = (begun + removed - ended.len() as u64, world.state());
            return Err(format!("{count} of {begun} writes and {removed} removals never end: {state}"));
        }
        world.start(MON);
        world.until("all PGs to be clean", World::is_clean)?;
        world.compare_copies()
    }

    /// Sends these requests, [`DEPTH`] at a time, until none ends for so long, or all have. How many were begun.
    fn fill_and_wait(
        &mut self,
        requests: &mut impl Iterator<Item = (Token, Request)>,
        silence: Duration,
        ended: &mut BTreeSet<Token>,
    ) -> Result<u64, String> {
        let (mut begun, mut open) = (0, BTreeSet::new());
        let mut heard = self.schedule.now();
        while self.schedule.now().since(heard) < silence {
            while open.len() < DEPTH
                && let Some((token, request)) = requests.next()
            {
                self.submit(0, token, request);
                open.insert(token);
                begun += 1;
            }
            self.step();
            for (token, response) in self.take_ended(0).collect::<Vec<_>>() {
                heard = self.schedule.now();
                open.remove(&token);
                ended.insert(token);
                if response.result < 0 {
                    return Err(format!("a request ended with {}", response.result));
                }
            }
        }
        Ok(begun)
    }
}

fn write(pool: PoolId, object: u64, bytes: usize) -> Request {
    let data = Bytes::from(vec![object as u8; bytes]);
    let op = OsdOp { params: OpParams::extent(0, data.len() as u64), data, ..OsdOp::new(OpCode::WRITEFULL) };
    Request::new(pool, name(object), vec![op])
}

fn removal(pool: PoolId, object: u64) -> Request {
    let flags = osd_flag::FULL_TRY;
    Request { flags, ..Request::new(pool, name(object), vec![OsdOp::new(OpCode::DELETE)]) }
}

fn name(object: u64) -> Bytes {
    Bytes::from(format!("object {object}"))
}
