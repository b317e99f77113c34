//! When something is to be done: intervals with start times. Times of day are UTC, as with a manager that runs in that
//! time zone.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use types::{Errno, UTime};

use super::TEXT_BYTES_MAX;
use crate::manager::objects::Stop;

const HOUR_MIN: u64 = 60;
const DAY_MIN: u64 = 24 * HOUR_MIN;

/// The longest interval, a hundred years. Schedules are read from objects that clients write: a number without a limit
/// would lead past the end of time, and back into the past from there.
const INTERVAL_MAX_MIN: u64 = 36_500 * DAY_MIN;

/// Intervals of one schedule: for each target the nearest of them is looked for.
const INTERVALS_MAX: usize = 100;

/// Minutes between two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Interval(u64);

impl Interval {
    /// Reads `10m`, `3h`, `1d`, `10`.
    pub(super) fn parse(text: &str) -> Result<Interval, Stop> {
        let (number, unit) = match text.char_indices().next_back() {
            Some((at, 'm')) => (&text[..at], 1),
            Some((at, 'h')) => (&text[..at], HOUR_MIN),
            Some((at, 'd')) => (&text[..at], DAY_MIN),
            _ => (text, 1),
        };
        let digits = number.bytes().all(|b| b.is_ascii_digit()).then(|| number.parse::<u64>().ok()).flatten();
        let minutes = digits.and_then(|number| number.checked_mul(unit));
        let minutes = minutes.filter(|minutes| (1..=INTERVAL_MAX_MIN).contains(minutes));
        let bad = || Stop::Refused(Errno::EINVAL, format!("Invalid interval ({text})"));
        minutes.map(Interval).ok_or_else(bad)
    }
}

impl std::fmt::Display for Interval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            days if days % DAY_MIN == 0 => write!(f, "{}d", days / DAY_MIN),
            hours if hours % HOUR_MIN == 0 => write!(f, "{}h", hours / HOUR_MIN),
            minutes => write!(f, "{minutes}m"),
        }
    }
}

/// The time of day from which intervals are counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StartTime {
    /// Minutes after midnight.
    minutes: u64,
    /// As it is shown: `14:00:00`, `14:00:00+02:00`.
    text: String,
}

/// `+02:00`, `+0200`, `-02` or `Z` as minutes, and how it is shown.
fn zone(text: &str) -> Option<(i64, String)> {
    if text.is_empty() {
        return Some((0, String::new()));
    }
    if text == "Z" {
        return Some((0, "+00:00".to_owned()));
    }
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits = text[1..].replace(':', "");
    // A number of its own may have a sign.
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    let (hours, minutes) = match digits.len() {
        2 if are_digits => (digits.parse::<i64>().ok()?, 0),
        4 if are_digits => (digits[..2].parse::<i64>().ok()?, digits[2..].parse::<i64>().ok()?),
        _ => return None,
    };
    if hours > 23 || minutes > 59 {
        return None;
    }
    let mark = if sign < 0 { '-' } else { '+' };
    Some((sign * (hours * 60 + minutes), format!("{mark}{hours:02}:{minutes:02}")))
}

impl StartTime {
    /// Reads `14:00`, `14:00:00+02:00`, `2024-01-31T14:00Z`; of a date only its time of day counts.
    pub(super) fn parse(text: &str) -> Result<Option<StartTime>, Stop> {
        if text.is_empty() {
            return Ok(None);
        }
        let parsed = || {
            let time = text.rsplit(['T', ' ']).next()?;
            let end = time.find(['+', '-', 'Z']).unwrap_or(time.len());
            let mut parts = time[..end].split(':');
            let hour: u64 = parts.next()?.parse().ok()?;
            let minute: u64 = parts.next()?.parse().ok()?;
            let second: f64 = parts.next().map_or(Some(0.0), |part| part.parse().ok())?;
            let fits = hour < 24 && minute < 60 && (0.0..60.0).contains(&second) && parts.next().is_none();
            let (offset, shown) = zone(&time[end..]).filter(|_| fits)?;
            // The offset counts as a part of a day, as in the module.
            let minutes = hour * HOUR_MIN + minute + offset.rem_euclid(DAY_MIN as i64) as u64;
            Some(StartTime { minutes, text: format!("{hour:02}:{minute:02}:00{shown}") })
        };
        let bad = || {
            Stop::Refused(Errno::EINVAL, format!("Invalid start time {text}: Unknown string format: {text}"))
        };
        parsed().map(Some).ok_or_else(bad)
    }
}

/// A minute since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Minute(pub(super) u64);

impl Minute {
    pub(super) fn of(time: UTime) -> Minute {
        Minute(time.since(UTime::default()).as_secs() / 60)
    }
}

impl std::fmt::Display for Minute {
    /// `2026-11-22 05:54:00`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let time = UTime::default().plus(std::time::Duration::from_secs(self.0.saturating_mul(60)));
        let (year, month, day, hour, minute, _) = time.civil();
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:00")
    }
}

/// When something is due: by several intervals together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Schedule(BTreeSet<(Interval, Option<StartTime>)>);

