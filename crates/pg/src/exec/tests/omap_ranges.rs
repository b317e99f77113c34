//! Removing ranges of omap entries: what it costs, and what ops of the same request see of it.

use std::collections::BTreeMap;

use bytes::Bytes;
use codec::{Codec, Decode, Encode, Features};
use messages::{OpCode, OsdOp};
use store::{NotCached, ObjectStore};
use types::{Errno, SnapId, Token, UTime};

use super::bench::{Bench, call, copy_data, encoded, plain};
use crate::{
    exec::{Blocked, MeasuredOmap, copy_out, execute},
    watched_store::WatchedStore,
};

/// The longest list that a request gets.
const LIST: u64 = 1024;

/// An object with so many entries, in the log class's form.
fn filled(count: u64) -> Bench {
    let mut bench = Bench::new();
    bench.return_outputs();
    let entries: BTreeMap<Bytes, Bytes> = (0..count).map(|at| (key(at), Bytes::from_static(b"v"))).collect();
    assert_eq!(bench.result(vec![encoded(OpCode::OMAPSETVALS, entries)]), 0);
    bench
}

fn key(at: u64) -> Bytes {
    Bytes::from(format!("1_{at:010}.000000_k"))
}

fn remove(first: u64, last: u64) -> OsdOp {
    encoded(OpCode::OMAPRMKEYRANGE, (key(first), key(last)))
}

/// Runs ops on the object, which stays as it is: how many omap entries were read, and the last op's output.
fn cost(bench: &Bench, ops: Vec<OsdOp>) -> (usize, Bytes) {
    let store = WatchedStore::over(bench.store.clone());
    let done = execute(&store, &bench.ctx, &bench.request("o", SnapId::HEAD, ops)).unwrap();
    assert!(done.ops.iter().all(|op| op.result >= 0), "{:?}", done.ops);
    (store.omap_read.get(), done.ops.last().unwrap().data.clone())
}

fn listed(output: Bytes) -> Vec<Bytes> {
    <(Vec<Bytes>, bool)>::from_bytes(output).unwrap().0
}

#[test]
fn removing_a_range_reads_nothing_of_it() {
    let bench = filled(20_000);
    assert_eq!(cost(&bench, vec![remove(5, 19_000)]).0, 0);
    assert_eq!(cost(&bench, vec![remove(5, 19_000), remove(0, 7), plain(OpCode::OMAPGETHEADER)]).0, 0);
    // Nor do ops behind it.
    let list = encoded(OpCode::OMAPGETKEYS, (key(5), 2u64));
    let (read, found) = cost(&bench, vec![remove(5, 19_000), list]);
    assert!(read <= LIST as usize, "{read} were read");
    assert_eq!(listed(found), [key(19_000), key(19_001)]);
}

#[test]
fn a_log_is_trimmed_without_reading_what_goes() {
    /// `cls_log_trim_op`.
    #[derive(Codec)]
    #[codec(version = 2, compat = 1)]
    struct Trim {
        from_time: UTime,
        to_time: UTime,
        from_marker: Bytes,
        to_marker: Bytes,
    }
    let mut bench = filled(20_000);
    let op = Trim {
        from_time: UTime::default(),
        to_time: UTime::new(18_999, 999),
        from_marker: Bytes::new(),
        to_marker: Bytes::new(),
    };
    let trim = call("log", "trim", &op.to_bytes(Features::default()));
    let (read, _) = cost(&bench, vec![trim.clone()]);
    assert!(read <= 2, "{read} were read");
    assert_eq!(bench.result(vec![trim]), 0);
    let list = encoded(OpCode::OMAPGETKEYS, (Bytes::new(), LIST));
    let left = listed(cost(&bench, vec![list]).1);
    assert_eq!((left.len(), &left[0]), (1_000, &key(19_000)));
}

#[test]
fn many_removed_keys_are_passed_over_in_steps() {
    let bench = filled(5_000);
    let keys: Vec<Bytes> = (0..4_000).map(key).collect();
    let list = encoded(OpCode::OMAPGETKEYS, (Bytes::new(), 2u64));
    let (read, found) = cost(&bench, vec![encoded(OpCode::OMAPRMKEYS, keys), list]);
    assert_eq!(listed(found), [key(4_000), key(4_001)]);
    assert!(read < 4_300, "{read} were read");
}

