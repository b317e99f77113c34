//! The two blocks that say what is on the device. See docs/formats/store.md.

use bytes::Bytes;
use codec::{BLOCK_BYTES, Codec, Decode, Encode, Features, Reader, crc32c};
use types::Uuid;

use crate::{DeviceRole, DeviceSizes, JournalKey, StoreIdentity, device::BLOCK, runs::Runs, space::Run};

pub(crate) const MAGIC: [u8; 8] = *b"LOLISTOR";
pub(crate) const LABEL_MAGIC: [u8; 8] = *b"LOLIDEVC";
pub(crate) const VERSION: u32 = 10;
/// The one before: its stores have no journal key, and their records bear the store's uuid.
const UNKEYED_VERSION: u32 = 9;
/// The one before that: its builds do not know that moves between collections may be under way, and its stores have
/// none.
const UNMOVED_VERSION: u32 = 8;
/// Those that this build reads.
pub(crate) const READ_VERSIONS: [u32; 3] = [UNMOVED_VERSION, UNKEYED_VERSION, VERSION];
/// Magic, version, checksum.
const HEADER_BYTES: usize = 16;
/// The blocks of the two copies: far enough apart that one misdirected write does not hit both.
pub(crate) const COPIES: [u64; 2] = [0, 16];
/// The first block after the superblocks' area.
pub(crate) const JOURNAL_START: u64 = 32;
/// Counters of a superblock are below this, so that none that counts on from there overflows: no store gets that far.
pub(crate) const COUNTER_END: u64 = 1 << 62;
/// Bytes of all stores' parts of a device at most: offsets have so many bits.
const DEVICE_BYTES_MAX: u64 = DeviceRole::Journal.base();
/// Runs that a root may consist of: they must fit the block.
pub(crate) const ROOT_RUNS_MAX: usize = 200;

const _: () = assert!(HEADER_BYTES == MAGIC.len() + 4 + 4);
const _: () = assert!(HEADER_BYTES + 256 + ROOT_RUNS_MAX * 16 <= BLOCK_BYTES);
const _: () = assert!(COPIES[1] < JOURNAL_START);

/// Bytes of the index on the device, with the checksum that its parent keeps.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Blob {
    pub(crate) runs: Runs,
    pub(crate) bytes: u32,
    pub(crate) crc: u32,
}

impl Blob {
    /// Bytes that it takes on the device: whole blocks.
    pub(crate) fn device_bytes(&self) -> u64 {
        u64::from(self.bytes).next_multiple_of(BLOCK)
    }

    /// True if it has as many blocks as its bytes need, and some.
    pub(crate) fn is_measured(&self) -> bool {
        let blocks = self.runs.iter().map(|run| run.count).fold(0, u64::saturating_add);
        blocks > 0 && u64::from(self.bytes).div_ceil(BLOCK) == blocks
    }
}

/// What a checkpoint makes true.
#[derive(Codec, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// Names the store.
    pub(crate) store_uuid: Uuid,
    /// The cluster.
    pub(crate) fsid: Uuid,
    /// The OSD whose store it is.
    pub(crate) osd: u32,
    /// Which of the OSD's stores this is, and how many share the device, a region each.
    pub(crate) shard: u16,
    pub(crate) shards: u16,
    /// Grows by one with each superblock written; the newest wins.
    pub(crate) sequence: u64,
    /// Size of the device, or of the store's part of it.
    pub(crate) device_bytes: u64,
    /// The sizes with which the store was made, of the main, journal and index devices; 0 for none.
    pub(crate) made_with: (u64, u64, u64),
    pub(crate) journal: Run,
    pub(crate) area: Run,
    /// Where the index is if it has a device of its own; none otherwise.
    pub(crate) index_area: Run,
    /// Grows by one with each mount; records of other epochs do not replay.
    pub(crate) epoch: u64,
    /// Where the first record after this checkpoint is, in blocks since the epoch's start.
    pub(crate) journal_position: u64,
    /// Its sequence number.
    pub(crate) journal_sequence: u64,
    /// The last transaction that the index holds.
    pub(crate) last_txn: u64,
    /// 1 after an orderly unmount.
    pub(crate) is_clean: u8,
    pub(crate) root: Blob,
    /// What records bear; none in older versions, whose superblocks have zeros behind the root.
    pub(crate) journal_key: JournalKey,
}

impl Superblock {
    /// Whose store it is.
    pub(crate) fn identity(&self) -> StoreIdentity {
        StoreIdentity {
            store_uuid: self.store_uuid,
            fsid: self.fsid,
            osd: self.osd,
            shard: self.shard,
            shards: self.shards,
        }
    }

    /// What the journal's records bear: those of other stores, and data of clients, do not replay.
    pub(crate) fn record_key(&self) -> JournalKey {
        if self.journal_key == JournalKey::NONE {
            JournalKey::new(self.store_uuid.0)
        } else {
            self.journal_key
        }
    }

