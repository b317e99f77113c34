//! Replication: a change goes to the own store and to all members in the same turn, and is answered
//! when all have it durable.

use std::sync::Arc;

use messages::{MOSDRepOp, MOSDRepOpReply, MPgInfo, PEER_SEGMENT_BYTES_MAX};
use types::{EVersion, LogEntry, OsdId, Transaction};

use crate::{
    Ctx, Effect, Pg,
    exec::Staged,
    log::ENTRIES_KEPT,
    meta::MetaChange,
    pg::{Pending, Phase},
};

/// The longest change. A client sends less (`osd_max_write_size`); copies of other objects, or what an op repeats, may
/// make more of it. Other OSDs take all that is no longer.
pub(crate) const CHANGE_BYTES_MAX: usize = 256 << 20;

/// Log entries come with it.
const _: () = assert!(CHANGE_BYTES_MAX <= PEER_SEGMENT_BYTES_MAX as usize / 2);

impl Staged {
    /// How long it is at most in a message. None for a change that must not be made, as not all copies might take it.
    pub(crate) fn length(&self) -> Option<usize> {
        Some(self.txn.bytes_at_most()).filter(|bytes| *bytes <= CHANGE_BYTES_MAX)
    }
}

impl Pg {
    /// Orders a change: log, own store, replicas. Returns its version, and the replicas that have to confirm it.
    pub(crate) fn replicate(&mut self, staged: Staged, ctx: &mut Ctx<'_>) -> (EVersion, Vec<OsdId>) {
        assert!(!self.members.is_merging, "a PG that is about to be merged stays as it is");
        let Staged { mut txn, mut log, delta } = staged;
        for entry in &log {
            debug_assert!(
                self.log.is_followed_by(entry, self.info.log_tail),
                "{}: {entry:?} does not name what was before it",
                self.pgid
            );
        }
        let version = log.last().map_or(self.info.last_update, |entry| entry.version);
        self.info.totals = delta.added_to(self.info.totals);
        let is_watched = self.scrubs.is_under_way() || self.recount.is_some();
        if let Some(entry) = log.last().filter(|_| is_watched) {
            let head = entry.object.head();
            self.scrubs.on_change(&head, &log, delta);
            self.recount.iter_mut().for_each(|recount| recount.note(&head, delta));
        }
        let trim_to = self.log.trim_target(self.committed_to(), self.info.log_tail, ctx.recovery.log);
        let trim_to = trim_to.unwrap_or(EVersion::ZERO);
        let members: Vec<OsdId> = self.members.all().collect();
        let others: Vec<OsdId> = members.iter().copied().filter(|o| *o != self.me).collect();
        if !others.is_empty() {
            let committed_to = self.tell_committed_along();
            let message = MOSDRepOp {
                pgid: self.pgid,
                epoch: ctx.map.epoch,
                version,
                log,
                trim_to,
                totals: self.info.totals,
                txn,
                committed_to,
            };
            ctx.effects.push(Effect::SendEncoded(others, Arc::new(message.to_raw(0).sealed())));
            (txn, log) = (message.txn, message.log);
        }
        self.apply(txn, log, trim_to, Pending::LocalCommit(version, ctx.now), ctx);
        (version, members)
    }

    /// Makes a change with its log entries part of this copy.
    fn apply(
        &mut self,
        mut txn: Transaction,
        log: Vec<LogEntry>,
        trim_to: EVersion,
        pending: Pending,
        ctx: &mut Ctx<'_>,
    ) {
        let mut change = MetaChange::default();
        for entry in &log {
            self.info.last_update = entry.version;
            self.info.last_user_version = self.info.last_user_version.max(entry.user_version);
            change.log(entry);
            // A copy that lacks an object is not asked to change it, but a delete settles it, and so does giving it
            // up. What is given up was counted.
            let settles = entry.is_delete || entry.lost_to.is_some();
            if settles && self.missing.remove(&entry.object).is_some() {
                self.recovery.look_again(&entry.object);
                change.missing(&entry.object, None);
                self.recovery.forget_bad(&entry.object);
                self.forget_gathered(&entry.object, &mut change, &mut txn);
            }
            self.info.is_estimated |= entry.lost_to.is_some();
        }
        self.log.extend(log);
        // What tells only of requests is before the tail.
        self.info.log_tail = self.info.log_tail.max(trim_to);
        if trim_to != EVersion::ZERO
            && let Some(last) = self.log.trim(trim_to, ENTRIES_KEPT)
        {
            change.unlog_upto(last);
        }
        change.info(&self.info, &mut self.kept);
        change.into_txn(&mut txn);
        self.submit(pending, txn, ctx);
    }