/// Each part that has to be loaded makes the request run again.
#[test]
fn a_method_that_looks_at_many_entries_has_them_loaded_first() {
    let mut bench = filled(5_000);
    let all: BTreeMap<Bytes, Bytes> =
        (0..5_000).map(|at| (Bytes::from(format!("metadata_{at:04}")), Bytes::from_static(b"v"))).collect();
    assert_eq!(bench.result(vec![encoded(OpCode::OMAPSETVALS, all)]), 0);
    let store = WatchedStore::paged(bench.store.clone());
    let list =
        |count: u64| call("rbd", "metadata_list", &(Bytes::new(), count).to_bytes(Features::default()));
    let run = |ops| execute(&store, &bench.ctx, &bench.request("o", SnapId::HEAD, ops));
    let missing = NotCached::Index { coll: bench.ctx.coll, object: Bench::object("o"), omap: None };
    assert_eq!(run(vec![list(5_000)]).err(), Some(missing.clone().into()));
    // What the request itself made is at hand.
    let anew = vec![plain(OpCode::DELETE), plain(OpCode::CREATE), list(5_000)];
    assert_eq!(run(anew).map(|done| done.result), Ok(0));
    // A short list looks for itself.
    let Err(Blocked::NotCached(other)) = run(vec![list(5)]) else { panic!("the omap has to be loaded") };
    assert_ne!(other, [missing]);
}

/// Runs the first time with nothing loaded.
#[test]
fn methods_that_walk_through_entries_have_them_loaded_first() {
    /// `cls_user_account_resource_list_op`.
    #[derive(Codec)]
    #[codec(version = 1, compat = 1)]
    struct ListResources {
        marker: Bytes,
        path_prefix: Bytes,
        count: u32,
    }
    /// `cls::sem_set::list_op`.
    #[derive(Codec)]
    #[codec(version = 1, compat = 1)]
    struct ListCounters {
        count: u64,
        cursor: Bytes,
    }
    let f = Features::default();
    let (none, count) = (Bytes::new(), 5_000u64);
    let resources =
        |path: &'static str| ListResources { marker: Bytes::new(), path_prefix: path.into(), count: 9 };
    let tags = ((0u64, count), (Bytes::from_static(b"client"), None::<u64>));
    let bench = filled(1);
    for (class, method, input) in [
        ("journal", "client_list", (none.clone(), count).to_bytes(f)),
        ("journal", "tag_list", tags.to_bytes(f)),
        ("rbd", "get_snapcontext", none.clone()),
        ("rbd", "mirror_peer_list", none.clone()),
        ("rbd", "mirror_instances_list", none.clone()),
        ("rbd", "mirror_image_status_get", Bytes::from_static(b"image").to_bytes(f)),
        ("rbd", "mirror_image_status_remove", Bytes::from_static(b"image").to_bytes(f)),
        ("user", "account_resource_list", resources("/path").to_bytes(f)),
        ("sem_set", "list", ListCounters { count, cursor: none.clone() }.to_bytes(f)),
    ] {
        let store = WatchedStore::paged(bench.store.clone());
        let request = bench.request("o", SnapId::HEAD, vec![call(class, method, &input)]);
        let run = execute(&store, &bench.ctx, &request).map(|done| done.result);
        let missing = NotCached::Index { coll: bench.ctx.coll, object: Bench::object("o"), omap: None };
        assert_eq!(run, Err(missing.into()), "{class}.{method}");
    }
    // A list that ends soon looks for itself.
    let store = WatchedStore::paged(bench.store.clone());
    let op = call("user", "account_resource_list", &resources("").to_bytes(f));
    let run = execute(&store, &bench.ctx, &bench.request("o", SnapId::HEAD, vec![op]));
    let Err(Blocked::NotCached(lacking)) = run else { panic!("{run:?}") };
    assert!(matches!(&lacking[..], [NotCached::Index { omap: Some(_), .. }]), "{lacking:?}");
}

