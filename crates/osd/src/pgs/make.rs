//! PGs that are made: the monitor or another OSD knows of one that is to be here and is not.

use messages::{MOSDPGCreate, PgCreation};
use pg::{IntervalStart, Pg};
use types::{Epoch, PgId};

use crate::{Osd, osd::Ctx};

impl Osd {
    /// Where the present interval of a PG that is new here began: every copy keeps the intervals that may
    /// have taken writes, and only an interval's beginning tells.
    fn interval_start(&self, pgid: PgId, created: Epoch, ctx: &Ctx<'_>) -> IntervalStart {
        let oldest = created.max(self.maps.oldest);
        let older = (oldest.0..self.map.epoch.0).rev().map(Epoch);
        let history =
            older.map_while(|epoch| Osd::decode_full(self.maps.full(&*ctx.store, epoch).ok().flatten()?));
        IntervalStart::find(&self.map, history, pgid, self.config.whoami, created)
    }

    /// Makes a PG that is not here, given what was known of its past in the epoch `told_at`. If another interval has
    /// begun since, nothing is made: a PG that does not know all of its past could serve without what was written
    /// then. A copy tells again when it comes to the new interval, its primary activates again, and the monitor repeats
    /// what it has made. Nor is a PG that belongs to another shard.
    pub(super) fn make_pg(&mut self, creation: PgCreation, told_at: Epoch, ctx: &mut Ctx<'_>) {
        let PgCreation { pgid, created, mut intervals } = creation;
        let shard = self.config.shard;
        if shard.owner(pgid, &self.map) != shard.index {
            // The OSD would not start again with it.
            tracing::error!(pg = %pgid, shard = shard.index, "a PG of another shard is not made here");
            return;
        }
        let mut start = self.interval_start(pgid, created, ctx);
        if told_at < start.seen_since {
            tracing::debug!(
                pg = %pgid, told_at = told_at.0, since = start.seen_since.0, "told of an earlier interval"
            );
            return;
        }
        // Later ones are closed as the PG walks through their maps.
        intervals.retain(|interval| interval.last < start.seen_since);
        // The present one follows them.
        let ended = intervals.iter().map(|interval| interval.last.next()).max();
        start.since = start.since.max(ended.unwrap_or_default());
        let id = self.pgs.new_id(pgid);
        let mut pg = Pg::absent(id, pgid, self.config.whoami);
        pg.set_store_born(self.maps.born);
        self.pgs.pgs.insert(pgid, pg);
        self.with_pg(pgid, ctx, |pg, pg_ctx| pg.begin(created, start, intervals, pg_ctx));
        self.deliver_early(ctx);
    }

    /// The monitor knows of no OSD that has these PGs.
    pub(crate) fn on_pg_create(&mut self, create: MOSDPGCreate, ctx: &mut Ctx<'_>) {
        for creation in create.pgs {
            let is_primary = self.map.pg_to_up_acting(creation.pgid).acting_primary == self.config.whoami;
            if !self.pgs.pgs.contains_key(&creation.pgid) && is_primary {
                self.make_pg(creation, create.epoch, ctx);
            }
        }
        self.stats_report.at_once(ctx.now);
    }
}