    pub(crate) fn on_rep_op(&mut self, from: OsdId, message: MOSDRepOp, ctx: &mut Ctx<'_>) {
        if from != self.members.primary || self.phase != Phase::Replica {
            return;
        }
        let pending = Pending::ReplicaCommit { primary: from, version: message.version, since: ctx.now };
        self.info.totals = message.totals;
        self.note_committed(message.committed_to);
        self.apply(message.txn, message.log, message.trim_to, pending, ctx);
    }

    /// Tells the members what is new of the PG's info without a change of an object (`PeeringState::share_pg_info`).
    pub(crate) fn share_info(&self, ctx: &mut Ctx<'_>) {
        let others: Vec<OsdId> = self.others().collect();
        if !others.is_empty() {
            let message = MPgInfo {
                pgid: self.pgid,
                epoch: ctx.map.epoch,
                history: self.info.scrubs,
                totals: self.info.totals,
                purged_snaps: self.info.purged_snaps.clone(),
            };
            ctx.effects.push(Effect::SendOsds(others, message.into()));
        }
    }

    pub(crate) fn on_info(&mut self, from: OsdId, message: MPgInfo, ctx: &mut Ctx<'_>) {
        if from == self.members.primary && self.phase == Phase::Replica {
            self.info.scrubs = message.history;
            self.info.totals = message.totals;
            self.learn_purged_snaps(&message.purged_snaps);
            self.keep_info(ctx);
        }
    }

    pub(crate) fn reply_rep_op(&mut self, primary: OsdId, version: EVersion, ctx: &mut Ctx<'_>) {
        let reply = MOSDRepOpReply { pgid: self.pgid, epoch: ctx.map.epoch, version };
        ctx.effects.push(Effect::SendOsd(primary, reply.into()));
    }
}

#[cfg(test)]
mod tests {
    use messages::Message;

    use super::*;
    use crate::test_world::World;

    /// A primary that the others do not hear does not trim what they do not have, however much it logs.
    #[test]
    fn logs_are_trimmed_up_to_what_all_members_have() {
        let mut world = World::active();
        let before = world.pg.info.last_update;
        let trims = |world: &mut World| {
            let told = world.told().into_iter();
            let changes = told.filter_map(|(_, message)| match message {
                Message::MOSDRepOp(op) => Some(op.trim_to),
                _ => None,
            });
            changes.max()
        };
        for tid in 1..=3_200 {
            world.write(1, tid);
        }
        let (last, tail, length) = (world.pg.info.last_update, world.pg.info.log_tail, world.recovery.log);
        assert_eq!(world.pg.log.trim_target(last, tail, length), Some(world.version(203)));
        assert!(trims(&mut world) <= Some(before) && world.pg.info.log_tail <= before);
        let confirmed = world.version(50);
        for peer in world.peers.clone() {
            let (pgid, epoch) = (world.pg.pgid, world.map.epoch);
            world.say(peer, MOSDRepOpReply { pgid, epoch, version: confirmed }.into());
        }
        world.write(1, 3_201);
        assert_eq!((trims(&mut world), world.pg.info.log_tail), (Some(confirmed), confirmed));
    }

    /// The other OSD would refuse the change when it comes again.
    #[test]
    fn an_osd_that_acts_twice_is_told_of_a_change_once() {
        let mut world = World::of(2);
        let (me, peer) = (world.pg.me, world.peers[0]);
        for (acting, up) in [(vec![me, peer, peer], vec![me]), (vec![me, peer], vec![peer, me, peer])] {
            (world.pg.members.acting, world.pg.members.up) = (acting, up);
            world.told();
            world.write(1, 1 + world.pg.info.last_update.version);
            let told = world.told().into_iter().filter(|(_, message)| message.name() == "MOSDRepOp");
            assert_eq!(told.map(|(osds, _)| osds).collect::<Vec<_>>(), [[peer]]);
            assert_eq!(world.pg.acting_others().collect::<Vec<_>>(), [peer]);
        }
    }

    #[test]
    fn a_change_that_other_osds_would_not_take_is_too_long() {
        let world = World::active();
        let mut txn = Transaction::new(world.pg.coll);
        let (object, data) = (world.object(1), codec::Payload::from(bytes::Bytes::from(vec![7; 4 << 20])));
        let is_too_long = |txn: &Transaction| {
            Staged { txn: txn.clone(), log: Vec::new(), delta: Default::default() }.length().is_none()
        };
        for part in 0..CHANGE_BYTES_MAX as u64 / (4 << 20) {
            assert!(!is_too_long(&txn));
            txn.push(&object, types::Mutation::Write { offset: part << 22, data: data.clone() });
        }
        assert!(is_too_long(&txn));
    }
}
