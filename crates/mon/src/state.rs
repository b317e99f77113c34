//! All that a monitor knows for certain: what the ledger holds, decoded. State changes in one way only, by
//! applying keys and values, be it at boot or after a commit, so a restart comes to the same state.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use auth::{CryptoKey, EntityAuth, RotatingSecrets};
use bytes::Bytes;
use codec::{Codec, Decode, DecodeError, Encode, Features};
use messages::LogEntry;
use types::{
    CrushBlob, EntityName, EntityType, Epoch, Incremental, IntervalSet, KeyType, MonMap, OsdId, OsdMap,
    PoolId, UTime, Uuid,
};

use crate::{
    LedgerContents,
    config_service::{kept_key, split_key},
    epoch_map::EpochMap,
    health::Mute,
    ledger_keys,
    manager::crash::{self, Crash, Crashes},
    osdmap_service::PG_NUM_MAX,
};

/// Epochs, ids of pools and other counters are below these, so that none that counts on from there overflows.
/// The manager map's epoch is a time in seconds.
const EPOCH_END: u64 = (1 << 32) - (1 << 24);
const POOL_END: u64 = 1 << 30;
const COUNTER_END: u64 = 1 << 62;

/// PGs of a pool that no OSD has reported active.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 2, compat = 1)]
pub(crate) struct Creating {
    /// The epoch in which their pool came to be.
    pub(crate) epoch: Epoch,
    /// Their numbers in the pool.
    pub(crate) seeds: BTreeSet<u32>,
    /// Those of them that an operator has had made anew, and the epoch of that.
    #[codec(since = 2)]
    pub(crate) forced: BTreeMap<u32, Epoch>,
}

impl Creating {
    /// The epoch in which this PG was made: what was before does not belong to the PG that is being made.
    pub(crate) fn created(&self, seed: u32) -> Epoch {
        self.forced.get(&seed).copied().unwrap_or(self.epoch)
    }
}

/// Options by section and mask (`global`, `client.admin`, `osd/host:a`), then by name.
pub(crate) type Config = BTreeMap<String, BTreeMap<String, String>>;

/// The decoded ledger. Clones share what they can.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) monmap: Arc<MonMap>,
    pub(crate) osdmap: Arc<OsdMap>,
    /// Encoded incrementals by the epoch that they lead to, up to the map's epoch. A ledger that was rebuilt may have a
    /// gap among them, behind which the next one carries a whole map.
    pub(crate) incrementals: EpochMap,
    /// Epochs of the full maps in the ledger.
    pub(crate) fulls: Arc<BTreeMap<Epoch, Bytes>>,
    pub(crate) entities: Arc<BTreeMap<EntityName, EntityAuth>>,
    /// Second keys, which become the first ones as soon as they are used.
    pub(crate) pending_keys: Arc<BTreeMap<EntityName, CryptoKey>>,
    /// Rotating secrets by service.
    pub(crate) rotating: Arc<BTreeMap<EntityType, RotatingSecrets>>,
    /// Global ids below this may have been given out.
    pub(crate) global_id_limit: u64,
    pub(crate) config: Arc<Config>,
    /// Configuration keys; the configuration database is among them, as `config/WHO/NAME`.
    pub(crate) config_keys: Arc<BTreeMap<String, Bytes>>,
    /// What the reports of crashes among the configuration keys say.
    pub(crate) crashes: Arc<Crashes>,
    pub(crate) log: Arc<VecDeque<LogEntry>>,
    pub(crate) osd_metadata: Arc<BTreeMap<OsdId, BTreeMap<String, String>>>,
    pub(crate) creating: Arc<BTreeMap<PoolId, Creating>>,
    /// Snapshots ever removed, by pool.
    pub(crate) removed_snaps: Arc<BTreeMap<PoolId, IntervalSet>>,
    /// Health codes that are muted.
    pub(crate) mutes: Arc<BTreeMap<String, Mute>>,
    /// Modules of the manager that are enabled, besides those that always are.
    pub(crate) mgr_modules: Arc<BTreeSet<String>>,
    /// The manager map's epoch.
    pub(crate) mgr_epoch: Epoch,
}

