//! Objects as the manager's modules read and write them. A module's work is plain code over what was read so far; where
//! an object is missing, the work names it and begins again when it has been read, as object classes do in OSDs.

use std::collections::BTreeMap;

use bytes::Bytes;
use codec::{Decode, Encode, Features};
use messages::{OpCode, OpParams, OsdOp};
use types::{Errno, OsdMap, PoolId};

/// Keys of one read of an omap.
const OMAP_KEYS_MAX: u64 = 1024;

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
pub(crate) type Reads = BTreeMap<ReadKey, Result<Bytes, Errno>>;

/// Why a piece of work does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// These must be read first, or some of them.
    Missing(Vec<ReadKey>),
    /// It is refused.
    Refused(Errno, String),
}

/// What is missing so far: work that looks at many objects goes on to the next one, so that all that is missing is read
/// together.
#[derive(Debug, Default)]
pub(crate) struct UnreadObjects(Vec<ReadKey>);

impl UnreadObjects {
    /// What was found, unless it must be read first.
    pub(crate) fn pass<T>(&mut self, found: Result<T, Stop>) -> Result<Option<T>, Stop> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(Stop::Missing(keys)) => {
                self.0.extend(keys);
                Ok(None)
            }
            Err(refused) => Err(refused),
        }
    }

    /// Stops where something is missing.
    pub(crate) fn end(self) -> Result<(), Stop> {
        if self.0.is_empty() { Ok(()) } else { Err(Stop::Missing(self.0)) }
    }
}

/// The cluster as a piece of work sees it.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) map: &'a OsdMap,
    pub(crate) reads: &'a Reads,
}

fn decoded<T: Decode>(bytes: Bytes) -> Result<T, Stop> {
    let bad = |_| Stop::Refused(Errno::EIO, "[errno 5] RBD I/O error (malformed reply)".to_owned());
    T::from_prefix(bytes).map_err(bad)
}

impl View<'_> {
    fn read(&self, key: ReadKey) -> Result<Option<Bytes>, Stop> {
        match self.reads.get(&key) {
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

    /// All pairs of an object's omap; none without an object.
    pub(crate) fn omap(&self, place: &Place, oid: &str) -> Result<BTreeMap<String, Bytes>, Stop> {
        let mut all = BTreeMap::new();
        let mut after = String::new();
        loop {
            let key = ReadKey { place: place.clone(), oid: oid.to_owned(), op: ReadOp::Omap(after) };
            let Some(bytes) = self.read(key)? else { return Ok(all) };
            let (pairs, more): (BTreeMap<String, Bytes>, bool) = decoded(bytes)?;
            let Some(last) = pairs.keys().next_back().cloned().filter(|_| more) else {
                all.extend(pairs);
                return Ok(all);
            };
            all.extend(pairs);
            after = last;
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
