//! One store shard: objects with data, xattrs and omap, in collections, changed by atomic, durable transactions.
//!
//! [`ObjectStore`] is what a PG sees. It has two implementations: [`MemStore`], the reference model for tests, and
//! [`Store`], the real store (journal, allocator, index, checksums), whose device commands are effects.
//! docs/formats/store.md draws its on-disk format and argues its crash safety.
//!
//! Invariants: no IO, no clock; completions come back as events. The store knows no message and no PG.

mod cache;
mod config;
mod device;
mod extent_map;
mod flat_map;
mod fsck;
mod index;
mod journal;
mod machine;
mod mem_store;
mod object_store;
mod onode;
mod pending;
mod pool_usage;
mod runs;
mod space;
mod superblock;
pub mod virtual_disk;

pub use config::Config;
pub use device::{DeviceCommand, DeviceError, DeviceRole, DeviceSizes, DeviceWaits};
pub use fsck::{Fsck, FsckReport, Owner, Problem, StoreCounts};
pub use journal::JournalKey;
pub use machine::{
    Activity, DeviceOwner, IndexMemory, Inspected, JournalRecord, Label, LayoutExtent, Mount, MountError,
    ObjectLayout, Replayed, Store, StoreIdentity, SuperblockInfo,
};
pub use mem_store::MemStore;
pub use object_store::{
    Cached, Completion, MemoryUse, MetaWith, NotCached, ObjectMeta, ObjectStore, OmapMost, ReadError,
    StoreUsage,
};