impl Default for State {
    fn default() -> Self {
        State {
            monmap: Arc::default(),
            osdmap: Arc::new(OsdMap::new(Uuid::NIL, UTime::default(), CrushBlob::default())),
            incrementals: EpochMap::default(),
            fulls: Arc::default(),
            entities: Arc::default(),
            pending_keys: Arc::default(),
            rotating: Arc::default(),
            global_id_limit: 0,
            config: Arc::default(),
            config_keys: Arc::default(),
            crashes: Arc::default(),
            log: Arc::default(),
            osd_metadata: Arc::default(),
            creating: Arc::default(),
            removed_snaps: Arc::default(),
            mutes: Arc::default(),
            // As in a new cluster of Ceph.
            mgr_modules: Arc::new(["iostat".to_owned()].into()),
            mgr_epoch: Epoch(0),
        }
    }
}

fn set<K: Ord + Clone, V: Clone>(map: &mut Arc<BTreeMap<K, V>>, key: K, value: Option<V>) {
    let map = Arc::make_mut(map);
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}

fn decode<T: Decode>(value: Option<&Bytes>) -> Result<Option<T>, DecodeError> {
    value.map(|v| T::from_prefix(v.clone())).transpose()
}

fn bad_key(key: &str) -> DecodeError {
    DecodeError::Invalid { what: "ledger key", value: key.len() as u64 }
}

fn bad_map(epoch: Epoch) -> DecodeError {
    DecodeError::Invalid { what: "OSD map in the ledger", value: epoch.0.into() }
}

impl State {
    /// The state that `contents` describes.
    pub(crate) fn load(contents: &LedgerContents) -> Result<State, DecodeError> {
        let mut state = State::default();
        // Keys are in order: full maps come before the incrementals that lead on from them.
        for (key, value) in &contents.entries {
            state.apply(key, Some(value)).inspect_err(|error| {
                tracing::error!(key, %error, "an entry of the ledger cannot be read");
            })?;
        }
        state.check().inspect_err(|error| tracing::error!(%error, "the ledger makes no sense"))?;
        Ok(state)
    }

    /// An error if a value is none that a monitor would write, though it decodes: a number from which nothing counts
    /// on, or more PGs than there may be.
    fn check(&self) -> Result<(), DecodeError> {
        let (map, monmap) = (&self.osdmap, &self.monmap);
        let epochs = [map.epoch, monmap.epoch, monmap.auth_epoch, self.mgr_epoch].map(|epoch| epoch.0);
        // None is -1.
        let pool_max = u32::try_from(map.pool_max).unwrap_or(0);
        let short = epochs.into_iter().map(|epoch| (u64::from(epoch), EPOCH_END));
        let short = short.chain([(u64::from(pool_max), POOL_END)]);
        let last_log = self.log.back().map_or(0, |entry| entry.seq);
        let secrets = self.rotating.values().map(RotatingSecrets::newest);
        let snaps = map.pools.values().map(|pool| pool.snap_seq.0);
        let long = [self.global_id_limit, last_log].into_iter().chain(secrets).chain(snaps);
        let long = long.map(|count| (count, COUNTER_END));
        let pg_nums = map.pools.values().flat_map(|pool| {
            [pool.pg_num, pool.pgp_num, pool.pg_num_target, pool.pgp_num_target, pool.pg_num_pending]
        });
        let pg_nums = pg_nums.map(|pg_num| (u64::from(pg_num), u64::from(PG_NUM_MAX) + 1));
        match short.chain(long).chain(pg_nums).find(|(count, end)| count >= end) {
            Some((value, _)) => Err(DecodeError::Invalid { what: "number in the ledger", value }),
            None => Ok(()),
        }
    }

