//! Trivial maps: what librbd does to `rbd_directory` for images of format 1.

use std::collections::BTreeMap;

use bytes::Bytes;
use codec::{Decode, Encode, Features};
use messages::OpCode;

use super::bench::{Bench, plain, step};

pub(super) fn change(code: u8, key: &str, value: Option<&str>) -> Vec<u8> {
    let mut out = vec![code];
    key.to_owned().encode(&mut out, Features::default());
    if let Some(value) = value {
        value.to_owned().encode(&mut out, Features::default());
    }
    out
}

fn update(bench: &mut Bench, changes: &[Vec<u8>]) -> i32 {
    bench.result(vec![step(OpCode::TMAPUP, Default::default(), changes.concat())])
}

fn map(bench: &mut Bench) -> BTreeMap<String, String> {
    let done = bench.run(vec![plain(OpCode::TMAPGET)]).unwrap();
    let (_, map): (Bytes, BTreeMap<String, String>) = Decode::from_bytes(done.ops[0].data.clone()).unwrap();
    map
}

#[test]
fn keys_are_set_and_removed() {
    let mut bench = Bench::new();
    assert_eq!(update(&mut bench, &[]), 0);
    assert_eq!(update(&mut bench, &[change(b's', "b", Some("")), change(b'c', "a", Some("1"))]), 0);
    assert_eq!(map(&mut bench), BTreeMap::from([("a".into(), "1".into()), ("b".into(), String::new())]));
    assert_eq!(update(&mut bench, &[change(b'c', "a", Some("2"))]), -17);
    assert_eq!(update(&mut bench, &[change(b'R', "x", None), change(b'r', "a", None)]), 0);
    assert_eq!(update(&mut bench, &[change(b'r', "a", None)]), -2);
    assert_eq!(update(&mut bench, &[change(b'?', "a", None)]), -22);
    assert_eq!(map(&mut bench).len(), 1);
    assert_eq!(bench.result(vec![step(OpCode::TMAPPUT, Default::default(), "no map")]), -22);
}

#[test]
fn a_map_out_of_order_is_kept_in_order() {
    let put = |pairs: &[(&str, &str)]| {
        let pairs: Vec<(String, String)> =
            pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let mut bench = Bench::new();
        let data = (Bytes::from("head"), pairs).to_bytes(Features::default());
        assert_eq!(bench.result(vec![step(OpCode::TMAPPUT, Default::default(), data.clone())]), 0);
        (data, bench.read().unwrap())
    };
    let (sorted, kept) = put(&[("a", "1"), ("b", "2"), ("c", "3")]);
    assert_eq!(kept, sorted);
    assert_eq!(put(&[("c", "3"), ("a", "1"), ("b", "2")]).1, sorted);
    // If a key comes twice, the last value counts.
    assert_eq!(put(&[("c", "3"), ("a", "0"), ("b", "2"), ("a", "1")]).1, sorted);
}

/// Observed: a request that only reads is refused before it is run; one that may change the object goes on after the
/// TMAPGET.
#[test]
fn no_object_has_an_empty_map_where_it_may_be_made() {
    assert_eq!(Bench::new().result(vec![plain(OpCode::TMAPGET)]), -2);
    let done = Bench::new().run(vec![plain(OpCode::TMAPGET), plain(OpCode::CREATE)]).unwrap();
    assert_eq!((done.result, done.ops[0].result, done.ops[0].data.len()), (0, 0, 0));
    let cleared = Bench::new().run(vec![plain(OpCode::TMAPGET), plain(OpCode::OMAPCLEAR)]).unwrap();
    assert_eq!((cleared.ops[0].result, cleared.result), (0, -2));
}
