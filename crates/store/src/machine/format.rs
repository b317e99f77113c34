//! Making a store.

use bytes::Bytes;
use codec::AlignedBuf;
use types::{Token, Uuid};

use super::Store;
use crate::{
    Config, DeviceCommand, DeviceRole, DeviceSizes, JournalKey, MountError,
    device::BLOCK,
    space::Run,
    superblock::{Blob, COPIES, DeviceLabel, JOURNAL_START, Superblock},
};

/// Whose store it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreIdentity {
    /// Names the store, and its OSD where it is the first one.
    pub store_uuid: Uuid,
    /// The cluster.
    pub fsid: Uuid,
    /// The OSD's id.
    pub osd: u32,
    /// Which of the OSD's stores this is, from 0.
    pub shard: u16,
    /// How many stores the OSD has on the device, each in a region of its own.
    pub shards: u16,
}

/// What a superblock tells before the store is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Whose store it is.
    pub identity: StoreIdentity,
    /// Sizes of the devices, or of its regions of them, when it was made.
    pub regions: DeviceSizes,
}

/// The smallest journal, in blocks.
const JOURNAL_BLOCKS_MIN: u64 = 64;
/// The smallest data area, in blocks.
const AREA_BLOCKS_MIN: u64 = 128;
/// The largest journal that is chosen by itself, in bytes.
const JOURNAL_BYTES_DEFAULT_MAX: u64 = 512 << 20;

impl Store {
    /// Reads the label off the superblocks, which are at [`Store::LABEL_OFFSETS`] of the region; or says why
    /// neither is valid.
    pub fn label<'a>(blocks: impl IntoIterator<Item = &'a [u8]>) -> Result<Label, MountError> {
        let blocks: Vec<&[u8]> = blocks.into_iter().collect();
        let found = blocks.iter().filter_map(|block| Superblock::from_block(block));
        let versions = blocks.iter().filter_map(|block| Superblock::version_of(block));
        let newest = MountError::check_versions(found.max_by_key(|one| one.sequence), versions)?;
        let (main, journal, index) = newest.made_with;
        let part = |role, bytes| newest.has_device(role).then_some(bytes);
        let (journal, index) = (part(DeviceRole::Journal, journal), part(DeviceRole::Index, index));
        Ok(Label { identity: newest.identity(), regions: DeviceSizes { main, journal, index } })
    }

    /// Where the superblocks are, in bytes, each [`codec::BLOCK_BYTES`] long.
    pub const LABEL_OFFSETS: [u64; 2] = [COPIES[0] * BLOCK, COPIES[1] * BLOCK];

    /// The commands that make an empty store, to be executed in order, one after another; the last one
    /// is a flush. `None` if a device is too small. The key is drawn anew for each store that is made: what an earlier
    /// one left on the device, though its uuid be the same, is never taken for the store's own.
    pub fn format(
        sizes: impl Into<DeviceSizes>,
        identity: StoreIdentity,
        journal_key: JournalKey,
        config: &Config,
    ) -> Option<Vec<DeviceCommand>> {
        let superblock = Superblock { journal_key, ..plan(&sizes.into(), identity, config)? };
        let mut out = Vec::new();
        let mut write = |offset: u64, block: Vec<u8>| {
            let (token, data) = (Token(out.len() as u64 + 1), Bytes::from(AlignedBuf::from_slice(&block)));
            out.push(DeviceCommand::Write { token, offset, data, more: Vec::new(), durable: true });
        };
        for role in [DeviceRole::Journal, DeviceRole::Index] {
            for block in COPIES.iter().filter(|_| superblock.has_device(role)) {
                write(role.base() + block * BLOCK, DeviceLabel::new(&superblock, role).to_block());
            }
        }
        for (at, block) in COPIES.into_iter().enumerate() {
            // In the copies in which checkpoints of these numbers lie: the next one goes over the older of the two.
            let superblock = Superblock { sequence: COPIES.len() as u64 - at as u64, ..superblock.clone() };
            write(block * BLOCK, superblock.to_block());
        }
        out.push(DeviceCommand::Flush { token: Token(out.len() as u64 + 1) });
        Some(out)
    }
}

/// What goes where.
fn plan(sizes: &DeviceSizes, identity: StoreIdentity, config: &Config) -> Option<Superblock> {
    let total = sizes.main / BLOCK;
    let room = |role: DeviceRole| Some((sizes.get(role)? / BLOCK).saturating_sub(JOURNAL_START));
    let start = |role: DeviceRole| role.base_block() + JOURNAL_START;
    let journal = match room(DeviceRole::Journal) {
        Some(room) => {
            let wanted =
                if config.journal_bytes == 0 { JOURNAL_BYTES_DEFAULT_MAX } else { config.journal_bytes };
            Run { start: start(DeviceRole::Journal), count: room.min(wanted / BLOCK) }
        }
        None => {
            let wanted = match config.journal_bytes {
                0 => (sizes.main / 8).min(JOURNAL_BYTES_DEFAULT_MAX),
                bytes => bytes,
            };
            Run { start: JOURNAL_START, count: (wanted / BLOCK).max(JOURNAL_BLOCKS_MIN) }
        }
    };
    let begin = if sizes.journal.is_some() { JOURNAL_START } else { journal.end() };
    let area = Run { start: begin, count: total.checked_sub(begin)? };
    let index_area = match room(DeviceRole::Index) {
        Some(count) if count > 0 => Run { start: start(DeviceRole::Index), count },
        Some(_) => return None,
        None => Run { start: 0, count: 0 },
    };
    if area.count < AREA_BLOCKS_MIN || journal.count < JOURNAL_BLOCKS_MIN {
        return None;
    }
    Some(Superblock {
        store_uuid: identity.store_uuid,
        fsid: identity.fsid,
        osd: identity.osd,
        shard: identity.shard,
        shards: identity.shards,
        sequence: 0,
        device_bytes: total * BLOCK,
        made_with: (sizes.main, sizes.journal.unwrap_or(0), sizes.index.unwrap_or(0)),
        journal,
        area,
        index_area,
        epoch: 1,
        journal_position: 0,
        journal_sequence: 1,
        last_txn: 0,
        is_clean: 1,
        root: Blob::default(),
        journal_key: JournalKey::NONE,
    })
}
