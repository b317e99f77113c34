use std::fs;

use bytes::Bytes;
use codec::{Decode, Encode, Features};
use proptest::prelude::*;

use super::*;

fn vector(name: &str) -> Bytes {
    let path = format!("{}/testdata/monmap/{name}", env!("CARGO_MANIFEST_DIR"));
    Bytes::from(fs::read(path).unwrap())
}

#[test]
fn a_captured_map_decodes_and_re_encodes_to_the_same_bytes() {
    let bytes = vector("monmap-20.2.4.bin");
    let map = MonMap::from_bytes(bytes.clone()).unwrap();
    assert_eq!((map.epoch, map.size(), map.rank_of("a")), (Epoch(2), 1, Some(0)));
    assert_eq!(map.created.to_string(), "2026-11-22T06:10:49.627317+0000");
    assert_eq!((map.auth_epoch, map.service_key_type()), (Epoch(0), KeyType::Aes256k));
    assert_eq!(map.allowed_key_types().collect::<Vec<_>>(), [KeyType::Aes, KeyType::Aes256k]);
    assert_eq!(map.preferred_key_type(), KeyType::Aes256k);
    assert_eq!(map.to_bytes(Features::PACIFIC), bytes);
    for end in 0..bytes.len() {
        assert!(MonMap::from_bytes(bytes.slice(..end)).is_err(), "{end}");
    }
}

#[test]
fn a_map_of_an_older_release_says_nothing_of_keys() {
    let map = MonMap::from_bytes(vector("monmap.bin")).unwrap();
    assert_eq!((map.epoch, map.size(), map.rank_of("a")), (Epoch(1), 1, Some(0)));
    assert_eq!(map.min_mon_release.name(), "pacific");
    assert_eq!(map.created.to_string(), "2026-11-20T21:18:08.564341+0000");
    let addrs = &map.mon(0).unwrap().public_addrs;
    assert_eq!(addrs.to_string(), "[v2:127.0.0.1:41000/0,v1:127.0.0.1:41001/0]");
    assert_eq!(map.allowed_key_types().count(), 0);
    let mut built = MonMap::new(map.fsid, map.created);
    built.epoch = Epoch(1);
    built.add("a", map.mon_info["a"].public_addrs.clone());
    let mut map = map;
    map.set_key_types(KeyType::ALL, KeyType::Aes);
    assert_eq!(map, built);
}

#[test]
fn ranks_follow_the_addresses() {
    let mut map = MonMap::new(Uuid([1; 16]), UTime::default());
    for (name, port) in [("c", 3300), ("a", 3302), ("b", 3301)] {
        map.add(name, EntityAddrVec::msgr2(format!("127.0.0.1:{port}").parse().unwrap(), 0));
    }
    assert_eq!(map.ranks, ["c", "b", "a"]);
    assert_eq!(map.mons().map(|mon| mon.name.as_str()).collect::<Vec<_>>(), ["c", "b", "a"]);
}

proptest! {
    #[test]
    fn damage_never_panics(at in 0usize..198, value: u8) {
        let mut bytes = vector("monmap-20.2.4.bin").to_vec();
        bytes[at] = value;
        let _ = MonMap::from_bytes(bytes.into());
    }
}
