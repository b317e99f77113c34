//! Peering: after every change of the acting set the primary finds the newest log, takes it over, and
//! has the replicas take it over, before anything is served.
//!
//! Authority: `PeeringState` (GetInfo, GetLog, WaitUpThru, Activating). Simpler than Ceph's in two points: a member
//! that the log does not reach gets an object list instead of a backfill; replicas compute themselves what they lack.
//! Which OSDs act while members are filled is decided in `acting.rs`.

mod activate;
mod flush;
mod list;

use std::{cmp::Reverse, collections::BTreeSet};

use messages::{LogLevel, MPgLog, MPgNotify, MPgQuery};
use types::{EVersion, Epoch, LogEntry, Membership, Mutation, OsdId, PgInfo, Transaction};

use crate::{
    Ctx, Effect, Pg,
    log::{self, Merge, Span},
    meta::MetaChange,
    past_intervals::forget_superseded,
    pg::{Pending, Phase},
    replica_read::Committed,
};

/// Another copy's log does not reach back to what this one has, and no object list came with it.
#[derive(Debug)]
struct LogOutOfReach;

/// By this the best log is chosen (`PeeringState::find_best_info`).
fn rank(info: &PgInfo) -> (Epoch, EVersion) {
    (info.last_epoch_started, info.last_update)
}

impl Pg {
    pub(crate) fn on_map(&mut self, ctx: &mut Ctx<'_>) {
        self.history.note_event();
        let at = std::mem::replace(&mut self.info.epoch, ctx.map.epoch);
        let Some(pool) = ctx.map.pools.get(&self.pgid.pool) else { return self.remove(ctx) };
        self.info.pg_num = pool.pg_num;
        if let Some(purged) = ctx.map.new_purged_snaps.get(&self.pgid.pool) {
            // The map forgets purged snapshots: a later primary must still know that they are removed.
            self.info.purged_snaps.union_with(purged);
        }
        let Some(members) = self.members.next(at, ctx.map, self.pgid) else {
            return self.on_map_same_interval(ctx);
        };
        self.enter_interval(at, members, MetaChange::default(), Transaction::new(self.coll), ctx);
    }

    /// Begins another interval with these members; `at` is the epoch of the map before. `change` and `txn` may bring
    /// what is to become durable along with it.
    pub(crate) fn enter_interval(
        &mut self,
        at: Epoch,
        members: Membership,
        mut change: MetaChange,
        mut txn: Transaction,
        ctx: &mut Ctx<'_>,
    ) {
        // Where maps are gone, the present members are known to have led only up to the last map before. An interval up
        // to the next map could pass for one after the PG was last clean, and a primary would wait for its members.
        let past = self.members.close(self.info.since, at, ctx.map);
        let maybe_went_rw = past.maybe_went_rw;
        if maybe_went_rw {
            self.intervals.push(past);
            forget_superseded(&mut self.intervals);
        }
        if members.primary != self.members.primary
            || members.bits != self.members.bits
            || ctx.map.up_from(members.primary) > at
        {
            self.info.primary_since = ctx.map.epoch;
        }
        self.end_lease(maybe_went_rw, ctx);
        self.info.since = members.begin(at, ctx.map);
        self.members = members;
        change.info(&self.info, &mut self.kept);
        change.intervals(&self.intervals);
        change.into_txn(&mut txn);
        self.submit_interval(at, txn, ctx);
        self.start_interval(ctx);
    }

