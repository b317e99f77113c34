//! Requests that take long (`DaemonHealthMetricCollector.cc` of 16.2).

use super::{Health, Severity};
use crate::Mon;

/// Daemons named in the summary.
const NAMED: usize = 10;

impl Mon {
    pub(super) fn check_slow_ops(&self, health: &mut Health) {
        let map = &self.committed.osdmap;
        let slow = self.stats.slow_ops().filter(|(osd, _)| map.is_up(*osd));
        let (mut count, mut oldest, mut daemons) = (0u64, 0, Vec::new());
        for (osd, (ops, seconds)) in slow {
            count += u64::from(ops);
            oldest = oldest.max(seconds);
            daemons.push(format!("osd.{osd}"));
        }
        let who = match daemons.as_slice() {
            [] => return,
            [one] => format!("{one} has slow ops"),
            few if few.len() <= NAMED => format!("daemons [{}] have slow ops.", few.join(",")),
            many => format!("daemons [{}]... have slow ops.", many[..NAMED].join(",")),
        };
        let summary = format!("{count} slow ops, oldest one blocked for {oldest} sec, {who}");
        // As in Ceph, one alert, however many ops are slow.
        health.add("SLOW_OPS", Severity::Warn, summary, 1, Vec::new());
    }
}
