//! The sizes that govern a store.

/// Limits of a store shard. The journal's size is fixed when the store is made; the rest may differ
/// from mount to mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bytes of the journal ring; 0 chooses an eighth of the device, at most 512 MiB.
    pub journal_bytes: u64,
    /// Writes of more bytes than this go straight to new space, smaller ones by the journal.
    pub small_write_bytes_max: u64,
    /// Journal writes in flight at once; later transactions wait and share the next write. A mount knows by it
    /// which records were durable: after a crash it must not be smaller than before.
    pub journal_writes_max: usize,
    /// Bytes of one journal record's body at which it is closed.
    pub record_bytes_max: usize,
    /// Bytes of memory for pending small writes, what each takes beside its bytes included. From half of it on they are
    /// flushed to their places, faster the more there are.
    pub pending_bytes_max: u64,
    /// Bytes of clean data blocks kept in memory.
    pub cache_bytes_max: u64,
    /// Bytes of data that are read from the device at a time for those who ask for it; a longer read goes alone.
    pub reading_bytes_max: u64,
    /// Bytes of memory for index pages that can be read again: they give way beyond it. What a transaction or a
    /// reader needs, what changed and what the OSD keeps for itself is in memory whatever this says.
    pub index_bytes_max: u64,
    /// Bytes of an index page; one with more is split. At least 256.
    pub page_bytes_max: usize,
    /// Objects that are moved or removed at once; larger collections are split, merged and removed in steps.
    pub step_objects_max: usize,
    /// Whether zeros are written ahead of the journal's first lap: cheaper on a file, of no use on a device.
    pub prepares_journal: bool,
    /// Whether freed space is discarded on the device, as long as it takes that.
    pub discard: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            journal_bytes: 0,
            small_write_bytes_max: 64 << 10,
            journal_writes_max: 2,
            record_bytes_max: 4 << 20,
            pending_bytes_max: 64 << 20,
            cache_bytes_max: 64 << 20,
            reading_bytes_max: 64 << 20,
            index_bytes_max: u64::MAX,
            page_bytes_max: 16 << 10,
            step_objects_max: 128,
            prepares_journal: false,
            discard: true,
        }
    }
}
