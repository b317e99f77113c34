use bytes::Bytes;
use codec::{Decode, Encode, Features};
use proptest::prelude::*;
use types::{Errno, SnapId, UTime};

use super::{bit_vector::BitVector, types::*};
use crate::test_view::TestView;

fn bytes<T: Encode>(value: T) -> Bytes {
    value.to_bytes(Features::PACIFIC)
}

fn image(features: u64) -> TestView {
    let mut view = TestView::default();
    view.context.now = UTime::new(1_700_000_000, 0);
    view.call("rbd", "create", bytes(((64u64 << 20, 22u8), (features, "rbd_data.1".to_owned())))).unwrap();
    view
}

/// Captured from Ceph 16.2.15: the map of a 64 MiB image with three objects written.
const MAP: &str = "0e0000000101080000001000000000000000540000000c000000e6b3c16e0100000029dfe039";

fn hex(text: &str) -> Bytes {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

#[test]
fn object_map_has_ceph_bytes() {
    let map = BitVector::from_bytes(hex(MAP)).unwrap();
    assert_eq!((map.len(), map.get(0), map.get(2), map.get(3)), (16, 1, 1, 0));
    assert_eq!(map.to_bytes(true), hex(MAP));
    assert_eq!(map.to_bytes(false), hex("0e00000001010800000010000000000000005400000000000000"));
    for end in 0..hex(MAP).len() {
        assert!(BitVector::from_bytes(hex(MAP).slice(..end)).is_err(), "{end}");
    }
}

#[test]
fn elements_of_an_object_map_are_set_and_compared_many_at_once() {
    let elements = |map: &BitVector| (0..map.len()).map(|at| map.get(at)).collect::<Vec<_>>();
    for (old, new) in (0..14).flat_map(|old| (0..14).map(move |new| (old, new))) {
        let mut map = BitVector::default();
        map.resize(14, 2);
        map.resize(old, 2);
        map.resize(new, 1);
        let expected: Vec<u8> = (0..new).map(|at| if at < old { 2 } else { 1 }).collect();
        assert_eq!(elements(&map), expected, "{old} {new}");
        for (first, value) in (0..=new).flat_map(|first| (0..6).map(move |value| (first, value))) {
            let are_all = expected[first as usize..].iter().all(|element| *element == value);
            assert_eq!(map.are_all(first, value), are_all, "{old} {new} {first} {value}");
        }
    }
}

#[test]
fn object_map_updates_are_written_as_a_save_would() {
    let mut view = TestView::default();
    view.call("rbd", "object_map_resize", bytes((40_000u64, 0u8))).unwrap();
    for (first, end, state, filter) in [
        (0u64, 1u64, 1u8, None),
        (16_383, 16_385, 1, Some(0u8)),
        (39_999, 40_000, 2, None),
        (0, 9, 3, Some(1)),
    ] {
        view.call("rbd", "object_map_update", bytes(((first, end), state, filter))).unwrap();
        let map = BitVector::from_bytes(Bytes::from(view.data.clone())).expect("crcs are right");
        assert_eq!(map.to_bytes(true), view.data);
    }
    let map = BitVector::from_bytes(Bytes::from(view.data.clone())).unwrap();
    assert_eq!([0, 1, 16_383, 16_384, 39_999].map(|i| map.get(i)), [3, 0, 1, 1, 2]);
    let out_of_range = bytes(((39_999u64, 40_001u64), 1u8, None::<u8>));
    assert_eq!(view.call("rbd", "object_map_update", out_of_range).unwrap_err(), Errno::ERANGE);
    assert_eq!(view.call("rbd", "object_map_resize", bytes((10u64, 0u8))).unwrap_err(), Errno::ESTALE);
}

/// An update costs what it changes, not the whole map.
#[test]
fn object_map_updates_look_at_nothing_but_what_they_change() {
    const COUNT: u64 = 40_000;
    let update = |view: &mut TestView, first: u64, end: u64| {
        view.call("rbd", "object_map_update", bytes(((first, end), 1u8, None::<u8>))).map(|_| ())
    };
    let sound = {
        let mut view = TestView::default();
        view.call("rbd", "object_map_resize", bytes((COUNT, 0u8))).unwrap();
        view
    };
    let damaged = |at: usize| {
        let mut view = sound.clone();
        view.data[at] ^= 1;
        view
    };
    // The second of three blocks, and its crc.
    for at in [18 + 5_000, 18 + 10_000 + 12 + 4] {
        let mut view = damaged(at);
        assert_eq!(update(&mut view, 0, 16_384), Ok(()));
        assert_eq!(update(&mut view, 32_768, COUNT), Ok(()));
        assert_eq!(update(&mut view, 16_383, 16_385), Err(Errno::EINVAL));
    }
    // The header's count. Its crc matters to those who read the whole map.
    assert_eq!(update(&mut damaged(17), 0, 1), Err(Errno::EINVAL));
    let mut view = damaged(18 + 10_000 + 4);
    assert_eq!((update(&mut view, 0, 1), view.data[18]), (Ok(()), 0x40));
    assert_eq!(view.call("rbd", "object_map_load", "").unwrap_err(), Errno::EINVAL);
    for len in [0, 17, 18, 5_000, 18 + 10_000, 18 + 10_000 + 11, sound.data.len() - 1] {
        let mut view = sound.clone();
        view.data.truncate(len);
        assert_eq!(update(&mut view, COUNT - 1, COUNT), Err(Errno::EINVAL), "{len}");
    }
    assert_eq!(update(&mut sound.clone(), 5, 5), Err(Errno::ERANGE));
    assert_eq!(update(&mut TestView::default(), 0, 1), Err(Errno::ENOENT));
    // A map without crcs stays one.
    let bare = BitVector::from_bytes(Bytes::from(sound.data)).unwrap().to_bytes(false);
    let mut view = TestView { exists: true, data: bare.to_vec(), ..TestView::default() };
    update(&mut view, 3, 5).unwrap();
    assert_eq!((view.data.len(), &view.data[18..20]), (bare.len(), &[1, 0x40][..]));
}

#[test]
fn an_object_map_has_a_crc_for_each_block() {
    let mut map = BitVector::default();
    map.resize(40_000, 0);
    let whole = map.to_bytes(true);
    let (front, footer) = whole.split_at(18 + 10_000);
    for count in 0..6u32 {
        let crcs: Vec<u8> = footer[12..].iter().copied().chain([0; 12]).take(count as usize * 4).collect();
        let footer = [&footer[4..8], &count.to_le_bytes(), &crcs].concat();
        let bytes = [front, &(footer.len() as u32).to_le_bytes(), &footer].concat();
        assert_eq!(BitVector::from_bytes(bytes.into()).is_ok(), count == 3, "{count}");
    }
}

/// An object map with these states.
fn stored_map(states: &[u8]) -> (TestView, Bytes) {
    let mut map = BitVector::default();
    map.resize(states.len() as u64, 0);
    (0..).zip(states).for_each(|(at, state)| map.set(at, *state));
    let view = TestView { exists: true, data: map.to_bytes(true).to_vec(), ..TestView::default() };
    (view, map.to_bytes(false))
}

proptest! {
    /// The whole of a large map is gone through in one turn, so not object by object.
    #[test]
    fn objects_change_as_one_after_the_other(
        states in prop::collection::vec(0u8..4, 1..70),
        snap in prop::collection::vec(0u8..4, 1..70),
        (start, end) in (0usize..70, 0usize..70),
        (state, filter) in (0u8..4, prop::option::of(0u8..4)),
    ) {
        let (first, end) = (start.min(end), start.max(end).min(states.len()));
        let call = |name: &str, input: Bytes, expected: Vec<u8>| {
            let (mut view, _) = stored_map(&states);
            let result = view.call("rbd", name, input);
            let map = BitVector::from_bytes(Bytes::from(view.data.clone())).unwrap();
            let found: Vec<u8> = (0..map.len()).map(|at| map.get(at)).collect();
            prop_assert_eq!(view.changes > 0, expected != states, "{}", name);
            prop_assert_eq!(&found, &expected, "{}", name);
            Ok(result)
        };
        let added = states.iter().map(|old| if *old == 1 { 3 } else { *old });
        prop_assert_eq!(call("object_map_snap_add", Bytes::new(), added.collect())?, Ok(Bytes::new()));
        let removed = states.iter().enumerate().map(|(at, old)| {
            let was_written = snap.get(at).is_none_or(|state| *state == 1);
            if *old == 3 && was_written { 1 } else { *old }
        });
        let snap = stored_map(&snap).1;
        prop_assert_eq!(call("object_map_snap_remove", snap, removed.collect())?, Ok(Bytes::new()));
        let matches = |old: u8| filter.is_none_or(|wanted| old == wanted || (wanted, old) == (1, 3));
        let updated = states.iter().enumerate().map(|(at, old)| {
            if (first..end).contains(&at) && matches(*old) { state } else { *old }
        });
        let input = bytes(((first as u64, end as u64), state, filter));
        let result = call("object_map_update", input, updated.collect())?;
        prop_assert_eq!(result, if first < end { Ok(Bytes::new()) } else { Err(Errno::ERANGE) });
    }
}

#[test]
fn an_image_without_an_order_has_no_stripe_unit() {
    let mut view = image(feature::STRIPINGV2);
    assert_eq!(view.call("rbd", "get_stripe_unit_count", "").unwrap(), bytes((4u64 << 20, 1u64)));
    view.omap.remove(&b"order"[..]);
    assert_eq!(view.call("rbd", "get_stripe_unit_count", "").unwrap_err(), Errno::EIO);
    let set = view.call("rbd", "set_stripe_unit_count", bytes((4096u64, 2u64)));
    assert_eq!(set.unwrap_err(), Errno::ENOENT);
}

#[test]
fn namespaces_are_listed_as_many_as_are_asked_for() {
    let mut view = TestView { exists: true, ..TestView::default() };
    for name in ["a", "b", "c"] {
        view.call("rbd", "namespace_add", bytes(name.to_owned())).unwrap();
    }
    let mut list = |after: &str, count: u64| {
        let out = view.call("rbd", "namespace_list", bytes((after.to_owned(), count))).unwrap();
        <Vec<Bytes>>::from_bytes(out).unwrap()
    };
    assert_eq!([list("", 0), list("", 1), list("", 2)].map(|names| names.len()), [0, 1, 2]);
    assert_eq!(list("a", 9), ["b", "c"]);
}

#[test]
fn features_guard_themselves() {
    let mut view = image(0x3d);
    let out = view.call("rbd", "get_features", bytes((SnapId::HEAD, true))).unwrap();
    assert_eq!(<(u64, u64)>::from_bytes(out).unwrap(), (0x3d, 1));
    assert_eq!(view.call("rbd", "set_features", bytes((1u64 << 8, 1u64 << 8))).unwrap_err(), Errno::EINVAL);
    assert_eq!(view.call("rbd", "set_features", bytes((0u64, 1u64))).unwrap_err(), Errno::EINVAL);
    view.call("rbd", "set_features", bytes((0u64, 8u64))).unwrap();
    let out = view.call("rbd", "get_features", bytes((SnapId::HEAD, false))).unwrap();
    assert_eq!(<(u64, u64)>::from_bytes(out).unwrap(), (0x35, 0x35));
    let again = bytes(((1u64, 22u8), (1u64, "x".to_owned())));
    assert_eq!(view.call("rbd", "create", again).unwrap_err(), Errno::EEXIST);
}

fn add(view: &mut TestView, name: &str, id: u64) -> Result<Bytes, Errno> {
    view.call("rbd", "snapshot_add", bytes((name.to_owned(), SnapId(id), SnapshotNamespace::default())))
}

#[test]
fn snapshots_come_and_go() {
    let mut view = image(1);
    add(&mut view, "a", 4).unwrap();
    assert_eq!(add(&mut view, "a", 5).unwrap_err(), Errno::EEXIST);
    assert_eq!(add(&mut view, "b", 3).unwrap_err(), Errno::ESTALE);
    add(&mut view, "b", 0x20).unwrap();
    let out = view.call("rbd", "get_snapcontext", "").unwrap();
    assert_eq!(<(u64, Vec<u64>)>::from_bytes(out).unwrap(), (0x20, vec![0x20, 4]));
    view.call("rbd", "set_protection_status", bytes((SnapId(4), 2u8))).unwrap();
    assert_eq!(view.call("rbd", "snapshot_remove", bytes(SnapId(4))).unwrap_err(), Errno::EBUSY);
    view.call("rbd", "set_protection_status", bytes((SnapId(4), 0u8))).unwrap();
    view.call("rbd", "snapshot_trash_add", bytes(SnapId(4))).unwrap();
    let out = view.call("rbd", "op_features_get", "").unwrap();
    assert_eq!(u64::from_bytes(out).unwrap(), op_feature::SNAP_TRASH);
    view.call("rbd", "snapshot_remove", bytes(SnapId(4))).unwrap();
    let out = view.call("rbd", "op_features_get", "").unwrap();
    assert_eq!(u64::from_bytes(out).unwrap(), 0);
    assert_eq!(view.call("rbd", "snapshot_set_limit", bytes(0u64)).unwrap_err(), Errno::ERANGE);
    view.call("rbd", "snapshot_set_limit", bytes(1u64)).unwrap();
    assert_eq!(add(&mut view, "c", 0x21).unwrap_err(), Errno::EDQUOT);
    view.call("rbd", "snapshot_set_limit", bytes(2u64)).unwrap();
    assert_eq!(add(&mut view, "b", 0x21).unwrap_err(), Errno::EEXIST, "before the limit is reached");
}

#[test]
fn a_snapshot_of_an_unknown_or_broken_kind_is_refused_first() {
    let fields = |kind, fields: Bytes| bytes(("s".to_owned(), SnapId(4), SnapshotNamespace { kind, fields }));
    let group = bytes((3i64, "group".to_owned(), "snap".to_owned()));
    // An object without snapshots: what is good gets as far as that.
    let mut view = TestView { exists: true, ..TestView::default() };
    let cases = [
        (namespace::USER, Bytes::new(), Errno::ENOENT),
        (namespace::GROUP, group.clone(), Errno::ENOENT),
        (namespace::GROUP, group.slice(..group.len() - 1), Errno::EINVAL),
        (namespace::TRASH, bytes("name".to_owned()), Errno::EINVAL),
        (namespace::MIRROR, Bytes::from_static(b"\0"), Errno::EINVAL),
        (4, group, Errno::EINVAL),
    ];
    for (kind, content, errno) in cases {
        assert_eq!(view.call("rbd", "snapshot_add", fields(kind, content)).unwrap_err(), errno, "{kind}");
    }
}

#[test]
fn a_clone_keeps_its_parent_while_snapshots_need_it() {
    let mut view = image(1);
    let spec = ParentSpec { pool_id: 2, image_id: "p".into(), snap_id: SnapId(9), ..ParentSpec::default() };
    view.call("rbd", "parent_attach", bytes((spec.clone(), 1u64 << 40))).unwrap();
    assert_eq!(view.call("rbd", "parent_attach", bytes((spec.clone(), 1u64))).unwrap_err(), Errno::EEXIST);
    let overlap = |view: &mut TestView, snap| {
        let out = view.call("rbd", "parent_overlap_get", bytes(snap)).unwrap();
        Option::<u64>::from_bytes(out).unwrap()
    };
    assert_eq!(overlap(&mut view, SnapId::HEAD), Some(64 << 20));
    view.call("rbd", "set_size", bytes(1u64 << 20)).unwrap();
    assert_eq!(overlap(&mut view, SnapId::HEAD), Some(1 << 20));
    add(&mut view, "s", 4).unwrap();
    view.call("rbd", "parent_detach", "").unwrap();
    assert_eq!((overlap(&mut view, SnapId::HEAD), overlap(&mut view, SnapId(4))), (None, Some(1 << 20)));
    assert_eq!(ParentSpec::from_bytes(view.call("rbd", "parent_get", "").unwrap()).unwrap(), spec);
    view.call("rbd", "snapshot_remove", bytes(SnapId(4))).unwrap();
    let gone = ParentSpec::from_bytes(view.call("rbd", "parent_get", "").unwrap()).unwrap();
    assert!(!gone.exists());
}

#[test]
fn the_directory_keeps_both_ways_in_step() {
    let mut view = TestView::default();
    let pair = |name: &str, id: &str| bytes((name.to_owned(), id.to_owned()));
    view.call("rbd", "dir_add_image", pair("one", "1a")).unwrap();
    assert_eq!(view.call("rbd", "dir_add_image", pair("one", "2b")).unwrap_err(), Errno::EEXIST);
    assert_eq!(view.call("rbd", "dir_add_image", pair("two", "1a")).unwrap_err(), Errno::EBADF);
    assert_eq!(view.call("rbd", "dir_add_image", pair("two", "no!")).unwrap_err(), Errno::EINVAL);
    let rename = |to: &str| bytes(("one".to_owned(), to.to_owned(), "1a".to_owned()));
    assert_eq!(view.call("rbd", "dir_rename_image", rename("one")).unwrap_err(), Errno::EEXIST);
    view.call("rbd", "dir_rename_image", rename("uno")).unwrap();
    let out = view.call("rbd", "dir_get_name", bytes("1a".to_owned())).unwrap();
    assert_eq!(String::from_bytes(out).unwrap(), "uno");
    assert_eq!(view.call("rbd", "dir_remove_image", pair("uno", "3c")).unwrap_err(), Errno::ENOENT);
    let out = view.call("rbd", "dir_list", bytes((String::new(), 10u64))).unwrap();
    assert_eq!(std::collections::BTreeMap::<String, String>::from_bytes(out).unwrap().len(), 1);
}

#[test]
fn copyup_writes_a_missing_object_only() {
    let mut view = TestView::default();
    let extents = std::collections::BTreeMap::from([(4u64, 2u64), (8, 1)]);
    let input = bytes((extents, Bytes::from_static(b"abc")));
    view.call("rbd", "sparse_copyup", input.clone()).unwrap();
    assert_eq!(view.data, b"\0\0\0\0ab\0\0c");
    view.data[4] = b'x';
    view.call("rbd", "sparse_copyup", input).unwrap();
    assert_eq!(view.data[4], b'x');
    view.data.extend_from_slice(&[0; 100]);
    view.call("rbd", "sparsify", bytes((109u64, true))).unwrap();
    assert_eq!(view.data.len(), 109, "one block with data stays whole");
    view.call("rbd", "sparsify", bytes((4u64, true))).unwrap();
    assert_eq!(view.data, b"\0\0\0\0xb\0\0c\0\0\0");
    // A size of zero is of no matter where there is nothing to look for.
    let zero = bytes((0u64, true));
    assert_eq!(view.call("rbd", "sparsify", zero.clone()).unwrap_err(), Errno::EINVAL);
    view.data = vec![0; 7];
    view.call("rbd", "sparsify", bytes((0u64, false))).unwrap();
    assert!(view.exists && view.data.is_empty());
    view.call("rbd", "sparsify", zero.clone()).unwrap();
    assert_eq!(view.call("rbd", "sparsify", zero).unwrap_err(), Errno::ENOENT);
}

#[test]
fn zeros_that_free_nothing_are_left_alone() {
    let sparsified = |data: Vec<u8>| {
        let mut view = TestView { exists: true, data: data.clone(), ..TestView::default() };
        view.call("rbd", "sparsify", bytes((1u64, false))).unwrap();
        let last = data.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        assert_eq!(view.data, data[..last]);
        view.changes
    };
    assert_eq!(sparsified([1, 0].repeat(10_000)), 1, "the last zero is cut off");
    for (zeros, changes) in [(4_095, 0), (4_096, 2)] {
        let gap = vec![0; zeros];
        assert_eq!(sparsified([&gap[..], b"x", &gap[..], b"y"].concat()), changes, "{zeros}");
    }
    assert_eq!(sparsified(vec![0; 10_000]), 1);
}

/// Observed with 16.2.15.
#[test]
fn of_extents_with_the_same_offset_the_first_counts() {
    let mut view = TestView::default();
    let input = bytes((vec![(0u64, 5u64), (0, 7), (9, 2)], Bytes::from_static(b"abcdefgh")));
    view.call("rbd", "sparse_copyup", input).unwrap();
    assert_eq!(view.data, b"abcde\0\0\0\0fg");
}

fn group_snap(id: &'static str, name: &'static str, state: u8) -> Bytes {
    bytes(GroupSnapshot { id: id.into(), name: name.into(), state, snaps: Vec::new() })
}

/// Keys and values as Ceph 20.2.4 keeps them.
#[test]
fn group_snapshots_are_numbered_in_the_order_of_their_creation() {
    let mut view = TestView { exists: true, ..TestView::default() };
    let set = |view: &mut TestView, id: &'static str, name: &'static str, state| {
        view.call("rbd", "group_snap_set", group_snap(id, name, state)).err()
    };
    assert_eq!((set(&mut view, "b", "one", 0), set(&mut view, "a", "two", 0)), (None, None));
    assert_eq!(set(&mut view, "b", "one", 0), Some(Errno::EEXIST));
    assert_eq!(set(&mut view, "c", "two", 0), Some(Errno::EEXIST));
    assert_eq!(set(&mut view, "b", "one", 1), None);
    let keys: Vec<&[u8]> = view.omap.keys().map(AsRef::as_ref).collect();
    let expected: [&[u8]; 5] =
        [b"snap_max_order", b"snap_order_a", b"snap_order_b", b"snapshot_a", b"snapshot_b"];
    assert_eq!(keys, expected);
    let list = |view: &mut TestView, after: &'static str, count_max: u64| {
        let out = view.call("rbd", "group_snap_list_order", bytes((after.to_owned(), count_max))).unwrap();
        std::collections::BTreeMap::<String, u64>::from_bytes(out).unwrap().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(list(&mut view, "", 9), [("a".to_owned(), 2), ("b".to_owned(), 1)]);
    assert_eq!(list(&mut view, "a", 9), [("b".to_owned(), 1)]);
    assert_eq!((list(&mut view, "", 1).len(), list(&mut view, "", 0).len()), (1, 0));
    view.call("rbd", "group_snap_remove", bytes("a".to_owned())).unwrap();
    assert_eq!(set(&mut view, "a", "two", 0), None);
    assert_eq!(list(&mut view, "", 1), [("a".to_owned(), 3)], "a number is not given twice");
}

#[test]
fn a_groups_images_are_named_by_keys() {
    let mut view = TestView { exists: true, ..TestView::default() };
    let status = |image_id: &'static str, pool_id, state| GroupImageStatus {
        spec: GroupImageSpec { image_id: image_id.into(), pool_id },
        state,
    };
    let all = [status("img", 3, 0), status("im_g", 18, 1)];
    for status in &all {
        view.call("rbd", "group_image_set", bytes(status.clone())).unwrap();
    }
    let stored: Vec<(&[u8], &[u8])> = view.omap.iter().map(|(k, v)| (k.as_ref(), v.as_ref())).collect();
    let expected: [(&[u8], &[u8]); 2] =
        [(b"image_0000000000000003_img", b"\0"), (b"image_0000000000000012_im_g", b"\x01")];
    assert_eq!(stored, expected);
    let first = GroupImageSpec { image_id: Bytes::new(), pool_id: -1 };
    let out = view.call("rbd", "group_image_list", bytes((first, 10u64))).unwrap();
    assert_eq!(Vec::<GroupImageStatus>::from_bytes(out).unwrap(), all);
    let out = view.call("rbd", "group_image_list", bytes((all[0].spec.clone(), 10u64))).unwrap();
    assert_eq!(Vec::<GroupImageStatus>::from_bytes(out).unwrap(), all[1..]);
}

