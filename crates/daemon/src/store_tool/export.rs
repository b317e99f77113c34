//! `loligo store export`: the copy of a PG, as a file that another OSD can take in.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    ops::Bound,
    path::Path,
};

use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use codec::Decode;
use osd::MapStore;
use pg::{
    LoadError, Pg,
    export::{CopyHead, MAGIC, Part, record_object},
};
use store::{ObjectStore, OmapMost, ReadError};
use types::{CollId, EVersion, Epoch, HObject, Mutation, OsdId, OsdMap, PgId, Transaction, TxnOp};

use super::{StoreTarget, inspection::Inspection};
use crate::{durable, private};

/// Omap entries of a transaction.
const PAIRS_MAX: OmapMost = OmapMost::of(1_000);
/// Bytes of data of a transaction: whole blocks.
const DATA_BYTES: u64 = 1 << 20;
const BLOCK_BYTES: u64 = codec::BLOCK_BYTES as u64;

/// Writes the copy of a PG to a new file. Objects that cannot be read are named, and are missing in the copy. What
/// damage of the store's index or journal hides cannot be named: with `despite_damage`, the copy is written without it.
///
/// # Errors
/// When the store has no copy of it, or its record or what objects there are cannot be read; when the index is damaged;
/// when the PG was being split or merged.
pub fn store_export(target: &StoreTarget, pg: &str, path: &Path, despite_damage: bool) -> Result<()> {
    let pgid = PgId::parse(pg).with_context(|| format!("{pg} is no PG: they are named as 1.a is"))?;
    let mut inspection = find(target, pgid)?;
    // It may be found on the way.
    inspection.go_on_without_what_is_damaged();
    check_damage(&inspection, despite_damage)?;
    if inspection.inspected.moved_between()?.contains(&CollId::pg(pgid)) {
        bail!("PG {pgid} was being split or merged when the OSD ended: no copy of it is whole");
    }
    let identity = inspection.inspected.superblock().identity;
    let osd = OsdId(i32::try_from(identity.osd).context("the store's OSD has no id that can be")?);
    let pg = inspection.ask(|store| match Pg::load(0, pgid, osd, store) {
        Err(LoadError::NotCached(missing)) => Err(missing),
        loaded => Ok(loaded),
    })?;
    let pg = pg.with_context(|| format!("the record of PG {pgid}"))?;
    let is_sound = inspection.inspected.problems().is_empty();
    let pg = pg.with_context(|| match is_sound {
        true => format!("the copy of PG {pgid} was being removed"),
        false => {
            format!("the record of PG {pgid} is not there: it was being removed, or is what was damaged")
        }
    })?;
    if inspection.inspected.hides_part_of(CollId::pg(pgid), &record_object()) {
        bail!(
            "a part of the record of PG {pgid} is in a page of the index that is damaged: no copy of it is safe"
        );
    }
    let head = head(&mut inspection, &pg)?;
    let file = private::new_file(path).with_context(|| path.display().to_string())?;
    let mut file = Export { file: BufWriter::new(file), parts: 0 };
    let outcome = write(&mut inspection, &pg, &head, &mut file);
    let outcome = outcome.and_then(|lost| check_damage(&inspection, despite_damage).map(|()| lost));
    let lost = outcome.inspect_err(|_| drop(fs::remove_file(path)))?;
    durable::sync_names(durable::folder_of(path))?;
    let bytes = fs::metadata(path)?.len();
    println!("{}: PG {pgid} of osd.{osd} at OSD map {}, {bytes} bytes", path.display(), pg.epoch());
    for problem in inspection.inspected.problems() {
        println!("some of it may be missing or old: {problem}");
    }
    for error in &lost {
        println!("missing in it: {error:#}");
    }
    Ok(())
}

/// Refuses what damage of the index or the journal may hide something of.
fn check_damage(inspection: &Inspection, despite_damage: bool) -> Result<()> {
    match inspection.damage() {
        Some(damage) if !despite_damage => bail!(
            "objects and changes may be missing in the copy, or old, without a sign of it: {damage}; \
             --despite-damage writes it all the same"
        ),
        Some(_) | None => Ok(()),
    }
}

/// Whose copy it is, and of when: as far as maps can be read that tell.
fn head(inspection: &mut Inspection, pg: &Pg) -> Result<CopyHead> {
    let fsid = inspection.inspected.superblock().identity.fsid;
    let maps = inspection.ask(|store| MapStore::load(store))?;
    let epochs = (pg.epoch().max(maps.oldest).0..=maps.newest.0).map(Epoch);
    let kept = epochs.map_while(|epoch| {
        let bytes = inspection.ask(|store| maps.full(store, epoch)).ok().flatten()?;
        OsdMap::from_bytes(bytes).ok()
    });
    Ok(pg.copy_head(fsid, kept))
}

/// Opens the store that has the copy, of those of an OSD with several reactors.
fn find(target: &StoreTarget, pgid: PgId) -> Result<Inspection> {
    let at = |index| Inspection::open(&StoreTarget { reactor: Some(index), ..target.clone() });
    let first = at(target.reactor.unwrap_or(0))?;
    let count = first.inspected.superblock().identity.shards;
    let others = (1..count).filter(|_| target.reactor.is_none()).map(at);
    for inspection in std::iter::once(Ok(first)).chain(others) {
        let inspection = inspection?;
        if inspection.inspected.store.collection_exists(CollId::pg(pgid)) {
            return Ok(inspection);
        }
    }
    bail!("the OSD has no copy of PG {pgid}")
}

