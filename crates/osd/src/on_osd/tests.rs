//! Two OSDs, one of which has newer maps than the other.

use auth::OsdCaps;
use bytes::Bytes;
use codec::{Decode, Encode, Features};
use messages::{MCommand, MOSDMap, MPgQuery};
use store::MemStore;
use types::{
    CrushBlob, EntityAddr, EntityAddrVec, EntityName, EntityType, Epoch, GlobalId, Incremental, OsdMap,
    OsdState, PgId, PoolId, UTime, Uuid,
};

use super::*;
use crate::{Event, Peer, boot::Boot};

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
/// The connection on which each hears the other.
const CONN: ConnId = ConnId(1);

fn addrs_of(osd: OsdId) -> EntityAddrVec {
    EntityAddrVec(vec![EntityAddr::parse(&format!("v2:127.0.0.1:680{osd}/7")).unwrap()])
}

/// The maps of a cluster: none has OSDs in the first, both are up in the second, A is down in the third and up again in
/// the fourth.
fn maps() -> MOSDMap {
    let mut map = OsdMap::new(Uuid([1; 16]), UTime::default(), CrushBlob::default());
    map.epoch = Epoch(1);
    let fulls = [(Epoch(1), map.to_bytes_and_crc().0)].into();
    let mut second = Incremental::new(Uuid([1; 16]), Epoch(2));
    second.new_max_osd = Some(2);
    second.new_up_client = [A, B].map(|osd| (osd, addrs_of(osd))).into();
    second.new_up_cluster = second.new_up_client.clone();
    let mut third = Incremental::new(Uuid([1; 16]), Epoch(3));
    third.new_state = [(A, OsdState::UP)].into();
    let mut fourth = Incremental::new(Uuid([1; 16]), Epoch(4));
    fourth.new_up_client = [(A, addrs_of(A))].into();
    fourth.new_up_cluster = fourth.new_up_client.clone();
    let encoded = [second, third, fourth].map(|mut inc| {
        map.apply(&inc).unwrap();
        inc.full_crc = map.to_bytes_and_crc().1;
        (inc.epoch, inc.to_bytes(Features::PACIFIC))
    });
    let (oldest, newest, incrementals) = (Epoch(1), map.epoch, encoded.into());
    MOSDMap { fsid: Uuid([1; 16]), oldest, newest, fulls, incrementals, ..MOSDMap::default() }
}

struct Running {
    osd: Osd,
    store: MemStore,
    now: Instant,
}

impl Running {
    /// An OSD that knows the maps up to `epoch`, has a monitor, and hears from `peer`.
    fn new(whoami: OsdId, peer: OsdId, epoch: u32) -> Running {
        let mut osd = Osd::alone();
        osd.config.whoami = whoami;
        let mut it = Running { osd, store: MemStore::new(), now: Instant(1_000) };
        let (public_addrs, cluster_addrs) = (addrs_of(whoami), addrs_of(whoami));
        it.handle(Event::Started { public_addrs, cluster_addrs });
        it.handle(Event::MonOpened);
        let mut known = maps();
        known.incrementals.retain(|at, _: &mut Bytes| at.0 <= epoch);
        known.newest = Epoch(epoch);
        it.handle(Event::FromMon(known.into()));
        assert_eq!(it.osd.map.epoch, Epoch(epoch));
        let peer = Peer {
            name: EntityName::new(EntityType::OSD, peer.to_string()),
            entity_type: EntityType::OSD,
            global_id: GlobalId(0),
            addr: EntityAddr::default(),
            caps: OsdCaps::allow_all(),
            features: Features::PACIFIC.0,
        };
        it.handle(Event::ConnOpened(CONN, Box::new(peer)));
        it
    }

    fn handle(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.osd.handle(self.now, UTime::default(), event, &mut self.store, &mut effects);
        effects
    }
}

