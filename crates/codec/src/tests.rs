use bytes::Bytes;

use crate::{Codec, Decode, DecodeError, Encode, Features, Reader, crc::crc32c_zeros, crc32c};

#[derive(Codec, Clone, Debug, PartialEq)]
#[codec(version = 3, compat = 2)]
struct Sample {
    id: u32,
    name: String,
    #[codec(since = 3)]
    extra: Vec<u16>,
}

#[test]
fn crc_matches_ceph() {
    // The standard check value of crc32c is the inverted result for an inverted seed.
    assert_eq!(crc32c(u32::MAX, b"123456789") ^ u32::MAX, 0xe306_9283);
    let whole = crc32c(u32::MAX, b"123456789");
    assert_eq!(crc32c(crc32c(u32::MAX, b"1234"), b"56789"), whole);
    assert_eq!(crc32c(0, b""), 0);
    for count in [0, 1, 15, 16, 17, 4096, 10_000] {
        assert_eq!(crc32c_zeros(7, count), crc32c(7, &vec![0; count]), "{count}");
    }
}

#[test]
fn envelope_round_trips_and_skips_a_newer_tail() {
    let sample = Sample { id: 7, name: "x".into(), extra: vec![1, 2] };
    let bytes = sample.to_bytes(Features::default());
    assert_eq!(&bytes[..6], &[3, 2, 17, 0, 0, 0]);
    assert_eq!(Sample::from_bytes(bytes.clone()).unwrap(), sample);
    let mut newer = bytes.to_vec();
    newer[0] = 4;
    newer[2] += 1;
    newer.push(99);
    assert_eq!(Sample::from_bytes(Bytes::from(newer)).unwrap(), sample);
}

#[test]
fn older_version_decodes_with_defaults() {
    let old = Bytes::from_static(&[2, 2, 9, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, b'x']);
    assert_eq!(Sample::from_bytes(old).unwrap(), Sample { id: 7, name: "x".into(), extra: vec![] });
}

#[test]
fn every_truncation_is_an_error() {
    let bytes = Sample { id: 7, name: "abc".into(), extra: vec![1, 2] }.to_bytes(Features::default());
    for end in 0..bytes.len() {
        assert!(Sample::from_bytes(bytes.slice(..end)).is_err(), "{end}");
    }
}

#[test]
fn a_huge_count_is_refused_before_allocation() {
    let mut input = Reader::new(Bytes::from_static(&[255, 255, 255, 255, 1]));
    assert!(matches!(Vec::<u64>::decode(&mut input), Err(DecodeError::Truncated { .. })));
}
