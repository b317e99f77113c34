//! Read leases: a member that the others no longer hear stops serving before others take over.
//!
//! A member, be it the primary or a replica that answers reads, serves only while every other member of the acting set
//! has heard it lately; when a new interval begins, its primary waits until every member that served before has surely
//! stopped. Heartbeats carry the leases: a member that answers a ping lets the sender serve for [`LEASE`] from the
//! moment when the ping left, and remembers for [`LEASE_AT_MOST`] from the moment when it answered, by its own clock,
//! that the sender may serve. Clocks need not agree, but have to run at about the same rate: the difference between the
//! two durations makes up for 3 %. Since a member serves only if all others have heard it, any one of them that a later
//! primary asks knows of the lease.
//!
//! Authority: `PeeringState::proc_lease`, `prior_readable_until_ub`, `recalc_readable_until` (Octopus and
//! later), where each PG sends leases of its own.

use std::{collections::BTreeMap, time::Duration};

use messages::PriorLease;
use types::{Instant, OsdId, OsdMap};

use crate::{Ctx, Pg, pg::Phase};

/// How long a member's word lets another one serve: the grace of heartbeats (20 s) times Ceph's default of
/// `osd_pool_default_read_lease_ratio` (0.8), so that a member that is not heard has stopped before others report it
/// dead. No option changes either.
pub const LEASE: Duration = Duration::from_secs(16);

/// How long a member assumes a lease that it gave to run, in case its own clock is the faster one. Under NTP two clocks
/// drift apart by a thousandth at most; a clock that its host corrects otherwise, or not at all, may be several times
/// worse.
pub const LEASE_AT_MOST: Duration = Duration::from_millis(16_500);

/// What heartbeats say, for all PGs of an OSD.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Leases {
    /// By peer: when the last ping that it answered left here.
    granted: BTreeMap<OsdId, Instant>,
    /// By peer: when this OSD last answered a ping of it.
    given: BTreeMap<OsdId, Instant>,
}

impl Leases {
    /// `from`, whose map is not newer than ours, answered a ping that left here at `sent`.
    pub fn on_granted(&mut self, from: OsdId, sent: Instant) {
        let granted = self.granted.entry(from).or_default();
        *granted = (*granted).max(sent);
    }

    /// The life of `osd` is over, and what it granted with it: its next one knows nothing of that.
    pub fn forget_granted(&mut self, osd: OsdId) {
        self.granted.remove(&osd);
    }

    /// This OSD answers a ping of `to`.
    pub fn on_given(&mut self, to: OsdId, now: Instant) {
        self.given.insert(to, now);
    }
}

/// The leases of one PG.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lease {
    /// Primary, by member: when the activation left that the member has followed.
    granted: BTreeMap<OsdId, Instant>,
    /// This copy may serve until then, as of the last look at its leases.
    readable_until: Instant,
    /// Member: when this copy told the primary of this interval that it follows.
    given: Option<Instant>,
    /// Until when, at most, each member of earlier intervals may serve.
    prior: BTreeMap<OsdId, Instant>,
    /// Primary: when its activation left.
    activation_sent: Instant,
    /// True while clients, or what the PG does of its own accord, may wait for a lease.
    pub(crate) is_laggy: bool,
}

impl Lease {
    fn add_prior(&mut self, osd: OsdId, until: Instant) {
        let known = self.prior.entry(osd).or_default();
        *known = (*known).max(until);
    }

    /// The leases of earlier intervals that may still run, as other copies have to know them.
    pub(crate) fn to_tell(&self, now: Instant) -> Vec<PriorLease> {
        let running = self.prior.iter().filter(|(_, until)| **until > now);
        running.map(|(osd, until)| PriorLease { osd: *osd, left_ns: until.0 - now.0 }).collect()
    }

    /// Takes over the leases that another copy tells of. The time that the message took makes them longer, which errs
    /// on the safe side.
    pub(crate) fn learn(&mut self, told: &[PriorLease], now: Instant) {
        for lease in told {
            self.add_prior(lease.osd, now + Duration::from_nanos(lease.left_ns));
        }
    }
}

/// True when the process that served as `osd` is known to be gone. Nothing is known of an OSD that was removed from the
/// map, nor of one that was made under its id since and has not been up: the epochs of both are zero.
fn is_over(map: &OsdMap, osd: OsdId) -> bool {
    map.is_down(osd) && map.xinfo(osd).dead_epoch > map.up_from(osd)
}

impl Pg {
    /// After a start: members of the acting sets that this copy knows of may have leases that it gave and has
    /// forgotten.
    pub(crate) fn lease_after_restart(&mut self, now: Instant) {
        let acted = self.intervals.iter().flat_map(|interval| &interval.acting).chain(&self.members.acting);
        for osd in acted.copied().filter(|osd| osd.is_some() && *osd != self.me).collect::<Vec<_>>() {
            self.lease.add_prior(osd, now + LEASE_AT_MOST);
        }
    }

