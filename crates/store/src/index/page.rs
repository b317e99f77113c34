//! Pages, tables and the root as bytes.

use bytes::Bytes;
use codec::{Codec, Decode, DecodeError, Encode, Features, Reader, crc32c};
use types::{CollId, HObject, PoolId};

use super::Key;
use crate::{onode::Onode, pool_usage::PoolUsage, space::Run, superblock::Blob};

const PAGE_MAGIC: u32 = 0x4749_4c4c;
const PENDING_MAGIC: u32 = 0x4e50_4c4c;
const TABLE_MAGIC: u32 = 0x4254_4c4c;
pub(crate) const ROOT_MAGIC: u32 = 0x5452_4c4c;
const TAG_ONODE: u8 = 1;
const TAG_OMAP: u8 = 2;

/// A page to be written; without bytes if it has no entries.
#[derive(Debug)]
pub(crate) struct PageImage {
    pub(crate) first: Key,
    pub(crate) bytes: Bytes,
    /// Where its entries begin.
    pub(super) starts: Vec<u32>,
}

/// What a checkpoint's root says.
#[derive(Codec, Clone, Debug, Default)]
pub(crate) struct Root {
    pub(crate) magic: u32,
    pub(crate) colls: Vec<CollId>,
    /// What each pool takes.
    pub(crate) pools: Vec<(PoolId, PoolUsage)>,
    /// Bytes of omap, keys and values, with what the OSD keeps for itself.
    pub(crate) omap_bytes: u64,
    /// Bytes of objects that are not in their places, in order.
    pub(crate) pendings: Vec<Blob>,
    /// Records of the space map, by region.
    pub(crate) regions: Vec<Blob>,
    pub(crate) tables: Vec<(Key, Blob)>,
}

impl Root {
    pub(crate) fn open(bytes: Bytes) -> Result<Root, DecodeError> {
        let root = Root::from_prefix(bytes)?;
        check_magic(root.magic, ROOT_MAGIC)?;
        Ok(root)
    }
}

/// References to pages that follow each other.
#[derive(Codec, Clone, Debug, Default)]
pub(crate) struct Table {
    magic: u32,
    pub(crate) pages: Vec<(Key, Blob)>,
}

impl Table {
    pub(crate) fn new(pages: Vec<(Key, Blob)>) -> Table {
        Table { magic: TABLE_MAGIC, pages }
    }

    pub(crate) fn open(bytes: Bytes) -> Result<Table, DecodeError> {
        let table = Table::from_prefix(bytes)?;
        check_magic(table.magic, TABLE_MAGIC)?;
        Ok(table)
    }
}

/// Bytes of an object that are not in their place.
#[derive(Codec, Clone, Debug)]
pub(crate) struct PendingPiece {
    pub(crate) coll: CollId,
    pub(crate) object: HObject,
    /// In the object, in bytes.
    pub(crate) offset: u64,
    pub(crate) data: Bytes,
}

/// Bytes of a piece beside its own and its object's name.
const PIECE_BYTES: u64 = 96;

/// What an object's piece takes in a page beside its bytes.
pub(crate) fn piece_bytes(object: &HObject) -> u64 {
    PIECE_BYTES + (object.oid.len() + object.key.len() + object.nspace.len()) as u64
}

/// Some of them.
#[derive(Codec, Clone, Debug, Default)]
pub(crate) struct PendingPage {
    magic: u32,
    pub(crate) pieces: Vec<PendingPiece>,
}

impl PendingPage {
    pub(crate) fn new(pieces: Vec<PendingPiece>) -> PendingPage {
        PendingPage { magic: PENDING_MAGIC, pieces }
    }

    pub(crate) fn open(bytes: Bytes) -> Result<PendingPage, DecodeError> {
        let page = PendingPage::from_prefix(bytes)?;
        check_magic(page.magic, PENDING_MAGIC)?;
        Ok(page)
    }
}

fn check_magic(found: u32, expected: u32) -> Result<(), DecodeError> {
    if found == expected {
        return Ok(());
    }
    Err(DecodeError::Invalid { what: "magic of an index page", value: u64::from(found) })
}

/// The checksum of index bytes, as their parent keeps it.
pub(crate) fn blob_crc(bytes: &[u8]) -> u32 {
    crc32c(u32::MAX, bytes)
}

/// An empty page, to be appended to.
pub(super) fn page_front() -> Vec<u8> {
    PAGE_MAGIC.to_le_bytes().to_vec()
}

