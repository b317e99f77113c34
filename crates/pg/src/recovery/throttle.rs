//! What all PGs of an OSD, or of a shard of it, have under way of recovery: objects, and bytes to each other OSD. PGs
//! that may not go on wait here, and have their turns one after the other. The throttle knows PGs by their ids alone.
//!
//! No OSD reserves anything on another one, so no two OSDs can wait for each other.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    ops::Bound,
    rc::Rc,
};

use types::{OsdId, PgId};

/// Counts what is under way; clones count together.
#[derive(Clone, Default)]
pub struct RecoveryThrottle(Rc<RefCell<State>>);

/// How much may be under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) slots: u64,
    pub(crate) bytes_per_osd: usize,
}

#[derive(Default)]
struct State {
    slots: u64,
    /// Only OSDs that something is under way to, or waits to be sent to.
    queues: BTreeMap<OsdId, TargetQueue>,
    /// The OSD whose turn it was last.
    served: Option<OsdId>,
    /// Something has changed since no PG could go on.
    is_due: bool,
}

/// What goes to one OSD. The queue of this OSD itself has what it pulls from others, which has no bytes here.
#[derive(Default)]
struct TargetQueue {
    bytes: usize,
    /// Pushes that have a slot, or answer a pull, and wait for others to arrive.
    held: VecDeque<Held>,
    /// PGs that wait to begin with an object, those first that an operator wants first.
    waiting: VecDeque<(PgId, bool)>,
    is_waiting: BTreeSet<PgId>,
}

struct Held {
    pgid: PgId,
    bytes: usize,
    goes_first: bool,
}

impl TargetQueue {
    /// True if so many bytes may follow. An object that is larger than the limit goes alone.
    fn fits(&self, bytes: usize, max: usize) -> bool {
        self.bytes == 0 || self.bytes.saturating_add(bytes) <= max
    }

    fn is_open(&self, max: usize) -> bool {
        self.held.is_empty() && self.bytes < max
    }

    fn may_start_one(&self, limits: Limits) -> bool {
        !self.waiting.is_empty() && self.is_open(limits.bytes_per_osd)
    }

    fn may_send_held(&self, limits: Limits) -> bool {
        self.held.front().is_some_and(|held| self.fits(held.bytes, limits.bytes_per_osd))
    }

    fn is_idle(&self) -> bool {
        self.bytes == 0 && self.held.is_empty() && self.waiting.is_empty()
    }
}

impl RecoveryThrottle {
    /// Takes a slot of an object until it is dropped.
    pub(crate) fn take(&self) -> RecoverySlot {
        self.0.borrow_mut().slots += 1;
        RecoverySlot(self.clone())
    }

    /// Slots that are taken.
    pub fn taken(&self) -> u64 {
        self.0.borrow().slots
    }

    /// OSDs that something is under way to, or waits to be sent to.
    pub fn targets(&self) -> usize {
        self.0.borrow().queues.len()
    }

    /// Bytes under way to an OSD.
    pub fn bytes_to(&self, osd: OsdId) -> usize {
        self.0.borrow().queues.get(&osd).map_or(0, |queue| queue.bytes)
    }

    /// Counts what is sent to an OSD, until it is dropped.
    pub(crate) fn send(&self, osd: OsdId, bytes: usize) -> RecoveryBytes {
        self.0.borrow_mut().queues.entry(osd).or_default().bytes += bytes;
        RecoveryBytes { throttle: self.clone(), osd, bytes }
    }

    /// Whether so much may be sent now. What goes first does not wait for what is held.
    pub(super) fn may_send(&self, osd: OsdId, bytes: usize, goes_first: bool, limits: Limits) -> bool {
        let state = self.0.borrow();
        let may = |queue: &TargetQueue| {
            queue.fits(bytes, limits.bytes_per_osd) && (goes_first || queue.held.is_empty())
        };
        state.queues.get(&osd).is_none_or(may)
    }

    /// A PG holds so much for an OSD until it has its turn.
    pub(super) fn hold(&self, osd: OsdId, pgid: PgId, bytes: usize, goes_first: bool) {
        let mut state = self.0.borrow_mut();
        state.is_due = true;
        let held = &mut state.queues.entry(osd).or_default().held;
        let first = held.iter().take_while(|held| held.goes_first).count();
        let at = if goes_first { first } else { held.len() };
        held.insert(at, Held { pgid, bytes, goes_first });
    }

