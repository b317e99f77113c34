//! `loligo store import`: the copy of a PG that `loligo store export` wrote becomes an OSD's.

use std::{
    fs::File,
    io::{BufReader, Read},
    path::Path,
};

use anyhow::{Context, Result, bail, ensure};
use codec::Decode;
use osd::{MapStore, Shard};
use pg::export::{CopyHead, MAGIC, PART_HEAD_BYTES, Part, PartHead};
use reactor::Reactor;
use store::{ObjectStore, StoreIdentity};
use types::{CollId, OsdMap, Token, Transaction};

use super::{StoreTarget, inspection::Inspection, store_runner::StoreRunner};

/// Transactions under way.
const DEPTH: usize = 16;
/// What a part needs beside its bytes: a small object's block of data, and its entry in the index.
const PART_BYTES: u64 = 5 << 10;
/// Free space that stays, beside twice what the file has.
const FREE_BYTES: u64 = 64 << 20;

/// Takes the copy of a PG into the store of an OSD that has none of it. The OSD tells the PG's primary of it when it
/// starts. With `despite_gap`, also where it would not know which OSDs have led the PG since.
///
/// # Errors
/// When the file is damaged, or the copy is none that the OSD could make sense of.
pub fn store_import(target: &StoreTarget, path: &Path, despite_gap: bool) -> Result<()> {
    if target.reactor.is_some() {
        bail!("which store has a PG is known: leave out --reactor");
    }
    let name = || path.display().to_string();
    let mut copy = Copy::open(path).with_context(name)?;
    let head = copy.head.clone();
    let place = place(target, &head, despite_gap)?;
    // All of it is looked at before anything changes.
    let mut parts = Copy::open(path).with_context(name)?;
    while parts.next().with_context(name)?.is_some() {}
    let target = StoreTarget { reactor: Some(place), ..target.clone() };
    let mut reactor = Reactor::new(reactor::Config::default())?;
    let (_, device) = target.open(&mut reactor)?;
    let config = device.store_config();
    let mut runner = StoreRunner::mount(reactor, device, config)?;
    let needed = 2 * copy.bytes + parts.parts * PART_BYTES + FREE_BYTES;
    let free = runner.store.usage().available_bytes;
    ensure!(free >= needed, "{needed} bytes must be free for it, {free} are");
    while let Some(txn) = copy.next().with_context(name)? {
        runner.store.submit(Token(0), txn);
        while runner.store.uncommitted_count() >= DEPTH {
            runner.turn()?;
        }
    }
    runner.settle()?;
    runner.unmount()?;
    println!("PG {} of osd.{} at OSD map {} is in the store", head.pgid, head.osd, head.epoch);
    Ok(())
}

/// Which of the OSD's stores is to have the copy.
fn place(target: &StoreTarget, head: &CopyHead, despite_gap: bool) -> Result<u16> {
    let (identity, first) = newest_map(target, 0, head, despite_gap)?;
    let pgid = head.pgid;
    let pool = first.pools.get(&pgid.pool);
    let pool = pool.with_context(|| format!("there is no pool {} any more", pgid.pool.0))?;
    ensure!(
        pool.pg_num == head.pg_num,
        "pool {} has {} PGs now, and had {}: only an OSD with older maps could take it",
        pgid.pool.0,
        pool.pg_num,
        head.pg_num
    );
    let place = Shard { index: 0, count: identity.shards }.owner(pgid, &first);
    if place != 0 {
        newest_map(target, place, head, despite_gap)?;
    }
    Ok(place)
}

/// The OSD is to know which others have led the PG since the copy was in its last interval: they may have taken writes.
fn check_maps(maps: MapStore, head: &CopyHead, despite_gap: bool) -> Result<()> {
    ensure!(
        maps.newest >= head.epoch,
        "it is of OSD map {}, the OSD's newest is {}: start the OSD until it has newer ones",
        head.epoch,
        maps.newest
    );
    ensure!(
        maps.oldest <= head.known_until() || despite_gap,
        "its OSD knows who led the PG up to OSD map {}, this one since {}, and the PG could lose what was written \
         between: take an OSD that has older maps (`loligo store maps` shows them), one that was up then; \
         --despite-gap imports it all the same",
        head.known_until(),
        maps.oldest
    );
    Ok(())
}

