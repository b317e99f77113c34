//! The OSD map: which OSDs are up and in, pools and their snapshots, placement.

mod boot;
mod creating;
mod crush_place;
mod failure;
mod full;
mod pg_merge;
mod pg_num;
mod pg_temp;
mod pool_op;
mod pools;
mod tick;
mod upmaps;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use types::{ApplyError, Epoch, Incremental, Instant, OsdId, OsdMap, UTime};

pub(crate) use boot::drop_flags;
pub(crate) use crush_place::is_in;
pub(crate) use failure::{DownKind, take_down};
pub(crate) use pg_merge::least_pg_num;
pub(crate) use pools::{
    PG_NUM_MAX, PoolParams, RuleMismatch, RuleRef, check_pg_num_range, check_pg_sum, fits, rule_mismatch,
};
pub(crate) use upmaps::{Holders, suits_rule};

use crate::{
    Effects, Mon, ledger_keys,
    state::{State, value},
};

/// How many full maps are written among the epochs that are kept.
const FULL_MAPS: u32 = 20;
/// The most full maps that are kept. While a PG is not clean, the history of the map grows without end, and full maps
/// are by far the larger part of it.
const FULL_MAPS_MAX: usize = 2 * FULL_MAPS as usize;

/// The extra time that OSDs which were up get after the monitor's start, besides `mon_osd_report_timeout`: when a
/// machine or a network comes back, they have to find out that their connections are dead, and to get through to the
/// monitor again.
const FIRST_GRACE: Duration = Duration::from_secs(120);

/// What the service remembers but does not decide from alone: gone after a restart.
#[derive(Debug, Default)]
pub(crate) struct OsdService {
    /// Reports by target, then by reporter.
    failures: BTreeMap<OsdId, BTreeMap<OsdId, failure::Report>>,
    /// When an OSD that is up was last heard of; later than now for one that has not been since the monitor's start.
    last_report: BTreeMap<OsdId, Instant>,
    /// When the cluster log heard of an OSD that is not let in.
    refusals_told: BTreeMap<OsdId, Instant>,
    /// OSDs that are up and have had maps that this monitor does not know, and the newest of these.
    ahead: BTreeMap<OsdId, Epoch>,
    /// Since when an OSD is down, and may be marked out for it.
    down_since: BTreeMap<OsdId, Instant>,
    /// When the last OSDs were told to create PGs.
    creates_sent: Option<Instant>,
    /// What the maps tell of the past of PGs that are to be made.
    creating_past: BTreeMap<types::PgId, creating::Past>,
    /// For pools with PGs that prepare to be merged: since when.
    merging_since: BTreeMap<types::PoolId, Instant>,
    /// The map whose upmaps were looked at last.
    upmaps_seen: Epoch,
    /// Why the map could not be changed, until the command that wanted it is answered.
    refused: Option<ApplyError>,
}

impl OsdService {
    /// The state at a monitor's start: each OSD that is up gets `FIRST_GRACE` on top of the usual time to report.
    pub(crate) fn started(now: Instant, state: &State) -> OsdService {
        let map = &state.osdmap;
        OsdService {
            last_report: map.osds().filter(|o| map.is_up(*o)).map(|o| (o, now + FIRST_GRACE)).collect(),
            down_since: map.osds().filter(|o| map.is_down(*o)).map(|o| (o, now)).collect(),
            ..OsdService::default()
        }
    }

    /// The monitor itself stood still for so long, up to now: that time does not count as an OSD's silence or time
    /// down, nor as time that PGs took to be ready for a merge.
    pub(crate) fn stood_still(&mut self, now: Instant, gap: Duration) {
        let of_osds = self.last_report.values_mut().chain(self.down_since.values_mut());
        for at in of_osds.chain(self.merging_since.values_mut()) {
            // What came in since is moved to now at most; a time that is later already stays.
            *at = (*at + gap).min(now.max(*at));
        }
    }

    /// Why the last change was not made, if so; told once.
    pub(crate) fn take_refused(&mut self) -> Option<ApplyError> {
        self.refused.take()
    }

    /// An OSD was heard of.
    pub(crate) fn note_report(&mut self, osd: OsdId, now: Instant) {
        self.last_report.insert(osd, now);
    }
}

impl Mon {
    /// Makes the next epoch of the OSD map. `change` gets the map so far and fills in what changes. A change that would
    /// give no valid map, such as a CRUSH tree that is too deep, is not made, and a command that wants it is refused
    /// ([`Request::run`](crate::commands::Request::run)).
    pub(crate) fn change_osdmap(&mut self, wall: UTime, change: impl FnOnce(&OsdMap, &mut Incremental)) {
        let before = self.next.osdmap.clone();
        let mut inc = Incremental::new(before.fsid, before.epoch.next());
        inc.modified = wall;
        change(&before, &mut inc);
        stamp_changes(&before, &mut inc, wall);
        let apply = |inc: &Incremental| {
            let mut after = OsdMap::clone(&before);
            after.apply(inc).map(|()| after)
        };
        let after = apply(&inc).and_then(|after| {
            // They go in this same map: for one map more, a PG whose primary was set by hand, and is down, would have
            // no primary.
            let over = pg_temp::primaries_over(&after);
            if over.is_empty() {
                return Ok(after);
            }
            inc.new_primary_temp.extend(over.into_iter().map(|pg| (pg, OsdId::NONE)));
            apply(&inc)
        });
        let after = match after {
            Ok(after) => after,
            Err(error) => {
                tracing::error!("an impossible map change was dropped: {error}");
                self.osds.refused = Some(error);
                return;
            }
        };
        let (full, crc) = after.to_bytes_and_crc();
        inc.full_crc = crc;
        let epoch = inc.epoch;
        self.put(ledger_keys::osdmap_inc(epoch), value(&inc));
        if epoch.0.is_multiple_of((self.options.osdmap_epochs_min / FULL_MAPS).max(1)) {
            self.put(ledger_keys::osdmap_full(epoch), Some(full));
            self.trim_osdmaps(epoch);
            self.thin_full_maps();
        }
    }

