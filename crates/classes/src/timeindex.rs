//! The `timeindex` class: values in an object's omap under keys of a time and a text.
//!
//! Authority: `cls/timeindex` of Ceph 16.2 (cls_timeindex.cc, cls_timeindex_ops.h).

use std::collections::BTreeMap;

use bytes::Bytes;
use codec::Codec;
use types::{Errno, UTime};

use crate::{
    Method, ObjectView, Stop,
    keys::{input, output},
    method::{self, row},
    time_key,
};

const RW: u8 = method::RD | method::WR;

/// The methods with their Ceph flags.
pub(crate) const METHODS: &[Method] = &[
    row("timeindex", "add", RW, add),
    row("timeindex", "list", method::RD, list),
    row("timeindex", "trim", RW, trim),
];

/// Entries that one call removes.
const TRIM_COUNT_MAX: usize = 1_000;
/// Bytes of a key's text that a list can give back.
const TEXT_BYTES_MAX: usize = 255;

/// `cls_timeindex_entry`.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
struct Entry {
    key_time: UTime,
    key_text: Bytes,
    value: Bytes,
}

/// `cls_timeindex_add_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct AddOp {
    entries: Vec<Entry>,
}

/// `cls_timeindex_list_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct ListOp {
    from_time: UTime,
    /// Instead of `from_time`, if it is not empty.
    marker: Bytes,
    /// Not inclusive.
    to_time: UTime,
    max_entries: u32,
}

/// `cls_timeindex_list_ret`.
#[derive(Codec, Debug, Default)]
#[codec(version = 1, compat = 1)]
struct ListReply {
    entries: Vec<Entry>,
    /// The key of the last of them.
    marker: Bytes,
    truncated: bool,
}

/// `cls_timeindex_trim_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct TrimOp {
    from_time: UTime,
    /// Inclusive.
    to_time: UTime,
    /// Instead of `from_time`, if it is not empty.
    from_marker: Bytes,
    /// Instead of `to_time`, if it is not empty.
    to_marker: Bytes,
}

/// Where the keys of a time, or those after a marker, begin.
fn begin(time: UTime, marker: Bytes) -> Bytes {
    if marker.is_empty() { time_key::prefix(time).into() } else { marker }
}

fn add(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: AddOp = input(bytes)?;
    let with_key = |entry: Entry| {
        let key = [&time_key::prefix(entry.key_time), entry.key_text.as_ref()].concat();
        (Bytes::from(key), entry.value)
    };
    let added: BTreeMap<Bytes, Bytes> = op.entries.into_iter().map(with_key).collect();
    if !added.is_empty() {
        view.omap_set(added)?;
    }
    Ok(Bytes::new())
}

/// What a key says, as far as Ceph reads it: the microseconds come back as nanoseconds, and the text ends
/// at a space.
fn parse(key: &Bytes) -> Entry {
    let mut parts = key[time_key::PREFIX.len()..].splitn(2, |b| *b == b'.');
    let number = |digits: &[u8]| std::str::from_utf8(digits).ok().and_then(|d| d.parse().ok()).unwrap_or(0);
    let sec = number(parts.next().unwrap_or_default());
    let mut parts = parts.next().unwrap_or_default().splitn(2, |b| *b == b'_');
    let nsec = number(parts.next().unwrap_or_default());
    let text = parts.next().unwrap_or_default().trim_ascii_start();
    let text = text.split(u8::is_ascii_whitespace).next().unwrap_or_default();
    let text = &text[..text.len().min(TEXT_BYTES_MAX)];
    Entry { key_time: UTime::new(sec, nsec), key_text: key.slice_ref(text), value: Bytes::new() }
}

fn list(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: ListOp = input(bytes)?;
    let has_end = op.to_time >= op.from_time;
    let end = time_key::prefix(op.to_time);
    let from = begin(op.from_time, op.marker);
    let (keys, truncated) = view.omap_list(&from, time_key::PREFIX, time_key::count(op.max_entries, 0))?;
    let mut reply = ListReply { truncated, ..ListReply::default() };
    for (key, value) in keys {
        if has_end && time_key::has_reached(&key, &end) {
            reply.truncated = false;
            break;
        }
        reply.entries.push(Entry { value, ..parse(&key) });
        reply.marker = key;
    }
    output(&reply)
}

