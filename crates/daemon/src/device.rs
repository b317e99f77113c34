//! A store's device commands on files or block devices.

use std::{
    io::ErrorKind,
    ops::Range,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use codec::{AlignedBuf, BLOCK_BYTES};
use osd::{Fault, PATIENCE_AT_MOST};
use reactor::{Event, FileId, FileOperation, Lock, OpenOptions, Reactor, Signal};
use store::{
    Config as StoreConfig, DeviceCommand, DeviceError, DeviceRole, DeviceSizes, IndexMemory, JournalKey,
    Label, Mount, Replayed, Store, StoreIdentity,
};
use thiserror::Error;
use types::Token;

use crate::{
    clock,
    device_paths::{DevicePaths, Found, is_no_place_for_files, look_at},
    device_share::{DeviceShare, region_bytes},
    private,
    signatures::{self, Contents, HEAD_BYTES},
    split_commands::{SplitCommands, take_front},
};

/// How often a device is tried before another process is said to have it: the kernel lets go of a killed process'
/// files only when its last device command has ended.
const LOCK_ATTEMPTS: u32 = 100;

/// How often a command of the operator tries a device.
const LOCK_ATTEMPTS_OFFLINE: u32 = 5;

/// Pause between two attempts.
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// Bytes discarded by one command while a store is made.
const FORMAT_DISCARD_BYTES: u64 = 1 << 30;

/// The largest journal that a store makes by itself, with its label.
const JOURNAL_FILE_BYTES_MAX: u64 = (512 << 20) + (128 << 10);
/// The smallest journal or index file that is made.
const FILE_BYTES_MIN: u64 = 16 << 20;

/// How long a wait for a device lasts before it counts: a machine that stands still meanwhile adds no more.
const SILENCE_STEP: Duration = Duration::from_secs(1);

/// A signal asked the process to end while it waited for a device, before it served anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("stopped by a signal before its store was mounted")]
pub(crate) struct Interrupted;

impl Interrupted {
    /// Fails for such a signal.
    pub(crate) fn check(event: &Event) -> Result<(), Interrupted> {
        match event {
            Event::Signal(Signal::Interrupt | Signal::Terminate) => Err(Interrupted),
            _ => Ok(()),
        }
    }
}

/// Sizes of files that are made: all are sparse.
pub(crate) fn file_bytes(role: DeviceRole, main: u64) -> u64 {
    match role {
        DeviceRole::Main => main,
        DeviceRole::Journal => (main / 8).clamp(FILE_BYTES_MIN, JOURNAL_FILE_BYTES_MAX),
        DeviceRole::Index => (main / 16).max(FILE_BYTES_MIN),
    }
}

/// Asked whenever a wait for a device is over, and once a second while it lasts: an error ends the wait.
pub(crate) type GoOn<'a> = &'a dyn Fn() -> Result<()>;

/// What a command came to: reads with their bytes.
pub(crate) type Answer = (Token, Result<Option<Bytes>, DeviceError>);

/// How a device is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Access {
    /// By no other process at the same time, and a block device by nothing else on the machine: a lock keeps off those
    /// that open the same path, a claim those that open another one of the same device, as containers do, and mounts.
    Exclusive,
    /// Exclusive, where the OSD is expected not to run: one that does is not waited for.
    Offline,
    /// Besides other shards of the same process, after [`Device::share_lock`]. Each shard's open file has a lock of its
    /// own, as each may have commands in flight when the process is killed. The claim is the first shard's alone, as
    /// the kernel would refuse a second one.
    Shared,
}

/// One of the files or block devices of a store, or a shard's share of it.
#[derive(Clone, Copy, Debug)]
struct Part {
    role: DeviceRole,
    file: FileId,
    share: DeviceShare,
    is_block_device: bool,
}

/// The open devices of an OSD, or a shard's shares of them.
pub(crate) struct Device {
    parts: Vec<Part>,
    /// Commands that more than one file operation executes.
    split_commands: SplitCommands,
}

impl Device {
    /// Opens the whole of all for O_DIRECT.
    pub(crate) fn open(reactor: &mut Reactor, paths: &DevicePaths, access: Access) -> Result<Device> {
        let mut parts = Vec::new();
        for (role, path) in paths.all() {
            refuse_missing(path).with_context(|| path.display().to_string())?;
            let (lock, attempts) = match access {
                Access::Exclusive => (Lock::Exclusive, LOCK_ATTEMPTS),
                Access::Offline => (Lock::Exclusive, LOCK_ATTEMPTS_OFFLINE),
                Access::Shared => (Lock::Shared, 1),
            };
            let claim = !matches!(access, Access::Shared);
            let options = OpenOptions { direct: true, claim, size: None, lock };
            parts.push(open_part(reactor, role, path, options, attempts)?);
        }
        Ok(Device { parts, split_commands: SplitCommands::new() })
    }

