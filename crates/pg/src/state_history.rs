//! Which of Ceph's states of peering a PG was in, and when: for `dump_pgstate_history` and `dump_pg_recovery_stats`.
//! Only events that change a state bear a cost for it.
//!
//! Authority: `PGStateHistory`, `NamedState`, `PGRecoveryStats` (16.2). Ceph's states lie in each other, and each is
//! entered and left by itself; so do these.

use std::collections::{BTreeMap, VecDeque};

use types::{Epoch, PgState, UTime};

use crate::{Ctx, Pg, pg::Phase};

/// Ended instances that are kept, of which each begins when the PG begins anew (`PGStateHistory::buffer`).
const INSTANCES_MAX: usize = 10;
/// States of one instance that are kept: a PG that goes on and off for long forgets its first ones.
const STATES_MAX: usize = 64;

/// A state that was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastState {
    /// Ceph's name, with those of the states that it lies in.
    pub name: &'static str,
    /// When it was entered.
    pub enter: UTime,
    /// When it was left.
    pub exit: UTime,
}

/// What a PG went through from one beginning to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    /// The map at its end.
    pub epoch: Epoch,
    /// States in the order in which they were left.
    pub states: VecDeque<PastState>,
}

/// How often a state was entered and left, and how long it took (`per_state_info`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateTimes {
    /// How often it was entered.
    pub enter: u64,
    /// How often it was left.
    pub exit: u64,
    /// Events that came meanwhile.
    pub events: u64,
    /// Nanoseconds in it, all together.
    pub total: u64,
    /// The least.
    pub min: u64,
    /// The most.
    pub max: u64,
}

impl StateTimes {
    fn add(&mut self, more: &StateTimes) {
        self.min = match (self.exit, more.exit) {
            (0, _) => more.min,
            (_, 0) => self.min,
            _ => self.min.min(more.min),
        };
        self.max = self.max.max(more.max);
        self.enter += more.enter;
        self.exit += more.exit;
        self.events += more.events;
        self.total += more.total;
    }
}

/// Times by state.
pub type AllStateTimes = BTreeMap<&'static str, StateTimes>;

/// Adds what another PG went through.
pub fn add_state_times(all: &mut AllStateTimes, more: &AllStateTimes) {
    more.iter().for_each(|(name, times)| all.entry(name).or_default().add(times));
}

/// The states of peering that a PG was in, and when.
#[derive(Debug, Default)]
pub(crate) struct StateHistory {
    past: VecDeque<Instance>,
    now: Instance,
    /// The states that it is in, outermost first, and when they were entered.
    open: Vec<(&'static str, UTime)>,
    times: AllStateTimes,
}

/// True where `inner` lies in `outer`; `Start` is the one whose name does not say so.
fn lies_in(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
        || (inner, outer) == (START, "Started")
}

const START: &str = "Start";

/// The states around `leaf`, outermost first, and itself.
fn around(leaf: &'static str) -> impl Iterator<Item = &'static str> {
    let outer = (leaf == START).then_some("Started");
    let parts = leaf.match_indices('/').map(move |(end, _)| &leaf[..end]);
    outer.into_iter().chain(parts).chain([leaf])
}

impl StateHistory {
    /// The PG is made or loaded.
    pub(crate) fn begin(&mut self, epoch: Epoch, at: UTime) {
        if self.open.is_empty() {
            self.enter("Initial", epoch, at);
        }
    }

    /// An interval begins.
    pub(crate) fn restart(&mut self, epoch: Epoch, at: UTime) {
        self.begin(epoch, at);
        self.enter("Reset", epoch, at);
        self.enter(START, epoch, at);
    }

    /// The PG is in this state, and in those around it.
    pub(crate) fn enter(&mut self, leaf: &'static str, epoch: Epoch, at: UTime) {
        if self.open.last().is_some_and(|(name, _)| *name == leaf) {
            return;
        }
        while let Some((name, enter)) = self.open.pop_if(|(name, _)| *name != leaf && !lies_in(leaf, name)) {
            self.leave(PastState { name, enter, exit: at });
        }
        if self.open.is_empty() && !self.now.states.is_empty() {
            self.now.epoch = epoch;
            self.past.truncate(INSTANCES_MAX - 1);
            self.past.push_front(std::mem::take(&mut self.now));
        }
        let depth = self.open.len();
        for name in around(leaf).skip(depth) {
            self.open.push((name, at));
            self.times.entry(name).or_default().enter += 1;
        }
    }

    fn leave(&mut self, state: PastState) {
        let nanos = state.exit.since(state.enter).as_nanos() as u64;
        let times = StateTimes { exit: 1, total: nanos, min: nanos, max: nanos, ..StateTimes::default() };
        self.times.entry(state.name).or_default().add(&times);
        if self.now.states.len() == STATES_MAX {
            self.now.states.pop_front();
        }
        self.now.states.push_back(state);
    }

    /// Something came that moves peering or recovery on.
    pub(crate) fn note_event(&mut self) {
        if let Some((name, _)) = self.open.last() {
            self.times.entry(name).or_default().events += 1;
        }
    }

    /// The innermost state.
    pub(crate) fn current(&self) -> &'static str {
        self.open.last().map_or("", |(name, _)| *name)
    }

    /// What is over, oldest first.
    pub(crate) fn past(&self) -> impl Iterator<Item = &Instance> {
        self.past.iter().rev()
    }

    pub(crate) fn times(&self) -> &AllStateTimes {
        &self.times
    }

    pub(crate) fn forget_times(&mut self) {
        self.times.clear();
    }
}

impl Pg {
    /// It does something else from here on.
    pub(crate) fn enter(&mut self, phase: Phase, ctx: &Ctx<'_>) {
        self.history.enter(state_name(&phase, self.stats.stamps.state), ctx.map.epoch, ctx.wall);
        self.phase = phase;
    }

