//! A disk in memory that forgets, tears, reorders and garbles, for tests and the simulator.
//!
//! Writes that were not flushed, nor durable by themselves when they were answered, may be lost at a
//! crash: each block of them on its own, some torn with each sector old or new, and now and then a sector with
//! bits that nobody wrote. Discarded blocks hold anything.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use codec::{AlignedBuf, BLOCK_BYTES};
use rand::Rng;
use types::Token;

use crate::{
    Config, DeviceCommand, DeviceError, DeviceRole, DeviceSizes, Fsck, FsckReport, JournalKey, Mount,
    MountError, Store,
};

const SECTOR_BYTES: usize = 512;
/// What a mount gives stores that have no journal key.
const NEW_KEY: JournalKey = JournalKey::new([0x5e; 16]);

/// A write that a crash may undo.
#[derive(Clone, Debug)]
struct Unflushed {
    offset: u64,
    data: Bytes,
}

/// The disk, or several: [`crate::DeviceRole::of`] an offset. Commands are executed when [`VirtualDisk::step`] picks
/// them, in any order.
#[derive(Clone, Debug)]
pub struct VirtualDisk {
    sizes: DeviceSizes,
    blocks: BTreeMap<u64, Bytes>,
    /// Executed and answered, not durable: in order.
    unflushed: Vec<Unflushed>,
    queue: Vec<DeviceCommand>,
    is_lying: bool,
    /// Blocks that cannot be read until they are written.
    unreadable: BTreeSet<u64>,
    /// Of a thousand commands, how many fail.
    failing: u32,
}

impl VirtualDisk {
    /// A disk of zeros.
    pub fn new(sizes: impl Into<DeviceSizes>) -> VirtualDisk {
        VirtualDisk {
            sizes: sizes.into(),
            blocks: BTreeMap::new(),
            unflushed: Vec::new(),
            queue: Vec::new(),
            is_lying: false,
            unreadable: BTreeSet::new(),
            failing: 0,
        }
    }

    /// Makes the block at an offset unreadable until it is written.
    pub fn set_unreadable(&mut self, offset: u64) {
        self.unreadable.insert(offset / BLOCK_BYTES as u64);
    }

    /// From now on so many of a thousand commands fail that [`VirtualDisk::step`] picks; of a write that does, any part
    /// may have been written.
    pub fn set_failing(&mut self, per_thousand: u32) {
        self.failing = per_thousand;
    }

    /// From now on it says that writes are durable, and flushed, that are not.
    pub fn set_lying(&mut self, is_lying: bool) {
        self.is_lying = is_lying;
    }

    /// The main device's size in bytes.
    pub fn bytes(&self) -> u64 {
        self.sizes.main
    }

    /// The sizes of all.
    pub fn sizes(&self) -> DeviceSizes {
        self.sizes
    }

    /// Makes devices larger, or smaller.
    pub fn resize(&mut self, sizes: impl Into<DeviceSizes>) {
        self.sizes = sizes.into();
    }

    fn has(&self, offset: u64, len: u64) -> bool {
        let (role, at) = DeviceRole::of(offset);
        self.sizes.get(role).is_some_and(|bytes| at + len <= bytes)
    }

    /// Queues commands.
    // `bench/instructions` tells by the functions what is the device's.
    #[inline(never)]
    pub fn submit(&mut self, commands: impl IntoIterator<Item = DeviceCommand>) {
        self.queue.extend(commands);
    }

    /// Executes one of the queued commands, any, and returns its answer.
    #[inline(never)]
    pub fn step(&mut self, rng: &mut impl Rng) -> Option<(Token, Result<Option<Bytes>, DeviceError>)> {
        if self.queue.is_empty() {
            return None;
        }
        let at = rng.random_range(0..self.queue.len());
        let command = self.queue.swap_remove(at);
        if self.failing > 0 && rng.random_ratio(self.failing, 1_000) {
            return Some((self.fail(command, rng), Err(DeviceError::Io)));
        }
        Some(self.execute(command))
    }