    /// Takes in one key of a committed or proposed transaction. Unknown keys are kept in the ledger for
    /// newer monitors and otherwise ignored.
    pub(crate) fn apply(&mut self, key: &str, value: Option<&Bytes>) -> Result<(), DecodeError> {
        let (folder, rest) = key.split_once('/').unwrap_or((key, ""));
        match folder {
            ledger_keys::MONMAP => {
                let mut monmap: MonMap = decode(value)?.unwrap_or_default();
                // Written before there was a choice: every key was `aes`.
                if monmap.auth_allowed_ciphers.is_empty() {
                    monmap.set_key_types(KeyType::ALL, KeyType::Aes);
                }
                self.monmap = Arc::new(monmap);
            }
            ledger_keys::OSDMAP_FULL => self.apply_full(epoch(key, rest)?, value)?,
            ledger_keys::OSDMAP_INC => self.apply_incremental(epoch(key, rest)?, value)?,
            ledger_keys::AUTH => {
                let name = EntityName::parse(rest).ok_or(bad_key(key))?;
                let entity = decode::<(CryptoKey, BTreeMap<String, String>)>(value)?;
                set(&mut self.entities, name, entity.map(|(key, caps)| EntityAuth { key, caps }));
            }
            ledger_keys::PENDING_KEYS => {
                let name = EntityName::parse(rest).ok_or(bad_key(key))?;
                set(&mut self.pending_keys, name, decode(value)?);
            }
            ledger_keys::ROTATING => {
                let service = EntityType::parse(rest).ok_or(bad_key(key))?;
                set(&mut self.rotating, service, decode(value)?);
            }
            ledger_keys::GLOBAL_ID => self.global_id_limit = decode(value)?.unwrap_or(0),
            ledger_keys::CONFIG => {
                let (who, name) = split_key(rest);
                let text = decode::<String>(value)?;
                let config = Arc::make_mut(&mut self.config);
                let section = config.entry(who.to_owned()).or_default();
                match text.clone() {
                    Some(text) => section.insert(name.to_owned(), text),
                    None => section.remove(name),
                };
                config.retain(|_, section| !section.is_empty());
                set(&mut self.config_keys, kept_key(key).into_owned(), text.map(Bytes::from));
            }
            ledger_keys::CONFIG_KEY => {
                if let Some(id) = rest.strip_prefix(crash::FOLDER) {
                    let read = value.and_then(|report| Crash::read(report));
                    set(&mut self.crashes, id.to_owned(), read.map(Arc::new));
                }
                set(&mut self.config_keys, rest.to_owned(), value.cloned());
            }
            ledger_keys::LOG => {
                let log = Arc::make_mut(&mut self.log);
                let seq: u64 = rest.parse().map_err(|_| bad_key(key))?;
                match decode::<LogEntry>(value)? {
                    Some(entry) if entry.seq == seq => log.push_back(entry),
                    Some(_) => return Err(bad_key(key)),
                    None => log.retain(|entry| entry.seq != seq),
                }
            }
            ledger_keys::OSD_METADATA => {
                set(&mut self.osd_metadata, OsdId(rest.parse().map_err(|_| bad_key(key))?), decode(value)?);
            }
            ledger_keys::CREATING => set(&mut self.creating, pool(key, rest)?, decode(value)?),
            ledger_keys::REMOVED_SNAPS => set(&mut self.removed_snaps, pool(key, rest)?, decode(value)?),
            ledger_keys::MGR_MODULES => self.mgr_modules = Arc::new(decode(value)?.unwrap_or_default()),
            ledger_keys::MGR_EPOCH => self.mgr_epoch = decode(value)?.unwrap_or_default(),
            ledger_keys::MUTES => set(&mut self.mutes, rest.to_owned(), value.map(Mute::read).transpose()?),
            _ => {}
        }
        Ok(())
    }

    fn apply_full(&mut self, epoch: Epoch, value: Option<&Bytes>) -> Result<(), DecodeError> {
        if let Some(bytes) = value
            && epoch > self.osdmap.epoch
        {
            let map = OsdMap::of_epoch(epoch, self.monmap.fsid, bytes.clone());
            self.osdmap = Arc::new(map.map_err(|_| bad_map(epoch))?);
        }
        set(&mut self.fulls, epoch, value.cloned());
        Ok(())
    }

