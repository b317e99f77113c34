//! The module's record of health checks: which were raised, since when and how often. It is kept as the configuration
//! key where Ceph's module keeps it.

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use bytes::Bytes;
use serde_json::{Value, json};
use types::UTime;

use crate::{
    Mon,
    commands::{Reply, Request},
    format::{self, python_line},
    health::{Check, Severity},
    manager::modules,
};

/// The configuration key of the record.
const KEY: &str = "mgr/prometheus/health_history";
/// Checks that are recorded. There are fewer codes; a record that was written by hand may have more.
const CHECKS_MAX: usize = 256;

/// Checks that are raised, by code.
type Raised = BTreeMap<Cow<'static, str>, Check>;

/// A check that was raised.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Event {
    /// How grave it was when it was first raised.
    pub(super) severity: Severity,
    /// Seconds since 1970.
    first_seen: f64,
    last_seen: f64,
    count: u64,
    is_active: bool,
}

/// All of them, by code.
pub(super) type History = BTreeMap<String, Event>;

impl Event {
    fn new(severity: Severity, now: f64) -> Event {
        Event { severity, first_seen: now, last_seen: now, count: 1, is_active: true }
    }

    fn read(kept: &Value) -> Option<Event> {
        let severity = kept["severity"].as_str()?;
        Some(Event {
            severity: [Severity::Warn, Severity::Err].into_iter().find(|known| known.name() == severity)?,
            first_seen: kept["first_seen"].as_f64().unwrap_or_default(),
            last_seen: kept["last_seen"].as_f64().unwrap_or_default(),
            count: kept["count"].as_u64().unwrap_or(1),
            is_active: kept["active"].as_bool().unwrap_or(true),
        })
    }

    fn to_value(&self, code: &str) -> Value {
        json!({
            "name": code,
            "severity": self.severity.name(),
            "first_seen": self.first_seen,
            "last_seen": self.last_seen,
            "count": self.count,
            "active": self.is_active,
        })
    }
}

/// Codes are words in capitals. Others are not recorded, so that each is a plain word in all formats.
fn is_code(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// The record that is kept; what cannot be read of it is left out.
pub(super) fn read(keys: &BTreeMap<String, Bytes>) -> History {
    let kept: Value = keys.get(KEY).and_then(|kept| serde_json::from_slice(kept).ok()).unwrap_or_default();
    let events = kept.as_object().into_iter().flatten();
    let events = events.filter(|(code, _)| is_code(code));
    events.filter_map(|(code, kept)| Some((code.clone(), Event::read(kept)?))).take(CHECKS_MAX).collect()
}

/// Takes in what is raised now.
fn take(history: &mut History, raised: &Raised, now: f64) {
    for (code, event) in history.iter_mut() {
        let is_raised = raised.contains_key(code.as_str());
        if is_raised && !event.is_active {
            event.last_seen = now;
            event.count = event.count.saturating_add(1);
        }
        event.is_active = is_raised;
    }
    for (code, check) in raised.iter().filter(|(code, _)| is_code(code)) {
        if history.len() < CHECKS_MAX && !history.contains_key(code.as_ref()) {
            history.insert(code.to_string(), Event::new(check.severity, now));
        }
    }
}

fn to_value(history: &History) -> Value {
    history.iter().map(|(code, event)| (code.clone(), event.to_value(code))).collect()
}

impl Mon {
    /// Brings the record up to date with what is raised, while the module is on.
    pub(crate) fn keep_health_history(&mut self, wall: UTime, raised: &Raised) {
        if !modules::is_enabled(self, "prometheus") {
            return;
        }
        let before = read(&self.next.config_keys);
        let mut history = before.clone();
        take(&mut history, raised, wall.since(UTime::default()).as_secs_f64());
        if history != before {
            self.put_config_key(KEY, Some(python_line(&to_value(&history)).into()));
        }
    }
}

/// `2026/11/27 01:02:03`, in UTC.
fn date(seconds: f64) -> String {
    // A record that was written by hand has any numbers.
    let since = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
    let (year, month, day, hour, minute, second) = UTime::default().plus(since).civil();
    format!("{year:04}/{month:02}/{day:02} {hour:02}:{minute:02}:{second:02}")
}

fn table(history: &History) -> String {
    if history.is_empty() {
        return "No healthchecks have been recorded".to_owned();
    }
    let row = |code: &str, first: &str, last: &str, count: &str, active: &str| {
        format!("{code:<24}  {first:<20}  {last:<20}  {count:>5}  {active:^6}\n")
    };
    let mut out = row("Healthcheck Name", "First Seen (UTC)", "Last seen (UTC)", "Count", "Active");
    for (code, event) in history {
        let active = if event.is_active { "Yes" } else { "No" };
        let (first, last) = (date(event.first_seen), date(event.last_seen));
        out.push_str(&row(code, &first, &last, &event.count.to_string(), active));
    }
    out + &format!("{} health check(s) listed\n", history.len())
}

/// Keys in order, as Ceph's module has them.
fn yaml(history: &History) -> String {
    if history.is_empty() {
        return "--- {}\n".to_owned();
    }
    let mut out = "---\n".to_owned();
    for (code, event) in history {
        let Event { severity, first_seen, last_seen, count, is_active } = event;
        out.push_str(&format!(
            "{code}:\n  active: {is_active}\n  count: {count}\n  first_seen: {first_seen:?}\n  last_seen: \
             {last_seen:?}\n  name: {code}\n  severity: {}\n",
            severity.name()
        ));
    }
    out
}

/// `healthcheck history ls`.
pub(super) fn list(req: &mut Request<'_>) -> Reply {
    let history = read(&req.state().config_keys);
    Reply::module(match req.args.text("format").as_deref() {
        Some("json") => python_line(&to_value(&history)),
        Some("json-pretty") => format::pretty(&to_value(&history)),
        Some("yaml") => yaml(&history),
        Some(_) | None => table(&history),
    })
}

/// `healthcheck history clear`: what is raised is recorded anew.
pub(super) fn clear(req: &mut Request<'_>) -> Reply {
    req.mon.put_config_key(KEY, Some(Bytes::from_static(b"{}")));
    Reply::module("healthcheck history cleared".to_owned())
}
