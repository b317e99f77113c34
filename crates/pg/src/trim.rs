//! Trimming: clones that only removed snapshots need go, in a pass over all objects, a few at a time.
//!
//! Clones go beside changes of their object that are in flight, in the order of versions: one that is written all the
//! time is trimmed, too. An object that a change waits for, or a scrub holds, is passed over and looked at again at
//! the end. The snapshots are purged when all members have all changes of the pass.
//!
//! Authority: `PrimaryLogPG::SnapTrimmer`, `trim_object` (16.2); there the pass waits for an object that is busy.

use std::collections::BTreeSet;

use types::{EVersion, HObject, IntervalSet, MapFlags, SnapId};

use crate::{
    Ctx, Pg,
    exec::{self, TrimStep},
    index_wait::IndexWait,
};

/// Objects changed, or pages of objects looked at, in one tick.
const STEPS: usize = 64;
/// Changes of its own that are not durable everywhere: members that fall behind, or are gone, are waited for.
const IN_FLIGHT_MAX: usize = 64;
/// Objects passed over: with so many the pass waits for the next one.
const BUSY_MAX: usize = 1_000;

/// A pass over all objects that removes clones.
#[derive(Debug)]
pub(crate) struct Trimming {
    /// All objects before this one are done, but for those that were busy; none behind the last one.
    from: Option<HObject>,
    /// Objects that were busy, or have to be looked at again, at the end.
    busy: BTreeSet<HObject>,
    /// The snapshots that are removed.
    removed: IntervalSet,
    /// The last change that it made.
    last: EVersion,
    /// An operator holds it back (`nosnaptrim`).
    pub(crate) is_held_back: bool,
}

impl Trimming {
    fn of(removed: IntervalSet) -> Trimming {
        let (from, busy) = (Some(HObject::min()), BTreeSet::new());
        Trimming { from, busy, removed, last: EVersion::ZERO, is_held_back: false }
    }

    /// The object is to be looked at once more: it is what it was before, with snapshots that the pass may have taken
    /// from its clones.
    pub(crate) fn look_again(&mut self, head: HObject) {
        self.busy.insert(head);
    }

    fn has_seen_all(&self) -> bool {
        self.from.is_none() && self.busy.is_empty()
    }
}

impl Pg {
    /// Looks once more for clones of snapshots that are purged, as if they were removed anew.
    pub fn trim_purged_snaps(&mut self) {
        if self.is_primary() && self.trimming.is_none() && !self.info.purged_snaps.is_empty() {
            self.trimming = Some(Trimming::of(self.info.purged_snaps.clone()));
        }
    }

    /// Removes clones that only removed snapshots need, one object at a time.
    pub(crate) fn trim_snaps(&mut self, ctx: &mut Ctx<'_>) {
        let is_held_back = ctx.map.has_flag(MapFlags::NOSNAPTRIM);
        if let Some(trimming) = &mut self.trimming {
            trimming.is_held_back = is_held_back;
        }
        if is_held_back || !self.is_clean || !self.is_serving() || self.is_waiting(IndexWait::Trim) {
            return;
        }
        // A snapshot removed meanwhile waits for the next pass: this one is past some of its clones.
        let started = self.trimming.take().or_else(|| {
            let removed = self.snaps_to_trim(ctx.map);
            (!removed.is_empty()).then(|| Trimming::of(removed))
        });
        let Some(mut trimming) = started else { return };
        if self.has_lease(ctx) {
            let room = IN_FLIGHT_MAX.saturating_sub(self.ops.unasked_in_flight());
            let room = self.trim_on(&mut trimming, room, ctx);
            if trimming.from.is_none() {
                self.trim_busy(&mut trimming, room, ctx);
            }
            // Any later primary has to have the changes before the snapshots count as purged.
            if trimming.has_seen_all() && !self.has_change_under_way_until(trimming.last) {
                self.info.purged_snaps.union_with(&trimming.removed);
                self.removed_snaps = None;
                self.keep_info(ctx);
                return self.share_info(ctx);
            }
        }
        self.trimming = Some(trimming);
    }

    /// Goes on with the pass, with so many changes at most. How many of these are left.
    fn trim_on(&mut self, trimming: &mut Trimming, mut room: usize, ctx: &mut Ctx<'_>) -> usize {
        for _ in 0..STEPS {
            let Some(from) = &trimming.from else { break };
            let (at, removed) = (self.next_version(ctx), &trimming.removed);
            let step = match exec::trim_step(ctx.store, self.coll, from, &|s| removed.contains(s.0), at) {
                Ok(step) => step,
                Err(missing) => {
                    self.wait(IndexWait::Trim, vec![missing], ctx);
                    break;
                }
            };
            self.let_go(IndexWait::Trim, ctx);
            match step {
                TrimStep::Change(head, staged, given_back) if room > 0 && self.may_change_unasked(&head) => {
                    self.submit_internal(&head, *staged, Vec::new(), given_back, ctx);
                    trimming.last = self.info.last_update;
                    room -= 1;
                    // What comes before was looked at; of this one there may be more.
                    trimming.from = Some(head.with_snap(SnapId(0)));
                }
                TrimStep::Change(..) if room == 0 || trimming.busy.len() >= BUSY_MAX => break,
                TrimStep::Change(head, ..) => {
                    trimming.from = Some(head.with_snap(SnapId(head.snap.0.saturating_add(1))));
                    trimming.busy.insert(head);
                }
                TrimStep::Continue(next) => trimming.from = Some(next),
                TrimStep::Done => trimming.from = None,
            }
        }
        room
    }

    /// Looks again at the objects that were busy.
    fn trim_busy(&mut self, trimming: &mut Trimming, mut room: usize, ctx: &mut Ctx<'_>) {
        for head in trimming.busy.iter().cloned().collect::<Vec<_>>() {
            if room == 0 {
                break;
            }
            if !self.may_change_unasked(&head) {
                continue;
            }
            let (at, removed) = (self.next_version(ctx), &trimming.removed);
            match exec::trim_object(ctx.store, self.coll, &head, &|s| removed.contains(s.0), at) {
                Ok(Some((staged, given_back))) => {
                    self.submit_internal(&head, staged, Vec::new(), given_back, ctx);
                    trimming.last = self.info.last_update;
                    room -= 1;
                }
                Ok(None) => {
                    trimming.busy.remove(&head);
                }
                Err(missing) => return self.wait(IndexWait::Trim, vec![missing], ctx),
            }
            self.let_go(IndexWait::Trim, ctx);
        }
    }
}

#[cfg(test)]
mod tests;