    fn apply_incremental(&mut self, epoch: Epoch, value: Option<&Bytes>) -> Result<(), DecodeError> {
        if let Some(bytes) = value
            && epoch > self.osdmap.epoch
        {
            // OSDs, which are sent it as it is, take no bytes behind it either.
            let inc = Incremental::from_bytes(bytes.clone())?;
            if inc.epoch != epoch {
                return Err(bad_map(epoch));
            }
            Arc::make_mut(&mut self.osdmap).apply(&inc).map_err(|_| bad_map(epoch))?;
        }
        self.incrementals.set(epoch, value.cloned());
        Ok(())
    }

    /// The oldest epoch that is kept. What is kept from there on may have a gap.
    pub(crate) fn oldest_epoch(&self) -> Epoch {
        self.incrementals.first().unwrap_or(self.osdmap.epoch)
    }

    /// The first epoch behind the last gap in the epochs that are kept, if there is a gap: there is a full map of it.
    pub(crate) fn gap_end(&self) -> Option<Epoch> {
        let oldest = self.oldest_epoch();
        let is_end = |epoch: &Epoch| self.incrementals.get(Epoch(epoch.0 - 1)).is_none();
        self.fulls.keys().copied().rev().take_while(|epoch| *epoch > oldest).find(is_end)
    }

    /// The oldest epoch from which incrementals alone can still bring a subscriber up to date.
    pub(crate) fn unbroken_epoch(&self) -> Epoch {
        self.gap_end().unwrap_or_else(|| self.oldest_epoch())
    }

    /// The full map of an epoch, computed from the nearest full one before it.
    pub(crate) fn full_map(&self, epoch: Epoch) -> Option<OsdMap> {
        if epoch == self.osdmap.epoch {
            return Some(OsdMap::clone(&self.osdmap));
        }
        let (_, bytes) = self.fulls.range(..=epoch).next_back()?;
        let mut map = OsdMap::from_bytes(bytes.clone()).ok()?;
        while map.epoch < epoch {
            let inc = self.incrementals.get(map.epoch.next())?;
            map.apply(&Incremental::from_bytes(inc.clone()).ok()?).ok()?;
        }
        Some(map)
    }
}

fn epoch(key: &str, rest: &str) -> Result<Epoch, DecodeError> {
    ledger_keys::epoch(rest).ok_or(bad_key(key))
}

fn pool(key: &str, rest: &str) -> Result<PoolId, DecodeError> {
    Ok(PoolId(rest.parse().map_err(|_| bad_key(key))?))
}

/// The bytes of a value in the ledger.
pub(crate) fn value<T: Encode>(value: &T) -> Option<Bytes> {
    Some(value.to_bytes(Features::PACIFIC))
}

#[cfg(test)]
mod tests {
    use types::{PgPool, PoolType, SnapId};

    use super::*;

    /// Whether a ledger with this entry is read.
    fn is_read(key: &str, value: Option<Bytes>) -> bool {
        let entries = [(key.to_owned(), value.unwrap())].into();
        State::load(&LedgerContents { entries, ..LedgerContents::default() }).is_ok()
    }

    /// The same with a byte behind it.
    fn longer(bytes: &Bytes) -> Option<Bytes> {
        Some([&bytes[..], &[0]].concat().into())
    }

    /// Whether a map of this epoch that is otherwise as `change` makes it is read under the key of epoch 3.
    fn is_map_read(epoch: u32, change: impl Fn(&mut OsdMap)) -> bool {
        let mut map = OsdMap::new(Uuid::NIL, UTime::default(), crush::CrushMap::initial().into());
        map.epoch = Epoch(epoch);
        map.pools.insert(PoolId(1), PgPool::new(PoolType::REPLICATED, 3, 2, 0, 8));
        map.pool_name.insert(PoolId(1), "p".to_owned());
        change(&mut map);
        is_read(&ledger_keys::osdmap_full(Epoch(3)), Some(map.to_bytes_and_crc().0))
    }

