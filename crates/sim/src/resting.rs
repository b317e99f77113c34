//! Stores that nothing uses any more: the power has failed, and they are mounted as they are found.

use std::ops::Bound;

use bytes::Bytes;
use osd::Shard;
use pg::{Pg, PgRecord};
use rand::{SeedableRng, rngs::StdRng};
use store::{Completion, NotCached, ObjectStore, OmapMost, Problem, Store, virtual_disk::VirtualDisk};
use types::{CollId, EVersion, HObject, OsdId, OsdMap, PgId, Token};

use crate::{device_faults::Loss, osd_process::OsdDisk};

const TOKEN: Token = Token(u64::MAX);

/// All of an object on one OSD.
#[derive(Debug)]
pub(crate) struct Copy {
    pub(crate) object: HObject,
    /// What the PG says that it is.
    pub(crate) version: EVersion,
    data: Bytes,
    xattrs: Vec<(Bytes, Bytes)>,
    omap_header: Bytes,
    omap: Vec<(Bytes, Bytes)>,
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

/// How the objects of two copies of a PG differ.
pub(crate) fn difference(one: &[Copy], other: &[Copy]) -> Option<String> {
    let names = |copies: &[Copy]| copies.iter().map(|c| c.object.to_string()).collect::<Vec<_>>();
    if names(one) != names(other) {
        return Some(format!("copies have other objects: {:?} and {:?}", names(one), names(other)));
    }
    one.iter()
        .zip(other)
        .find_map(|(a, b)| Some(format!("copies of {} differ in their {}", a.object, a.difference(b)?)))
}

/// A store and its disk.
struct Resting {
    store: Store,
    disk: VirtualDisk,
    rng: StdRng,
}

/// The stores of an OSD.
pub(crate) struct RestingOsd {
    pub(crate) whoami: OsdId,
    /// One for each shard; none where a bad device has lost what a mount needs.
    shards: Vec<Resting>,
    /// A bad device has lost parts of an index: not everything can be read.
    pub(crate) has_lost_index: bool,
}

/// What a device must have lost where a store has such a problem; none if the store itself is to blame.
fn loss_behind(problem: &Problem) -> Option<Loss> {
    match problem {
        Problem::Data { .. } | Problem::MoreData { .. } => Some(Loss::Data),
        Problem::Index { .. } | Problem::Unmountable(_) => Some(Loss::Any),
        _ => None,
    }
}

impl RestingOsd {
    /// Checks and mounts what the end of the OSD has left. All has to be sound but what its device may have lost.
    pub(crate) fn mount(own: OsdDisk, loss: Loss) -> Result<RestingOsd, String> {
        let OsdDisk { whoami, disks, config, .. } = own;
        let why = |what: String| format!("after the power cut, the store of osd.{}: {what}", whoami.0);
        let mut osd = RestingOsd { whoami, shards: Vec::new(), has_lost_index: false };
        for mut disk in disks {
            let mut rng = StdRng::seed_from_u64(1);
            let problems = disk.fsck(config, &mut rng).problems;
            let is_excused = |problem: &Problem| loss_behind(problem).is_some_and(|behind| behind <= loss);
            if let Some(problem) = problems.iter().find(|problem| !is_excused(problem)) {
                return Err(why(problem.to_string()));
            }
            osd.has_lost_index |= problems.iter().any(|problem| matches!(problem, Problem::Index { .. }));
            match disk.mount(config, &mut rng) {
                Ok(store) => osd.shards.push(Resting { store, disk, rng }),
                Err(_) if loss == Loss::Any => return Ok(RestingOsd { shards: Vec::new(), ..osd }),
                Err(error) => return Err(why(error.to_string())),
            }
        }
        if !osd.has_lost_index {
            osd.shards.iter().for_each(|shard| shard.store.check_invariants());
        }
        Ok(osd)
    }

    /// False if its devices have lost too much.
    pub(crate) fn is_there(&self) -> bool {
        !self.shards.is_empty()
    }

    /// The PGs that have a collection here, each in its shard.
    pub(crate) fn pgs(&self) -> impl Iterator<Item = (usize, PgId)> {
        let of = |(index, shard): (usize, &Resting)| {
            let colls = shard.store.collections().into_iter().filter(|coll| *coll != CollId::META);
            colls.map(move |coll| (index, coll.0)).collect::<Vec<_>>()
        };
        self.shards.iter().enumerate().flat_map(of)
    }