    /// The block as it is on the device.
    pub(crate) fn to_block(&self) -> Vec<u8> {
        sealed(MAGIC, self)
    }

    /// Reads a block; `None` if it is no valid superblock of a version that is known.
    pub(crate) fn from_block(block: &[u8]) -> Option<Superblock> {
        opened(MAGIC, block).filter(Superblock::is_sane)
    }

    /// The version that a block is of which is a superblock, or at least was when a build of that version wrote it.
    pub(crate) fn version_of(block: &[u8]) -> Option<u32> {
        version_of(MAGIC, block)
    }

    /// True if that device is one of its own.
    pub(crate) fn has_device(&self, role: DeviceRole) -> bool {
        match role {
            DeviceRole::Main => true,
            DeviceRole::Journal => self.journal.start >= DeviceRole::Journal.base_block(),
            DeviceRole::Index => self.index_area.count > 0,
        }
    }

    /// Takes in what a device has become larger by.
    pub(crate) fn grow(&mut self, sizes: &DeviceSizes) {
        let blocks = |bytes: u64| bytes / BLOCK;
        if blocks(sizes.main) > blocks(self.device_bytes) {
            self.device_bytes = blocks(sizes.main) * BLOCK;
            self.area.count = blocks(sizes.main) - self.area.start;
        }
        if let (Some(bytes), true) = (sizes.index, self.has_device(DeviceRole::Index)) {
            let count = blocks(bytes).saturating_sub(JOURNAL_START);
            self.index_area.count = self.index_area.count.max(count);
        }
    }

    /// True if this can be a part of the index: in blocks that may hold one, as many as it needs, and each once.
    pub(crate) fn holds_index(&self, blob: &Blob) -> bool {
        let areas = [self.area, self.index_area];
        let is_inside = |run: &Run| areas.iter().any(|area| area.holds(*run));
        let room = areas.iter().map(|area| area.count * BLOCK).sum();
        blob.runs.iter().all(is_inside) && blob.is_measured() && u64::from(blob.bytes) <= room
    }

    fn is_sane(&self) -> bool {
        let counters =
            [self.sequence, self.epoch, self.journal_position, self.journal_sequence, self.last_txn];
        let (main, journal, index) = self.made_with;
        let is_size = |bytes: u64| bytes.saturating_mul(self.shards.into()) <= DEVICE_BYTES_MAX;
        if counters.iter().any(|counter| *counter >= COUNTER_END)
            || ![main, journal, index].into_iter().all(is_size)
            || self.device_bytes > DEVICE_BYTES_MAX
            // Each checkpoint has a root, and each mount ends with one.
            || self.root.runs.is_empty() && (self.epoch, self.last_txn) != (1, 0)
            || !self.shards.is_power_of_two()
        {
            return false;
        }
        let own = |run: Run, role: DeviceRole| run.start == role.base_block() + JOURNAL_START;
        let fits =
            |run: Run, role: DeviceRole| run.count < DeviceRole::Journal.base_block() && own(run, role);
        let begin = if self.has_device(DeviceRole::Journal) {
            fits(self.journal, DeviceRole::Journal).then_some(JOURNAL_START)
        } else {
            fits(self.journal, DeviceRole::Main).then(|| self.journal.end())
        };
        self.shard < self.shards
            && self.made_with.0 / BLOCK <= self.device_bytes / BLOCK
            && self.journal.count > 0
            && begin == Some(self.area.start)
            && self
                .area
                .start
                .checked_add(self.area.count)
                .is_some_and(|end| end <= self.device_bytes / BLOCK)
            && (self.index_area.count == 0 || fits(self.index_area, DeviceRole::Index))
    }
}

/// What the first block of a journal or index device says, and its copy.
#[derive(Codec, Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceLabel {
    /// The store that it belongs to.
    pub(crate) store_uuid: Uuid,
    /// The cluster.
    pub(crate) fsid: Uuid,
    /// The OSD.
    pub(crate) osd: u32,
    /// 1: journal, 2: index.
    pub(crate) role: u8,
}

impl DeviceLabel {
    pub(crate) fn new(superblock: &Superblock, role: DeviceRole) -> DeviceLabel {
        let Superblock { store_uuid, fsid, osd, .. } = *superblock;
        DeviceLabel { store_uuid, fsid, osd, role: role as u8 }
    }

    pub(crate) fn to_block(&self) -> Vec<u8> {
        sealed(LABEL_MAGIC, self)
    }

    pub(crate) fn from_block(block: &[u8]) -> Option<DeviceLabel> {
        opened(LABEL_MAGIC, block)
    }
}

/// A block with magic, version and checksum.
fn sealed(magic: [u8; 8], body: &impl Encode) -> Vec<u8> {
    let mut out = Vec::with_capacity(BLOCK_BYTES);
    out.extend_from_slice(&magic);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    body.encode(&mut out, Features::default());
    assert!(out.len() <= BLOCK_BYTES, "root runs are limited so that a superblock fits");
    out.resize(BLOCK_BYTES, 0);
    let crc = crc32c(u32::MAX, &out);
    out[12..16].copy_from_slice(&crc.to_le_bytes());
    out
}

