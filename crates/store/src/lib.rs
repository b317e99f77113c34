//! One store shard: objects with data, xattrs and omap in collections, changed by transactions that
//! are durable whole or not at all.
//!
//! [`ObjectStore`] is what a PG sees. It has two implementors: [`MemStore`], the reference model that
//! tests compare against, and the store proper (journal, allocator, index, checksums), whose device
//! commands are effects.
//!
//! Invariants: no IO, no clock; completions come back as events. The store knows no message and no PG.

mod mem_store;
mod object_store;

pub use mem_store::MemStore;
pub use object_store::{Completion, Missing, ObjectMeta, ObjectStore, ReadError, StoreUsage};
