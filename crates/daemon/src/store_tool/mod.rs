//! An operator's commands on the store of an OSD that does not run.

mod bench;
mod dump;
mod export;
mod import;
mod inspection;
mod maps;
mod measure;
mod objects;
mod store_runner;

use std::{fmt::Write, path::PathBuf};

use anyhow::{Result, bail};
use reactor::Reactor;
use serde_json::{Value, json};
use store::{Config, DeviceRole, Fsck, FsckReport, Inspected};
use types::{EntityName, EntityType, pretty_json};

use crate::{
    ceph_conf::CephConf,
    device::{Access, Device},
    device_paths::{DevicePaths, NamedDevices},
    store_owner,
};

pub use bench::{StoreBenchOptions, store_bench};
pub use dump::{DumpOptions, store_dump};
pub use export::store_export;
pub use import::store_import;
pub(crate) use maps::read_records;
pub use maps::store_maps;
pub use objects::{ObjectsOptions, store_objects};

/// Which store.
#[derive(Clone)]
pub struct StoreTarget {
    /// The OSD's id, to find its device in ceph.conf.
    pub id: Option<String>,
    /// ceph.conf.
    pub conf: PathBuf,
    /// Which of the stores on it, by the number of its reactor; the first, or all of them, without it.
    pub reactor: Option<u16>,
    /// The device itself, with its journal and index devices, if it has them.
    pub devices: NamedDevices,
}

impl StoreTarget {
    /// Opens and locks the device: an OSD that runs has it locked. The wanted store's share of it.
    fn open(&self, reactor: &mut Reactor) -> Result<(PathBuf, Device)> {
        let (path, stores) = self.open_all(reactor)?;
        match stores.into_iter().next() {
            Some((_, device)) => Ok((path, device)),
            None => bail!("{} has no store of that number", path.display()),
        }
    }

    /// The shares of the wanted stores, by number.
    fn open_all(&self, reactor: &mut Reactor) -> Result<(PathBuf, Vec<(u16, Device)>)> {
        let (paths, owner) = match (&self.devices.main, &self.id) {
            (Some(main), _) => {
                let NamedDevices { journal, index, .. } = self.devices.clone();
                (DevicePaths { main: main.clone(), journal, index }, None)
            }
            (None, Some(id)) => {
                let (who, conf) = (EntityName::new(EntityType::OSD, id), CephConf::read(&self.conf)?);
                (DevicePaths::read(&conf, &who), Some((who, conf)))
            }
            (None, None) => bail!("name the OSD with --id or its device with --device"),
        };
        let mut device = Device::open(reactor, &paths, Access::Offline)?;
        // Without a label there is one store at most, and opening it tells what is wrong.
        let label = device.label(reactor).ok();
        if let (Some(label), Some((who, conf))) = (&label, &owner) {
            store_owner::check(&label.identity, conf, who, &paths.main)?;
        }
        let label = label.filter(|label| label.identity.shards > 1);
        let count = label.map_or(1, |label| label.identity.shards);
        let regions = label.map_or(device.sizes(), |label| label.regions);
        let wanted = (0..count).filter(|index| self.reactor.is_none_or(|wanted| wanted == *index));
        Ok((paths.main, wanted.map(|index| (index, device.shares(index, count, &regions))).collect()))
    }
}

/// Checks a store and prints what it found; an error if something is wrong.
pub fn store_fsck(target: &StoreTarget, is_deep: bool, is_json: bool) -> Result<()> {
    let mut reactor = Reactor::new(reactor::Config::default())?;
    let (path, mut stores) = target.open_all(&mut reactor)?;
    let is_one = stores.len() == 1;
    let (mut problems, mut documents) = (0, Vec::new());
    for (index, device) in &mut stores {
        // Nothing of the index is looked at twice.
        let config = Config { index_bytes_max: 0, ..device.store_config() };
        let mut fsck = Fsck::new(device.sizes(), config, is_deep);
        let report = device.drive(
            &mut reactor,
            &mut fsck,
            Fsck::take_commands,
            Fsck::device_done,
            Fsck::take,
            &|| Ok(()),
        )?;
        problems += report.problems.len();
        documents.push(fsck_json(&report));
        if !is_json {
            print!("{}", if !is_one { format!("store of reactor {index}\n") } else { String::new() });
            print!("{}", fsck_text(&report));
        }
    }
    if is_json {
        let document = if documents.len() == 1 { documents.remove(0) } else { documents.into() };
        println!("{}", pretty_json(&document));
    }
    match problems {
        0 => Ok(()),
        1 => bail!("{}: 1 problem", path.display()),
        count => bail!("{}: {count} problems", path.display()),
    }
}

fn fsck_text(report: &FsckReport) -> String {
    let counts = &report.counts;
    let mut out = String::new();
    let lines = [
        ("collections", counts.collections),
        ("objects", counts.objects),
        ("object bytes", counts.object_bytes),
        ("bytes in place", counts.mapped_bytes),
        ("bytes pending", counts.pending_bytes),
        ("extents", counts.extents),
        ("omap entries", counts.omap_entries),
        ("xattrs", counts.xattrs),
        ("index pages", counts.pages),
        ("journal records", counts.records),
        ("bytes free", counts.free_bytes),
        ("blocks verified", counts.verified_blocks),
    ];
    for (name, value) in lines {
        // Writing to a string does not fail.
        let _ = writeln!(out, "{name:<16} {value}");
    }
    report.notes.iter().for_each(|note| out.push_str(&format!("note: {note}\n")));
    report.problems.iter().for_each(|problem| out.push_str(&format!("problem: {problem}\n")));
    if report.problems.is_empty() {
        out.push_str("no problems\n");
    }
    out
}

fn fsck_json(report: &FsckReport) -> Value {
    let counts = &report.counts;
    let texts: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    json!({
        "is_sound": texts.is_empty(),
        "problems": texts,
        "notes": report.notes,
        "collections": counts.collections,
        "objects": counts.objects,
        "object_bytes": counts.object_bytes,
        "mapped_bytes": counts.mapped_bytes,
        "pending_bytes": counts.pending_bytes,
        "extents": counts.extents,
        "omap_entries": counts.omap_entries,
        "xattrs": counts.xattrs,
        "index_pages": counts.pages,
        "journal_records": counts.records,
        "free_bytes": counts.free_bytes,
        "verified_blocks": counts.verified_blocks,
    })
}

/// The store's identity, for people and programs.
fn identity_json(inspected: &Inspected) -> Value {
    let superblock = inspected.superblock();
    let range = |(offset, bytes): (u64, u64)| {
        let (role, offset) = DeviceRole::of(offset);
        json!({"device": role.to_string(), "offset": offset, "bytes": bytes})
    };
    json!({
        "store_uuid": superblock.identity.store_uuid.to_string(),
        "fsid": superblock.identity.fsid.to_string(),
        "osd": superblock.identity.osd,
        "reactor": superblock.identity.shard,
        "reactors": superblock.identity.shards,
        "sequence": superblock.sequence,
        "valid_copies": inspected.valid_copies(),
        "device_bytes": superblock.device_bytes,
        "journal": range(superblock.journal),
        "data_area": range(superblock.area),
        "index_area": superblock.index_area.map(range),
        "epoch": superblock.epoch,
        "next_record_offset": DeviceRole::of(superblock.next_record.0).1,
        "next_record_sequence": superblock.next_record.1,
        "last_transaction": superblock.last_txn,
        "is_clean": superblock.is_clean,
    })
}
