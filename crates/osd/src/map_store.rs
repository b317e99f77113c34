//! The OSD maps that this OSD keeps, in its store's own collection: full maps and the incrementals
//! between them, an object each.

use bytes::Bytes;
use store::{NotCached, ObjectStore};
use types::{CollId, Epoch, HObject, Mutation, OsdId, OsdMap, PoolId, SnapId, Transaction, TxnOp, Uuid};

/// Maps kept behind the newest one: PGs that were away walk through them.
pub const EPOCHS_KEPT: u32 = 500;

/// Maps dropped when one comes: where more were kept, as PGs needed them, they go in several steps.
const DROPPED_MAX: u32 = 100;

fn object(name: String) -> HObject {
    HObject { oid: Bytes::from(name), pool: PoolId(-1), snap: SnapId::HEAD, ..HObject::default() }
}

fn full_object(epoch: Epoch) -> HObject {
    object(format!("osdmap.{epoch}"))
}

fn incremental_object(epoch: Epoch) -> HObject {
    object(format!("inc_osdmap.{epoch}"))
}

fn bounds_object() -> HObject {
    object("osd_superblock".to_owned())
}

const OLDEST: &[u8] = b"oldest_map";
const NEWEST: &[u8] = b"newest_map";
const BORN: &[u8] = b"store_born";

/// Which maps are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapStore {
    /// Oldest epoch kept; 0 for none.
    pub oldest: Epoch,
    /// Newest epoch kept; 0 for none.
    pub newest: Epoch,
    /// The OSD has taken part in no earlier epoch with this store; 0 if that is not known, as of stores that had maps
    /// before this was noted.
    pub born: Epoch,
}

impl MapStore {
    /// Reads what is kept of them. The objects are small and of the OSD's own collection, whose index is
    /// loaded at mount.
    pub fn load(store: &dyn ObjectStore) -> Result<MapStore, NotCached> {
        let read = |name: &[u8]| -> Result<Epoch, NotCached> {
            let value = store.omap_get(CollId::META, &bounds_object(), name)?;
            let bytes = value.and_then(|v| v.first_chunk::<4>().copied()).unwrap_or_default();
            Ok(Epoch(u32::from_le_bytes(bytes)))
        };
        Ok(MapStore { oldest: read(OLDEST)?, newest: read(NEWEST)?, born: read(BORN)? })
    }

    /// The encoded full map of `epoch`.
    pub fn full(&self, store: &dyn ObjectStore, epoch: Epoch) -> Result<Option<Bytes>, NotCached> {
        store.omap_get(CollId::META, &full_object(epoch), b"map")
    }

    /// The encoded incremental that leads to `epoch`.
    pub fn incremental(&self, store: &dyn ObjectStore, epoch: Epoch) -> Result<Option<Bytes>, NotCached> {
        store.omap_get(CollId::META, &incremental_object(epoch), b"map")
    }

    /// Before `map` is pushed, which follows `last`: until monitors know the store of this uuid as the OSD's, another
    /// one may serve under its id, and this one is not there yet.
    pub fn note_birth(&mut self, last: &OsdMap, map: &OsdMap, osd: OsdId, uuid: Uuid) {
        let is_known = |map: &OsdMap| map.osd_uuid.get(osd.0 as usize) == Some(&uuid);
        if self.newest.0 == 0 || self.born == self.newest && !is_known(last) {
            // A shard may hear of maps only when the OSD is up already.
            self.born = if is_known(map) && map.is_up(osd) { map.up_from(osd) } else { map.epoch };
        }
    }

    /// Adds a map to `txn`: its full form, and the incremental that led to it where there was one. Maps too old to keep
    /// leave in the same transaction, but for those from `needed` on: a PG whose record is not durable as of the
    /// present interval would walk through them after a crash ([`pg::Pg::maps_needed_since`]).
    ///
    /// Nothing here bounds how many these are. The store commits a record when it comes to it, at the latest behind the
    /// steps of a split, or when its device has room again; so does the device bound the maps, which take their room
    /// there, too. Without them, the PG could serve a state older than what clients were told.
    pub fn push(
        &mut self,
        txn: &mut Transaction,
        epoch: Epoch,
        full: Bytes,
        incremental: Option<Bytes>,
        needed: Option<Epoch>,
    ) {
        let entry = |value: Bytes| Mutation::OmapSet([(Bytes::from_static(b"map"), value)].into());
        if self.newest.0 + 1 != epoch.0 || incremental.is_none() {
            // A gap: what is older cannot be walked through.
            self.drop_below(txn, epoch);
            self.oldest = epoch;
        }
        txn.push(&full_object(epoch), entry(full));
        if let Some(incremental) = incremental {
            txn.push(&incremental_object(epoch), entry(incremental));
        }
        self.newest = epoch;
        if epoch.0 > EPOCHS_KEPT {
            let floor = Epoch(epoch.0 - EPOCHS_KEPT);
            let floor = needed.map_or(floor, |needed| needed.min(floor));
            self.drop_below(txn, floor.min(Epoch(self.oldest.0 + DROPPED_MAX)));
        }
        let bounds = [(OLDEST, self.oldest), (NEWEST, self.newest), (BORN, self.born)];
        let bounds = bounds.map(|(k, v)| (Bytes::from_static(k), Bytes::copy_from_slice(&v.0.to_le_bytes())));
        txn.push(&bounds_object(), Mutation::OmapSet(bounds.into()));
    }

