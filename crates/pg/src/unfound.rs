//! Objects that no OSD that is up can supply: they are counted as unfound, and requests to them wait, until a copy
//! comes up or an operator gives them up.
//!
//! An object that is given up is changed like any other: the change is logged, and goes to all copies, with what the
//! object was before in the newest version that any copy still has, or with its removal. A request that the change
//! undoes has no effect any more; sent again, it runs again (`log.rs`).
//!
//! Authority: `MissingLoc`, `PrimaryLogPG::primary_error`, `mark_all_unfound_lost`,
//! `PeeringState::all_unfound_are_queried_or_lost` (16.2).

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use codec::{Decode, Encode, Features};
use messages::{LogLevel, MPgPull};
use store::NotCached;
use types::{EVersion, HObject, LogEntry, Mutation, OsdId, OsdMap, Pairs, SnapId, Transaction, TxnOp};

use crate::{
    Ctx, Effect, Pg,
    exec::{CloneInfo, Delta, INFO_XATTR, ObjectInfo, SNAPSET_XATTR, SnapSet, Staged},
    index_wait::IndexWait,
    pg::Phase,
};

/// Objects of which older versions are collected at once: all copies' contents are held meanwhile.
const REVERTS_MAX: usize = 8;
/// Changes that no client asked for and that are not durable everywhere: more objects are given up when one of them is.
const IN_FLIGHT_MAX: usize = 64;

/// What becomes of unfound objects (`ceph pg ID mark_unfound_lost`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUp {
    /// They become what they were before, if a copy of that is left; else they are removed.
    Revert,
    /// They are removed.
    Delete,
}

/// An object as it was before.
#[derive(Debug)]
struct Older {
    version: EVersion,
    info: Box<ObjectInfo>,
    /// Of a head that has one.
    snapset: Option<SnapSet>,
    content: Transaction,
}

impl Older {
    /// As a copy offers it; none where its info or its list of clones cannot be decoded: no copy could be read then.
    fn of(version: EVersion, content: Transaction) -> Option<Older> {
        let info = Box::new(ObjectInfo::from_bytes(xattr_in(&content, INFO_XATTR)?).ok()?);
        let snapset = xattr_in(&content, SNAPSET_XATTR).map(SnapSet::from_bytes).transpose().ok()?;
        Some(Older { version, info, snapset, content })
    }

    /// True if nothing of the object is left: the head was only there for its clones.
    fn is_nothing(&self) -> bool {
        self.info.is_whiteout && self.snapset.as_ref().is_some_and(|snapset| snapset.clones.is_empty())
    }
}

/// What the copies offer of an object that is to become what it was before.
#[derive(Debug, Default)]
struct Offers {
    waiting: BTreeSet<OsdId>,
    best: Option<Older>,
}

/// The unfound objects of a PG, as its primary knows them.
#[derive(Debug, Default)]
pub(crate) struct Unfound {
    objects: BTreeSet<HObject>,
    given_up: BTreeMap<HObject, GiveUp>,
    offers: BTreeMap<HObject, Offers>,
}

impl Unfound {
    /// Forgets all, and returns how many objects were still to be given up.
    pub(crate) fn clear(&mut self) -> usize {
        std::mem::take(self).given_up.len()
    }

    /// The object is here, or settled otherwise.
    pub(crate) fn remove(&mut self, object: &HObject) {
        self.objects.remove(object);
        self.given_up.remove(object);
        self.offers.remove(object);
    }

    pub(crate) fn count(&self) -> usize {
        self.objects.len()
    }

    /// True for this very object, whatever may be true of its clones.
    pub(crate) fn has(&self, object: &HObject) -> bool {
        self.objects.contains(object)
    }

    /// True while objects are still to be given up.
    pub(crate) fn is_giving_up(&self) -> bool {
        !self.given_up.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &HObject> {
        self.objects.iter()
    }
}

impl Pg {
    /// Objects that no OSD that is up can supply.
    pub fn unfound_count(&self) -> usize {
        self.unfound.count()
    }

    /// True when the object, or a clone of it, is unfound.
    pub(crate) fn is_unfound(&self, head: &HObject) -> bool {
        self.unfound.objects.range(head.with_snap(SnapId(0))..=head.head()).next().is_some()
    }

