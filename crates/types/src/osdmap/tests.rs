use std::fs;

use super::*;

const F: Features = Features::PACIFIC;

fn vector(name: &str) -> Bytes {
    let path = format!("{}/testdata/osdmap/{name}", env!("CARGO_MANIFEST_DIR"));
    Bytes::from(fs::read(path).unwrap())
}

fn full(epoch: u32) -> OsdMap {
    OsdMap::from_bytes(vector(&format!("seq/full.{epoch}"))).unwrap()
}

fn inc(epoch: u32) -> Incremental {
    Incremental::from_bytes(vector(&format!("seq/inc.{epoch}"))).unwrap()
}

/// A prefix of the bytes is never a value.
fn every_truncation_errors(bytes: &Bytes, decode: impl Fn(Bytes) -> bool) {
    for end in 0..bytes.len() {
        assert!(!decode(bytes.slice(..end)), "{end} of {}", bytes.len());
    }
}

#[test]
fn full_maps_re_encode_to_the_same_bytes() {
    for epoch in [103, 110, 117, 124] {
        let bytes = vector(&format!("seq/full.{epoch}"));
        let map = OsdMap::from_bytes(bytes.clone()).unwrap();
        assert_eq!(map.epoch, Epoch(epoch));
        assert_eq!(map.to_bytes(F), bytes, "epoch {epoch}");
        every_truncation_errors(&bytes, |b| OsdMap::from_bytes(b).is_ok());
    }
}

#[test]
fn networks_are_refused_as_in_ceph() {
    let bytes = vector("ranges.bin");
    let map = OsdMap::from_bytes(bytes.clone()).unwrap();
    assert_eq!(map.to_bytes(F), bytes);
    every_truncation_errors(&bytes, |b| OsdMap::from_bytes(b).is_ok());
    let ranges: Vec<String> = map.range_blocklist.0.keys().map(ToString::to_string).collect();
    assert_eq!(ranges, ["cidr:10.1.2.0:0/24", "cidr:[fd00::]:0/64"]);
    let refused = |text: &str| map.is_blocklisted(&EntityAddr::parse(text).unwrap());
    for addr in ["10.1.2.0:0/1", "v2:10.1.2.255:6800/7", "[fd00::ffff:1]:1/2"] {
        assert!(refused(addr), "{addr}");
    }
    for addr in ["10.1.3.0:0/1", "10.1.1.255:6800/7", "[fd00:0:0:1::1]:1/2"] {
        assert!(!refused(addr), "{addr}");
    }
    let all = RangeBlocklist([(EntityAddr::cidr([0, 0, 0, 0].into(), 0).unwrap(), UTime::default())].into());
    assert!(all.contains(&EntityAddr::parse("9.9.9.9:0/1").unwrap()));
    assert_eq!(EntityAddr::cidr([10, 0, 0, 0].into(), 33), None);
}

#[test]
fn incrementals_re_encode_to_the_same_bytes() {
    for epoch in 104..=124 {
        let bytes = vector(&format!("seq/inc.{epoch}"));
        let inc = Incremental::from_bytes(bytes.clone()).unwrap();
        assert_eq!(inc.to_bytes(F), bytes, "epoch {epoch}");
        every_truncation_errors(&bytes, |b| Incremental::from_bytes(b).is_ok());
    }
}

#[test]
fn applying_each_incremental_gives_the_stored_maps() {
    let mut map = full(103);
    for epoch in 104..=124 {
        let inc = inc(epoch);
        map.apply(&inc).unwrap();
        let (bytes, crc) = map.to_bytes_and_crc();
        assert_eq!(crc, inc.full_crc, "epoch {epoch}");
        if [110, 117, 124].contains(&epoch) {
            assert_eq!(bytes, vector(&format!("seq/full.{epoch}")), "epoch {epoch}");
        }
    }
}

mod damage;
mod mapping;
mod queries;
