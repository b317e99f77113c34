//! After everything is mended: all copies of a PG are equal, and every store's books agree.

use std::{collections::BTreeSet, ops::Bound};

use bytes::Bytes;
use osd::Shard;
use rand::{SeedableRng, rngs::StdRng};
use store::{NotCached, ObjectStore, Store, virtual_disk::VirtualDisk};
use types::{CollId, HObject, PgId, Token, UpActing};

use crate::world::{POOL, World};

/// All of an object on one OSD.
#[derive(Debug)]
struct Copy {
    object: HObject,
    data: Bytes,
    xattrs: Vec<(Bytes, Bytes)>,
    omap_header: Bytes,
    omap: Vec<(Bytes, Bytes)>,
}

/// A store and its disk, which nothing else uses.
struct Resting {
    store: Store,
    disk: VirtualDisk,
    rng: StdRng,
}

const TOKEN: Token = Token(u64::MAX);

impl Resting {
    /// Answers a read, loading what it misses.
    fn read<T>(&mut self, read: impl Fn(&Store) -> Result<T, NotCached>) -> Result<T, String> {
        for _ in 0..10_000 {
            match read(&self.store) {
                Ok(found) => {
                    self.store.unload(TOKEN);
                    return Ok(found);
                }
                Err(missing) => self.store.load(TOKEN, missing),
            }
            loop {
                self.store.kick();
                self.disk.submit(self.store.take_commands());
                let Some((token, result)) = self.disk.step(&mut self.rng) else { break };
                self.store.device_done(token, result);
            }
            for completion in self.store.take_completions() {
                if let store::Completion::Loaded(_, Err(error)) = completion {
                    return Err(error.to_string());
                }
            }
        }
        Err("a load does not bring what is missing".to_owned())
    }

    /// The clients' objects of a PG; what the PG keeps of itself is each copy's own.
    fn copies(&mut self, pgid: PgId) -> Result<Vec<Copy>, String> {
        let coll = CollId::pg(pgid);
        let objects = self.read(|store| store.list(coll, &HObject::min(), usize::MAX))?;
        let objects = objects.into_iter().filter(|object| object.pool == pgid.pool);
        objects
            .map(|object| {
                Ok(Copy {
                    data: self.read(|store| store.read(coll, &object, 0, u64::MAX))?,
                    xattrs: self.read(|store| store.xattrs(coll, &object))?,
                    omap_header: self.read(|store| store.omap_header(coll, &object))?,
                    omap: self.read(|store| store.omap_range(coll, &object, Bound::Unbounded, usize::MAX))?,
                    object,
                })
            })
            .collect()
    }
}

impl World {
    /// True when all members of all PGs of the pool agree on which snapshots are purged.
    pub(crate) fn is_purge_known(&self) -> bool {
        let Some(map) = self.osdmap() else { return false };
        let Some((pool, _)) = map.pool_by_name(POOL) else { return false };
        let copies = self.parts().flat_map(|part| {
            let me = part.machine.osd.whoami();
            let is_member = move |pgid| map.pg_to_up_acting(pgid).acting.contains(&me);
            part.machine.osd.purged_snaps().filter(move |(pgid, _)| pgid.pool == pool && is_member(*pgid))
        });
        let sets: BTreeSet<Vec<(u64, u64)>> = copies.map(|(_, purged)| purged.iter().collect()).collect();
        sets.len() <= 1
    }

    /// True when no OSD has to do with a scrub.
    pub(crate) fn are_slots_free(&self) -> bool {
        self.parts().all(|part| part.machine.osd.scrubs_under_way() == 0)
    }

    /// Ends all OSDs and compares what they have.
    pub(crate) fn compare_copies(&mut self) -> Result<(), String> {
        let map = self.osdmap().ok_or("the monitor is down")?.clone();
        let osds = self.take_osds();
        let mut stores: Vec<Vec<Resting>> = Vec::new();
        for osd in osds {
            let mut shards = Vec::new();
            for (store, disk) in osd.into_stores() {
                store.check_invariants();
                shards.push(Resting { store, disk, rng: StdRng::seed_from_u64(1) });
            }
            stores.push(shards);
        }
        for pgid in map.pgs() {
            let UpActing { up, acting, .. } = map.pg_to_up_acting(pgid);
            if acting != up && up.len() == usize::from(map.pools[&pgid.pool].size) {
                return Err(format!("{pgid}: {acting:?} act for {up:?}, who have everything"));
            }
            let mut first = None;
            for osd in &acting {
                let shards = stores.get_mut(osd.0 as usize).ok_or("an OSD of the acting set is down")?;
                let count = shards.len() as u16;
                let store = &mut shards[usize::from(Shard { index: 0, count }.owner(pgid, &map))];
                let copies = store.copies(pgid).map_err(|why| format!("{pgid} on osd.{}: {why}", osd.0))?;
                let (_, reference) = first.get_or_insert_with(|| (*osd, Vec::new()));
                if *osd == acting[0] {
                    *reference = copies;
                } else if let Some(what) = difference(reference, &copies) {
                    return Err(format!("{pgid}: {what}"));
                }
            }
        }
        Ok(())
    }
}

impl Copy {
    /// The part of this copy that differs from `other`.
    fn difference(&self, other: &Copy) -> Option<&'static str> {
        let parts = [
            ("data", self.data == other.data),
            ("xattrs", self.xattrs == other.xattrs),
            ("omap header", self.omap_header == other.omap_header),
            ("omap", self.omap == other.omap),
        ];
        parts.into_iter().find(|(_, is_same)| !is_same).map(|(part, _)| part)
    }
}

fn difference(one: &[Copy], other: &[Copy]) -> Option<String> {
    let names = |copies: &[Copy]| copies.iter().map(|c| c.object.to_string()).collect::<Vec<_>>();
    if names(one) != names(other) {
        return Some(format!("copies have other objects: {:?} and {:?}", names(one), names(other)));
    }
    one.iter()
        .zip(other)
        .find_map(|(a, b)| Some(format!("copies of {} differ in their {}", a.object, a.difference(b)?)))
}
