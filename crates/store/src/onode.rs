//! An object as the index knows it (Ceph's BlueStore onode).

use std::cell::Cell;

use bytes::Bytes;
use codec::{Decode, DecodeError, Encode, Features, Reader};

use crate::{extent_map::ExtentMap, flat_map::FlatMap, pending::Pending};

#[derive(Clone, Debug, Default)]
pub(crate) struct Onode {
    pub(crate) size: u64,
    pub(crate) extents: ExtentMap,
    pub(crate) pending: Pending,
    pub(crate) xattrs: FlatMap<Bytes, Bytes>,
    pub(crate) omap_header: Bytes,
    /// The last transaction that made the object or unmapped data of it: a flush that began before it is void.
    pub(crate) generation: u64,
    /// The index' generation in which its page was found to be dirty.
    pub(crate) touched: u64,
    /// True if it was used since eviction looked at its page last.
    pub(crate) is_used: Cell<bool>,
}

/// Memory of an attribute beside its bytes, about.
const XATTR_BYTES: usize = 96;

impl Onode {
    /// Memory beside the entry itself and what is pending, about.
    pub(crate) fn heap_bytes(&self) -> u64 {
        let xattrs: usize =
            self.xattrs.iter().map(|(name, value)| XATTR_BYTES + name.len() + value.len()).sum();
        (xattrs + self.omap_header.len()) as u64 + self.extents.heap_bytes()
    }
}

/// What is pending is a checkpoint's on its own.
impl Encode for Onode {
    fn encode(&self, out: &mut Vec<u8>, f: Features) {
        self.size.encode(out, f);
        self.extents.encode(out, f);
        self.xattrs.encode(out, f);
        self.omap_header.encode(out, f);
    }
}

impl Decode for Onode {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Onode {
            size: Decode::decode(input)?,
            extents: Decode::decode(input)?,
            xattrs: Decode::decode(input)?,
            omap_header: Decode::decode(input)?,
            ..Onode::default()
        })
    }
}
