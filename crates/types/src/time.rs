//! Two clocks: a monotonic one for durations and a wall clock for what users and clients see.

use std::{fmt, ops, time::Duration};

use codec::Codec;

/// A point on the monotonic clock, in nanoseconds since some start. Real or virtual: machines only
/// ever get it as an argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

impl Instant {
    /// Time from `earlier` to here, zero if `earlier` is later.
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl ops::Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, rhs: Duration) -> Instant {
        Instant(self.0.saturating_add(u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// `utime_t`: wall-clock seconds since 1970 and nanoseconds.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UTime {
    /// Seconds.
    pub sec: u32,
    /// Nanoseconds, below 10^9.
    pub nsec: u32,
}

impl UTime {
    /// Seconds and nanoseconds since 1970.
    pub fn new(sec: u32, nsec: u32) -> UTime {
        UTime { sec, nsec }
    }

    /// `d` later.
    pub fn plus(self, d: Duration) -> UTime {
        let nsec = u64::from(self.nsec) + u64::from(d.subsec_nanos());
        let sec = d.as_secs().saturating_add(u64::from(self.sec) + nsec / 1_000_000_000);
        UTime { sec: u32::try_from(sec).unwrap_or(u32::MAX), nsec: (nsec % 1_000_000_000) as u32 }
    }

    /// Time from `earlier` to here, zero if `earlier` is later.
    pub fn since(self, earlier: UTime) -> Duration {
        Duration::new(u64::from(self.sec), self.nsec)
            .saturating_sub(Duration::new(u64::from(earlier.sec), earlier.nsec))
    }

    /// The form of C's `asctime`, in UTC: `Mon Nov 23 13:13:30 2026`.
    pub fn asctime(self) -> String {
        // The first of January 1970 was a Thursday.
        const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
        const MONTHS: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let (year, month, day, hour, minute, second) = self.civil();
        let (name, month) = (DAYS[(self.sec / 86_400 % 7) as usize], MONTHS[(month as usize + 11) % 12]);
        format!("{name} {month} {day:2} {hour:02}:{minute:02}:{second:02} {year}")
    }

    /// Year, month, day, hour, minute, second (UTC), by the civil-from-days rule.
    pub fn civil(self) -> (i64, u32, u32, u32, u32, u32) {
        let days = i64::from(self.sec / 86_400);
        let rest = self.sec % 86_400;
        let z = days + 719_468;
        let era = z.div_euclid(146_097);
        let doe = z.rem_euclid(146_097);
        let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
        let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
        let mp = (5 * doy + 2) / 153;
        let day = (doy - (153 * mp + 2) / 5 + 1) as u32;
        let month = (if mp < 10 { mp + 3 } else { mp - 9 }) as u32;
        let year = yoe + era * 400 + i64::from(month <= 2);
        (year, month, day, rest / 3_600, rest / 60 % 60, rest % 60)
    }
}

/// As Ceph prints it: `2026-11-20T21:18:08.651397+0000`; small values (durations) as `0.000000`.
impl fmt::Display for UTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const TEN_YEARS_SEC: u32 = 60 * 60 * 24 * 365 * 10;
        let micros = self.nsec / 1_000;
        if self.sec < TEN_YEARS_SEC {
            return write!(f, "{}.{micros:06}", self.sec);
        }
        let (year, month, day, hour, minute, second) = self.civil();
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}+0000")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_late_is_the_last_second() {
        assert_eq!(UTime::new(1, 0).plus(Duration::MAX).sec, u32::MAX);
    }

    #[test]
    fn dates_are_written_as_c_does() {
        assert_eq!(UTime::default().asctime(), "Thu Jan  1 00:00:00 1970");
        assert_eq!(UTime::new(1_795_439_610, 5).asctime(), "Mon Nov 23 13:13:30 2026");
        assert_eq!(UTime::new(1_709_164_800, 0).asctime(), "Thu Feb 29 00:00:00 2024");
    }
}
