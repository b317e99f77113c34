//! Methods over damaged objects, and with any input: a refusal or an answer, never a panic, and no more work than there
//! is to look at.

use std::collections::{BTreeMap, BTreeSet};

use ::damage::Damage;
use bytes::Bytes;
use codec::{Encode, Features, encode_envelope};
use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
};
use types::{HObject, UTime};

use crate::{registry, test_view::TestView};

/// A call that goes well: class, method, input.
type Call = (&'static str, &'static str, Bytes);

/// Bytes as they are.
struct Raw(Bytes);

impl Encode for Raw {
    fn encode(&self, out: &mut Vec<u8>, _: Features) {
        out.extend_from_slice(&self.0);
    }
}

fn bytes(value: impl Encode) -> Bytes {
    value.to_bytes(Features::PACIFIC)
}

fn env_of(version: u8, fields: impl Encode) -> Raw {
    let mut out = Vec::new();
    encode_envelope(&mut out, version, 1, |out| fields.encode(out, Features::PACIFIC));
    Raw(out.into())
}

fn env(fields: impl Encode) -> Raw {
    env_of(1, fields)
}

fn text(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn rbd(name: &'static str, input: impl Encode) -> Call {
    ("rbd", name, bytes(input))
}

fn image() -> Vec<Call> {
    let peers = BTreeSet::from([text("p"), text("q")]);
    let mirrored = ((2u8, true, peers), (text("u"), 3u64, 0u64), BTreeMap::from([(3u64, 4u64)]));
    let migration = (
        (1u8, 5i64, text("ns")),
        (text("name"), text("id"), BTreeMap::from([(1u64, 2u64)])),
        ((0u64, false, false), 0u8, text("why")),
    );
    vec![
        rbd("create", ((64u64 << 20, 22u8), (0x3du64, text("rbd_data.1")))),
        rbd("parent_attach", (env((2i64, text("ns"), (text("p"), 9u64))), 1u64 << 20)),
        rbd("snapshot_add", (text("a"), 4u64)),
        rbd("snapshot_add", (text("m"), 5u64, env((3u32, mirrored)))),
        rbd("snapshot_add", (text("t"), 6u64)),
        rbd("snapshot_trash_add", 6u64),
        rbd("child_attach", (4u64, env((1i64, text("c"))))),
        rbd("child_attach", (4u64, env((1i64, text("d"))))),
        rbd("child_detach", (4u64, env((1i64, text("d"))))),
        rbd("snapshot_rename", (4u64, text("b"))),
        rbd("mirror_image_snapshot_set_copy_progress", (5u64, true, 9u64)),
        rbd("mirror_image_snapshot_unlink_peer", (5u64, text("p"))),
        rbd("metadata_set", BTreeMap::from([(text("k"), text("v"))])),
        rbd("image_group_add", env((3i64, text("g")))),
        rbd("snapshot_set_limit", 9u64),
        rbd("migration_set", env(migration)),
        rbd("set_flags", (1u64, 1u64, 4u64)),
        rbd("set_size", 1u64 << 19),
    ]
}

fn pool() -> Vec<Call> {
    let peer = env((text("u"), text("east"), (text("client.m"), -1i64)));
    let status = env(((4u8, text("well")), (UTime::default(), false)));
    let remote = env_of(2, (text("u"), (3u8, text("well")), (UTime::default(), false)));
    vec![
        rbd("dir_add_image", (text("one"), text("1a"))),
        rbd("dir_rename_image", (text("one"), text("two"), text("1a"))),
        rbd("namespace_add", text("ns")),
        rbd("trash_add", (text("2b"), env((0u8, text("two"), (UTime::default(), UTime::default()))))),
        rbd("add_child", ((1u64, text("p"), 4u64), text("c"))),
        rbd("group_image_set", env((env((text("img"), 3i64)), 0u8))),
        rbd("group_snap_set", env((text("s"), text("name"), (0u8, 0u32)))),
        rbd("mirror_uuid_set", text("here")),
        rbd("mirror_mode_set", 2u32),
        rbd("mirror_peer_add", peer),
        rbd("mirror_peer_ping", (text("north"), text("v"), 1u8)),
        rbd("mirror_image_set", (text("1"), env((text("g"), 1u8)))),
        rbd("mirror_image_status_set", (text("g"), status)),
        rbd("mirror_image_status_set", (text("g"), remote)),
        rbd("mirror_instances_add", text("i")),
        rbd("mirror_image_map_update", (text("g"), env((text("i"), UTime::default(), text("d"))))),
    ]
}

fn object_map() -> Vec<Call> {
    let update = |first: u64, end: u64, state: u8| ((first, end), state, None::<u8>);
    vec![
        rbd("object_map_resize", (40_000u64, 0u8)),
        rbd("object_map_update", update(3, 40, 1)),
        rbd("object_map_update", update(16_380, 16_390, 2)),
        rbd("object_map_snap_add", Raw(Bytes::new())),
        rbd("sparsify", (4_096u64, false)),
    ]
}

fn old_image() -> Vec<Call> {
    vec![rbd("snap_add", (text("one"), 3u64)), rbd("snap_rename", (3u64, text("two")))]
}

fn attributes() -> Vec<Call> {
    let lock = (text("n"), 1u8, (text("c"), text("t"), (text("d"), UTime::default(), 0u8)));
    let call = |class, name, input: Raw| (class, name, input.0);
    vec![
        ("hello", "record_hello", text("x")),
        call("lock", "lock", env(lock)),
        call("refcount", "get", env((text("t"), true))),
        call("version", "set", env(env((1u64, text("t"))))),
        call(
            "version",
            "inc_conds",
            env((env((1u64, text("t"))), (1u32, env((env((1u64, text("t"))), 1u32))))),
        ),
        call("cas", "chunk_create_or_get_ref", env((HObject::default(), 0u64, text("x")))),
        ("numops", "add", bytes((text("k"), text("1.5")))),
        call("sem_set", "increment", env(vec![text("k"), text("k")])),
        call("sem_set", "decrement", env((vec![text("k")], UTime::default()))),
        call("user", "set_buckets_info", env((1u32, buckets(), (true, UTime::new(60, 0))))),
    ]
}

fn buckets() -> Raw {
    let bucket = env_of(9, ((text("b"), text("m")), (text("id"), text("pl"))));
    env_of(7, ((text(""), 10u64, 0u32), (3u64, bucket, 20u64), (true, UTime::default())))
}

fn times() -> Vec<Call> {
    let call = |class, name, input: Raw| (class, name, input.0);
    vec![
        call("log", "add", env((1u32, env((text("s"), text("n"), (UTime::new(5, 0), text("d"))))))),
        call("timeindex", "add", env((1u32, env((UTime::new(5, 0), text("x"), text("v")))))),
    ]
}

fn accounts() -> Vec<Call> {
    let resource = env((text("name"), text("path"), text("data")));
    vec![("user", "account_resource_add", env((resource, true, 9u32)).0)]
}

fn journal() -> Vec<Call> {
    let position = env((1u32, env((0u64, 0u64, 1u64))));
    let journal = |name, input: Bytes| ("journal", name, input);
    vec![
        journal("create", bytes((14u8, 4u8, 1i64))),
        journal("client_register", bytes((text("c"), text("d")))),
        journal("tag_create", bytes((0u64, u64::MAX, text("data")))),
        journal("tag_create", bytes((1u64, 0u64, text("data")))),
        journal("client_commit", bytes((text("c"), position))),
        journal("tag_list", bytes(((0u64, 9u64), (text("c"), None::<u64>)))),
        journal("append", bytes((1u64 << 20, text("entry")))),
    ]
}

fn queue() -> Vec<Call> {
    let queue = |name, input: Raw| ("queue", name, input.0);
    vec![
        queue("queue_init", env((40u64, 0u64, text("")))),
        queue("queue_enqueue", env(vec![text("one"), text("two")])),
        queue("queue_list_entries", env((9u64, text("")))),
        queue("queue_remove_entries", env(text("0/1037"))),
        queue("queue_enqueue", env(vec![text("abcde")])),
    ]
}

fn two_phase_queue() -> Vec<Call> {
    let queue = |name, input: Raw| ("2pc_queue", name, input.0);
    vec![
        queue("2pc_queue_init", env((1_000u64, 0u64, text("")))),
        queue("2pc_queue_reserve", env((10u64, 2u32))),
        queue("2pc_queue_commit", env((1u32, vec![text("a"), text("b")]))),
        queue("2pc_queue_reserve", env((10u64, 2u32))),
        queue("2pc_queue_remove_entries", env(text("0/24587"))),
    ]
}

static SCRIPTS: [fn() -> Vec<Call>; 10] =
    [image, pool, object_map, old_image, attributes, times, accounts, journal, queue, two_phase_queue];

/// The object after a script's calls.
fn object(calls: Vec<Call>) -> TestView {
    let mut view = TestView::default();
    view.context.now = UTime::new(1_700_000_000, 0);
    // Only greetings are for an object that is not there.
    view.exists = calls[0].0 != "hello";
    if calls[0].1 == "snap_add" {
        view.data = b"<<< Rados Block Device Image >>>\n".to_vec();
        view.data.resize(112, 0);
    }
    for (class, name, input) in calls {
        let result = view.call(class, name, input);
        assert!(result.is_ok(), "{class}.{name}: {result:?}");
    }
    view
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(u64::MAX), Just(u64::from(u32::MAX)), Just(1 << 63), 0u64..20, any::<u64>()]
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        4 => (any::<Index>(), any::<u8>()).prop_map(|(at, value)| Damage::Byte(at, value)),
        2 => (any::<Index>(), number()).prop_map(|(at, value)| Damage::Number(at, value, 8)),
        2 => number().prop_map(Damage::First),
        1 => any::<Index>().prop_map(Damage::Cut),
    ]
}

