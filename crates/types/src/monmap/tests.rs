use std::fs;

use bytes::Bytes;
use codec::{Decode, Encode, Features};
use proptest::prelude::*;

use super::*;

fn vector() -> Bytes {
    let path = format!("{}/testdata/monmap/monmap.bin", env!("CARGO_MANIFEST_DIR"));
    Bytes::from(fs::read(path).unwrap())
}

#[test]
fn a_captured_map_decodes_and_re_encodes_to_the_same_bytes() {
    let map = MonMap::from_bytes(vector()).unwrap();
    assert_eq!((map.epoch, map.size(), map.rank_of("a")), (Epoch(1), 1, Some(0)));
    assert_eq!(map.min_mon_release.name(), "pacific");
    assert_eq!(map.created.to_string(), "2026-11-20T21:18:08.564341+0000");
    let addrs = &map.mon(0).unwrap().public_addrs;
    assert_eq!(addrs.to_string(), "[v2:127.0.0.1:41000/0,v1:127.0.0.1:41001/0]");
    assert_eq!(map.to_bytes(Features::PACIFIC), vector());
    for end in 0..vector().len() {
        assert!(MonMap::from_bytes(vector().slice(..end)).is_err(), "{end}");
    }
}

#[test]
fn a_map_that_is_built_has_the_bytes_of_the_captured_one() {
    let captured = MonMap::from_bytes(vector()).unwrap();
    let mut map = MonMap::new(captured.fsid, captured.created);
    map.epoch = Epoch(1);
    map.add("a", captured.mon_info["a"].public_addrs.clone());
    assert_eq!(map.to_bytes(Features::PACIFIC), vector());
}

#[test]
fn ranks_follow_the_addresses() {
    let mut map = MonMap::new([1; 16], UTime::default());
    for (name, port) in [("c", 3300), ("a", 3302), ("b", 3301)] {
        map.add(name, EntityAddrVec::msgr2(format!("127.0.0.1:{port}").parse().unwrap(), 0));
    }
    assert_eq!(map.ranks, ["c", "b", "a"]);
    assert_eq!(map.mons().map(|mon| mon.name.as_str()).collect::<Vec<_>>(), ["c", "b", "a"]);
}

proptest! {
    #[test]
    fn damage_never_panics(at in 0usize..201, value: u8) {
        let mut bytes = vector().to_vec();
        bytes[at] = value;
        let _ = MonMap::from_bytes(bytes.into());
    }
}
