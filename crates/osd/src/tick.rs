//! What happens once a second: heartbeats, statistics, retries, an orderly stop.

use std::time::Duration;

use messages::{MOSDMarkMeDown, MOSDPing, MPGStats, Message};
use types::{MapFlags, OsdStat, PgStat};

use crate::{
    Effect, Osd, ShardMessage,
    boot::Boot,
    failsafe::in_ping,
    heartbeat::{self, Heartbeat},
    on_osd::FailureKind,
    osd::{Ctx, TICK},
};

const TICK_INTERVAL: Duration = Duration::from_secs(1);
/// An orderly stop waits this long for the monitor's word.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

impl Osd {
    pub(crate) fn on_tick(&mut self, ctx: &mut Ctx<'_>) {
        if let Boot::Stopping { deadline } = self.boot
            && ctx.now >= deadline
        {
            return self.finish_stop(ctx);
        }
        if !self.report_liveness(ctx) {
            return;
        }
        self.ask_for_whole_map(ctx);
        self.boot_if_due(ctx);
        self.watch_boot(ctx);
        self.give_up_waiting(ctx);
        self.settle_early(ctx);
        self.follow_injected_full(ctx);
        self.look_at_room(ctx);
        self.beat(ctx);
        self.report_refused(ctx);
        self.end_dropping(ctx);
        self.tick_pgs(ctx);
        self.tick_ops(ctx);
        self.measure_commits(ctx);
        self.send_stats_if_due(ctx);
        ctx.effects.push(Effect::SetTimer(TICK, ctx.now + TICK_INTERVAL));
    }

    /// Says in the log that this OSD is not let into the map: it listens, but serves no client.
    fn watch_boot(&mut self, ctx: &Ctx<'_>) {
        let is_waiting = self.config.shard.is_control() && self.boot.is_waiting();
        if self.boot_watch.is_due(ctx.now, is_waiting && !self.watchdog.is_stalled()) {
            tracing::warn!(
                osd = self.config.whoami.0,
                state = self.boot.name(),
                epoch = self.map.epoch.0,
                has_monitor = self.has_mon,
                noup = self.map.has_flag(MapFlags::NOUP),
                "not marked up yet, so that nobody is served; the cluster log may say why"
            );
        }
    }

    fn beat(&mut self, ctx: &mut Ctx<'_>) {
        if self.boot != Boot::Active {
            return;
        }
        let seconds = ctx.now.since(self.started).as_secs();
        if seconds.is_multiple_of(heartbeat::INTERVAL.as_secs()) && !self.watchdog.is_stalled() {
            // PGs that were made since the last map may have others.
            self.set_heartbeat_peers();
            self.ping_peers(ctx);
        }
        for (osd, up_from, silent) in self.heartbeat.overdue(ctx.now) {
            tracing::warn!(osd = osd.0, silent_ms = silent.as_millis() as u64, "no heartbeat");
            self.report_failure(osd, up_from, FailureKind::Silent(silent), ctx);
        }
    }

    pub(crate) fn ping_peers(&mut self, ctx: &mut Ctx<'_>) {
        self.heartbeat.on_pinged(ctx.now);
        let (room, left_bytes) = in_ping(self.told_room());
        let ping = Heartbeat::ping(ctx.now, self.config.whoami, self.boot_epoch, self.map.epoch);
        for osd in self.heartbeat.peers().collect::<Vec<_>>() {
            self.send_osd(osd, MOSDPing { room, left_bytes, ..ping }.into(), ctx);
        }
    }

    fn measure_commits(&mut self, ctx: &Ctx<'_>) {
        let (control, pgs) = (&self.control, &self.pgs);
        self.stats_report.measure_commits(ctx.now, || {
            control.reports().map(|report| report.commit_times).chain([pgs.commit_times()]).sum()
        });
    }

    /// PGs changed: report soon.
    pub(crate) fn stats_changed(&mut self, ctx: &Ctx<'_>) {
        self.stats_report.soon(ctx.now);
    }