impl Schedule {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True when no interval more can be added.
    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= INTERVALS_MAX
    }

    pub(super) fn add(&mut self, interval: Interval, start: Option<StartTime>) {
        self.0.insert((interval, start));
    }

    pub(super) fn remove(&mut self, interval: Interval, start: Option<StartTime>) {
        self.0.remove(&(interval, start));
    }

    /// The first minute after `now` at which something is due.
    pub(super) fn next_run(&self, now: Minute) -> Option<Minute> {
        let next = |(interval, start): &(Interval, Option<StartTime>)| {
            let from = start.as_ref().map_or(0, |start| start.minutes);
            // More than now, and at most an interval more than both: far from overflowing.
            from + (now.0.saturating_sub(from) / interval.0 + 1) * interval.0
        };
        self.0.iter().map(next).min().map(Minute)
    }

    /// As it is kept and shown.
    pub(super) fn to_value(&self) -> Value {
        let item = |(interval, start): &(Interval, Option<StartTime>)| json!({"interval": interval.to_string(), "start_time": start.as_ref().map(|start| start.text.as_str())});
        self.0.iter().map(item).collect()
    }

    /// Reads what is kept, if it is not longer than a schedule can be.
    pub(super) fn from_text(text: &str) -> Option<Schedule> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let Value::Array(items) = serde_json::from_str(text).ok()? else { return None };
        let mut schedule = Schedule::default();
        for item in items {
            if schedule.is_full() {
                return None;
            }
            let start = item.get("start_time").and_then(Value::as_str).unwrap_or_default();
            schedule
                .add(Interval::parse(item.get("interval")?.as_str()?).ok()?, StartTime::parse(start).ok()?);
        }
        Some(schedule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_units() {
        let shown = ["90", "120m", "24h", "2d", "0", "1w", "-1m", "m"]
            .map(|text| Interval::parse(text).map(|i| i.to_string()).unwrap_or_default());
        assert_eq!(shown, ["90m", "2h", "1d", "2d", "", "", "", ""]);
    }

    #[test]
    fn no_interval_leads_past_the_end_of_time() {
        for endless in ["18446744073709551615m", "18446744073709551615", "307445734561825860h", "36501d"] {
            assert!(Interval::parse(endless).is_err(), "{endless}");
            let kept = format!(r#"[{{"interval":"{endless}","start_time":"01:00:00"}}]"#);
            assert_eq!(Schedule::from_text(&kept), None, "{endless}");
        }
        let mut schedule = Schedule::default();
        schedule.add(Interval::parse("36500d").unwrap(), StartTime::parse("01:00").unwrap());
        let end = Minute::of(UTime::new(u32::MAX, 0));
        assert!(schedule.next_run(end).is_some_and(|next| next > end));
        assert_eq!(Minute(u64::MAX).to_string(), "2106-02-07 06:28:00", "the last one that can be told");
    }

    #[test]
    fn start_times_are_times_of_day() {
        let shown = |text: &str| StartTime::parse(text).map(|start| start.map(|s| (s.minutes, s.text)));
        let at = |minutes, text: &str| Ok(Some((minutes, text.to_owned())));
        assert_eq!(shown(""), Ok(None));
        assert_eq!(shown("14:05"), at(845, "14:05:00"));
        assert_eq!(shown("2024-01-31T00:30:10+02:00"), at(150, "00:30:00+02:00"));
        assert_eq!(shown("01:00Z"), at(60, "01:00:00+00:00"));
        for bad in ["x", "25:00", "1", "10:00+x", "10:60", "10:00+-1", "10:00-+1+1"] {
            assert!(shown(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_schedule_has_a_hundred_intervals_at_most() {
        let kept = |count: u64| {
            let items: Vec<Value> = (1..=count).map(|m| json!({"interval": format!("{m}m")})).collect();
            Schedule::from_text(&Value::from(items).to_string())
        };
        assert!(kept(99).is_some_and(|schedule| !schedule.is_full()));
        assert!(kept(100).is_some_and(|schedule| schedule.is_full()));
        assert_eq!(kept(101), None);
    }

    #[test]
    fn the_next_run_is_the_nearest_of_all_intervals() {
        let mut schedule = Schedule::default();
        assert_eq!(schedule.next_run(Minute(100)), None);
        schedule.add(Interval::parse("1h").unwrap(), None);
        assert_eq!(schedule.next_run(Minute(120)), Some(Minute(180)));
        schedule.add(Interval::parse("1d").unwrap(), StartTime::parse("02:10").unwrap());
        assert_eq!(schedule.next_run(Minute(1440 + 121)), Some(Minute(1440 + 130)));
        let text = r#"[{"interval":"1h","start_time":null},{"interval":"1d","start_time":"02:10:00"}]"#;
        assert_eq!(schedule.to_value().to_string(), text);
        assert_eq!(Schedule::from_text(text), Some(schedule));
        assert_eq!(Minute(29_000_000).to_string(), "2025-02-19 21:20:00");
    }
}