    /// Opens the whole of all as [`Access::Offline`] does, for a new store. Where there is nothing a file is made, the
    /// main one with so many bytes, and `made` is told its path.
    pub(crate) fn create(
        reactor: &mut Reactor,
        paths: &DevicePaths,
        main_bytes: u64,
        made: &mut dyn FnMut(&Path) -> Result<()>,
    ) -> Result<Device> {
        let mut parts = Vec::new();
        for (role, path) in paths.all() {
            let new = place_for_file(path).with_context(|| path.display().to_string())?;
            if let Some(new) = &new {
                if !private::make_file(new)? {
                    bail!("{} was made by another process just now", new.display());
                }
                made(new)?;
            }
            let size = new.map(|_| file_bytes(role, main_bytes));
            let options = OpenOptions { direct: true, claim: true, size, lock: Lock::Exclusive };
            parts.push(open_part(reactor, role, path, options, LOCK_ATTEMPTS_OFFLINE)?);
        }
        Ok(Device { parts, split_commands: SplitCommands::new() })
    }

    /// Lets the process' other shards open it, too; other processes are still kept off.
    pub(crate) fn share_lock(&self, reactor: &mut Reactor) -> Result<()> {
        self.parts.iter().try_for_each(|part| Ok(reactor.share_lock(part.file)?))
    }

    /// The shares of one shard of `count`, whose regions were made with so many bytes. What the devices have grown by
    /// since is divided; all of it is a single store's.
    pub(crate) fn shares(&self, shard: u16, count: u16, regions: &DeviceSizes) -> Device {
        let share = |part: &Part| {
            let bytes = part.share.bytes();
            let region = regions.get(part.role).filter(|_| count > 1).unwrap_or(bytes);
            Part { share: DeviceShare::new(shard, count, region, bytes), ..*part }
        };
        Device { parts: self.parts.iter().map(share).collect(), split_commands: SplitCommands::new() }
    }

    /// Bytes of the main device.
    pub(crate) fn main_bytes(&self) -> u64 {
        self.sizes().main
    }

    /// Bytes of all.
    pub(crate) fn sizes(&self) -> DeviceSizes {
        let bytes = |role| self.part(role).map(|part| part.share.bytes());
        DeviceSizes {
            main: bytes(DeviceRole::Main).unwrap_or(0),
            journal: bytes(DeviceRole::Journal),
            index: bytes(DeviceRole::Index),
        }
    }

    fn part(&self, role: DeviceRole) -> Option<&Part> {
        self.parts.iter().find(|part| part.role == role)
    }

    /// The file that a range of the store is in, and where: mostly one piece. Tokens for all pieces.
    fn place(
        &mut self,
        token: Token,
        offset: u64,
        len: u64,
    ) -> (FileId, impl Iterator<Item = (u64, Range<u64>)> + use<>) {
        let (role, at) = DeviceRole::of(offset);
        let part = self.part(role).expect("a store uses the devices that it was mounted with");
        let (file, share) = (part.file, part.share);
        let count = share.pieces(at, len).count();
        let several = (count > 1).then(|| self.split_commands.split(token.0, count));
        let tokens = several.into_iter().flatten().chain((count <= 1).then_some(token.0));
        (file, tokens.zip(share.pieces(at, len)))
    }

    /// What the first store on it tells of itself.
    pub(crate) fn label(&mut self, reactor: &mut Reactor) -> Result<Label> {
        let mut blocks = Vec::new();
        for offset in Store::LABEL_OFFSETS {
            let token = Token(offset);
            self.submit(vec![DeviceCommand::Read { token, offset, len: BLOCK_BYTES as u64 }], reactor);
            let read = self.wait_at_most(PATIENCE_AT_MOST, reactor, &|| Ok(()))?;
            blocks.extend(read.into_iter().filter_map(|(_, block)| block.ok().flatten()));
        }
        let label = Store::label(blocks.iter().map(|block| &block[..]));
        label.context("there is no store on the device that can be used")
    }