    /// The interval of the present members ends: remembers until when they may serve. Replicas served only if the
    /// interval may have taken writes.
    pub(crate) fn end_lease(&mut self, maybe_went_rw: bool, ctx: &Ctx<'_>) {
        let primary = self.members.primary;
        for osd in self.acting_others().filter(|osd| maybe_went_rw || *osd == primary).collect::<Vec<_>>() {
            let followed = self.lease.given.filter(|_| osd == primary);
            if let Some(given) = ctx.leases.given.get(&osd).copied().max(followed) {
                self.lease.add_prior(osd, given + LEASE_AT_MOST);
            }
        }
        let prior = std::mem::take(&mut self.lease.prior);
        let prior = prior.into_iter().filter(|(_, until)| *until > ctx.now).collect();
        self.lease = Lease { prior, ..Lease::default() };
    }

    /// Primary: its activation leaves now.
    pub(crate) fn ask_leases(&mut self, now: Instant) {
        self.lease.activation_sent = now;
    }

    /// Member: tells the primary that it follows.
    pub(crate) fn give_lease(&mut self, now: Instant) {
        self.lease.given = Some(now);
    }

    /// Primary: a member follows.
    pub(crate) fn take_lease(&mut self, from: OsdId) {
        self.lease.granted.insert(from, self.lease.activation_sent);
    }

    /// True when no member of an earlier interval serves any more: it has answered in this one, or is
    /// known to be dead, or its time has passed.
    pub(crate) fn is_prior_lease_over(&self, ctx: &Ctx<'_>) -> bool {
        self.lease.prior.iter().all(|(osd, until)| {
            ctx.now >= *until || *osd == self.me || self.peer_info.contains_key(osd) || is_over(ctx.map, *osd)
        })
    }

    /// True when this member may serve now, by the leases that the others gave it.
    pub(crate) fn has_lease(&mut self, ctx: &Ctx<'_>) -> bool {
        if ctx.now < self.lease.readable_until {
            return true;
        }
        let of = |osd: &OsdId| {
            let granted = ctx.leases.granted.get(osd).max(self.lease.granted.get(osd));
            granted.map_or(Instant(0), |sent| *sent + LEASE)
        };
        self.lease.readable_until =
            self.acting_others().map(|osd| of(&osd)).min().unwrap_or(Instant(u64::MAX));
        let has_lease = ctx.now < self.lease.readable_until;
        // At a replica no client waits for a lease.
        self.lease.is_laggy |= !has_lease && self.is_primary();
        has_lease
    }

    /// Once a second: clients wait no longer when the other members are heard again.
    pub(crate) fn tick_lease(&mut self, ctx: &mut Ctx<'_>) {
        self.check_active(ctx);
        if self.phase == Phase::Active && self.lease.is_laggy && self.has_lease(ctx) {
            self.lease.is_laggy = false;
            self.run_all_objects(ctx);
        }
    }
}

#[cfg(test)]
mod tests {
    use types::{Epoch, OsdInfo, OsdState, OsdXInfo};

    use super::*;
    use crate::test_world::World;

    const SEC: u64 = 1_000_000_000;

    #[test]
    fn what_is_told_never_ends_earlier_than_it_does() {
        let (mut ours, mut theirs) = (Lease::default(), Lease::default());
        ours.add_prior(OsdId(1), Instant(20 * SEC));
        ours.add_prior(OsdId(1), Instant(10 * SEC));
        ours.add_prior(OsdId(2), Instant(4 * SEC));
        let told = ours.to_tell(Instant(5 * SEC));
        assert_eq!(told, [PriorLease { osd: OsdId(1), left_ns: 15 * SEC }]);
        // Another clock, and a message that took three seconds.
        theirs.learn(&told, Instant(103 * SEC));
        assert_eq!(theirs.prior, BTreeMap::from([(OsdId(1), Instant(118 * SEC))]));
    }

    #[test]
    fn an_old_answer_does_not_shorten_a_lease() {
        let mut leases = Leases::default();
        leases.on_granted(OsdId(1), Instant(9));
        leases.on_granted(OsdId(1), Instant(5));
        assert_eq!(leases.granted[&OsdId(1)], Instant(9));
    }

    #[test]
    fn only_an_osd_that_is_known_to_be_dead_serves_no_more_before_its_time_is_over() {
        let mut world = World::of(2);
        let osd = world.add_down_osd();
        let at = usize::try_from(osd.0).unwrap();
        world.pg.lease.add_prior(osd, world.now + LEASE_AT_MOST);
        let gone = OsdState::default();
        for (state, up_from, dead_epoch, is_over) in [
            (OsdState::EXISTS, 5, 0, false),
            (OsdState::EXISTS, 5, 4, false),
            (OsdState::EXISTS, 5, 6, true),
            // Purged, and then made anew.
            (gone, 0, 0, false),
            (OsdState::EXISTS, 0, 0, false),
        ] {
            world.map.osd_state[at] = state;
            world.map.osd_info[at] = OsdInfo { up_from: Epoch(up_from), ..OsdInfo::default() };
            world.map.osd_xinfo[at] = OsdXInfo { dead_epoch: Epoch(dead_epoch), ..OsdXInfo::default() };
            assert_eq!(world.act(|pg, ctx| pg.is_prior_lease_over(ctx)), is_over, "{state:?} {up_from}");
        }
        world.now = world.now + LEASE_AT_MOST;
        assert!(world.act(|pg, ctx| pg.is_prior_lease_over(ctx)));
    }
}
