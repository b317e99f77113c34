//! The manager's module `crash`: reports of crashed daemons, kept as configuration keys, where Ceph keeps them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use types::{Errno, UTime};

use crate::{
    Mon,
    commands::{Reply, Request},
    format::{Align, pad, python_line, python_sorted},
};

module_rows! {
    "crash info name=id,type=CephString" "r" "show crash dump metadata" info
    "crash ls" "r" "Show new and archived crash dumps" ls
    "crash ls-new" "r" "Show new crash dumps" ls_new
    "crash post" "rw" "Add a crash dump (use -i <jsonfile>)" post
    "crash prune name=keep,type=CephString" "rw" "Remove crashes older than <keep> days" prune
    "crash rm name=id,type=CephString" "rw" "Remove a saved crash <id>" rm
    "crash stat" "r" "Summarize recorded crashes" stat
    "crash json_report name=hours,type=CephString" "r" "Crashes in the last <hours> hours" json_report
    "crash archive name=id,type=CephString" "w" "Acknowledge a crash and silence health warning(s)" archive
    "crash archive-all" "w" "Acknowledge all new crashes and silence health warning(s)" archive_all
}

/// Where reports are kept.
pub(crate) const FOLDER: &str = "mgr/crash/crash/";
const DAY: Duration = Duration::from_secs(86_400);
/// `warn_recent_interval`: for how long a crash is a warning.
const RECENT: Duration = Duration::from_secs(14 * 86_400);
/// `retain_interval`: for how long one is kept.
const RETAINED: Duration = Duration::from_secs(365 * 86_400);
/// Days from the first day that Python has a date for to 1970, and from there to the last.
const DAYS_BEFORE_1970: i64 = 719_162;
const DAYS_SINCE_1970: i64 = 2_932_896;
/// Bytes of a report; Ceph's have a few kilobytes.
const REPORT_BYTES_MAX: usize = 256 << 10;

/// Reports that are kept; the oldest go first. A daemon that cannot start reports a crash with each attempt.
const REPORTS_MAX: usize = 1_000;
/// Characters of a name or time in lines on health.
const NAME_CHARS_MAX: usize = 255;

/// What a report says in lines and counts. It is read once, when the ledger takes the report: health is asked for all
/// the time.
#[derive(Clone, Debug)]
pub(crate) struct Crash {
    entity: String,
    host: String,
    process: String,
    timestamp: String,
    at: Option<UTime>,
    is_archived: bool,
}

/// What is known of reports, by their ids.
pub(crate) type Crashes = BTreeMap<String, Arc<Crash>>;

impl Crash {
    /// Reads a report; nothing that is none.
    pub(crate) fn read(report: &[u8]) -> Option<Crash> {
        let report = read(report)?;
        let part = |key, other| -> String {
            text(&report, key).unwrap_or(other).chars().take(NAME_CHARS_MAX).collect()
        };
        Some(Crash {
            entity: part("entity_name", "unidentified daemon"),
            host: part("utsname_hostname", "(unknown)"),
            process: part("process_name", "unknown"),
            timestamp: part("timestamp", "unknown time"),
            at: text(&report, "timestamp").and_then(time_of),
            is_archived: report.get("archived").is_some(),
        })
    }

    fn age(&self, now: UTime) -> Duration {
        self.at.map_or(Duration::MAX, |at| now.since(at))
    }
}

/// Reads a report that was kept. The key may have been set by hand: anything but a JSON object is no report.
fn read(text: &[u8]) -> Option<Value> {
    serde_json::from_slice(text).ok().filter(Value::is_object)
}

/// Reports by their ids.
fn all(kept: &BTreeMap<String, bytes::Bytes>) -> BTreeMap<String, Value> {
    let reports = kept.range(FOLDER.to_owned()..).take_while(|(key, _)| key.starts_with(FOLDER));
    let with_id = |(key, text): (&String, &bytes::Bytes)| Some((key[FOLDER.len()..].to_owned(), read(text)?));
    reports.filter_map(with_id).collect()
}

fn text<'a>(report: &'a Value, key: &str) -> Option<&'a str> {
    report.get(key).and_then(Value::as_str)
}

/// Days since 1970 of a date.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the leap day is the last.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    year * 365 + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (month * 153 + 2) / 5
        + day
        - 719_469
}