    /// Starts commands; each ends with an event, or with several, of which [`Device::done`] makes one answer.
    pub(crate) fn submit(
        &mut self,
        commands: impl IntoIterator<Item = DeviceCommand>,
        reactor: &mut Reactor,
    ) {
        for command in commands {
            match command {
                DeviceCommand::Read { token, offset, len } => {
                    let (file, pieces) = self.place(token, offset, len);
                    for (token, piece) in pieces {
                        reactor.read(file, token, piece.start, (piece.end - piece.start) as usize);
                    }
                }
                DeviceCommand::Write { token, offset, data, mut more, durable } => {
                    more.insert(0, data);
                    self.write(token, offset, more, durable, reactor);
                }
                DeviceCommand::Flush { token } => {
                    let tokens = self.split_commands.split(token.0, self.parts.len());
                    self.parts.iter().zip(tokens).for_each(|(part, token)| reactor.sync(part.file, token));
                }
                DeviceCommand::Discard { token, offset, len } => {
                    let (file, pieces) = self.place(token, offset, len);
                    for (token, piece) in pieces {
                        reactor.discard(file, token, piece.start, piece.end - piece.start);
                    }
                }
            }
        }
    }

    fn write(
        &mut self,
        token: Token,
        offset: u64,
        mut data: Vec<Bytes>,
        durable: bool,
        reactor: &mut Reactor,
    ) {
        let len = data.iter().map(|part| part.len() as u64).sum();
        let (file, pieces) = self.place(token, offset, len);
        let mut left = len;
        for (token, piece) in pieces {
            let len = piece.end - piece.start;
            let part = if len == left { std::mem::take(&mut data) } else { take_front(&mut data, len) };
            left -= len;
            reactor.write(file, token, piece.start, part, durable);
        }
    }

    /// What an event says of a command; nothing while other operations of it have not ended.
    pub(crate) fn done(&mut self, token: u64, result: Result<Bytes, reactor::FileError>) -> Option<Answer> {
        let result = result.map_err(|error| {
            // Of all others the store takes it for a failure, which is not to be silent.
            if error.operation == FileOperation::Discard && error.source.kind() == ErrorKind::Unsupported {
                return DeviceError::Unsupported;
            }
            tracing::error!(%error, "the device failed");
            DeviceError::Io
        });
        let (token, result) = self.split_commands.done(token, result)?;
        Some((Token(token), result.map(Some)))
    }

    /// The settings of a store on it.
    pub(crate) fn store_config(&self) -> StoreConfig {
        let journal = self.part(DeviceRole::Journal).or(self.part(DeviceRole::Main));
        let prepares_journal = journal.is_some_and(|part| !part.is_block_device);
        StoreConfig { prepares_journal, ..StoreConfig::default() }
    }

    /// What is on each part, as far as its first bytes tell.
    pub(crate) fn contents(&mut self, reactor: &mut Reactor) -> Result<Vec<(DeviceRole, Contents)>> {
        let mut out = Vec::new();
        for Part { role, share, .. } in self.parts.clone() {
            let len = HEAD_BYTES.min(share.bytes() / BLOCK_BYTES as u64 * BLOCK_BYTES as u64);
            if len == 0 {
                continue;
            }
            let (token, offset) = (Token(0), role.base());
            self.submit([DeviceCommand::Read { token, offset, len }], reactor);
            for (_, read) in self.wait(reactor)? {
                let head = read.with_context(|| format!("reading the {role} device"))?;
                out.extend(signatures::contents(&head.unwrap_or_default()).map(|found| (role, found)));
            }
        }
        Ok(out)
    }

    /// True if it has room for the stores of so many reactors.
    pub(crate) fn has_room_for(&self, identity: StoreIdentity) -> bool {
        let regions = self.regions(identity.shards);
        Store::format(regions, identity, new_journal_key(), &StoreConfig::default()).is_some()
    }

    /// What each of so many new stores gets of it.
    fn regions(&self, count: u16) -> DeviceSizes {
        let sizes = self.sizes();
        let region = |bytes| region_bytes(bytes, count);
        DeviceSizes {
            main: region(sizes.main),
            journal: sizes.journal.map(region),
            index: sizes.index.map(region),
        }
    }

