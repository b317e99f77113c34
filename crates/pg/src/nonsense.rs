//! What other OSDs say that cannot be so: changes outside of their PG, versions in no order, epochs to come. A copy
//! that believed it would spoil what it has, or come upon what its own code rules out.
//!
//! Only what no sound OSD says, whatever happens to it and to the network, is refused. What is late, or said to a copy
//! that has another part by now, is for the handlers to drop.

use codec::Decode;
use messages::{MOSDRepOp, MPgLog, MPgNotify, MPgPush, Message, pg_peer_target};
use thiserror::Error;
use types::{
    CollId, EVersion, Epoch, HObject, LogEntry, Missing, Mutation, OsdId, PgInfo, PgInterval, SnapId,
    Transaction, TxnOp,
};

use crate::{
    Ctx, Effect, LEASE_AT_MOST, Pg,
    exec::{INFO_XATTR, OBJECT_BYTES_MAX, ObjectInfo},
    pg::Phase,
    recovery::begins_as_said,
};

/// No PG makes so many changes. What is computed from the number of one that was made does not overflow.
const VERSION_END: u64 = 1 << 62;

/// Why nothing more of an OSD is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Nonsense {
    /// It speaks of a map that this OSD does not have yet, though such messages wait for their maps; or of a later one
    /// than its own.
    #[error("it speaks of an epoch to come")]
    Epoch,
    /// Versions have an order, and an end.
    #[error("its versions are out of order")]
    Order,
    /// It says that a change is done that was not made.
    #[error("it speaks of a change that was not made")]
    Unmade,
    /// An object, or the place of a change.
    #[error("it speaks of what is not of its PG")]
    OtherPlace,
    /// No object is so large.
    #[error("it makes an object too large")]
    Extent,
    /// No lease is so long.
    #[error("it speaks of a lease that is too long")]
    Lease,
}

/// Refuses what contradicts itself, whatever there is here.
///
/// # Errors
/// Says what cannot be so.
pub fn check_message(message: &Message) -> Result<(), Nonsense> {
    match message {
        Message::MOSDRepOp(change) => check_change(change),
        Message::MPgNotify(notify) => check_notify(notify),
        Message::MPgLog(log) => check_log(log),
        Message::MPgPush(push) => check_push(push),
        _ => Ok(()),
    }
}

fn holds(is_so: bool, otherwise: Nonsense) -> Result<(), Nonsense> {
    if is_so { Ok(()) } else { Err(otherwise) }
}

/// True if a change may be logged right behind another one: a PG counts its changes, and epochs never go back.
fn follows(before: EVersion, next: EVersion) -> bool {
    next.version > before.version && next.epoch >= before.epoch && next.version < VERSION_END
}

/// True for a change that was made before the last one, or for that one.
fn is_upto(version: EVersion, last: EVersion) -> bool {
    version.version <= last.version && version.epoch <= last.epoch
}

fn are_in_order(mut last: EVersion, log: &[LogEntry]) -> bool {
    log.iter().all(|entry| follows(std::mem::replace(&mut last, entry.version), entry.version))
}

fn check_change(change: &MOSDRepOp) -> Result<(), Nonsense> {
    let MOSDRepOp { pgid, epoch, version, log, trim_to, txn, committed_to, .. } = change;
    check_txn(txn, CollId::pg(*pgid))?;
    holds(version.epoch <= *epoch, Nonsense::Epoch)?;
    let is_last = log.last().is_none_or(|last| last.version == *version);
    holds(is_last && are_in_order(EVersion::ZERO, log), Nonsense::Order)?;
    holds(is_upto(*trim_to, *version) && is_upto(*committed_to, *version), Nonsense::Unmade)
}

/// A change that another OSD makes is one of objects, and in one place.
fn check_txn(txn: &Transaction, coll: CollId) -> Result<(), Nonsense> {
    holds(txn.coll == coll, Nonsense::OtherPlace)?;
    for op in &txn.ops {
        let TxnOp::Object(_, mutation) = op else { return Err(Nonsense::OtherPlace) };
        let end = match mutation {
            Mutation::Write { offset, data } => offset.saturating_add(data.len() as u64),
            Mutation::Zero { offset, len } => offset.saturating_add(*len),
            Mutation::Truncate { size } => *size,
            _ => 0,
        };
        holds(end <= OBJECT_BYTES_MAX, Nonsense::Extent)?;
    }
    Ok(())
}