    fn drop_below(&mut self, txn: &mut Transaction, floor: Epoch) {
        while self.oldest.0 != 0 && self.oldest < floor && self.oldest <= self.newest {
            txn.push(&full_object(self.oldest), Mutation::Remove);
            txn.push(&incremental_object(self.oldest), Mutation::Remove);
            self.oldest = self.oldest.next();
        }
    }

    /// A transaction for [`MapStore::push`]; makes the collection on first use.
    pub fn transaction(store: &dyn ObjectStore) -> Transaction {
        let mut txn = Transaction::new(CollId::META);
        if !store.collection_exists(CollId::META) {
            txn.ops.push(TxnOp::CreateCollection);
        }
        txn
    }
}

#[cfg(test)]
mod tests {
    use store::MemStore;
    use types::{CrushBlob, OsdState, Token, UTime};

    use super::*;

    fn push(store: &mut MemStore, maps: &mut MapStore, epoch: u32, with_incremental: bool) {
        let mut txn = MapStore::transaction(store);
        let inc = with_incremental.then(|| Bytes::from(format!("inc {epoch}")));
        maps.push(&mut txn, Epoch(epoch), Bytes::from(format!("full {epoch}")), inc, None);
        store.submit(Token(0), txn);
    }

    #[test]
    fn maps_survive_a_reload_and_a_gap_drops_what_is_older() {
        let (mut store, mut maps) = (MemStore::new(), MapStore::default());
        for epoch in 1..=5 {
            push(&mut store, &mut maps, epoch, epoch > 1);
        }
        let loaded = MapStore::load(&store).unwrap();
        assert_eq!((loaded.oldest, loaded.newest), (Epoch(1), Epoch(5)));
        assert_eq!(loaded.incremental(&store, Epoch(3)).unwrap().unwrap(), "inc 3");
        push(&mut store, &mut maps, 9, false);
        maps.born = Epoch(7);
        push(&mut store, &mut maps, 10, true);
        let loaded = MapStore::load(&store).unwrap();
        assert_eq!(loaded, MapStore { oldest: Epoch(9), newest: Epoch(10), born: Epoch(7) });
        assert_eq!(loaded.full(&store, Epoch(5)).unwrap(), None);
    }

    #[test]
    fn a_store_is_born_when_monitors_know_it() {
        let (osd, own, other) = (OsdId(0), Uuid([1; 16]), Uuid([2; 16]));
        let empty = || {
            let mut map = OsdMap::new(Uuid::NIL, UTime::default(), CrushBlob::default());
            map.set_max_osd(1);
            map
        };
        let (mut store, mut maps, mut last) = (MemStore::new(), MapStore::default(), empty());
        let mut born = |epoch: u32, known: Uuid, up_from: Option<u32>| {
            let mut map = OsdMap { epoch: Epoch(epoch), ..empty() };
            map.osd_uuid[0] = known;
            map.osd_state[0] = OsdState::EXISTS;
            if let Some(up_from) = up_from {
                map.osd_state[0] |= OsdState::UP;
                map.osd_info[0].up_from = Epoch(up_from);
            }
            maps.note_birth(&last, &map, osd, own);
            push(&mut store, &mut maps, epoch, epoch > 3);
            maps = MapStore::load(&store).unwrap();
            last = map;
            maps.born.0
        };
        // Another store serves, and goes; this one is made known, comes up, goes down, and up again.
        assert_eq!([born(3, other, Some(2)), born(4, other, None), born(5, Uuid::NIL, None)], [3, 4, 5]);
        assert_eq!([born(6, own, None), born(7, own, Some(7)), born(8, own, None)], [6, 6, 6]);
        assert_eq!(born(9, own, Some(9)), 6);

        let mut late = MapStore::default();
        let mut map = OsdMap { epoch: Epoch(9), ..empty() };
        (map.osd_uuid[0], map.osd_state[0]) = (own, OsdState::EXISTS | OsdState::UP);
        map.osd_info[0].up_from = Epoch(8);
        late.note_birth(&empty(), &map, osd, own);
        assert_eq!(late.born, Epoch(8));
    }

    #[test]
    fn old_maps_are_trimmed() {
        let (mut store, mut maps) = (MemStore::new(), MapStore::default());
        for epoch in 1..=EPOCHS_KEPT + 10 {
            push(&mut store, &mut maps, epoch, epoch > 1);
        }
        assert_eq!(maps.oldest, Epoch(10));
        assert!(maps.full(&store, Epoch(9)).unwrap().is_none());
        assert!(maps.full(&store, Epoch(10)).unwrap().is_some());
    }
}
