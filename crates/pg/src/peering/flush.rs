//! What is told of this copy in an interval is durable here: all that it was when the interval began.
//!
//! Changes count for a copy's log as soon as they are submitted. If others took over such a log before the changes are
//! durable, and this OSD ended then, they would have logged changes whose contents are nowhere: the objects would be
//! unfound, although no client was told of the changes. So with each interval goes a record of it to the store, which
//! commits in order. Until it has, a copy tells its primary nothing, and a primary has nobody take over its log.
//!
//! Ceph has such a flush, too (`FlushedEvt`), but only what clients want waits for it (`waiting_for_flush`).

use types::{Epoch, Transaction};

use crate::{Ctx, Pg, pg::Pending};

impl Pg {
    /// An interval begins after the map of epoch `last`, and `txn` keeps that.
    pub(super) fn submit_interval(&mut self, last: Epoch, txn: Transaction, ctx: &mut Ctx<'_>) {
        self.flushes += 1;
        self.submit(Pending::Flushed { last }, txn, ctx);
    }

    /// True if all is durable that was submitted before the present interval.
    pub(crate) fn is_flushed(&self) -> bool {
        self.flushes == 0
    }

    /// The first of the maps that this copy would have to walk through if the OSD ended now: the last one of the
    /// interval that the durable record is of. None while that is the present interval, which went on in all maps
    /// since.
    pub fn maps_needed_since(&self) -> Option<Epoch> {
        if self.is_flushed() {
            return None;
        }
        self.pending.values().find_map(|pending| match pending {
            Pending::Flushed { last } => Some(*last),
            _ => None,
        })
    }

    /// True if what other copies say can be answered.
    pub(crate) fn may_answer(&self) -> bool {
        // A primary asks, and hears the answers meanwhile.
        self.is_primary() || self.is_flushed()
    }

    pub(crate) fn on_flushed(&mut self, ctx: &mut Ctx<'_>) {
        self.flushes -= 1;
        if !self.is_flushed() {
            return;
        }
        self.history.note_event();
        self.tell_primary(ctx);
        self.run_peers(ctx);
        self.check_up_thru(ctx);
    }
}

#[cfg(test)]
mod tests {
    use messages::{MPgNotify, MPgQuery};
    use types::{OsdId, PgInfo};

    use crate::{Event, pg::Phase, test_world::World};

    /// The next map, by which this OSD lives, and the other begins anew. What the store then commits is not told yet.
    fn begin_interval(world: &mut World, other: OsdId) {
        world.map.epoch = world.map.epoch.next();
        world.map.osd_info[usize::try_from(other.0).unwrap()].up_from = world.map.epoch;
        world.map.osd_info[usize::try_from(world.pg.me.0).unwrap()].up_thru = world.map.epoch;
        hear(world, Event::NewMap);
    }

    /// An event comes before what the store has finished.
    fn hear(world: &mut World, event: Event) {
        world.act(|pg, ctx| pg.handle(event, ctx));
    }

    fn names(world: &mut World) -> Vec<&'static str> {
        world.told().iter().map(|(_, message)| message.name()).collect()
    }

    #[test]
    fn nobody_takes_over_the_log_of_a_primary_before_that_is_durable() {
        let mut world = World::of(2);
        let peer = world.peers[0];
        let writing = world.writing(1, 1);
        hear(&mut world, writing);
        begin_interval(&mut world, peer);
        let (pgid, epoch) = (world.pg.pgid, world.map.epoch);
        let info = PgInfo { last_update: world.version(3), ..PgInfo::default() };
        let (intervals, leases) = (Vec::new(), Vec::new());
        world.told();
        hear(&mut world, Event::Peer(peer, MPgNotify { pgid, epoch, info, intervals, leases }.into()));
        assert_eq!(world.pg.phase, Phase::WaitUpThru);
        assert_eq!(names(&mut world), [""; 0]);
        for committed in world.store.complete() {
            hear(&mut world, Event::Store(committed));
        }
        assert!(matches!(world.pg.phase, Phase::Activating { .. }), "{:?}", world.pg.phase);
        assert_eq!(names(&mut world), ["MPgLog"]);
    }

    #[test]
    fn a_copy_tells_its_primary_nothing_before_that_is_durable() {
        let mut world = World::replica();
        let primary = world.peers[0];
        begin_interval(&mut world, primary);
        // Another interval follows at once.
        let earlier = world.store.complete();
        begin_interval(&mut world, primary);
        let (pgid, epoch) = (world.pg.pgid, world.map.epoch);
        let query = MPgQuery { pgid, epoch, ..MPgQuery::default() };
        for query in [query, MPgQuery { wants_log: true, ..query }] {
            hear(&mut world, Event::Peer(primary, query.into()));
        }
        for committed in earlier {
            hear(&mut world, Event::Store(committed));
        }
        assert_eq!(names(&mut world), [""; 0]);
        for committed in world.store.complete() {
            hear(&mut world, Event::Store(committed));
        }
        assert_eq!(names(&mut world), ["MPgNotify", "MPgNotify", "MPgLog"]);
        assert_eq!(world.pg.held().collect::<Vec<_>>(), []);
    }
}
