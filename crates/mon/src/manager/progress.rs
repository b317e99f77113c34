//! The manager's module `progress`: what takes long, how far it is, and what has ended. Ended events are kept,
//! where Ceph keeps them.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use serde_json::{Value, json};
use types::UTime;

use crate::{
    Mon,
    commands::{Reply, Request, Row},
    format::{self, python_line, python_sorted},
};

pub(crate) const ROWS: &[Row] = &[
    Row {
        sig: "progress",
        help: "Show progress of recovery operations",
        module: "mgr",
        perm: "r",
        run: list,
    },
    Row {
        sig: "progress json",
        help: "Show machine readable progress information",
        module: "mgr",
        perm: "r",
        run: list_json,
    },
    Row { sig: "progress clear", help: "Reset progress tracking", module: "mgr", perm: "rw", run: clear },
    Row { sig: "progress on", help: "Enable progress tracking", module: "mgr", perm: "rw", run: on },
    Row { sig: "progress off", help: "Disable progress tracking", module: "mgr", perm: "rw", run: off },
];

/// The configuration key of ended events.
const KEY: &str = "mgr/progress/completed";
const ENABLED: &str = "mgr/progress/enabled";
/// `max_completed_events`.
const COMPLETED_MAX: usize = 50;
/// The length of the bar.
const BAR_WIDTH: usize = 28;
/// How far it is indented in `progress`, and in `status`.
const INDENT: usize = 4;
const STATUS_INDENT: usize = 6;

/// The maker of an event, and what the event is about.
pub(crate) enum Origin {
    /// A module, and its references.
    Module(&'static str, Value),
}

#[derive(Clone, Debug, PartialEq)]
struct Event {
    id: String,
    message: String,
    refs: Value,
    started: UTime,
    fraction: f64,
}

/// Events that go on, and those that have ended.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    events: BTreeMap<String, Event>,
    /// As they are shown.
    completed: VecDeque<Value>,
    is_off: bool,
    is_changed: bool,
}

fn seconds(time: UTime) -> f64 {
    time.since(UTime::default()).as_secs_f64()
}

impl Progress {
    /// What was kept, and whether events are followed at all.
    pub(crate) fn load(kept: Option<&[u8]>, is_off: bool) -> Progress {
        let kept: Value = kept.and_then(|kept| serde_json::from_slice(kept).ok()).unwrap_or_default();
        let completed = kept["events"].as_array().cloned().unwrap_or_default().into();
        Progress { completed, is_off, ..Progress::default() }
    }

    /// Makes an event or says how far it is.
    pub(crate) fn update(&mut self, now: UTime, id: &str, message: &str, origin: Origin, fraction: f64) {
        if self.is_off {
            return;
        }
        let Origin::Module(module, refs) = origin;
        let event = self.events.entry(id.to_owned()).or_insert_with(|| {
            let mut all = json!({"origin": module});
            if let (Value::Object(all), Value::Object(refs)) = (&mut all, refs) {
                all.extend(refs);
            }
            Event { id: id.to_owned(), message: message.to_owned(), refs: all, started: now, fraction }
        });
        event.fraction = event.fraction.max(fraction);
    }

    /// Sets an event back to its beginning; an event that never got beyond it is dropped.
    pub(crate) fn set_back(&mut self, id: &str) {
        self.events.retain(|event_id, event| event_id != id || event.fraction > 0.0);
        if let Some(event) = self.events.get_mut(id) {
            event.fraction = 0.0;
        }
    }

    /// An event has ended well.
    pub(crate) fn complete(&mut self, now: UTime, id: &str) {
        self.end(now, id, None);
    }

    /// An event has ended badly.
    pub(crate) fn fail(&mut self, now: UTime, id: &str, why: &str) {
        self.end(now, id, Some(why));
    }

    fn end(&mut self, now: UTime, id: &str, failure: Option<&str>) {
        let Some(event) = self.events.remove(id) else { return };
        let mut ghost = json!({
            "id": event.id,
            "message": event.message,
            "refs": event.refs,
            "started_at": seconds(event.started),
            "finished_at": seconds(now),
            "add_to_ceph_s:": false,
        });
        if let Some(failure) = failure {
            ghost["failed"] = true.into();
            ghost["failure_message"] = failure.into();
        }
        self.completed.push_back(ghost);
        if self.completed.len() > COMPLETED_MAX {
            self.completed.pop_front();
        }
        self.is_changed = true;
    }

    fn clear(&mut self) {
        self.events.clear();
        self.completed.clear();
        self.is_changed = true;
    }
}