    /// How many objects a PG may begin to send to an OSD. While other PGs wait: one in its turn, none before it.
    pub(super) fn room(&self, osd: OsdId, has_turn: bool, limits: Limits) -> usize {
        let state = self.0.borrow();
        let free = usize::try_from(limits.slots.saturating_sub(state.slots)).unwrap_or(usize::MAX);
        let is_open = state.queues.get(&osd).is_none_or(|queue| queue.is_open(limits.bytes_per_osd));
        let others_wait = state.queues.values().any(|queue| queue.may_start_one(limits));
        match (is_open, others_wait, has_turn) {
            (false, ..) | (_, true, false) => 0,
            (_, true, true) => free.min(1),
            (_, false, _) => free,
        }
    }

    /// The PG wants to begin with another object for this OSD: it gets a turn, once.
    pub(super) fn wait(&self, osd: OsdId, pgid: PgId, is_forced: bool) {
        let mut state = self.0.borrow_mut();
        let queue = state.queues.entry(osd).or_default();
        if !queue.is_waiting.insert(pgid) {
            if !is_forced || queue.waiting.contains(&(pgid, true)) {
                return;
            }
            queue.waiting.retain(|(known, _)| *known != pgid);
        }
        let first = queue.waiting.iter().take_while(|(_, is_forced)| *is_forced).count();
        let at = if is_forced { first } else { queue.waiting.len() };
        queue.waiting.insert(at, (pgid, is_forced));
        state.is_due = true;
    }

    /// Limits may have changed.
    pub(super) fn look_again(&self) {
        self.0.borrow_mut().is_due = true;
    }

    /// The PG whose turn it is, and the OSD for which it is. The PG waits no more; OSDs have their turns one after the
    /// other, too.
    pub(super) fn next_turn(&self, limits: Limits) -> Option<(PgId, OsdId)> {
        let mut state = self.0.borrow_mut();
        if !state.is_due {
            return None;
        }
        let has_slot = state.slots < limits.slots;
        let (after, until) = match state.served {
            Some(served) => (Bound::Excluded(served), Bound::Included(served)),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        let queues = state
            .queues
            .range((after, Bound::Unbounded))
            .chain(state.queues.range((Bound::Unbounded, until)));
        let may =
            |queue: &TargetQueue| queue.may_send_held(limits) || has_slot && queue.may_start_one(limits);
        let Some(osd) = { queues }.find(|(_, queue)| may(queue)).map(|(osd, _)| *osd) else {
            state.is_due = false;
            return None;
        };
        state.served = Some(osd);
        let queue = state.queues.get_mut(&osd)?;
        let pgid = match queue.held.pop_front() {
            Some(held) => held.pgid,
            None => {
                let (pgid, _) = queue.waiting.pop_front()?;
                queue.is_waiting.remove(&pgid);
                pgid
            }
        };
        state.forget_idle(osd);
        Some((pgid, osd))
    }
}

impl State {
    fn forget_idle(&mut self, osd: OsdId) {
        if self.queues.get(&osd).is_some_and(TargetQueue::is_idle) {
            self.queues.remove(&osd);
        }
    }
}

/// The slot of an object on its way, given back when it is dropped.
pub(crate) struct RecoverySlot(RecoveryThrottle);

impl Drop for RecoverySlot {
    fn drop(&mut self) {
        let mut state = self.0.0.borrow_mut();
        state.slots -= 1;
        state.is_due = true;
    }
}

/// Bytes on their way to an OSD: that they came is known, or will not be, when this is dropped.
pub(crate) struct RecoveryBytes {
    throttle: RecoveryThrottle,
    osd: OsdId,
    bytes: usize,
}

impl Drop for RecoveryBytes {
    fn drop(&mut self) {
        let mut state = self.throttle.0.borrow_mut();
        if let Some(queue) = state.queues.get_mut(&self.osd) {
            queue.bytes -= self.bytes;
        }
        state.forget_idle(self.osd);
        state.is_due = true;
    }
}

impl fmt::Debug for RecoveryThrottle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecoveryThrottle({} taken)", self.taken())
    }
}

impl fmt::Debug for RecoverySlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecoverySlot")
    }
}

impl fmt::Debug for RecoveryBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecoveryBytes({} to {})", self.bytes, self.osd)
    }
}

#[cfg(test)]
mod tests;
