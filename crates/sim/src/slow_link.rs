//! A world in which an OSD that was away comes back by a slow link, and nothing else is wrong.

use std::time::Duration;

use bytes::Bytes;
use client::Request;
use messages::{OpCode, OpParams, OsdOp};
use rand::{SeedableRng, rngs::StdRng};
use types::{OsdId, PoolId};

use crate::{Options, World, osd_process::End, world::Scale};

const OSDS: usize = 3;
const BACK: usize = 2;
const PGS: u32 = 64;
/// Enough for each PG to have some.
const OBJECTS: u64 = 192;
const OBJECT_BYTES: u64 = 256 << 10;
/// An object of each PG takes this link longer than an OSD may be silent.
const BYTES_PER_SECOND: u64 = 512 << 10;

impl World {
    /// Many PGs lack large objects on an OSD behind a slow link: it stays up while they are recovered.
    pub fn slow_link() -> Result<(), String> {
        let scale = Scale { disk_bytes: 1 << 30, ..Scale::new(OSDS, store::Config::default(), PGS) };
        let mut world = World::of(Options::new(1), scale, StdRng::seed_from_u64(1));
        let pool = world.set_up()?;
        world.until("PGs to be clean", World::is_clean)?;
        let back = world.osd_process(BACK);
        let is_up = |w: &World| w.osdmap().is_some_and(|map| map.is_up(OsdId(BACK as i32)));
        world.end(back, End::PowerCut);
        world.until("the OSD to be down", move |w| !is_up(w))?;
        let whole = Bytes::from(vec![7; OBJECT_BYTES as usize]);
        world.all((0..OBJECTS).map(|object| write(pool, object, whole.clone())), 8)?;
        world.start(back);
        world.until("the OSD to be up", is_up)?;
        // Parts as large as in production, for such objects.
        for id in 0..OSDS {
            let set = r#"{"prefix":"config set","var":"osd_recovery_max_chunk","val":"1048576"}"#;
            world.osd_command(id, set.to_owned());
        }
        let lives = |w: &World| w.osdmap().map(|map| map.up_from(OsdId(BACK as i32)));
        let life = lives(&world);
        world.network.limit_link(back, BYTES_PER_SECOND);
        let began = world.schedule.now();
        world.until("PGs to be clean", World::is_clean)?;
        if lives(&world) != life {
            return Err("an OSD was marked down by its own recovery".to_owned());
        }
        match world.schedule.now().since(began) > Duration::from_secs(60) {
            true => Ok(()),
            false => Err("the link was not slow enough to say anything".to_owned()),
        }
    }
}

fn write(pool: PoolId, object: u64, data: Bytes) -> Request {
    let op = OsdOp { data, ..OsdOp::new(OpCode::WRITEFULL) };
    let op = OsdOp { params: OpParams::extent(0, OBJECT_BYTES), ..op };
    Request::new(pool, Bytes::from(format!("rbd_data.1.{object:016x}")), vec![op])
}