    /// Makes an empty store on it.
    fn format_region(&mut self, identity: StoreIdentity, reactor: &mut Reactor) -> Result<()> {
        let commands = Store::format(self.sizes(), identity, new_journal_key(), &StoreConfig::default());
        let Some(commands) = commands else { bail!("too few for a store: {:?} bytes", self.sizes()) };
        if self.part(DeviceRole::Main).is_some_and(|main| main.is_block_device) {
            self.discard_all(reactor)?;
        }
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
        let regions = self.regions(count);
        // The first one tells that there are others: it comes last.
        for index in (0..count).rev() {
            let mut own = StoreIdentity { shard: index, ..identity };
            // What strays into another region is not taken for its own there.
            own.store_uuid.0[15] ^= index as u8;
            self.shares(index, count, &regions).format_region(own, reactor)?;
        }
        Ok(())
    }

    /// Takes the labels of the first store off all parts: no store begins there any more.
    pub(crate) fn unlabel(&mut self, reactor: &mut Reactor) -> Result<()> {
        for role in self.parts.iter().map(|part| part.role).collect::<Vec<_>>() {
            for offset in Store::LABEL_OFFSETS {
                let (token, offset) = (Token(offset), role.base() + offset);
                let (data, more) = (AlignedBuf::zeroed(BLOCK_BYTES).into(), Vec::new());
                self.submit([DeviceCommand::Write { token, offset, data, more, durable: true }], reactor);
                for (_, result) in self.wait_at_most(PATIENCE_AT_MOST, reactor, &|| Ok(()))? {
                    result?;
                }
            }
        }
        Ok(())
    }

    /// Tells the main device that the region is empty; one that does not take that stays as it is.
    fn discard_all(&mut self, reactor: &mut Reactor) -> Result<()> {
        let (mut offset, end) = (0, self.main_bytes());
        while offset < end {
            let len = FORMAT_DISCARD_BYTES.min(end - offset);
            self.submit(vec![DeviceCommand::Discard { token: Token(0), offset, len }], reactor);
            if self.wait(reactor)?.iter().any(|(_, result)| result.is_err()) {
                break;
            }
            offset += len;
        }
        Ok(())
    }

    /// Waits for at least one command, however long it takes; all that are done by then.
    pub(crate) fn wait(&mut self, reactor: &mut Reactor) -> Result<Vec<Answer>> {
        loop {
            let done = self.poll(None, reactor)?;
            if !done.is_empty() {
                return Ok(done);
            }
        }
    }

    /// As [`Device::wait`], unless `go_on` fails, or no command is done for so long: [`Fault::Stalled`]. Then `reactor`
    /// is abandoned: its end does not wait for the device either.
    fn wait_at_most(
        &mut self,
        patience: Duration,
        reactor: &mut Reactor,
        go_on: GoOn<'_>,
    ) -> Result<Vec<Answer>> {
        let step = SILENCE_STEP.min(patience);
        let mut silent = Duration::ZERO;
        while silent < patience {
            let begin = reactor::clock::now();
            let done = self.poll(Some(step), reactor)?;
            go_on()?;
            if !done.is_empty() {
                return Ok(done);
            }
            silent += Duration::from_nanos(reactor::clock::now() - begin).min(step);
        }
        reactor.abandon();
        let text = format!("the device has not answered for {} s", patience.as_secs());
        Err(Fault::Stalled(text).into())
    }

    fn poll(&mut self, timeout: Option<Duration>, reactor: &mut Reactor) -> Result<Vec<Answer>> {
        let mut events = Vec::new();
        reactor.poll(timeout, &mut events)?;
        Ok(self.answers(events)?)
    }

    /// What events say of commands. Nothing else is waited for but signals.
    pub(crate) fn answers(&mut self, events: Vec<Event>) -> Result<Vec<Answer>, Interrupted> {
        let mut done = Vec::new();
        for event in events {
            Interrupted::check(&event)?;
            if let Event::FileDone { token, result, .. } = event {
                done.extend(self.done(token, result));
            }
        }
        Ok(done)
    }