/// Its version, if magic and checksum fit: they are where they are in each version.
fn version_of(magic: [u8; 8], block: &[u8]) -> Option<u32> {
    if block.len() != BLOCK_BYTES || block[..8] != magic {
        return None;
    }
    let mut copy = block.to_vec();
    copy[12..16].fill(0);
    let version = block[8..12].try_into().ok().map(u32::from_le_bytes);
    version.filter(|_| crc32c(u32::MAX, &copy).to_le_bytes() == block[12..16])
}

/// Its body, if it is valid and of a version that is known.
fn opened<T: Decode>(magic: [u8; 8], block: &[u8]) -> Option<T> {
    if !READ_VERSIONS.contains(&version_of(magic, block)?) {
        return None;
    }
    T::decode(&mut Reader::new(Bytes::copy_from_slice(&block[HEADER_BYTES..]))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Store};

    /// That of a new store.
    fn new_block() -> Vec<u8> {
        let identity =
            StoreIdentity { store_uuid: Uuid([7; 16]), fsid: Uuid([8; 16]), osd: 3, shard: 0, shards: 1 };
        let key = JournalKey::new([9; 16]);
        let commands = Store::format(64 << 20, identity, key, &Config::default()).expect("large enough");
        let block = commands.into_iter().find_map(|command| match command {
            crate::DeviceCommand::Write { data, .. } if data.starts_with(&MAGIC) => Some(data.to_vec()),
            _ => None,
        });
        block.expect("a store begins with its superblock")
    }

    #[test]
    fn numbers_from_which_nothing_counts_on_are_refused() {
        let mut used = Superblock::from_block(&new_block()).expect("it is valid");
        used.root = Blob { runs: vec![Run { start: used.area.start, count: 1 }].into(), bytes: 9, crc: 7 };
        let is_read = |change: &dyn Fn(&mut Superblock)| {
            let mut changed = used.clone();
            change(&mut changed);
            Superblock::from_block(&changed.to_block()) == Some(changed)
        };
        let counters: [fn(&mut Superblock) -> &mut u64; 5] = [
            |superblock| &mut superblock.sequence,
            |superblock| &mut superblock.epoch,
            |superblock| &mut superblock.journal_position,
            |superblock| &mut superblock.journal_sequence,
            |superblock| &mut superblock.last_txn,
        ];
        for counter in counters {
            assert!(is_read(&|superblock| *counter(superblock) = COUNTER_END - 1));
            assert!(!is_read(&|superblock| *counter(superblock) = COUNTER_END));
            assert!(!is_read(&|superblock| *counter(superblock) = u64::MAX));
        }
        assert!(is_read(&|superblock| (superblock.shard, superblock.shards) = (1, 2)));
        assert!(!is_read(&|superblock| (superblock.shard, superblock.shards) = (1, 3)));
        assert!(is_read(&|superblock| superblock.made_with.1 = DEVICE_BYTES_MAX));
        assert!(!is_read(&|superblock| superblock.made_with.1 = DEVICE_BYTES_MAX + 1));
        assert!(!is_read(&|superblock| (superblock.shards, superblock.made_with.2) = (2, DEVICE_BYTES_MAX)));
        assert!(!is_read(&|superblock| superblock.device_bytes = u64::MAX));
        // A new store alone has no root.
        assert!(is_read(&|superblock| superblock.root = Blob::default()));
        assert!(!is_read(&|superblock| (superblock.epoch, superblock.root) = (2, Blob::default())));
        assert!(!is_read(&|superblock| (superblock.last_txn, superblock.root) = (1, Blob::default())));
    }

    #[test]
    fn a_part_of_the_index_is_in_blocks_that_may_hold_one_each_once() {
        let superblock = Superblock::from_block(&new_block()).expect("it is valid");
        let (start, count) = (superblock.area.start, superblock.area.count);
        let holds = |runs: Vec<Run>, blocks: u64| {
            superblock.holds_index(&Blob { runs: runs.into(), bytes: (blocks * BLOCK) as u32, crc: 0 })
        };
        assert!(holds(vec![Run { start, count }], count));
        assert!(!holds(vec![Run { start: start - 1, count: 2 }], 2));
        assert!(!holds(vec![Run { start, count: 2 }], 1));
        assert!(!holds(vec![Run { start, count }; 2], 2 * count));
    }

    #[test]
    fn the_versions_before_are_read_and_no_other() {
        let mut block = new_block();
        for (version, is_read) in [(7, false), (8, true), (9, true), (VERSION, true), (11, false)] {
            block[8..12].copy_from_slice(&u32::to_le_bytes(version));
            block[12..16].fill(0);
            let crc = crc32c(u32::MAX, &block);
            block[12..16].copy_from_slice(&crc.to_le_bytes());
            assert_eq!(Superblock::from_block(&block).is_some(), is_read, "{version}");
        }
    }
}
