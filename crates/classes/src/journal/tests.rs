use bytes::Bytes;
use codec::{Decode, Encode, Features};
use types::Errno;

use super::types::{Client, ObjectPosition, ObjectSetPosition, Tag};
use crate::test_view::TestView;

fn bytes<T: Encode>(value: T) -> Bytes {
    value.to_bytes(Features::PACIFIC)
}

fn journal() -> TestView {
    let mut view = TestView::default();
    let created = (24u8, (4u8, -1i64));
    view.call("journal", "create", bytes(created)).unwrap();
    assert_eq!(view.call("journal", "create", bytes(created)).unwrap_err(), Errno::EEXIST);
    view
}

fn register(view: &mut TestView, id: &str) {
    view.call("journal", "client_register", bytes((id.to_owned(), Bytes::from_static(b"data")))).unwrap();
}

fn commit(view: &mut TestView, id: &str, tag_tid: u64, entry_tid: u64) {
    let position = ObjectPosition { object_number: 0, tag_tid, entry_tid };
    let positions = ObjectSetPosition { object_positions: vec![position] };
    view.call("journal", "client_commit", bytes((id.to_owned(), positions))).unwrap();
}

fn create_tag(view: &mut TestView, tid: u64, class: u64) -> Result<Bytes, Errno> {
    view.call("journal", "tag_create", bytes((tid, class, Bytes::new())))
}

fn tags(view: &mut TestView, id: &str, class: Option<u64>) -> Vec<u64> {
    let input = bytes(((0u64, 10u64), (id.to_owned(), class)));
    let out = view.call("journal", "tag_list", input).unwrap();
    Vec::<Tag>::from_bytes(out).unwrap().iter().map(|tag| tag.tid).collect()
}

#[test]
fn sets_move_forward_only() {
    let mut view = journal();
    let set = |view: &mut TestView, name: &str, to: u64| view.call("journal", name, bytes(to)).err();
    assert_eq!(set(&mut view, "set_minimum_set", 1), Some(Errno::EINVAL));
    assert_eq!(set(&mut view, "set_active_set", 5), None);
    assert_eq!(set(&mut view, "set_minimum_set", 3), None);
    assert_eq!(set(&mut view, "set_minimum_set", 2), Some(Errno::ESTALE));
    assert_eq!(set(&mut view, "set_active_set", 4), Some(Errno::ESTALE));
    assert_eq!(set(&mut view, "set_active_set", 1), Some(Errno::EINVAL));
    let out = view.call("journal", "get_minimum_set", "").unwrap();
    assert_eq!(u64::from_bytes(out).unwrap(), 3);
}

#[test]
fn a_new_client_begins_where_the_slowest_is() {
    let mut view = journal();
    register(&mut view, "");
    register(&mut view, "b");
    commit(&mut view, "", 2, 7);
    commit(&mut view, "b", 2, 5);
    register(&mut view, "c");
    let out = view.call("journal", "get_client", bytes("c".to_owned())).unwrap();
    assert_eq!(Client::from_bytes(out).unwrap().commit_position.object_positions[0].entry_tid, 5);
    let out = view.call("journal", "client_list", bytes((String::new(), 10u64))).unwrap();
    let ids: Vec<Bytes> = Vec::<Client>::from_bytes(out).unwrap().into_iter().map(|c| c.id).collect();
    assert_eq!(ids, ["", "b", "c"]);
    let out = view.call("journal", "client_list", bytes(("b".to_owned(), 10u64))).unwrap();
    assert_eq!(Vec::<Client>::from_bytes(out).unwrap().len(), 1);
}

#[test]
fn tags_that_nobody_needs_expire() {
    let mut view = journal();
    register(&mut view, "a");
    register(&mut view, "b");
    create_tag(&mut view, 0, u64::MAX).unwrap();
    assert_eq!(create_tag(&mut view, 0, 0).unwrap_err(), Errno::EEXIST);
    assert_eq!(create_tag(&mut view, 2, 0).unwrap_err(), Errno::ESTALE);
    assert_eq!(create_tag(&mut view, 1, 1).unwrap_err(), Errno::EINVAL);
    create_tag(&mut view, 1, u64::MAX).unwrap();
    create_tag(&mut view, 2, 0).unwrap();
    assert_eq!((tags(&mut view, "a", None), tags(&mut view, "a", Some(1))), (vec![0, 1, 2], vec![1]));
    commit(&mut view, "a", 2, 1);
    assert_eq!(tags(&mut view, "a", None), [1, 2], "tag 0 ended when 2 of its class began");
    create_tag(&mut view, 3, 0).unwrap();
    assert_eq!(tags(&mut view, "b", None), [0, 1, 2, 3], "b has committed nothing");
    view.call("journal", "client_update_state", bytes(("b".to_owned(), 1u8))).unwrap();
    create_tag(&mut view, 4, 1).unwrap();
    assert_eq!(tags(&mut view, "b", None), [1, 2, 3, 4], "a disconnected client holds nothing back");
    commit(&mut view, "a", 4, 1);
    view.call("journal", "client_unregister", bytes("b".to_owned())).unwrap();
    register(&mut view, "c");
    assert_eq!(tags(&mut view, "c", None), [3, 4]);
}

