//! Reads that a replica answers, for clients that say that any copy may (`BALANCE_READS`, `LOCALIZE_READS`).
//!
//! Nobody may read what is older than what anybody was told, nor what somebody else may still fail to find. So a replica
//! answers only
//! - in an interval in which the primary serves, by its word: then nobody serves any more by an earlier interval, and
//!   all that was acknowledged before is in this copy's log;
//! - while it has a lease of all other members, as the primary needs one (`lease.rs`): then nobody serves by a later one;
//! - what it does not lack, and what has no change that may not be durable on all members: what was acknowledged is, so
//!   it is here; what is here alone could be undone, or another copy may still answer what was before.
//!
//! Everything else it refuses with EAGAIN, and clients ask the primary. It runs reads as the primary does (`ops.rs`), and
//! looks at these conditions again whenever one goes on.
//!
//! Authority: `PrimaryLogPG::do_op`, `PeeringState::can_serve_replica_read` (16.2). That the primary tells how far all are
//! without a change that carries it, too, is of later releases (`MOSDPGPCT`).

use messages::{LogLevel, MPgBadCopy, MPgCommitted};
use types::{EVersion, Errno, HObject, OsdId};

use crate::{Ctx, Effect, Pg, errand::object_version, exec, ops::WaitingOp, pg::Phase};

/// Up to which change all members have all durable.
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
    pub(crate) fn tell_committed(&mut self, cx: &mut Ctx<'_>) {
        let Some(committed_to) = self.committed.to.filter(|_| self.committed.told != self.committed.to)
        else {
            return;
        };
        self.committed.told = self.committed.to;
        let others: Vec<OsdId> = self.acting_others().collect();
        if !others.is_empty() {
            let message = MPgCommitted { pgid: self.pgid, epoch: cx.map.epoch, committed_to };
            cx.effects.push(Effect::SendOsds(others, message.into()));
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
    pub(crate) fn can_serve_replica_read(&mut self, waiting: &WaitingOp, cx: &Ctx<'_>) -> bool {
        let head = exec::head_of(&waiting.op);
        self.phase == Phase::Replica
            && !self.members.is_merging
            && waiting.op.epoch >= self.info.since
            && exec::is_pure_read(&waiting.op)
            && self.is_committed(&head)
            && !self.is_missing(&head)
            && self.has_lease(cx)
    }

    /// True when all members are known to have all changes of the object, and of its clones.
    fn is_committed(&self, head: &HObject) -> bool {
        let Some(to) = self.committed.to else { return false };
        self.log.after(to).all(|entry| entry.object.head() != *head)
    }

    /// Replica: a client's read found the object unreadable. The primary answers the client, and puts a good copy in the
    /// place of this one.
    pub(crate) fn complain_of_copy(&mut self, waiting: &WaitingOp, object: &HObject, cx: &mut Ctx<'_>) {
        if !self.missing.contains_key(object) {
            let (pgid, epoch, object) = (self.pgid, cx.map.epoch, object.clone());
            let message = MPgBadCopy { pgid, epoch, object, version: EVersion::ZERO };
            cx.effects.push(Effect::SendOsd(self.members.primary, message.into()));
        }
        self.refuse(waiting, Errno::EAGAIN, cx);
    }

    /// Primary: a replica's copy cannot be read. Changes that were ordered before reach the replica before the word that
    /// it lacks the object.
    pub(crate) fn on_copy_unreadable(&mut self, from: OsdId, object: HObject, cx: &mut Ctx<'_>) {
        let lacks = self.peer_missing.get(&from).is_some_and(|missing| missing.contains_key(&object));
        if self.phase != Phase::Active || lacks || self.missing.contains_key(&object) {
            return;
        }
        // Where the version is not at hand, the next read that finds the copy unreadable brings the word again.
        let Ok(version) = object_version(cx.store, self.coll, &object) else { return };
        if version == EVersion::ZERO {
            return;
        }
        let line = format!("{} missing copy of {object} on osd.{from}, will push it", self.pgid);
        cx.effects.push(Effect::ClusterLog(LogLevel::ERROR, line));
        self.counters.objects_repaired += 1;
        self.replace_copy(from, object, version, cx);
        self.is_clean = false;
        self.recover(cx);
    }
}

#[cfg(test)]
mod tests;
