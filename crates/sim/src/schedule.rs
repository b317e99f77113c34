//! Virtual time, and what happens when.

use std::{collections::BTreeMap, time::Duration};

use osd::Cross;
use types::{Instant, Token, UTime};

use crate::network::{Arrival, EndId};

/// Names a process for as long as the world exists, restarts included; or one of the parts that it has
/// besides the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProcessId(pub(crate) usize);

/// More than there are processes.
const PART: usize = 1_000;

impl ProcessId {
    /// A part of this process.
    pub(crate) fn part(self, index: u16) -> ProcessId {
        ProcessId(self.whole().0 + PART * usize::from(index))
    }

    /// The process that it is a part of.
    pub(crate) fn whole(self) -> ProcessId {
        ProcessId(self.0 % PART)
    }

    /// Which part it is.
    pub(crate) fn index(self) -> usize {
        self.0 / PART
    }
}

/// Something that happens.
#[derive(Debug)]
pub(crate) enum What {
    /// The process' connections are looked after.
    NetTick,
    /// A timer of its machine.
    Timer(Token),
    /// Its device executes a command.
    Device,
    /// It gets a CPU for what came.
    Turn,
    /// Another shard of it says.
    Cross(u16, Box<Cross>),
    /// Its ledger commits.
    Ledger,
    /// The network delivers to one of its ends.
    Arrival(EndId, Arrival),
    /// It starts again.
    Start,
    /// A client may begin another request.
    Work,
    /// Something breaks.
    Fault,
    /// An operator wants another number of PGs.
    Resize,
    /// What was slow or cut off is as before.
    Heal,
}

/// When, and in which order at that time.
type At = (Instant, u64);

/// See the module's page.
#[derive(Default)]
pub(crate) struct Schedule {
    now: Instant,
    next: u64,
    events: BTreeMap<At, (ProcessId, What)>,
    timers: BTreeMap<(ProcessId, Token), At>,
}

impl Schedule {
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// The wall clock of all processes.
    pub(crate) fn wall(&self) -> UTime {
        UTime::new(1_790_000_000, 0).plus(Duration::from_nanos(self.now.0))
    }

    #[inline(never)]
    pub(crate) fn after(&mut self, delay: Duration, who: ProcessId, what: What) -> At {
        self.at(self.now + delay, who, what)
    }

    #[inline(never)]
    pub(crate) fn at(&mut self, at: Instant, who: ProcessId, what: What) -> At {
        self.next += 1;
        // A machine that wants something done at once gets its turn, and time goes on.
        let at = (at.max(self.now + Duration::from_nanos(1)), self.next);
        self.events.insert(at, (who, what));
        at
    }

    /// Sets a machine's timer; an earlier one with the same token does not ring.
    pub(crate) fn set_timer(&mut self, who: ProcessId, token: Token, at: Instant) {
        let at = self.at(at, who, What::Timer(token));
        if let Some(replaced) = self.timers.insert((who, token), at) {
            self.events.remove(&replaced);
        }
    }

    /// The process is gone, and with it all that waited for it.
    pub(crate) fn forget(&mut self, who: ProcessId) {
        self.events.retain(|_, (of, _)| of.whole() != who);
        self.timers.retain(|(of, _), _| of.whole() != who);
    }

    /// The next thing to happen; it is that late then.
    pub(crate) fn pop(&mut self) -> Option<(ProcessId, What)> {
        let (at, (who, what)) = self.events.pop_first()?;
        self.now = at.0;
        if let What::Timer(token) = what {
            self.timers.remove(&(who, token));
        }
        Some((who, what))
    }
}