/// Reads `2026-11-20T10:00:00.123456Z`.
fn time_of(text: &str) -> Option<UTime> {
    let (date, time) = text.trim_end_matches('Z').split_once(['T', ' '])?;
    let (time, fraction) = time.split_once('.')?;
    let numbers = |text: &str, mark: char| {
        // So small that no sum of them overflows.
        let part = |part: &str| part.parse::<u32>().ok().map(i64::from);
        let parts: Option<Vec<i64>> = text.split(mark).map(part).collect();
        parts.filter(|parts| parts.len() == 3)
    };
    let (date, time) = (numbers(date, '-')?, numbers(time, ':')?);
    let digits = fraction.len().clamp(1, 6) as u32;
    let micros: u32 = fraction.parse::<u32>().ok()?.checked_mul(10u32.pow(6 - digits))?;
    let fits = (1..=12).contains(&date[1]) && (1..=31).contains(&date[2]) && time[0] < 24 && time[1] < 60;
    let secs = days(date[0], date[1], date[2]) * 86_400 + time[0] * 3600 + time[1] * 60 + time[2];
    u32::try_from(secs).ok().filter(|_| fits).map(|secs| UTime::new(secs, micros.min(999_999) * 1000))
}

/// A text that is the same for the same crash: made from the functions on the stack and the assertion, without its
/// place and time.
fn signature(report: &Value) -> Option<String> {
    let mut hash = Sha256::new();
    for frame in report.get("backtrace")?.as_array()?.iter().filter_map(Value::as_str) {
        let named = frame.rsplit_once(' ').map_or(frame, |(named, _)| named);
        let mut inner = named.chars();
        inner.next();
        inner.next_back();
        hash.update(inner.as_str().split('+').next().unwrap_or_default());
    }
    if let Some(message) = text(report, "assert_msg").filter(|message| !message.is_empty()) {
        let (before, behind) = message.rsplit_once(" thread ").unwrap_or((message, ""));
        hash.update(before);
        hash.update(behind.rfind(": ").map_or("", |at| behind[at..].trim_end_matches('\n')));
    }
    Some(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Ceph's module gives errors without their sign: the stock client prints the text and exits with 0.
fn refused(text: impl Into<String>) -> Reply {
    Reply { result: Errno::EINVAL.0, ..Reply::done(text) }
}

fn find(req: &Request<'_>) -> Result<(String, Value), Reply> {
    let id = req.args.text("id").unwrap_or_default();
    let found = req.mon.next.config_keys.get(&format!("{FOLDER}{id}"));
    let report = found.and_then(|text| read(text));
    let missing = || refused(format!("crash info: {id} not found"));
    report.map(|report| (id.clone(), report)).ok_or_else(missing)
}

/// Removes the oldest of too many reports. Those without a time that can be read count as oldest.
fn drop_oldest(mon: &mut Mon) {
    let crashes = Arc::clone(&mon.next.crashes);
    let over = crashes.len().saturating_sub(REPORTS_MAX);
    if over > 0 {
        let mut by_age: Vec<_> = crashes.iter().map(|(id, crash)| (crash.at, id)).collect();
        by_age.sort_unstable();
        by_age.into_iter().take(over).for_each(|(_, id)| keep(mon, id, None));
    }
}

fn keep(mon: &mut Mon, id: &str, report: Option<&Value>) {
    mon.put_config_key(&format!("{FOLDER}{id}"), report.map(|report| python_line(report).into()));
}

fn info(req: &mut Request<'_>) -> Reply {
    match find(req) {
        Ok((_, report)) => Reply::module(python_sorted(&report)),
        Err(refusal) => refusal,
    }
}

fn list(req: &Request<'_>, only_new: bool) -> Reply {
    let mut reports: Vec<Value> = all(&req.state().config_keys).into_values().collect();
    reports.retain(|report| !only_new || report.get("archived").is_none());
    if req.args.text("format").is_some_and(|format| format.starts_with("json")) {
        return Reply::module(python_sorted(&Value::Array(reports)));
    }
    if reports.is_empty() {
        return Reply::default();
    }
    let row = |report: &Value| {
        let new = if report.get("archived").is_none() { "*" } else { "" };
        let cell = |key, other| text(report, key).unwrap_or(other).to_owned();
        [cell("crash_id", ""), cell("entity_name", "unknown"), new.to_owned()]
    };
    let mut rows = vec![["ID", "ENTITY", "NEW"].map(str::to_owned)];
    rows.extend(reports.iter().map(row));
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    let line = |[id, entity, new]: &[String; 3]| {
        let (id, entity) = (pad(id, widths[0], Align::Left), pad(entity, widths[1], Align::Left));
        format!("{id}  {entity}  {new:^0$}  ", widths[2])
    };
    Reply::module(rows.iter().map(line).collect::<Vec<_>>().join("\n"))
}

fn ls(req: &mut Request<'_>) -> Reply {
    list(req, false)
}

fn ls_new(req: &mut Request<'_>) -> Reply {
    list(req, true)
}

fn post(req: &mut Request<'_>) -> Reply {
    let malformed = |why: String| refused(format!("malformed crash metadata: {why}"));
    if req.input.len() > REPORT_BYTES_MAX {
        return malformed(format!("more than {REPORT_BYTES_MAX} bytes"));
    }
    if req.input.is_empty() {
        return malformed("Expecting value: line 1 column 1 (char 0)".to_owned());
    }
    let mut report: Value = match serde_json::from_slice(req.input) {
        Ok(report) => report,
        Err(error) => return malformed(error.to_string()),
    };
    for field in ["crash_id", "timestamp"] {
        if text(&report, field).is_none() {
            return malformed(format!("missing '{field}' field"));
        }
    }
    let stamp = text(&report, "timestamp").unwrap_or_default();
    if time_of(stamp).is_none() {
        return malformed(format!("time data '{stamp}' does not match format '%Y-%m-%d %H:%M:%S.%f'"));
    }
    if let Some(signature) = signature(&report) {
        report["stack_sig"] = signature.into();
    }
    let id = text(&report, "crash_id").unwrap_or_default().to_owned();
    if !req.mon.next.config_keys.contains_key(&format!("{FOLDER}{id}")) {
        keep(req.mon, &id, Some(&report));
        drop_oldest(req.mon);
    }
    Reply::default()
}

fn rm(req: &mut Request<'_>) -> Reply {
    if let Ok((id, _)) = find(req) {
        keep(req.mon, &id, None);
    }
    Reply::default()
}

fn prune(req: &mut Request<'_>) -> Reply {
    let Some(count) = req.args.int("keep") else { return refused("keep argument must be integer") };
    // Ceph computes a date: where there is no such date, that is an error.
    let today = i64::from(req.wall.sec / 86_400);
    let date = today.checked_sub(count).filter(|date| (-DAYS_BEFORE_1970..=DAYS_SINCE_1970).contains(date));
    if date.is_none() {
        return refused("date value out of range");
    }
    let limit = DAY * u32::try_from(count).unwrap_or(0);
    for (id, crash) in Arc::clone(&req.mon.next.crashes).iter() {
        if crash.age(req.wall) >= limit {
            keep(req.mon, id, None);
        }
    }
    Reply::default()
}

impl Mon {
    /// Reports that are very old are not kept.
    pub(crate) fn tick_crashes(&mut self, wall: UTime) {
        let is_old = |crash: &Crash| crash.at.is_some_and(|at| wall.since(at) >= RETAINED);
        let crashes = Arc::clone(&self.next.crashes);
        crashes.iter().filter(|(_, crash)| is_old(crash)).for_each(|(id, _)| keep(self, id, None));
    }
}

fn stat(req: &mut Request<'_>) -> Reply {
    let crashes = &req.state().crashes;
    let mut lines = vec![format!("{} crashes recorded", crashes.len())];
    for count in [1, 3, 7] {
        let old = crashes.iter().filter(|(_, crash)| crash.age(req.wall) >= DAY * count);
        let ids: Vec<&str> = old.map(|(id, _)| id.as_str()).collect();
        let heading = (!ids.is_empty()).then(|| format!("{} older than {count} days old:\n", ids.len()));
        lines.push(heading.unwrap_or_default() + &ids.join("\n"));
    }
    Reply::module(lines.join("\n"))
}

fn json_report(req: &mut Request<'_>) -> Reply {
    if req.args.int("hours").is_none() {
        return refused("<hours> argument must be integer");
    }
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for crash in req.state().crashes.values() {
        *counts.entry(&crash.process).or_default() += 1;
    }
    Reply::done(python_line(&json!(counts)))
}

fn acknowledge(req: &mut Request<'_>, id: &str, mut report: Value) {
    if report.get("archived").is_none() {
        let stamp = req.wall.to_string();
        report["archived"] = stamp.trim_end_matches("+0000").replace('T', " ").into();
        keep(req.mon, id, Some(&report));
    }
}

fn archive(req: &mut Request<'_>) -> Reply {
    match find(req) {
        Ok((id, report)) => {
            acknowledge(req, &id, report);
            Reply::default()
        }
        Err(refusal) => refusal,
    }
}

fn archive_all(req: &mut Request<'_>) -> Reply {
    for (id, report) in all(&req.mon.next.config_keys) {
        acknowledge(req, &id, report);
    }
    Reply::default()
}

impl Mon {
    /// Crashes that nobody has acknowledged: a line of detail for each.
    pub(crate) fn recent_crashes(&self, now: UTime) -> Vec<String> {
        let crashes = self.committed.crashes.values();
        let new = crashes.filter(|crash| !crash.is_archived && crash.age(now) < RECENT);
        new.map(|crash| format!("{} crashed on host {} at {}", crash.entity, crash.host, crash.timestamp))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::select};

    use super::*;

    /// Parts of times and of stacks.
    const PARTS: &[&str] = &[
        "2026",
        "-",
        "-",
        "11",
        "22",
        "T",
        " ",
        "05",
        ":",
        ":",
        "54",
        ".",
        ".",
        "847179",
        "Z",
        "4294967295",
        "0",
        "99999",
        "-1",
        "+1",
        "()",
        "[0x1]",
        "+0x1 ",
        " thread ",
        ": ",
        "\u{e9}",
        "\n",
        "",
    ];

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![vec(select(PARTS), 0..16).prop_map(|parts| parts.concat()), any::<String>()]
    }

    proptest! {
        #![proptest_config(::damage::cases(600))]

        #[test]
        fn a_time_is_read_as_it_is_shown(sec: u32, micros in 0u32..1_000_000) {
            let (year, month, day, hour, minute, second) = UTime::new(sec, 0).civil();
            let shown = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z");
            prop_assert_eq!(time_of(&shown), Some(UTime::new(sec, micros * 1_000)));
        }

        #[test]
        fn any_text_is_a_time_or_none(text in text(), changed in text(), at in 0usize..27) {
            let _ = time_of(&text);
            let (head, tail) = "2026-11-22T05:54:35.847179Z".split_at(at);
            let time = time_of(&format!("{head}{changed}{tail}"));
            prop_assert!(time.is_none_or(|time| time.nsec < 1_000_000_000));
        }

        #[test]
        fn any_report_is_read(stack in vec(text(), 0..4), message in text(), stamp in text(), form in 0u8..4) {
            let stack = if form == 0 { json!("x") } else { json!(stack) };
            let report = json!({"backtrace": stack, "assert_msg": message, "timestamp": stamp, "entity_name": form});
            let found = signature(&report);
            prop_assert_eq!(found.map(|text| text.len()), (form != 0).then_some(64));
            let read = Crash::read(report.to_string().as_bytes()).expect("it is an object");
            prop_assert!(read.timestamp.chars().count() <= NAME_CHARS_MAX && !read.is_archived);
        }
    }

    #[test]
    fn times_and_signatures() {
        assert_eq!(time_of("1970-01-02T00:00:01.5Z"), Some(UTime::new(86_401, 500_000_000)));
        assert_eq!(time_of("2026-11-22 05:54:35.847179"), Some(UTime::new(1_795_326_875, 847_179_000)));
        assert_eq!(time_of("2024-02-29T00:00:00.0Z"), Some(UTime::new(1_709_164_800, 0)));
        assert!(time_of("yesterday").is_none() && time_of("2026-13-01T00:00:00.0Z").is_none());
        assert_eq!(time_of("9223372036854775807-01-01T00:00:00.0Z"), None);
        assert_eq!(time_of("4294967295-12-31T23:59:4294967295.0Z"), None);
        // sha256 of "ab(int)".
        let report = json!({"backtrace": ["(a()+0x1) [0x1]", "(b(int)+0x12) [0x2]"]});
        let expected: String =
            Sha256::digest(b"a()b(int)").iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(signature(&report), Some(expected));
        assert_eq!(signature(&json!({})), None);
    }
}
