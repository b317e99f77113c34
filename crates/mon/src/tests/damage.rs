//! Whatever commands, messages and objects bring: an answer, a state that holds together, and no more work than there
//! is to do.

mod commands;
mod messages;
mod objects;
mod words;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::OnceLock,
    time::Duration,
};

use ::damage::Damage;
use ::messages::{MCommand, MMgrCommand, MMonCommand, Message, MgrMap};
use bytes::Bytes;
use codec::{Decode, Features};
use crush::CrushMap;
use proptest::{prelude::*, sample::Index};
use types::{Errno, Incremental, MonMap, OsdMap};

use super::cluster::{ADMIN, Cluster, FSID, addr};
use crate::{ConnId, Event, MemLedger, Peer, state::State};

/// A client that may do little.
const CLIENT: ConnId = ConnId(50);
/// Bytes that an answer has at most, whatever is asked of so small a cluster.
const ANSWER_BYTES_MAX: usize = 2 << 20;
/// Bytes that a step adds to the ledger at most, besides what it was given and some maps.
const LEDGER_BYTES_MAX: usize = 1 << 20;
/// PGs of a pool that are mapped.
const MAPPED_MAX: usize = 32;
/// Questions to objects that a step may lead to.
const QUESTIONS_MAX: usize = 2_000;

/// Makes a cluster that has some of everything.
const SETUP: &[&str] = &[
    r#"{"prefix":"config set","who":"mon","name":"mon_allow_pool_delete","value":"true"}"#,
    r#"{"prefix":"config set","who":"osd","name":"osd_max_backfills","value":"2"}"#,
    r#"{"prefix":"osd pool create","pool":"data","pg_num":4}"#,
    r#"{"prefix":"osd pool create","pool":"cache","pg_num":1}"#,
    r#"{"prefix":"osd tier add","pool":"data","tierpool":"cache"}"#,
    r#"{"prefix":"osd pool mksnap","pool":"data","snap":"s1"}"#,
    r#"{"prefix":"osd set-require-min-compat-client","version":"luminous"}"#,
    r#"{"prefix":"osd crush add-bucket","name":"rack1","type":"rack","args":["root=default"]}"#,
    r#"{"prefix":"osd crush add-bucket","name":"lone","type":"host"}"#,
    r#"{"prefix":"osd crush class create","class":"hdd"}"#,
    r#"{"prefix":"osd crush rule create-replicated","name":"other_rule","root":"default","type":"osd"}"#,
    r#"{"prefix":"osd crush weight-set create-compat"}"#,
    r#"{"prefix":"osd crush weight-set create","pool":"data","mode":"positional"}"#,
    r#"{"prefix":"osd erasure-code-profile set","name":"p1","profile":["k=2","m=1"]}"#,
    r#"{"prefix":"osd blocklist","blocklistop":"add","addr":"10.0.0.9:0/3"}"#,
    r#"{"prefix":"auth get-or-create","entity":"client.a","caps":["mon","allow r"]}"#,
    r#"{"prefix":"auth get-or-create","entity":"osd.9","caps":["mon","allow profile osd","osd","allow *"]}"#,
    r#"{"prefix":"config-key set","key":"k","val":"v"}"#,
    r#"{"prefix":"health mute","code":"OSD_DOWN","ttl":"1h","sticky":true}"#,
    r#"{"prefix":"mgr module enable","module":"prometheus"}"#,
    r#"{"prefix":"balancer mode","mode":"upmap"}"#,
    r#"{"prefix":"balancer on"}"#,
];

/// Its ledger.
fn ledger() -> &'static MemLedger {
    static LEDGER: OnceLock<MemLedger> = OnceLock::new();
    LEDGER.get_or_init(|| {
        let mut cluster = Cluster::with_rbd();
        SETUP.iter().for_each(|command| drop(cluster.ok(command)));
        let report = words::CRASH.as_bytes();
        let posted = cluster.try_command(ADMIN, r#"{"prefix":"crash post"}"#, report);
        assert!(posted.is_some_and(|ack| ack.result == 0));
        cluster.ledger
    })
}

/// The way that a command takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum To {
    /// `ceph …`.
    Mon,
    /// `ceph …`, what the manager serves.
    Mgr,
    /// `ceph tell mon.a …`.
    TellMon,
    /// `ceph tell mgr …`.
    TellMgr,
}