impl Progress {
    /// The events that go on, as `ceph status` has them; those of `rbd_support` are not for its plain text.
    pub(crate) fn shown(&self, now: UTime) -> Value {
        let one = |event: &Event| {
            let message = event.two_lines(now, STATUS_INDENT);
            json!({"message": message, "progress": event.fraction, "add_to_ceph_s": false})
        };
        self.events.iter().map(|(id, event)| (id.clone(), one(event))).collect()
    }
}

impl Event {
    fn two_lines(&self, now: UTime, indent: usize) -> String {
        two_lines(&self.message, now.since(self.started), self.fraction, self.remaining_sec(now), indent)
    }

    fn remaining_sec(&self, now: UTime) -> Option<u64> {
        let elapsed = now.since(self.started).as_secs_f64();
        (self.fraction > 0.0).then(|| (elapsed * (1.0 - self.fraction) / self.fraction) as u64)
    }

    fn to_value(&self, now: UTime) -> Value {
        json!({
            "id": self.id,
            "message": self.message,
            "duration": format!("({})", format::timespan(now.since(self.started))),
            "refs": self.refs,
            "progress": self.fraction,
            "started_at": seconds(self.started),
            "time_remaining": self.remaining_sec(now),
        })
    }
}

/// A message and how long since, and an indented bar with what remains.
fn two_lines(message: &str, age: Duration, fraction: f64, remaining: Option<u64>, indent: usize) -> String {
    let done = ((fraction * BAR_WIDTH as f64) as usize).min(BAR_WIDTH);
    let bar = "=".repeat(done) + &".".repeat(BAR_WIDTH - done);
    let remaining = remaining
        .filter(|secs| *secs > 0)
        .map(|secs| format!("(remaining: {})", format::timespan(Duration::from_secs(secs))));
    let (age, indent) = (format::timespan(age), " ".repeat(indent));
    format!("{message} ({age})\n{indent}[{bar}] {}", remaining.unwrap_or_default())
}

fn list(req: &mut Request<'_>) -> Reply {
    let (progress, now) = (&req.mon.progress, req.wall);
    if progress.events.is_empty() && progress.completed.is_empty() {
        return Reply::done("Nothing in progress");
    }
    let mut out = String::new();
    let mut events: Vec<&Event> = progress.events.values().collect();
    events.sort_by_key(|event| std::cmp::Reverse(event.started));
    for event in events {
        out.push_str(&event.two_lines(now, INDENT));
        out.push('\n');
    }
    if !progress.completed.is_empty() {
        out.push('\n');
    }
    for ghost in &progress.completed {
        let secs = (seconds(now) - ghost["started_at"].as_f64().unwrap_or(0.0)).max(0.0);
        // What was kept may have been changed by hand.
        let age = Duration::try_from_secs_f64(secs).unwrap_or(Duration::MAX);
        let how = if ghost["failed"] == true { "Failed" } else { "Complete" };
        let message = ghost["message"].as_str().unwrap_or_default();
        out.push_str(&format!("[{how}]: {}\n", two_lines(message, age, 1.0, None, INDENT)));
    }
    Reply::text(out)
}

fn list_json(req: &mut Request<'_>) -> Reply {
    let progress = &req.mon.progress;
    let events: Vec<Value> = progress.events.values().map(|event| event.to_value(req.wall)).collect();
    let out = json!({"events": events, "completed": progress.completed});
    Reply::module(python_sorted(&out))
}

fn clear(req: &mut Request<'_>) -> Reply {
    req.mon.progress.clear();
    req.mon.keep_progress();
    Reply::default()
}

fn switch(req: &mut Request<'_>, is_off: bool, word: &str) -> Reply {
    if req.mon.progress.is_off == is_off {
        return Reply::done(format!("progress already {word}!"));
    }
    req.mon.progress.is_off = is_off;
    if is_off {
        req.mon.progress.clear();
        req.mon.keep_progress();
    }
    req.mon.set_module_option(req.wall, ENABLED, is_off.then(|| "false".to_owned()));
    Reply::done(format!("progress {word}"))
}

fn on(req: &mut Request<'_>) -> Reply {
    switch(req, false, "enabled")
}

fn off(req: &mut Request<'_>) -> Reply {
    switch(req, true, "disabled")
}

impl Mon {
    /// Takes up what was kept.
    pub(crate) fn load_progress(&mut self) {
        let is_off = self.module_option(ENABLED).as_deref() == Some("false");
        self.progress = Progress::load(self.committed.config_keys.get(KEY).map(|kept| &kept[..]), is_off);
    }

    /// Keeps events that have ended since.
    pub(crate) fn keep_progress(&mut self) {
        if std::mem::take(&mut self.progress.is_changed) {
            let kept = json!({"events": self.progress.completed, "version": 2, "compat_version": 2});
            self.put_config_key(KEY, Some(python_line(&kept).into()));
        }
    }
}