    fn on_map_same_interval(&mut self, ctx: &mut Ctx<'_>) {
        // An OSD that began a new life does not answer what its earlier one was asked, nor need its copy have what that
        // one told of. If the OSD acts, its new life begins a new interval; otherwise it does not.
        let map = ctx.map;
        let is_new = |osd: &OsdId| map.up_from(*osd) == map.epoch;
        match &mut self.phase {
            Phase::GetInfo { waiting } => {
                waiting.retain(|osd| ctx.map.is_up(*osd));
                let told = self.peer_info.extract_if(.., |osd, _| is_new(osd)).map(|(osd, _)| osd);
                waiting.extend(told);
                // What was learned of past intervals may add OSDs to ask.
                if waiting.is_empty() {
                    return self.get_info(ctx);
                }
                let again: Vec<OsdId> = waiting.iter().copied().filter(is_new).collect();
                again.into_iter().for_each(|osd| self.ask_info(osd, ctx));
            }
            Phase::GetLog { from } if is_new(from) || !ctx.map.is_up(*from) => {
                let from = *from;
                self.peer_info.remove(&from);
                self.get_info(ctx);
            }
            Phase::Down | Phase::WaitActing { has_log: false } => {
                self.peer_info.retain(|osd, _| !is_new(osd));
                self.get_info(ctx);
            }
            Phase::WaitActing { has_log: true } => self.after_log(ctx),
            Phase::WaitUpThru => self.check_up_thru(ctx),
            Phase::Active => {
                let is_gone = |osd: &OsdId| is_new(osd) || !map.is_up(*osd);
                self.look_for_all(ctx);
                self.ask_for_unfound(ctx);
                self.forget_offers(is_gone, ctx);
                self.forget_gone(is_gone, ctx);
                self.complain_of_unfound(ctx);
                self.trim_snaps(ctx);
                self.tick_proxies(ctx);
                // Clients that were blocklisted learn that from their watches before they notice otherwise.
                self.tick_watches(ctx);
            }
            // The primary may have told this OSD's last life that the copy is not needed.
            Phase::Idle if is_new(&self.me) => self.tell_primary(ctx),
            Phase::Idle | Phase::Replica | Phase::GetLog { .. } | Phase::Activating { .. } => {}
        }
    }

    /// Begins anew in the interval of the newest map.
    pub(crate) fn start_interval(&mut self, ctx: &mut Ctx<'_>) {
        self.ops_end_interval(self.is_primary(), ctx);
        self.phase = Phase::Idle;
        self.history.restart(ctx.map.epoch, ctx.wall);
        self.committed = Committed::default();
        self.peer_info.clear();
        self.peer_missing.clear();
        self.recovery.clear();
        let kept = self.unfound.clear();
        if kept > 0 {
            let line =
                format!("{} peers again: {kept} unfound objects are not marked lost as ordered", self.pgid);
            ctx.effects.push(Effect::ClusterLog(LogLevel::WARN, line));
        }
        self.is_clean = false;
        self.trimming = None;
        self.recount = None;
        let loads = self.scrubs.on_new_interval(self.is_primary());
        loads.into_iter().for_each(|token| ctx.store.unload(token));
        self.drop_loads(ctx);
        self.drop_gathered(ctx);
        self.watches.on_new_interval();
        if self.is_primary() {
            self.get_info(ctx);
        } else {
            self.enter(Phase::Idle, ctx);
        }
        self.tell_primary(ctx);
        self.run_peers(ctx);
        ctx.effects.push(Effect::StatsChanged);
    }

    /// Tells the primary, which is another OSD, of this copy, as soon as that may be told.
    fn tell_primary(&self, ctx: &mut Ctx<'_>) {
        if self.is_flushed() && !self.is_primary() && self.members.primary.is_some() {
            let notify = self.notify(ctx);
            ctx.effects.push(Effect::SendOsd(self.members.primary, notify.into()));
        }
    }

    fn notify(&self, ctx: &Ctx<'_>) -> MPgNotify {
        MPgNotify {
            pgid: self.pgid,
            epoch: ctx.map.epoch,
            info: self.own_info(),
            intervals: self.intervals.clone(),
            leases: self.lease.to_tell(ctx.now),
        }
    }

    pub(crate) fn own_info(&self) -> PgInfo {
        PgInfo { missing_count: self.missing.len() as u64, store_born: self.store_born, ..self.info.clone() }
    }