    #[test]
    fn numbers_from_which_nothing_counts_on_are_refused() {
        for (number, expected) in
            [(7, true), (COUNTER_END - 1, true), (COUNTER_END, false), (u64::MAX, false)]
        {
            let entry = LogEntry { seq: number, ..LogEntry::default() };
            assert_eq!(is_read(ledger_keys::GLOBAL_ID, value(&number)), expected);
            assert_eq!(is_read(&ledger_keys::log(number), value(&entry)), expected);
            assert_eq!(
                is_map_read(3, |map| map.pools.values_mut().for_each(|pool| pool.snap_seq = SnapId(number))),
                expected
            );
        }
        for (number, expected) in [(7, true), (u32::MAX, false)] {
            assert_eq!(is_read(ledger_keys::MGR_EPOCH, value(&Epoch(number))), expected);
            let monmap = MonMap { epoch: Epoch(number), ..MonMap::default() };
            assert_eq!(is_read(ledger_keys::MONMAP, value(&monmap)), expected);
        }
        assert!(!is_map_read(3, |map| map.pool_max = i32::MAX));
        // The count of three secrets behind this one, without any.
        let mut secrets = RotatingSecrets::default().to_bytes(Features::PACIFIC).to_vec();
        let at = secrets.len() - 8;
        assert!(is_read("rotating/osd", Some(secrets.clone().into())));
        secrets[at..].fill(0xff);
        assert!(!is_read("rotating/osd", Some(secrets.into())));
    }

    #[test]
    fn more_pgs_than_a_pool_may_have_are_refused() {
        let with =
            |pg_num| is_map_read(3, move |map| map.pools.values_mut().for_each(|pool| pool.pg_num = pg_num));
        assert!(with(PG_NUM_MAX) && !with(PG_NUM_MAX + 1) && !with(u32::MAX));
    }

    #[test]
    fn what_is_under_the_key_of_another_is_refused() {
        assert!(is_map_read(3, |_| ()) && !is_map_read(2, |_| ()) && !is_map_read(4, |_| ()));
        assert!(!is_map_read(3, |map| map.fsid = Uuid([1; 16])), "a map of another cluster");
        let mut inc = Incremental::new(Uuid::NIL, Epoch(1));
        inc.fullmap = {
            let mut map = OsdMap::new(Uuid::NIL, UTime::default(), crush::CrushMap::initial().into());
            map.epoch = Epoch(1);
            map.to_bytes_and_crc().0
        };
        let full_key = ledger_keys::osdmap_full(Epoch(1));
        assert!(is_read(&full_key, Some(inc.fullmap.clone())) && !is_read(&full_key, longer(&inc.fullmap)));
        assert!(is_read(&ledger_keys::osdmap_inc(Epoch(1)), value(&inc)));
        assert!(!is_read(&ledger_keys::osdmap_inc(Epoch(2)), value(&inc)));
        assert!(!is_read(&ledger_keys::osdmap_inc(Epoch(1)), longer(&value(&inc).unwrap())));
        let entry = LogEntry { seq: 8, ..LogEntry::default() };
        assert!(
            is_read(&ledger_keys::log(8), value(&entry)) && !is_read(&ledger_keys::log(7), value(&entry))
        );
    }

    /// Incrementals before the newest full map are looked at only when they are needed.
    #[test]
    fn no_map_of_the_past_is_made_of_an_incremental_with_bytes_behind_it() {
        let mut map = OsdMap::new(Uuid::NIL, UTime::default(), crush::CrushMap::initial().into());
        map.epoch = Epoch(1);
        let inc = value(&Incremental::new(Uuid::NIL, Epoch(2))).unwrap();
        let mut newest = map.clone();
        newest.epoch = Epoch(3);
        for (inc, expected) in [(longer(&inc), None), (Some(inc), Some(Epoch(2)))] {
            let entries = [
                (ledger_keys::osdmap_full(Epoch(1)), map.to_bytes_and_crc().0),
                (ledger_keys::osdmap_full(Epoch(3)), newest.to_bytes_and_crc().0),
                (ledger_keys::osdmap_inc(Epoch(2)), inc.unwrap()),
            ];
            let contents = LedgerContents { entries: entries.into(), ..LedgerContents::default() };
            let state = State::load(&contents).unwrap();
            assert_eq!(state.full_map(Epoch(2)).map(|map| map.epoch), expected);
        }
    }
}
