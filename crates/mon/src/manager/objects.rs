//! Objects as the manager's modules read and write them. A module's work is plain code over what was read so far; where
//! an object is missing, the work names it and begins again when it has been read, as object classes do in OSDs.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use codec::{Decode, Encode, Features};
use messages::{OpCode, OpParams, OsdOp};
use types::{Errno, OsdMap, PoolId};

/// Keys of one read of an omap.
const OMAP_KEYS_MAX: u64 = 1024;

/// Objects that a piece of work reads at a time.
pub(crate) const READS_MAX: usize = 64;

/// Entries of one object that a piece of work takes in. Clients decide how many there are, and the monitor serves
/// nobody while it goes through them.
pub(crate) const ENTRIES_MAX: usize = 10_000;

/// What a piece of work reads altogether. It is kept until the work is done, and gone through each time that the work
/// begins again.
const READS_TOTAL_MAX: usize = 50_000;
const READ_BYTES_MAX: usize = 16 << 20;

/// A namespace of a pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) pool: PoolId,
    pub(crate) nspace: String,
}

impl Place {
    pub(crate) fn new(pool: PoolId, nspace: &str) -> Place {
        Place { pool, nspace: nspace.to_owned() }
    }
}

/// Ops on one object, which the caller that executes the monitor's effects sends to the OSDs.
#[derive(Clone, Debug)]
pub struct ObjectRequest {
    /// The pool.
    pub pool: PoolId,
    /// The namespace; empty for the default one.
    pub nspace: String,
    /// The object's name.
    pub oid: String,
    /// What to do, in this order.
    pub ops: Vec<OsdOp>,
}

/// What is read of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ReadOp {
    /// A method of the class `rbd`, and its input.
    Call(&'static str, Bytes),
    /// Omap pairs behind a key.
    Omap(String),
}

/// A read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReadKey {
    place: Place,
    oid: String,
    op: ReadOp,
}

/// A method of an object class as an op.
fn call_op(class: &str, method: &str, input: &[u8]) -> OsdOp {
    let lengths = [class.len() as u8, method.len() as u8, 0];
    let bytes = (input.len() as u32).to_le_bytes();
    OsdOp {
        params: OpParams::from_parts(&[&lengths, &bytes]),
        data: [class.as_bytes(), method.as_bytes(), input].concat().into(),
        ..OsdOp::new(OpCode::CALL)
    }
}

impl ReadKey {
    fn len(&self) -> usize {
        let op = match &self.op {
            ReadOp::Call(_, input) => input.len(),
            ReadOp::Omap(after) => after.len(),
        };
        self.place.nspace.len() + self.oid.len() + op
    }

    pub(crate) fn request(&self) -> ObjectRequest {
        let op = match &self.op {
            ReadOp::Call(method, input) => call_op("rbd", method, input),
            ReadOp::Omap(after) => OsdOp {
                data: (after.clone(), OMAP_KEYS_MAX, String::new()).to_bytes(Features::PACIFIC),
                ..OsdOp::new(OpCode::OMAPGETVALS)
            },
        };
        let Place { pool, nspace } = self.place.clone();
        ObjectRequest { pool, nspace, oid: self.oid.clone(), ops: vec![op] }
    }
}

/// The input of methods that take none.
pub(crate) struct NoInput;

impl Encode for NoInput {
    fn encode(&self, _: &mut Vec<u8>, _: Features) {}
}

/// What was read so far.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    by_key: BTreeMap<ReadKey, Result<Bytes, Errno>>,
    bytes: usize,
}

impl Reads {
    /// Takes in what was read. What is too much is not kept: the work is refused when it comes to it.
    pub(crate) fn insert(&mut self, key: ReadKey, result: Result<Bytes, Errno>) {
        let bytes = self.bytes + key.len() + result.as_ref().map_or(0, Bytes::len);
        let fits = self.by_key.len() < READS_TOTAL_MAX && bytes <= READ_BYTES_MAX;
        if fits {
            self.bytes = bytes;
        }
        self.by_key.insert(key, if fits { result } else { Err(Errno::EFBIG) });
    }

    /// Forgets all of it.
    pub(crate) fn clear(&mut self) {
        *self = Reads::default();
    }
}