    fn fail(&mut self, command: DeviceCommand, rng: &mut impl Rng) -> Token {
        match command {
            DeviceCommand::Write { token, offset, data, more, .. } => {
                let data = joined(data, &more);
                // What is in the cache below it is lost or not, as if it had been written before.
                self.settle(offset, data.len() as u64);
                self.put_some(offset, &data, rng);
                token
            }
            DeviceCommand::Read { token, .. }
            | DeviceCommand::Flush { token }
            | DeviceCommand::Discard { token, .. } => token,
        }
    }

    /// Executes a command at once.
    pub fn execute(&mut self, command: DeviceCommand) -> (Token, Result<Option<Bytes>, DeviceError>) {
        match command {
            DeviceCommand::Read { token, offset, len } => (token, self.read(offset, len).map(Some)),
            DeviceCommand::Write { token, offset, data, more, durable } => {
                let data = joined(data, &more);
                if !self.has(offset, data.len() as u64) {
                    return (token, Err(DeviceError::Io));
                }
                if durable && !self.is_lying {
                    // Older writes of the same blocks must not come back over this one.
                    self.settle(offset, data.len() as u64);
                    self.put(offset, &data);
                } else {
                    self.unflushed.push(Unflushed { offset, data });
                }
                (token, Ok(None))
            }
            DeviceCommand::Flush { token } if self.is_lying => (token, Ok(None)),
            DeviceCommand::Flush { token } => {
                for write in std::mem::take(&mut self.unflushed) {
                    self.put(write.offset, &write.data);
                }
                (token, Ok(None))
            }
            DeviceCommand::Discard { token, offset, len } => {
                self.discard(token, offset, len);
                (token, Ok(None))
            }
        }
    }

    /// Executes a machine's commands, in any order, until it has what it is for.
    pub fn drive<M, T>(
        &mut self,
        rng: &mut impl Rng,
        machine: &mut M,
        take_commands: fn(&mut M) -> Vec<DeviceCommand>,
        device_done: fn(&mut M, Token, Result<Option<Bytes>, DeviceError>),
        take: impl Fn(&mut M) -> Option<T>,
    ) -> T {
        loop {
            self.submit(take_commands(machine));
            if let Some(result) = take(machine) {
                return result;
            }
            let (token, result) = self.step(rng).expect("a machine that is not done waits for the disk");
            device_done(machine, token, result);
        }
    }

    /// Mounts the store on it.
    pub fn mount(&mut self, config: Config, rng: &mut impl Rng) -> Result<Store, MountError> {
        let mut mount: Mount = Store::mount(self.sizes, config, NEW_KEY);
        self.drive(rng, &mut mount, Mount::take_commands, Mount::device_done, Mount::take)
    }

    /// Checks the store on it, all data included.
    pub fn fsck(&mut self, config: Config, rng: &mut impl Rng) -> FsckReport {
        let mut fsck = Fsck::new(self.sizes, config, true);
        self.drive(rng, &mut fsck, Fsck::take_commands, Fsck::device_done, Fsck::take)
    }

    /// Cuts the power: of what is queued or not flushed, each block survives, or not, or in part. The queue is
    /// lost.
    pub fn crash(&mut self, rng: &mut impl Rng) {
        for write in std::mem::take(&mut self.unflushed) {
            self.put_some(write.offset, &write.data, rng);
        }
        for command in std::mem::take(&mut self.queue) {
            match command {
                DeviceCommand::Write { offset, data, more, .. } => {
                    self.put_some(offset, &joined(data, &more), rng);
                }
                DeviceCommand::Discard { token, offset, len } if rng.random_bool(0.5) => {
                    self.discard(token, offset, len);
                }
                DeviceCommand::Discard { .. } | DeviceCommand::Read { .. } | DeviceCommand::Flush { .. } => {}
            }
        }
    }