    /// Executes a machine's commands until it has what it is for, or `go_on` fails.
    pub(crate) fn drive<M, T>(
        &mut self,
        reactor: &mut Reactor,
        machine: &mut M,
        take_commands: fn(&mut M) -> Vec<DeviceCommand>,
        device_done: fn(&mut M, Token, Result<Option<Bytes>, DeviceError>),
        take: impl Fn(&mut M) -> Option<T>,
        go_on: GoOn<'_>,
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
            for (token, result) in self.wait_at_most(PATIENCE_AT_MOST, reactor, go_on)? {
                in_flight -= 1;
                device_done(machine, token, result);
            }
        }
    }

    /// Mounts the store on it, unless `go_on` fails meanwhile.
    pub(crate) fn mount(
        &mut self,
        reactor: &mut Reactor,
        config: StoreConfig,
        go_on: GoOn<'_>,
    ) -> Result<Store> {
        let begin = reactor::clock::now();
        let mut mount = Store::mount(self.sizes(), config, new_journal_key());
        let store =
            self.drive(reactor, &mut mount, Mount::take_commands, Mount::device_done, Mount::take, go_on)?;
        let store = store.context("mounting the store")?;
        let Replayed { records, transactions, bytes } = store.replayed();
        let ms = (reactor::clock::now() - begin) / 1_000_000;
        let IndexMemory { loaded, pages, .. } = store.index_memory();
        tracing::info!(
            ms,
            records,
            transactions,
            bytes,
            pages,
            loaded,
            "the store is mounted, its journal replayed"
        );
        Ok(store)
    }
}

/// Of the kernel's randomness, as it must not be guessed.
fn new_journal_key() -> JournalKey {
    let mut key = [0; 16];
    key.copy_from_slice(&clock::random_seed()[..16]);
    JournalKey::new(key)
}

/// An error where there is nothing to be opened.
fn refuse_missing(path: &Path) -> Result<()> {
    match look_at(path)? {
        Found::Something => Ok(()),
        Found::LinkTo(target) => bail!("{}", gone(&target)),
        Found::Nothing => bail!("this does not exist"),
    }
}

/// Where a file is to be made because there is nothing; none where there is something. Where a device is missing no
/// file takes its place.
fn place_for_file(path: &Path) -> Result<Option<PathBuf>> {
    match look_at(path)? {
        Found::Something => Ok(None),
        Found::LinkTo(target) if is_no_place_for_files(&target) => bail!("{}", gone(&target)),
        Found::Nothing if is_no_place_for_files(path) => bail!("this does not exist"),
        Found::LinkTo(target) => Ok(Some(target)),
        Found::Nothing => Ok(Some(path.to_owned())),
    }
}

fn gone(target: &Path) -> String {
    format!("the device is gone: this is a link to {}, which does not exist", target.display())
}