    /// Ceph's name of the state that it is in.
    pub fn peering_state(&self) -> &'static str {
        self.history.current()
    }

    /// What it went through, oldest first.
    pub fn past_states(&self) -> impl Iterator<Item = &Instance> {
        self.history.past()
    }

    /// How long it was in which states since it was loaded.
    pub fn state_times(&self) -> &AllStateTimes {
        self.history.times()
    }

    /// Counts those anew.
    pub fn forget_state_times(&mut self) {
        self.history.forget_times();
    }
}

/// Ceph's name of the state that answers `ceph pg ID query`. Within `Active` and `ReplicaActive` this is not the
/// innermost one, which [`state_name`] names: those states leave the answer to the one around them.
pub(crate) fn queried_name(phase: &Phase) -> &'static str {
    match phase {
        Phase::Idle => "Reset",
        Phase::Replica => "Started/ReplicaActive",
        Phase::GetInfo { .. }
        | Phase::Down
        | Phase::GetLog { .. }
        | Phase::WaitActing { .. }
        | Phase::WaitUpThru => state_name(phase, PgState::default()),
        Phase::Activating { .. } | Phase::Active => "Started/Primary/Active",
    }
}

/// Ceph's name of what a PG does, the innermost: what the history of states is made of.
pub(crate) fn state_name(phase: &Phase, state: PgState) -> &'static str {
    match phase {
        Phase::Idle => "Started/Stray",
        Phase::Replica => "Started/ReplicaActive/RepNotRecovering",
        Phase::GetInfo { .. } => "Started/Primary/Peering/GetInfo",
        Phase::Down => "Started/Primary/Peering/Down",
        Phase::GetLog { .. } => "Started/Primary/Peering/GetLog",
        Phase::WaitActing { .. } => "Started/Primary/WaitActingChange",
        Phase::WaitUpThru => "Started/Primary/Peering/WaitUpThru",
        Phase::Activating { .. } => "Started/Primary/Active/Activating",
        Phase::Active if state.has(PgState::CLEAN) => "Started/Primary/Active/Clean",
        Phase::Active if state.has(PgState::BACKFILLING) => "Started/Primary/Active/Backfilling",
        Phase::Active if state.has(PgState::RECOVERING) => "Started/Primary/Active/Recovering",
        Phase::Active if state.has(PgState::DEGRADED) => "Started/Primary/Active/NotRecovering",
        Phase::Active => "Started/Primary/Active/Recovered",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u32) -> UTime {
        UTime::new(seconds, 0)
    }

    fn names(instance: &Instance) -> Vec<&'static str> {
        instance.states.iter().map(|state| state.name).collect()
    }

    #[test]
    fn states_are_left_from_the_inside_out() {
        let mut history = StateHistory::default();
        history.restart(Epoch(6), at(1));
        history.enter("Started/Primary/Peering/GetInfo", Epoch(6), at(1));
        history.enter("Started/Primary/Active/Activating", Epoch(6), at(3));
        history.enter("Started/Primary/Active/Clean", Epoch(7), at(4));
        history.enter("Started/Primary/Active/Clean", Epoch(7), at(5));
        assert_eq!(history.current(), "Started/Primary/Active/Clean");
        history.restart(Epoch(9), at(10));
        let past: Vec<&Instance> = history.past().collect();
        assert_eq!(names(past[0]), ["Initial"]);
        assert_eq!(names(past[1]), ["Reset"]);
        // Observed: 16.2.15 has them in this order.
        let all = [
            "Start",
            "Started/Primary/Peering/GetInfo",
            "Started/Primary/Peering",
            "Started/Primary/Active/Activating",
            "Started/Primary/Active/Clean",
            "Started/Primary/Active",
            "Started/Primary",
            "Started",
        ];
        assert_eq!((names(past[2]), past[2].epoch), (all.to_vec(), Epoch(9)));
        assert_eq!((names(past[3]), past.len()), (vec!["Reset"], 4));
        let active = past[2].states[5];
        assert_eq!((active.enter, active.exit), (at(3), at(10)));
        let times = history.times()["Started/Primary/Active/Clean"];
        assert_eq!((times.enter, times.exit, times.total), (1, 1, 6_000_000_000));
        let reset = history.times()["Reset"];
        assert_eq!((reset.enter, reset.exit, reset.min), (2, 2, 0));
    }

    #[test]
    fn old_instances_go() {
        let mut history = StateHistory::default();
        (1..40).for_each(|epoch| history.restart(Epoch(epoch), at(epoch)));
        assert_eq!(history.past().count(), INSTANCES_MAX);
        assert_eq!(history.past().last().map(|last| last.epoch), Some(Epoch(39)));
        (0..200).for_each(|n| {
            history.enter("Started/Primary/Active/Recovering", Epoch(40), at(50 + n));
            history.enter("Started/Primary/Active/Clean", Epoch(40), at(50 + n));
        });
        assert_eq!(history.now.states.len(), STATES_MAX);
    }

    #[test]
    fn times_of_pgs_add_up() {
        let one = |nanos| StateTimes { enter: 2, exit: 1, events: 3, total: nanos, min: nanos, max: nanos };
        let mut all = AllStateTimes::from([("Reset", one(5))]);
        add_state_times(&mut all, &AllStateTimes::from([("Reset", one(3)), ("Start", one(9))]));
        let reset = StateTimes { enter: 4, exit: 2, events: 6, total: 8, min: 3, max: 5 };
        assert_eq!((all["Reset"], all["Start"]), (reset, one(9)));
    }
}
