//! What goes on, in a pool or in all: the parts of `ceph -s` and `ceph osd pool stats` that are there only while they
//! say something.
//!
//! Authority: `PGMapDigest::recovery_summary`, `recovery_rate_summary`, `client_io_rate_summary` (16.2).

use serde_json::{Map, Value};
use types::PgStatSum;

use crate::{format, stats::Rates};

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

/// What is recovered in a second.
pub(super) fn recovery_rate(rates: &Rates) -> Fields {
    let mut out = Fields::new();
    if rates.recovered_objects + rates.recovered_bytes > 0 {
        out.insert("recovering_objects_per_sec".to_owned(), rates.recovered_objects.into());
        out.insert("recovering_bytes_per_sec".to_owned(), rates.recovered_bytes.into());
        // Objects are counted, and their omap as bytes.
        out.insert("recovering_keys_per_sec".to_owned(), 0.into());
    }
    out
}

/// What clients do in a second.
pub(super) fn client_rate(rates: &Rates) -> Fields {
    let mut out = Fields::new();
    if rates.reads + rates.writes + rates.read_bytes + rates.write_bytes == 0 {
        return out;
    }
    for (name, bytes) in [("read_bytes_sec", rates.read_bytes), ("write_bytes_sec", rates.write_bytes)] {
        if bytes > 0 {
            out.insert(name.to_owned(), bytes.into());
        }
    }
    out.insert("read_op_per_sec".to_owned(), rates.reads.into());
    out.insert("write_op_per_sec".to_owned(), rates.writes.into());
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_says_something_is_there() {
        assert!(client_rate(&Rates::default()).is_empty() && recovery_rate(&Rates::default()).is_empty());
        let rates = Rates { write_bytes: 7, writes: 1, ..Rates::default() };
        let shown = json!({"write_bytes_sec": 7, "read_op_per_sec": 0, "write_op_per_sec": 1});
        assert_eq!(Value::Object(client_rate(&rates)), shown);
        let sum = PgStatSum { objects: 4, object_copies: 12, degraded: 3, ..PgStatSum::default() };
        let shown = json!({"degraded_objects": 3, "degraded_total": 12, "degraded_ratio": 0.25});
        assert_eq!(Value::Object(recovery(&sum)), shown);
    }
}