fn open_part(
    reactor: &mut Reactor,
    role: DeviceRole,
    path: &Path,
    options: OpenOptions,
    attempts: u32,
) -> Result<Part> {
    let file = open_when_unlocked(reactor, path, options, attempts)?;
    let bytes = reactor.size(file).with_context(|| path.display().to_string())?;
    let is_block_device = reactor.is_block_device(file);
    Ok(Part { role, file, share: DeviceShare::whole(bytes), is_block_device })
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
            Err(error) if matches!(error.source.kind(), ErrorKind::WouldBlock | ErrorKind::ResourceBusy) => {
                thread::sleep(LOCK_PAUSE);
            }
            opened => return Ok(opened?),
        }
    }
    reactor.open(path, options).map_err(|error| match error.source.kind() {
        ErrorKind::WouldBlock => {
            anyhow::anyhow!("{} is in use by another process: stop its OSD first", path.display())
        }
        ErrorKind::ResourceBusy => {
            anyhow::anyhow!(
                "{} is in use: its OSD runs, or it is mounted, or part of a RAID or volume group",
                path.display()
            )
        }
        _ => error.into(),
    })
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        io::Write,
        path::PathBuf,
        process::{self, Command},
    };

    use super::*;

    fn reactor() -> Reactor {
        Reactor::new(reactor::Config::default()).unwrap()
    }

    /// The files go with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("loligo-device-{name}-{}", process::id()));
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    /// A loop device, and another node of it.
    struct LoopDevice {
        path: PathBuf,
        other: PathBuf,
    }

    impl LoopDevice {
        /// `None` where there are no loop devices, or not for us.
        fn attach(folder: &Folder) -> Option<LoopDevice> {
            let (file, other) = (folder.0.join("disk"), folder.0.join("other"));
            fs::File::create(&file).unwrap().set_len(64 << 20).unwrap();
            let made = Command::new("losetup").args(["--find", "--show"]).arg(&file).output().ok()?;
            let path = PathBuf::from(String::from_utf8(made.stdout).ok()?.trim());
            let disk = made.status.success().then_some(LoopDevice { path, other })?;
            let copied = Command::new("cp").arg("-a").args([&disk.path, &disk.other]).status().ok()?;
            (copied.success() && fs::File::open(&disk.other).is_ok()).then_some(disk)
        }
    }

    impl Drop for LoopDevice {
        fn drop(&mut self) {
            Command::new("losetup").arg("--detach").arg(&self.path).status().unwrap();
        }
    }

    fn no_device() -> Device {
        Device { parts: Vec::new(), split_commands: SplitCommands::new() }
    }

    #[test]
    fn a_signal_ends_the_wait_for_a_device() {
        let answers = |signal| no_device().answers(vec![Event::Signal(signal)]);
        assert_eq!(answers(Signal::Terminate), Err(Interrupted));
        assert_eq!(answers(Signal::Interrupt), Err(Interrupted));
        assert_eq!(answers(Signal::Hangup), Ok(Vec::new()));
    }

    #[test]
    fn a_device_that_never_answers_is_not_waited_for_for_ever() {
        let wait = no_device().wait_at_most(Duration::from_millis(1), &mut reactor(), &|| Ok(()));
        let error = wait.unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(Fault::Stalled(_))), "{error:#}");
    }

    #[test]
    fn a_wait_for_a_device_ends_when_another_shard_has_failed() {
        let mut reactor = reactor();
        let waker = reactor.waker();
        let has_failed = std::cell::Cell::new(false);
        let go_on = || {
            if has_failed.replace(true) {
                bail!("another shard failed");
            }
            waker.wake();
            Ok(())
        };
        let error = no_device().wait_at_most(PATIENCE_AT_MOST, &mut reactor, &go_on).unwrap_err();
        assert_eq!(error.to_string(), "another shard failed");
    }

    #[test]
    fn only_a_discard_may_be_unsupported() {
        let answer = |operation| {
            let source = ErrorKind::Unsupported.into();
            let error = reactor::FileError { operation, path: String::new(), offset: 0, source };
            no_device().done(1, Err(error)).unwrap().1
        };
        assert_eq!(answer(FileOperation::Discard), Err(DeviceError::Unsupported));
        for operation in [FileOperation::Read, FileOperation::Write, FileOperation::Sync] {
            assert_eq!(answer(operation), Err(DeviceError::Io));
        }
    }

    #[test]
    fn a_device_is_locked_while_any_shard_has_it_open() {
        let folder = Folder::new("shards");
        let (main, journal) = (folder.0.join("block"), Some(folder.0.join("journal")));
        let paths = DevicePaths { main, journal, index: None };
        let (mut control, mut shard, mut later) = (reactor(), reactor(), reactor());
        let mut opened_later = || Device::open(&mut later, &paths, Access::Offline).map(drop);
        let device = Device::create(&mut control, &paths, 64 << 20, &mut |_| Ok(())).unwrap();
        opened_later().unwrap_err();
        Device::open(&mut shard, &paths, Access::Shared)
            .map(drop)
            .expect_err("it is the control shard's alone");
        device.share_lock(&mut control).unwrap();
        Device::open(&mut shard, &paths, Access::Shared).unwrap();
        opened_later().unwrap_err();
        // A process that is killed may have commands of one shard in flight when the others' have ended.
        drop(control);
        opened_later().unwrap_err();
        drop(shard);
        opened_later().unwrap();
    }

    #[test]
    fn a_block_device_is_claimed_by_whatever_path_it_is_opened() {
        let folder = Folder::new("claim");
        let Some(disk) = LoopDevice::attach(&folder) else {
            let skipped = b"SKIPPED: a_block_device_is_claimed: there are no loop devices\n";
            return std::io::stderr().write_all(skipped).unwrap();
        };
        let paths = |main: &PathBuf| DevicePaths { main: main.clone(), journal: None, index: None };
        let (own, other) = (paths(&disk.path), paths(&disk.other));
        let (mut control, mut shard, mut later) = (reactor(), reactor(), reactor());
        let device = Device::open(&mut control, &own, Access::Exclusive).unwrap();
        device.share_lock(&mut control).unwrap();
        Device::open(&mut shard, &own, Access::Shared).unwrap();
        let opened = Device::open(&mut later, &other, Access::Offline);
        let made = Device::create(&mut later, &other, 64 << 20, &mut |_| Ok(()));
        for result in [opened, made] {
            let Err(error) = result else { panic!("it is in use") };
            assert!(error.to_string().ends_with("or part of a RAID or volume group"), "{error:#}");
        }
        drop((control, shard));
        Device::open(&mut later, &other, Access::Exclusive).unwrap();
    }
}
