//! A primary has logged a change that its device does not take, nor do its replicas hear of it. They start again, and
//! the primary peers with them; then its host crashes. No client was told of the change, so nothing may be lost.

use std::time::Duration;

use bytes::Bytes;
use client::Request;
use messages::{OpCode, OpParams, OsdOp};
use rand::{SeedableRng, rngs::StdRng};
use types::{PoolId, Token};

use crate::{
    Options, World,
    osd_process::{End, small_store},
    world::Scale,
};

const OSDS: usize = 3;
/// As long as a device may be silent without its OSD withholding heartbeats, nearly.
const SILENCE: Duration = Duration::from_secs(14);
/// By then the primary has the change.
const LOGGED: Duration = Duration::from_secs(1);
/// By then it has peered with the replicas, as far as that can be without its device.
const PEERED: Duration = Duration::from_secs(8);
const CHANGE: Token = Token(1);

impl World {
    /// Lives through it; what went wrong, if anything did.
    pub fn held_change(seed: u64) -> Result<(), String> {
        let mut rng = StdRng::seed_from_u64(seed);
        let scale = Scale { is_busy: true, ..Scale::new(OSDS, small_store(&mut rng), 1) };
        let mut world = World::of(Options::new(seed), scale, rng);
        let pool = world.set_up()?;
        world.all([write(pool, 1)].into_iter(), 1)?;
        world.until("the PG to be clean", World::is_clean)?;
        let primary = world.osdmap().and_then(|map| {
            let (_, pgid) = map.object_to_pg(pool, b"", b"", NAME)?;
            usize::try_from(map.pg_to_up_acting(pgid).acting_primary.0).ok()
        });
        let primary = primary.ok_or("nobody leads the PG")?;
        let leader = world.osd_process(primary);
        let replicas: Vec<_> =
            (0..OSDS).filter(|id| *id != primary).map(|id| world.osd_process(id)).collect();
        replicas.iter().for_each(|replica| world.network.divide(leader, *replica));
        world.schedule.silence_device(leader, SILENCE);
        world.submit(0, CHANGE, write(pool, 2));
        world.pass(LOGGED)?;
        for replica in replicas {
            world.end(replica, End::Killed);
            world.start(replica);
        }
        world.network.heal(&mut world.schedule);
        world.pass(PEERED)?;
        world.end(leader, End::PowerCut);
        world.start(leader);
        world.until("the PG to be clean", World::is_clean)?;
        world.pass(LOGGED)?;
        if world.take_ended(0).all(|(token, response)| token != CHANGE || response.result != 0) {
            return Err("the change is not made in the end".to_owned());
        }
        world.compare_copies()
    }
}

const NAME: &[u8] = b"object";

fn write(pool: PoolId, round: u8) -> Request {
    let data = Bytes::from(vec![round; 9_000]);
    let op = OsdOp { params: OpParams::extent(0, data.len() as u64), data, ..OsdOp::new(OpCode::WRITEFULL) };
    Request::new(pool, Bytes::from_static(NAME), vec![op])
}
