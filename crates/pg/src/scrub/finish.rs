//! The end of a scrub: what is said, remembered, and done about it.
//!
//! Authority: `PgScrubber::scrub_finish`, `PrimaryLogScrub::_scrub_finish` (16.2).

use messages::LogLevel;
use serde_json::{Value, json};
use types::PgTotals;

use super::{Cause, ScrubRequest, Wanted, run::Run};
use crate::{Ctx, Effect, Pg, index_wait::IndexWait};

impl Pg {
    pub(super) fn finish_scrub(&mut self, ctx: &mut Ctx<'_>) {
        let Some(mut run) = self.scrubs.run.take() else { return };
        self.release_slots(ctx);
        let (pgid, mode) = (self.pgid, run.mode());
        let mut say = |level, line| ctx.effects.push(Effect::ClusterLog(level, line));
        let mut fixed = 0;
        if self.info.is_estimated && !run.verdict.is_partial {
            self.info.totals = run.verdict.totals;
            self.info.is_estimated = false;
            self.recount = None;
        } else if let Some(line) = self.stat_mismatch(&run) {
            say(LogLevel::ERROR, line);
            run.verdict.shallow_errors += 1;
            if run.request.is_repair {
                self.info.totals = run.verdict.totals;
                fixed += 1;
            }
        }
        let bad = std::mem::take(&mut run.verdict.bad);
        if !bad.is_empty() {
            let missing = bad.values().filter(|bad| !bad.missing.is_empty()).count();
            let inconsistent = bad.values().filter(|bad| !bad.inconsistent.is_empty()).count();
            say(
                LogLevel::ERROR,
                format!("{pgid} {mode} {missing} missing, {inconsistent} inconsistent objects"),
            );
        }
        let is_too_much =
            run.cause == Cause::AutoRepair && bad.len() as u64 > ctx.scrub.auto_repair_errors_max;
        let is_repair = run.request.is_repair && !is_too_much;
        if is_repair {
            fixed += bad.values().map(super::verdict::BadCopies::count).sum::<u64>() + run.verdict.deleted;
        }
        let errors = run.verdict.errors();
        let (level, mut line) = match errors {
            0 => (LogLevel::DEBUG, format!("{pgid} {mode} ok")),
            _ => (LogLevel::ERROR, format!("{pgid} {mode} {errors} errors")),
        };
        if !run.request.is_deep && self.info.scrubs.deep_errors > 0 {
            let lost = self.info.scrubs.deep_errors;
            line.push_str(&format!(" ( {lost} remaining deep scrub error details lost)"));
        }
        if is_repair {
            line.push_str(&format!(", {fixed} fixed"));
        }
        say(level, line);
        // Which errors were mended is not known, unless all were.
        let is_all_fixed = is_repair && fixed == errors;
        // Of what was deleted since there is nothing left to replace.
        let is_mended = !bad.is_empty() || run.verdict.deleted > 0;
        let has_failed = (is_repair && errors > 0 && !is_mended && !is_all_fixed)
            || (run.cause == Cause::CheckAfterRepair && errors > 0);
        self.remember_scrub(&run, is_all_fixed, ctx);
        self.scrubs.has_failed = has_failed;
        if is_repair && is_mended {
            if !is_all_fixed {
                let request = ScrubRequest { is_deep: true, is_repair: false };
                self.scrubs.wanted = Some(Wanted { request, cause: Cause::CheckAfterRepair });
            }
            self.replace_bad_copies(bad, ctx);
        } else if self.may_repair_by_itself(&run, bad.len() as u64, ctx) {
            let request = ScrubRequest { is_deep: true, is_repair: true };
            self.scrubs.wanted = Some(Wanted { request, cause: Cause::AutoRepair });
        }
        ctx.effects.push(Effect::StatsChanged);
    }

    /// Ends the scrub under way though it has not seen all, and gives back its slots. One that was ordered begins anew
    /// when it may; one that was due still is.
    pub(super) fn put_off_scrub(&mut self, ctx: &mut Ctx<'_>) {
        self.scrubs.wanted = self.scrubs.ordered();
        (self.scrubs.run, self.scrubs.results) = (None, None);
        self.let_go(IndexWait::Scrub, ctx);
        self.release_slots(ctx);
    }

    /// What `ceph pg ID query` says of the scrub under way.
    pub(crate) fn scrubber_json(&self) -> Value {
        let epoch_start = self.info.since.to_string();
        let Some(run) = &self.scrubs.run else { return json!({"epoch_start": epoch_start, "active": false}) };
        let (start, end, waiting) = run.place();
        json!({
            "epoch_start": epoch_start,
            "active": true,
            "start": start,
            "end": end,
            "max_end": end,
            "subset_last_update": self.info.last_update.to_string(),
            "deep": run.request.is_deep,
            "req_scrub": run.cause != Cause::Due,
            "auto_repair": run.cause == Cause::AutoRepair,
            "check_repair": run.cause == Cause::CheckAfterRepair,
            "deep_scrub_on_error": false,
            "priority": if run.cause == Cause::Due { 5 } else { 120 },
            "shallow_errors": run.verdict.shallow_errors,
            "deep_errors": run.verdict.deep_errors,
            "fixed": 0,
            "waiting_on_whom": waiting,
        })
    }

    /// `osd_scrub_auto_repair`: a scrub that was due and found little has it mended.
    fn may_repair_by_itself(&self, run: &Run, bad: u64, ctx: &Ctx<'_>) -> bool {
        let is_due_one = run.cause == Cause::Due && !run.request.is_repair;
        ctx.scrub.is_auto_repair && is_due_one && bad > 0 && bad <= ctx.scrub.auto_repair_errors_max
    }

    /// The line for the cluster log on totals that differ from what was counted; none if they agree, or not everything
    /// was counted.
    fn stat_mismatch(&self, run: &Run) -> Option<String> {
        let (got, known) = (run.verdict.totals, self.info.totals);
        if got == known || run.verdict.is_partial {
            return None;
        }
        let PgTotals { objects, clones, bytes } = known;
        Some(format!(
            "{} {} : stat mismatch, got {}/{objects} objects, {}/{clones} clones, {}/{objects} dirty, 0/0 omap, \
             0/0 pinned, 0/0 hit_set_archive, 0/0 whiteouts, {}/{bytes} bytes, 0/0 manifest objects, \
             0/0 hit_set_archive bytes.",
            self.pgid,
            run.mode(),
            got.objects,
            got.clones,
            got.objects,
            got.bytes
        ))
    }

    /// Takes down when the PG was scrubbed and what was found, on all copies.
    fn remember_scrub(&mut self, run: &Run, is_all_fixed: bool, ctx: &mut Ctx<'_>) {
        let (shallow, deep) = match is_all_fixed {
            true => (0, 0),
            false => (run.verdict.shallow_errors, run.verdict.deep_errors),
        };
        let history = &mut self.info.scrubs;
        history.last_scrub = self.info.last_update;
        history.last_scrub_stamp = ctx.wall;
        history.shallow_errors = shallow;
        if run.request.is_deep {
            history.last_deep_scrub = self.info.last_update;
            history.last_deep_scrub_stamp = ctx.wall;
            history.deep_errors = deep;
            history.omap_keys = run.verdict.omap_keys;
            history.omap_bytes = run.verdict.omap_bytes;
            history.large_omap_objects = run.verdict.large_omap_objects;
        }
        if shallow == 0 && (!run.request.is_deep || deep == 0) {
            history.last_clean_scrub_stamp = ctx.wall;
        }
        self.keep_info(ctx);
        self.share_info(ctx);
    }
}