/// What is loaded stays in memory until the request ends.
#[test]
fn a_method_has_no_more_loaded_than_a_request_may_read() {
    let mut bench = Bench::new();
    // Each with a page of its own: more than 512 MiB.
    let all = (0..33_000).map(|at| (Bytes::from(format!("metadata_{at:05}")), Bytes::new()));
    assert_eq!(bench.result(vec![encoded(OpCode::OMAPSETVALS, all.collect::<BTreeMap<_, _>>())]), 0);
    let mut store = WatchedStore::paged(bench.store.clone());
    let list =
        |count: u64| call("rbd", "metadata_list", &(Bytes::new(), count).to_bytes(Features::default()));
    let request = |ops| bench.request("o", SnapId::HEAD, ops);
    let missing = NotCached::Index { coll: bench.ctx.coll, object: Bench::object("o"), omap: None };
    store.load(Token(1), missing);
    let refused = execute(&store, &bench.ctx, &request(vec![list(u64::MAX)]));
    assert_eq!(refused.err(), Some(Blocked::Refused(Errno::EMSGSIZE)));
    assert_eq!(store.omap_read.get(), 0);
    // Of a list that ends earlier, no more is loaded than it may have.
    let short = execute(&store, &bench.ctx, &request(vec![list(2_000)]));
    assert!(matches!(short, Err(Blocked::NotCached(_))), "{short:?}");
}

#[test]
fn a_copy_of_too_large_an_omap_reads_no_more_than_it_could_have() {
    let mut bench = Bench::new();
    let value = Bytes::from(vec![7; 1 << 20]);
    for part in 0..10 {
        let entries = (part * 60..(part + 1) * 60).map(|at| (key(at), value.clone()));
        let set = encoded(OpCode::OMAPSETVALS, entries.collect::<BTreeMap<_, _>>());
        assert_eq!(bench.result(vec![set]), 0);
    }
    let store = WatchedStore::over(bench.store.clone());
    let (object, mut data) = (Bench::object("o"), copy_data(bench.ctx.coll));
    copy_out(&store, bench.ctx.coll, &object, false, &mut MeasuredOmap::default(), &mut data).unwrap();
    assert_eq!((data.result, store.omap_read.get()), (Errno::EMSGSIZE.negated(), 256));
}

/// They are read a MiB at a time, which nobody sees.
#[test]
fn large_values_are_listed_as_small_ones_are() {
    let mut bench = Bench::new();
    bench.return_outputs();
    let set = |at: u64| {
        encoded(OpCode::OMAPSETVALS, BTreeMap::from([(key(at), Bytes::from(vec![at as u8; 700 << 10]))]))
    };
    assert_eq!(bench.result((0..7).map(set).collect()), 0);
    let list = |count: u64| encoded(OpCode::OMAPGETVALS, (Bytes::new(), count, Bytes::new()));
    let listed = |ops: Vec<OsdOp>| {
        let output = cost(&bench, ops).1;
        let (entries, has_more) = <(BTreeMap<Bytes, Bytes>, bool)>::from_bytes(output).unwrap();
        (entries.into_keys().collect::<Vec<_>>(), has_more)
    };
    let keys = |range: std::ops::Range<u64>| range.map(key).collect::<Vec<_>>();
    for count in 1..9 {
        assert_eq!(listed(vec![list(count)]), (keys(0..count.min(7)), count < 7), "{count}");
    }
    // With what the request itself has changed. Of a change the client gets little back.
    let change = vec![encoded(OpCode::OMAPRMKEYS, vec![key(1)]), set(9)];
    let keys_after = |after: Bytes, count: u64| {
        let list = encoded(OpCode::OMAPGETKEYS, (after, count));
        let output = cost(&bench, [change.clone(), vec![list]].concat()).1;
        <(Vec<Bytes>, bool)>::from_bytes(output).unwrap()
    };
    assert_eq!(keys_after(Bytes::new(), 2), (vec![key(0), key(2)], true));
    assert_eq!(keys_after(key(5), 1), (vec![key(6)], true));
    assert_eq!(keys_after(key(5), 2), (vec![key(6), key(9)], false));
    assert_eq!(keys_after(key(5), 9), (vec![key(6), key(9)], false));
}