    /// The oldest map that may still tell a PG which OSDs took writes; zero while some PG has not been reported.
    fn oldest_osdmap_needed(&self) -> Epoch {
        let map = &self.next.osdmap;
        let needs = |pg: types::PgId| {
            let creating =
                self.next.creating.get(&pg.pool).filter(|creating| creating.seeds.contains(&pg.seed));
            let reported = || self.stats.pg(pg).map_or(Epoch(0), types::PgStat::effective_last_epoch_clean);
            creating.map_or_else(reported, |creating| creating.created(pg.seed))
        };
        map.pgs().map(needs).min().unwrap_or(map.epoch)
    }

    /// Drops the maps older than the last full map that still has enough epochs behind it, and all that PGs need: a
    /// copy that was away for long walks through them to learn which OSDs took writes meanwhile.
    fn trim_osdmaps(&mut self, newest: Epoch) {
        // The newest increment stays: who has all others waits for it.
        let wanted = Epoch(newest.0.saturating_sub(self.options.osdmap_epochs_min.max(1)));
        let wanted = wanted.min(self.oldest_osdmap_needed());
        let Some(base) = self.next.fulls.range(..=wanted).next_back().map(|(e, _)| *e) else { return };
        let incs = self.next.incrementals.from(Epoch(0)).map(|(epoch, _)| epoch);
        let incs: Vec<Epoch> = incs.take_while(|epoch| *epoch <= base).collect();
        let fulls: Vec<Epoch> = self.next.fulls.range(..base).map(|(e, _)| *e).collect();
        for epoch in incs {
            self.put(ledger_keys::osdmap_inc(epoch), None);
        }
        for epoch in fulls {
            self.put(ledger_keys::osdmap_full(epoch), None);
        }
    }

    /// Drops full maps among the older ones, so that those that stay lie about equally far apart: a map between them is
    /// computed from the one before it. The first stays, as nothing leads to it, and the one behind a gap.
    fn thin_full_maps(&mut self) {
        let gap_end = self.next.gap_end();
        while self.next.fulls.len() > FULL_MAPS_MAX {
            let epochs: Vec<Epoch> = self.next.fulls.keys().copied().collect();
            let older = &epochs[..=epochs.len() - FULL_MAPS as usize];
            let gap_without = |at: &[Epoch]| at[2].0 - at[0].0;
            let triples = older.windows(3).filter(|at| Some(at[1]) != gap_end);
            let Some(at) = triples.min_by_key(|at| gap_without(at)) else { return };
            self.put(ledger_keys::osdmap_full(at[1]), None);
        }
    }

    /// Follows a committed change of the map: what is remembered of OSDs, lines on health, PGs to create.
    pub(crate) fn on_osdmap_changed(
        &mut self,
        now: Instant,
        wall: UTime,
        before: &OsdMap,
        effects: &mut Effects,
    ) {
        let map = self.committed.osdmap.clone();
        for osd in map.osds() {
            if map.is_up(osd) && before.up_from(osd) != map.up_from(osd) {
                self.osds.last_report.insert(osd, now);
                self.osds.failures.remove(&osd);
                self.osds.down_since.remove(&osd);
            }
            if map.is_down(osd) {
                self.osds.last_report.remove(&osd);
                self.osds.failures.remove(&osd);
                self.osds.down_since.entry(osd).or_insert(now);
            }
        }
        for reports in self.osds.failures.values_mut() {
            reports.retain(|reporter, report| report.counts(&map, *reporter));
        }
        self.osds.failures.retain(|_, reports| !reports.is_empty());
        let gone: BTreeSet<OsdId> = before.osds().filter(|osd| !map.exists(*osd)).collect();
        for osd in gone {
            self.osds.down_since.remove(&osd);
            self.stats.forget_osd(osd);
        }
        self.stats.follow(&map, wall);
        self.osds.creates_sent = None;
        self.tick_creating(now, effects);
    }
}

/// Fills in the times of the last up and in changes.
fn stamp_changes(before: &OsdMap, inc: &mut Incremental, wall: UTime) {
    let toggles_up = inc.new_state.values().any(|bits| bits.0 == 0 || bits.has(types::OsdState::UP));
    if toggles_up || !inc.new_up_client.is_empty() {
        inc.new_last_up_change = wall;
    }
    if inc.new_weight.iter().any(|(osd, weight)| (*weight == 0) != (before.weight(*osd) == 0)) {
        inc.new_last_in_change = wall;
    }
}