    pub(crate) fn send_stats_if_due(&mut self, ctx: &mut Ctx<'_>) {
        if !self.stats_report.is_due(ctx.now) {
            return;
        }
        self.report_images(ctx);
        if !self.config.shard.is_control() {
            self.stats_report.went_out(ctx.now);
            return self.report(ctx);
        }
        let mut pgs = self.primary_pg_stats(ctx);
        pgs.extend(self.control.reports().flat_map(|report| report.pgs.iter().cloned()));
        if self.send_stats(pgs, ctx) {
            self.stats_report.went_out(ctx.now);
        }
    }

    /// Reports on `pgs` and the OSD; false if that is not possible at present.
    pub(crate) fn send_stats(&mut self, pgs: Vec<PgStat>, ctx: &mut Ctx<'_>) -> bool {
        if !self.has_mon || self.boot != Boot::Active || !self.has_all_reports() {
            return false;
        }
        let (stat, pool_stat) = (self.osd_stat(ctx), self.pool_usage(ctx));
        let slow = self.all_slow_ops();
        let perf = self.useful_perf(ctx);
        self.stats_report.count();
        let stats = MPGStats {
            osd: self.config.whoami,
            epoch: self.map.epoch,
            stat,
            pgs,
            pool_stat,
            slow_ops: slow.count,
            oldest_slow_op_sec: slow.oldest_sec,
            perf,
            seq: self.report_seq(),
            pings: self.heartbeat.pings(ctx.now),
        };
        ctx.effects.push(Effect::SendMon(Message::from(stats)));
        true
    }

    /// The number of the last report: larger than all before, whatever process of this OSD made them.
    pub(crate) fn report_seq(&self) -> u64 {
        self.stats_report.seq(self.boot_epoch)
    }

    fn osd_stat(&mut self, ctx: &Ctx<'_>) -> OsdStat {
        let usage = self.usage(ctx);
        let mut stat = OsdStat {
            kb: usage.total_bytes >> 10,
            kb_used: usage.total_bytes.saturating_sub(usage.available_bytes) >> 10,
            kb_used_data: usage.data_bytes >> 10,
            kb_used_omap: usage.omap_bytes >> 10,
            kb_used_meta: usage.meta_bytes >> 10,
            kb_avail: usage.available_bytes >> 10,
            // What is durable can be read: applying takes no time of its own, as with BlueStore.
            commit_latency_ns: self.stats_report.commit_latency_ns(),
            apply_latency_ns: self.stats_report.commit_latency_ns(),
            pg_count: self.pg_count() as u32,
            primary_pg_count: self.primary_pg_count() as u32,
            heartbeat_peers: self.heartbeat.peers().collect(),
            copies_repaired: self.pgs.copies_repaired()
                + self.control.reports().map(|report| report.copies_repaired).sum::<u64>(),
        };
        self.apply_injected_full(&mut stat);
        stat
    }

    pub(crate) fn on_stop(&mut self, ctx: &mut Ctx<'_>) {
        if !self.has_mon || self.boot != Boot::Active {
            return self.finish_stop(ctx);
        }
        self.boot = Boot::Stopping { deadline: ctx.now + STOP_PATIENCE };
        // The monitor is told when no shard answers clients any more.
        self.control.unquiet = self.config.shard.count - 1;
        match self.control.unquiet {
            0 => self.mark_me_down(ctx),
            _ => self.send_other_shards(|| ShardMessage::Quiesce, ctx),
        }
    }

    pub(crate) fn mark_me_down(&self, ctx: &mut Ctx<'_>) {
        let message = MOSDMarkMeDown { osd: self.config.whoami, epoch: self.map.epoch, is_ack: false };
        ctx.effects.push(Effect::SendMon(message.into()));
    }

    pub(crate) fn finish_stop(&mut self, ctx: &mut Ctx<'_>) {
        tracing::info!(osd = self.config.whoami.0, "stopped in order");
        self.send_other_shards(|| ShardMessage::Stop, ctx);
        ctx.effects.push(Effect::Stopped);
    }
}
