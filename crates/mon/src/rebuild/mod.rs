//! A monitor's ledger made anew: of the maps that OSDs have, of keyrings, and of an older copy of the ledger.
//!
//! Invariant: no epoch of the OSD map that anybody may have seen is given to another map. The new ledger goes on behind
//! a gap: the newest map that was found comes again under an epoch that nobody can have seen, and in the next map all
//! OSDs are down. An OSD that is behind walks up to the newest map and jumps over the gap, behind which it finds the
//! same members. So its PGs learn of all intervals that are known of.
//!
//! Authority: `ceph-objectstore-tool --op update-mon-db` and `ceph-monstore-tool rebuild` do the same for Ceph.

mod history;
mod keys;
mod records;

use std::collections::{BTreeMap, BTreeSet};

use auth::Keyring;
use bytes::Bytes;
use codec::{Decode, DecodeError};
use thiserror::Error;
use types::{
    EntityAddrVec, EntityName, Epoch, Incremental, IntervalSet, KeyType, MonMap, OsdId, OsdMap, OsdState,
    PgId, PgPool, PoolId, SnapId, UTime, Uuid,
};

use crate::{
    LedgerContents, LedgerTxn, MkfsParams, Revision, ledger_keys,
    mkfs::{mkfs, put_whole_map},
    osdmap_service::{DownKind, take_down},
    state::{State, value},
};
use history::{Chain, History, identity};

pub use records::{OsdRecords, RecordsError, StoreRecords};

/// PGs named in one line.
const PGS_NAMED: usize = 20;

/// What a ledger is rebuilt from.
#[derive(Clone, Debug)]
pub struct RebuildParams {
    /// The cluster's id.
    pub fsid: Uuid,
    /// When.
    pub now: UTime,
    /// The monitor's name: `a` of `mon.a`.
    pub name: String,
    /// Its address; an older ledger knows it.
    pub addrs: EntityAddrVec,
    /// What OSDs know.
    pub osds: Vec<OsdRecords>,
    /// An older copy of the ledger.
    pub base: Option<LedgerContents>,
    /// Keys of users and daemons.
    pub keyring: Keyring,
    /// The type of keys of a cluster without an older ledger, as with [`mkfs`].
    pub key_type: KeyType,
    /// How many epochs, behind the newest that was found, may have been seen by OSDs that were not asked, and by
    /// clients.
    pub epoch_gap: u32,
    /// OSDs may be missing.
    pub allows_missing: bool,
    /// Seed of the keys that are made up.
    pub seed: [u8; 32],
}

/// A ledger that was rebuilt.
#[derive(Clone, Debug)]
pub struct Rebuilt {
    /// Its first transaction.
    pub txn: LedgerTxn,
    /// What an operator should know, line by line.
    pub said: Vec<String>,
}

/// Why none is rebuilt.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RebuildError {
    /// Something is of another cluster.
    #[error("{what} is of cluster {found}, not of {expected}")]
    OtherCluster {
        /// What.
        what: String,
        /// Its cluster.
        found: Uuid,
        /// The cluster of the new ledger.
        expected: Uuid,
    },
    /// No OSD has a map.
    #[error("none of these OSDs has an OSD map")]
    NoMaps,
    /// The newest map of a store cannot be read.
    #[error("the newest OSD map of {name} cannot be read: {error}")]
    BadMap {
        /// The OSD.
        name: String,
        /// What is wrong with it.
        error: DecodeError,
    },
    /// The older ledger cannot be read.
    #[error("the older ledger cannot be read: {0}")]
    BadBase(DecodeError),
    /// The older ledger is not of this monitor.
    #[error("the older ledger knows no mon.{0}")]
    OtherMonitor(String),
    /// OSDs were not asked that may know newer maps.
    #[error(
        "missing: {}, which may have newer maps and newer data: add them, or give up with --allow-missing what only \
         they know",
        list(osds)
    )]
    MissingOsds {
        /// Their ids.
        osds: Vec<OsdId>,
    },
    /// An entity would not be let in.
    #[error("the key of {name} is of type {kind}: it would not be let in")]
    KeyType {
        /// Whose key it is.
        name: EntityName,
        /// Its type.
        kind: KeyType,
    },
    /// What would be written could not be read.
    #[error("the new ledger could not be read: {0}")]
    Unreadable(DecodeError),
}