#[test]
fn an_old_image_can_be_migrated_from() {
    const HEADER: &[u8] = b"<<< Rados Block Device Image >>>\n\0";
    let mut view = TestView { exists: true, data: b"junk".to_vec(), ..TestView::default() };
    let spec = |header_type| bytes(MigrationSpec { header_type, ..MigrationSpec::default() });
    let set = |view: &mut TestView, kind| view.call("rbd", "migration_set", spec(kind)).err();
    assert_eq!(view.call("rbd", "migration_get", "").unwrap_err(), Errno::ENXIO);
    view.data = [HEADER, &[7; 90]].concat();
    assert_eq!(view.call("rbd", "migration_get", "").unwrap_err(), Errno::EINVAL);
    assert_eq!((set(&mut view, 2), set(&mut view, 1)), (Some(Errno::EINVAL), None));
    assert_eq!(view.data[..34], b"<<< Migrating RBD Image      >>>\n\0"[..]);
    assert_eq!(set(&mut view, 1), Some(Errno::EEXIST));
    assert_eq!(view.call("rbd", "migration_get", "").unwrap(), spec(1));
    view.call("rbd", "migration_remove", "").unwrap();
    assert_eq!(view.data, [HEADER, &[7; 90]].concat());
    assert_eq!(view.call("rbd", "migration_remove", "").unwrap_err(), Errno::EINVAL);
    let mut absent = TestView::default();
    assert_eq!(set(&mut absent, 1), Some(Errno::ENXIO));
    assert_eq!(absent.call("rbd", "migration_remove", "").unwrap_err(), Errno::ENXIO);
}

