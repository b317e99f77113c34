//! Splitting: the pool has more PGs, and some of this one's objects belong to new ones, its children.
//!
//! Every copy, acting or not, splits by itself as it comes to the map that says so: what it holds, has logged and lacks
//! is divided by the hashes of the objects. A child begins with its parent's past intervals, so its primary asks the
//! OSDs that had its objects before; the same epoch begins a new interval for all of them, and clients send again. One
//! transaction carries it all: after a crash it has happened, or happens when the map comes again.
//!
//! Authority: `PG::split_into`, `PGLog::split_into`, `pg_t::is_split`.

use std::collections::{BTreeMap, btree_map::Entry};

use types::{
    CollId, CollSplit, Epoch, HObject, Missing, OsdMap, PgId, PgInfo, PgPool, PgTotals, SnapId, Transaction,
    TxnOp,
};

use crate::{
    Ctx, Pg,
    meta::{self, MetaChange},
    pg::Pending,
};

impl Pg {
    /// The PGs that come of this one by `map`; none unless it has to be split.
    pub fn children(&self, map: &OsdMap) -> Vec<PgId> {
        let Some(pool) = map.pools.get(&self.pgid.pool) else { return Vec::new() };
        match self.info.pg_num {
            // Written before PGs could be split.
            0 => Vec::new(),
            before => PgPool::children_of(self.pgid, before, pool.pg_num).collect(),
        }
    }

    /// Splits off its children, each given with the id of its tokens. They are in the state of this PG: at the map that
    /// it saw last, or not resumed yet; `Ctx::map` is the one that splits it.
    pub fn split(&mut self, children: &[(u32, PgId)], ctx: &mut Ctx<'_>) -> Vec<Pg> {
        let Some(pool) = ctx.map.pools.get(&self.pgid.pool) else { return Vec::new() };
        let (before, pg_num, epoch) = (self.info.pg_num, pool.pg_num, ctx.map.epoch);
        tracing::info!(pg = %self.pgid, before, pg_num, epoch = epoch.0, "splits");
        self.count_pushed();
        let owner = |object: &HObject| {
            let owner = PgPool::ancestor_of(PgId::new(self.pgid.pool, object.hash), pg_num);
            (owner != self.pgid).then_some(owner)
        };
        let mut change = MetaChange::default();
        let mut logs = self.log.split_off(owner);
        let mut lacking: BTreeMap<PgId, Missing> = BTreeMap::new();
        for (object, need) in std::mem::take(&mut self.missing) {
            match owner(&object) {
                Some(other) => {
                    change.missing(&object, None);
                    lacking.entry(other).or_default().insert(object, need);
                }
                None => {
                    self.missing.insert(object, need);
                }
            }
        }
        let whole = self.info.totals;
        self.info.pg_num = pg_num;
        self.info.last_epoch_split = epoch;
        self.info.is_estimated = true;
        let mut txn = Transaction::new(self.coll);
        // As they are behind all objects, they would go to a child that does not know of them.
        self.forget_all_gathered(&mut change, &mut txn);
        let mut out = Vec::new();
        for &(id, pgid) in children {
            let bits = HObject::split_bits(pgid, pg_num) - HObject::split_bits(self.pgid, before);
            let mut child = self.child(id, pgid, part_of(whole, bits), epoch);
            subtract(&mut self.info.totals, child.info.totals);
            if let Entry::Occupied(log) = logs.entry(pgid) {
                child.log = log.remove();
                child.log.iter().for_each(|entry| change.unlog(entry.version));
            }
            child.missing = lacking.remove(&pgid).unwrap_or_default();
            txn.ops.push(child.split_off(pg_num));
            out.push(child);
        }
        change.info(&self.info, &mut self.kept);
        change.into_txn(&mut txn);
        self.submit(Pending::Nothing, txn, ctx);
        out
    }

    /// A child with this PG's past, and nothing else.
    fn child(&self, id: u32, pgid: PgId, totals: PgTotals, epoch: Epoch) -> Pg {
        let mut child = Pg::absent(id, pgid, self.me);
        child.store_born = self.store_born;
        child.info = PgInfo { totals, created: epoch, ..self.info.clone() };
        child.intervals = self.intervals.clone();
        child.members = self.members.clone();
        child.lease = self.lease.clone();
        child
    }

    /// The step of the parent's transaction that makes this child.
    fn split_off(&mut self, pg_num: u32) -> TxnOp {
        let mut change = MetaChange::default();
        change.info(&self.info, &mut self.kept);
        change.intervals(&self.intervals);
        self.log.iter().for_each(|entry| change.log(entry));
        self.missing.iter().for_each(|(object, need)| change.missing(object, Some(*need)));
        let (from, to) = HObject::range_of(self.pgid, pg_num);
        TxnOp::Split(Box::new(CollSplit {
            child: CollId::pg(self.pgid),
            from,
            // What is at the beginning of the next PG is not of this one.
            to: to.with_snap(SnapId::default()),
            record: meta::object(),
            omap: change.into_entries(),
        }))
    }
}

/// About what a PG with so many more bits has of the whole: hashes are spread evenly.
fn part_of(whole: PgTotals, bits: u32) -> PgTotals {
    let part = |count: u64| count.checked_shr(bits).unwrap_or(0);
    PgTotals { objects: part(whole.objects), clones: part(whole.clones), bytes: part(whole.bytes) }
}

fn subtract(from: &mut PgTotals, part: PgTotals) {
    from.objects -= part.objects;
    from.clones -= part.clones;
    from.bytes -= part.bytes;
}

#[cfg(test)]
pub(crate) mod tests;
