//! Virtual time, and what happens when.

use std::{collections::BTreeMap, time::Duration};

use types::{Instant, Token, UTime};

use crate::{
    clocks::Clock,
    network::{Arrival, EndId},
    osd_process::ShardItem,
};

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
pub(crate) enum Scheduled {
    /// The process' connections are looked after.
    NetTick,
    /// A timer of its machine.
    Timer(Token),
    /// Its device executes a command.
    Device,
    /// It gets a CPU for what came.
    Turn,
    /// Another shard of it says.
    ShardItem(u16, Box<ShardItem>),
    /// Its ledger commits.
    Ledger,
    /// The network delivers to one of its ends.
    Arrival(EndId, Arrival),
    /// It starts again.
    Start,
    /// An operator makes it anew.
    MakeAnew,
    /// A client takes over from it.
    TakeOver,
    /// A client may begin another request.
    Work,
    /// Something breaks.
    Fault,
    /// An operator wants another number of PGs.
    Resize,
    /// An operator makes or deletes the other pool.
    OtherPool,
    /// What was slow or cut off is as before.
    Heal,
}

impl Scheduled {
    /// True for an event that does not happen to a process that stands still.
    fn needs_cpu(&self) -> bool {
        match self {
            Scheduled::NetTick
            | Scheduled::Timer(_)
            | Scheduled::Turn
            | Scheduled::ShardItem(..)
            | Scheduled::Device
            | Scheduled::Ledger
            | Scheduled::Arrival(..) => true,
            Scheduled::Start
            | Scheduled::MakeAnew
            | Scheduled::TakeOver
            | Scheduled::Work
            | Scheduled::Fault
            | Scheduled::Resize
            | Scheduled::OtherPool
            | Scheduled::Heal => false,
        }
    }

    /// True for an event that happens to no process.
    fn is_of_world(&self) -> bool {
        matches!(self, Scheduled::Fault | Scheduled::Resize | Scheduled::OtherPool | Scheduled::Heal)
    }
}

/// When, and in which order at that time.
type At = (Instant, u64);

/// Virtual time, and what happens when.
#[derive(Default)]
pub(crate) struct Schedule {
    now: Instant,
    next: u64,
    events: BTreeMap<At, (ProcessId, Scheduled)>,
    timers: BTreeMap<(ProcessId, Token), At>,
    clocks: BTreeMap<ProcessId, Clock>,
    /// Processes, or parts of them, that stand still, and until when.
    still: BTreeMap<ProcessId, Instant>,
    /// Parts whose devices answer nothing, and until when.
    silent: BTreeMap<ProcessId, Instant>,
}

impl Schedule {
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// What a wall clock would show that is right.
    pub(crate) fn wall(&self) -> UTime {
        Clock::default().wall(self.now)
    }

    /// A process has this clock, in all its lives.
    pub(crate) fn set_clock(&mut self, who: ProcessId, clock: Clock) {
        self.clocks.insert(who, clock);
    }

    fn clock_of(&self, who: ProcessId) -> Clock {
        self.clocks.get(&who.whole()).copied().unwrap_or_default()
    }

    /// What the clock of a process shows. Never inlined, as all that `bench/instructions` takes off.
    #[inline(never)]
    pub(crate) fn now_of(&self, who: ProcessId) -> Instant {
        self.clock_of(who).now(self.now)
    }

    /// What its wall clock shows.
    #[inline(never)]
    pub(crate) fn wall_of(&self, who: ProcessId) -> UTime {
        self.clock_of(who).wall(self.now)
    }

    /// From now on, for `span`, a process or a part of it does nothing, and then goes on. This has no effect if some of
    /// the process stands still already: events that wait for that would get behind later ones.
    pub(crate) fn stand_still(&mut self, who: ProcessId, span: Duration) {
        let now = self.now;
        self.still.retain(|_, until| *until >= now);
        if !self.still.keys().any(|still| still.whole() == who.whole()) {
            self.still.insert(who, now + span);
        }
    }

    /// From now on, for so long, the device of a part answers nothing.
    pub(crate) fn silence_device(&mut self, who: ProcessId, span: Duration) {
        self.silent.insert(who, self.now + span);
    }

    /// Until when this cannot happen to a process.
    fn hindrance(&self, who: ProcessId, what: &Scheduled) -> Option<Instant> {
        if !what.needs_cpu() {
            return None;
        }
        let still = self.still.get(&who).max(self.still.get(&who.whole()));
        let silent = self.silent.get(&who).filter(|_| matches!(what, Scheduled::Device));
        still.max(silent).copied().filter(|until| *until >= self.now)
    }

    #[inline(never)]
    pub(crate) fn after(&mut self, delay: Duration, who: ProcessId, what: Scheduled) -> At {
        self.at(self.now + delay, who, what)
    }

    #[inline(never)]
    pub(crate) fn at(&mut self, at: Instant, who: ProcessId, what: Scheduled) -> At {
        self.next += 1;
        // A machine that wants something done at once gets its turn, and time goes on.
        let at = (at.max(self.now + Duration::from_nanos(1)), self.next);
        self.events.insert(at, (who, what));
        at
    }

    /// Sets a machine's timer, by its own clock; an earlier one with the same token does not ring.
    pub(crate) fn set_timer(&mut self, who: ProcessId, token: Token, at: Instant) {
        let at = self.clock_of(who).when(at);
        self.ring(who, token, at);
    }

    fn ring(&mut self, who: ProcessId, token: Token, at: Instant) {
        let at = self.at(at, who, Scheduled::Timer(token));
        if let Some(replaced) = self.timers.insert((who, token), at) {
            self.events.remove(&replaced);
        }
    }

    /// The process is gone, and with it all that waited for it. What befalls the world goes on.
    pub(crate) fn forget(&mut self, who: ProcessId) {
        self.events.retain(|_, (of, what)| of.whole() != who || what.is_of_world());
        self.timers.retain(|(of, _), _| of.whole() != who);
        self.still.retain(|of, _| of.whole() != who);
        self.end_silence(who);
    }

    /// A process has another device, which answers.
    pub(crate) fn end_silence(&mut self, who: ProcessId) {
        self.silent.retain(|of, _| of.whole() != who);
    }

    /// The next thing to happen; it is that late then.
    pub(crate) fn pop(&mut self) -> Option<(ProcessId, Scheduled)> {
        loop {
            let (at, (who, what)) = self.events.pop_first()?;
            self.now = at.0;
            if let Scheduled::Timer(token) = what {
                self.timers.remove(&(who, token));
            }
            match (self.hindrance(who, &what), what) {
                (None, what) => return Some((who, what)),
                // What waits keeps its order.
                (Some(until), Scheduled::Timer(token)) => {
                    self.ring(who, token, until + Duration::from_nanos(1))
                }
                (Some(until), what) => drop(self.at(until + Duration::from_nanos(1), who, what)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_and_their_ends_outlive_the_process_that_they_are_scheduled_with() {
        let (mut schedule, who) = (Schedule::default(), ProcessId(0));
        for what in [Scheduled::NetTick, Scheduled::Fault, Scheduled::Start, Scheduled::Heal] {
            schedule.after(Duration::from_secs(1), who, what);
        }
        schedule.forget(who);
        assert!(matches!(schedule.pop(), Some((_, Scheduled::Fault))));
        assert!(matches!(schedule.pop(), Some((_, Scheduled::Heal))));
        assert!(schedule.pop().is_none());
    }
}