/// The newest OSD map of one of its stores, in which the copy is not.
fn newest_map(
    target: &StoreTarget,
    index: u16,
    head: &CopyHead,
    despite_gap: bool,
) -> Result<(StoreIdentity, OsdMap)> {
    let mut inspection = Inspection::open(&StoreTarget { reactor: Some(index), ..target.clone() })?;
    let identity = inspection.inspected.superblock().identity;
    ensure!(identity.fsid == head.fsid, "it is of cluster {}, the store of {}", head.fsid, identity.fsid);
    let store = &inspection.inspected.store;
    ensure!(!store.collection_exists(CollId::pg(head.pgid)), "the OSD has a copy of PG {}", head.pgid);
    ensure!(store.collection_exists(CollId::META), "the OSD knows no OSD map yet: start it once");
    let maps = inspection.ask(|store| MapStore::load(store))?;
    check_maps(maps, head, despite_gap)?;
    let bytes = inspection.ask(|store| maps.full(store, maps.newest))?;
    let bytes = bytes.with_context(|| format!("the store lacks OSD map {}", maps.newest))?;
    Ok((identity, OsdMap::from_bytes(bytes).context("the store's newest OSD map")?))
}

/// The file.
struct Copy {
    file: BufReader<File>,
    bytes: u64,
    head: CopyHead,
    /// Parts that were read.
    parts: u64,
}

impl Copy {
    fn open(path: &Path) -> Result<Copy> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        let mut file = BufReader::new(file);
        let mut magic = [0; MAGIC.len()];
        file.read_exact(&mut magic)?;
        ensure!(magic == *MAGIC, "it is no file that `loligo store export` wrote");
        match read_part(&mut file)? {
            Part::Head(head) => Ok(Copy { file, bytes, head, parts: 1 }),
            Part::Change(_) | Part::End(_) => bail!("it does not say whose copy it is"),
        }
    }

    /// The next transaction.
    fn next(&mut self) -> Result<Option<Transaction>> {
        let part = read_part(&mut self.file)?;
        match part {
            Part::Change(txn) => {
                ensure!(txn.coll == CollId::pg(self.head.pgid), "it changes another PG");
                self.parts += 1;
                Ok(Some(txn))
            }
            Part::End(parts) => {
                ensure!(parts == self.parts, "it has {} parts of {parts}", self.parts);
                Ok(None)
            }
            Part::Head(_) => bail!("it is of two copies"),
        }
    }
}

fn read_part(file: &mut impl Read) -> Result<Part> {
    let mut head = [0; PART_HEAD_BYTES];
    file.read_exact(&mut head).context("it ends too early")?;
    let head = PartHead::read(head)?;
    let mut body = Vec::new();
    file.take(head.body_bytes() as u64).read_to_end(&mut body)?;
    ensure!(body.len() == head.body_bytes(), "it ends too early");
    Ok(head.part(body.into())?)
}

#[cfg(test)]
mod tests {
    use types::{Epoch, OsdId, PgId, PoolId, Uuid};

    use super::*;

    #[test]
    fn an_osd_takes_no_copy_whose_later_intervals_it_does_not_know() {
        let (pgid, osd) = (PgId::new(PoolId(1), 0), OsdId(7));
        let head = |epoch, until| {
            let (epoch, until) = (Epoch(epoch), Epoch(until));
            CopyHead { fsid: Uuid::NIL, osd, pgid, epoch, pg_num: 8, until }
        };
        let outcome = |oldest, newest, head: &CopyHead, despite_gap| {
            let maps = MapStore { oldest: Epoch(oldest), newest: Epoch(newest), born: Epoch(0) };
            check_maps(maps, head, despite_gap).map_err(|error| error.to_string())
        };
        // It was in its interval up to map 30.
        let idle = head(10, 30);
        assert_eq!([outcome(5, 40, &idle, false), outcome(30, 40, &idle, false)], [Ok(()), Ok(())]);
        let refused = outcome(31, 40, &idle, false).unwrap_err();
        assert!(refused.contains("up to OSD map 30, this one since 31"), "{refused}");
        assert_eq!(outcome(31, 40, &idle, true), Ok(()));
        // A file of an older version does not say.
        let old = head(10, 0);
        assert_eq!((outcome(10, 40, &old, false), outcome(11, 40, &old, false).is_err()), (Ok(()), true));
        assert!(outcome(1, 9, &old, true).unwrap_err().contains("the OSD's newest is 9"));
    }
}
