//! `loligo store maps`: what an OSD that does not run knows of its cluster.

use std::path::Path;

use anyhow::{Context, Result, bail};
use mon::{OsdRecords, StoreRecords};
use osd::MapStore;
use store::{ObjectStore, StoreIdentity};
use types::{CollId, EntityName, EntityType, Epoch, OsdId};

use super::{StoreTarget, inspection::Inspection};
use crate::{ceph_conf::CephConf, osd_daemon::own_key, private};

/// Shows which OSD maps the stores of an OSD keep. With `export`, writes them to a new file with what else is needed
/// to rebuild a monitor's ledger.
pub fn store_maps(target: &StoreTarget, export: Option<&Path>) -> Result<()> {
    if target.reactor.is_some() {
        bail!("what an OSD knows is in the stores of all its reactors: leave out --reactor");
    }
    let (mut records, bounds) = read(target)?;
    let name = format!("osd.{}", records.osd);
    println!("{name} of cluster {}, {}", records.fsid, records.uuid);
    for (index, (store, maps)) in records.stores.iter().zip(bounds).enumerate() {
        let (oldest, newest) = (maps.oldest, maps.newest);
        println!("store of reactor {index}: OSD maps {oldest} to {newest}, {} PGs", store.pgs.len());
    }
    let Some(path) = export else { return Ok(()) };
    if path.symlink_metadata().is_ok() {
        bail!("{} exists, and may be what another OSD knows", path.display());
    }
    if let Some(id) = &target.id {
        let (who, conf) = (EntityName::new(EntityType::OSD, id), CephConf::read(&target.conf)?);
        records.key = own_key(&conf, Path::new(&conf.data(&who)), &who).ok();
    }
    private::write_secret(path, records.to_file())?;
    match records.key {
        Some(_) => println!("{} has its key, too: nobody else may read it", path.display()),
        None => {
            println!("no key of {name} was found: `loligo mon-rebuild` needs its keyring beside the file")
        }
    }
    Ok(())
}

/// What the stores of an OSD tell, but for its key.
pub(crate) fn read_records(target: &StoreTarget) -> Result<OsdRecords> {
    Ok(read(target)?.0)
}

fn read(target: &StoreTarget) -> Result<(OsdRecords, Vec<MapStore>)> {
    let (first, store, maps) = read_store(target, 0)?;
    let (mut stores, mut bounds) = (vec![store], vec![maps]);
    // All shards of an OSD learn of maps, each in its own time.
    for index in 1..first.shards {
        let (_, store, maps) = read_store(target, index)?;
        stores.push(store);
        bounds.push(maps);
    }
    let osd = OsdId(i32::try_from(first.osd).context("the store's OSD has no id that can be")?);
    Ok((OsdRecords { fsid: first.fsid, osd, uuid: first.store_uuid, key: None, stores }, bounds))
}

fn read_store(target: &StoreTarget, index: u16) -> Result<(StoreIdentity, StoreRecords, MapStore)> {
    let mut inspection = Inspection::open(&StoreTarget { reactor: Some(index), ..target.clone() })?;
    // The OSD may have known more, and its PGs taken writes that only it has. It would not start either.
    if let Some(damage) = inspection.damage() {
        bail!("what it knows may be old or not all: {damage}");
    }
    let identity = inspection.inspected.superblock().identity;
    let collections = inspection.inspected.store.collections();
    let mut records = StoreRecords::default();
    if !collections.contains(&CollId::META) {
        return Ok((identity, records, MapStore::default()));
    }
    let maps = inspection.ask(|store| MapStore::load(store))?;
    records.pgs = collections.into_iter().filter(|coll| *coll != CollId::META).map(|coll| coll.0).collect();
    if maps.newest > Epoch(0) {
        let mut full = |epoch| {
            let bytes = inspection.ask(|store| maps.full(store, epoch))?;
            bytes.with_context(|| format!("the store lacks OSD map {epoch}, which it says it has"))
        };
        (records.first, records.newest) = (full(maps.oldest)?, full(maps.newest)?);
    }
    for epoch in (maps.oldest.0 + 1..=maps.newest.0).map(Epoch) {
        let bytes = inspection.ask(|store| maps.incremental(store, epoch))?;
        records.incrementals.extend(bytes.map(|bytes| (epoch, bytes)));
    }
    Ok((identity, records, maps))
}
