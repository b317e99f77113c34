//! Tasks and schedules of the manager's module `rbd_support`, over objects that are made up.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use codec::{Decode, Encode, Features};
use messages::{ImageCounts, ImageKey, MMgrCommand, MMgrCommandReply, MOSDImageStats, Message, OpCode};
use serde_json::Value;
use types::{EntityName, Errno, OsdId, PoolId, SnapId};

use super::cluster::{ADMIN, Cluster, addr};
use crate::{ConnId, Event, ObjectRequest, Peer, RunId};

/// A cluster whose pool has the images `child` (a clone), `plain` and, in the trash, the id `t1`.
struct World {
    cluster: Cluster,
    omaps: BTreeMap<(String, String), BTreeMap<String, Bytes>>,
    images: Vec<&'static str>,
    /// Nothing in it is answered.
    silent: Option<PoolId>,
    /// Keys cannot be removed.
    is_read_only: bool,
    /// Images were removed, and made anew.
    are_images_new: bool,
    /// Images that are mirrored, by number.
    mirrored: u64,
    /// What was asked for at a time, at most.
    peak: usize,
}

#[derive(codec::Codec)]
#[codec(version = 1, compat = 1)]
struct Parent {
    pool: i64,
    nspace: String,
    image: String,
    snap: SnapId,
}

#[derive(codec::Codec)]
#[codec(version = 2, compat = 1)]
struct Mirrored {
    global: String,
    state: u8,
    mode: u8,
}

#[derive(codec::Codec)]
#[codec(version = 1, compat = 1)]
struct Snapshot {
    id: SnapId,
    kind: MirrorSnapshot,
}

#[derive(codec::Codec)]
#[codec(version = 1, compat = 1)]
struct MirrorSnapshot {
    kind: u32,
    state: u8,
}

fn bytes(value: &impl Encode) -> Bytes {
    value.to_bytes(Features::PACIFIC)
}