/// A command.
#[derive(Clone)]
struct Ask {
    to: To,
    json: String,
    input: Bytes,
}

/// What is shown of a text: the whole of a short one.
struct Short<'a>(&'a str);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            0..400 => f.write_str(self.0),
            len => write!(f, "{}… ({len} bytes)", &self.0[..self.0.floor_char_boundary(200)]),
        }
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.to, Short(&self.json))?;
        if !self.input.is_empty() {
            write!(f, " -i {}", Short(&self.input.escape_ascii().to_string()))?;
        }
        Ok(())
    }
}

/// The sender of a message.
#[derive(Clone, Copy, Debug)]
enum Sender {
    Admin,
    Client,
    Osd(i32),
    ToManager,
}

/// What happens to the cluster.
#[derive(Clone, Debug)]
enum Step {
    Ask(Ask),
    Say(Sender, Message),
    /// All OSDs report.
    Report,
    /// Seconds pass.
    Pass(u64),
    /// Much time passes at once.
    Jump(Duration),
    /// From now on, the ledger takes its time.
    Hold,
    /// It has caught up.
    Commit,
}

impl Step {
    fn bytes_given(&self) -> usize {
        match self {
            Step::Ask(ask) => ask.json.len() + ask.input.len(),
            Step::Say(_, message) => {
                let raw = message.encode(1);
                raw.front.len() + raw.data.len()
            }
            _ => 0,
        }
    }
}

/// The cluster, and what is known of it from outside.
struct World {
    cluster: Cluster,
    /// The map of a client that follows the incrementals that are published.
    followed: OsdMap,
    /// Commands that wait for their answer.
    asked: Vec<(u64, String)>,
    /// What objects answer, by the name of the class's method or, for omaps, of the object.
    objects: BTreeMap<&'static str, Bytes>,
    /// Commands that were carried out.
    done: usize,
}

impl World {
    fn new() -> World {
        World::with(BTreeMap::new())
    }

    /// With these answers of objects.
    fn with(objects: BTreeMap<&'static str, Bytes>) -> World {
        let mut cluster = Cluster::on(ledger().clone());
        cluster.mon.set_manager(addr(6_900));
        (0..3).for_each(|id| cluster.connect(Cluster::osd_conn(id), &format!("osd.{id}")));
        cluster.connect(CLIENT, "client.a");
        cluster.report_all();
        let followed = cluster.map().clone();
        let mut world = World { cluster, followed, asked: Vec::new(), objects, done: 0 };
        world.pass(1);
        world
    }