/// What scripts name things, and some of what they do not.
const NAMES: &[&str] = &["", "a", "b", "c", "g", "i", "k", "n", "t", "u", "1a", "two", "0/1024", "zz"];

/// A part of an input.
fn field() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        number().prop_map(|number| number.to_le_bytes().to_vec()),
        (0u32..5).prop_map(|number| number.to_le_bytes().to_vec()),
        (0u8..5).prop_map(|number| vec![number]),
        select(NAMES).prop_map(|name| bytes(text(name)).to_vec()),
        vec(any::<u8>(), 0..20),
    ]
}

/// Damages some of the object's data, xattrs and omap, keys included.
fn damage_object(view: &mut TestView, damages: &[(Index, Damage)]) {
    let pairs = |map: &BTreeMap<Bytes, Bytes>| {
        map.iter().flat_map(|(key, value)| [key.to_vec(), value.to_vec()]).collect::<Vec<_>>()
    };
    let (xattrs, omap) = (pairs(&view.xattrs), pairs(&view.omap));
    let omap_at = 2 + xattrs.len();
    let mut parts = [vec![view.data.clone(), view.header.to_vec()], xattrs, omap].concat();
    for (part, damage) in damages {
        let part = part.index(parts.len());
        damage.apply(&mut parts[part]);
    }
    let map = |parts: &[Vec<u8>]| {
        let pair = |pair: &[Vec<u8>]| (Bytes::from(pair[0].clone()), Bytes::from(pair[1].clone()));
        parts.chunks(2).map(pair).collect::<BTreeMap<_, _>>()
    };
    (view.data, view.header) = (parts[0].clone(), parts[1].clone().into());
    (view.xattrs, view.omap) = (map(&parts[2..omap_at]), map(&parts[omap_at..]));
}