fn ping(op: PingOp, from: OsdId, epoch: u32, stamp_ns: u64) -> MOSDPing {
    MOSDPing { op, from, up_from: Epoch(2), epoch: Epoch(epoch), stamp_ns, room: None, left_bytes: 0 }
}

#[test]
fn who_was_marked_down_hears_of_it_from_those_that_it_pings() {
    let (mut a, mut b) = (Running::new(A, B, 2), Running::new(B, A, 3));
    assert_eq!(a.osd.boot, Boot::Active);
    let answers = b.handle(Event::Received(CONN, 0, ping(PingOp::PING, A, 2, 900).into()));
    let mut names = Vec::new();
    let mut asked = Vec::new();
    for answer in answers {
        let Effect::Send(CONN, _, message) = answer else { panic!("{answer:?}") };
        names.push(message.name());
        asked.extend(a.handle(Event::FromOsd(B, message)));
    }
    assert_eq!(names, ["MOSDPing", "MOSDMap"]);
    assert_eq!(a.osd.map.epoch, Epoch(3));
    let to_mon = asked.iter().filter_map(|effect| match effect {
        Effect::SendMon(message) => Some(message.name()),
        _ => None,
    });
    let to_mon: Vec<_> = to_mon.collect();
    assert_eq!(to_mon, ["MMonSubscribe", "MOSDBoot"]);
}

/// An OSD's pings name its present life: those of an earlier life are not answered.
#[test]
fn who_learns_at_once_that_it_was_down_and_is_up_goes_by_its_new_life() {
    let mut a = Running::new(A, B, 2);
    assert_eq!((a.osd.boot, a.osd.boot_epoch), (Boot::Active, Epoch(2)));
    let mut rest = maps();
    rest.incrementals.retain(|at, _| at.0 > 2);
    a.handle(Event::FromMon(rest.into()));
    assert_eq!(a.osd.map.epoch, Epoch(4));
    assert_eq!((a.osd.boot, a.osd.boot_epoch), (Boot::Active, Epoch(4)));
}

/// Only one that has been up, as with Ceph: a new one may be there before the map has its id.
#[test]
fn who_is_removed_from_the_map_stops_also_while_it_asks_to_be_up_again() {
    for hears_first_that_it_is_down in [false, true] {
        let mut a = Running::new(A, B, 2);
        let mut news = maps();
        news.incrementals.retain(|at, _| at.0 == 3);
        if hears_first_that_it_is_down {
            a.handle(Event::FromMon(
                std::mem::replace(&mut news, MOSDMap { newest: Epoch(4), ..maps() }).into(),
            ));
            news.incrementals.clear();
            assert!(a.osd.boot != Boot::Active && a.osd.map.epoch == Epoch(3));
        }
        let mut map = a.osd.map.clone();
        for bytes in news.incrementals.values() {
            map.apply(&Incremental::from_bytes(bytes.clone()).unwrap()).unwrap();
        }
        let mut purged = Incremental::new(map.fsid, Epoch(4));
        purged.new_state = [(A, OsdState::EXISTS)].into();
        map.apply(&purged).unwrap();
        purged.full_crc = map.to_bytes_and_crc().1;
        news.incrementals.insert(Epoch(4), purged.to_bytes(Features::PACIFIC));
        let effects = a.handle(Event::FromMon(news.into()));
        assert!(!a.osd.map.exists(A) && a.osd.map.epoch == Epoch(4));
        assert!(effects.iter().any(|effect| matches!(effect, Effect::Stopped)), "{effects:?}");
        let boots =
            |effect: &Effect| matches!(effect, Effect::SendMon(message) if message.name() == "MOSDBoot");
        assert!(!effects.iter().any(boots));
    }
}

#[test]
fn only_the_control_shard_heeds_what_others_answer() {
    let mut a = Running::new(A, B, 2);
    a.osd.config.shard = crate::Shard { index: 1, count: 2 };
    let effects = a.handle(Event::FromOsd(B, maps().into()));
    let crossed = effects
        .iter()
        .any(|effect| matches!(effect, Effect::ShardMessage(CONTROL, ShardMessage::FromOsd(B, _))));
    assert!(crossed && a.osd.map.epoch == Epoch(2));
}