    /// Takes a step; what must hold holds afterwards.
    fn step(&mut self, step: &Step) {
        let ledger_bytes = |world: &World| {
            let entries = world.cluster.ledger.0.entries.iter();
            entries.map(|(key, value)| key.len() + value.len()).sum::<usize>()
        };
        let before = ledger_bytes(self);
        match step {
            Step::Ask(ask) => self.ask(ask),
            Step::Say(sender, message) => self.say(*sender, message.clone()),
            Step::Report => self.cluster.report_all(),
            Step::Pass(seconds) => self.pass(*seconds),
            Step::Jump(span) => {
                self.cluster.now = self.cluster.now + *span;
                self.pass(1);
            }
            Step::Hold => self.cluster.is_committing = false,
            Step::Commit => {
                self.cluster.is_committing = true;
                self.cluster.commit();
            }
        }
        self.serve();
        if self.cluster.is_committing {
            self.take_answers();
        }
        self.follow();
        let added = ledger_bytes(self).saturating_sub(before);
        let given = step.bytes_given() + self.followed.to_bytes_and_crc().0.len();
        assert!(added <= LEDGER_BYTES_MAX + 8 * given, "{added} bytes more are kept");
    }

    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.cluster.pass(Duration::from_secs(1));
            self.serve();
        }
    }

    fn ask(&mut self, ask: &Ask) {
        let (cmd, input) = (vec![ask.json.clone()], ask.input.clone());
        let message: Message = match ask.to {
            To::Mon => MMonCommand { fsid: FSID, cmd, input, ..MMonCommand::default() }.into(),
            To::Mgr => MMgrCommand { fsid: FSID, cmd, input }.into(),
            To::TellMon | To::TellMgr => MCommand { fsid: FSID, cmd, input }.into(),
        };
        let tid = match ask.to {
            To::Mon | To::TellMon => self.cluster.say(ADMIN, message),
            To::Mgr | To::TellMgr => {
                let peer = self.cluster.peer(ADMIN);
                self.cluster.manage(&peer, message);
                self.cluster.last_tid()
            }
        };
        self.asked.push((tid, ask.json.clone()));
    }

    fn say(&mut self, sender: Sender, message: Message) {
        match sender {
            Sender::Admin => drop(self.cluster.say(ADMIN, message)),
            Sender::Client => drop(self.cluster.say(CLIENT, message)),
            Sender::Osd(id) => drop(self.cluster.say(Cluster::osd_conn(id), message)),
            Sender::ToManager => {
                let peer: Peer = self.cluster.peer(ADMIN);
                drop(self.cluster.manage(&peer, message));
            }
        }
    }

    /// Objects answer, and runs of `rbd` end.
    fn serve(&mut self) {
        for _ in 0..QUESTIONS_MAX {
            if let Some((token, request)) = self.cluster.objects.pop() {
                let op = &request.ops[0];
                let name_bytes = usize::from(op.params.u8_at(1));
                let method = op.data.get(3..3 + name_bytes).and_then(|name| std::str::from_utf8(name).ok());
                let known = self.objects.get(method.unwrap_or_default());
                let known = known.or_else(|| self.objects.get(request.oid.as_str())).cloned();
                self.cluster.event(Event::ObjectsDone(token, known.ok_or(Errno::ENOENT)));
            } else if let Some((run, args)) = self.cluster.runs.pop() {
                if args.is_some() {
                    self.cluster.event(Event::RunProgress(run, 0.5));
                    self.cluster.event(Event::RunEnded { run, code: Some(0), text: String::new() });
                }
            } else {
                return;
            }
        }
        panic!("there is no end of questions to objects");
    }

    /// Each command has one answer, with an errno that clients know.
    fn take_answers(&mut self) {
        let mut found: BTreeMap<u64, Vec<(i32, usize)>> = BTreeMap::new();
        let sent = self.cluster.sent.drain(..).map(|(_, tid, message)| (tid, message));
        for (tid, message) in sent.chain(self.cluster.managed.drain(..)) {
            let (result, bytes) = match &message {
                Message::MMonCommandAck(ack) => (ack.result, ack.status.len() + ack.output.len()),
                Message::MMgrCommandReply(reply) => (reply.result, reply.status.len() + reply.output.len()),
                Message::MCommandReply(reply) => (reply.result, reply.status.len() + reply.output.len()),
                // What is sent can be read.
                other => {
                    let read = Message::decode(other.encode(1));
                    assert!(read.is_ok_and(|read| read.kind() == other.kind()), "{other:?}");
                    continue;
                }
            };
            found.entry(tid).or_default().push((result, bytes));
        }
        for (tid, json) in self.asked.drain(..) {
            let answers = found.remove(&tid).unwrap_or_default();
            let [(result, bytes)] = answers[..] else {
                panic!("{} answers to {}", answers.len(), Short(&json))
            };
            let is_known = result == 0 || Errno(result.saturating_abs()).name() != "EUNKNOWN";
            assert!(is_known, "{result} answers {}", Short(&json));
            assert!(bytes <= ANSWER_BYTES_MAX + 8 * json.len(), "{bytes} bytes answer {}", Short(&json));
            self.done += usize::from(result == 0);
        }
    }

    /// Follows the map by what is published, as clients do.
    fn follow(&mut self) {
        let state = &self.cluster.mon.committed;
        if self.followed.epoch == state.osdmap.epoch {
            return;
        }
        while self.followed.epoch < state.osdmap.epoch {
            let epoch = self.followed.epoch.next();
            let Some(bytes) = state.incrementals.get(epoch) else {
                assert!(epoch < state.oldest_epoch() || state.oldest_epoch() == state.osdmap.epoch);
                self.followed = OsdMap::clone(&state.osdmap);
                break;
            };
            let inc = Incremental::from_bytes(bytes.clone()).expect("what is published can be read");
            self.followed.apply(&inc).expect("an incremental leads on from the map before it");
            assert_eq!(self.followed.to_bytes_and_crc().1, inc.full_crc, "the map of epoch {epoch}");
        }
        let (bytes, _) = self.followed.to_bytes_and_crc();
        assert!(bytes == state.osdmap.to_bytes_and_crc().0, "clients have another map than the monitor");
        // Reading a map checks that it holds together.
        let read = OsdMap::from_bytes(bytes.clone()).expect("a map can be read");
        assert!(read.to_bytes_and_crc().0 == bytes, "a map that was read is another one");
        check_placement(&read);
    }

    /// What is left is what a monitor that starts anew finds.
    fn end(mut self) {
        self.step(&Step::Commit);
        self.step(&Step::Pass(2));
        let contents = self.cluster.ledger.0.clone();
        let found = State::load(&contents).expect("the ledger can be read");
        let kept = &self.cluster.mon.committed;
        assert!(found.osdmap.to_bytes_and_crc() == kept.osdmap.to_bytes_and_crc(), "another OSD map");
        assert_eq!(found.monmap, kept.monmap);
        let entities = |state: &State| format!("{:?}", state.entities);
        assert_eq!(entities(&found), entities(kept));
        assert_eq!(found.config, kept.config);
        assert_eq!(found.config_keys, kept.config_keys);
        assert_eq!(found.mutes, kept.mutes);
        assert_eq!(found.mgr_modules, kept.mgr_modules);
        assert_eq!((&found.creating, &found.removed_snaps), (&kept.creating, &kept.removed_snaps));
        assert_eq!(found.osd_metadata, kept.osd_metadata);
        assert!(found.crashes.keys().eq(kept.crashes.keys()));
        let monmap = MonMap::from_bytes(codec::Encode::to_bytes(&*kept.monmap, Features::PACIFIC));
        assert_eq!(monmap.as_ref(), Ok(&*kept.monmap));
        let mgrmap =
            MgrMap::from_bytes(codec::Encode::to_bytes(&self.cluster.mon.mgrmap(), Features::PACIFIC));
        assert_eq!(mgrmap, Ok(self.cluster.mon.mgrmap()));
        self.cluster.restart();
        assert!(self.cluster.mon.is_booted());
        self.cluster.pass(Duration::from_secs(2));
    }
}

