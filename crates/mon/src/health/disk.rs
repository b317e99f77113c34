//! The file system that the monitor's data is on (`HealthMonitor::check_member_health` of 16.2).

use super::{Health, Severity};
use crate::{Mon, format};

/// What a monitor's data takes, and has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataSpace {
    /// The size of the file system, in bytes.
    pub total: u64,
    /// What it has left for others than root.
    pub free: u64,
    /// What the ledger takes of it.
    pub used: u64,
}

impl DataSpace {
    /// The part that is left, as a whole number.
    fn free_percent(&self) -> u64 {
        u64::try_from(u128::from(self.free) * 100 / u128::from(self.total.max(1))).unwrap_or(u64::MAX)
    }
}

impl Mon {
    /// Tells the monitor how much space its data has; unless told, it assumes enough.
    pub fn set_data_space(&mut self, space: DataSpace) {
        self.data_space = Some(space);
    }

    pub(super) fn check_disk(&self, health: &mut Health) {
        let Some(space) = &self.data_space else { return };
        let name = self.name();
        let option = |name| self.settings.get(name).and_then(|text| text.parse().ok()).unwrap_or(0u64);
        let percent = space.free_percent();
        let mut add_low = |code, severity, very| {
            let summary = format!("mon {name} is {very}low on available space");
            health.add(code, severity, summary, 1, vec![format!("mon.{name} has {percent}% avail")]);
        };
        if percent <= option("mon_data_avail_crit") {
            add_low("MON_DISK_CRIT", Severity::Err, "very ");
        } else if percent <= option("mon_data_avail_warn") {
            add_low("MON_DISK_LOW", Severity::Warn, "");
        }
        let used_max = option("mon_data_size_warn");
        if space.used >= used_max {
            let (used, used_max) = (format::bytes(space.used), format::bytes(used_max));
            let summary = format!("mon {name} is using a lot of disk space");
            let line = format!("mon.{name} is {used} >= mon_data_size_warn ({used_max})");
            health.add("MON_DISK_BIG", Severity::Warn, summary, 1, vec![line]);
        }
    }
}
