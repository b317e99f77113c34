//! Reads that a replica answers, for clients that say that any copy may answer (`BALANCE_READS`, `LOCALIZE_READS`).
//!
//! No client may read a state older than one that any client was told of, nor one that another client may still fail to
//! find. So a replica answers only
//! - in an interval in which the primary has said that it serves: then no member of an earlier interval serves any
//!   more, and all that was acknowledged before is in this copy's log;
//! - while it has a lease of all other members, as the primary needs one (`lease.rs`): then no member of a later
//!   interval serves yet;
//! - for objects that it does not lack, and whose changes are all known to be durable on all members: an acknowledged
//!   change is durable there, so it is here; a change that is here alone could be undone, or another copy may still
//!   answer with what was before it.
//!
//! Everything else it refuses with EAGAIN, and clients ask the primary. It runs reads as the primary does (`ops.rs`),
//! and checks these conditions again whenever a read goes on.
//!
//! Authority: `PrimaryLogPG::do_op`, `PeeringState::can_serve_replica_read` (16.2). That the primary also tells how far
//! all members are when no change carries it comes from later releases (`MOSDPGPCT`).

use messages::{LogLevel, MPgBadCopy, MPgCommitted};
use types::{EVersion, Errno, HObject, OsdId};

use crate::{Ctx, Effect, Pg, exec, object_versions::object_version, ops::WaitingOp, pg::Phase};

/// The change up to which all members have everything durable.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Committed {
    /// As far as this copy knows; none until the primary serves in this interval.
    to: Option<EVersion>,
    /// Primary: what it has told the others.
    told: Option<EVersion>,
}

impl Pg {
    /// All members have everything up to this change durable.
    pub(crate) fn note_committed(&mut self, to: EVersion) {
        self.committed.to = self.committed.to.max(Some(to));
    }

    /// All members are known to have everything up to this change durable; zero until the primary serves.
    pub(crate) fn committed_to(&self) -> EVersion {
        self.committed.to.unwrap_or(EVersion::ZERO)
    }

    /// What a change tells the replicas of those before it.
    pub(crate) fn tell_committed_along(&mut self) -> EVersion {
        self.committed.told = self.committed.to;
        self.committed_to()
    }

    /// Primary: tells the replicas what no change has told them.
    pub(crate) fn tell_committed(&mut self, ctx: &mut Ctx<'_>) {
        let Some(committed_to) = self.committed.to.filter(|_| self.committed.told != self.committed.to)
        else {
            return;
        };
        self.committed.told = self.committed.to;
        let others: Vec<OsdId> = self.acting_others().collect();
        if !others.is_empty() {
            let message = MPgCommitted { pgid: self.pgid, epoch: ctx.map.epoch, committed_to };
            ctx.effects.push(Effect::SendOsds(others, message.into()));
        }
    }

    pub(crate) fn on_committed(&mut self, from: OsdId, message: &MPgCommitted) {
        if from == self.members.primary && self.phase == Phase::Replica {
            self.note_committed(message.committed_to);
        }
    }

    /// True for a read that this replica may answer, or has to refuse.
    pub(crate) fn is_replica_read(&self, waiting: &WaitingOp) -> bool {
        !self.is_primary() && exec::is_for_any_copy(&waiting.op) && self.members.acting.contains(&self.me)
    }

    /// True when this replica may answer a read of the object now.
    pub(crate) fn can_serve_replica_read(&mut self, waiting: &WaitingOp, ctx: &Ctx<'_>) -> bool {
        let head = waiting.op.head();
        self.phase == Phase::Replica
            && !self.members.is_merging
            && waiting.op.epoch >= self.info.since
            && exec::is_pure_read(&waiting.op)
            && self.is_committed(&head)
            && !self.is_missing(&head)
            && self.has_lease(ctx)
    }

    /// True when all members are known to have all changes of the object, and of its clones.
    fn is_committed(&self, head: &HObject) -> bool {
        let Some(to) = self.committed.to else { return false };
        self.log.after(to).all(|entry| entry.object.head() != *head)
    }

    /// Replica: a client's read found the object unreadable. The primary answers the client, and replaces this copy by
    /// a good one.
    pub(crate) fn complain_of_copy(&mut self, waiting: &WaitingOp, object: &HObject, ctx: &mut Ctx<'_>) {
        if !self.missing.contains_key(object) {
            let (pgid, epoch, object) = (self.pgid, ctx.map.epoch, object.clone());
            let message = MPgBadCopy { pgid, epoch, object, version: EVersion::ZERO };
            ctx.effects.push(Effect::SendOsd(self.members.primary, message.into()));
        }
        self.refuse(waiting, Errno::EAGAIN, ctx);
    }

    /// Primary: a replica's copy cannot be read. Changes that were ordered before this reach the replica before the
    /// word that it lacks the object.
    pub(crate) fn on_copy_unreadable(&mut self, from: OsdId, object: HObject, ctx: &mut Ctx<'_>) {
        let lacks = self.peer_missing.get(&from).is_some_and(|missing| missing.contains_key(&object));
        if self.phase != Phase::Active || lacks || self.missing.contains_key(&object) {
            return;
        }
        // Where the version is not at hand, the next read that finds the copy unreadable has it reported again.
        let Ok(version) = object_version(ctx.store, self.coll, &object) else { return };
        if version == EVersion::ZERO {
            return;
        }
        let line = format!("{} missing copy of {object} on osd.{from}, will push it", self.pgid);
        ctx.effects.push(Effect::ClusterLog(LogLevel::ERROR, line));
        self.stats.sum.objects_repaired += 1;
        self.replace_copy(from, object, version, ctx);
        self.is_clean = false;
        self.recover(ctx);
    }
}

#[cfg(test)]
mod tests;