impl World {
    fn new() -> World {
        let mut cluster = Cluster::with_rbd();
        cluster.mon.set_manager(addr(6800));
        let mut world = World {
            cluster,
            omaps: BTreeMap::new(),
            images: vec!["child", "plain"],
            silent: None,
            is_read_only: false,
            are_images_new: false,
            mirrored: 0,
            peak: 0,
        };
        world.pass(1);
        world
    }

    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.cluster.pass(Duration::from_secs(1));
            self.serve();
        }
    }

    /// Answers what is asked of objects until nothing is.
    fn serve(&mut self) {
        let is_silent = |pool, silent| Some(pool) == silent;
        while let Some(at) = self.cluster.objects.iter().position(|(_, r)| !is_silent(r.pool, self.silent)) {
            self.peak = self.peak.max(self.cluster.objects.len());
            let (token, request) = self.cluster.objects.remove(at);
            let answer = self.answer(&request);
            self.cluster.event(Event::ObjectsDone(token, answer));
        }
    }

    fn answer(&mut self, request: &ObjectRequest) -> Result<Bytes, Errno> {
        let op = &request.ops[0];
        let at = (request.nspace.clone(), request.oid.clone());
        match op.code {
            OpCode::OMAPGETVALS => {
                let pairs = self.omaps.get(&at).ok_or(Errno::ENOENT)?;
                Ok(bytes(&(pairs.clone(), false)))
            }
            OpCode::OMAPSETVALS => {
                let pairs: BTreeMap<String, Bytes> = Decode::from_bytes(op.data.clone()).unwrap();
                self.omaps.entry(at).or_default().extend(pairs);
                Ok(Bytes::new())
            }
            OpCode::OMAPRMKEYS if self.is_read_only => Err(Errno::EIO),
            OpCode::OMAPRMKEYS => {
                let keys: Vec<String> = Decode::from_bytes(op.data.clone()).unwrap();
                let pairs = self.omaps.get_mut(&at).ok_or(Errno::ENOENT)?;
                keys.iter().for_each(|key| drop(pairs.remove(key)));
                Ok(Bytes::new())
            }
            _ => {
                let (method, input) = op.data[3..].split_at(usize::from(op.params.u8_at(1)));
                self.call(std::str::from_utf8(method).unwrap(), &request.oid, input)
            }
        }
    }

    fn call(&self, method: &str, oid: &str, input: &[u8]) -> Result<Bytes, Errno> {
        let name = oid.split_once('.').map_or("", |(_, name)| name);
        let is_there = self.images.contains(&name);
        let mirrored = (1..=self.mirrored).map(|n| format!("m{n:04}"));
        match method {
            "get_id" if is_there && self.are_images_new => Ok(bytes(&format!("{name}-2"))),
            "get_id" if is_there => Ok(bytes(&name.to_owned())),
            "mirror_image_list" | "dir_list" => {
                Ok(bytes(&mirrored.map(|id| (id.clone(), id)).collect::<BTreeMap<_, _>>()))
            }
            "dir_get_name" => Ok(Bytes::copy_from_slice(input)),
            "namespace_list" => {
                let (after, max): (String, u64) = Decode::from_bytes(Bytes::copy_from_slice(input)).unwrap();
                let kept = self.omaps.get(&(String::new(), oid.to_owned())).ok_or(Errno::ENOENT)?;
                let names = kept.keys().filter(|name| **name > after).take(max as usize);
                Ok(bytes(&names.cloned().collect::<Vec<String>>()))
            }
            "mirror_image_get" => Ok(bytes(&Mirrored { global: String::new(), state: 1, mode: 1 })),
            "get_snapcontext" if name.starts_with('m') => Ok(bytes(&(1u64, vec![SnapId(1)]))),
            "snapshot_get" => {
                Ok(bytes(&Snapshot { id: SnapId(1), kind: MirrorSnapshot { kind: 3, state: 0 } }))
            }
            "get_snapcontext" if is_there => Ok(bytes(&(0u64, Vec::<SnapId>::new()))),
            "parent_get" => Ok(bytes(&Parent {
                pool: if name == "child" { 1 } else { -1 },
                nspace: String::new(),
                image: "p".to_owned(),
                snap: SnapId(1),
            })),
            "parent_overlap_get" => Ok(bytes(&Some(4096u64))),
            "trash_get" => Ok(Bytes::from_static(b"x")),
            _ => Err(Errno::ENOENT),
        }
    }

    fn ask_as(&mut self, peer: &Peer, command: &str) -> MMgrCommandReply {
        let command = MMgrCommand { cmd: vec![command.to_owned()], ..MMgrCommand::default() };
        let before = self.cluster.managed.len();
        self.cluster.manage(peer, command);
        self.serve();
        match self.cluster.managed[before..].first() {
            Some((_, Message::MMgrCommandReply(reply))) => MMgrCommandReply::clone(reply),
            other => panic!("{other:?}"),
        }
    }

    fn ask(&mut self, command: &str) -> MMgrCommandReply {
        let admin = self.cluster.peer(ADMIN);
        self.ask_as(&admin, command)
    }

    fn text(&mut self, command: &str) -> String {
        let reply = self.ask(command);
        assert_eq!(reply.result, 0, "{command}: {}", reply.status);
        String::from_utf8(reply.output.to_vec()).unwrap()
    }

    /// Makes these namespaces.
    fn name_spaces(&mut self, names: impl IntoIterator<Item = String>) {
        let at = (String::new(), "rbd_namespace".to_owned());
        self.omaps.entry(at).or_default().extend(names.into_iter().map(|name| (name, Bytes::new())));
    }

    /// How many schedules of trash purges are known.
    fn purge_schedules(&mut self) -> usize {
        let listed = self.text(r#"{"prefix":"rbd trash purge schedule list"}"#);
        serde_json::from_str::<Value>(&listed).unwrap().as_object().unwrap().len()
    }

    fn tasks(&mut self) -> Vec<Value> {
        serde_json::from_str(&self.text(r#"{"prefix":"rbd task list"}"#)).unwrap()
    }

    fn last_run(&self) -> (RunId, Option<String>) {
        self.cluster.runs.last().cloned().expect("something runs")
    }
}

const FLATTEN: &str = r#"{"prefix":"rbd task add flatten","image_spec":"rbd/child"}"#;

#[test]
fn metrics_tell_of_the_images_of_chosen_pools() {
    let mut world = World::new();
    world.mirrored = 2;
    let set = |world: &mut World, name: &str, value: &str| {
        let name = format!("mgr/prometheus/{name}");
        let set = serde_json::json!({"prefix": "config set", "who": "mgr", "name": name, "value": value});
        world.cluster.ok(&set.to_string());
        world.pass(6);
    };
    let write = |world: &mut World, nspace: &str, id: &str| {
        let key = ImageKey { pool: PoolId(1), nspace: nspace.to_owned(), id: id.to_owned() };
        let counts =
            ImageCounts { writes: 2, write_bytes: 4096, write_ns: 500, reads: 1, ..Default::default() };
        let osd = OsdId(1);
        world.cluster.say(Cluster::osd_conn(1), MOSDImageStats { osd, images: [(key, counts)].into() });
    };
    let shown = |world: &World| {
        let page = world.cluster.mon.metrics();
        page.lines().filter(|line| line.starts_with("ceph_rbd_")).map(str::to_owned).collect::<Vec<_>>()
    };
    let asked = |world: &World| {
        let is_question = |message: &Message| matches!(message, Message::MOSDImageQuery(_));
        world.cluster.sent.iter().filter(|(_, _, message)| is_question(message)).count()
    };
    world.cluster.ok(r#"{"prefix":"mgr module enable","module":"prometheus"}"#);
    world.cluster.ok(r#"{"prefix":"osd pool application enable","pool":"rbd","app":"rbd"}"#);
    world.cluster.sent.clear();
    world.pass(6);
    assert_eq!((asked(&world), shown(&world)), (0, vec![]));
    set(&mut world, "rbd_stats_pools", "other, rbd");
    assert!(asked(&world) > 0, "OSDs count only if they are asked to");
    for (nspace, id) in [("", "m0001"), ("", "m0001"), ("n", "m0002"), ("", "unknown")] {
        write(&mut world, nspace, id);
    }
    world.pass(12);
    let of = |nspace: &str, image: &str, writes: u64| {
        let labels = format!("{{pool=\"rbd\",namespace=\"{nspace}\",image=\"{image}\"}}");
        let line = |(name, each): (&str, u64)| format!("ceph_rbd_{name}{labels} {}.0", each * writes);
        [
            ("write_ops", 2),
            ("read_ops", 1),
            ("write_bytes", 4096),
            ("read_bytes", 0),
            ("write_latency_sum", 500),
            ("write_latency_count", 2),
            ("read_latency_sum", 0),
            ("read_latency_count", 1),
        ]
        .map(line)
    };
    let both: Vec<String> = of("", "m0001", 2)
        .into_iter()
        .zip(of("n", "m0002", 1))
        .flat_map(|(one, other)| [one, other])
        .collect();
    assert_eq!(shown(&world), both);
    for (pools, expected) in
        [("rbd/n", of("n", "m0002", 1).to_vec()), ("other", vec![]), ("rbd/n *", both), ("*/m", vec![])]
    {
        set(&mut world, "rbd_stats_pools", pools);
        assert_eq!(shown(&world), expected, "{pools}");
    }
    // One is removed, and the other one does nothing for long.
    set(&mut world, "rbd_stats_pools", "rbd");
    world.mirrored = 1;
    set(&mut world, "rbd_stats_pools_refresh_interval", "10");
    world.pass(60);
    assert_eq!(shown(&world), of("", "m0001", 2));
    set(&mut world, "rbd_stats_pools", "");
    assert!(shown(&world).is_empty());
}

#[test]
fn a_task_is_kept_until_it_is_done() {
    let mut world = World::new();
    let added: Value = serde_json::from_str(&world.text(FLATTEN)).unwrap();
    assert_eq!((&added["sequence"], &added["message"]), (&1.into(), &"Flattening image rbd/child".into()));
    assert_eq!(added["refs"]["image_id"], "child");
    let at = (String::new(), "rbd_task".to_owned());
    assert!(world.omaps[&at].contains_key("0000000000000001"));
    let (run, args) = world.last_run();
    assert_eq!(args.as_deref(), Some("flatten --pool=rbd --image=child"));
    // A client that asks twice is told of the same task.
    let again: Value = serde_json::from_str(&world.text(FLATTEN)).unwrap();
    assert_eq!(again["id"], added["id"]);
    assert!(world.text(r#"{"prefix":"progress json"}"#).contains("\"progress\": 0.0"), "it has begun");
    world.cluster.event(Event::RunProgress(run, 0.5));
    assert_eq!(world.tasks()[0]["progress"], 0.5);
    assert!(world.text(r#"{"prefix":"progress json"}"#).contains("\"progress\": 0.5"));
    let shown = world.cluster.json(r#"{"prefix":"status"}"#)["progress_events"].clone();
    let bar = format!(" (0s)\n      [{}{}] ", "=".repeat(14), ".".repeat(14));
    let message = format!("Flattening image rbd/child{bar}");
    let id = added["id"].as_str().unwrap();
    assert_eq!(shown, serde_json::json!({id: {"message": message, "progress": 0.5, "add_to_ceph_s": false}}));
    // The monitor is restarted: the task begins again.
    world.cluster.restart();
    world.cluster.mon.set_manager(addr(6800));
    world.pass(1);
    let (run, args) = world.last_run();
    assert_eq!(args.as_deref(), Some("flatten --pool=rbd --image=child"));
    let ended = |code, text: &str| Event::RunEnded { run, code, text: text.to_owned() };
    world.cluster.event(ended(Some(16), "rbd: flatten error: busy"));
    assert_eq!(world.tasks()[0]["retry_message"], "[errno 16] RBD image is busy (rbd: flatten error: busy)");
    assert!(!world.text(r#"{"prefix":"progress json"}"#).contains("child"), "it got nowhere");
    let runs = world.cluster.runs.len();
    world.pass(31);
    assert_eq!(world.cluster.runs.len(), runs + 1, "it is tried again");
    let (run, _) = world.last_run();
    world.cluster.event(Event::RunEnded { run, code: Some(0), text: String::new() });
    world.serve();
    assert!(world.tasks().is_empty() && world.omaps[&at].is_empty());
    assert!(world.text(r#"{"prefix":"progress"}"#).contains("[Complete]: Flattening image rbd/child"));
}

#[test]
fn a_host_without_rbd_is_a_health_warning_while_there_is_work_for_it() {
    let mut world = World::new();
    let check = |world: &mut World| {
        let checks = &world.cluster.json(r#"{"prefix":"health"}"#)["checks"];
        checks.get("MGR_MODULE_DEPENDENCY").cloned()
    };
    assert_eq!(check(&mut world), None);
    let added: Value = serde_json::from_str(&world.text(FLATTEN)).unwrap();
    let fail = |world: &mut World| {
        let (run, _) = world.last_run();
        world.cluster.event(Event::RunFailed { run, text: "cannot run rbd: not found".to_owned() });
    };
    fail(&mut world);
    assert_eq!(world.tasks()[0]["retry_message"], "[errno 5] RBD error (cannot run rbd: not found)");
    let raised = check(&mut world).unwrap();
    assert_eq!(raised["severity"], "HEALTH_WARN");
    let text = "Module 'rbd_support' has failed dependency: cannot run rbd: not found";
    assert_eq!(raised["summary"]["message"], text);
    // It was installed, and the task fails for another reason.
    world.pass(31);
    let (run, _) = world.last_run();
    world.cluster.event(Event::RunEnded { run, code: Some(16), text: "busy".to_owned() });
    assert_eq!(check(&mut world), None);
    // Without anything to do it is not missed.
    world.pass(61);
    fail(&mut world);
    assert!(check(&mut world).is_some());
    let id = added["id"].as_str().unwrap();
    world.text(&format!(r#"{{"prefix":"rbd task cancel","task_id":"{id}"}}"#));
    assert_eq!(check(&mut world), None);
}

#[test]
fn what_cannot_be_done_is_refused_as_ceph_refuses_it() {
    let mut world = World::new();
    let mut refused = |command: &str| {
        let reply = world.ask(command);
        (reply.result, reply.status)
    };
    let add =
        |what: &str, image: &str| format!(r#"{{"prefix":"rbd task add {what}","image_spec":"{image}"}}"#);
    let expect = |code, text: &str| (code, text.to_owned());
    assert_eq!(
        refused(&add("flatten", "rbd/plain")),
        expect(-2, "[errno 2] RBD image not found (Image rbd/plain does not have a parent)")
    );
    assert_eq!(
        refused(&add("remove", "rbd/nope")),
        expect(-2, "[errno 2] RBD image not found (Image rbd/nope does not exist)")
    );
    assert_eq!(
        refused(&add("remove", "nopool/x")),
        expect(-2, "[errno 2] RADOS object not found (error opening pool 'nopool')")
    );
    assert_eq!(refused(&add("remove", "a@s")), expect(-22, "Invalid image spec: a@s"));
    assert_eq!(
        refused(&add("migration commit", "rbd/plain")),
        expect(-22, "[errno 22] RBD invalid argument (Image rbd/plain is not migrating)")
    );
    assert_eq!(refused(r#"{"prefix":"rbd task cancel","task_id":"x"}"#), expect(-2, "No such task x"));
}

#[test]
fn a_running_task_is_stopped_when_it_is_cancelled() {
    let mut world = World::new();
    world.text(r#"{"prefix":"rbd task add trash remove","image_id_spec":"rbd/t1"}"#);
    let (run, args) = world.last_run();
    assert_eq!(args.as_deref(), Some("trash rm --pool=rbd --image-id=t1"));
    let id = world.tasks()[0]["id"].as_str().unwrap().to_owned();
    world.text(&format!(r#"{{"prefix":"rbd task cancel","task_id":"{id}"}}"#));
    assert_eq!(world.last_run(), (run, None));
    assert_eq!(world.tasks()[0]["canceled"], true);
    // It said so just before.
    world.cluster.event(Event::RunProgress(run, 0.5));
    world.cluster.event(Event::RunEnded { run, code: None, text: String::new() });
    assert!(world.tasks().is_empty());
    assert_eq!(world.cluster.json(r#"{"prefix":"progress json"}"#)["events"], serde_json::json!([]));
}

#[test]
fn capabilities_reach_as_far_as_they_say() {
    let mut world = World::new();
    let caps = r#""caps":["mgr","profile rbd pool=other"]"#;
    world.cluster.ok(&format!(r#"{{"prefix":"auth add","entity":"client.csi",{caps}}}"#));
    let admin = world.cluster.peer(ADMIN);
    let csi = Peer { name: EntityName::parse("client.csi").unwrap(), ..admin };
    let reply = world.ask_as(&csi, FLATTEN);
    assert_eq!((reply.result, &*reply.status), (-13, "not authorized on pool=rbd, namespace="));
    world.text(FLATTEN);
    let reply = world.ask_as(&csi, r#"{"prefix":"rbd task list"}"#);
    assert_eq!((reply.result, &reply.output[..]), (0, &b"[]\n"[..]));
    assert_eq!(world.ask_as(&csi, r#"{"prefix":"crash ls"}"#).result, -13);
}

#[test]
fn schedules_are_for_those_who_may_touch_the_level() {
    let mut world = World::new();
    world.cluster.ok(r#"{"prefix":"osd pool create","pool":"other","pg_num":8}"#);
    world.cluster.ok(r#"{"prefix":"osd pool application enable","pool":"other","app":"rbd"}"#);
    let admin = world.cluster.peer(ADMIN);
    let mut user = |name: &str, caps: &str| {
        let caps = format!(r#""caps":["mgr","{caps}"]"#);
        world.cluster.ok(&format!(r#"{{"prefix":"auth add","entity":"client.{name}",{caps}}}"#));
        Peer { name: EntityName::parse(&format!("client.{name}")).unwrap(), ..admin.clone() }
    };
    let vms = user("vms", "profile rbd pool=other");
    let tenant = user("tenant", "profile rbd pool=other namespace=n");
    let all = user("all", "profile rbd");
    for (peer, level, pool, nspace, is_granted) in [
        (&vms, "", "", "", false),
        (&vms, "rbd/", "rbd", "", false),
        (&vms, "rbd/nope/", "rbd", "nope", false),
        (&vms, "other/", "other", "", true),
        (&tenant, "other/", "other", "", false),
        (&tenant, "other//", "other", "", false),
        (&all, "", "", "", true),
        (&all, "rbd/", "rbd", "", true),
    ] {
        for what in ["trash purge", "mirror snapshot"] {
            for verb in ["add", "list", "status", "remove"] {
                let command = format!(
                    r#"{{"prefix":"rbd {what} schedule {verb}","level_spec":"{level}","interval":"1d"}}"#
                );
                let reply = world.ask_as(peer, &command);
                if is_granted {
                    assert_eq!(reply.result, 0, "{}: {command}: {}", peer.name, reply.status);
                } else {
                    let text = format!("not authorized on pool={pool}, namespace={nspace}");
                    assert_eq!((reply.result, &*reply.status), (-13, &*text), "{}: {command}", peer.name);
                }
            }
        }
    }
    // The namespace is looked for.
    let reply =
        world.ask_as(&tenant, r#"{"prefix":"rbd trash purge schedule list","level_spec":"other/n/"}"#);
    let text = "Invalid level spec other/n/: namespace n does not exist";
    assert_eq!((reply.result, &*reply.status), (-22, text));
}

#[test]
fn a_schedule_holds_for_the_pool_that_keeps_it() {
    let mut world = World::new();
    world.cluster.ok(r#"{"prefix":"osd pool create","pool":"other","pg_num":8}"#);
    world.cluster.ok(r#"{"prefix":"osd pool application enable","pool":"other","app":"rbd"}"#);
    // Both pools keep the same here.
    let kept = Bytes::from(r#"[{"interval":"10m","start_time":null}]"#);
    let keys = ["1", "7"].map(|pool| (pool.to_owned(), kept.clone()));
    let at = (String::new(), "rbd_trash_purge_schedule".to_owned());
    world.omaps.insert(at.clone(), BTreeMap::from(keys));
    world.silent = Some(PoolId(1));
    world.pass(61);
    assert_eq!(world.text(r#"{"prefix":"rbd trash purge schedule list"}"#), "{}\n");
    assert_eq!(world.omaps[&at].len(), 2, "they are left alone");
    world.silent = None;
    world.pass(61);
    let listed: Value =
        serde_json::from_str(&world.text(r#"{"prefix":"rbd trash purge schedule list"}"#)).unwrap();
    assert_eq!(listed.as_object().unwrap().keys().collect::<Vec<_>>(), ["1"]);
}

#[test]
fn trash_is_purged_when_it_is_due() {
    let mut world = World::new();
    let add = |level: &str, interval: &str| {
        format!(
            r#"{{"prefix":"rbd trash purge schedule add","level_spec":"{level}","interval":"{interval}"}}"#
        )
    };
    assert_eq!(world.text(&add("rbd/", "10m")), "");
    assert_eq!(world.text(&add("", "1d")), "");
    let listed = world.text(r#"{"prefix":"rbd trash purge schedule list"}"#);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed[""]["schedule"][0]["interval"], "1d");
    assert_eq!(
        (&listed["1"]["name"], &listed["1"]["schedule"][0]["interval"]),
        (&"rbd/".into(), &"10m".into())
    );
    let refused = world.ask(&add("rbd/image", "1h"));
    let text = "Invalid level spec rbd/image: invalid name rbd/image: image level is not allowed";
    assert_eq!((refused.result, &*refused.status), (-22, text));
    // Pools are looked through once a minute.
    world.pass(61);
    let status = world.text(r#"{"prefix":"rbd trash purge schedule status"}"#);
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["scheduled"][0]["pool_name"], "rbd");
    world.pass(600);
    let (run, args) = world.last_run();
    assert_eq!(args.as_deref(), Some("trash purge --no-progress --pool=rbd"));
    let runs = world.cluster.runs.len();
    world.pass(600);
    assert_eq!(world.cluster.runs.len(), runs, "it still runs");
    world.cluster.event(Event::RunEnded { run, code: Some(0), text: String::new() });
    // They are kept: the one for all as an option, that of the pool in an object of its own.
    let option = r#"{"prefix":"config dump"}"#;
    assert!(world.cluster.text(option).contains("mgr/rbd_support/trash_purge_schedule"));
    world.text(r#"{"prefix":"rbd trash purge schedule remove","level_spec":"rbd/"}"#);
    assert!(world.omaps[&(String::new(), "rbd_trash_purge_schedule".to_owned())].is_empty());
}

#[test]
fn a_pool_that_does_not_answer_holds_up_no_other() {
    let mut world = World::new();
    world.cluster.ok(r#"{"prefix":"osd pool create","pool":"other","pg_num":8}"#);
    world.cluster.ok(r#"{"prefix":"osd pool application enable","pool":"other","app":"rbd"}"#);
    world.silent = Some(PoolId(2));
    world.pass(600);
    assert_eq!(world.cluster.objects.len(), 1, "no more is asked for than the first thing");
    world.text(FLATTEN);
    assert_eq!(world.tasks().len(), 1);
    world.text(r#"{"prefix":"rbd trash purge schedule list","level_spec":"other/"}"#);
    // What concerns the pool waits, for as long as the pool is there.
    let admin = world.cluster.peer(ADMIN);
    let cmd = vec![FLATTEN.replace("rbd/child", "other/child")];
    world.cluster.manage(&admin, MMgrCommand { cmd, ..MMgrCommand::default() });
    world.pass(1);
    let answers = world.cluster.managed.len();
    world.cluster.allow_pool_delete();
    let rm = r#"{"prefix":"osd pool rm","pool":"other","pool2":"other","yes_i_really_really_mean_it":true}"#;
    world.cluster.ok(rm);
    world.pass(1);
    assert_eq!(world.cluster.managed.len(), answers + 1);
    let Some((_, Message::MMgrCommandReply(reply))) = world.cluster.managed.last() else {
        panic!("no answer")
    };
    assert_eq!(reply.result, -2);
}

#[test]
fn the_key_of_a_task_that_is_done_is_removed_in_the_end() {
    let mut world = World::new();
    world.text(FLATTEN);
    let (run, _) = world.last_run();
    world.is_read_only = true;
    world.cluster.event(Event::RunEnded { run, code: Some(0), text: String::new() });
    world.pass(1);
    let at = (String::new(), "rbd_task".to_owned());
    assert_eq!((world.tasks().len(), world.omaps[&at].len()), (0, 1));
    world.is_read_only = false;
    world.pass(31);
    assert!(world.omaps[&at].is_empty());
}

#[test]
fn a_task_does_nothing_to_another_image_of_the_same_name() {
    let mut world = World::new();
    world.text(r#"{"prefix":"rbd task add remove","image_spec":"rbd/plain"}"#);
    let runs = world.cluster.runs.len();
    world.cluster.restart();
    world.cluster.mon.set_manager(addr(6800));
    world.are_images_new = true;
    world.pass(1);
    assert_eq!(world.cluster.runs.len(), runs);
    assert!(world.tasks().is_empty() && world.omaps[&(String::new(), "rbd_task".to_owned())].is_empty());
}

#[test]
fn a_task_does_not_lead_out_of_where_it_is_kept() {
    let mut world = World::new();
    world.cluster.ok(r#"{"prefix":"osd pool create","pool":"other","pg_num":8}"#);
    let task = |sequence: u64, pool: &str, nspace: &str, image: &str| {
        let key = format!("{sequence:016X}");
        let refs = format!(
            r#"{{"action":"remove","pool_name":"{pool}","pool_namespace":"{nspace}","image_name":"{image}"}}"#
        );
        let text = format!(r#"{{"sequence":{sequence},"id":"{sequence}","message":"m","refs":{refs}}}"#);
        (key, Bytes::from(text))
    };
    let mut kept = BTreeMap::from([
        task(1, "other", "", "plain"),
        task(2, "rbd", "n", "plain"),
        task(3, "rbd", "", "other/plain"),
        task(4, "rbd", "", "plain@s"),
        task(u64::MAX, "rbd", "", "plain"),
    ]);
    kept.insert("x".to_owned(), task(5, "rbd", "", "plain").1);
    world.omaps.insert((String::new(), "rbd_task".to_owned()), kept);
    world.cluster.restart();
    world.cluster.mon.set_manager(addr(6800));
    world.pass(1);
    let ids: Vec<Value> = world.tasks().into_iter().map(|task| task["id"].clone()).collect();
    assert_eq!(ids, [u64::MAX.to_string()]);
    assert_eq!(world.last_run().1.as_deref(), Some("rm --pool=rbd --image=plain"));
    let added: Value = serde_json::from_str(&world.text(FLATTEN)).unwrap();
    assert_eq!(added["sequence"], 0, "the last number is taken");
}

#[test]
fn a_schedule_without_end_is_passed_over() {
    let mut world = World::new();
    let add = |interval: &str| {
        format!(
            r#"{{"prefix":"rbd trash purge schedule add","level_spec":"rbd/","interval":"{interval}","start_time":"01:00"}}"#
        )
    };
    let refused = world.ask(&add("18446744073709551615m"));
    assert_eq!((refused.result, &*refused.status), (-22, "Invalid interval (18446744073709551615m)"));
    let kept = r#"[{"interval":"18446744073709551615m","start_time":"01:00:00"}]"#;
    let at = (String::new(), "rbd_trash_purge_schedule".to_owned());
    world.omaps.insert(at, BTreeMap::from([("1".to_owned(), Bytes::from(kept))]));
    world.pass(61);
    assert_eq!(world.text(r#"{"prefix":"rbd trash purge schedule list"}"#), "{}\n");
    assert!(world.cluster.runs.is_empty());
}

#[test]
fn no_task_is_added_before_those_that_are_kept_are_known() {
    let mut world = World::new();
    world.text(FLATTEN);
    world.cluster.restart();
    world.cluster.mon.set_manager(addr(6800));
    world.cluster.pass(Duration::from_secs(1));
    // What is kept cannot be read at first.
    let (token, _) = world.cluster.objects.remove(0);
    world.cluster.event(Event::ObjectsDone(token, Err(Errno::EIO)));
    world.serve();
    let remove = r#"{"prefix":"rbd task add remove","image_spec":"rbd/plain"}"#;
    assert_eq!(world.ask(remove).result, -11);
    world.pass(31);
    let added: Value = serde_json::from_str(&world.text(remove)).unwrap();
    assert_eq!(added["sequence"], 2);
}

#[test]
fn images_are_looked_at_together() {
    let mut world = World::new();
    world.mirrored = 200;
    let add = r#"{"prefix":"rbd mirror snapshot schedule add","level_spec":"rbd/","interval":"1h"}"#;
    world.text(add);
    world.pass(61);
    let status = world.text(r#"{"prefix":"rbd mirror snapshot schedule status"}"#);
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["scheduled_images"].as_array().unwrap().len(), 200);
    assert_eq!(world.peak, 64);
}

#[test]
fn a_schedule_for_everything_is_answered_when_the_ledger_has_it() {
    let mut world = World::new();
    world.cluster.is_committing = false;
    let admin = world.cluster.peer(ADMIN);
    let add = r#"{"prefix":"rbd trash purge schedule add","level_spec":"","interval":"1d"}"#;
    let command = MMgrCommand { cmd: vec![add.to_owned()], ..MMgrCommand::default() };
    assert!(world.cluster.manage(&admin, command).is_empty());
    let answers = world.cluster.managed.len();
    world.cluster.commit();
    assert_eq!(world.cluster.managed.len(), answers + 1);
}

#[test]
fn namespaces_and_schedules_are_looked_through_up_to_a_limit() {
    let mut world = World::new();
    let names: Vec<String> = (0..10_000).map(|n| format!("n{n:05}")).collect();
    let kept = Bytes::from(r#"[{"interval":"1d","start_time":null}]"#);
    let keys = names.iter().map(|name| (format!("1/{name}"), kept.clone())).collect();
    let at = (String::new(), "rbd_trash_purge_schedule".to_owned());
    world.omaps.insert(at.clone(), keys);
    world.name_spaces(names);
    world.pass(61);
    assert_eq!(world.purge_schedules(), 10_000);
    // With one namespace more the pool is not looked at: what is known stays.
    world.name_spaces(["one more".to_owned()]);
    world.omaps.insert(at, BTreeMap::from([("1".to_owned(), kept)]));
    world.pass(61);
    assert_eq!(world.purge_schedules(), 10_000);
}

#[test]
fn what_is_too_much_to_read_is_not_taken_in() {
    let mut world = World::new();
    let kept = |filler: usize| {
        let text = format!(r#"[{{"interval":"1d","start_time":null}}]{}"#, " ".repeat(filler));
        BTreeMap::from([("1".to_owned(), Bytes::from(text))])
    };
    let at = (String::new(), "rbd_trash_purge_schedule".to_owned());
    for (filler, is_known) in [(60 << 10, true), (64 << 10, false), (17 << 20, false)] {
        world.omaps.insert(at.clone(), kept(0));
        world.pass(60);
        assert_eq!(world.purge_schedules(), 1);
        world.omaps.insert(at.clone(), kept(filler));
        world.pass(60);
        // An object that is too large is not looked at: what is known stays.
        let expect = is_known || filler > 16 << 20;
        assert_eq!(world.purge_schedules(), usize::from(expect), "{filler}");
    }
}

#[test]
fn names_that_clients_leave_are_no_options_of_rbd() {
    let mut world = World::new();
    world.name_spaces(["--log-file=/x", "a/b", "a@s", "a\n", "n"].map(str::to_owned));
    world.text(r#"{"prefix":"rbd trash purge schedule add","level_spec":"rbd/","interval":"10m"}"#);
    world.pass(661);
    let purge = "trash purge --no-progress --pool=rbd";
    let runs: Vec<String> = world.cluster.runs.iter().filter_map(|(_, args)| args.clone()).collect();
    assert_eq!(runs, [purge.to_owned(), format!("{purge} --namespace=n")]);
    let refused = world.ask(r#"{"prefix":"rbd task add remove","image_spec":"rbd/--log-file"}"#);
    assert_eq!((refused.result, &*refused.status), (-22, "Invalid image spec: rbd/--log-file"));
}

#[test]
fn what_was_due_while_there_was_no_rbd_is_done_when_it_is_there() {
    let mut world = World::new();
    world.name_spaces(["n".to_owned()]);
    world.text(r#"{"prefix":"rbd trash purge schedule add","level_spec":"rbd/","interval":"10m"}"#);
    let fail = |world: &mut World, run| {
        world.cluster.event(Event::RunFailed { run, text: "cannot run rbd: not found".to_owned() });
    };
    let end = |world: &mut World, run| {
        world.cluster.event(Event::RunEnded { run, code: Some(0), text: String::new() });
    };
    let runs = |world: &World| world.cluster.runs.iter().map(|(run, _)| *run).collect::<Vec<_>>();
    let wait_for = |world: &mut World, count| {
        (0..600).for_each(|_| {
            if runs(world).len() < count {
                world.pass(1)
            }
        });
        assert_eq!(runs(world).len(), count);
    };
    wait_for(&mut world, 2);
    runs(&world).into_iter().for_each(|run| fail(&mut world, run));
    // One of the two is tried at each look.
    for count in [3, 4] {
        world.pass(60);
        assert_eq!(runs(&world).len(), count);
        if count == 3 {
            let last = world.last_run().0;
            fail(&mut world, last);
        }
    }
    for count in [5, 5] {
        let last = world.last_run().0;
        end(&mut world, last);
        world.pass(60);
        assert_eq!(runs(&world).len(), count);
    }
    // Nothing is done for a schedule that is gone.
    wait_for(&mut world, 7);
    runs(&world).into_iter().skip(5).for_each(|run| fail(&mut world, run));
    world.text(r#"{"prefix":"rbd trash purge schedule remove","level_spec":"rbd/"}"#);
    world.pass(120);
    assert_eq!(runs(&world).len(), 7);
}

#[test]
fn the_right_to_read_the_monitor_cancels_no_task() {
    let mut world = World::new();
    let mut connect = |id, name: &str, caps: &str| {
        let caps = format!(r#""caps":["mon","{caps}"]"#);
        world.cluster.ok(&format!(r#"{{"prefix":"auth add","entity":"{name}",{caps}}}"#));
        world.cluster.connect(ConnId(id), name);
        ConnId(id)
    };
    let (reader, writer) = (connect(8, "client.r", "allow r"), connect(9, "client.w", "allow rw"));
    world.text(FLATTEN);
    let id = world.tasks()[0]["id"].as_str().unwrap().to_owned();
    let cancel = format!(r#"{{"prefix":"rbd task cancel","task_id":"{id}"}}"#);
    let answer = world.cluster.try_command(reader, &cancel, b"").unwrap();
    assert_eq!((answer.result, &*answer.status), (-13, "access denied"));
    world.serve();
    assert_eq!(world.tasks()[0].get("canceled"), None);
    world.cluster.try_command(writer, &cancel, b"");
    world.serve();
    assert_eq!(world.tasks()[0]["canceled"], true);
}

#[test]
fn a_command_that_is_too_long_does_not_wait() {
    let mut world = World::new();
    let refused = world.ask(&FLATTEN.replace("child", &"x".repeat(64 << 10)));
    assert_eq!((refused.result, &*refused.status), (-7, "the command is too long"));
    let padded = format!("{FLATTEN}{}", " ".repeat(64 << 10));
    assert_eq!(world.cluster.refused(&padded).0, -7);
}
