//! The primary has the log: replicas take it over, and the PG serves when all have.

use std::collections::BTreeSet;

use messages::{MPgActivated, MPgLog};
use types::OsdId;

use super::{LogOutOfReach, list::detached};
use crate::{
    Ctx, Effect, Pg,
    index_wait::IndexWait,
    log::Span,
    pg::{Pending, Phase},
};

impl Pg {
    pub(crate) fn check_up_thru(&mut self, ctx: &mut Ctx<'_>) {
        if self.phase != Phase::WaitUpThru
            || !self.is_flushed()
            || self.is_waiting(IndexWait::Activate)
            || ctx.map.up_thru(self.me) < self.interval_seen_since()
            || !self.has_min_size()
        {
            return;
        }
        let waiting: BTreeSet<OsdId> = self.others().collect();
        let log_of = |osd: &OsdId| self.peer_info.get(osd).map_or(Span::default(), Span::of);
        let logs: Vec<(OsdId, Span)> = waiting.iter().map(|osd| (*osd, log_of(osd))).collect();
        for (_, theirs) in &logs {
            if let Err(lacking) = self.ready_for_log(*theirs, ctx) {
                return self.wait(IndexWait::Activate, lacking, ctx);
            }
        }
        let mut compared = Vec::new();
        for (osd, theirs) in logs {
            if self.needs_list(theirs) {
                compared.push(osd);
                continue;
            }
            let message = self.log_for(theirs, true, ctx);
            ctx.effects.push(Effect::SendOsd(osd, message.into()));
        }
        self.send_list(&compared, true, ctx);
        self.forget_versions();
        self.let_go(IndexWait::Activate, ctx);
        self.ask_leases(ctx.now);
        self.enter(Phase::Activating { waiting, is_durable: false }, ctx);
        self.info.last_epoch_started = ctx.map.epoch;
        self.keep_info_and_intervals(Pending::Activated, ctx);
    }

    /// True if `from` is the primary, and another OSD than this one.
    pub(crate) fn is_activator(&self, from: OsdId) -> bool {
        from == self.members.primary && !self.is_primary()
    }

    /// Replica: the primary's log is ours from here on.
    pub(crate) fn on_activate(&mut self, from: OsdId, mut message: MPgLog, ctx: &mut Ctx<'_>) {
        if !self.is_activator(from) {
            return;
        }
        self.history.note_event();
        self.intervals = std::mem::take(&mut message.intervals);
        self.info.last_epoch_clean = self.info.last_epoch_clean.max(message.info.last_epoch_clean);
        // As the primary: a newer map of ours would make this copy seem better than what others have of this interval.
        message.info.last_epoch_started = message.epoch;
        match self.take_over(&message, Pending::ReplicaActivated { primary: from }, ctx) {
            Ok(()) => self.enter(Phase::Replica, ctx),
            Err(LogOutOfReach) => {
                // A replica follows no primary whose log it does not have. By this question the primary learns that it
                // needs a list.
                self.enter(Phase::Idle, ctx);
                self.ask_log(from, self.info.last_update, ctx);
            }
        }
    }

    /// Primary: true for a member that has not taken over the log yet.
    pub(crate) fn is_activating(&self, osd: OsdId) -> bool {
        matches!(&self.phase, Phase::Activating { waiting, .. } if waiting.contains(&osd))
    }

    pub(crate) fn reply_activated(&mut self, primary: OsdId, ctx: &mut Ctx<'_>) {
        self.give_lease(ctx.now);
        let missing = self.missing.clone();
        let reply = MPgActivated { pgid: self.pgid, epoch: ctx.map.epoch, missing, takes_clones: true };
        ctx.effects.push(Effect::SendOsd(primary, reply.into()));
    }

    pub(crate) fn on_activated(&mut self, from: OsdId, message: MPgActivated, ctx: &mut Ctx<'_>) {
        self.history.note_event();
        let Phase::Activating { waiting, .. } = &mut self.phase else { return };
        waiting.remove(&from);
        self.take_lease(from);
        self.peer_missing.insert(from, detached(message.missing));
        self.recovery.note_takes_clones(from, message.takes_clones);
        self.check_active(ctx);
    }

    pub(crate) fn on_activation_durable(&mut self, ctx: &mut Ctx<'_>) {
        self.history.note_event();
        if let Phase::Activating { is_durable, .. } = &mut self.phase {
            *is_durable = true;
        }
        self.check_active(ctx);
    }

    pub(crate) fn check_active(&mut self, ctx: &mut Ctx<'_>) {
        let Phase::Activating { waiting, is_durable: true } = &self.phase else { return };
        // A tick looks again.
        if !waiting.is_empty() || !self.is_prior_lease_over(ctx) {
            return;
        }
        self.enter(Phase::Active, ctx);
        // All members have the log that they were activated by.
        self.note_committed(self.info.last_update);
        self.tell_committed(ctx);
        ctx.effects.push(Effect::StatsChanged);
        self.look_for_all(ctx);
        self.recover(ctx);
        self.run_waiting_ops(ctx);
    }
}