#[test]
fn only_ids_go_to_the_trash() {
    let mut view = TestView::default();
    let add = |view: &mut TestView, id: &str| {
        view.call("rbd", "trash_add", bytes((id.to_owned(), TrashImageSpec::default()))).err()
    };
    assert_eq!((add(&mut view, "_a"), add(&mut view, "")), (Some(Errno::EINVAL), Some(Errno::EINVAL)));
    assert_eq!((add(&mut view, "1a"), add(&mut view, "1a")), (None, Some(Errno::EEXIST)));
}

#[test]
fn old_headers_keep_their_snapshots_newest_first() {
    let mut header = b"<<< Rados Block Device Image >>>\n".to_vec();
    header.resize(112, 0);
    header[80..88].copy_from_slice(&(5u64 << 20).to_le_bytes());
    let mut view = TestView { exists: true, data: header.clone(), ..TestView::default() };
    let add = |view: &mut TestView, name: &str, id: u64| {
        view.call("rbd", "snap_add", bytes((name.to_owned(), SnapId(id)))).err()
    };
    assert_eq!((add(&mut view, "one", 3), add(&mut view, "second", 7)), (None, None));
    assert_eq!(
        (add(&mut view, "x", 6), add(&mut view, "one", 8)),
        (Some(Errno::ESTALE), Some(Errno::EEXIST))
    );
    assert_eq!(
        view.data[112..],
        [bytes((7u64, 5u64 << 20)), bytes((3u64, 5u64 << 20)), "second\0one\0".into()].concat()
    );
    assert_eq!(view.call("rbd", "snapshot_set_limit", bytes(1u64)).unwrap_err(), Errno::ERANGE);
    view.call("rbd", "snapshot_set_limit", bytes(2u64)).unwrap();
    assert_eq!(add(&mut view, "x", 9), Some(Errno::EDQUOT));
    view.call("rbd", "snap_rename", bytes((SnapId(7), "two".to_owned()))).unwrap();
    assert_eq!(view.call("rbd", "snap_remove", bytes("second".to_owned())).unwrap_err(), Errno::ENOENT);
    view.call("rbd", "snap_remove", bytes("one".to_owned())).unwrap();
    let expected = [bytes((7u64, 1u32)), bytes((7u64, 5u64 << 20)), bytes("two".to_owned())].concat();
    assert_eq!(view.call("rbd", "snap_list", "").unwrap(), expected);
    view.call("rbd", "snap_remove", bytes("two".to_owned())).unwrap();
    assert_eq!((view.data.len(), view.data[88]), (112, 7));
    view.data = b"no header".to_vec();
    assert_eq!(view.call("rbd", "snap_list", "").unwrap_err(), Errno::EINVAL);
    let mut absent = TestView::default();
    let one = "one".to_owned();
    assert_eq!(add(&mut absent, "one", 3), Some(Errno::EINVAL));
    assert_eq!(absent.call("rbd", "snap_remove", bytes(one.clone())).unwrap_err(), Errno::EINVAL);
    assert_eq!(absent.call("rbd", "snap_rename", bytes((SnapId(3), one))).unwrap_err(), Errno::EINVAL);
}

