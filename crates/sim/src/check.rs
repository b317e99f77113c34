//! After everything is mended: nothing is held any more, and what the disks have is what must be there. All copies of a
//! PG are equal, so are their logs, and every store's books agree.

use std::collections::{BTreeMap, BTreeSet};

use osd::Osd;
use pg::{Pg, PgRecord};
use types::{EVersion, OsdId, OsdMap, PgId, UpActing};

use crate::{
    device_faults::Loss,
    osd_process::{End, OsdDisk},
    records,
    resting::{self, Copy, RestingOsd},
    world::{POOL, World},
};

/// What OSDs had in memory of their PGs, which their stores must have, too.
type Records = BTreeMap<(OsdId, PgId), PgRecord>;

/// Things held that a report names, at most.
const NAMED_MAX: usize = 12;

/// True for an OSD that is to have the PG.
fn is_member(map: &OsdMap, osd: OsdId, pgid: PgId) -> bool {
    let UpActing { up, acting, .. } = map.pg_to_up_acting(pgid);
    map.pg_exists(pgid) && (up.contains(&osd) || acting.contains(&osd))
}

/// What a shard's machine holds, or a PG of it that is not to be there.
fn held<'a>(osd: &'a Osd, map: &'a OsdMap) -> impl Iterator<Item = String> + 'a {
    let me = osd.whoami();
    let of_pg = move |pg: &'a Pg| {
        let what = move |(what, count)| format!("osd.{} {}: {count} {what}", me.0, pg.pgid());
        let is_stray = !is_member(map, me, pg.pgid());
        let stray = is_stray.then(|| format!("osd.{} has {}, of which it is no member", me.0, pg.pgid()));
        pg.held().map(what).chain(stray)
    };
    osd.held()
        .map(move |(what, count)| format!("osd.{}: {count} {what}", me.0))
        .chain(osd.pgs().flat_map(of_pg))
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

    /// What is held of requests and of work under way.
    fn held(&self) -> impl Iterator<Item = String> {
        let of_store = |(id, what, count): (OsdId, &str, usize)| {
            (count > 0).then(|| format!("osd.{}: {count} {what} of its store", id.0))
        };
        let map = self.osdmap();
        self.parts().flat_map(move |part| {
            let (osd, store) = (&part.machine.osd, &part.machine.store);
            let kinds = [("changes", store.uncommitted_count()), ("loads", store.held_loads())];
            let of_stores = kinds.map(|(what, count)| (osd.whoami(), what, count)).into_iter();
            of_stores.filter_map(of_store).chain(map.into_iter().flat_map(|map| held(osd, map)))
        })
    }

    /// Requests have ended and all PGs are clean: all that was held for them is given back, copies that are not needed
    /// go, and all changes become durable.
    fn come_to_rest(&mut self) -> Result<(), String> {
        let is_at_rest = |world: &World| world.held().next().is_none();
        let rested = self.until("everything to be given back", is_at_rest);
        rested.map_err(|why| format!("{why}; held: {:#?}", self.held().take(NAMED_MAX).collect::<Vec<_>>()))
    }

    fn records(&self) -> Records {
        let of_osd = |osd: &Osd| {
            let me = osd.whoami();
            osd.pgs().map(move |pg| ((me, pg.pgid()), pg.record())).collect::<Vec<_>>()
        };
        self.parts().flat_map(|part| of_osd(&part.machine.osd)).collect()
    }

    /// Cuts the power of all hosts, and compares what their disks have.
    pub(crate) fn compare_copies(&mut self) -> Result<(), String> {
        self.come_to_rest()?;
        let map = self.osdmap().ok_or("the monitor is down")?.clone();
        let records = self.records();
        let is_trimmed = records.values().any(|record| record.info.log_tail > EVersion::ZERO);
        self.saw(is_trimmed.then_some("a log was trimmed"));
        let osds = self.take_osds();
        let disks = osds.into_iter().map(|osd| osd.end(End::PowerCut));
        let mount = |own: OsdDisk| {
            let loss = usize::try_from(own.whoami.0).map_or(Loss::Nothing, |id| self.loss_of(id));
            RestingOsd::mount(own, loss)
        };
        let mut osds = disks.map(mount).collect::<Result<Vec<_>, _>>()?;
        for osd in osds.iter().filter(|osd| osd.is_there()) {
            check_collections(osd, &map, &records)?;
        }
        map.pgs().try_for_each(|pgid| compare(pgid, &mut osds, &map, &records))
    }
}

/// An OSD has the collections of its PGs, each in the store of its shard, and no others.
fn check_collections(osd: &RestingOsd, map: &OsdMap, records: &Records) -> Result<(), String> {
    let me = osd.whoami;
    let known = records.range((me, PgId::default())..).take_while(|((of, _), _)| *of == me);
    let known: BTreeSet<(usize, PgId)> =
        known.map(|((_, pgid), _)| (osd.shard_of(*pgid, map), *pgid)).collect();
    let found: BTreeSet<(usize, PgId)> = osd.pgs().collect();
    match known.symmetric_difference(&found).next() {
        Some((shard, pgid)) => Err(format!(
            "osd.{} has a collection of {pgid} in shard {shard}: {}; such a PG: {}",
            me.0,
            found.contains(&(*shard, *pgid)),
            known.contains(&(*shard, *pgid))
        )),
        None => Ok(()),
    }
}

/// The members of a PG have the same.
fn compare(pgid: PgId, osds: &mut [RestingOsd], map: &OsdMap, records: &Records) -> Result<(), String> {
    let UpActing { up, acting, .. } = map.pg_to_up_acting(pgid);
    let has_all = up.len() == usize::from(map.pools[&pgid.pool].size);
    if acting != up && has_all {
        return Err(format!("{pgid}: {acting:?} act for {up:?}, which have everything"));
    }
    let mut first: Option<(PgRecord, Vec<Copy>)> = None;
    for member in &acting {
        let osd = osds.iter_mut().find(|osd| osd.whoami == *member);
        let osd = osd.ok_or("an OSD of the acting set is down")?;
        if !osd.is_there() {
            continue;
        }
        let at = |why: String| format!("{pgid} on osd.{}: {why}", member.0);
        let (record, copies) = match osd.copy(pgid, map) {
            Ok(copy) => copy,
            Err(_) if osd.has_lost_index => continue,
            Err(why) => return Err(at(why)),
        };
        let memory = records.get(&(*member, pgid)).ok_or_else(|| at("there is no such PG".to_owned()))?;
        let objects = copies.iter().map(|copy| (&copy.object, copy.version)).collect();
        let wrong = records::not_kept(memory, &record);
        let wrong = wrong.or_else(|| records::left_over(&record).filter(|_| has_all));
        if let Some(why) = wrong.or_else(|| records::unlike_log(&record, &objects)) {
            return Err(at(why));
        }
        let Some((first_record, first_copies)) = &first else {
            first = Some((record, copies));
            continue;
        };
        let objects = resting::difference(first_copies, &copies);
        if let Some(what) = objects.or_else(|| records::difference(first_record, &record)) {
            return Err(format!("{pgid}: {what}"));
        }
    }
    Ok(())
}
