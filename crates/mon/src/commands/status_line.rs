//! The cluster in two short lines, for operators who watch `loligo up`.

use super::status::pgs_by_state;
use crate::{Mon, format};

impl Mon {
    /// Health, OSDs and PGs in one line; what clients do in a second one, empty when they do nothing.
    pub fn status_lines(&self) -> (String, String) {
        let map = &self.committed.osdmap;
        let health = self.health().text(false);
        let states: Vec<String> =
            pgs_by_state(self).iter().map(|(name, count)| format!("{count} {name}")).collect();
        let state = format!(
            "{} | {} osds: {} up, {} in | {} pools, {} pgs: {}",
            health.lines().next().unwrap_or_default(),
            map.num_osds(),
            map.num_up(),
            map.num_in(),
            map.pools.len(),
            map.pgs().count(),
            if states.is_empty() { "none".to_owned() } else { states.join(", ") },
        );
        let rates = self.stats.rates(None);
        let activity = match rates.ops() {
            0 => String::new(),
            _ => format!(
                "read {} op/s, {}/s | write {} op/s, {}/s",
                format::count(rates.reads),
                format::bytes(rates.read_bytes),
                format::count(rates.writes),
                format::bytes(rates.write_bytes),
            ),
        };
        (state, activity)
    }
}
