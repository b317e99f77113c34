//! A device that answers nothing any more, in a world where nothing else breaks: its OSD withholds heartbeats, ends,
//! and the cluster goes on.

use std::time::Duration;

use bytes::Bytes;
use client::Request;
use messages::{OpCode, OpParams, OsdOp};
use rand::{SeedableRng, rngs::StdRng};
use types::PoolId;

use crate::{Options, World, osd_process::small_store, world::Scale};

/// The OSD whose device falls silent.
const OSD: usize = 1;
/// The device is never heard again.
const FOR_EVER: Duration = Duration::from_secs(1_000_000);
/// By then others have noticed: the OSD withholds heartbeats after 15 s, which they see after 20 more.
const NOTICED: Duration = Duration::from_secs(60);
/// By then the OSD has ended, which it does after 150 s.
const ENDED: Duration = Duration::from_secs(170);
const OBJECTS: usize = 20;

impl World {
    /// Lives through it; what went wrong, if anything did.
    pub fn hung_device() -> Result<(), String> {
        let mut rng = StdRng::seed_from_u64(1);
        let scale = Scale { is_busy: true, shards: 2, ..Scale::new(3, small_store(&mut rng), 4) };
        let mut world = World::of(Options::new(1), scale, rng);
        let pool = world.set_up()?;
        world.all((0..OBJECTS).map(|at| write(pool, at, 1)), 4)?;
        world.until("all PGs to be clean", World::is_clean)?;
        // One of its two shards: the other one goes on, and must not seem alive either.
        let part = world.osd_process(OSD).part(1);
        world.faulty.insert(OSD);
        world.schedule.silence_device(part, FOR_EVER);
        let silent = world.schedule.now();
        // Without the OSD being seen to be dead, these would wait for ever.
        world.all((0..OBJECTS).map(|at| write(pool, at, 2)), 4)?;
        if world.schedule.now().since(silent) > NOTICED {
            return Err(format!("writes went on after {:?}", world.schedule.now().since(silent)));
        }
        if !world.is_down(OSD) {
            return Err("writes go on, and the OSD is up".to_owned());
        }
        world.until("the OSD to end", |world| world.ends.contains_key(&OSD))?;
        if world.schedule.now().since(silent) > ENDED {
            return Err(format!("it ended after {:?}", world.schedule.now().since(silent)));
        }
        // Its host has another device by now.
        world.settle()?;
        world.compare_copies()
    }
}

fn write(pool: PoolId, at: usize, round: u8) -> Request {
    let data = Bytes::from(vec![round; 9_000]);
    let op = OsdOp { params: OpParams::extent(0, data.len() as u64), data, ..OsdOp::new(OpCode::WRITEFULL) };
    Request::new(pool, Bytes::from(format!("object {at}")), vec![op])
}