fn trim(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: TrimOp = input(bytes)?;
    let (from, to) = (begin(op.from_time, op.from_marker), begin(op.to_time, op.to_marker));
    let (keys, _) = view.omap_list(&from, time_key::PREFIX, TRIM_COUNT_MAX)?;
    let is_within = |key: &Bytes| key[..key.len().min(to.len())] <= to[..];
    let keys: Vec<Bytes> = keys.into_iter().map(|(key, _)| key).take_while(is_within).collect();
    if keys.is_empty() {
        return Err(Errno::ENODATA.into());
    }
    view.omap_remove(keys)?;
    Ok(Bytes::new())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use codec::{Decode, Encode, Features};
    use types::{Errno, UTime};

    use super::{AddOp, Entry, ListOp, ListReply, TrimOp};
    use crate::test_view::TestView;

    fn filled() -> TestView {
        let mut view = TestView::default();
        let entry = |sec, nsec, text: &'static str, value: &'static str| Entry {
            key_time: UTime::new(sec, nsec),
            key_text: Bytes::from_static(text.as_bytes()),
            value: Bytes::from_static(value.as_bytes()),
        };
        let entries = vec![
            entry(5, 123_456_789, "ext", "v1"),
            entry(6, 0, "a b", "v2"),
            entry(7, 0, "c", "v3"),
            entry(8, 0, "d", "v4"),
        ];
        view.call("timeindex", "add", AddOp { entries }.to_bytes(Features::PACIFIC)).unwrap();
        assert_eq!(view.changes, 1, "all of them together");
        view
    }

    /// Answers that a stock OSD gave.
    #[test]
    fn lists_are_those_of_a_stock_osd() {
        let mut view = filled();
        for (from, to, max_entries, count, marker, truncated) in [
            (0, 0, 10, 0, "", false),
            (0, 7, 10, 2, "1_0000000006.000000_a b", false),
            (0, 9, 2, 2, "1_0000000006.000000_a b", true),
            (5, 6, 10, 1, "1_0000000005.123456_ext", false),
            (0, 9, 0, 0, "", true),
            (0, 9, u32::MAX, 4, "1_0000000008.000000_d", false),
        ] {
            let (from_time, to_time) = (UTime::new(from, 0), UTime::new(to, 0));
            let op = ListOp { from_time, marker: Bytes::new(), to_time, max_entries };
            let reply = view.call("timeindex", "list", op.to_bytes(Features::PACIFIC)).unwrap();
            let reply = ListReply::from_bytes(reply).unwrap();
            let found = (reply.entries.len(), reply.marker.as_ref(), reply.truncated);
            assert_eq!(found, (count, marker.as_bytes(), truncated), "{from} {to} {max_entries}");
            let texts: Vec<&[u8]> = reply.entries.iter().map(|e| e.key_text.as_ref()).collect();
            assert_eq!(texts, [&b"ext"[..], b"a", b"c", b"d"][..count]);
            assert!(reply.entries.first().is_none_or(|e| e.key_time == UTime::new(5, 123_456)));
        }
    }

    #[test]
    fn nothing_to_add_changes_nothing() {
        let mut view = TestView::default();
        view.call("timeindex", "add", AddOp { entries: Vec::new() }.to_bytes(Features::PACIFIC)).unwrap();
        assert!(!view.exists && view.changes == 0);
    }

    #[test]
    fn a_trim_takes_what_lies_between() {
        let mut view = filled();
        let mut trim = |to: u32, to_marker: &'static str| {
            let (from_time, to_time) = (UTime::default(), UTime::new(to, 0));
            let to_marker = Bytes::from_static(to_marker.as_bytes());
            let op = TrimOp { from_time, to_time, from_marker: Bytes::new(), to_marker };
            view.call("timeindex", "trim", op.to_bytes(Features::PACIFIC)).err()
        };
        assert_eq!(trim(5, ""), Some(Errno::ENODATA), "the end is before 5.123456");
        assert_eq!(trim(0, "1_0000000007.000000_c"), None);
        assert_eq!(trim(99, ""), None);
        assert_eq!(trim(99, ""), Some(Errno::ENODATA));
    }
}
