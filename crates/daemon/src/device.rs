//! A store's device commands on a file or block device.

use std::{io::ErrorKind, path::Path, thread, time::Duration};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use codec::BLOCK_BYTES;
use reactor::{Event, FileId, OpenOptions, Reactor};
use store::{
    Config as StoreConfig, DeviceCommand, DeviceError, Label, Mount, Replayed, Store, StoreIdentity,
};
use types::Token;

/// How often the lock of a device is tried before another process is said to have it: the kernel lets
/// go of a killed process' files only when its last device command has ended.
const LOCK_ATTEMPTS: u32 = 100;

/// The same for a command of the operator.
const LOCK_ATTEMPTS_OFFLINE: u32 = 5;

/// Pause between two attempts.
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// What a command came to: reads with their bytes.
pub(crate) type Answer = (Token, Result<Option<Bytes>, DeviceError>);

/// How a device is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Access {
    /// By nobody else at the same time.
    Exclusive,
    /// The same, where the OSD is expected not to run: one that does is not waited for.
    Offline,
    /// Exclusive, and a file of so many bytes is made if there is none.
    Create(u64),
    /// Besides a shard of the same process that has it to the exclusion of other processes.
    Shared,
}

/// Regions of several stores on a device begin at multiples of this.
const REGION_ALIGN: u64 = 1 << 20;

/// An open device, or a shard's region of it.
pub(crate) struct Device {
    file: FileId,
    /// Where the region begins, in bytes.
    base: u64,
    pub(crate) bytes: u64,
    is_block_device: bool,
}

impl Device {
    /// Opens the whole of `path` for O_DIRECT.
    pub(crate) fn open(reactor: &mut Reactor, path: &Path, access: Access) -> Result<Device> {
        let (size, lock, attempts) = match access {
            Access::Exclusive => (None, true, LOCK_ATTEMPTS),
            Access::Offline => (None, true, LOCK_ATTEMPTS_OFFLINE),
            Access::Create(bytes) => (Some(bytes), true, LOCK_ATTEMPTS),
            Access::Shared => (None, false, 1),
        };
        let options = OpenOptions { direct: true, create: size.is_some(), size, lock };
        let file = open_when_unlocked(reactor, path, options, attempts)?;
        let bytes = reactor.size(file).with_context(|| path.display().to_string())?;
        Ok(Device { file, base: 0, bytes, is_block_device: reactor.is_block_device(file) })
    }

    /// The region of one shard, where each has so many bytes.
    pub(crate) fn region(&self, shard: u16, bytes: u64) -> Device {
        Device { base: u64::from(shard) * bytes, bytes, ..*self }
    }

    /// What the first store on it tells of itself.
    pub(crate) fn label(&self, reactor: &mut Reactor) -> Result<Label> {
        let mut blocks = Vec::new();
        for offset in Store::LABEL_OFFSETS {
            let token = Token(offset);
            self.submit(vec![DeviceCommand::Read { token, offset, len: BLOCK_BYTES as u64 }], reactor);
            let read = self.wait(reactor)?;
            blocks.extend(read.into_iter().filter_map(|(_, block)| block.ok().flatten()));
        }
        let label = Store::label(blocks.iter().map(|block| &block[..]));
        label.context("there is no store on the device, or one of another version")
    }

    /// Starts commands; each ends with an event.
    pub(crate) fn submit(&self, commands: Vec<DeviceCommand>, reactor: &mut Reactor) {
        for command in commands {
            match command {
                DeviceCommand::Read { token, offset, len } => {
                    reactor.read(self.file, token.0, self.base + offset, len as usize);
                }
                DeviceCommand::Write { token, offset, data, durable } => {
                    reactor.write(self.file, token.0, self.base + offset, vec![data], durable);
                }
                DeviceCommand::Flush { token } => reactor.sync(self.file, token.0),
                DeviceCommand::Discard { token, offset, len } => {
                    reactor.discard(self.file, token.0, self.base + offset, len);
                }
            }
        }
    }

    /// What an event says of a command.
    pub(crate) fn done(token: u64, result: Result<Bytes, reactor::FileError>) -> Answer {
        let result = result.map(Some).map_err(|error| {
            if error.source.kind() == ErrorKind::Unsupported {
                return DeviceError::Unsupported;
            }
            tracing::error!(%error, "the device failed");
            DeviceError::Io
        });
        (Token(token), result)
    }

