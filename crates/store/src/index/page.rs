//! Pages: a stretch of the key space as bytes.

use bytes::Bytes;
use codec::{Codec, Decode, DecodeError, Encode, Features, Reader, crc32c};
use types::{CollId, HObject, PgId, PoolId};

use super::{Index, Key};
use crate::{onode::Onode, superblock::Blob};

const PAGE_MAGIC: u32 = 0x4749_4c4c;
const ROOT_MAGIC: u32 = 0x5452_4c4c;
/// A page is closed when its entries pass this size.
const PAGE_BYTES_MAX: usize = 32 << 10;
const TAG_ONODE: u8 = 1;
const TAG_OMAP: u8 = 2;

/// A page to be written.
#[derive(Debug)]
pub(crate) struct PageImage {
    pub(crate) first: Key,
    pub(crate) bytes: Vec<u8>,
}

/// What a checkpoint's root says.
#[derive(Codec, Clone, Debug, Default)]
pub(crate) struct Root {
    magic: u32,
    pub(crate) colls: Vec<CollId>,
    pub(crate) pages: Vec<(Key, Blob)>,
}

impl Root {
    pub(crate) fn new(colls: Vec<CollId>, pages: Vec<(Key, Blob)>) -> Root {
        Root { magic: ROOT_MAGIC, colls, pages }
    }

    pub(crate) fn open(bytes: Bytes) -> Result<Root, DecodeError> {
        let root = Root::from_prefix(bytes)?;
        match root.magic {
            ROOT_MAGIC => Ok(root),
            other => Err(DecodeError::Invalid { what: "root magic", value: u64::from(other) }),
        }
    }
}

/// The checksum of index bytes, as their parent keeps it.
pub(crate) fn blob_crc(bytes: &[u8]) -> u32 {
    crc32c(u32::MAX, bytes)
}

/// Before every key.
fn key_min() -> Key {
    let coll = CollId(PgId { pool: PoolId(i64::MIN), seed: 0 });
    Key { coll, object: HObject::min(), omap: None }
}

impl Index {
    /// The pages that changes since the last checkpoint touch: old pages by first key, and what
    /// replaces them all.
    pub(crate) fn render_dirty(&self) -> (Vec<Key>, Vec<PageImage>) {
        let mut olds: Vec<Key> = Vec::new();
        let mut images = Vec::new();
        let mut done_to: Option<Option<Key>> = None;
        for key in self.dirty_keys() {
            if matches!(&done_to, Some(None)) || matches!(&done_to, Some(Some(to)) if key < *to) {
                continue;
            }
            let first = self.pages.range(..=&key).next_back().map(|(first, _)| first.clone());
            let from = first.clone().unwrap_or_else(key_min);
            let next = self.pages.range(&key..).map(|(next, _)| next).find(|next| **next > key).cloned();
            olds.extend(first);
            self.render(&from, next.as_ref(), &mut images);
            done_to = Some(next);
        }
        (olds, images)
    }

    fn dirty_keys(&self) -> Vec<Key> {
        let mut keys = self.dirty.clone();
        for key in &self.dirty {
            if let Some(onode) = self.get(key.coll, &key.object) {
                let omap = |name: &Bytes| Key { omap: Some(name.clone()), ..key.clone() };
                keys.extend(onode.omap_dirty.iter().map(omap));
            }
        }
        keys.into_iter().collect()
    }

    fn render(&self, from: &Key, to: Option<&Key>, images: &mut Vec<PageImage>) {
        let mut first = Some(from.clone());
        let mut bytes = page_front();
        let f = Features::default();
        self.visit(from, to, |coll, object, onode, omap| {
            if bytes.len() > PAGE_BYTES_MAX {
                let page = std::mem::replace(&mut bytes, page_front());
                let start = first.take().expect("a page with entries has a first key");
                images.push(PageImage { first: start, bytes: page });
            }
            if first.is_none() {
                let omap = omap.map(|(key, _)| key.clone());
                first = Some(Key { coll, object: object.clone(), omap });
            }
            match omap {
                None => {
                    (TAG_ONODE, coll).encode(&mut bytes, f);
                    object.encode(&mut bytes, f);
                    onode.encode(&mut bytes, f);
                }
                Some((key, value)) => {
                    (TAG_OMAP, coll).encode(&mut bytes, f);
                    object.encode(&mut bytes, f);
                    key.encode(&mut bytes, f);
                    value.encode(&mut bytes, f);
                }
            }
        });
        if bytes.len() > page_front().len() {
            let start = first.unwrap_or_else(|| from.clone());
            images.push(PageImage { first: start, bytes });
        }
    }

    /// Forgets what changed: the pages hold it.
    pub(crate) fn mark_clean(&mut self) {
        for key in std::mem::take(&mut self.dirty) {
            if let Some(onode) = self.get_mut(key.coll, &key.object) {
                onode.is_dirty = false;
                onode.omap_dirty.clear();
            }
        }
    }

    /// Takes in the entries of a page.
    pub(crate) fn load_page(&mut self, bytes: Bytes) -> Result<(), DecodeError> {
        let mut input = Reader::new(bytes);
        let magic = u32::decode(&mut input)?;
        if magic != PAGE_MAGIC {
            return Err(DecodeError::Invalid { what: "page magic", value: u64::from(magic) });
        }
        while input.remaining() > 0 {
            let (tag, coll) = <(u8, CollId)>::decode(&mut input)?;
            let object = HObject::decode(&mut input)?;
            match tag {
                TAG_ONODE => {
                    let onode = Onode::decode(&mut input)?;
                    // Omap entries of other pages may have come first.
                    let slot = self.colls.entry(coll).or_default().entry(object).or_default();
                    let omap = std::mem::take(&mut slot.omap);
                    *slot = Onode { omap, ..onode };
                }
                TAG_OMAP => {
                    let (key, value) = <(Bytes, Bytes)>::decode(&mut input)?;
                    self.omap_bytes += (key.len() + value.len()) as u64;
                    let slot = self.colls.entry(coll).or_default().entry(object).or_default();
                    slot.omap.insert(key, value);
                }
                other => return Err(DecodeError::Invalid { what: "entry", value: u64::from(other) }),
            }
        }
        Ok(())
    }
}

fn page_front() -> Vec<u8> {
    PAGE_MAGIC.to_le_bytes().to_vec()
}
