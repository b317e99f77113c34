//! What may be wrong in a store, in words for its operator.

use std::fmt;

use thiserror::Error;
use types::{CollId, HObject, PoolId};

use crate::{
    MountError, ReadError,
    device::{BLOCK, spot},
};

/// What uses a block of the data area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// Data of an object, or of several that share it.
    Data,
    /// A page of the index.
    Page,
    /// The index' root.
    Root,
    /// Nothing: the block is free.
    Free,
    /// Nothing any more: the block is free after the next checkpoint.
    Quarantine,
    /// Nothing: the block is being discarded.
    Discard,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Owner::Data => "an object's data",
            Owner::Page => "an index page",
            Owner::Root => "the index' root",
            Owner::Free => "the free space",
            Owner::Quarantine => "the space to be freed",
            Owner::Discard => "the space being discarded",
        })
    }
}

/// Something wrong in a store. Offsets are bytes on the device unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// The store cannot be opened at all.
    #[error("the store cannot be opened: {0}")]
    Unmountable(MountError),
    /// Part of the index is not what was written: what it names is lost here.
    #[error("corrupt {what} at {}", spot(*offset))]
    Index {
        /// Which part.
        what: &'static str,
        /// Where it begins.
        offset: u64,
    },
    /// A block has two owners that do not know of each other.
    #[error("the block at {} is used twice: by {first} and by {second}", spot(*offset))]
    Overlap {
        /// Where.
        offset: u64,
        /// One of them.
        first: Owner,
        /// The other.
        second: Owner,
    },
    /// Blocks belong to nothing and are not free.
    #[error("{bytes} bytes from {} on are lost: neither used nor free", spot(*offset))]
    Leaked {
        /// Where the first one is.
        offset: u64,
        /// How much.
        bytes: u64,
    },
    /// A block is not used as often as the allocator thinks.
    #[error("the block at {} is used {found} times, the allocator says {expected}", spot(*offset))]
    References {
        /// Where.
        offset: u64,
        /// The allocator's count.
        expected: u32,
        /// The index' count.
        found: u32,
    },
    /// A counter is not what a count finds.
    #[error("{what}: the store says {expected}, there are {found}")]
    Count {
        /// Of what.
        what: &'static str,
        /// The counter.
        expected: u64,
        /// The count.
        found: u64,
    },
    /// The recorded usage of a pool differs from what a count finds.
    #[error("{what} of pool {pool}: the store says {expected}, there are {found}")]
    Pool {
        /// Which one.
        pool: PoolId,
        /// Of what.
        what: &'static str,
        /// The counter.
        expected: u64,
        /// The count.
        found: u64,
    },
    /// Consecutive blocks of an object are not what was written, or unreadable.
    #[error("object {object} of {}.{:x}: {error}{}", coll.0.pool.0, coll.0.seed, extent(*offset, *bytes))]
    Data {
        /// Its collection.
        coll: CollId,
        /// Which object.
        object: HObject,
        /// What is wrong.
        error: ReadError,
        /// Byte offset in the object.
        offset: u64,
        /// How much.
        bytes: u64,
    },
    /// More blocks of objects are not what was written, or unreadable, than are named.
    #[error("{blocks} more blocks of objects have a checksum mismatch, or cannot be read")]
    MoreData {
        /// How many.
        blocks: u64,
    },
}

/// Where a problem's blocks are, if it has more than the one that its error names.
fn extent(offset: u64, bytes: u64) -> String {
    if bytes > BLOCK { format!(", {bytes} bytes from byte {offset} on") } else { String::new() }
}
