//! What goes on, in a pool or in all: the parts of `ceph -s` and `ceph osd pool stats` that are there only while they
//! say something.
//!
//! Authority: `PGMapDigest::recovery_summary`, `recovery_rate_summary`, `client_io_rate_summary` (16.2).

use serde_json::{Map, Value};
use types::PgStatSum;

use crate::{format, health::ratio_text, stats::Rates};

type Fields = Map<String, Value>;

/// Copies that lack something, or are not where they should be.
pub(super) fn recovery(sum: &PgStatSum) -> Fields {
    let mut out = Fields::new();
    for (what, part, whole) in [
        ("degraded", sum.degraded, sum.object_copies),
        ("misplaced", sum.misplaced, sum.object_copies),
        ("unfound", sum.unfound, sum.objects),
    ] {
        if part > 0 && whole > 0 {
            out.insert(format!("{what}_objects"), part.into());
            out.insert(format!("{what}_total"), whole.into());
            out.insert(format!("{what}_ratio"), format::number(part as f64 / whole as f64));
        }
    }
    out
}

/// `7/30 objects degraded (23.333%)` and the like, a line each.
pub(super) fn recovery_lines(sum: &PgStatSum) -> Vec<String> {
    let parts = [
        ("degraded", sum.degraded, sum.object_copies),
        ("misplaced", sum.misplaced, sum.object_copies),
        ("unfound", sum.unfound, sum.objects),
    ];
    let parts = parts.into_iter().filter(|(_, part, whole)| *part > 0 && *whole > 0);
    parts.map(|(what, part, whole)| ratio_text(part, whole, what)).collect()
}

/// What is recovered in a second, and what was in all of the time that the rates are of.
pub(super) fn recovery_rate(rates: &Rates) -> Fields {
    let mut out = Fields::new();
    if is_recovering(rates) {
        out.insert("recovering_objects_per_sec".to_owned(), rates.recovered_objects.into());
        out.insert("recovering_bytes_per_sec".to_owned(), rates.recovered_bytes.into());
        // Objects are counted, and their omap as bytes.
        out.insert("recovering_keys_per_sec".to_owned(), 0.into());
        out.insert("num_objects_recovered".to_owned(), rates.done.objects_recovered.into());
        out.insert("num_bytes_recovered".to_owned(), rates.done.bytes_recovered.into());
        out.insert("num_keys_recovered".to_owned(), 0.into());
    }
    out
}

/// `12 MiB/s, 3 objects/s`.
pub(super) fn recovery_rate_text(rates: &Rates) -> Option<String> {
    let (bytes, objects) = (format::bytes(rates.recovered_bytes), format::count(rates.recovered_objects));
    is_recovering(rates).then(|| format!("{bytes}/s, {objects} objects/s"))
}

fn is_recovering(rates: &Rates) -> bool {
    rates.done.objects_recovered > 0 || rates.done.bytes_recovered > 0
}

/// The bytes that clients read and write in a second, each where they read and write at all, be it no data.
pub(super) fn client_bytes(rates: &Rates) -> Fields {
    let mut out = Fields::new();
    for (name, ops, bytes) in [
        ("read_bytes_sec", rates.done.reads, rates.read_bytes),
        ("write_bytes_sec", rates.done.writes, rates.write_bytes),
    ] {
        if ops > 0 {
            out.insert(name.to_owned(), bytes.into());
        }
    }
    out
}

/// What clients do in a second.
pub(super) fn client_rate(rates: &Rates) -> Fields {
    let mut out = client_bytes(rates);
    if !out.is_empty() {
        out.insert("read_op_per_sec".to_owned(), rates.reads.into());
        out.insert("write_op_per_sec".to_owned(), rates.writes.into());
    }
    out
}

/// `1.3 MiB/s rd, 18 op/s rd, 0 op/s wr`, with other words for the ops where `ops` gives them.
pub(super) fn client_rate_text(rates: &Rates, ops: impl FnOnce(&Rates) -> String) -> Option<String> {
    let mut parts = Vec::new();
    if rates.done.reads > 0 {
        parts.push(format!("{}/s rd", format::bytes(rates.read_bytes)));
    }
    if rates.done.writes > 0 {
        parts.push(format!("{}/s wr", format::bytes(rates.write_bytes)));
    }
    if parts.is_empty() {
        return None;
    }
    parts.push(ops(rates));
    Some(parts.join(", "))
}

/// `18 op/s rd, 0 op/s wr`.
pub(super) fn ops_apart(rates: &Rates) -> String {
    format!("{} op/s rd, {} op/s wr", format::count(rates.reads), format::count(rates.writes))
}

/// `18 op/s`.
pub(super) fn ops_together(rates: &Rates) -> String {
    format!("{} op/s", format::count(rates.ops()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::stats::Counters;

    #[test]
    fn only_what_says_something_is_there() {
        assert!(client_rate(&Rates::default()).is_empty() && recovery_rate(&Rates::default()).is_empty());
        let sum = PgStatSum { objects: 4, object_copies: 12, degraded: 3, ..PgStatSum::default() };
        let shown = json!({"degraded_objects": 3, "degraded_total": 12, "degraded_ratio": 0.25});
        assert_eq!(Value::Object(recovery(&sum)), shown);
        assert_eq!(recovery_lines(&sum), ["3/12 objects degraded (25.000%)"]);
    }

    #[test]
    fn rates_are_shown_where_something_was_done_however_seldom() {
        let window = Duration::from_secs(7);
        let done = Counters { reads: 1, write_bytes: 700, ..Counters::default() };
        let rates = Rates::new(done, window);
        let shown = json!({"read_bytes_sec": 0, "read_op_per_sec": 0, "write_op_per_sec": 0});
        assert_eq!(Value::Object(client_rate(&rates)), shown, "of ops, not of bytes");
        assert_eq!(client_rate_text(&rates, ops_together).as_deref(), Some("0 B/s rd, 0 op/s"));
        let done = Counters { objects_recovered: 3, bytes_recovered: 7 << 10, ..Counters::default() };
        let rates = Rates::new(done, window);
        let shown = json!({
            "recovering_objects_per_sec": 0,
            "recovering_bytes_per_sec": 1024,
            "recovering_keys_per_sec": 0,
            "num_objects_recovered": 3,
            "num_bytes_recovered": 7168,
            "num_keys_recovered": 0,
        });
        assert_eq!(Value::Object(recovery_rate(&rates)), shown);
        assert_eq!(recovery_rate_text(&rates).as_deref(), Some("1 KiB/s, 0 objects/s"));
        assert_eq!(client_rate_text(&rates, ops_apart), None);
    }
}