/// Appends an entry: an object's own, or with `omap` one of its omap.
pub(super) fn encode_entry(out: &mut Vec<u8>, coll: CollId, object: &HObject, entry: Entry<'_>) {
    let f = Features::default();
    match entry {
        Entry::Onode(onode) => {
            (TAG_ONODE, coll).encode(out, f);
            object.encode(out, f);
            onode.encode(out, f);
        }
        Entry::Omap(key, value) => {
            (TAG_OMAP, coll).encode(out, f);
            object.encode(out, f);
            key.encode(out, f);
            value.encode(out, f);
        }
    }
}

/// What a page holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry<'a> {
    Onode(&'a Onode),
    Omap(&'a Bytes, &'a Bytes),
}

impl Value {
    /// This value as a page's entry, with the key that it came with.
    pub(crate) fn entry<'a>(&'a self, key: &'a Key) -> Entry<'a> {
        match (self, &key.omap) {
            (Value::Onode(onode), _) => Entry::Onode(onode),
            (Value::Omap(value), Some(name)) => Entry::Omap(name, value),
            (Value::Omap(_), None) => unreachable!("an omap entry is read with its name"),
        }
    }
}

/// What an entry says, in memory of its own.
#[derive(Debug)]
pub(crate) enum Value {
    Onode(Onode),
    /// Of the omap key that its key names.
    Omap(Bytes),
}

fn read_key(input: &mut Reader) -> Result<Key, DecodeError> {
    let (tag, coll) = <(u8, CollId)>::decode(input)?;
    let object = HObject::decode(input)?;
    let omap = match tag {
        TAG_ONODE => None,
        TAG_OMAP => Some(Bytes::decode(input)?),
        other => return Err(DecodeError::Invalid { what: "entry", value: u64::from(other) }),
    };
    Ok(Key { coll, object, omap })
}

fn read_value(key: &Key, input: &mut Reader) -> Result<Value, DecodeError> {
    Ok(match key.omap {
        None => Value::Onode(Onode::decode(input)?),
        Some(_) => Value::Omap(Bytes::decode(input)?),
    })
}

/// The key of the entry that begins these bytes, which it keeps alive.
pub(super) fn decode_key(bytes: Bytes) -> Result<Key, DecodeError> {
    read_key(&mut Reader::new(bytes))
}

/// An entry, which keeps these bytes alive.
pub(super) fn decode_entry(bytes: Bytes) -> Result<(Key, Value), DecodeError> {
    let mut input = Reader::new(bytes);
    let key = read_key(&mut input)?;
    let value = read_value(&key, &mut input)?;
    Ok((key, value))
}

/// What a page may say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds<'a> {
    /// Its first key: no entry is before it.
    pub(crate) first: &'a Key,
    /// The next page's: all entries are before it.
    pub(crate) next: Option<&'a Key>,
    /// Where objects' data is.
    pub(crate) area: Run,
}

impl Bounds<'_> {
    /// True for an entry that may come behind the one with the key `last`.
    fn allow(&self, last: Option<&Key>, key: &Key, value: &Value) -> bool {
        let is_behind = last.map_or(*key >= *self.first, |last| key > last);
        let is_placed = match value {
            Value::Onode(onode) => onode.extents.runs().all(|run| self.area.holds(run)),
            Value::Omap(_) => true,
        };
        is_behind && self.next.is_none_or(|next| key < next) && is_placed
    }
}

/// Calls `visit` with each entry of a page and where it begins, in the order of their keys.
///
/// # Errors
/// At the first entry that is none, or that the page may not have.
pub(crate) fn open_page(
    bytes: Bytes,
    bounds: &Bounds<'_>,
    mut visit: impl FnMut(usize, Key, Value),
) -> Result<(), DecodeError> {
    let len = bytes.len();
    let mut input = Reader::new(bytes);
    check_magic(u32::decode(&mut input)?, PAGE_MAGIC)?;
    let mut last = None;
    while input.remaining() > 0 {
        let at = len - input.remaining();
        let key = read_key(&mut input)?;
        let value = read_value(&key, &mut input)?;
        if !bounds.allow(last.as_ref(), &key, &value) {
            return Err(DecodeError::Invalid { what: "entry of a page", value: at as u64 });
        }
        last = Some(key.clone());
        visit(at, key, value);
    }
    Ok(())
}