/// Why a piece of work does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// These must be read first, or some of them.
    Missing(Vec<ReadKey>),
    /// It is refused.
    Refused(Errno, String),
}

impl Stop {
    fn missing(keys: &mut BTreeSet<ReadKey>) -> Stop {
        Stop::Missing(std::mem::take(keys).into_iter().collect())
    }

    /// The refusal of an object with more entries than a piece of work takes in.
    pub(crate) fn too_many(oid: &str, max: usize) -> Stop {
        let errno = Errno::E2BIG;
        Stop::Refused(errno, format!("[errno {}] RADOS error ({oid} has more than {max} entries)", errno.0))
    }
}

/// What is missing so far: work that looks at many objects goes on to the next one, so that what is missing is read
/// together, as much of it as is read at a time.
#[derive(Debug, Default)]
pub(crate) struct UnreadObjects(BTreeSet<ReadKey>);

impl UnreadObjects {
    /// What was found, unless it must be read first. The work stops here when enough is missing: what lies behind is
    /// looked at when that has been read.
    pub(crate) fn pass<T>(&mut self, found: Result<T, Stop>) -> Result<Option<T>, Stop> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(Stop::Missing(keys)) => {
                self.0.extend(keys);
                if self.0.len() < READS_MAX { Ok(None) } else { Err(Stop::missing(&mut self.0)) }
            }
            Err(refused) => Err(refused),
        }
    }

    /// Stops where something is missing.
    pub(crate) fn end(mut self) -> Result<(), Stop> {
        if self.0.is_empty() { Ok(()) } else { Err(Stop::missing(&mut self.0)) }
    }
}

/// The cluster as a piece of work sees it.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) map: &'a OsdMap,
    pub(crate) reads: &'a Reads,
}

/// The refusal of a reply that is none.
fn malformed() -> Stop {
    Stop::Refused(Errno::EIO, "[errno 5] RBD I/O error (malformed reply)".to_owned())
}

fn decoded<T: Decode>(bytes: Bytes) -> Result<T, Stop> {
    T::from_prefix(bytes).map_err(|_| malformed())
}

/// Where the next page of a listing begins: behind the last key of this one. Pages that do not lead on would be read
/// for ever.
pub(crate) fn next_page(after: &str, last: String) -> Result<String, Stop> {
    if last.as_str() > after { Ok(last) } else { Err(malformed()) }
}

impl View<'_> {
    fn read(&self, key: ReadKey) -> Result<Option<Bytes>, Stop> {
        match self.reads.by_key.get(&key) {
            None => Err(Stop::Missing(vec![key])),
            Some(Ok(bytes)) => Ok(Some(bytes.clone())),
            Some(Err(Errno::ENOENT)) => Ok(None),
            Some(Err(errno)) => {
                let text = format!("[errno {}] RADOS error (error reading {})", errno.0, key.oid);
                Err(Stop::Refused(*errno, text))
            }
        }
    }

    /// What a method of the class `rbd` gives; none where it fails with ENOENT.
    pub(crate) fn call<T: Decode>(
        &self,
        place: &Place,
        oid: impl Into<String>,
        method: &'static str,
        input: &impl Encode,
    ) -> Result<Option<T>, Stop> {
        let op = ReadOp::Call(method, input.to_bytes(Features::PACIFIC));
        self.read(ReadKey { place: place.clone(), oid: oid.into(), op })?.map(decoded).transpose()
    }

    /// All pairs of an object's omap, if it is not too many; none without an object.
    pub(crate) fn omap(&self, place: &Place, oid: &str) -> Result<BTreeMap<String, Bytes>, Stop> {
        let mut all = BTreeMap::new();
        let mut after = String::new();
        loop {
            let op = ReadOp::Omap(after.clone());
            let key = ReadKey { place: place.clone(), oid: oid.to_owned(), op };
            let Some(bytes) = self.read(key)? else { return Ok(all) };
            let (pairs, more): (BTreeMap<String, Bytes>, bool) = decoded(bytes)?;
            let last = pairs.keys().next_back().cloned().filter(|_| more);
            all.extend(pairs);
            if all.len() > ENTRIES_MAX {
                return Err(Stop::too_many(oid, ENTRIES_MAX));
            }
            let Some(last) = last else { return Ok(all) };
            after = next_page(&after, last)?;
        }
    }
}

