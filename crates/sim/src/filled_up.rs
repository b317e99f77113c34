//! Devices fill up while the monitor is away, so that no map tells anybody that they are full. Nothing else is wrong.
//!
//! A client goes on writing until OSDs take no more. Then it removes what it wrote, with requests that do not wait for
//! room: all that it ever asked for is done in the end.
//!
//! Or an OSD comes back that has a smaller device than the others, and cannot have all that was written meanwhile.

use std::{collections::BTreeSet, time::Duration};

use bytes::Bytes;
use client::Request;
use codec::{Encode, Features};
use messages::{ObjectLocator, OpCode, OpParams, OsdOp, osd_flag};
use rand::{SeedableRng, rngs::StdRng};
use types::{Errno, PgState, PoolId, SnapId, Token};

use crate::{
    Options, World,
    osd_process::{End, small_store},
    world::{MON, PATIENCE, Scale},
};

const OSDS: usize = 3;
/// Of each shard.
const DISK_BYTES: u64 = 16 << 20;
/// Of OSDs whose devices have room for everything.
const LARGE_DISK_BYTES: u64 = 64 << 20;
/// Requests in flight.
const DEPTH: usize = 8;
/// More than is left in the end: of an object that is written over.
const OVERWRITTEN_BYTES: usize = 3 << 20;
/// When no write ends for so long, OSDs take no more.
const SILENCE: Duration = Duration::from_secs(20);
/// The object that others are copies of.
const FIRST: u64 = 0;

/// How a client fills devices: with objects of many PGs, or of one, in which removals would wait behind all that waits
/// for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filling {
    /// It writes objects.
    Writes,
    /// It copies one object again and again: requests bring nothing.
    Copies,
    /// It writes objects, and then writes over a large one, and does not wait for room.
    Overwrites,
}

/// How requests are sent.
#[derive(Clone, Copy)]
struct Pace {
    /// So many at a time.
    depth: usize,
    /// When none ends for so long, none will.
    silence: Duration,
    /// True if they may be refused for want of room.
    may_be_refused: bool,
}

/// Until OSDs take no more; what has to end.
const FILLING: Pace = Pace { depth: DEPTH, silence: SILENCE, may_be_refused: false };
const ENDING: Pace = Pace { silence: PATIENCE, ..FILLING };

impl World {
    /// Lives through it with OSDs of so many shards and objects of so many bytes; what went wrong, if anything did.
    pub fn filled_up(filling: Filling, shards: u16, object_bytes: usize) -> Result<(), String> {
        let mut rng = StdRng::seed_from_u64(1);
        let pgs = if filling == Filling::Writes { 8 } else { 1 };
        let scale = Scale { shards, disk_bytes: DISK_BYTES, ..Scale::new(OSDS, small_store(&mut rng), pgs) };
        let mut world = World::of(Options::new(1), scale, rng);
        let pool = world.set_up()?;
        world.until("all PGs to be clean", World::is_clean)?;
        let first_bytes = if filling == Filling::Overwrites { OVERWRITTEN_BYTES } else { object_bytes };
        let first = write(pool, FIRST, first_bytes);
        world.all([first.clone()].into_iter(), 1)?;
        world.end(MON, End::Killed);
        // More than there is room for.
        let objects = 2 * DISK_BYTES / object_bytes as u64 * u64::from(shards);
        let mut ended = BTreeSet::new();
        let fill = |object| match filling {
            Filling::Writes | Filling::Overwrites => write(pool, object, object_bytes),
            Filling::Copies => copy(pool, object),
        };
        let mut requests = (1..objects).map(|object| (Token(object), fill(object)));
        let mut begun = world.fill_and_wait(&mut requests, FILLING, &mut ended)?;
        if begun == ended.len() as u64 {
            return Err("the devices had room for everything".to_owned());
        }
        let written = ended.clone();
        if filling == Filling::Overwrites {
            let over = Request { flags: osd_flag::FULL_TRY, ..first };
            let pace = Pace { may_be_refused: true, ..ENDING };
            begun += world.fill_and_wait(&mut [(Token(objects), over)].into_iter(), pace, &mut ended)?;
        }
        let removal_of = |Token(object): &Token| (Token(object + 2 * objects), removal(pool, *object));
        begun += world.fill_and_wait(&mut written.iter().map(removal_of), ENDING, &mut ended)?;
        if ended.len() as u64 != begun {
            let (count, state) = (begun - ended.len() as u64, world.state());
            return Err(format!("{count} of {begun} requests never end: {state}"));
        }
        world.start(MON);
        world.settle()?;
        world.compare_copies()
    }

