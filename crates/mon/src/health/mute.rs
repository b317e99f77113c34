//! Checks that operators do not want to hear of.
//!
//! Authority: `HealthMonitor::check_mutes`, `health_mute_t` (16.2).

use std::time::Duration;

use bytes::Bytes;
use codec::{Codec, Decode, DecodeError};
use serde_json::{Value, json};
use types::UTime;

use super::Health;
use crate::{Mon, format, ledger_keys, state::value};

/// Bytes of a mute as earlier versions wrote it: the time of its end alone.
const OLD_LEN: usize = 8;

/// How long a monitor that has just started waits for reports on everything; after that, checks are judged by what is
/// known.
const SETTLING: Duration = Duration::from_secs(60);

/// One check that is muted, as the ledger keeps it.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(crate) struct Mute {
    /// When it ends; 0 for never.
    pub(crate) until: UTime,
    /// The mute stays even if the check clears or gets worse.
    pub(crate) is_sticky: bool,
    /// The check's summary; empty for a sticky mute.
    pub(crate) summary: String,
    /// The check's count; the lowest since the check was muted.
    pub(crate) count: u64,
}

impl Mute {
    /// Reads a mute of this version or of those before it, in which each lasted until its time was over.
    pub(crate) fn read(bytes: &Bytes) -> Result<Mute, DecodeError> {
        if bytes.len() == OLD_LEN {
            let until = UTime::from_prefix(bytes.clone())?;
            return Ok(Mute { until, is_sticky: true, ..Mute::default() });
        }
        Mute::from_prefix(bytes.clone())
    }

    /// The time that is left of it, if it ends by itself.
    fn left(&self, now: UTime) -> Option<String> {
        (self.until != UTime::default()).then(|| format::timespan(self.until.since(now)))
    }

    pub(super) fn json(&self, code: &str) -> Value {
        let mut out =
            json!({"code": code, "sticky": self.is_sticky, "summary": self.summary, "count": self.count});
        if self.until != UTime::default() {
            out["ttl"] = self.until.to_string().into();
        }
        out
    }

    /// `OSD_DOWN`, `OSD_DOWN(59m)`.
    pub(super) fn short(&self, code: &str, now: UTime) -> String {
        self.left(now).map_or_else(|| code.to_owned(), |left| format!("{code}({left})"))
    }

    /// `(MUTED ttl 59m, STICKY) `, in front of the check.
    pub(super) fn tag(&self, now: UTime) -> String {
        let ttl = self.left(now).map(|left| format!(" ttl {left}")).unwrap_or_default();
        format!("(MUTED{ttl}{}) ", if self.is_sticky { ", STICKY" } else { "" })
    }

    /// Judges the mute by the check as it is now: why the mute ends, or the count that it goes on with.
    fn judge(&self, code: &str, health: &Health) -> Result<u64, String> {
        let Some(check) = health.checks.get(code) else { return Err("health alert cleared".to_owned()) };
        let count = check.count as u64;
        match self.count {
            0 if self.summary != check.summary => Err("summary changed".to_owned()),
            0 => Ok(0),
            before if count > before => Err(format!("count increased from {before} to {count}")),
            _ => Ok(count),
        }
    }
}

impl Mon {
    /// True when whatever has not been reported since the monitor started need not be waited for.
    pub(crate) fn has_settled(&self, wall: UTime) -> bool {
        wall.since(self.started) >= SETTLING
    }

    /// Ends mutes whose time is over, and those that are not sticky also when the check clears or gets worse.
    pub(crate) fn tick_mutes(&mut self, wall: UTime) {
        if self.next.mutes.is_empty() {
            return;
        }
        // Before that, checks come and go merely because reports are still missing.
        let is_settled = self.has_settled(wall) || self.stats.knows_all(&self.committed.osdmap);
        let health = is_settled.then(|| self.health());
        for (code, mute) in self.next.mutes.as_ref().clone() {
            let verdict = match &health {
                _ if mute.until != UTime::default() && mute.until <= wall => {
                    Err(format!("passed TTL {}", mute.until))
                }
                Some(health) if !mute.is_sticky => mute.judge(&code, health),
                Some(_) | None => Ok(mute.count),
            };
            match verdict {
                Err(why) => {
                    self.log_info(wall, format!("Health alert mute {code} cleared ({why})"));
                    self.put(ledger_keys::mute(&code), None);
                }
                Ok(count) if count != mute.count => {
                    self.put(ledger_keys::mute(&code), value(&Mute { count, ..mute }));
                }
                Ok(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use codec::{Encode, Features};

    use super::*;
    use crate::health::Severity;

    #[test]
    fn mutes_of_earlier_versions_are_read() {
        let until = UTime::new(7, 8);
        let old = until.to_bytes(Features::PACIFIC);
        let read = Mute::read(&old).unwrap();
        assert_eq!(read, Mute { until, is_sticky: true, ..Mute::default() });
        let new = Mute { until, is_sticky: false, summary: "s".to_owned(), count: 3 };
        assert_eq!(Mute::read(&new.to_bytes(Features::PACIFIC)), Ok(new));
    }

    #[test]
    fn a_mute_ends_with_its_check_or_when_that_gets_worse() {
        let mut health = Health::default();
        let mute = Mute { summary: "2 osds down".to_owned(), count: 2, ..Mute::default() };
        assert_eq!(mute.judge("OSD_DOWN", &health), Err("health alert cleared".to_owned()));
        for (count, verdict) in [(2, Ok(2)), (1, Ok(1)), (3, Err("count increased from 2 to 3".to_owned()))] {
            health.add("OSD_DOWN", Severity::Warn, format!("{count} osds down"), count, Vec::new());
            assert_eq!(mute.judge("OSD_DOWN", &health), verdict);
        }
        let by_summary = Mute { count: 0, ..mute };
        assert_eq!(by_summary.judge("OSD_DOWN", &health), Err("summary changed".to_owned()));
    }
}