fn check_info(info: &PgInfo, epoch: Epoch) -> Result<(), Nonsense> {
    let PgInfo { last_update, log_tail, created, since, primary_since, .. } = info;
    let epochs = [info.last_epoch_started, info.last_epoch_clean, info.last_epoch_split, info.epoch];
    let of_versions = [last_update.epoch, log_tail.epoch];
    let mut epochs = epochs.into_iter().chain([*created, *since, *primary_since]).chain(of_versions);
    holds(epochs.all(|known| known <= epoch), Nonsense::Epoch)?;
    holds(last_update.version.max(log_tail.version) < VERSION_END, Nonsense::Order)
}

/// The past is over, so that it is forgotten some day. Intervals may overlap, where copies have skipped maps.
fn check_intervals(intervals: &[PgInterval], epoch: Epoch) -> Result<(), Nonsense> {
    holds(intervals.iter().all(|interval| interval.last <= epoch), Nonsense::Epoch)?;
    holds(intervals.iter().all(|interval| interval.first <= interval.last), Nonsense::Order)
}

fn check_notify(notify: &MPgNotify) -> Result<(), Nonsense> {
    check_info(&notify.info, notify.epoch)?;
    check_intervals(&notify.intervals, notify.epoch)?;
    // A primary waits for the end of each.
    let is_too_long = |left_ns: u64| u128::from(left_ns) > LEASE_AT_MOST.as_nanos();
    holds(!notify.leases.iter().any(|lease| is_too_long(lease.left_ns)), Nonsense::Lease)
}

fn check_log(log: &MPgLog) -> Result<(), Nonsense> {
    check_info(&log.info, log.epoch)?;
    check_intervals(&log.intervals, log.epoch)?;
    let last = log.entries.last().map_or(EVersion::ZERO, |entry| entry.version);
    let is_in_order = are_in_order(EVersion::ZERO, &log.entries);
    holds(is_in_order && is_upto(last, log.info.last_update), Nonsense::Order)?;
    let mut listed = log.objects.iter().flatten().map(|(_, version)| version);
    let is_made = listed.all(|version| *version <= log.info.last_update);
    holds(is_made && are_made(&log.missing, log.info.last_update), Nonsense::Unmade)
}

/// A copy lacks objects in versions that its log has had. No push would bring another one, and a primary that cannot
/// bring what a member lacks holds its own copy for bad.
fn are_made(missing: &Missing, last: EVersion) -> bool {
    missing.values().all(|need| *need <= last)
}

/// What is pushed makes one object, out of nothing or of the neighbour that is named with it, in the version that is.
fn check_push(push: &MPgPush) -> Result<(), Nonsense> {
    check_txn(&push.txn, CollId::pg(push.pgid))?;
    let is_of_object = |op: &TxnOp| op.object() == Some(&push.object);
    let is_all_of_object = push.txn.ops.iter().all(is_of_object);
    holds(is_all_of_object && begins_as_said(push), Nonsense::OtherPlace)?;
    let info = |op: &TxnOp| match op {
        TxnOp::Object(_, Mutation::SetXattrs(xattrs)) => {
            ObjectInfo::from_bytes(xattrs.get(INFO_XATTR)?.clone()).ok()
        }
        _ => None,
    };
    let mut infos = push.txn.ops.iter().filter_map(info);
    holds(infos.all(|info| info.version == push.version), Nonsense::Unmade)
}

/// Whether all objects are here that a message names as the PG's.
fn are_all(message: &Message, is_here: &dyn Fn(&HObject) -> bool) -> bool {
    let is_op_here = |op: &TxnOp| match op {
        TxnOp::Object(object, Mutation::CloneFrom { source }) => is_here(object) && is_here(source),
        op => op.object().is_some_and(is_here),
    };
    match message {
        Message::MOSDRepOp(m) => m.log.iter().all(|e| is_here(&e.object)) && m.txn.ops.iter().all(is_op_here),
        Message::MPgLog(m) => {
            m.entries.iter().all(|entry| is_here(&entry.object))
                && m.objects.iter().flatten().all(|(object, _)| is_here(object))
                && m.missing.keys().all(is_here)
        }
        Message::MPgActivated(m) => m.missing.keys().all(is_here),
        Message::MPgPull(m) => is_here(&m.object),
        Message::MPgPush(m) => {
            let neighbour = m.begin.base.map(|base| m.object.with_snap(base.snap));
            is_here(&m.object) && neighbour.as_ref().is_none_or(is_here)
        }
        Message::MPgPushReply(m) => is_here(&m.object),
        Message::MPgPushRefused(m) => is_here(&m.object),
        Message::MPgBadCopy(m) => is_here(&m.object),
        Message::MOSDRepScrubMap(m) => m.objects.iter().all(|found| is_here(&found.object)),
        _ => true,
    }
}

