//! Merging: the pool has one PG less, and what that PG had now belongs to the PG that it once was split from.
//!
//! Before the monitor makes such a map, both PGs are whole on the same members, and take no more changes
//! ([`types::PgPool::is_merging`]): the map names the last version of each. Every OSD that has copies of both at just
//! these versions merges them by itself, in one transaction; what either of them lacks, the merged copy lacks. Any
//! other copy is useless, since all members had everything, and is removed: it can never pass for a whole one. No log
//! reaches across a merge, so a copy that missed it gets a list of all objects. Of the old logs, the entries that
//! requests made stay, before the tail: a client that sends a request again is answered.
//!
//! Authority: `PG::merge_from`, `PeeringState::merge_from`, `PGLog::merge_from`.

use types::{CollMerge, EVersion, HObject, Membership, OsdMap, PgPool, PgTotals, SnapId, Transaction, TxnOp};

use crate::{Ctx, Pg, log, meta::MetaChange};

impl Pg {
    /// True if this copy dates from when the pool had more PGs than in `map`, and is concerned by that: this PG is to
    /// be merged into another one, or another one into it.
    pub fn is_cut_too_fine(&self, map: &OsdMap) -> bool {
        map.pools.get(&self.pgid.pool).is_some_and(|pool| {
            self.pgid.seed >= pool.pg_num
                || PgPool::children_of(self.pgid, pool.pg_num, self.info.pg_num).next().is_some()
        })
    }

    /// True if this copy and that of `source` are at just the versions that `map`, their next one, merges.
    pub fn can_merge(&self, source: &Pg, map: &OsdMap) -> bool {
        let Some(pool) = map.pools.get(&self.pgid.pool) else { return false };
        let merge = &pool.last_pg_merge_meta;
        let is_next = |pg: &Pg| pg.info.epoch.next() == map.epoch && pg.info.pg_num == pool.pg_num + 1;
        source.pgid == merge.source_pgid
            && source.pgid.seed == pool.pg_num
            && PgPool::ancestor_of(source.pgid, pool.pg_num) == self.pgid
            && is_next(source)
            && is_next(self)
            && source.info.last_update == merge.source_version
            && self.info.last_update == merge.target_version
    }

    /// Takes over all that `source` has, and enters the interval that begins with that. The caller has checked
    /// [`Pg::can_merge`].
    pub fn merge(&mut self, mut source: Pg, ctx: &mut Ctx<'_>) {
        let Some(pool) = ctx.map.pools.get(&self.pgid.pool) else { return };
        tracing::info!(pg = %self.pgid, source = %source.pgid, epoch = ctx.map.epoch.0, "merges");
        source.let_go_of_all(ctx);
        let (from, to) = HObject::range_of(source.pgid, source.info.pg_num);
        let mut txn = Transaction::new(self.coll);
        txn.ops.push(TxnOp::Merge(Box::new(CollMerge {
            source: source.coll,
            from,
            // As in a split: what is at the beginning of the next PG is not of this one.
            to: to.with_snap(SnapId::default()),
        })));
        let mut change = MetaChange::default();
        self.log.iter().for_each(|entry| change.unlog(entry.version));
        let newest = self.info.last_update.version.max(source.info.last_update.version);
        // Leaves room for the versions of the entries that are kept of both logs.
        let version = EVersion::new(ctx.map.epoch, newest + log::ENTRIES_KEPT as u64 + 1);
        self.log = log::merge_requests(&self.log, &source.log, version);
        self.log.iter().for_each(|entry| change.log(entry));
        for (object, need) in std::mem::take(&mut source.missing) {
            change.missing(&object, Some(need));
            self.missing.insert(object, need);
        }
        let at = std::mem::replace(&mut self.info.epoch, ctx.map.epoch);
        let (ours, theirs) = (&mut self.info, &source.info);
        ours.pg_num = pool.pg_num;
        (ours.last_update, ours.log_tail) = (version, version);
        ours.last_epoch_started = ours.last_epoch_started.max(theirs.last_epoch_started);
        ours.totals = sum(ours.totals, theirs.totals);
        ours.is_estimated |= theirs.is_estimated;
        ours.last_user_version = ours.last_user_version.max(theirs.last_user_version);
        ours.scrubs = ours.scrubs.of_both(theirs.scrubs);
        // Snapshots that one of them still has to trim are trimmed again in both.
        ours.purged_snaps = ours.purged_snaps.intersection(&theirs.purged_snaps);
        if let Some(purged) = ctx.map.new_purged_snaps.get(&self.pgid.pool) {
            ours.purged_snaps.union_with(purged);
        }
        self.removed_snaps = None;
        self.learn_intervals(source.intervals, pool.last_pg_merge_meta.last_epoch_clean);
        self.enter_interval(at, Membership::of(ctx.map, self.pgid), change, txn, ctx);
    }

    /// Removes a copy that is cut too fine and cannot be merged: it is not needed.
    pub fn discard(&mut self, ctx: &mut Ctx<'_>) {
        let (pg, epoch) = (self.pgid, ctx.map.epoch.0);
        tracing::info!(%pg, epoch, last_update = ?self.info.last_update, "a copy goes that was not merged");
        self.remove(ctx);
    }
}

fn sum(one: PgTotals, other: PgTotals) -> PgTotals {
    PgTotals {
        objects: one.objects.saturating_add(other.objects),
        clones: one.clones.saturating_add(other.clones),
        bytes: one.bytes.saturating_add(other.bytes),
    }
}

#[cfg(test)]
mod tests;