    /// The shard of a PG.
    pub(crate) fn shard_of(&self, pgid: PgId, map: &OsdMap) -> usize {
        usize::from(Shard { index: 0, count: self.shards.len() as u16 }.owner(pgid, map))
    }

    /// What a copy of a PG keeps of itself, and its objects.
    pub(crate) fn copy(&mut self, pgid: PgId, map: &OsdMap) -> Result<(PgRecord, Vec<Copy>), String> {
        let at = self.shard_of(pgid, map);
        let shard = self.shards.get_mut(at).ok_or("there is no such shard")?;
        let pg = Pg::load(1, pgid, self.whoami, &shard.store).map_err(|error| error.to_string())?;
        Ok((pg.ok_or("there is no copy")?.record(), shard.copies(pgid)?))
    }
}

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
                if let Completion::Loaded(_, Err(error)) = completion {
                    return Err(error.to_string());
                }
            }
        }
        Err("a load does not bring what is missing".to_owned())
    }

    /// The clients' objects of a PG. Besides them there is nothing in its collection but the PG's own record, before
    /// all objects of pools.
    fn copies(&mut self, pgid: PgId) -> Result<Vec<Copy>, String> {
        let coll = CollId::pg(pgid);
        let objects = self.read(|store| store.list(coll, &HObject::min(), usize::MAX))?;
        let is_record = |object: &HObject| object.oid == "pgmeta" && object.pool.0 < 0;
        if let Some(other) = objects.iter().find(|object| object.pool != pgid.pool && !is_record(object)) {
            return Err(format!("left beside its objects: {other}"));
        }
        let objects = objects.into_iter().filter(|object| object.pool == pgid.pool);
        objects
            .map(|object| {
                Ok(Copy {
                    version: self.read(|store| pg::object_version(store, coll, &object))?,
                    data: self.read(|store| store.read(coll, &object, 0, u64::MAX))?,
                    xattrs: self.read(|store| store.xattrs(coll, &object))?,
                    omap_header: self.read(|store| store.omap_header(coll, &object))?,
                    omap: self
                        .read(|store| store.omap_range(coll, &object, Bound::Unbounded, OmapMost::ALL))?,
                    object,
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use auth::CryptoKey;
    use types::{KeyType, UTime};

    use super::*;
    use crate::{Options, World, world::Scale};

    /// An OSD's disks as they were made, but for what `harm` does to each.
    fn mounted(loss: Loss, harm: impl Fn(&mut VirtualDisk)) -> Result<RestingOsd, String> {
        let mut rng = StdRng::seed_from_u64(1);
        let key = CryptoKey::generate(KeyType::Aes, UTime::default(), &mut rng);
        let world = World::of(Options::new(1), Scale::new(1, store::Config::default(), 1), rng);
        let mut own = world.new_disk(0, key);
        own.disks.iter_mut().for_each(harm);
        RestingOsd::mount(own, loss)
    }

    #[test]
    fn a_lost_store_is_excused_only_by_a_device_that_may_have_lost_it() {
        for loss in [Loss::Nothing, Loss::Data, Loss::Any] {
            assert!(mounted(loss, |_| ()).is_ok_and(|osd| osd.is_there()));
            let found = mounted(loss, |disk| *disk = VirtualDisk::new(disk.sizes()));
            match loss {
                Loss::Any => assert!(found.is_ok_and(|osd| !osd.is_there())),
                Loss::Nothing | Loss::Data => {
                    assert!(found.is_err_and(|why| why.contains("the store of osd.0")))
                }
            }
        }
    }

    #[test]
    fn data_may_rot_by_itself_and_an_index_only_with_any_block() {
        assert_eq!(loss_behind(&Problem::MoreData { blocks: 1 }), Some(Loss::Data));
        assert_eq!(loss_behind(&Problem::Index { what: "page", offset: 0 }), Some(Loss::Any));
        assert_eq!(loss_behind(&Problem::Leaked { offset: 0, bytes: 4096 }), None);
    }
}
