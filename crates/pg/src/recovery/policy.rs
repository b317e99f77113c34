//! How much recovery an OSD does at a time: its options, and what its PGs have on their way.

use types::Settings;

use crate::Places;

/// The options of an OSD about recovery, with Ceph's names and defaults; its PGs share what may be on its way.
#[derive(Clone)]
pub struct RecoveryPolicy {
    /// Objects on their way, of all PGs.
    pub active: Places,
    /// `osd_recovery_max_active`; where that is 0, `osd_recovery_max_active_ssd`.
    pub active_max: u64,
    /// `osd_async_recovery_min_cost`: who lacks more objects than that is filled before it acts.
    pub fill_first: u64,
    /// `osd_recovery_max_chunk`: an object with more bytes is sent in parts, each of about so many.
    pub part_bytes: u64,
}

impl Default for RecoveryPolicy {
    fn default() -> RecoveryPolicy {
        RecoveryPolicy { active: Places::default(), active_max: 10, fill_first: 100, part_bytes: 8 << 20 }
    }
}

impl RecoveryPolicy {
    /// Takes the options that are in force. What is on its way stays so.
    pub fn follow(&mut self, settings: &Settings) {
        let unknown = RecoveryPolicy::default();
        let number = |name: &str| settings.get(name).and_then(|text| text.parse::<u64>().ok());
        let of_any = number("osd_recovery_max_active").filter(|most| *most > 0);
        let most = of_any.or_else(|| number("osd_recovery_max_active_ssd"));
        self.active_max = most.unwrap_or(unknown.active_max);
        self.fill_first = number("osd_async_recovery_min_cost").unwrap_or(unknown.fill_first);
        self.part_bytes = number("osd_recovery_max_chunk").unwrap_or(unknown.part_bytes);
    }

    /// How many more objects may be sent.
    pub(crate) fn free(&self) -> usize {
        usize::try_from(self.active_max.saturating_sub(self.active.taken())).unwrap_or(usize::MAX)
    }
}