fn list(osds: &[OsdId]) -> String {
    osds.iter().map(|osd| format!("osd.{osd}")).collect::<Vec<_>>().join(", ")
}

/// Makes the first transaction of a new ledger.
pub fn rebuild(params: &RebuildParams) -> Result<Rebuilt, RebuildError> {
    check_cluster(params.fsid, params.osds.iter().map(|osd| (format!("osd.{}", osd.osd), osd.fsid)))?;
    let base = params.base.as_ref().map(|base| read_base(params, base)).transpose()?;
    let chains = chains(params, base.as_ref())?;
    check_cluster(
        params.fsid,
        chains.iter().map(|chain| (format!("a map of {}", chain.name), chain.newest.fsid)),
    )?;
    let found = chains.iter().max_by_key(|chain| (chain.newest.epoch, chain.newest.modified));
    let found = found.ok_or(RebuildError::NoMaps)?;
    let newest = &found.newest;
    let missing = missing(newest, &params.osds);
    if !missing.is_empty() && !params.allows_missing {
        return Err(RebuildError::MissingOsds { osds: missing });
    }
    let mut entries = beginning(params);
    let history = History::gather(newest, &chains);
    let last = put_maps(params, newest, &history, !missing.is_empty(), &mut entries);
    put_removed_snaps(newest, &mut entries);
    put_monmap(params, &mut entries);
    keys::skip_global_ids(&mut entries, newest, params.now);
    let mut said = vec![format!(
        "OSD maps: epochs {} to {} as {} has the newest; the ledger goes on with epoch {last}, all OSDs down",
        history.first.epoch, newest.epoch, found.name
    )];
    said.extend(say_forks(newest, &chains));
    if !missing.is_empty() {
        said.push(format!(
            "missing: {}; maps that only they have, and what was changed in them, are given up",
            list(&missing)
        ));
    }
    said.extend(say_absent_pgs(newest, params)?);
    let (taken, of_keys) = keys::import(&mut entries, newest, &params.osds, &params.keyring);
    said.extend(of_keys);
    said.extend(say_lost(base.as_ref(), &taken));
    let contents = LedgerContents { revision: Revision(1), entries };
    let state = State::load(&contents).map_err(RebuildError::Unreadable)?;
    if let Some((name, kind)) = taken.into_iter().find(|(_, kind)| !state.monmap.allows_key_type(*kind)) {
        return Err(RebuildError::KeyType { name, kind });
    }
    let ops = contents.entries.into_iter().map(|(key, bytes)| (key, Some(bytes))).collect();
    Ok(Rebuilt { txn: LedgerTxn { expected: Revision(0), ops }, said })
}

fn check_cluster(expected: Uuid, all: impl Iterator<Item = (String, Uuid)>) -> Result<(), RebuildError> {
    for (what, found) in all {
        if found != expected {
            return Err(RebuildError::OtherCluster { what, found, expected });
        }
    }
    Ok(())
}

fn read_base(params: &RebuildParams, base: &LedgerContents) -> Result<State, RebuildError> {
    let state = State::load(base).map_err(RebuildError::BadBase)?;
    check_cluster(params.fsid, [("the older ledger".to_owned(), state.monmap.fsid)].into_iter())?;
    if state.monmap.rank_of(&params.name).is_none() {
        return Err(RebuildError::OtherMonitor(params.name.clone()));
    }
    Ok(state)
}

/// All maps that are there, by where they are.
fn chains(params: &RebuildParams, base: Option<&State>) -> Result<Vec<Chain>, RebuildError> {
    let mut chains = Vec::new();
    for records in &params.osds {
        for store in &records.stores {
            chains.extend(Chain::of_store(&format!("osd.{}", records.osd), store)?);
        }
    }
    if chains.is_empty() {
        return Err(RebuildError::NoMaps);
    }
    chains.extend(base.map(Chain::of_base));
    Ok(chains)
}