    /// OSDs that may have had objects that are missing here: members since the PG was last clean.
    pub(crate) fn might_have(&self) -> BTreeSet<OsdId> {
        let past = self.intervals.iter().flat_map(|interval| interval.acting.iter().copied());
        past.filter(|osd| osd.is_some() && *osd != self.me).collect()
    }

    /// True when the OSD has said what it has.
    pub(crate) fn is_probed(&self, osd: OsdId, map: &OsdMap) -> bool {
        map.is_up(osd) && self.peer_info.contains_key(&osd)
    }

    /// True when no OSD is left that may have what is unfound: all have said what they have, or will not come back.
    pub fn is_all_probed(&self, map: &OsdMap) -> bool {
        self.might_have().into_iter().all(|osd| self.is_probed(osd, map) || is_given_up(osd, map))
    }

    /// Looks for an object again, as the OSDs that have it, or may have it, have changed.
    pub(crate) fn look_for(&mut self, object: &HObject, ctx: &mut Ctx<'_>) {
        if self.phase != Phase::Active {
            return;
        }
        let need = self.missing.get(object);
        if need.is_some() {
            self.recovery.look_again(object);
        }
        if need.is_some_and(|need| self.source_of(object, *need, ctx.map).is_none()) {
            if self.unfound.objects.insert(object.clone()) {
                ctx.effects.push(Effect::StatsChanged);
                self.ask_for_unfound(ctx);
                // Ops that waited for it to come would wait on, and keep the OSD from taking others.
                self.hold_object(&object.head(), ctx);
            }
        } else if self.unfound.objects.contains(object) {
            self.unfound.remove(object);
            ctx.effects.push(Effect::StatsChanged);
        }
    }

    /// Looks for all missing objects again, as the OSDs that may have them, or those that are up, have changed.
    pub(crate) fn look_for_all(&mut self, ctx: &mut Ctx<'_>) {
        let before = std::mem::take(&mut self.unfound.objects);
        let lacks_source =
            |(object, need): &(&HObject, &EVersion)| self.source_of(object, **need, ctx.map).is_none();
        let now: BTreeSet<HObject> =
            self.missing.iter().filter(lacks_source).map(|(object, _)| object.clone()).collect();
        self.unfound.given_up.retain(|object, _| now.contains(object));
        self.unfound.offers.retain(|object, _| now.contains(object));
        if now != before {
            ctx.effects.push(Effect::StatsChanged);
        }
        let held: Vec<HObject> = now.difference(&before).map(HObject::head).collect();
        self.unfound.objects = now;
        held.iter().for_each(|head| self.hold_object(head, ctx));
        self.recovery.look_at_all_again();
    }

    /// Asks OSDs that may have what is unfound and have not said what they have, as they were down when the PG peered.
    /// An OSD that has kept its copy tells by itself; one that has lost it says so only when it is asked.
    pub(crate) fn ask_for_unfound(&self, ctx: &mut Ctx<'_>) {
        if self.unfound.objects.is_empty() {
            return;
        }
        for osd in self.might_have() {
            if ctx.map.is_up(osd) && !self.peer_info.contains_key(&osd) {
                self.ask_info(osd, ctx);
            }
        }
    }

    /// The map changed: says what an operator has to know.
    pub(crate) fn complain_of_unfound(&self, ctx: &mut Ctx<'_>) {
        let count = self.unfound.count();
        if count > 0 && self.is_all_probed(ctx.map) {
            let line = format!("{} has {count} objects unfound and apparently lost", self.pgid);
            ctx.effects.push(Effect::ClusterLog(LogLevel::ERROR, line));
        }
    }

    /// An operator gives up what is unfound.
    pub(crate) fn on_give_up(&mut self, how: GiveUp, ctx: &mut Ctx<'_>) {
        self.complain_of_unfound(ctx);
        self.unfound.given_up = self.unfound.objects.iter().map(|object| (object.clone(), how)).collect();
        self.recover(ctx);
    }

