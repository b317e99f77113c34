//! The OSD maps of all that was collected, put together: the newest, and as many before it as lead there step by step.

use std::collections::BTreeMap;

use bytes::Bytes;
use codec::Decode;
use types::{Epoch, Incremental, OsdMap};

use super::{RebuildError, records::StoreRecords};
use crate::state::State;

/// Maps that one place has, one after another.
pub(super) struct Chain {
    /// Where they are: `osd.3`, or the older ledger.
    pub(super) name: String,
    first: Bytes,
    incrementals: BTreeMap<Epoch, Bytes>,
    pub(super) newest: OsdMap,
}

impl Chain {
    /// The maps of a store; `None` if it has none. That its newest map cannot be read is an error: no other map could
    /// be known to be newer.
    pub(super) fn of_store(name: &str, store: &StoreRecords) -> Result<Option<Chain>, RebuildError> {
        if store.newest.is_empty() {
            return Ok(None);
        }
        let newest = OsdMap::from_bytes(store.newest.clone())
            .map_err(|error| RebuildError::BadMap { name: name.to_owned(), error })?;
        let (first, incrementals) = (store.first.clone(), store.incrementals.clone());
        Ok(Some(Chain { name: name.to_owned(), first, incrementals, newest }))
    }

    /// The maps of an older ledger, from behind the last gap in them.
    pub(super) fn of_base(state: &State) -> Chain {
        let newest = OsdMap::clone(&state.osdmap);
        let first = state.full_map(state.unbroken_epoch()).unwrap_or_else(|| newest.clone());
        let incrementals = state.incrementals.from(first.epoch.next());
        let incrementals = incrementals.map(|(epoch, bytes)| (epoch, bytes.clone())).collect();
        Chain { name: "the older ledger".to_owned(), first: first.to_bytes_and_crc().0, incrementals, newest }
    }
}

/// The epoch of a map, and its checksum.
pub(super) fn identity(map: &OsdMap) -> (Epoch, u32) {
    (map.epoch, map.to_bytes_and_crc().1)
}

/// The maps that a new ledger goes on from.
pub(super) struct History {
    /// The oldest map.
    pub(super) first: OsdMap,
    /// What leads from it to the newest, without gaps.
    pub(super) incrementals: BTreeMap<Epoch, Bytes>,
}

impl History {
    /// The maps before `newest` that any of the chains has, as far back as each leads to the next.
    pub(super) fn gather(newest: &OsdMap, chains: &[Chain]) -> History {
        let mut history = History { first: newest.clone(), incrementals: BTreeMap::new() };
        loop {
            let at = identity(&history.first);
            let reaching = chains.iter().filter(|chain| chain.newest.epoch >= at.0);
            let mut earlier: Vec<(OsdMap, &Chain)> = reaching
                .filter_map(|chain| Some((OsdMap::from_bytes(chain.first.clone()).ok()?, chain)))
                .filter(|(first, _)| first.epoch < at.0)
                .collect();
            earlier.sort_by_key(|(first, _)| first.epoch);
            let found = earlier.into_iter().find(|(first, chain)| is_way(first, &chain.incrementals, at));
            let Some((first, chain)) = found else { return history };
            let steps = chain.incrementals.range(first.epoch.next()..=at.0);
            history.incrementals.extend(steps.map(|(epoch, bytes)| (*epoch, bytes.clone())));
            history.first = first;
        }
    }
}

/// True if these incrementals lead from `first` to the map that `target` identifies.
fn is_way(first: &OsdMap, incrementals: &BTreeMap<Epoch, Bytes>, target: (Epoch, u32)) -> bool {
    let mut map = first.clone();
    while map.epoch < target.0 {
        let bytes = incrementals.get(&map.epoch.next());
        let Some(inc) = bytes.and_then(|bytes| Incremental::from_bytes(bytes.clone()).ok()) else {
            return false;
        };
        if map.apply(&inc).is_err() || identity(&map) != (inc.epoch, inc.full_crc) {
            return false;
        }
    }
    identity(&map) == target
}
