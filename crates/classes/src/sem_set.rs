//! The `sem_set` class: counters in an object's omap that vanish when they come down to zero.
//!
//! Authority: `cls/sem_set` of Ceph 20.2.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use codec::{Codec, Decode};
use types::{Errno, UTime};

use crate::{
    Method, ObjectView, Stop,
    keys::{Reach, find, input, output, read, remove, walk, write},
    method::{self, row},
};

const RD: u8 = method::RD;
const RW: u8 = method::RD | method::WR;

/// The methods with their Ceph flags.
pub(crate) const METHODS: &[Method] = &[
    row("sem_set", "increment", RW, increment),
    row("sem_set", "decrement", RW, decrement),
    row("sem_set", "reset", RW, reset),
    row("sem_set", "list", RD, list),
];

/// Counters that one call may name.
const COUNT_MAX: usize = 1_000;
/// Other users of the omap keep theirs elsewhere.
const PREFIX: &[u8] = b"CLS_SEM_SET_";

/// `sem_val`.
#[derive(Codec, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
struct Counter {
    value: u64,
    decremented: UTime,
}

/// `increment`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct IncrementOp {
    keys: Vec<Bytes>,
}

/// `decrement`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct DecrementOp {
    keys: Vec<Bytes>,
    /// A counter stays as it is for that long after it was decremented: seconds, nanoseconds.
    grace: UTime,
}

/// `reset`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct ResetOp {
    values: BTreeMap<Bytes, u64>,
}

/// `list_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct ListOp {
    count: u64,
    cursor: Bytes,
}

/// `list_ret`.
#[derive(Codec, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
struct ListReply {
    values: BTreeMap<Bytes, u64>,
    /// Where to go on; empty at the end.
    cursor: Bytes,
}

fn check_count(count: usize) -> Result<(), Stop> {
    if count > COUNT_MAX { Err(Errno::E2BIG.into()) } else { Ok(()) }
}

fn omap_key(key: &Bytes) -> Vec<u8> {
    [PREFIX, key].concat()
}

fn increment(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: IncrementOp = input(bytes)?;
    check_count(op.keys.len())?;
    for key in op.keys.iter().map(omap_key) {
        let mut counter: Counter = find(view, &key)?.unwrap_or_default();
        counter.value = counter.value.saturating_add(1);
        write(view, &key, &counter)?;
    }
    Ok(Bytes::new())
}

fn decrement(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: DecrementOp = input(bytes)?;
    check_count(op.keys.len())?;
    let now = view.context().now;
    let grace = Duration::new(op.grace.sec.into(), op.grace.nsec);
    for key in op.keys.iter().map(omap_key) {
        let counter: Counter = read(view, &key)?;
        if now < counter.decremented || now.since(counter.decremented) < grace {
            continue;
        }
        if counter.value > 1 {
            write(view, &key, &Counter { value: counter.value - 1, decremented: now })?;
        } else {
            remove(view, &key)?;
        }
    }
    Ok(Bytes::new())
}

fn reset(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: ResetOp = input(bytes)?;
    check_count(op.values.len())?;
    for (key, value) in op.values {
        write(view, &omap_key(&key), &Counter { value, ..Counter::default() })?;
    }
    Ok(Bytes::new())
}

fn list(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: ListOp = input(bytes)?;
    let mut reply = ListReply { cursor: op.cursor.clone(), ..ListReply::default() };
    // One more tells whether there are more. Without a count, there may be.
    let mut has_more = op.count == 0;
    let reach = Reach::First(op.count.saturating_add(1));
    walk(view, PREFIX, &op.cursor, reach, |key, value| {
        has_more |= reply.values.len() as u64 >= op.count;
        if has_more {
            return Ok(false);
        }
        let counter = Counter::from_prefix(value).map_err(|_| Stop::Refused(Errno::EIO))?;
        reply.cursor = Bytes::copy_from_slice(key);
        reply.values.insert(reply.cursor.clone(), counter.value);
        Ok(true)
    })?;
    if !has_more {
        reply.cursor = Bytes::new();
    }
    output(&reply)
}

#[cfg(test)]
mod tests {
    use codec::{Encode, Features};

    use super::*;
    use crate::test_view::TestView;

    fn call(view: &mut TestView, name: &str, op: &impl Encode) -> Result<Bytes, Errno> {
        view.call("sem_set", name, op.to_bytes(Features::PACIFIC))
    }

    fn values(view: &mut TestView, count: u64, cursor: Bytes) -> ListReply {
        ListReply::from_bytes(call(view, "list", &ListOp { count, cursor }).unwrap()).unwrap()
    }

    #[test]
    fn counters_go_up_and_down_and_vanish_at_zero() {
        let mut view = TestView::default();
        view.context.now = UTime::new(1_000, 0);
        let keys = || vec![Bytes::from_static(b"a"), Bytes::from_static(b"b")];
        call(&mut view, "increment", &IncrementOp { keys: keys() }).unwrap();
        call(&mut view, "reset", &ResetOp { values: [(keys().remove(1), 2)].into() }).unwrap();
        let first = values(&mut view, 1, Bytes::new());
        assert_eq!((first.values.len(), first.cursor.as_ref()), (1, &b"a"[..]));
        assert_eq!(values(&mut view, 1, first.cursor).values[&keys()[1]], 2);
        let none = values(&mut view, 0, Bytes::from_static(b"a"));
        assert_eq!((none.values.len(), none.cursor.as_ref()), (0, &b"a"[..]), "there may be more");
        let op = |sec| DecrementOp { keys: keys(), grace: UTime::new(sec, 0) };
        call(&mut view, "decrement", &op(0)).unwrap();
        assert_eq!(values(&mut view, 9, Bytes::new()).values, [(keys().remove(1), 1)].into());
        let only_b = DecrementOp { keys: vec![keys().remove(1)], ..op(5) };
        call(&mut view, "decrement", &only_b).unwrap();
        assert_eq!(values(&mut view, 9, Bytes::new()).values.len(), 1, "within the time of grace");
        assert_eq!(call(&mut view, "decrement", &op(0)), Err(Errno::ENOENT));
        let many = IncrementOp { keys: vec![Bytes::from_static(b"k"); COUNT_MAX + 1] };
        assert_eq!(call(&mut view, "increment", &many), Err(Errno::E2BIG));
        for first in [0, COUNT_MAX] {
            let named = (first..first + COUNT_MAX).map(|n| (format!("k{n:04}").into(), 1));
            call(&mut view, "reset", &ResetOp { values: named.collect() }).unwrap();
        }
        let all = values(&mut view, 5_000, Bytes::new());
        assert_eq!((all.values.len(), all.cursor.len()), (2 * COUNT_MAX + 1, 0));
        let most = values(&mut view, 1_500, Bytes::new());
        assert_eq!((most.values.len(), most.cursor.as_ref()), (1_500, &b"k1498"[..]));
    }
}
