//! Room for what requests change, weighed when that is known, and before the store has it: for want of room, the store
//! would hold the change, and all that comes later for the PG, removals and peering included.
//!
//! The OSD looks at what a request brings when it comes. What it copies or repeats, which clones it makes, what its
//! classes write, and what overwrites take before they give anything back, shows here.

use messages::MOSDOp;
use types::HObject;

use super::WaitingOp;
use crate::{
    CHANGE_BYTES, Ctx, Effect, Pg,
    exec::{Executed, Staged},
};

/// A change that lets no object grow and takes no more than this may have what is left beyond
/// `osd_failsafe_full_ratio`, if its client tries: locks, and maps of objects, change while an image is removed.
const SMALL_BYTES: u64 = 64 << 10;
/// The index takes at most so many times what an entry takes in a message, about.
const INDEX_TIMES: u64 = 16;

/// Whether a request's change may be made.
pub(super) enum Weighed {
    /// It may, or there is none.
    Fits,
    /// Not all copies might take it.
    TooLong,
    /// There might be no room for so many bytes.
    Short(u64),
}

impl WaitingOp {
    /// True for a request that is refused for want of room: its client does not send it again unasked, as one that
    /// wants to try, or has none that could, as one that was passed on.
    pub(super) fn wants_refusal(&self) -> bool {
        self.passed_on.is_some() || !waits_for_room(&self.op)
    }
}

/// True for a change that its client holds back, and sends again, while there is no room.
fn waits_for_room(op: &MOSDOp) -> bool {
    op.says_it_writes() && !op.tries_when_full()
}

impl Staged {
    fn lets_nothing_grow(&self) -> bool {
        self.delta.bytes <= 0 && self.delta.objects <= 0
    }
}

impl Pg {
    /// Weighs what a request changes. Mostly it brought all of it, and all OSDs have plenty of room.
    pub(super) fn weigh(&self, waiting: &mut WaitingOp, done: &Executed, ctx: &mut Ctx<'_>) -> Weighed {
        let Some(staged) = done.staged.as_ref().filter(|staged| !staged.txn.ops.is_empty()) else {
            return Weighed::Fits;
        };
        let Some(length) = staged.length() else { return Weighed::TooLong };
        let (mut bytes, brought) = (length as u64, waiting.permit.bytes());
        let at_most = waiting.permit.under_way().saturating_add(INDEX_TIMES * bytes);
        if !ctx.rooms.have_plenty(at_most) || staged.txn.has_clone() {
            let growth = ctx.store.growth_bytes(&staged.txn);
            if growth > 0 && self.is_short(waiting, staged, growth, ctx) {
                return Weighed::Short(growth);
            }
            bytes = bytes.max(growth);
        }
        let more = bytes.saturating_sub(brought);
        if more > CHANGE_BYTES {
            waiting.permit.add(more);
            ctx.effects.push(Effect::Grew(more));
        }
        Weighed::Fits
    }

    /// True if a change that takes so much might find no room on an OSD with a copy.
    fn is_short(&self, waiting: &WaitingOp, staged: &Staged, growth: u64, ctx: &Ctx<'_>) -> bool {
        let under_way = waiting.permit.under_way() + growth.saturating_sub(waiting.permit.bytes());
        match waiting.wants_refusal() && growth <= SMALL_BYTES && staged.lets_nothing_grow() {
            true => ctx.rooms.are_used_up(self.members(), under_way),
            false => ctx.rooms.are_short(self.members(), under_way),
        }
    }

    /// Drops a change whose client sends it again when its session has ended: what it wants to change of the object
    /// behind that goes, too, wherever it waits. Carried out now, it would be overwritten by the earlier one.
    pub(super) fn drop_for_room(
        &mut self,
        head: &HObject,
        waiting: WaitingOp,
        bytes: u64,
        ctx: &mut Ctx<'_>,
    ) {
        let session = waiting.client.session;
        let is_behind = |later: &WaitingOp| {
            later.client.session == session && later.passed_on.is_none() && waits_for_room(&later.op)
        };
        let early = self.ops.take_early(|later| later.op.head() == *head && is_behind(later));
        for dropped in self.ops.take_queued(head, is_behind).into_iter().chain(early).chain([waiting]) {
            self.release(&dropped, ctx);
        }
        ctx.effects.push(Effect::Dropped { session, bytes });
    }
}

#[cfg(test)]
mod tests;