/// As C++ strings, they hold any bytes.
#[test]
fn names_need_not_be_utf8() {
    let mut view = image(feature::LAYERING);
    let name = |text: &'static [u8]| Bytes::from_static(text);
    view.call("rbd", "snapshot_add", bytes((name(b"\xff"), 1u64))).unwrap();
    view.call("rbd", "snapshot_rename", bytes((1u64, name(b"\xfe")))).unwrap();
    let info = SnapshotInfo::from_bytes(view.call("rbd", "snapshot_get", bytes(1u64)).unwrap()).unwrap();
    assert_eq!(info.name, name(b"\xfe"));
    let spec = GroupImageSpec { image_id: name(b"_\xff"), pool_id: 7 };
    let status = GroupImageStatus { spec, state: 1 };
    view.call("rbd", "group_image_set", bytes(status.clone())).unwrap();
    let first = GroupImageSpec { image_id: Bytes::new(), pool_id: -1 };
    let listed = view.call("rbd", "group_image_list", bytes((first, 9u64))).unwrap();
    assert_eq!(Vec::<GroupImageStatus>::from_bytes(listed).unwrap(), [status]);
}

#[test]
fn an_image_that_is_in_its_group_already_stays_as_it_is() {
    let mut view = image(0);
    let group = |id: &'static str| bytes(GroupSpec { group_id: id.into(), pool_id: 3 });
    view.call("rbd", "image_group_add", group("g")).unwrap();
    let changes = view.changes;
    view.call("rbd", "image_group_add", group("g")).unwrap();
    assert_eq!(view.changes, changes);
    assert_eq!(view.call("rbd", "image_group_add", group("h")).unwrap_err(), Errno::EEXIST);
    assert_eq!(view.call("rbd", "image_group_remove", group("h")).unwrap_err(), Errno::EBADF);
    assert_eq!(view.call("rbd", "image_group_get", "").unwrap(), group("g"));
    // Ceph tells what is no group from what cannot be read.
    view.omap.insert("rbd_group_ref".into(), "?".into());
    for (method, input) in [
        ("image_group_add", group("g")),
        ("image_group_remove", group("g")),
        ("image_group_get", Bytes::new()),
    ] {
        assert_eq!(view.call("rbd", method, input).unwrap_err(), Errno::EINVAL, "{method}");
    }
    view.omap.remove(&b"rbd_group_ref"[..]);
    assert_eq!(view.call("rbd", "image_group_remove", group("g")).unwrap_err(), Errno::ENOENT);
}

/// A newer client may have put it there in a form of its own.
#[test]
fn what_the_trash_has_of_an_image_is_given_back_as_it_is() {
    let mut view = TestView { exists: true, ..TestView::default() };
    let (id, spec) = (bytes("1a".to_owned()), Bytes::from_static(b"in a form of its own"));
    view.omap.insert("id_1a".into(), spec.clone());
    assert_eq!(view.call("rbd", "trash_get", id.clone()).unwrap(), spec);
    view.call("rbd", "trash_remove", id.clone()).unwrap();
    for method in ["trash_get", "trash_remove"] {
        assert_eq!(view.call("rbd", method, id.clone()).unwrap_err(), Errno::ENOENT);
    }
}