/// How many of the effects are heartbeats to `osd`.
fn beats_to(osd: OsdId, effects: &[Effect]) -> usize {
    let is_beat = |message: &RawMessage| message.kind == Message::from(MOSDPing::default()).encode(0).kind;
    let is_to = |effect: &&Effect| match effect {
        Effect::SendOsd { osd: to, message, .. } => *to == osd && is_beat(message),
        _ => false,
    };
    effects.iter().filter(is_to).count()
}

#[test]
fn pings_of_an_earlier_life_are_not_answered() {
    let mut b = Running::new(B, A, 2);
    let mut answers = |up_from: u32| {
        let ping = MOSDPing { up_from: Epoch(up_from), ..ping(PingOp::PING, A, 2, 900) };
        beats_to(A, &b.handle(Event::Received(CONN, 0, ping.into())))
    };
    // A life that the map does not show yet is another matter.
    assert_eq!([1, 2, 3].map(&mut answers), [0, 1, 1]);
}

#[test]
fn an_osd_without_room_says_so_at_once_and_all_shards_of_others_hear_of_it() {
    let (mut a, mut b) = (Running::new(A, B, 2), Running::new(B, A, 2));
    b.osd.config.shard = crate::Shard { index: 0, count: 2 };
    let mut heard = Vec::new();
    let mut tick = |ratio: &str| {
        a.osd.settings.inject("osd_failsafe_full_ratio", ratio).unwrap();
        a.osd.follow_options();
        a.now = a.now + Duration::from_secs(1);
        let effects = a.handle(Event::Timer(crate::osd::TICK));
        let sent = effects.into_iter().find_map(|effect| match effect {
            Effect::SendOsd { osd: B, message, .. } => Some(Message::decode((*message).clone()).unwrap()),
            _ => None,
        });
        let has_told = sent.is_some();
        let effects = sent.map(|ping| b.handle(Event::Received(CONN, 0, ping))).unwrap_or_default();
        heard.extend(effects.into_iter().filter_map(|effect| match effect {
            Effect::ShardMessage(1, ShardMessage::Room(A, room)) => Some((room.bytes, room.left_bytes)),
            _ => None,
        }));
        (has_told, b.osd.failsafe.rooms.is_full(A))
    };
    // Every other second there is a heartbeat.
    assert_eq!([(); 3].map(|()| tick("0.97")), [(false, false), (true, false), (false, false)]);
    assert_eq!(
        ["0.97", "0.5", "0.5", "0.97"].map(&mut tick),
        [(true, false), (true, true), (true, true), (true, false),]
    );
    assert_eq!(heard, [1 << 39, 0, 1 << 39].map(|bytes| (bytes, 1 << 39)));
}

