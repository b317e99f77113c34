//! Clients list a pool page by page, while its objects come and go, and PGs move, split and merge.
//!
//! An object that is there all the time is in the list, one that is not there is not, and none is in it twice. What is
//! made or removed meanwhile may be in the list or not.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use client::{Request, Response};
use codec::{Codec, Decode, DecodeError, Encode, Features};
use messages::{OpCode, OpParams, OsdOp};
use rand::{Rng, rngs::StdRng, seq::IndexedRandom};
use types::{HObject, PoolId};

/// Objects of a client.
const OBJECTS: usize = 24;
/// Changes of them in flight.
const CHANGES_MAX: usize = 3;
/// Their namespace, and the one that means all.
const NAMESPACE: &[u8] = b"listed";
const ALL_NAMESPACES: &[u8] = b"\x01";
/// Entries that a client asks for at once.
const PAGES: [u64; 4] = [1, 2, 7, 1_024];

/// A page, as OSDs answer: where the next one begins, and objects by namespace, name and locator.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct Page {
    handle: HObject,
    entries: Vec<(Bytes, Bytes, Bytes)>,
}

/// Leaves an object out of a page.
pub(crate) fn lose_entry(op: &mut OsdOp) {
    if let Ok(mut page) = Page::from_prefix(op.data.clone()) {
        page.entries.pop();
        op.data = page.to_bytes(Features::default());
    }
}

/// Whether an object is there; none while that changes, or may. Since which change of any object.
#[derive(Clone, Copy, Debug)]
struct Presence {
    is_there: Option<bool>,
    since: u64,
}

/// All clients' objects, by name.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    objects: BTreeMap<Bytes, Presence>,
    changes: u64,
}

impl Listed {
    fn set(&mut self, name: Bytes, is_there: Option<bool>) {
        self.changes += 1;
        self.objects.insert(name, Presence { is_there, since: self.changes });
    }

    /// What a listing must find that began after so many changes.
    fn check(&self, began: u64, found: &[Bytes]) -> Result<(), String> {
        let unique: BTreeSet<&Bytes> = found.iter().collect();
        if unique.len() != found.len() {
            return Err(format!("an object is listed twice: {found:?}"));
        }
        if let Some(name) = unique.iter().find(|name| !self.objects.contains_key(**name)) {
            return Err(format!("{name:?} is listed, which never was"));
        }
        let settled = |is_there: bool| {
            let all = self.objects.iter();
            all.filter(move |(_, state)| state.is_there == Some(is_there) && state.since <= began)
        };
        if let Some((name, _)) = settled(true).find(|(name, _)| !unique.contains(name)) {
            return Err(format!("{name:?} was there all the time and is not listed: {found:?}"));
        }
        match settled(false).find(|(name, _)| unique.contains(name)) {
            Some((name, _)) => Err(format!("{name:?} is listed, which was not there at any time: {found:?}")),
            None => Ok(()),
        }
    }
}

/// A listing under way.
#[derive(Debug)]
struct Listing {
    /// After so many changes.
    began: u64,
    nspace: &'static [u8],
    cursor: HObject,
    found: Vec<Bytes>,
    page_size: u64,
    is_page_in_flight: bool,
}

/// A request under way.
#[derive(Debug)]
pub(crate) enum InFlightOp {
    Page,
    /// The object is made or else removed.
    Change(usize, bool),
}

/// What one client lists, and the objects that it makes and removes meanwhile.
pub(crate) struct Lister {
    client: u64,
    is_there: Vec<bool>,
    busy: BTreeSet<usize>,
    listing: Option<Listing>,
}

impl Lister {
    pub(crate) fn new(client: u64) -> Lister {
        Lister { client, is_there: vec![false; OBJECTS], busy: BTreeSet::new(), listing: None }
    }

    /// True from the first page on until the last one has come.
    pub(crate) fn is_listing(&self) -> bool {
        self.listing.is_some()
    }

    /// The next request, a page or a change, if one more may be in flight.
    pub(crate) fn next(
        &mut self,
        pool: PoolId,
        rng: &mut StdRng,
        listed: &mut Listed,
    ) -> Option<(Request, InFlightOp)> {
        if rng.random_bool(0.5) {
            return self.next_page(pool, rng, listed);
        }
        let at = rng.random_range(0..OBJECTS);
        if self.busy.len() >= CHANGES_MAX || !self.busy.insert(at) {
            return None;
        }
        let is_made = !self.is_there[at];
        let op = OsdOp::new(if is_made { OpCode::CREATE } else { OpCode::DELETE });
        listed.set(self.name(at), None);
        let request = Request::new(pool, self.name(at), vec![op]);
        Some((Request { nspace: Bytes::from_static(NAMESPACE), ..request }, InFlightOp::Change(at, is_made)))
    }