/// Sets a key of an object's omap; the object is made if it is missing.
pub(crate) fn set_omap(place: &Place, oid: &str, key: String, value: String) -> ObjectRequest {
    let pairs = BTreeMap::from([(key, Bytes::from(value))]);
    change(place, oid, OpCode::OMAPSETVALS, &pairs)
}

/// Removes keys of an object's omap.
pub(crate) fn remove_omap(place: &Place, oid: &str, keys: Vec<String>) -> ObjectRequest {
    change(place, oid, OpCode::OMAPRMKEYS, &keys)
}

fn change(place: &Place, oid: &str, code: OpCode, data: &impl Encode) -> ObjectRequest {
    let op = OsdOp { data: data.to_bytes(Features::PACIFIC), ..OsdOp::new(code) };
    ObjectRequest { pool: place.pool, nspace: place.nspace.clone(), oid: oid.to_owned(), ops: vec![op] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(oid: &str) -> ReadKey {
        ReadKey { place: Place::new(PoolId(1), ""), oid: oid.to_owned(), op: ReadOp::Omap(String::new()) }
    }

    #[test]
    fn work_stops_when_enough_is_missing() {
        let mut unread = UnreadObjects::default();
        let mut pass = |n: usize| unread.pass::<()>(Err(Stop::Missing(vec![key(&n.to_string())])));
        for n in 1..READS_MAX {
            assert_eq!((pass(n), pass(n)), (Ok(None), Ok(None)), "the same one counts once");
        }
        let Err(Stop::Missing(keys)) = pass(READS_MAX) else { panic!("goes on") };
        assert_eq!(keys.len(), READS_MAX);
    }

    #[test]
    fn what_is_read_has_a_limit() {
        let mut reads = Reads::default();
        let quarter = Bytes::from(vec![0; READ_BYTES_MAX / 4]);
        for (n, is_kept) in [(1, true), (2, true), (3, true), (4, false)] {
            let key = key(&n.to_string());
            reads.insert(key.clone(), Ok(quarter.clone()));
            let expect = if is_kept { Ok(quarter.clone()) } else { Err(Errno::EFBIG) };
            assert_eq!(reads.by_key[&key], expect, "{n}: names count, too");
        }
        reads.clear();
        for n in 0..=READS_TOTAL_MAX {
            reads.insert(key(&n.to_string()), Ok(Bytes::new()));
        }
        assert_eq!(reads.by_key.values().filter(|read| read.is_err()).count(), 1);
    }

    #[test]
    fn an_omap_has_a_limit() {
        let map = crate::state::State::default().osdmap;
        let place = Place::new(PoolId(1), "");
        for count in [ENTRIES_MAX, ENTRIES_MAX + 1] {
            let pairs: BTreeMap<String, Bytes> = (0..count).map(|n| (n.to_string(), Bytes::new())).collect();
            let mut reads = Reads::default();
            reads.insert(key("o"), Ok((pairs, false).to_bytes(Features::PACIFIC)));
            let found = View { map: &map, reads: &reads }.omap(&place, "o");
            let expect = if count > ENTRIES_MAX { Err(Stop::too_many("o", ENTRIES_MAX)) } else { Ok(count) };
            assert_eq!(found.map(|found| found.len()), expect);
        }
    }

    #[test]
    fn pages_that_do_not_lead_on_are_refused() {
        let map = crate::state::State::default().osdmap;
        let place = Place::new(PoolId(1), "");
        let mut reads = Reads::default();
        let page = |key: &str| {
            let pairs = BTreeMap::from([(key.to_owned(), Bytes::new())]);
            Ok((pairs, true).to_bytes(Features::PACIFIC))
        };
        for (after, found) in [("", "b"), ("b", "c"), ("c", "b")] {
            reads.insert(ReadKey { op: ReadOp::Omap(after.to_owned()), ..key("o") }, page(found));
        }
        assert_eq!(View { map: &map, reads: &reads }.omap(&place, "o"), Err(malformed()));
    }
}