/// PGs are on OSDs that exist, as many as their pool wants at most.
fn check_placement(map: &OsdMap) {
    let crush = CrushMap::from_prefix(map.crush.bytes().clone());
    assert!(crush.is_ok_and(|crush| crush == *map.crush.map()), "the CRUSH map can be read");
    for (id, pool) in &map.pools {
        assert!(pool.pg_num > 0 && pool.size > 0 && pool.min_size <= pool.size, "pool {id}: {pool:?}");
        assert!(
            map.pool_name(*id).is_some_and(|name| map.pool_by_name(name).is_some_and(|(of, _)| of == *id))
        );
        for pg in map.pgs_of(*id).take(MAPPED_MAX) {
            let at = map.pg_to_up_acting(pg);
            assert!(at.up.len() <= pool.size.into(), "{pg} is on {:?}", at.up);
            let osds: BTreeSet<_> = at.up.iter().filter(|osd| osd.is_some()).collect();
            assert!(osds.len() == at.up.iter().filter(|osd| osd.is_some()).count(), "{pg}: {:?}", at.up);
            assert!(osds.iter().all(|osd| map.is_up(**osd)), "{pg} is on {:?}", at.up);
        }
    }
}

/// A number as counters and lengths have it.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => 0u64..20,
        1 => Just(u64::MAX),
        1 => Just(u64::from(u32::MAX)),
        1 => Just(1 << 63),
        1 => Just((1 << 63) - 1),
        1 => any::<u64>(),
    ]
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        4 => (any::<Index>(), any::<u8>()).prop_map(|(at, value)| Damage::Byte(at, value)),
        3 => (any::<Index>(), number()).prop_map(|(at, value)| Damage::Number(at, value, 8)),
        1 => any::<Index>().prop_map(Damage::Cut),
    ]
}

/// Time, reports and the ledger's pace.
fn other_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1u64..4).prop_map(Step::Pass),
        3 => Just(Step::Report),
        1 => Just(Step::Jump(Duration::from_secs(700))),
        1 => Just(Step::Jump(Duration::from_secs(90_000))),
        1 => Just(Step::Hold),
        1 => Just(Step::Commit),
    ]
}