/// `ceph -n osd.0 tell osd.1 version`: a tool is a client, whatever key it has.
#[test]
fn a_tool_with_the_key_of_an_osd_is_a_client() {
    let mut b = Running::new(B, A, 2);
    let tool = ConnId(2);
    let of_daemon = b.osd.sessions[&CONN].peer.clone();
    let peer = Peer { entity_type: EntityType::CLIENT, ..of_daemon };
    b.handle(Event::ConnOpened(tool, Box::new(peer)));
    let cmd = vec![r#"{"prefix":"version"}"#.to_owned()];
    let command: Message = MCommand { cmd, ..MCommand::default() }.into();
    let mut answers = |conn, message| {
        let effects = b.handle(Event::Received(conn, 5, message));
        let is_reply = |effect: &&Effect| match effect {
            Effect::Send(to, 5, message) => *to == conn && message.name() == "MCommandReply",
            _ => false,
        };
        (effects.iter().filter(is_reply).count(), beats_to(A, &effects))
    };
    assert_eq!(answers(tool, command.clone()), (1, 0));
    assert_eq!(answers(CONN, command), (0, 0));
    assert_eq!(answers(CONN, ping(PingOp::PING, A, 2, 900).into()), (0, 1));
    assert_eq!(answers(tool, ping(PingOp::PING, A, 2, 900).into()), (0, 0), "only a daemon's word counts");
}

#[test]
fn answers_to_pings_that_have_not_left_grant_nothing() {
    let mut a = Running::new(A, B, 2);
    // Another shard hears of what is granted.
    a.osd.config.shard = crate::Shard { index: 0, count: 2 };
    let now = a.now.0;
    let mut grants = |stamp_ns| {
        let effects = a.handle(Event::Received(CONN, 0, ping(PingOp::REPLY, B, 2, stamp_ns).into()));
        effects
            .iter()
            .filter(|effect| matches!(effect, Effect::ShardMessage(1, ShardMessage::LeaseGranted(..))))
            .count()
    };
    assert_eq!([now, now + 1].map(&mut grants), [1, 0]);
}

#[test]
fn what_an_earlier_life_granted_is_void() {
    let mut b = Running::new(B, A, 2);
    let mut granted = |event| {
        b.handle(event);
        b.osd.leases != pg::Leases::default()
    };
    let reply = |up_from, epoch| {
        let reply = MOSDPing { up_from: Epoch(up_from), ..ping(PingOp::REPLY, A, epoch, 900) };
        Event::Received(CONN, 0, reply.into())
    };
    let until = |epoch| {
        let mut maps = maps();
        maps.incrementals.retain(|at, _| at.0 <= epoch);
        maps.newest = Epoch(epoch);
        Event::FromMon(maps.into())
    };
    assert!(granted(reply(2, 2)));
    assert!(!granted(until(3)), "A is down");
    assert!(!granted(reply(2, 2)), "it said so before");
    assert!(!granted(until(4)), "A is up again");
    assert!(!granted(reply(2, 2)));
    assert!(granted(reply(4, 4)));
}

#[test]
fn who_takes_nothing_is_reported_at_once_and_not_as_dead() {
    let mut a = Running::new(A, B, 2);
    let mut reported = |event| {
        a.now = a.now + Duration::from_secs(2);
        let effects = a.handle(event);
        let reports = effects.iter().filter_map(|effect| match effect {
            Effect::SendMon(Message::MOSDFailure(report)) => Some((report.is_immediate, report.may_live)),
            _ => None,
        });
        reports.collect::<Vec<_>>()
    };
    assert_eq!(reported(Event::OsdRefused(B)), [(true, false)]);
    assert_eq!(reported(Event::OsdStuck(B)), [(true, true)]);
}

#[test]
fn what_is_refused_in_an_earlier_life_is_not_reported_of_the_present_one() {
    let reports = |effects: &[Effect]| {
        let is_report = |effect: &&Effect| matches!(effect, Effect::SendMon(Message::MOSDFailure(_)));
        effects.iter().filter(is_report).count()
    };
    let mut b = Running::new(B, A, 2);
    let mut effects = Vec::new();
    // Before the network has heard of the map.
    for event in [Event::FromMon(maps().into()), Event::OsdRefused(A), Event::OsdStuck(A)] {
        b.osd.handle(b.now, UTime::default(), event, &mut b.store, &mut effects);
    }
    assert_eq!((b.osd.map.up_from(A), reports(&effects)), (Epoch(4), 0));
    // Before another shard has.
    let mut told = |up_from| {
        let told = ShardMessage::OsdUnreachable(A, Epoch(up_from), false);
        reports(&b.handle(Event::ShardMessage(1, told)))
    };
    assert_eq!([2, 4].map(&mut told), [0, 1]);
    b.osd.config.shard = crate::Shard { index: 1, count: 2 };
    let effects = b.handle(Event::OsdRefused(A));
    let told = ShardMessage::OsdUnreachable(A, Epoch(4), false);
    assert_eq!(format!("{effects:?}"), format!("{:?}", [Effect::ShardMessage(CONTROL, told)]));
}

#[test]
fn no_message_waits_for_a_map_that_never_comes() {
    let mut a = Running::new(A, B, 2);
    let mut reports = |epoch| {
        let query = MPgQuery { pgid: PgId::new(PoolId(1), 0), epoch: Epoch(epoch), ..MPgQuery::default() };
        let effects = a.handle(Event::Received(CONN, 0, query.into()));
        let is_report = |effect: &&Effect| matches!(effect, Effect::SendMon(Message::MOSDFailure(_)));
        (effects.iter().filter(is_report).count(), a.osd.waiting.len())
    };
    assert_eq!([3, 1 << 31].map(&mut reports), [(0, 1), (1, 1)]);
}

#[test]
fn the_stuck_session_of_an_osd_that_is_down_is_dropped() {
    let mut b = Running::new(B, A, 3);
    let effects = b.handle(Event::OsdStuck(A));
    assert!(matches!(effects[..], [Effect::ForgetOsd(A)]), "{effects:?}");
}

/// A is marked down, and up again, while both run.
#[test]
fn sessions_end_with_a_life_at_either_end() {
    for (me, peer) in [(A, B), (B, A)] {
        let mut it = Running::new(me, peer, 2);
        it.now = it.now + Duration::from_secs(2);
        assert_eq!(beats_to(peer, &it.handle(Event::Timer(crate::osd::TICK))), 1);
        assert_eq!(forgotten(&mut it), [peer]);
    }
}

/// The peer may have said something that is in the way of its next life.
#[test]
fn the_session_of_an_osd_ends_with_its_life_though_nothing_was_said_to_it() {
    assert_eq!(forgotten(&mut Running::new(B, A, 2)), [A]);
}

/// The OSDs whose sessions end when A is marked down and up again by maps of one message.
fn forgotten(it: &mut Running) -> Vec<OsdId> {
    let effects = it.handle(Event::FromMon(maps().into()));
    assert_eq!(it.osd.map.epoch, Epoch(4));
    let forgotten = effects.iter().filter_map(|effect| match effect {
        Effect::ForgetOsd(osd) => Some(*osd),
        _ => None,
    });
    forgotten.collect()
}

#[test]
fn who_cannot_serve_answers_and_sends_no_pings_and_does_not_boot() {
    let mut a = Running::new(A, B, 2);
    a.osd.config.shard = crate::Shard { index: 0, count: 2 };
    let mut beats = |seconds: u64, is_alive: bool| {
        let (mut sent, mut answered) = (0, 0);
        for _ in 0..seconds {
            a.now = a.now + Duration::from_secs(1);
            if is_alive {
                a.handle(Event::ShardMessage(1, ShardMessage::Liveness(Default::default())));
            }
            sent += beats_to(B, &a.handle(Event::Timer(crate::osd::TICK)));
            let ping = ping(PingOp::PING, B, 2, 900);
            answered += beats_to(B, &a.handle(Event::Received(CONN, 0, ping.into())));
        }
        (sent, answered)
    };
    assert_eq!(beats(10, true), (5, 10));
    assert_eq!(beats(14, false), (7, 14), "it may go on yet");
    assert_eq!(beats(10, false), (0, 0));
    let has_booted = |effects: Vec<Effect>| {
        let is_boot = |effect: &Effect| matches!(effect, Effect::SendMon(Message::MOSDBoot(_)));
        effects.iter().any(is_boot)
    };
    a.osd.boot = Boot::CatchingUp(Epoch(2));
    assert!(!has_booted(a.handle(Event::Timer(crate::osd::TICK))));
    a.handle(Event::ShardMessage(1, ShardMessage::Liveness(Default::default())));
    assert!(has_booted(a.handle(Event::Timer(crate::osd::TICK))));
}
