//! How and how often PGs are scrubbed: the OSD's options, and the pool's.

use std::time::Duration;

use types::{
    EVersion, MapFlags, OsdMap, PgId, PgPool, PoolFlags, PoolOptValue, ScrubHistory, Settings, UTime,
};

use super::Cause;
use crate::Slots;

const DAY: u32 = 24 * 60 * 60;

/// The options of an OSD about scrubs, with Ceph's names and defaults; its PGs share the slots.
#[derive(Clone)]
pub struct ScrubPolicy {
    /// Scrubs under way, those of other primaries included.
    pub slots: Slots,
    /// `osd_max_scrubs`.
    pub max_scrubs: u64,
    /// True while objects of the OSD's PGs are on their way to where they are missing.
    pub is_recovering: bool,
    /// `osd_scrub_during_recovery`: scrubs begin all the same.
    pub is_during_recovery: bool,
    /// `osd_scrub_chunk_min`, `osd_scrub_chunk_max`: objects compared at once.
    pub chunk: (u64, u64),
    /// `osd_scrub_max_preemptions`: so often a chunk gives way to a write.
    pub max_preemptions: u64,
    /// `osd_deep_scrub_stride`: bytes read at once.
    pub stride: u64,
    /// `osd_scrub_sleep`: between chunks.
    pub sleep: Duration,
    /// `osd_scrub_extended_sleep`: between chunks of a scrub that was due, at a time when none may begin.
    pub extended_sleep: Duration,
    /// What is more is a large omap.
    pub omap_max: OmapMax,
    /// `osd_scrub_min_interval`.
    pub min_interval: Duration,
    /// `osd_scrub_max_interval`: older than that, the time of day does not matter.
    pub max_interval: Duration,
    /// `osd_deep_scrub_interval`.
    pub deep_interval: Duration,
    /// `osd_scrub_interval_randomize_ratio`.
    pub interval_randomize_ratio: f64,
    /// `osd_deep_scrub_randomize_ratio`: scrubs that are deep though they need not be.
    pub deep_randomize_ratio: f64,
    /// `osd_scrub_begin_hour`, `osd_scrub_end_hour` (UTC).
    pub hours: (u64, u64),
    /// `osd_scrub_begin_week_day`, `osd_scrub_end_week_day`: Sunday is 0.
    pub week_days: (u64, u64),
    /// `osd_scrub_auto_repair`.
    pub is_auto_repair: bool,
    /// `osd_scrub_auto_repair_num_errors`.
    pub auto_repair_errors_max: u64,
}

impl Default for ScrubPolicy {
    fn default() -> ScrubPolicy {
        let day = Duration::from_secs(u64::from(DAY));
        ScrubPolicy {
            slots: Slots::default(),
            max_scrubs: 1,
            is_recovering: false,
            is_during_recovery: false,
            chunk: (5, 25),
            max_preemptions: 5,
            stride: 512 << 10,
            sleep: Duration::ZERO,
            extended_sleep: Duration::ZERO,
            omap_max: OmapMax { keys: 200_000, bytes: 1 << 30 },
            min_interval: day,
            max_interval: 7 * day,
            deep_interval: 7 * day,
            interval_randomize_ratio: 0.5,
            deep_randomize_ratio: 0.15,
            hours: (0, 0),
            week_days: (0, 0),
            is_auto_repair: false,
            auto_repair_errors_max: 5,
        }
    }
}

/// The most of omap that an object should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OmapMax {
    /// `osd_deep_scrub_large_omap_object_key_threshold`.
    pub keys: u64,
    /// `osd_deep_scrub_large_omap_object_value_sum_threshold`: bytes of keys and values.
    pub bytes: u64,
}

/// When a PG is to be scrubbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubTimes {
    /// From then on, at times of the day when scrubs may begin.
    pub due: UTime,
    /// From then on at any time; [`None`] if never.
    pub deadline: Option<UTime>,
}

/// What an operator asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubRequest {
    /// Contents, too.
    pub is_deep: bool,
    /// And have bad copies replaced.
    pub is_repair: bool,
}