    /// Lives through the return of an OSD whose device is too small for objects of so many bytes that were written
    /// meanwhile, without a map that says so; what went wrong, if anything did.
    pub fn too_small(object_bytes: usize) -> Result<(), String> {
        let mut rng = StdRng::seed_from_u64(1);
        let scale = Scale {
            disk_bytes: LARGE_DISK_BYTES,
            last_disk_bytes: Some(DISK_BYTES),
            ..Scale::new(OSDS, small_store(&mut rng), 1)
        };
        let mut world = World::of(Options::new(1), scale, rng);
        let pool = world.set_up()?;
        world.until("all PGs to be clean", World::is_clean)?;
        // A third of the device, and then all of it.
        let count = DISK_BYTES / object_bytes as u64;
        let writes = |from: u64, to: u64| (from..to).map(move |object| write(pool, object, object_bytes));
        world.all(writes(0, count / 3), DEPTH)?;
        let small = world.osd_process(OSDS - 1);
        world.end(small, End::Killed);
        world.all(writes(count / 3, 4 * count / 3), DEPTH)?;
        world.start(small);
        world.until("all PGs to be active", |world| world.is_all_up() && world.are_all(PgState::ACTIVE))?;
        world.end(MON, End::Killed);
        world.pass(SILENCE)?;
        let is_put_off = |(_, state): (_, PgState)| state.has(PgState::RECOVERY_TOOFULL);
        if !world.parts().flat_map(|part| part.machine.osd.led_states()).any(is_put_off) {
            return Err(format!("nothing waits for room: {}", world.state()));
        }
        let objects = 4 * count / 3;
        let mut ended = BTreeSet::new();
        let mut removals = (0..objects).map(|object| (Token(object), removal(pool, object)));
        let all_at_once = Pace { depth: objects as usize, ..ENDING };
        world.fill_and_wait(&mut removals, all_at_once, &mut ended)?;
        if ended.len() as u64 != objects {
            let count = objects - ended.len() as u64;
            return Err(format!("{count} of {objects} removals never end: {}", world.state()));
        }
        world.start(MON);
        world.settle()?;
        world.compare_copies()
    }

    /// Sends these requests until none ends any more, or all have. How many were begun.
    fn fill_and_wait(
        &mut self,
        requests: &mut impl Iterator<Item = (Token, Request)>,
        pace: Pace,
        ended: &mut BTreeSet<Token>,
    ) -> Result<u64, String> {
        let (mut begun, mut open) = (0, BTreeSet::new());
        let mut heard = self.schedule.now();
        while self.schedule.now().since(heard) < pace.silence {
            while open.len() < pace.depth
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
                let is_refused = pace.may_be_refused && response.result == Errno::ENOSPC.negated();
                if response.result < 0 && !is_refused {
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

/// An object becomes a copy of the first one.
fn copy(pool: PoolId, object: u64) -> Request {
    let locator = ObjectLocator { pool, ..ObjectLocator::default() };
    let data = (name(FIRST), locator).to_bytes(Features::default());
    let params = OpParams::from_parts(&[&SnapId::HEAD.0.to_le_bytes()]);
    Request::new(pool, name(object), vec![OsdOp { params, data, ..OsdOp::new(OpCode::COPY_FROM) }])
}

fn removal(pool: PoolId, object: u64) -> Request {
    let flags = osd_flag::FULL_TRY;
    Request { flags, ..Request::new(pool, name(object), vec![OsdOp::new(OpCode::DELETE)]) }
}

fn name(object: u64) -> Bytes {
    Bytes::from(format!("object {object}"))
}