    /// Goes on giving up, as far as the changes that this makes may be in flight. A PG that is about to be merged takes
    /// no changes: what is unfound is given up again when the monitor has called that off.
    pub(crate) fn give_up_some(&mut self, ctx: &mut Ctx<'_>) {
        if self.members.is_merging || !self.unfound.is_giving_up() {
            return;
        }
        for _ in self.ops.unasked_in_flight()..IN_FLIGHT_MAX {
            if self.unfound.offers.len() >= REVERTS_MAX {
                return;
            }
            let next = self.unfound.given_up.iter().find(|(o, _)| !self.unfound.offers.contains_key(*o));
            let Some((object, how)) = next.map(|(object, how)| (object.clone(), *how)) else { return };
            // A scrub lets go of what it looks at as soon as it knows that the PG is not clean.
            if self.scrubs.holds(&object.head()) {
                return;
            }
            match how {
                GiveUp::Delete => self.become_older(&object, None, ctx),
                GiveUp::Revert => self.ask_for_older(object, ctx),
            }
        }
    }

    /// Asks all copies, this one included, for what they have of the object.
    fn ask_for_older(&mut self, object: HObject, ctx: &mut Ctx<'_>) {
        let peers = self.peer_info.iter().filter(|(_, info)| info.last_update > EVersion::ZERO);
        let peers = peers.map(|(osd, _)| *osd).filter(|osd| ctx.map.is_up(*osd));
        let waiting: BTreeSet<OsdId> = peers.chain([self.me]).collect();
        for osd in &waiting {
            let (pgid, epoch, object) = (self.pgid, ctx.map.epoch, object.clone());
            let message = MPgPull { pgid, epoch, object, ..MPgPull::default() };
            ctx.effects.push(Effect::SendOsd(*osd, message.into()));
        }
        self.unfound.offers.insert(object, Offers { waiting, best: None });
    }

    /// A copy says what it has of an object; version zero, if it has nothing. False if it was not asked for that.
    pub(crate) fn on_offer(
        &mut self,
        from: OsdId,
        object: &HObject,
        offer: &mut (EVersion, Transaction),
        is_part: bool,
        ctx: &mut Ctx<'_>,
    ) -> bool {
        let Some(offers) = self.unfound.offers.get_mut(object) else { return false };
        if !offers.waiting.remove(&from) {
            return false;
        }
        if is_part {
            // It would have to be one change, which goes to all copies at once. As a copy has the object, removing it
            // would be wrong.
            self.unfound.offers.remove(object);
            self.unfound.given_up.remove(object);
            let line =
                format!("{} {object} is too large to become what it was, and stays unfound", self.pgid);
            ctx.effects.push(Effect::ClusterLog(LogLevel::ERROR, line));
            return true;
        }
        let version = offer.0;
        // What members have belongs to the history that they took over. Other OSDs may have versions that came to
        // nothing: the log has to know theirs. A copy that has the lost version itself in a bad state offers that, too.
        let is_lost = self.missing.get(object).is_none_or(|need| version >= *need);
        let was_so = !is_lost && (self.members.contains(from) || self.log.contains(version));
        let is_best = version > offers.best.as_ref().map_or(EVersion::ZERO, |best| best.version);
        // What cannot be decoded is no offer.
        if was_so
            && is_best
            && let Some(older) =
                Older::of(version, std::mem::replace(&mut offer.1, Transaction::new(self.coll)))
        {
            offers.best = Some(older);
        }
        self.settle_offers(object, ctx);
        true
    }

    /// OSDs that are gone do not answer.
    pub(crate) fn forget_offers(&mut self, is_gone: impl Fn(&OsdId) -> bool, ctx: &mut Ctx<'_>) {
        self.unfound.offers.values_mut().for_each(|offers| offers.waiting.retain(|osd| !is_gone(osd)));
        self.settle_all_offers(ctx);
    }

    fn settle_offers(&mut self, object: &HObject, ctx: &mut Ctx<'_>) {
        let offers = self.unfound.offers.get_mut(object).filter(|offers| offers.waiting.is_empty());
        let Some(mut best) = offers.map(|offers| offers.best.take()) else { return };
        if let Some(older) = &mut best
            && let Err(missing) = self.leave_out_trimmed(object, older, ctx)
        {
            self.unfound.offers.insert(object.clone(), Offers { best, ..Offers::default() });
            return self.wait(IndexWait::Revert, vec![missing], ctx);
        }
        self.unfound.offers.remove(object);
        let growth = best.as_ref().map_or(0, |older| ctx.store.growth_bytes(&older.content));
        if growth > 0 && ctx.rooms.are_short(self.members(), growth) {
            // It is still given up: with a tick, the copies are asked once more.
            return;
        }
        self.become_older(object, best.filter(|older| !older.is_nothing()), ctx);
        self.recover(ctx);
    }

