//! Getting (back) into the map: an OSD subscribes, catches up, and asks to be marked up.
//!
//! Authority: `OSD::start_boot`, `_preboot`, `_send_boot`.

use std::{collections::VecDeque, time::Duration};

use types::{Epoch, Instant, Settings};

/// The boot message is sent again if the map does not show us up by then.
const RETRY: Duration = Duration::from_secs(5);

/// An OSD that is not in the map after that long says so in its log,
const PATIENCE: Duration = Duration::from_secs(30);
/// and again as often as this.
const LOGGED: Duration = Duration::from_secs(60);

/// When the log is told that the OSD still waits to be let into the map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BootWatch {
    /// There while it waits.
    due: Option<Instant>,
}

impl BootWatch {
    /// True if it has waited for so long that the log is to be told.
    pub(crate) fn is_due(&mut self, now: Instant, is_waiting: bool) -> bool {
        if !is_waiting {
            self.due = None;
            return false;
        }
        let due = *self.due.get_or_insert(now + PATIENCE);
        if now >= due {
            self.due = Some(now + LOGGED);
        }
        now >= due
    }
}

/// When the map had the OSD down while it ran (`osd_markdown_log`). One that is marked down again and again has its PGs
/// peer all the time, and is better away until somebody has looked.
#[derive(Debug, Default)]
pub(crate) struct Markdowns(VecDeque<Instant>);

impl Markdowns {
    /// It is down once more. What to tell if that was too often, by `osd_max_markdown_count` and
    /// `osd_max_markdown_period`: the OSD is to stop.
    pub(crate) fn note(&mut self, now: Instant, settings: &Settings) -> Option<String> {
        let number = |name, unknown| {
            let set = settings.get(name).and_then(|text| text.parse::<i64>().ok());
            set.map_or(unknown, |set| u64::try_from(set).unwrap_or(0))
        };
        let (most, period) = (number("osd_max_markdown_count", 5), number("osd_max_markdown_period", 600));
        self.0.push_back(now);
        while self.0.front().is_some_and(|first| now.since(*first) > Duration::from_secs(period)) {
            self.0.pop_front();
        }
        let count = self.0.len();
        (count as u64 > most).then(|| {
            format!("marked down {count} > osd_max_markdown_count {most} times in the last {period} seconds")
        })
    }
}

/// How far an OSD is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boot {
    /// No monitor yet, or its newest epoch is unknown.
    Starting,
    /// Has to catch up to the monitor's newest map first.
    CatchingUp(Epoch),
    /// Asked to be marked up.
    Booting {
        /// When the request was sent.
        asked: Instant,
    },
    /// The map shows this incarnation up.
    Active,
    /// Asked to be marked down before it stops.
    Stopping {
        /// When to stop without an answer.
        deadline: Instant,
    },
}

impl Boot {
    /// The state as `ceph tell osd.N status` names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Boot::Starting => "initializing",
            Boot::CatchingUp(_) => "preboot",
            Boot::Booting { .. } => "booting",
            Boot::Active => "active",
            Boot::Stopping { .. } => "stopping",
        }
    }

    /// True until the map shows it up for the first time, or again.
    pub(crate) fn is_waiting(self) -> bool {
        matches!(self, Boot::Starting | Boot::CatchingUp(_) | Boot::Booting { .. })
    }

    /// True when the boot message is due: all maps are there, and it was not sent or went unheard.
    pub(crate) fn is_due(self, now: Instant, map: Epoch) -> bool {
        match self {
            Boot::CatchingUp(newest) => map >= newest,
            Boot::Booting { asked } => now.since(asked) >= RETRY,
            Boot::Starting | Boot::Active | Boot::Stopping { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_that_goes_unanswered_is_told_after_half_a_minute_and_then_once_a_minute() {
        let mut watch = BootWatch::default();
        let told = |watch: &mut BootWatch, seconds: std::ops::Range<u64>, is_waiting| {
            let is_told = |second: &u64| watch.is_due(Instant(second * 1_000_000_000), is_waiting);
            seconds.filter(is_told).collect::<Vec<_>>()
        };
        assert_eq!(told(&mut watch, 0..160, true), [30, 90, 150]);
        assert!(told(&mut watch, 160..400, false).is_empty());
        assert_eq!(told(&mut watch, 400..440, true), [430], "it was up, and is not");
    }

    #[test]
    fn who_is_marked_down_too_often_is_to_stop() {
        let settings = |options: &[(&str, &str)]| {
            let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            Settings::from_file(&options.collect())
        };
        let told = |settings: &Settings, seconds: &[u64]| {
            let mut markdowns = Markdowns::default();
            let at = |second: &u64| Instant(second * 1_000_000_000);
            seconds.iter().map(|second| markdowns.note(at(second), settings)).collect::<Vec<_>>()
        };
        let expected = "marked down 6 > osd_max_markdown_count 5 times in the last 600 seconds".to_owned();
        let unset = settings(&[]);
        assert_eq!(told(&unset, &[1, 2, 3, 4, 5, 601])[4..], [None, Some(expected)]);
        assert!(told(&unset, &[1, 2, 3, 4, 5, 602, 603]).iter().all(Option::is_none));
        let never = settings(&[("osd_max_markdown_count", "0"), ("osd_max_markdown_period", "-1")]);
        assert!(told(&never, &[7])[0].is_some());
    }

    #[test]
    fn boot_is_asked_for_once_caught_up_and_again_when_unheard() {
        let sec = |n: u64| Instant(n * 1_000_000_000);
        assert!(!Boot::Starting.is_due(sec(100), Epoch(9)));
        assert!(!Boot::CatchingUp(Epoch(9)).is_due(sec(0), Epoch(8)));
        assert!(Boot::CatchingUp(Epoch(9)).is_due(sec(0), Epoch(9)));
        assert!(!Boot::Booting { asked: sec(1) }.is_due(sec(5), Epoch(9)));
        assert!(Boot::Booting { asked: sec(1) }.is_due(sec(6), Epoch(9)));
    }
}