    /// Kills the host, which the disk does not notice: each queued command is executed, or not. What is not flushed is
    /// in the disk's cache as before, and what was on its way to being durable is there, too.
    pub fn kill(&mut self, rng: &mut impl Rng) {
        for command in std::mem::take(&mut self.queue) {
            match command {
                DeviceCommand::Write { offset, data, more, .. } if rng.random_bool(0.5) => {
                    self.unflushed.push(Unflushed { offset, data: joined(data, &more) });
                }
                DeviceCommand::Discard { token, offset, len } if rng.random_bool(0.5) => {
                    self.discard(token, offset, len);
                }
                DeviceCommand::Write { .. }
                | DeviceCommand::Discard { .. }
                | DeviceCommand::Read { .. }
                | DeviceCommand::Flush { .. } => {}
            }
        }
    }

    /// Cuts the power when nothing that was answered is lost, and nothing else survives.
    pub fn crash_cleanly(&mut self) {
        self.queue.clear();
        for write in std::mem::take(&mut self.unflushed) {
            self.put(write.offset, &write.data);
        }
    }

    /// The offsets of blocks that are not as they were made, in bytes.
    pub fn written_offsets(&self) -> Vec<u64> {
        self.blocks.keys().map(|block| block * BLOCK_BYTES as u64).collect()
    }

    /// Inverts one bit of what is on the disk.
    pub fn flip_bit(&mut self, offset: u64, bit: u8) {
        let block = offset / BLOCK_BYTES as u64;
        let mut data = AlignedBuf::from_slice(&self.block(block));
        data.as_mut_slice()[(offset % BLOCK_BYTES as u64) as usize] ^= 1 << (bit % 8);
        self.blocks.insert(block, data.into());
    }

    fn read(&self, offset: u64, len: u64) -> Result<Bytes, DeviceError> {
        let blocks = offset / BLOCK_BYTES as u64..(offset + len).div_ceil(BLOCK_BYTES as u64);
        let mut unreadable = self.unreadable.range(blocks);
        if !self.has(offset, len) || unreadable.any(|block| !self.is_in_cache(*block)) {
            return Err(DeviceError::Io);
        }
        let mut out = AlignedBuf::zeroed(len as usize);
        let first = offset / BLOCK_BYTES as u64;
        for (at, chunk) in out.as_mut_slice().chunks_mut(BLOCK_BYTES).enumerate() {
            chunk.copy_from_slice(&self.block(first + at as u64));
        }
        for write in &self.unflushed {
            let low = write.offset.max(offset);
            let high = (write.offset + write.data.len() as u64).min(offset + len);
            if low < high {
                let part = &write.data[(low - write.offset) as usize..(high - write.offset) as usize];
                out.as_mut_slice()[(low - offset) as usize..(high - offset) as usize].copy_from_slice(part);
            }
        }
        Ok(out.into())
    }

    /// True for a block that was written and not flushed.
    fn is_in_cache(&self, block: u64) -> bool {
        let at = block * BLOCK_BYTES as u64;
        self.unflushed
            .iter()
            .any(|write| (write.offset..write.offset + write.data.len() as u64).contains(&at))
    }

    fn block(&self, block: u64) -> Bytes {
        self.blocks.get(&block).cloned().unwrap_or_else(|| Bytes::from(AlignedBuf::zeroed(BLOCK_BYTES)))
    }

    fn put(&mut self, offset: u64, data: &Bytes) {
        let first = offset / BLOCK_BYTES as u64;
        for (at, chunk) in data.chunks(BLOCK_BYTES).enumerate() {
            self.unreadable.remove(&(first + at as u64));
            self.blocks.insert(first + at as u64, data.slice_ref(chunk));
        }
    }

    /// A device may answer discarded blocks with zeros, with what was there, or with neither.
    fn discard(&mut self, token: Token, offset: u64, len: u64) {
        self.settle(offset, len);
        for block in offset / BLOCK_BYTES as u64..(offset + len).div_ceil(BLOCK_BYTES as u64) {
            match token.0 % 3 {
                0 => drop(self.blocks.remove(&block)),
                1 => drop(self.blocks.insert(block, Bytes::from_static(&[0xd5; BLOCK_BYTES]))),
                _ => {}
            }
        }
    }