    /// The settings of a store on it.
    pub(crate) fn store_config(&self) -> StoreConfig {
        StoreConfig { prepares_journal: !self.is_block_device, ..StoreConfig::default() }
    }

    /// Makes an empty store on it.
    fn format_region(&self, identity: StoreIdentity, reactor: &mut Reactor) -> Result<()> {
        let commands = Store::format(self.bytes, identity, &StoreConfig::default());
        let Some(commands) = commands else { bail!("{} bytes are too few for a store", self.bytes) };
        for command in commands {
            self.submit(vec![command], reactor);
            for (_, result) in self.wait(reactor)? {
                result?;
            }
        }
        Ok(())
    }

    /// Makes `identity.shards` empty stores on it, a region each.
    pub(crate) fn format(&self, identity: StoreIdentity, reactor: &mut Reactor) -> Result<()> {
        let count = identity.shards;
        let bytes = match count {
            1 => self.bytes,
            count => self.bytes / u64::from(count) / REGION_ALIGN * REGION_ALIGN,
        };
        // The first one tells that there are others: it comes last.
        for index in (0..count).rev() {
            let mut own = StoreIdentity { shard: index, ..identity };
            // What strays into another region is not taken for its own there.
            own.store_uuid[15] ^= index as u8;
            self.region(index, bytes).format_region(own, reactor)?;
        }
        Ok(())
    }

    /// Waits for at least one command; all that are done by then.
    pub(crate) fn wait(&self, reactor: &mut Reactor) -> Result<Vec<Answer>> {
        let (mut events, mut done) = (Vec::new(), Vec::new());
        while done.is_empty() {
            reactor.poll(None, &mut events)?;
            for event in events.drain(..) {
                if let Event::FileDone { token, result, .. } = event {
                    done.push(Device::done(token, result));
                }
            }
        }
        Ok(done)
    }

    /// Executes a machine's commands until it has what it is for.
    pub(crate) fn drive<M, T>(
        &self,
        reactor: &mut Reactor,
        machine: &mut M,
        take_commands: fn(&mut M) -> Vec<DeviceCommand>,
        device_done: fn(&mut M, Token, Result<Option<Bytes>, DeviceError>),
        take: impl Fn(&mut M) -> Option<T>,
    ) -> Result<T> {
        let mut in_flight = 0;
        loop {
            let commands = take_commands(machine);
            in_flight += commands.len();
            self.submit(commands, reactor);
            if let Some(result) = take(machine) {
                return Ok(result);
            }
            if in_flight == 0 {
                bail!("the store waits for nothing and does not end");
            }
            for (token, result) in self.wait(reactor)? {
                in_flight -= 1;
                device_done(machine, token, result);
            }
        }
    }

    /// Mounts the store on it.
    pub(crate) fn mount(&self, reactor: &mut Reactor) -> Result<Store> {
        let begin = reactor::clock::now();
        let mut mount = Store::mount(self.bytes, self.store_config());
        let store = self.drive(reactor, &mut mount, Mount::take_commands, Mount::device_done, Mount::take)?;
        let store = store.context("mounting the store")?;
        let Replayed { records, transactions, bytes } = store.replayed();
        let ms = (reactor::clock::now() - begin) / 1_000_000;
        tracing::info!(ms, records, transactions, bytes, "the store is mounted, its journal replayed");
        Ok(store)
    }
}

/// Opens and locks `path`; waits for a process that is just ending.
fn open_when_unlocked(
    reactor: &mut Reactor,
    path: &Path,
    options: OpenOptions,
    attempts: u32,
) -> Result<FileId> {
    for _ in 1..attempts {
        match reactor.open(path, options) {
            Err(error) if error.source.kind() == ErrorKind::WouldBlock => thread::sleep(LOCK_PAUSE),
            opened => return Ok(opened?),
        }
    }
    reactor.open(path, options).map_err(|error| match error.source.kind() {
        ErrorKind::WouldBlock => {
            anyhow::anyhow!("{} is in use by another process: stop its OSD first", path.display())
        }
        _ => error.into(),
    })
}
