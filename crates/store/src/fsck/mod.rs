//! Checking a store that no OSD runs, without changing it.
//!
//! What is read is read by the mount's own readers; what is checked is what a running store relies on. Entries are
//! looked at page by page, so memory is that of the directory and of a bit for each block, however many objects there
//! are.

mod bad_data;
mod marks;
mod problem;
mod totals;
mod walk;

use bytes::Bytes;
use types::Token;

pub use problem::{Owner, Problem};
pub(crate) use totals::Totals;

use self::walk::Walk;
use crate::{Config, DeviceCommand, DeviceError, DeviceSizes, Mount, Store};

/// What a store holds. Bytes unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounts {
    /// How many collections.
    pub collections: u64,
    /// How many objects.
    pub objects: u64,
    /// Sum of the objects' sizes.
    pub object_bytes: u64,
    /// Data in its place on the device; what objects share counts for each.
    pub mapped_bytes: u64,
    /// Data that is in the journal or the index only.
    pub pending_bytes: u64,
    /// How many pieces on the device the objects' data is in.
    pub extents: u64,
    /// How many omap entries.
    pub omap_entries: u64,
    /// How many xattrs.
    pub xattrs: u64,
    /// How many pages of the index.
    pub pages: u64,
    /// How many journal records the last checkpoint does not hold.
    pub records: u64,
    /// Free, or free after the next checkpoint.
    pub free_bytes: u64,
    /// Blocks verified against their checksum.
    pub verified_blocks: u64,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FsckReport {
    /// What is wrong; the store is sound if there is nothing.
    pub problems: Vec<Problem>,
    /// What a crash may leave behind, and the next start clears up.
    pub notes: Vec<String>,
    /// What there is.
    pub counts: StoreCounts,
}

/// A check on its way: execute its commands, answer them, until [`Fsck::take`] has the report.
#[derive(Debug)]
pub struct Fsck {
    is_deep: bool,
    step: Step,
}

#[derive(Debug)]
enum Step {
    Open(Box<Mount>),
    Walk(Box<Walk>),
    Done(Option<FsckReport>),
}

impl Fsck {
    /// Starts to check the store on a device; `is_deep` reads all data, too. Of the index no more is kept in memory
    /// than `config` says.
    pub fn new(sizes: impl Into<DeviceSizes>, config: Config, is_deep: bool) -> Fsck {
        let mount = Box::new(Store::inspect(sizes, config));
        Fsck { is_deep, step: Step::Open(mount) }
    }

    /// The commands to execute, in any order: all of them read.
    pub fn take_commands(&mut self) -> Vec<DeviceCommand> {
        match &mut self.step {
            Step::Open(mount) => mount.take_commands(),
            Step::Walk(walk) => walk.take_commands(),
            Step::Done(_) => Vec::new(),
        }
    }

    /// A command was executed.
    pub fn device_done(&mut self, token: Token, result: Result<Option<Bytes>, DeviceError>) {
        match &mut self.step {
            Step::Open(mount) => {
                mount.device_done(token, result);
                match mount.take_inspected() {
                    Some(Ok(inspected)) => {
                        self.step = Step::Walk(Box::new(Walk::new(inspected, self.is_deep)));
                    }
                    Some(Err(error)) => {
                        let problems = vec![Problem::Unmountable(error)];
                        self.step = Step::Done(Some(FsckReport { problems, ..FsckReport::default() }));
                    }
                    None => {}
                }
            }
            Step::Walk(walk) => walk.read_done(token, result),
            Step::Done(_) => {}
        }
        if let Step::Walk(walk) = &mut self.step
            && let Some(report) = walk.go_on()
        {
            self.step = Step::Done(Some(report));
        }
    }

    /// The report, once; `None` until it is complete.
    pub fn take(&mut self) -> Option<FsckReport> {
        match &mut self.step {
            Step::Done(report) => report.take(),
            Step::Open(_) | Step::Walk(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
