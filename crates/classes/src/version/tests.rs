use bytes::Bytes;
use codec::{Decode, Encode, Features};
use types::Errno;

use super::{Condition, Conditional, Just, Version};
use crate::test_view::TestView;

fn version(number: u64, tag: &'static str) -> Version {
    Version { number, tag: Bytes::from_static(tag.as_bytes()) }
}

fn read(view: &mut TestView) -> Version {
    Just::from_bytes(view.call("version", "read", "").unwrap()).unwrap().version
}

fn conditional(kind: u32, number: u64, tag: &'static str) -> Bytes {
    let conditions = vec![Condition { version: version(number, tag), kind }];
    Conditional { version: Version::default(), conditions }.to_bytes(Features::PACIFIC)
}

#[test]
fn a_first_increment_makes_a_tag() {
    let mut view = TestView::default();
    let op = Conditional { version: Version::default(), conditions: Vec::new() }.to_bytes(Features::PACIFIC);
    view.call("version", "inc", op.clone()).unwrap();
    let first = read(&mut view);
    assert_eq!((first.number, first.tag.len()), (2, 24));
    view.call("version", "inc", op).unwrap();
    assert_eq!(read(&mut view), Version { number: 3, ..first });
}

/// What a stock OSD says of version 7 of tag `tag`, by condition, for 6, 7, 8 of that tag and 7 of another.
#[test]
fn conditions_hold_as_on_a_stock_osd() {
    const HOLDS: [[bool; 4]; 9] = [
        [true, true, true, true],
        [false, true, false, false],
        [true, false, false, false],
        [true, true, false, true],
        [false, false, true, false],
        [false, true, true, true],
        [true, true, true, false],
        [false, false, false, true],
        [true, true, true, true],
    ];
    let mut view = TestView::default();
    view.call("version", "set", Just { version: version(7, "tag") }.to_bytes(Features::PACIFIC)).unwrap();
    for (kind, row) in HOLDS.iter().enumerate() {
        for (given, holds) in [(6, "tag"), (7, "tag"), (8, "tag"), (7, "x")].into_iter().zip(row) {
            let result = view.call("version", "check_conds", conditional(kind as u32, given.0, given.1));
            assert_eq!(result.err(), (!holds).then_some(Errno::ECANCELED), "{kind} {given:?}");
        }
    }
    view.call("version", "inc_conds", conditional(1, 7, "tag")).unwrap();
    let again = view.call("version", "inc_conds", conditional(1, 7, "tag"));
    assert_eq!(again.unwrap_err(), Errno::ECANCELED);
}

#[test]
fn bytes_are_those_of_a_stock_osd() {
    let bytes = Just { version: version(7, "tag") }.to_bytes(Features::PACIFIC);
    assert_eq!(&bytes[..], b"\x01\x01\x15\0\0\0\x01\x01\x0f\0\0\0\x07\0\0\0\0\0\0\0\x03\0\0\0tag");
}
