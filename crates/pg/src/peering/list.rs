//! Object lists: what a copy that the log does not reach gets with the log, to be compared with.

use messages::{LogLevel, MPgLog};
use types::{EVersion, HObject, Missing, Mutation, ObjectVersions, OsdId, Transaction};

use crate::{
    Ctx, Effect, Pg,
    log::{Merge, Span},
    meta::MetaChange,
    pg::Phase,
};

/// The same with names of their own: what stays would keep the whole message in memory.
pub(super) fn detached(missing: Missing) -> Missing {
    missing.into_iter().map(|(object, need)| (object.detached(), need)).collect()
}

impl Pg {
    /// True where the log is not enough for a copy that has the log `theirs`: ours does not reach that far back, or
    /// theirs begins with a version that is not known here, so that it cannot be told what that copy had done before
    /// ([`log::merge`]).
    pub(crate) fn needs_list(&self, theirs: Span) -> bool {
        let begin = if self.is_reached(theirs.last) { theirs.last } else { self.info.log_tail };
        let is_known = |tail| tail <= begin || tail == self.info.last_update || self.log.contains(tail);
        theirs.last < begin || !is_known(theirs.tail)
    }

    /// Whether [`Pg::log_for`] can be called now.
    pub(crate) fn ready_for_log(&mut self, theirs: Span, ctx: &Ctx<'_>) -> Result<(), Vec<store::NotCached>> {
        if self.needs_list(theirs) { self.scan_objects(ctx.store) } else { Ok(()) }
    }

    /// Sends the whole log and an object list to copies that take it over whatever they have.
    pub(super) fn send_list(&self, osds: &[OsdId], is_activation: bool, ctx: &mut Ctx<'_>) {
        let Some(first) = osds.first() else { return };
        let log = self.log_for(Span::default(), is_activation, ctx);
        // One that is activated later than others begins no later than they do.
        let is_again = is_activation && matches!(self.phase, Phase::Activating { .. });
        let epoch = if is_again { self.info.last_epoch_started } else { log.epoch };
        let objects = self.object_versions();
        let count = objects.len();
        let encoded = MPgLog { epoch, objects: Some(objects), ..log }.to_raw(0).sealed();
        if !encoded.fits_peers() {
            let line = format!(
                "{}: the list of its {count} objects is too long to be sent to osd.{first}",
                self.pgid
            );
            return ctx.effects.push(Effect::ClusterLog(LogLevel::ERROR, line));
        }
        let (pg, last) = (self.pgid, self.info.last_update);
        for osd in osds.iter().filter(|_| is_activation) {
            let theirs = self.peer_info.get(osd).map_or(Span::default(), Span::of);
            let line = format!(
                "{pg} starting backfill to osd.{osd} from ({},{}] MIN to {last}",
                theirs.tail, theirs.last
            );
            ctx.effects.push(Effect::ClusterLog(LogLevel::DEBUG, line));
        }
        ctx.effects.push(Effect::SendEncoded(osds.to_vec(), encoded.into()));
    }

    /// All objects with their versions: those at hand, and those that are missing. If the version of one at hand cannot
    /// be decoded, it is the one that the log knows, or else zero.
    pub(super) fn object_versions(&self) -> ObjectVersions {
        let logged = |object: &HObject| {
            // Up to the tail, versions may be made up.
            let entries = self.log.after(self.info.log_tail);
            let last = entries.rev().find(|entry| entry.object == *object && !entry.is_error);
            last.filter(|entry| !entry.is_delete).map(|entry| entry.version)
        };
        let at_hand = self.known_objects().filter(|(object, _)| !self.missing.contains_key(object));
        let at_hand = at_hand.map(|(object, version)| {
            let version = Some(*version).filter(|version| *version != EVersion::ZERO);
            (object.clone(), version.or_else(|| logged(object)).unwrap_or_default())
        });
        let missing = self.missing.iter().map(|(object, need)| (object.clone(), *need));
        let mut all: ObjectVersions = at_hand.chain(missing).collect();
        all.sort_unstable();
        all
    }

    /// In an object list, version zero says that the sender cannot decode what it keeps with the object: what is here
    /// may be good. But if this copy has or lacks the object in a version that came to nothing, as it is newer than
    /// `last`, it is not known which version is needed.
    pub(super) fn take_over_unknown(
        &mut self,
        object: HObject,
        last: EVersion,
        change: &mut MetaChange,
        txn: &mut Transaction,
    ) {
        let is_newer = self.known_version(&object) > last;
        if is_newer {
            txn.push(&object, Mutation::Remove);
        }
        if is_newer || self.missing.get(&object).is_some_and(|need| *need > last) {
            change.missing(&object, Some(last));
            self.missing.insert(object.detached(), last);
        }
    }

    /// Compares with a list of all objects, and starts the log anew.
    pub(super) fn resync(
        &mut self,
        objects: &ObjectVersions,
        message: &MPgLog,
        change: &mut MetaChange,
    ) -> Option<Merge> {
        let mut merged = Merge::default();
        let wanted: Missing = objects.iter().cloned().collect();
        for (object, _) in self.known_objects() {
            if !wanted.contains_key(object) {
                merged.deleted.insert(object.clone());
            }
        }
        self.missing.retain(|object, _| {
            let is_wanted = wanted.contains_key(object);
            if !is_wanted {
                change.missing(object, None);
            }
            is_wanted
        });
        merged.missing = wanted;
        // It is not known which of the old entries came to nothing, so all count as divergent, also those up to our
        // tail: an operator may have given up what was known of them.
        merged.divergent = self.log.rewind(EVersion::ZERO).into_iter().map(|entry| entry.version).collect();
        self.info.log_tail = message.info.log_tail;
        self.log.extend(message.entries.iter().cloned());
        merged.added = message.entries.clone();
        Some(merged)
    }
}

#[cfg(test)]
mod tests;
