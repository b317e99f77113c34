//! What the PG holds, counted anew: a split leaves it estimated.
//!
//! The primary counts object by object while the PG serves; changes of objects that it has passed are noted.

use types::{HObject, PgTotals, SnapId};

use crate::{Ctx, Effect, Pg, exec::Delta, index_wait::IndexWait};

/// Objects looked at in one go.
const STEP: usize = 256;
/// Goes in one tick.
const GOES: usize = 16;

/// How far a count is: an object and its clones are counted together.
#[derive(Debug)]
pub(crate) struct Recount {
    /// Everything before is counted.
    from: HObject,
    so_far: PgTotals,
}

impl Recount {
    pub(crate) fn new() -> Recount {
        Recount { from: HObject::min(), so_far: PgTotals::default() }
    }

    /// An object and its clones are about to change, by so much.
    pub(crate) fn note(&mut self, head: &HObject, delta: Delta) {
        if *head < self.from {
            self.so_far = delta.added_to(self.so_far);
        }
    }
}

impl Pg {
    /// Goes on counting, if the totals are estimated and everything is here.
    pub(crate) fn recount(&mut self, ctx: &mut Ctx<'_>) {
        if !self.info.is_estimated || !self.is_clean || self.is_waiting(IndexWait::Recount) {
            return;
        }
        let mut recount = self.recount.take().unwrap_or_else(Recount::new);
        for _ in 0..GOES {
            match self.count_step(&mut recount, STEP, ctx) {
                Ok(true) => return self.set_totals(recount.so_far, ctx),
                Ok(false) => self.let_go(IndexWait::Recount, ctx),
                Err(missing) => {
                    self.recount = Some(recount);
                    return self.wait(IndexWait::Recount, vec![missing], ctx);
                }
            }
        }
        self.recount = Some(recount);
    }

    /// Counts some more, about `step` objects; true at the end.
    pub(crate) fn count_step(
        &self,
        recount: &mut Recount,
        mut step: usize,
        ctx: &Ctx<'_>,
    ) -> Result<bool, store::NotCached> {
        let (objects, is_last) = loop {
            let mut objects = ctx.store.list(self.coll, &recount.from, step)?;
            let is_last = objects.len() < step;
            // Clones come before their head.
            while !is_last && objects.last().is_some_and(|object| !object.is_head()) {
                objects.pop();
            }
            if is_last || !objects.is_empty() {
                break (objects, is_last);
            }
            step *= 2;
        };
        let mut counted = recount.so_far;
        for object in objects.iter().filter(|object| object.pool == self.pgid.pool) {
            let Some(meta) = ctx.store.meta(self.coll, object)? else { continue };
            counted.objects += 1;
            counted.clones += u64::from(!object.is_head());
            counted.bytes += meta.size;
        }
        recount.so_far = counted;
        if let Some(last) = objects.last() {
            recount.from = last.with_snap(SnapId(last.snap.0.saturating_add(1)));
        }
        Ok(is_last)
    }

    fn set_totals(&mut self, totals: PgTotals, ctx: &mut Ctx<'_>) {
        self.let_go(IndexWait::Recount, ctx);
        self.info.totals = totals;
        self.info.is_estimated = false;
        self.keep_info(ctx);
        ctx.effects.push(Effect::StatsChanged);
    }
}
