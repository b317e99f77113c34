//! How much recovery an OSD does at a time: its options, and what its PGs have on their way.

use types::{OsdId, PgId, Settings};

use super::throttle::{Limits, RecoveryThrottle};
use crate::log::{ENTRIES_KEPT, LogLength};

/// What may be under way to one OSD, in parts of the largest size: one is written while another comes, and what the
/// OSD is sent besides, heartbeats included, waits for no more than that. By default it is three of the objects that
/// images consist of, with what is kept with them.
const PARTS_PER_OSD: u64 = 2;

/// The options of an OSD about recovery, with Ceph's names and defaults; its PGs share what may be on its way.
#[derive(Clone)]
pub struct RecoveryPolicy {
    /// What is on its way, of all PGs.
    pub active: RecoveryThrottle,
    /// `osd_recovery_max_active`; where that is 0, `osd_recovery_max_active_ssd`. This shard's part of it.
    pub active_max: u64,
    /// `osd_async_recovery_min_cost`: an OSD that lacks more objects than that is filled before it acts.
    pub fill_first: u64,
    /// `osd_recovery_max_chunk`: an object with more bytes is sent in parts, each of about so many.
    pub part_bytes: u64,
    /// How far back PG logs tell what other copies lack.
    pub(crate) log: LogLength,
    /// Shards that have part in what the OSD may send to another one.
    shards: u16,
}

impl Default for RecoveryPolicy {
    fn default() -> RecoveryPolicy {
        let active = RecoveryThrottle::default();
        let log = LogLength::default();
        RecoveryPolicy { active, active_max: 10, fill_first: 100, part_bytes: 8 << 20, log, shards: 1 }
    }
}

impl RecoveryPolicy {
    /// Takes the options that are in force, for shard `index` of `count`: these share nothing but the limits, of which
    /// each has its part. What is on its way stays so.
    pub fn follow(&mut self, settings: &Settings, (index, count): (u16, u16)) {
        let unknown = RecoveryPolicy::default();
        let number = |name: &str| settings.get(name).and_then(|text| text.parse::<u64>().ok());
        let of_any = number("osd_recovery_max_active").filter(|most| *most > 0);
        let most = of_any.or_else(|| number("osd_recovery_max_active_ssd")).unwrap_or(unknown.active_max);
        let (index, shards) = (u64::from(index), u64::from(count.max(1)));
        // Without any slot a shard's PGs would never recover.
        self.active_max = (most / shards + u64::from(index < most % shards)).max(1);
        self.fill_first = number("osd_async_recovery_min_cost").unwrap_or(unknown.fill_first);
        self.part_bytes = number("osd_recovery_max_chunk").unwrap_or(unknown.part_bytes);
        let length = |name, most: usize, unknown: usize| {
            let set = number(name).map(|set| usize::try_from(set).unwrap_or(usize::MAX));
            set.unwrap_or(unknown).clamp(1, most)
        };
        self.log = LogLength {
            entries: length("osd_max_pg_log_entries", ENTRIES_KEPT, unknown.log.entries),
            step: length("osd_pg_log_trim_min", ENTRIES_KEPT, unknown.log.step),
        };
        self.shards = count;
        self.active.look_again();
    }

    /// The next PG whose turn it is to go on, and the OSD for which it is: it is given
    /// [`Event::RecoveryTurn`](crate::Event::RecoveryTurn). The caller asks for it after anything that PGs have done,
    /// until there is none.
    pub fn next_turn(&self) -> Option<(PgId, OsdId)> {
        self.active.next_turn(self.limits())
    }

    pub(super) fn limits(&self) -> Limits {
        let bytes = self.part_bytes.saturating_mul(PARTS_PER_OSD) / u64::from(self.shards.max(1));
        let bytes_per_osd = usize::try_from(bytes).unwrap_or(usize::MAX).max(1);
        Limits { slots: self.active_max, bytes_per_osd }
    }
}

#[cfg(test)]
mod tests {
    use types::Settings;

    use super::RecoveryPolicy;
    use crate::log::LogLength;

    #[test]
    fn a_log_is_as_short_as_asked_for_and_never_longer_than_what_is_kept() {
        for (entries, step, expected) in
            [("20", "10", (20, 10)), ("10000", "0", (3_000, 1)), ("0", "9999", (1, 3_000))]
        {
            let options = [("osd_max_pg_log_entries", entries), ("osd_pg_log_trim_min", step)];
            let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let mut policy = RecoveryPolicy::default();
            policy.follow(&Settings::from_file(&options.into()), (0, 1));
            assert_eq!(policy.log, LogLength { entries: expected.0, step: expected.1 });
        }
    }

    #[test]
    fn shards_divide_what_their_osd_may_have_under_way() {
        let options = [("osd_recovery_max_active", "6"), ("osd_recovery_max_chunk", "1000")];
        let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let settings = Settings::from_file(&options.into());
        let of = |index, count| {
            let mut policy = RecoveryPolicy::default();
            policy.follow(&settings, (index, count));
            (policy.active_max, policy.limits().bytes_per_osd)
        };
        assert_eq!(of(0, 1), (6, 2_000));
        assert_eq!([0, 1, 2, 3].map(|index| of(index, 4)), [(2, 500), (2, 500), (1, 500), (1, 500)]);
        assert_eq!(of(7, 8), (1, 250));
    }
}