/// A value that is read alone is refused otherwise than one of a list, and what is only looked for need not decode.
#[test]
fn what_cannot_be_decoded_has_the_errno_that_ceph_gives() {
    let mut view = journal();
    register(&mut view, "a");
    create_tag(&mut view, 0, u64::MAX).unwrap();
    commit(&mut view, "a", 0, 1);
    let a = || bytes("a".to_owned());
    let with_data = || bytes(("a".to_owned(), Bytes::new()));
    let with_state = || bytes(("a".to_owned(), 0u8));
    let positions = || bytes(("a".to_owned(), ObjectSetPosition::default()));
    let tag = || bytes((0u64, (0u64, Bytes::new())));
    let next_tag = || bytes((1u64, (0u64, Bytes::new())));
    let tag_list = || bytes(((0u64, 10u64), ("a".to_owned(), None::<u64>)));
    let clients = || bytes((String::new(), 10u64));
    let other = || bytes(("b".to_owned(), Bytes::new()));
    let cases: [(&str, &str, Bytes, Option<Errno>); 21] = [
        ("order", "get_order", Bytes::new(), Some(Errno::EINVAL)),
        ("order", "client_register", other(), Some(Errno::EINVAL)),
        ("order", "create", bytes((24u8, (4u8, -1i64))), Some(Errno::EEXIST)),
        ("splay_width", "client_commit", positions(), Some(Errno::EINVAL)),
        ("minimum_set", "set_active_set", bytes(1u64), Some(Errno::EINVAL)),
        ("next_tag_tid", "get_next_tag_tid", Bytes::new(), Some(Errno::EINVAL)),
        ("next_tag_class", "tag_create", next_tag(), Some(Errno::EINVAL)),
        ("client_a", "get_client", a(), Some(Errno::EINVAL)),
        ("client_a", "client_update_data", with_data(), Some(Errno::EINVAL)),
        ("client_a", "client_update_state", with_state(), Some(Errno::EINVAL)),
        ("client_a", "client_commit", positions(), Some(Errno::EINVAL)),
        ("client_a", "tag_list", tag_list(), Some(Errno::EINVAL)),
        ("client_a", "client_register", with_data(), Some(Errno::EEXIST)),
        ("client_a", "client_register", other(), Some(Errno::EIO)),
        ("client_a", "client_list", clients(), Some(Errno::EIO)),
        ("client_a", "tag_create", next_tag(), Some(Errno::EIO)),
        ("client_a", "client_unregister", a(), None),
        ("tag_0000000000000000", "get_tag", bytes(0u64), Some(Errno::EINVAL)),
        ("tag_0000000000000000", "tag_create", tag(), Some(Errno::EEXIST)),
        ("tag_0000000000000000", "tag_create", next_tag(), Some(Errno::EIO)),
        ("tag_0000000000000000", "tag_list", tag_list(), Some(Errno::EIO)),
    ];
    for (key, method, input, expected) in cases {
        let mut view = view.clone();
        let damaged = view.omap.insert(Bytes::from_static(key.as_bytes()), Bytes::new());
        assert!(damaged.is_some(), "{key}");
        assert_eq!(view.call("journal", method, input).err(), expected, "{method} with a bad {key}");
    }
    // A tag under the key of another keeps tags from expiring, and not from being listed.
    create_tag(&mut view, 1, 0).unwrap();
    commit(&mut view, "a", 1, 1);
    let other = view.omap[&b"tag_0000000000000001"[..]].clone();
    view.omap.insert(Bytes::from_static(b"tag_0000000000000000"), other);
    assert_eq!(tags(&mut view, "a", None), [1, 1]);
    assert_eq!(create_tag(&mut view, 2, 0).unwrap_err(), Errno::EINVAL);
}

#[test]
fn appends_are_padded_until_the_object_is_full() {
    let mut view = TestView::default();
    view.call("journal", "guard_append", bytes(10u64)).unwrap();
    view.call("journal", "append", bytes((8192u64, Bytes::from_static(b"one")))).unwrap();
    view.call("journal", "append", bytes((8192u64, Bytes::from_static(b"two")))).unwrap();
    assert_eq!(
        (view.data.len(), &view.data[..4], &view.data[4096..4099]),
        (8192, &b"one\0"[..], &b"two"[..])
    );
    let full = view.call("journal", "append", bytes((8192u64, Bytes::from_static(b"three"))));
    assert_eq!(full.unwrap_err(), Errno::EOVERFLOW);
    assert_eq!(view.call("journal", "guard_append", bytes(8192u64)).unwrap_err(), Errno::EOVERFLOW);
}