impl Pg {
    /// Refuses what another OSD cannot say in earnest to this copy as it is.
    pub(crate) fn check_peer(&self, from: OsdId, message: &Message, ctx: &Ctx<'_>) -> Result<(), Nonsense> {
        check_message(message)?;
        let is_known = pg_peer_target(message).is_none_or(|(_, epoch)| epoch <= ctx.map.epoch);
        holds(is_known, Nonsense::Epoch)?;
        if !self.is_of_interval(message) {
            return Ok(());
        }
        let pool = ctx.map.pools.get(&self.pgid.pool);
        let is_here = |object: &HObject| {
            let HObject { pool: id, hash, snap, is_max, .. } = *object;
            let is_mine = id == self.pgid.pool && snap <= SnapId::HEAD && !is_max;
            is_mine && pool.is_none_or(|pool| CollId::pg(pool.pg_of_hash(id, hash)) == self.coll)
        };
        holds(are_all(message, &is_here), Nonsense::OtherPlace)?;
        self.check_changes(from, message)
    }

    /// What is said of changes has to fit those that this copy has.
    fn check_changes(&self, from: OsdId, message: &Message) -> Result<(), Nonsense> {
        let last = self.info.last_update;
        let is_replica = from == self.members.primary && self.phase == Phase::Replica;
        match message {
            Message::MOSDRepOp(m) if is_replica => match m.log.first() {
                Some(first) => holds(follows(last, first.version), Nonsense::Order),
                None => holds(m.version == last, Nonsense::Unmade),
            },
            Message::MPgCommitted(m) if is_replica => holds(m.committed_to <= last, Nonsense::Unmade),
            // Of these, what is found to be bad here comes to be missing.
            Message::MPgBadCopy(m) if is_replica => holds(m.version <= last, Nonsense::Unmade),
            Message::MPgPull(m) if is_replica => holds(m.version <= last, Nonsense::Unmade),
            // A primary takes the version that it lacks and no other, as a copy that did not take over its log may have
            // one that came to nothing.
            Message::MPgPush(m) if is_replica => {
                holds(self.may_be_pushed(&m.object, m.version), Nonsense::Unmade)
            }
            // It was activated by the log that this copy has.
            Message::MPgActivated(m) if self.is_primary() => {
                holds(are_made(&m.missing, last), Nonsense::Unmade)
            }
            Message::MOSDRepOpReply(m) if self.is_primary() => holds(m.version <= last, Nonsense::Unmade),
            Message::MOSDRepScrubMap(m) => holds(self.scrubs.may_hear(from, m), Nonsense::OtherPlace),
            _ => Ok(()),
        }
    }

    /// True for a version of an object that the primary may have: none is newer than the log. One that is newer than
    /// what this copy lacks is that of a change that has come since.
    fn may_be_pushed(&self, object: &HObject, version: EVersion) -> bool {
        let PgInfo { last_update, log_tail, .. } = self.info;
        let is_newer = self.missing.get(object).is_some_and(|need| version > *need);
        let is_logged = || version <= log_tail || self.log.has_change_of(object, version);
        version <= last_update && (!is_newer || is_logged())
    }

    /// Hears nothing more of the OSD that has said what cannot be so. It must not: a copy that takes a message behind
    /// one that was dropped seems to have both.
    pub(crate) fn refuse_peer(&mut self, from: OsdId, nonsense: Nonsense, ctx: &mut Ctx<'_>) {
        self.peer_queue.forget(from);
        ctx.effects.push(Effect::Refused(from, nonsense));
    }
}

#[cfg(test)]
pub(crate) mod tests;