    fn name(&self, at: usize) -> Bytes {
        Bytes::from(format!("{}.{at}", self.client))
    }

    /// The next page of the listing under way, or the first one of another; none while one is in flight.
    pub(crate) fn next_page(
        &mut self,
        pool: PoolId,
        rng: &mut StdRng,
        listed: &Listed,
    ) -> Option<(Request, InFlightOp)> {
        let listing = self.listing.get_or_insert_with(|| Listing {
            began: listed.changes,
            nspace: if rng.random() { NAMESPACE } else { ALL_NAMESPACES },
            cursor: HObject::min(),
            found: Vec::new(),
            page_size: *PAGES.choose(rng).unwrap_or(&1),
            is_page_in_flight: false,
        });
        if std::mem::replace(&mut listing.is_page_in_flight, true) {
            return None;
        }
        let op = OsdOp {
            params: OpParams::from_parts(&[&listing.page_size.to_le_bytes()]),
            data: listing.cursor.to_bytes(Features::default()),
            ..OsdOp::new(OpCode::PGNLS)
        };
        let request = Request {
            nspace: Bytes::from_static(listing.nspace),
            hash: Some(listing.cursor.hash),
            ..Request::new(pool, Bytes::new(), vec![op])
        };
        Some((request, InFlightOp::Page))
    }

    /// Compares what came, and takes it as done.
    pub(crate) fn done(
        &mut self,
        in_flight: InFlightOp,
        response: &Response,
        listed: &mut Listed,
    ) -> Result<(), String> {
        match in_flight {
            InFlightOp::Change(at, is_there) => {
                self.busy.remove(&at);
                self.is_there[at] = is_there;
                listed.set(self.name(at), Some(is_there));
                match response.result {
                    0 => Ok(()),
                    result => Err(format!("a change of an object that is listed ended with {result}")),
                }
            }
            InFlightOp::Page => self.take_page(response, listed),
        }
    }

    fn take_page(&mut self, response: &Response, listed: &Listed) -> Result<(), String> {
        let Some(mut listing) = self.listing.take() else { return Ok(()) };
        let [op] = &response.ops[..] else { return Err("a page without its op".to_owned()) };
        if response.result < 0 {
            let (from, result) = (&listing.cursor, response.result);
            return Err(format!("a page from {from} on ended with {result}"));
        }
        let broken = |error: DecodeError| format!("a page is not decodable: {error}");
        let Page { handle, entries } = Page::from_prefix(op.data.clone()).map_err(broken)?;
        if handle <= listing.cursor {
            return Err(format!("a listing goes back from {} to {handle}", listing.cursor));
        }
        let entries = entries.into_iter().filter(|(nspace, ..)| nspace == NAMESPACE);
        listing.found.extend(entries.map(|(_, name, _)| name));
        if handle.is_max {
            return listed.check(listing.began, &listing.found);
        }
        self.listing = Some(Listing { cursor: handle, is_page_in_flight: false, ..listing });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_or_not_all_the_time_is_listed_or_not() {
        let [there, gone, made, other] = ["there", "gone", "made", "other"].map(Bytes::from);
        let mut listed = Listed::default();
        listed.set(there.clone(), Some(true));
        listed.set(gone.clone(), Some(false));
        let began = listed.changes;
        listed.set(made.clone(), Some(true));
        let check =
            |found: &[&Bytes]| listed.check(began, &found.iter().copied().cloned().collect::<Vec<_>>());
        assert_eq!(check(&[&there]), Ok(()));
        assert_eq!(check(&[&made, &there]), Ok(()));
        let signs: [(&[&Bytes], &str); 4] = [
            (&[&made], "is not listed"),
            (&[&there, &there], "twice"),
            (&[&there, &gone], "at any time"),
            (&[&there, &other], "never was"),
        ];
        for (found, sign) in signs {
            assert!(check(found).is_err_and(|why| why.contains(sign)), "{sign}");
        }
    }
}