/// OSDs of the map that have a store which is not among the records.
fn missing(map: &OsdMap, osds: &[OsdRecords]) -> Vec<OsdId> {
    let here: BTreeSet<OsdId> = osds
        .iter()
        .filter(|records| keys::uuid_of(map, records) == Some(records.uuid))
        .map(|records| records.osd)
        .collect();
    map.osds().filter(|osd| has_store(map, *osd) && !here.contains(osd)).collect()
}

/// True for an OSD that has been up, and whose store was not given up since.
fn has_store(map: &OsdMap, osd: OsdId) -> bool {
    map.osd_uuid[osd.0 as usize] != Uuid::NIL && !map.state(osd).has(OsdState::DESTROYED)
}

/// What does not follow from the OSDs' maps: that of the older ledger, or of a new cluster.
fn beginning(params: &RebuildParams) -> BTreeMap<String, Bytes> {
    let mut entries = match &params.base {
        Some(base) => base.entries.clone(),
        None => {
            let new = mkfs(&MkfsParams {
                fsid: params.fsid,
                now: params.now,
                mons: [(params.name.clone(), params.addrs.clone())].into(),
                keys: BTreeMap::new(),
                chooseleaf_type: 1,
                key_type: params.key_type,
                seed: params.seed,
            });
            new.ops.into_iter().filter_map(|(key, bytes)| Some((key, bytes?))).collect()
        }
    };
    // Which PGs were still to be made, the older ledger knows no more: one that has taken writes since must not be made
    // anew.
    let gone = [ledger_keys::OSDMAP_FULL, ledger_keys::OSDMAP_INC, ledger_keys::CREATING];
    entries.retain(|key, _| !gone.contains(&key.split_once('/').map_or(key.as_str(), |(folder, _)| folder)));
    entries
}

/// Writes the history, and behind the gap the newest map once more and one in which all OSDs are down. Returns the
/// epoch of the last.
fn put_maps(
    params: &RebuildParams,
    newest: &OsdMap,
    history: &History,
    is_some_missing: bool,
    entries: &mut BTreeMap<String, Bytes>,
) -> Epoch {
    let mut ops = BTreeMap::new();
    ops.insert(ledger_keys::osdmap_full(history.first.epoch), Some(history.first.to_bytes_and_crc().0));
    let incrementals = history.incrementals.iter();
    ops.extend(incrementals.map(|(epoch, bytes)| (ledger_keys::osdmap_inc(*epoch), Some(bytes.clone()))));
    let mut map = newest.clone();
    map.epoch = Epoch(newest.epoch.0.saturating_add(params.epoch_gap).saturating_add(1));
    map.modified = params.now;
    map.new_removed_snaps.clear();
    map.new_purged_snaps.clear();
    if is_some_missing {
        skip_ids(&mut map, params.epoch_gap);
    }
    put_whole_map(&map, &mut ops);
    let mut inc = Incremental::new(params.fsid, Epoch(map.epoch.0.saturating_add(1)));
    inc.modified = params.now;
    for osd in map.osds().filter(|osd| map.is_up(*osd)) {
        take_down(&map, &mut inc, osd, DownKind::Silent);
        inc.new_last_up_change = params.now;
    }
    let last = inc.epoch;
    // An epoch at the end of numbers, whose ledger is refused in the end.
    if map.apply(&inc).is_ok() {
        inc.full_crc = identity(&map).1;
        ops.insert(ledger_keys::osdmap_inc(last), value(&inc));
    }
    entries.extend(ops.into_iter().filter_map(|(key, bytes)| Some((key, bytes?))));
    last
}

/// Skips numbers of pools and snapshots that may have been given out in maps that were lost, each in one of its own: an
/// OSD that comes back may have objects of theirs.
fn skip_ids(map: &mut OsdMap, epochs: u32) {
    map.pool_max = map.pool_max.saturating_add_unsigned(epochs);
    let epoch = map.epoch;
    for pool in map.pools.values_mut().filter(|pool| pool.snap_seq > SnapId(0)) {
        pool.snap_seq = SnapId(pool.snap_seq.0.saturating_add(epochs.into()));
        (pool.snap_epoch, pool.last_change) = (epoch, epoch);
    }
}