/// The file, and how many parts it has.
struct Export {
    file: BufWriter<File>,
    parts: u64,
}

impl Export {
    fn part(&mut self, part: &Part) -> Result<()> {
        self.parts += 1;
        self.file.write_all(&part.to_bytes()).context("writing the file")
    }

    fn change(&mut self, coll: CollId, ops: Vec<TxnOp>) -> Result<()> {
        self.part(&Part::Change(Transaction { ops, ..Transaction::new(coll) }))
    }

    fn object(&mut self, coll: CollId, object: &HObject, change: Mutation) -> Result<()> {
        self.change(coll, vec![TxnOp::Object(object.clone(), change)])
    }
}

/// Writes all of it; tells what could not be read.
fn write(
    inspection: &mut Inspection,
    pg: &Pg,
    head: &CopyHead,
    out: &mut Export,
) -> Result<Vec<anyhow::Error>> {
    let (coll, record) = (CollId::pg(head.pgid), record_object());
    out.file.write_all(MAGIC).context("writing the file")?;
    out.part(&Part::Head(head.clone()))?;
    out.change(coll, vec![TxnOp::CreateCollection])?;
    let (mut lost, mut changes) = (Vec::new(), Vec::new());
    let mut names = inspection.objects_after(coll, None)?;
    while let Some(last) = names.last().cloned() {
        for object in names.iter().filter(|name| **name != record && !pg.puts_together(name)) {
            let error = match write_object(inspection, coll, object, out) {
                Err(error) if error.is::<ReadError>() => error,
                Err(error) => return Err(error),
                Ok(()) if inspection.inspected.hides_part_of(coll, object) => {
                    anyhow!("reading {object}: a part of it is in a page of the index that is damaged")
                }
                Ok(()) => continue,
            };
            out.object(coll, object, Mutation::Remove)?;
            changes.extend(pg.as_lacking(object, || version_of(inspection, coll, object))?);
            lost.push(error);
        }
        names = inspection.objects_after(coll, Some(&last))?;
    }
    let entries = inspection.ask(|store| store.omap_range(coll, &record, Bound::Unbounded, OmapMost::ALL))?;
    changes.insert(0, Mutation::OmapSet(entries.into_iter().collect()));
    out.change(coll, changes.into_iter().map(|change| TxnOp::Object(record.clone(), change)).collect())?;
    out.part(&Part::End(out.parts))?;
    out.file.flush().context("writing the file")?;
    out.file.get_ref().sync_all().context("writing the file")?;
    Ok(lost)
}

/// The version of an object that the copy lacks from now on: the others are asked for that.
fn version_of(inspection: &mut Inspection, coll: CollId, object: &HObject) -> Result<EVersion> {
    let version = inspection.ask(|store| pg::object_version(store, coll, object))?;
    if version == EVersion::ZERO {
        bail!("{object} cannot be read, nor of which version it is");
    }
    Ok(version)
}

fn write_object(inspection: &mut Inspection, coll: CollId, object: &HObject, out: &mut Export) -> Result<()> {
    let xattrs = inspection.ask(|store| store.xattrs(coll, object))?;
    let header = inspection.ask(|store| store.omap_header(coll, object))?;
    let mut changes = vec![Mutation::Touch, Mutation::SetXattrs(xattrs.into_iter().collect())];
    if !header.is_empty() {
        changes.push(Mutation::OmapSetHeader(header));
    }
    out.change(coll, changes.into_iter().map(|change| TxnOp::Object(object.clone(), change)).collect())?;
    let mut after: Option<Bytes> = None;
    loop {
        let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let entries = inspection.ask(|store| store.omap_range(coll, object, from, PAIRS_MAX))?;
        let Some((last, _)) = entries.last() else { break };
        after = Some(last.clone());
        out.object(coll, object, Mutation::OmapSet(entries.into_iter().collect()))?;
    }
    write_data(inspection, coll, object, out)
}

fn write_data(inspection: &mut Inspection, coll: CollId, object: &HObject, out: &mut Export) -> Result<()> {
    let size = inspection.ask(|store| store.meta(coll, object))?.unwrap_or_default().size;
    let extents = inspection.ask(|store| store.extents(coll, object, 0, size))?;
    // Whole blocks: the store that takes them has nothing to read for them.
    let mut done = 0;
    for (offset, len) in extents {
        let end = (offset + len).next_multiple_of(BLOCK_BYTES).min(size);
        let mut at = done.max(offset - offset % BLOCK_BYTES);
        while at < end {
            let bytes = DATA_BYTES.min(end - at);
            let data = inspection.ask(|store| store.read(coll, object, at, bytes))?;
            out.object(coll, object, Mutation::Write { offset: at, data: data.into() })?;
            at += bytes;
        }
        done = done.max(at);
    }
    if done < size {
        out.object(coll, object, Mutation::Truncate { size })?;
    }
    Ok(())
}
