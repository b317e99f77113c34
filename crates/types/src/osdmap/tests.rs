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