    /// The other members: those that act, and those that are filled.
    pub(crate) fn others(&self) -> impl Iterator<Item = OsdId> + '_ {
        self.members.all().filter(|osd| *osd != self.me)
    }

    /// Asks every OSD that may have been part of the PG since it was last clean.
    fn get_info(&mut self, ctx: &mut Ctx<'_>) {
        // A log that was asked for, and does not come, may have had objects looked up that are not here.
        self.forget_versions();
        let past = self.intervals.iter().flat_map(|i| i.acting.iter().copied());
        let asked: BTreeSet<OsdId> = past
            .chain(self.others())
            .filter(|o| o.is_some() && *o != self.me && ctx.map.is_up(*o) && !self.peer_info.contains_key(o))
            .collect();
        asked.iter().for_each(|osd| self.ask_info(*osd, ctx));
        self.enter(Phase::GetInfo { waiting: asked }, ctx);
        self.check_infos(ctx);
    }

    pub(crate) fn ask_info(&self, osd: OsdId, ctx: &mut Ctx<'_>) {
        let query = MPgQuery {
            pgid: self.pgid,
            epoch: ctx.map.epoch,
            created: self.info.created,
            ..MPgQuery::default()
        };
        ctx.effects.push(Effect::SendOsd(osd, query.into()));
    }

    /// Asks for what a copy has logged after `since`, or more.
    fn ask_log(&self, osd: OsdId, since: EVersion, ctx: &mut Ctx<'_>) {
        let query = MPgQuery {
            pgid: self.pgid,
            epoch: ctx.map.epoch,
            created: self.info.created,
            wants_log: true,
            since,
            tail: self.info.log_tail,
        };
        ctx.effects.push(Effect::SendOsd(osd, query.into()));
    }

    /// Answers the primary; a copy that does not exist yet answers with an empty info.
    pub(crate) fn on_query(&mut self, from: OsdId, query: MPgQuery, ctx: &mut Ctx<'_>) {
        if query.wants_log {
            let asker = Span { tail: query.tail, last: query.since };
            let (asker, is_activation) = if self.is_activating(from) {
                // The log that the replica was sent to be activated by does not reach back to what it has.
                (None, true)
            } else {
                (Some(asker).filter(|asker| !self.needs_list(*asker)), false)
            };
            match asker {
                Some(asker) => {
                    let reply = self.log_for(asker, false, ctx);
                    ctx.effects.push(Effect::SendOsd(from, reply.into()));
                }
                None => self.send_list(&[from], is_activation, ctx),
            }
            return;
        }
        let notify = self.notify(ctx);
        ctx.effects.push(Effect::SendOsd(from, notify.into()));
    }

    pub(crate) fn on_notify(&mut self, from: OsdId, notify: MPgNotify, ctx: &mut Ctx<'_>) {
        if !self.is_primary() {
            return;
        }
        self.history.note_event();
        let has_learned = self.learn_intervals(notify.intervals, notify.info.last_epoch_clean);
        self.lease.learn(&notify.leases, ctx.now);
        self.info.scrubs = self.info.scrubs.newer(notify.info.scrubs);
        self.learn_purged_snaps(&notify.info.purged_snaps);
        if self.phase == Phase::Active {
            // The copy that told of it may not be needed, and go.
            self.keep_learned(ctx);
        }
        let now = rank(&notify.info);
        let had_more = self.peer_info.insert(from, notify.info).is_some_and(|info| rank(&info) > now);
        let outranks = |info: &PgInfo| now > rank(info) && ctx.map.is_up(from);
        let is_settled = self.is_settled();
        match &mut self.phase {
            Phase::GetInfo { waiting } => {
                waiting.remove(&from);
                // What was learned of past intervals may add OSDs to ask.
                if waiting.is_empty() {
                    self.get_info(ctx);
                }
            }
            Phase::Down | Phase::WaitActing { has_log: false } => self.get_info(ctx),
            // That OSD has lost its copy since it told of it, and the log with it: another copy's log is the best now.
            Phase::GetLog { from: source } if *source == from && had_more => self.get_info(ctx),
            // The past is not what it seemed to be, and neither may the best log be.
            Phase::GetLog { from: source }
                if has_learned || self.peer_info.get(source).is_some_and(outranks) =>
            {
                self.get_info(ctx)
            }
            Phase::WaitActing { has_log: true } | Phase::WaitUpThru
                if has_learned || outranks(&self.info) =>
            {
                self.get_info(ctx)
            }
            Phase::Active if !self.is_clean => {
                self.look_for_all(ctx);
                self.recover(ctx);
            }
            Phase::Active if is_settled && !self.members.contains(from) => self.purge_stray(from, ctx),
            Phase::Idle
            | Phase::Replica
            | Phase::GetLog { .. }
            | Phase::WaitActing { has_log: true }
            | Phase::WaitUpThru
            | Phase::Activating { .. }
            | Phase::Active => {}
        }
    }

    fn check_infos(&mut self, ctx: &mut Ctx<'_>) {
        let Phase::GetInfo { waiting } = &self.phase else { return };
        if !waiting.is_empty() {
            return;
        }
        if !self.is_past_told(ctx.map) {
            self.enter(Phase::Down, ctx);
            return;
        }
        match self.better_copy(ctx) {
            Some(from) => {
                if self.gives_way_to(from, ctx) {
                    return self.enter(Phase::WaitActing { has_log: false }, ctx);
                }
                self.enter(Phase::GetLog { from }, ctx);
                // Not what another member has: the source answers with what comes after a change that it knows, and
                // this copy may not. What others lack they are told from the log that this copy has then, which
                // reaches no further back for having been merged.
                self.ask_log(from, self.info.last_update, ctx);
            }
            None => self.after_log(ctx),
        }
    }

    /// The OSD with the best of the other copies, if its log is better than ours. Of those with the same changes, that
    /// is one that has nearly everything, then one whose log reaches far back, then one that is to have the PG.
    fn better_copy(&self, ctx: &Ctx<'_>) -> Option<OsdId> {
        let of_others = self.peer_info.iter().filter(|(osd, _)| ctx.map.is_up(**osd));
        let best = of_others.max_by_key(|(osd, info)| {
            let is_whole = info.missing_count <= ctx.recovery.fill_first;
            (rank(info), is_whole, Reverse(info.log_tail), self.members.up.contains(osd))
        });
        best.filter(|(_, info)| rank(info) > rank(&self.info)).map(|(osd, _)| *osd)
    }

    /// Asks once more that another OSD leads, or looks again at what all have told if none is to.
    pub(crate) fn give_way_again(&mut self, ctx: &mut Ctx<'_>) {
        if !self.better_copy(ctx).is_some_and(|best| self.gives_way_to(best, ctx)) {
            self.get_info(ctx);
        }
    }

    /// True where the log tells everything that a copy at version `since` lacks. The newest change need not be in the
    /// log: it may be one of an object that went to another PG by a split.
    fn is_reached(&self, since: EVersion) -> bool {
        // Entries up to the tail serve clients that repeat a request: their versions may be made up, by a merge.
        let is_logged = since == self.info.last_update || self.log.contains(since);
        since == self.info.log_tail || since > self.info.log_tail && is_logged
    }

    /// The log to send to a copy that has the log `theirs`: the entries behind it, or all entries where it may diverge.
    fn log_for(&self, theirs: Span, is_activation: bool, ctx: &Ctx<'_>) -> MPgLog {
        let since = theirs.last;
        let is_reached = self.is_reached(since);
        let entries: Vec<LogEntry> = if is_reached {
            self.log.after(since).cloned().collect()
        } else {
            self.log.iter().cloned().collect()
        };
        let tail = if is_reached { since } else { self.info.log_tail };
        MPgLog {
            pgid: self.pgid,
            epoch: ctx.map.epoch,
            info: PgInfo { log_tail: tail, ..self.own_info() },
            entries,
            objects: None,
            missing: self.missing.clone(),
            is_activation,
            intervals: self.intervals.clone(),
        }
    }

    /// The best copy's log came.
    pub(crate) fn on_log(&mut self, from: OsdId, message: MPgLog, ctx: &mut Ctx<'_>) {
        if self.phase != (Phase::GetLog { from }) {
            return;
        }
        self.history.note_event();
        let has_learned = self.learn_intervals(message.intervals.clone(), message.info.last_epoch_clean);
        self.peer_missing.insert(from, list::detached(message.missing.clone()));
        match self.take_over(&message, Pending::Nothing, ctx) {
            // Another copy's log may be the best.
            Ok(()) | Err(LogOutOfReach) if has_learned => self.get_info(ctx),
            Ok(()) => self.after_log(ctx),
            // Whoever has nothing is sent an object list, or a log that begins with the first change. If that was no
            // help, the PG stays where it is: it cannot go on from a log that does not reach this copy.
            Err(LogOutOfReach) if message.info.log_tail > EVersion::ZERO => {
                self.ask_log(from, EVersion::ZERO, ctx);
            }
            Err(LogOutOfReach) => {}
        }
    }

    /// Whether [`Pg::take_over`] can be called now.
    pub(crate) fn ready_to_take_over(
        &mut self,
        message: &MPgLog,
        ctx: &Ctx<'_>,
    ) -> Result<(), Vec<store::NotCached>> {
        if message.objects.is_some() {
            return self.scan_objects(ctx.store);
        }
        let mut log = self.log.clone();
        let merged = log::merge(&mut log, &self.info, &message.entries, &message.info);
        self.look_up(merged.iter().flat_map(|merged| merged.missing.keys()), ctx.store)
    }

    /// Makes another copy's log ours; what we lack becomes missing. `pending` says what its durability means. An error
    /// leaves everything as it is.
    fn take_over(
        &mut self,
        message: &MPgLog,
        pending: Pending,
        ctx: &mut Ctx<'_>,
    ) -> Result<(), LogOutOfReach> {
        let mut change = MetaChange::default();
        let mut txn = Transaction::new(self.coll);
        let merged = match &message.objects {
            Some(objects) => self.resync(objects, message, &mut change),
            None => log::merge(&mut self.log, &self.info, &message.entries, &message.info),
        };
        let Some(Merge { divergent, added, deleted, missing }) = merged else {
            // A copy that went on from here would serve a state that never existed.
            tracing::error!(pg = %self.pgid, "a log that does not reach this copy came without an object list");
            return Err(LogOutOfReach);
        };
        divergent.iter().for_each(|version| change.unlog(*version));
        added.iter().for_each(|entry| change.log(entry));
        for object in deleted {
            txn.push(&object, Mutation::Remove);
            self.missing.remove(&object);
            change.missing(&object, None);
        }
        let last = message.info.last_update;
        let mut lacking = Vec::new();
        for (object, need) in missing {
            if need == EVersion::ZERO {
                self.take_over_unknown(object, last, &mut change, &mut txn);
                continue;
            }
            let have = self.known_version(&object);
            // If the version that counts as missing is the very one that this copy has, the object here is bad.
            let is_bad = self.missing.get(&object) == Some(&have);
            if have == need && !is_bad {
                // What is here already is not missing.
                if self.missing.remove(&object).is_some() {
                    change.missing(&object, None);
                }
                continue;
            }
            if have != need && (is_bad || divergent.contains(&have)) {
                // It must not be taken for a good version of the past later.
                txn.push(&object, Mutation::Remove);
            }
            change.missing(&object, Some(need));
            lacking.push((object.detached(), need));
        }
        // Built of what is in order, a map takes half of what it takes if one is inserted after the other.
        self.missing.append(&mut lacking.into_iter().collect());
        self.info.last_update = last;
        let seen =
            added.iter().map(|entry| entry.user_version).fold(message.info.last_user_version, u64::max);
        self.info.last_user_version = self.info.last_user_version.max(seen);
        self.info.last_epoch_started = self.info.last_epoch_started.max(message.info.last_epoch_started);
        self.learn_purged_snaps(&message.info.purged_snaps);
        self.info.totals = message.info.totals;
        self.info.scrubs = self.info.scrubs.newer(message.info.scrubs);
        self.info.is_estimated = message.info.is_estimated;
        change.info(&self.info, &mut self.kept);
        change.intervals(&self.intervals);
        change.into_txn(&mut txn);
        self.submit(pending, txn, ctx);
        Ok(())
    }

    /// Goes on once the PG's log is known, and what every copy has.
    pub(crate) fn after_log(&mut self, ctx: &mut Ctx<'_>) {
        if !self.acts_as_wanted(ctx) {
            self.enter(Phase::WaitActing { has_log: true }, ctx);
            return;
        }
        self.enter(Phase::WaitUpThru, ctx);
        let seen_since = self.interval_seen_since();
        if ctx.map.up_thru(self.me) < seen_since {
            ctx.effects.push(Effect::WantUpThru(seen_since));
        }
        self.check_up_thru(ctx);
    }

    /// True with enough members to take writes.
    pub(crate) fn has_min_size(&self) -> bool {
        self.members.acting_count() >= usize::from(self.members.min_size)
    }
}

#[cfg(test)]
mod tests;