/// Calls a method of an object like this one.
fn check(view: &TestView, (class, name): (&str, &str), input: Bytes) {
    let mut view = TestView { read_bytes: 0, changes: 0, ..view.clone() };
    let given = input.len() as u64;
    if let Ok(output) = view.call(class, name, input) {
        let seen = given + view.read_bytes;
        assert!(output.len() as u64 <= 2_048 + 8 * seen, "{class}.{name} answers much for little");
        assert!(view.changes as u64 <= 16 + seen, "{class}.{name} changes much for little");
    }
}

#[test]
fn what_is_damaged_is_sound_before() {
    SCRIPTS.iter().for_each(|script| drop(object(script())));
}

/// Numbers that random damage hardly meets.
#[test]
fn counters_at_the_end_of_their_range_begin_anew() {
    let mut view = object(journal());
    for counter in ["next_tag_tid", "next_tag_class"] {
        view.omap.insert(text(counter), bytes(u64::MAX));
    }
    view.call("journal", "tag_create", bytes((u64::MAX, u64::MAX, text("data")))).unwrap();
    for counter in ["next_tag_tid", "next_tag_class"] {
        assert_eq!(view.omap[&text(counter)], bytes(0u64));
    }

    let mut view = object(image());
    let kept = view.omap[&b"snapshot_0000000000000004"[..]].to_vec();
    let at = kept.windows(4).rposition(|count| count == 1u32.to_le_bytes()).unwrap();
    let full = [&kept[..at], &[0xff; 4], &kept[at + 4..]].concat();
    view.omap.insert(text("snapshot_0000000000000004"), full.into());
    view.call("rbd", "child_attach", bytes((4u64, env((1i64, text("e")))))).unwrap();
}

proptest! {
    #![proptest_config(::damage::cases(300))]

    #[test]
    fn methods_end_whatever_they_find_and_are_given(
        script in select(&SCRIPTS[..]),
        damages in vec((any::<Index>(), damage()), 0..10),
        fields in vec(field(), 0..6),
        is_enveloped: bool,
        input_damages in vec(damage(), 0..3),
    ) {
        let mut view = object(script());
        damage_object(&mut view, &damages);
        let given = match is_enveloped {
            true => env(Raw(fields.concat().into())).0,
            false => fields.concat().into(),
        };
        for method in registry::all() {
            check(&view, (method.class, method.name), given.clone());
        }
        for (class, name, input) in SCRIPTS.iter().flat_map(|script| script()) {
            let mut input = input.to_vec();
            input_damages.iter().for_each(|damage| damage.apply(&mut input));
            check(&view, (class, name), input.into());
        }
    }
}