impl ScrubPolicy {
    /// Goes by these options from now on.
    pub fn follow(&mut self, settings: &Settings) {
        let unknown = ScrubPolicy::default();
        let number =
            |name: &str, or: u64| settings.get(name).and_then(|text| text.parse().ok()).unwrap_or(or);
        let float = |name: &str, or: f64| settings.get(name).and_then(|text| text.parse().ok()).unwrap_or(or);
        let span = |name: &str, or: Duration| {
            Duration::try_from_secs_f64(float(name, or.as_secs_f64())).unwrap_or(or)
        };
        *self = ScrubPolicy {
            slots: self.slots.clone(),
            is_recovering: self.is_recovering,
            is_during_recovery: settings.get("osd_scrub_during_recovery").as_deref() == Some("true"),
            max_scrubs: number("osd_max_scrubs", unknown.max_scrubs),
            chunk: (
                number("osd_scrub_chunk_min", unknown.chunk.0),
                number("osd_scrub_chunk_max", unknown.chunk.1),
            ),
            max_preemptions: number("osd_scrub_max_preemptions", unknown.max_preemptions),
            stride: number("osd_deep_scrub_stride", unknown.stride).max(4096),
            sleep: span("osd_scrub_sleep", unknown.sleep),
            extended_sleep: span("osd_scrub_extended_sleep", unknown.extended_sleep),
            omap_max: OmapMax {
                keys: number("osd_deep_scrub_large_omap_object_key_threshold", unknown.omap_max.keys),
                bytes: number("osd_deep_scrub_large_omap_object_value_sum_threshold", unknown.omap_max.bytes),
            },
            min_interval: span("osd_scrub_min_interval", unknown.min_interval),
            max_interval: span("osd_scrub_max_interval", unknown.max_interval),
            deep_interval: span("osd_deep_scrub_interval", unknown.deep_interval),
            interval_randomize_ratio: float(
                "osd_scrub_interval_randomize_ratio",
                unknown.interval_randomize_ratio,
            ),
            deep_randomize_ratio: float("osd_deep_scrub_randomize_ratio", unknown.deep_randomize_ratio),
            hours: (number("osd_scrub_begin_hour", 0), number("osd_scrub_end_hour", 0)),
            week_days: (number("osd_scrub_begin_week_day", 0), number("osd_scrub_end_week_day", 0)),
            is_auto_repair: settings.get("osd_scrub_auto_repair").as_deref() == Some("true"),
            auto_repair_errors_max: number(
                "osd_scrub_auto_repair_num_errors",
                unknown.auto_repair_errors_max,
            ),
        };
    }

    /// True while another scrub may begin.
    pub(super) fn has_slot(&self) -> bool {
        self.slots.taken() < self.max_scrubs && (self.is_during_recovery || !self.is_recovering)
    }

    /// How long a scrub rests between chunks.
    pub(super) fn rest(&self, cause: Cause, wall: UTime) -> Duration {
        let is_extended = cause == Cause::Due && !self.is_time(wall);
        if is_extended { self.sleep.max(self.extended_sleep) } else { self.sleep }
    }

    /// Objects of a chunk that has given way `preemptions` times, at least and at most.
    pub(super) fn chunk_size(&self, preemptions: u64) -> usize {
        let divisor = 1 << preemptions.min(16);
        let least = (self.chunk.0 / divisor).max(3);
        (self.chunk.1 / divisor).max(least) as usize
    }

    /// Whether a scrub of its own accord is due, and of which kind. Whatever chance decides is the same each
    /// time it is asked, until the next scrub.
    pub(super) fn due(
        &self,
        history: &ScrubHistory,
        pgid: PgId,
        map: &OsdMap,
        wall: UTime,
    ) -> Option<ScrubRequest> {
        let pool = map.pools.get(&pgid.pool)?;
        let (no_scrub, no_deep) = held_back(map, pool);
        let chance = Chance::of(pgid, history.last_scrub_stamp);
        let deep_age = wall.since(history.last_deep_scrub_stamp);
        let deep = interval(pool, "deep_scrub_interval").unwrap_or(self.deep_interval);
        let times = self.times(history, pgid, pool);
        let is_overdue = times.deadline.is_some_and(|deadline| wall > deadline);
        if wall < times.due || (!is_overdue && !self.is_time(wall)) {
            return None;
        }
        let is_deep_due = !deep.is_zero() && deep_age > deep;
        if no_scrub && (no_deep || !is_deep_due) {
            return None;
        }
        let is_deep = !no_deep && (is_deep_due || chance.second < self.deep_randomize_ratio);
        Some(ScrubRequest { is_deep, is_repair: false })
    }

    /// When the next scrub of its own accord is due.
    pub(super) fn times(&self, history: &ScrubHistory, pgid: PgId, pool: &PgPool) -> ScrubTimes {
        let min = interval(pool, "scrub_min_interval").unwrap_or(self.min_interval);
        let max = interval(pool, "scrub_max_interval").unwrap_or(self.max_interval);
        let chance = Chance::of(pgid, history.last_scrub_stamp);
        let factor = 1.0 + self.interval_randomize_ratio.clamp(0.0, 100.0) * chance.first;
        // A pool's interval may be as long as a number gets.
        let wanted = Duration::try_from_secs_f64(min.as_secs_f64() * factor).unwrap_or(Duration::MAX);
        let last = history.last_scrub_stamp;
        ScrubTimes { due: last.plus(wanted), deadline: (!max.is_zero()).then(|| last.plus(max)) }
    }

    /// True at a time of the day and of the week when scrubs may begin.
    fn is_time(&self, wall: UTime) -> bool {
        let within = |(begin, end): (u64, u64), now: u64| match begin.cmp(&end) {
            std::cmp::Ordering::Equal => true,
            std::cmp::Ordering::Less => (begin..end).contains(&now),
            std::cmp::Ordering::Greater => now >= begin || now < end,
        };
        // The first of January 1970 was a Thursday.
        let week_day = u64::from(wall.sec / DAY + 4) % 7;
        within(self.week_days, week_day % 7) && within(self.hours, u64::from(wall.sec % DAY / 3_600))
    }
}