    fn put_some(&mut self, offset: u64, data: &Bytes, rng: &mut impl Rng) {
        let first = offset / BLOCK_BYTES as u64;
        // A cut at once, or at every block by chance: both happen.
        let chance = *[0.0, 0.5, 1.0].get(rng.random_range(0..3)).unwrap_or(&0.5);
        for (at, chunk) in data.chunks(BLOCK_BYTES).enumerate() {
            let block = first + at as u64;
            if rng.random_bool(chance) {
                self.unreadable.remove(&block);
                self.blocks.insert(block, data.slice_ref(chunk));
            } else if rng.random_bool(0.2) {
                let torn = torn(&self.block(block), chunk, rng);
                self.blocks.insert(block, torn);
            }
        }
    }

    fn settle(&mut self, offset: u64, len: u64) {
        let end = offset + len;
        let overlaps = |w: &Unflushed| w.offset < end && offset < w.offset + w.data.len() as u64;
        let (hit, kept) = std::mem::take(&mut self.unflushed).into_iter().partition(overlaps);
        self.unflushed = kept;
        let hit: Vec<Unflushed> = hit;
        hit.iter().for_each(|write| self.put(write.offset, &write.data));
    }
}

/// What a write has, in one piece of the disk's own memory: a device keeps nothing of its host's.
fn joined(data: Bytes, more: &[Bytes]) -> Bytes {
    let parts = std::iter::once(&data).chain(more);
    let is_fit = |part: &Bytes| {
        part.len().is_multiple_of(BLOCK_BYTES) && (part.as_ptr() as usize).is_multiple_of(SECTOR_BYTES)
    };
    assert!(parts.clone().all(is_fit), "a device takes whole blocks of aligned memory");
    Bytes::from(parts.map(|part| &part[..]).collect::<Vec<_>>().concat())
}

/// A block of which some sectors were written, and perhaps one spoiled.
fn torn(old: &[u8], new: &[u8], rng: &mut impl Rng) -> Bytes {
    let mut out = AlignedBuf::from_slice(old);
    for (sector, written) in out.as_mut_slice().chunks_mut(SECTOR_BYTES).zip(new.chunks(SECTOR_BYTES)) {
        if rng.random_bool(0.5) {
            sector.copy_from_slice(written);
        }
    }
    if rng.random_bool(0.3) {
        let (at, bit) = (rng.random_range(0..BLOCK_BYTES), rng.random_range(0..8));
        out.as_mut_slice()[at] ^= 1 << bit;
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::StdRng};

    use super::*;

    fn read(disk: &mut VirtualDisk) -> Result<Option<Bytes>, DeviceError> {
        disk.execute(DeviceCommand::Read { token: Token(1), offset: 0, len: BLOCK_BYTES as u64 }).1
    }

    fn write(disk: &mut VirtualDisk, durable: bool) {
        let data = Bytes::from(AlignedBuf::from_slice(&[7; BLOCK_BYTES]));
        let write = DeviceCommand::Write { token: Token(2), offset: 0, data, more: Vec::new(), durable };
        disk.execute(write).1.unwrap();
    }

    #[test]
    fn an_unreadable_block_is_readable_from_the_cache_on_and_for_good_once_that_is_flushed() {
        for is_flushed in [false, true] {
            let mut disk = VirtualDisk::new(1 << 20);
            disk.set_unreadable(100);
            assert_eq!(read(&mut disk), Err(DeviceError::Io));
            write(&mut disk, false);
            assert_eq!(read(&mut disk).unwrap().unwrap()[0], 7);
            if is_flushed {
                disk.execute(DeviceCommand::Flush { token: Token(3) }).1.unwrap();
                disk.crash(&mut StdRng::seed_from_u64(1));
                assert_eq!(read(&mut disk).unwrap().unwrap()[0], 7);
            }
        }
    }
}
