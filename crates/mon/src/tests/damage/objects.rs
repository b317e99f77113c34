//! What `rbd_support` reads of images, tasks and schedules: clients may write anything into these objects.

use codec::{Codec, Encode};
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};
use types::{SnapId, UTime};

use super::*;

#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct Parent {
    pool: i64,
    nspace: String,
    image: String,
    snap: SnapId,
}

#[derive(Codec)]
#[codec(version = 2, compat = 1)]
struct Mirrored {
    global: String,
    state: u8,
    mode: u8,
}

#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct Snapshot {
    id: SnapId,
    kind: MirrorSnapshot,
    name: String,
    size: u64,
    stamp: UTime,
}

#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct MirrorSnapshot {
    kind: u32,
    state: u8,
}

#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct Migration {
    header_type: u8,
    pool: i64,
    nspace: String,
    image_name: String,
    image_id: String,
    snap_seqs: BTreeMap<u64, u64>,
    overlap: u64,
    flatten: bool,
    mirroring: bool,
    state: u8,
    state_description: String,
}

fn bytes(value: &impl Encode) -> Bytes {
    value.to_bytes(Features::PACIFIC)
}

fn pair(name: &str, value: &str) -> BTreeMap<String, String> {
    [(name.to_owned(), value.to_owned())].into()
}

/// An omap of one page.
fn omap(pairs: &[(String, String)]) -> Bytes {
    let pairs = pairs.iter().map(|(key, value)| (key.clone(), Bytes::from(value.clone())));
    bytes(&(pairs.collect::<BTreeMap<String, Bytes>>(), false))
}

const TASK: &str = r#"{"sequence": 1, "id": "t", "message": "Flattening image rbd/i", "refs": {"action": "flatten",
    "pool_name": "rbd", "pool_namespace": "", "image_name": "i", "image_id": "1a"}}"#;
const SCHEDULE: &str =
    r#"[{"interval": "1m", "start_time": null}, {"interval": "1d", "start_time": "01:00:00+02:00"}]"#;

/// What the objects of pool `rbd` answer: the image `i` of the id `1a`, a clone that is mirrored; the namespace `n`;
/// and what is to be done.
pub(super) fn answers() -> BTreeMap<&'static str, Bytes> {
    let text = |text: &str| bytes(&text.to_owned());
    let migration = Migration {
        header_type: 2,
        pool: 1,
        nspace: "n".to_owned(),
        image_name: "i".to_owned(),
        image_id: "2b".to_owned(),
        snap_seqs: [(1, 2)].into(),
        overlap: 3,
        flatten: false,
        mirroring: false,
        state: 2,
        state_description: String::new(),
    };
    let parent = Parent { pool: 1, nspace: String::new(), image: "p".to_owned(), snap: SnapId(1) };
    let kind = MirrorSnapshot { kind: 3, state: 0 };
    let snapshot = Snapshot { id: SnapId(4), kind, name: "s".to_owned(), size: 5, stamp: UTime::new(6, 0) };
    [
        ("get_id", text("1a")),
        ("get_snapcontext", bytes(&(4u64, vec![SnapId(4)]))),
        ("parent_get", bytes(&parent)),
        ("parent_overlap_get", bytes(&Some(4_096u64))),
        ("trash_get", text("x")),
        ("migration_get", bytes(&migration)),
        ("namespace_list", bytes(&vec!["n".to_owned()])),
        ("dir_list", bytes(&pair("i", "1a"))),
        ("dir_get_name", text("i")),
        ("mirror_mode_get", bytes(&1u32)),
        ("mirror_image_list", bytes(&pair("1a", "g"))),
        ("mirror_image_get", bytes(&Mirrored { global: "g".to_owned(), state: 1, mode: 1 })),
        ("snapshot_get", bytes(&snapshot)),
        ("rbd_task", omap(&[("0000000000000001".to_owned(), TASK.to_owned())])),
        ("rbd_trash_purge_schedule", omap(&[("1/n".to_owned(), SCHEDULE.to_owned())])),
        ("rbd_mirror_snapshot_schedule", omap(&[("1//1a".to_owned(), SCHEDULE.to_owned())])),
    ]
    .into()
}

const INTERVALS: &[&str] = &["1m", "36500d", "0", "18446744073709551615", "", "x", "1"];
const STARTS: &[&str] = &["23:59", "x", "", "10:00+-1", "00:00-23:59"];

/// Texts of tasks and schedules, as they are kept or damaged.
fn kept(text: &'static str) -> impl Strategy<Value = String> {
    prop_oneof![
        2 => Just(text.to_owned()),
        3 => vec(damage(), 1..4).prop_map(|damages| {
            let mut bytes = text.as_bytes().to_vec();
            damages.iter().for_each(|damage| damage.apply(&mut bytes));
            String::from_utf8_lossy(&bytes).into_owned()
        }),
        2 => (select(INTERVALS), select(STARTS))
            .prop_map(|(interval, start)| json!([{"interval": interval, "start_time": start}]).to_string()),
        1 => select(&["[]", "{}", "null", "[null]", "1e999", "[[[[", "\u{0}"][..]).prop_map(str::to_owned),
    ]
}