/// Which scrubs flags of the cluster or of the pool hold back unless they are ordered: shallow ones, deep ones.
pub(super) fn held_back(map: &OsdMap, pool: &PgPool) -> (bool, bool) {
    let is_off = |of_map, of_pool| map.flags.has(of_map) || pool.flags.has(of_pool);
    (is_off(MapFlags::NOSCRUB, PoolFlags::NOSCRUB), is_off(MapFlags::NODEEP_SCRUB, PoolFlags::NODEEP_SCRUB))
}

/// An interval that the pool sets for itself.
fn interval(pool: &PgPool, name: &str) -> Option<Duration> {
    match pool.opts.get(name)? {
        PoolOptValue::Double(secs) if *secs > 0.0 => Duration::try_from_secs_f64(*secs).ok(),
        PoolOptValue::Int(secs) if *secs > 0 => Some(Duration::from_secs(*secs as u64)),
        PoolOptValue::Double(_) | PoolOptValue::Int(_) | PoolOptValue::Str(_) => None,
    }
}

/// Two numbers from 0 to 1 that belong to one scrub of one PG.
struct Chance {
    first: f64,
    second: f64,
}

impl Chance {
    fn of(pgid: PgId, stamp: UTime) -> Chance {
        let seed = (pgid.pool.0 as u64) << 32 ^ u64::from(pgid.seed);
        let mut word = seed ^ u64::from(stamp.sec) << 30 ^ u64::from(stamp.nsec);
        let mut next = || {
            // The steps of splitmix64.
            word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut out = word;
            out = (out ^ out >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            out = (out ^ out >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((out ^ out >> 31) >> 11) as f64 / (1u64 << 53) as f64
        };
        Chance { first: next(), second: next() }
    }
}

impl std::fmt::Debug for ScrubPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ScrubPolicy({} of {} under way)", self.slots.taken(), self.max_scrubs)
    }
}

/// A history that begins now: a PG that was never scrubbed is as good as one that just was.
pub(super) fn begun(at: EVersion, wall: UTime) -> ScrubHistory {
    ScrubHistory {
        last_scrub: at,
        last_scrub_stamp: wall,
        last_deep_scrub: at,
        last_deep_scrub_stamp: wall,
        last_clean_scrub_stamp: wall,
        ..ScrubHistory::default()
    }
}

#[cfg(test)]
mod tests {
    use types::{CrushBlob, PoolId, Uuid};

    use super::*;

    const HOUR: u32 = 60 * 60;

    fn at(hour: u32) -> UTime {
        // A Sunday.
        UTime::new(3 * DAY + hour * HOUR, 0)
    }

    #[test]
    fn hours_may_span_midnight() {
        let policy = |begin, end| ScrubPolicy { hours: (begin, end), ..ScrubPolicy::default() };
        let hours =
            |policy: ScrubPolicy| (0..24).filter(|hour| policy.is_time(at(*hour))).collect::<Vec<_>>();
        assert_eq!(hours(policy(2, 5)), [2, 3, 4]);
        assert_eq!(hours(policy(22, 2)), [0, 1, 22, 23]);
        assert_eq!(hours(policy(7, 7)).len(), 24);
        let monday = ScrubPolicy { week_days: (1, 2), ..ScrubPolicy::default() };
        assert!(!monday.is_time(at(12)) && monday.is_time(UTime::new(4 * DAY, 0)));
    }

    #[test]
    fn a_scrub_is_due_by_the_pools_intervals_unless_a_flag_holds_it_back() {
        let pgid = PgId::new(PoolId(1), 0);
        let mut map = OsdMap::new(Uuid::NIL, UTime::default(), CrushBlob::default());
        map.pools.insert(PoolId(1), PgPool::default());
        let policy = ScrubPolicy {
            interval_randomize_ratio: 0.0,
            deep_randomize_ratio: 0.0,
            ..ScrubPolicy::default()
        };
        let history = begun(EVersion::ZERO, UTime::new(DAY, 0));
        let due =
            |map: &OsdMap, days: u32| policy.due(&history, pgid, map, UTime::new(DAY + days * DAY + 1, 0));
        let deep = |is_deep| Some(ScrubRequest { is_deep, is_repair: false });
        assert_eq!((due(&map, 0), due(&map, 1), due(&map, 7)), (None, deep(false), deep(true)));
        map.flags = MapFlags::NODEEP_SCRUB;
        assert_eq!(due(&map, 7), deep(false));
        map.flags = MapFlags::NODEEP_SCRUB.with(MapFlags::NOSCRUB, true);
        assert_eq!(due(&map, 7), None);
        map.flags = MapFlags::NOSCRUB;
        assert_eq!((due(&map, 1), due(&map, 7)), (None, deep(true)));
        let long = ScrubPolicy { min_interval: Duration::MAX, ..ScrubPolicy::default() };
        assert_eq!(long.times(&history, pgid, &PgPool::default()).due.sec, u32::MAX);
    }
}