/// Writes which snapshots were removed, as far as it is known.
fn put_removed_snaps(newest: &OsdMap, entries: &mut BTreeMap<String, Bytes>) {
    for (pool, queue) in &newest.removed_snaps_queue {
        let key = ledger_keys::removed_snaps(*pool);
        let known = entries.get(&key).and_then(|bytes| IntervalSet::from_prefix(bytes.clone()).ok());
        let mut all = known.unwrap_or_default();
        all.union_with(queue);
        entries.extend(value(&all).map(|bytes| (key, bytes)));
    }
}

/// Gives the monitor map an epoch that was not used.
fn put_monmap(params: &RebuildParams, entries: &mut BTreeMap<String, Bytes>) {
    let known = entries.get(ledger_keys::MONMAP).and_then(|bytes| MonMap::from_prefix(bytes.clone()).ok());
    let Some(mut monmap) = known else { return };
    monmap.epoch = Epoch(monmap.epoch.0.saturating_add(params.epoch_gap).saturating_add(1));
    monmap.last_changed = params.now;
    entries.extend(value(&monmap).map(|bytes| (ledger_keys::MONMAP.to_owned(), bytes)));
}

/// OSDs that hold another map for the newest epoch.
fn say_forks(newest: &OsdMap, chains: &[Chain]) -> Vec<String> {
    let wanted = identity(newest);
    let others =
        chains.iter().filter(|chain| chain.newest.epoch == wanted.0 && identity(&chain.newest) != wanted);
    let say = |chain: &Chain| {
        let (name, epoch) = (&chain.name, wanted.0);
        format!("{name} has another map of epoch {epoch}, made before the one that is taken: it is given up")
    };
    others.map(say).collect()
}

/// PGs of which there is no copy.
fn say_absent_pgs(newest: &OsdMap, params: &RebuildParams) -> Result<Option<String>, RebuildError> {
    let mut absent: BTreeSet<PgId> = newest.pgs().collect();
    for store in params.osds.iter().flat_map(|records| &records.stores) {
        let Some(map) = Chain::of_store("", store)?.map(|chain| chain.newest) else { continue };
        // A store that is behind has PGs that are split when it learns of that.
        let pg_nums: BTreeMap<PoolId, u32> = map.pools.iter().map(|(id, pool)| (*id, pool.pg_num)).collect();
        absent.retain(|pg| {
            let pg_num = pg_nums.get(&pg.pool);
            !pg_num.is_some_and(|pg_num| store.pgs.contains(&PgPool::ancestor_of(*pg, *pg_num)))
        });
    }
    if absent.is_empty() {
        return Ok(None);
    }
    let named: Vec<String> = absent.iter().take(PGS_NAMED).map(ToString::to_string).collect();
    let more = if absent.len() > PGS_NAMED {
        format!(" and {} more", absent.len() - PGS_NAMED)
    } else {
        String::new()
    };
    Ok(Some(format!(
        "no store here has a copy of PG {}{more}: if they never were made, or are lost for good, `ceph osd \
         force-create-pg` makes them, empty",
        named.join(", ")
    )))
}

/// What is not as it was.
fn say_lost(base: Option<&State>, taken: &BTreeMap<EntityName, KeyType>) -> Vec<String> {
    if let Some(base) = base {
        return vec![format!(
            "users, options, configuration keys, muted health checks, manager modules and the cluster log are those of \
             the older ledger, whose newest OSD map is of epoch {}: what was changed since is lost, and who was removed \
             since is let in again",
            base.osdmap.epoch
        )];
    }
    let names: Vec<String> = taken.keys().map(ToString::to_string).collect();
    vec![
        format!("users: {}; keys of others, and bootstrap keys, have to be made anew", names.join(", ")),
        "lost without an older ledger: options (`ceph config`), configuration keys (`ceph config-key`, with reports of \
         crashes), pending keys, muted health checks, enabled manager modules, and the cluster log"
            .to_owned(),
    ]
}
