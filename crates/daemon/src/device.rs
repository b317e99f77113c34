//! A store's device commands on a file or block device.

use std::{io::ErrorKind, path::Path, thread, time::Duration};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use reactor::{Event, FileId, OpenOptions, Reactor};
use store::{Config as StoreConfig, DeviceCommand, DeviceError, Store, StoreIdentity};
use types::Token;

/// How often the lock of a device is tried before another process is said to have it: the kernel lets
/// go of a killed process' files only when its last device command has ended.
const LOCK_ATTEMPTS: u32 = 100;

/// Pause between two attempts.
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// An open device.
pub(crate) struct Device {
    file: FileId,
    pub(crate) bytes: u64,
    is_block_device: bool,
}

impl Device {
    /// Opens `path` for O_DIRECT and locks it. `size` makes a file that is not there.
    pub(crate) fn open(reactor: &mut Reactor, path: &Path, size: Option<u64>) -> Result<Device> {
        let options = OpenOptions { direct: true, create: size.is_some(), size, lock: true };
        let file = open_when_unlocked(reactor, path, options)?;
        let bytes = reactor.size(file).with_context(|| path.display().to_string())?;
        Ok(Device { file, bytes, is_block_device: reactor.is_block_device(file) })
    }

    /// Starts commands; each ends with an event.
    pub(crate) fn submit(&self, commands: Vec<DeviceCommand>, reactor: &mut Reactor) {
        for command in commands {
            match command {
                DeviceCommand::Read { token, offset, len } => {
                    reactor.read(self.file, token.0, offset, len as usize);
                }
                DeviceCommand::Write { token, offset, data, durable } => {
                    reactor.write(self.file, token.0, offset, vec![data], durable);
                }
                DeviceCommand::Flush { token } => reactor.sync(self.file, token.0),
                DeviceCommand::Discard { token, offset, len } => {
                    reactor.discard(self.file, token.0, offset, len);
                }
            }
        }
    }

    /// What an event says of a command.
    pub(crate) fn done(
        token: u64,
        result: Result<Bytes, reactor::FileError>,
    ) -> (Token, Result<Option<Bytes>, DeviceError>) {
        let result = result.map(Some).map_err(|error| {
            tracing::error!(%error, "the device failed");
            DeviceError::Io
        });
        (Token(token), result)
    }

    /// Makes an empty store on it.
    pub(crate) fn format(&self, identity: StoreIdentity, reactor: &mut Reactor) -> Result<()> {
        let commands = Store::format(self.bytes, identity, &StoreConfig::default());
        let Some(commands) = commands else { bail!("a device of {} bytes is too small", self.bytes) };
        for command in commands {
            self.submit(vec![command], reactor);
            self.wait(reactor)?;
        }
        Ok(())
    }

    /// Waits for at least one command; all that are done by then.
    fn wait(&self, reactor: &mut Reactor) -> Result<Vec<(Token, Bytes)>> {
        let (mut events, mut done) = (Vec::new(), Vec::new());
        while done.is_empty() {
            reactor.poll(None, &mut events)?;
            for event in events.drain(..) {
                if let Event::FileDone { token, result, .. } = event {
                    done.push((Token(token), result?));
                }
            }
        }
        Ok(done)
    }

    /// Mounts the store on it.
    pub(crate) fn mount(&self, reactor: &mut Reactor) -> Result<Store> {
        let config = StoreConfig { prepares_journal: !self.is_block_device, ..StoreConfig::default() };
        let mut mount = Store::mount(self.bytes, config);
        let mut in_flight = 0;
        loop {
            let commands = mount.take_commands();
            in_flight += commands.len();
            self.submit(commands, reactor);
            if let Some(store) = mount.take() {
                return store.context("mounting the store");
            }
            if in_flight == 0 {
                bail!("the store's mount does not end");
            }
            for (token, bytes) in self.wait(reactor)? {
                in_flight -= 1;
                mount.device_done(token, Ok(Some(bytes)));
            }
        }
    }
}

/// Opens and locks `path`; waits for a process that is just ending.
fn open_when_unlocked(reactor: &mut Reactor, path: &Path, options: OpenOptions) -> Result<FileId> {
    for _ in 1..LOCK_ATTEMPTS {
        match reactor.open(path, options) {
            Err(error) if error.source.kind() == ErrorKind::WouldBlock => thread::sleep(LOCK_PAUSE),
            opened => return Ok(opened?),
        }
    }
    reactor.open(path, options).context("another process uses this device")
}
