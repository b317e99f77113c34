//! PGs walk through maps, one by one: from those that they saw last when they are loaded, and into each new one. On the
//! way they are split and merged.

use pg::{Event, Pg};
use types::{CollId, PgId, Transaction, TxnOp};

use super::MAP_TOKEN;
use crate::{Fault, Osd, osd::Ctx};

impl Osd {
    /// Loads the PGs in the store, and walks each from the map that it saw last to the newest.
    ///
    /// # Errors
    /// When one of them, or a map on the way, is not readable.
    pub(crate) fn load_pgs(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Fault> {
        let me = self.config.whoami;
        let mut loaded = Vec::new();
        for coll in ctx.store.collections().into_iter().filter(|c| *c != CollId::META) {
            let id = self.pgs.new_id(coll.0);
            match Pg::load(id, coll.0, me, ctx.store) {
                Ok(Some(mut pg)) => {
                    pg.set_store_born(self.maps.born);
                    loaded.push(pg);
                }
                Ok(None) => {
                    // A PG's record goes first when it is removed.
                    tracing::info!(pg = %coll.0, "what is left of a PG that was being removed goes");
                    self.pgs.ids.remove(&id);
                    let mut txn = Transaction::new(coll);
                    txn.ops.push(TxnOp::RemoveCollection);
                    ctx.store.submit(MAP_TOKEN, txn);
                }
                Err(error) => return Err(Fault::PgRecord { pgid: coll.0, error }),
            }
        }
        let newest = self.maps.newest;
        let oldest = loaded.iter().map(Pg::epoch).min().unwrap_or(newest).max(self.maps.oldest);
        let mut epoch = oldest;
        while epoch.0 != 0 && epoch <= newest {
            let bytes = self.maps.full(ctx.store, epoch).ok().flatten();
            self.map = bytes.and_then(Osd::decode_full).ok_or(Fault::Map { epoch })?;
            self.advance_pgs(ctx);
            let (ready, later): (Vec<Pg>, Vec<Pg>) = loaded.into_iter().partition(|pg| pg.epoch() <= epoch);
            loaded = later;
            for pg in ready {
                let (pgid, is_last_kept) = (pg.pgid(), pg.epoch() == epoch);
                let is_cut_too_fine = pg.is_cut_too_fine(&self.map);
                self.pgs.pgs.insert(pgid, pg);
                if is_cut_too_fine && is_last_kept {
                    // The split that comes with the next map was done when the OSD ended, but the interval that it
                    // begins was not noted. Others have not heard of the split in this map, and need not.
                    self.with_pg(pgid, ctx, |pg, pg_ctx| {
                        pg.resume(pg_ctx);
                        pg_ctx.effects.retain(|effect| !effect.is_for_others());
                    });
                    continue;
                }
                // The PG's last map may be older than all that are kept, and its pool may have had more PGs in it, or
                // fewer.
                if is_cut_too_fine {
                    self.with_pg(pgid, ctx, |pg, pg_ctx| pg.discard(pg_ctx));
                    continue;
                }
                let children = self.split_pg(pgid, ctx);
                for pgid in children.into_iter().chain([pgid]) {
                    self.with_pg(pgid, ctx, |pg, pg_ctx| pg.resume(pg_ctx));
                }
            }
            epoch = epoch.next();
        }
        if let Some(pg) = loaded.first() {
            return Err(Fault::MapsBehind { pgid: pg.pgid(), epoch: pg.epoch(), newest });
        }
        let is_ours = |pgid| self.config.shard.owner(pgid, &self.map) == self.config.shard.index;
        let mut ids = self.pgs.ids().filter(|pgid| self.map.pg_exists(*pgid));
        assert!(ids.all(is_ours), "a PG stays with its shard");
        Ok(())
    }

    /// Splits a PG whose pool has more PGs in the newest map than the PG knew, and returns its children.
    pub(super) fn split_pg(&mut self, pgid: PgId, ctx: &mut Ctx<'_>) -> Vec<PgId> {
        let children = self.pgs.get(pgid).map_or_else(Vec::new, |pg| pg.children(&self.map));
        if children.is_empty() {
            return children;
        }
        let numbered: Vec<(u32, PgId)> =
            children.iter().map(|child| (self.pgs.new_id(*child), *child)).collect();
        let mut split = Vec::new();
        self.with_pg(pgid, ctx, |pg, pg_ctx| split = pg.split(&numbered, pg_ctx));
        for child in split {
            let known = self.pgs.pgs.insert(child.pgid(), child);
            assert!(known.is_none(), "a PG is where the one was that it came of, and only there");
        }
        children
    }

    /// Where the pool has one PG less in the newest map, merges that PG into this one, or lets this one go. False if
    /// the PG stays what it is.
    fn merge_pg(&mut self, pgid: PgId, ctx: &mut Ctx<'_>) -> bool {
        if !self.pgs.get(pgid).is_some_and(|pg| pg.is_cut_too_fine(&self.map)) {
            return false;
        }
        // The one that stays has the lower number, so its turn comes first.
        let source_pgid = self.map.pools.get(&pgid.pool).map(|pool| pool.last_pg_merge_meta.source_pgid);
        let source = source_pgid.filter(|source| match (self.pgs.get(pgid), self.pgs.get(*source)) {
            (Some(pg), Some(source)) => pg.can_merge(source, &self.map),
            (None, _) | (_, None) => false,
        });
        match source.and_then(|source| self.pgs.take(source)) {
            Some(source) => self.with_pg(pgid, ctx, |pg, pg_ctx| pg.merge(source, pg_ctx)),
            None => self.with_pg(pgid, ctx, |pg, pg_ctx| pg.discard(pg_ctx)),
        }
        true
    }

    /// Walks every PG into the newest map. What PGs tell each other on the way is heard when all have come to that map:
    /// one that has not may lead by the new map only, or have to be split, and would drop what it is asked.
    pub(crate) fn advance_pgs(&mut self, ctx: &mut Ctx<'_>) {
        // Clients send their ops again to the new primary. So does another PG's primary what it passes on; and where
        // that primary's life is over, its successor asks anew.
        let (map, me) = (&self.map, self.config.whoami);
        let is_ours = |pgid| map.pg_to_up_acting(pgid).acting_primary == me;
        self.pgs.early.retain(|(_, _, op, _)| is_ours(op.pgid));
        self.pgs.early_passed_on.retain(|from, question| {
            is_ours(question.pgid) && map.is_up(from) && map.up_from(from) <= question.epoch
        });
        self.pgs.is_holding = true;
        for pgid in self.pgs.ids().collect::<Vec<_>>() {
            if self.merge_pg(pgid, ctx) {
                continue;
            }
            for pgid in self.split_pg(pgid, ctx).into_iter().chain([pgid]) {
                self.pg_event(pgid, Event::NewMap, ctx);
            }
        }
        // Some may have come of splits.
        self.deliver_early(ctx);
        self.pgs.is_holding = false;
        self.deliver_own_messages(ctx);
    }
}
