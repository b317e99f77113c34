//! Clones share what has not changed with each other and with their head. An OSD that is made anew is filled with
//! objects that share it again, and so takes no more space than what they do not share.

use bytes::Bytes;
use client::Request;
use messages::{OpCode, OpParams, OsdOp};
use rand::{SeedableRng, rngs::StdRng};
use store::ObjectStore;
use types::{PoolId, SnapContext, SnapId};

use crate::{Options, World, made_anew::Removal, workload::Workload, world::Scale};

const OSDS: usize = 3;
const ANEW: usize = 2;
const PGS: u32 = 4;
const OBJECTS: u64 = 12;
const OBJECT_BYTES: u64 = 1 << 20;
/// What is written after each snapshot.
const CHANGE_BYTES: u64 = 16 << 10;
/// The blocks that it is in: it begins in the middle of one.
const CHANGED_BYTES: u64 = CHANGE_BYTES + (4 << 10);
/// Snapshots' ids begin with 2.
const SNAPS: std::ops::RangeInclusive<u64> = 2..=4;

impl World {
    /// Lives through it, with objects in parts or whole. On the new OSD everything is in its place in the end; the
    /// others may have put off what is small.
    pub fn shared_clones(part_bytes: u64) -> Result<(), String> {
        let scale = Scale { disk_bytes: 1 << 30, ..Scale::new(OSDS, store::Config::default(), PGS) };
        let mut world = World::of(Options::new(1), scale, StdRng::seed_from_u64(1));
        let pool = world.set_up()?;
        world.make_snaps(pool)?;
        world.until("all PGs to be clean", World::is_clean)?;
        world.all((0..OBJECTS).map(|at| write(pool, at, 1, (0, OBJECT_BYTES))), 8)?;
        for snap in SNAPS {
            let range = (snap * (OBJECT_BYTES / 8) + 100, CHANGE_BYTES);
            world.all((0..OBJECTS).map(|at| write(pool, at, snap, range)), 8)?;
        }
        // Only of a client with a workload outcomes are looked at: the operator waits for a key.
        world.workloads.push(Workload::new(1, pool, StdRng::seed_from_u64(1)));
        world.lose_device(ANEW, Removal::Destroy);
        world.until("the OSD to be made anew", |w| !w.is_removed(ANEW))?;
        world.workloads.clear();
        for id in (0..OSDS).filter(|id| *id != ANEW) {
            let set = r#"{"prefix":"config set","var":"osd_recovery_max_chunk","val":"#;
            world.osd_command(id, format!("{set}\"{part_bytes}\"}}"));
        }
        world.until("the OSD to be up", |w| !w.is_down(ANEW))?;
        world.settle()?;
        let occupied: Vec<u64> = (0..OSDS).map(|id| world.data_bytes(id)).collect();
        if occupied[ANEW] > OBJECTS * (OBJECT_BYTES + SNAPS.count() as u64 * CHANGED_BYTES) {
            return Err(format!("OSDs' objects occupy {occupied:?} bytes"));
        }
        world.compare_copies()
    }

    fn data_bytes(&self, id: usize) -> u64 {
        let parts = self.osds[id].up().into_iter().flat_map(|osd| osd.parts());
        parts.map(|part| part.machine.store.usage().data_bytes).sum()
    }
}

/// A write behind this snapshot, and all before it.
fn write(pool: PoolId, at: u64, snap: u64, (offset, len): (u64, u64)) -> Request {
    let data = Bytes::from(vec![(at * 16 + snap) as u8; len as usize]);
    let op = OsdOp { params: OpParams::extent(offset, len), data, ..OsdOp::new(OpCode::WRITE) };
    let snaps: Vec<SnapId> = SNAPS.rev().filter(|made| *made <= snap).map(SnapId).collect();
    let snapc = SnapContext { seq: snaps.first().copied().unwrap_or_default(), snaps };
    Request { snapc, ..Request::new(pool, Bytes::from(format!("object {at}")), vec![op]) }
}
