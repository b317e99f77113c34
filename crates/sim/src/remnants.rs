//! What must not be left of a PG in the end, made on purpose: the end has to see it.

use bytes::Bytes;
use codec::{Encode, Features};
use rand::{SeedableRng, rngs::StdRng};
use store::ObjectStore;
use types::{CollId, EVersion, HObject, Mutation, Pairs, PgId, PoolId, SnapId, Transaction, TxnOp};

use crate::{Options, World, osd_process::small_store, scrubs::fill, slot::Slot, world::Scale};

/// Objects of such a world.
const OBJECTS: usize = 12;

/// What is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remnant {
    /// A copy's record says that it lacks an object.
    MissingKey,
    /// An entry is not in a copy's log.
    LogEntry,
    /// An object that was put together lies beside the others.
    ObjectBeside,
    /// A collection of a PG that does not exist.
    Collection,
    /// All copies lack an object that was written.
    Emptied,
}

impl Remnant {
    /// All there are, and how each is told of.
    pub const ALL: [(Remnant, &'static str); 5] = [
        (Remnant::MissingKey, "its store has other missing objects"),
        (Remnant::LogEntry, "its store has other log"),
        (Remnant::ObjectBeside, "left beside its objects: "),
        (Remnant::Collection, " has a collection of "),
        (Remnant::Emptied, ", its log says "),
    ];
}

impl World {
    /// Lives through a world in which nothing fails, and leaves something behind. What the end says.
    pub fn left_behind(remnant: Remnant) -> Result<(), String> {
        let mut rng = StdRng::seed_from_u64(remnant as u64);
        // The search for an object looks at the index, and cannot wait until it is loaded.
        let store = store::Config { index_bytes_max: u64::MAX, ..small_store(&mut rng) };
        let mut world = World::of(Options::new(1), Scale::new(3, store, 4), rng);
        let pool = world.set_up()?;
        world.all((0..OBJECTS).map(|at| fill(pool, at)), 8)?;
        world.until("all PGs to be clean", World::is_clean)?;
        let (coll, objects) = world.objects(pool).ok_or("there is no object")?;
        let is_record = |object: &&HObject| object.pool != pool;
        let (Some(record), Some(object)) =
            (objects.iter().find(is_record), objects.iter().find(|object| object.pool == pool))
        else {
            return Err("there is no object".to_owned());
        };
        world.leave(remnant, coll, record, object);
        world.compare_copies()
    }

    /// A collection with objects of the pool, and all that is in it.
    fn objects(&self, pool: PoolId) -> Option<(CollId, Vec<HObject>)> {
        let store = &self.parts().next()?.machine.store;
        let listed = store.collections().into_iter().filter(|coll| coll.0.pool == pool).map(|coll| {
            let objects = store.list(coll, &HObject::min(), usize::MAX).unwrap_or_default();
            (coll, objects)
        });
        listed.max_by_key(|(_, objects)| objects.len())
    }

    fn leave(&mut self, remnant: Remnant, coll: CollId, record: &HObject, object: &HObject) {
        let set = |txn: &mut Transaction, key: Vec<u8>, value: Bytes| {
            txn.push(record, Mutation::OmapSet(Pairs::from([(Bytes::from(key), value)])));
        };
        let mut txn = Transaction::new(coll);
        let mut is_everywhere = false;
        match remnant {
            Remnant::MissingKey => {
                let mut key = vec![b'm'];
                object.encode(&mut key, Features::default());
                set(&mut txn, key, EVersion::ZERO.to_bytes(Features::default()));
            }
            Remnant::LogEntry => {
                let (first, last) = (Bytes::from_static(b"l"), Bytes::from_static(b"l0000000000000002"));
                txn.push(record, Mutation::OmapRemoveRange { first, last });
            }
            Remnant::ObjectBeside => {
                let beside = HObject { pool: PoolId(i64::MAX), snap: SnapId(1), ..object.clone() };
                txn.push(&beside, Mutation::Touch);
            }
            Remnant::Collection => {
                txn = Transaction::new(CollId::pg(PgId::new(coll.0.pool, 99)));
                txn.ops.push(TxnOp::CreateCollection);
            }
            Remnant::Emptied => {
                txn.push(object, Mutation::Remove);
                is_everywhere = true;
            }
        }
        let count = if is_everywhere { self.osds.len() } else { 1 };
        self.osds.iter_mut().take(count).filter_map(Slot::up_mut).for_each(|osd| osd.damage(txn.clone()));
    }
}