/// Keys of tasks and schedules.
const KEYS: &[&str] = &[
    "0000000000000001",
    "0000000000000002",
    "",
    "1",
    "1/",
    "1/n",
    "1//1a",
    "1/n/1a",
    "2/",
    "+1/n",
    "-1",
    "x/y/z",
    "9223372036854775808",
];

fn key() -> impl Strategy<Value = String> {
    select(KEYS).prop_map(str::to_owned)
}

fn pairs(text: &'static str) -> impl Strategy<Value = Bytes> {
    (vec((key(), kept(text)), 0..4), prop_oneof![9 => Just(false), 1 => Just(true)]).prop_map(
        |(pairs, more)| {
            let pairs: BTreeMap<String, Bytes> =
                pairs.into_iter().map(|(key, text)| (key, text.into())).collect();
            bytes(&(pairs, more))
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let add = |what: &str, spec: &str| format!(r#"{{"prefix":"rbd task add {what}","{spec}":"rbd/i"}}"#);
    let schedule = |what: &str, verb: &str, level: &str, more: &str| {
        format!(r#"{{"prefix":"rbd {what} schedule {verb}","level_spec":"{level}"{more}}}"#)
    };
    let interval = r#","interval":"1m","start_time":"01:00""#;
    let asks = vec![
        add("flatten", "image_spec"),
        add("remove", "image_spec"),
        add("trash remove", "image_id_spec"),
        add("migration execute", "image_spec"),
        add("migration abort", "image_spec"),
        schedule("trash purge", "add", "rbd/", interval),
        schedule("trash purge", "add", "", interval),
        schedule("trash purge", "list", "", ""),
        schedule("trash purge", "status", "rbd/n/", ""),
        schedule("trash purge", "remove", "rbd/n/", ""),
        schedule("mirror snapshot", "add", "rbd/i", interval),
        schedule("mirror snapshot", "list", "rbd/n/", ""),
        schedule("mirror snapshot", "status", "", ""),
        r#"{"prefix":"rbd task list"}"#.to_owned(),
        r#"{"prefix":"rbd task cancel","task_id":"t"}"#.to_owned(),
        r#"{"prefix":"rbd perf image stats"}"#.to_owned(),
        r#"{"prefix":"rbd perf image counters","pool_spec":"rbd/n"}"#.to_owned(),
        r#"{"prefix":"status"}"#.to_owned(),
        r#"{"prefix":"progress json"}"#.to_owned(),
    ];
    let ask = |json: String| Step::Ask(Ask { to: To::Mgr, json, input: Bytes::new() });
    prop_oneof![
        4 => select(asks).prop_map(ask),
        1 => Just(Step::Jump(Duration::from_secs(61))),
        1 => Just(Step::Pass(1)),
    ]
}

/// Answers with some damage.
fn damaged() -> impl Strategy<Value = BTreeMap<&'static str, Bytes>> {
    let damages = vec((any::<Index>(), damage()), 0..4);
    let kept = (pairs(TASK), pairs(SCHEDULE), pairs(SCHEDULE));
    (damages, proptest::option::of(kept)).prop_map(|(damages, kept)| {
        let mut all = answers();
        if let Some((tasks, purges, snapshots)) = kept {
            all.insert("rbd_task", tasks);
            all.insert("rbd_trash_purge_schedule", purges);
            all.insert("rbd_mirror_snapshot_schedule", snapshots);
        }
        let names: Vec<&str> = all.keys().copied().collect();
        for (which, damage) in damages {
            let name = names[which.index(names.len())];
            let mut bytes = all[name].to_vec();
            damage.apply(&mut bytes);
            all.insert(name, bytes.into());
        }
        all
    })
}

#[test]
fn undamaged_objects_are_understood() {
    let mut world = World::with(answers());
    world.step(&Step::Pass(2));
    let listed = world.cluster.json(r#"{"prefix":"osd stat"}"#);
    assert_eq!(listed["num_up_osds"], 3);
    for (prefix, text) in
        [("rbd trash purge schedule list", "rbd/n/"), ("rbd mirror snapshot schedule list", "rbd/i")]
    {
        let ask = MMgrCommand { cmd: vec![json!({"prefix": prefix}).to_string()], ..MMgrCommand::default() };
        let peer = world.cluster.peer(ADMIN);
        world.cluster.manage(&peer, ask);
        world.serve();
        let Some((_, Message::MMgrCommandReply(reply))) = world.cluster.managed.pop() else {
            panic!("{prefix}")
        };
        let listed: Value = serde_json::from_slice(&reply.output).unwrap();
        assert!(listed.to_string().contains(text), "{listed}");
    }
}

proptest! {
    #![proptest_config(::damage::cases(60))]

    #[test]
    fn whatever_objects_hold_is_an_answer(objects in damaged(), steps in vec(step(), 1..12)) {
        let mut world = World::with(objects);
        steps.iter().for_each(|step| world.step(step));
        world.end();
    }
}