    /// What was not known of clones is at hand.
    pub(crate) fn settle_all_offers(&mut self, ctx: &mut Ctx<'_>) {
        for object in self.unfound.offers.keys().cloned().collect::<Vec<_>>() {
            self.settle_offers(&object, ctx);
        }
        if !self.is_waiting(IndexWait::Revert) {
            self.let_go(IndexWait::Revert, ctx);
        }
    }

    /// Leaves out clones that were trimmed since. Of purged snapshots, none is left, and they are never trimmed again.
    /// Of other removed ones, those are left that the pass has not come to, which it still has to find.
    fn leave_out_trimmed(
        &mut self,
        object: &HObject,
        older: &mut Older,
        ctx: &Ctx<'_>,
    ) -> Result<(), NotCached> {
        let Some(snapset) = &mut older.snapset else { return Ok(()) };
        snapset.leave_out(&self.info.purged_snaps);
        let removed = self.removed_snaps(ctx);
        for index in (0..snapset.clones.len()).rev() {
            let CloneInfo { id, snaps, .. } = &snapset.clones[index];
            let clone = object.with_snap(*id);
            if snaps.iter().all(|snap| removed.contains(snap.0))
                && !self.missing.contains_key(&clone)
                && ctx.store.meta(self.coll, &clone)?.is_none()
            {
                snapset.remove_clone(index);
            }
        }
        Ok(())
    }

    /// Makes the object what it was in an older version, or nothing, on all copies.
    fn become_older(&mut self, object: &HObject, older: Option<Older>, ctx: &mut Ctx<'_>) {
        let Some(need) = self.missing.get(object).copied() else { return self.unfound.remove(object) };
        let at = self.next_version(ctx);
        let mut txn = Transaction::new(self.coll);
        let mut entry = LogEntry {
            version: at,
            object: object.clone(),
            prior_version: need,
            is_delete: older.is_none(),
            lost_to: Some(older.as_ref().map_or(EVersion::ZERO, |older| older.version)),
            mtime: ctx.wall,
            ..LogEntry::default()
        };
        match older {
            Some(Older { mut info, snapset, content, .. }) => {
                (info.prior_version, info.version) = (need, at);
                entry.user_version = info.user_version;
                txn.append(content);
                let f = Features::default();
                let mut system = Pairs::from([(Bytes::from_static(INFO_XATTR), info.to_bytes(f))]);
                if let Some(snapset) = snapset {
                    if let Some(trimming) = &mut self.trimming {
                        trimming.look_again(object.head());
                    }
                    system.insert(Bytes::from_static(SNAPSET_XATTR), snapset.to_bytes(f));
                }
                txn.push(object, Mutation::SetXattrs(system));
            }
            None => txn.push(object, Mutation::Remove),
        }
        let members = &self.members;
        for (_, missing) in self.peer_missing.iter_mut().filter(|(osd, _)| members.contains(**osd)) {
            missing.remove(object);
        }
        self.unfound.remove(object);
        // What the PG held of the lost version is not known.
        self.recount = None;
        self.scrubs.lose_count();
        let staged = Staged { txn, log: vec![entry], delta: Delta::default() };
        let head = object.head();
        self.submit_internal(&head, staged, Vec::new(), Vec::new(), ctx);
        if !self.is_degraded(&head) {
            self.recovery.forget_urgent(&head);
        }
        ctx.effects.push(Effect::StatsChanged);
    }
}

/// True for an OSD that does not come back with what it had: it was removed from the map, or declared lost since it was
/// up last.
pub(crate) fn is_given_up(osd: OsdId, map: &OsdMap) -> bool {
    !map.exists(osd) || map.info(osd).lost_at > map.info(osd).up_from
}

/// An xattr in a transaction that makes the object.
fn xattr_in(content: &Transaction, name: &[u8]) -> Option<Bytes> {
    let xattr = |op: &TxnOp| match op {
        TxnOp::Object(_, Mutation::SetXattrs(xattrs)) => xattrs.get(name).cloned(),
        TxnOp::Object(..)
        | TxnOp::CreateCollection
        | TxnOp::RemoveCollection
        | TxnOp::Split(_)
        | TxnOp::Merge(_) => None,
    };
    content.ops.iter().find_map(xattr)
}

#[cfg(test)]
mod tests;
