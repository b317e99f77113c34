//! Tickets that grow old, and tickets that open nothing any more.

use std::{mem, sync::Arc};

use auth::{CryptoKey, EntityAuth, answer_mauth};
use messages::{MAuth, MAuthReply};
use types::{EntityName, KeyType, UTime};

use super::{
    pair::{End, config, ping},
    *,
};
use crate::{NoAuthority, ServiceAuth};

const DIALED: OsdId = OsdId(3);
/// The first connection to the monitor.
const TO_MON: u32 = 1;

/// What a monitor knows that gives tickets to one entity.
struct Monitor {
    entity: EntityAuth,
    secrets: BTreeMap<EntityType, RotatingSecrets>,
}

impl Authority for Monitor {
    fn service(&self) -> EntityType {
        EntityType::MON
    }
    fn allows_none(&self) -> bool {
        false
    }
    fn entity(&self, _: &EntityName) -> Option<EntityAuth> {
        Some(self.entity.clone())
    }
    fn next_global_id(&mut self) -> u64 {
        101
    }
    fn secrets(&self, service: EntityType) -> Option<&RotatingSecrets> {
        self.secrets.get(&service)
    }
}

struct Side {
    net: Net<u32>,
    end: End,
    told: Vec<NetEvent>,
}

impl Side {
    fn new(kind: EntityType, addr: &str, keeper: Option<TicketKeeper>) -> Side {
        let addrs = EntityAddrVec(vec![types::EntityAddr::parse(addr).unwrap()]);
        let config = Config { addrs, methods: vec![auth::method::CEPHX], ..config(kind) };
        Side { net: Net::new(config, keeper, [7; 32]), end: End::default(), told: Vec::new() }
    }

    fn event(&mut self, event: WireEvent<u32>, authority: &mut dyn Authority) {
        self.net.on_event(event, &mut self.end, authority, &mut self.told);
    }

    fn addrs(&self) -> EntityAddrVec {
        self.net.config.addrs.clone()
    }
}

/// A peer with tickets, the monitor that gave them, and an OSD that is to open them.
struct Trio {
    own: Side,
    mon: Side,
    osd: Side,
    monitor: Monitor,
    opens: ServiceAuth,
    rng: StdRng,
}

impl Trio {
    /// The session with the monitor is there.
    fn new(kind: EntityType) -> Trio {
        let mut rng = StdRng::seed_from_u64(5);
        let key = CryptoKey::generate(KeyType::Aes, UTime::default(), &mut rng);
        let caps = BTreeMap::from([("mon".to_owned(), "allow r".to_owned())]);
        let keeper = TicketKeeper::new(EntityName::new(kind, "1"), key.clone());
        let mut trio = Trio {
            own: Side::new(kind, "v2:127.0.0.1:6801/8", Some(keeper)),
            mon: Side::new(EntityType::MON, "v2:127.0.0.1:3300/1", None),
            osd: Side::new(EntityType::OSD, "v2:127.0.0.1:6800/7", None),
            monitor: Monitor { entity: EntityAuth { key, caps }, secrets: BTreeMap::new() },
            opens: ServiceAuth::new(EntityType::OSD, false),
            rng,
        };
        for service in [EntityType::AUTH, EntityType::MON, EntityType::OSD] {
            trio.replace_secrets(service);
        }
        trio.own.net.keep_mon_session(vec![trio.mon.addrs()]);
        trio.pass(0);
        assert!(matches!(mem::take(&mut trio.own.told)[..], [NetEvent::MonOpened]));
        mem::take(&mut trio.mon.told);
        trio
    }

    /// As `auth wipe-rotating-service-keys` does.
    fn replace_secrets(&mut self, service: EntityType) {
        let secrets = self.monitor.secrets.entry(service).or_default();
        secrets.wipe();
        secrets.rotate(service, KeyType::Aes256k, self.own.end.wall(), &mut self.rng);
        if service == EntityType::OSD {
            self.opens.set_secrets(secrets.clone());
        }
    }

    /// Time passes, the connections are looked after, and all three hear what is said.
    fn pass(&mut self, ms: u64) {
        for side in [&mut self.own, &mut self.mon, &mut self.osd] {
            side.end.now = side.end.now + Duration::from_millis(ms);
        }
        let dialed = self.own.end.dialed;
        self.own.net.tick(&mut self.own.end, &mut self.own.told);
        self.connect(dialed);
    }

    /// Takes what was dialed since.
    fn connect(&mut self, dialed: u32) {
        for conn in dialed + 1..=self.own.end.dialed {
            self.hear(conn, WireEvent::Accepted(conn, "127.0.0.1:50000".parse().unwrap()));
            self.own.event(WireEvent::Connected(conn), &mut NoAuthority);
        }
        self.run();
    }

    fn hear(&mut self, conn: u32, event: WireEvent<u32>) {
        match self.own.net.links.get(&conn).map(|link| link.purpose) {
            Some(Purpose::Mon) => self.mon.event(event, &mut self.monitor),
            _ => self.osd.event(event, &mut self.opens),
        }
    }

    fn run(&mut self) {
        loop {
            let said = mem::take(&mut self.own.end.said);
            let answers = [&mut self.mon, &mut self.osd].map(|side| mem::take(&mut side.end.said));
            if said.is_empty() && answers.iter().all(|said| said.is_empty()) {
                return;
            }
            for (conn, bytes) in said {
                for bytes in bytes {
                    self.hear(conn, WireEvent::Received(conn, bytes, Vec::new()));
                }
            }
            for (conn, bytes) in answers.into_iter().flatten() {
                for bytes in bytes {
                    self.own.event(WireEvent::Received(conn, bytes, Vec::new()), &mut NoAuthority);
                }
            }
        }
    }

    /// Says something to the OSD in a session.
    fn say(&mut self) {
        let (addrs, dialed) = (Arc::new(self.osd.addrs()), self.own.end.dialed);
        self.own.net.send_osd(DIALED, addrs, Arc::new(ping().encode(0)), &mut self.own.end);
        self.connect(dialed);
    }

    fn asked(&mut self) -> Vec<(u64, Box<MAuth>)> {
        let request = |event| match event {
            NetEvent::Received(id, _, Message::MAuth(request)) => (id, request),
            other => panic!("{other:?}"),
        };
        mem::take(&mut self.mon.told).into_iter().map(request).collect()
    }

    /// The monitor answers what it was asked; how often that was.
    fn answer(&mut self) -> usize {
        let asked = self.asked();
        let count = asked.len();
        for (id, request) in asked {
            let (name, wall) = (EntityName::new(EntityType::CLIENT, "1"), self.mon.end.wall());
            let name = self.own.net.keeper.as_ref().map_or(name, |keeper| keeper.name().clone());
            let payload =
                answer_mauth(&name, 101, request.payload, wall, &mut self.rng, &self.monitor).unwrap();
            let reply = MAuthReply { protocol: request.protocol, payload, ..MAuthReply::default() };
            self.mon.net.send(id, 0, &reply.into(), &mut self.mon.end);
        }
        self.run();
        count
    }

    fn is_open(&self) -> bool {
        self.osd.told.iter().any(|event| matches!(event, NetEvent::Opened(..)))
    }
}

#[test]
fn whoever_keeps_tickets_renews_them_before_they_expire() {
    let mut trio = Trio::new(EntityType::CLIENT);
    trio.pass(44 * 60_000);
    assert_eq!(trio.answer(), 0, "they are young");
    trio.pass(2 * 60_000);
    assert_eq!(trio.answer(), 1);
    assert!(matches!(trio.own.told[..], [NetEvent::Tickets]), "{:?}", trio.own.told);
    trio.pass(30 * 60_000);
    assert_eq!(trio.answer(), 0, "they are new");
    trio.say();
    assert!(trio.is_open());
}

#[test]
fn tickets_that_an_osd_refuses_are_replaced() {
    let mut trio = Trio::new(EntityType::OSD);
    trio.replace_secrets(EntityType::OSD);
    trio.say();
    for _ in 0..5 {
        trio.pass(250);
    }
    assert!(!trio.is_open() && trio.own.end.dialed > 3, "refused, and dialed again");
    assert!(!trio.osd.end.closed.is_empty());
    assert_eq!(trio.osd.end.closed, trio.osd.end.closed_when_sent, "it is to hear that it is refused");
    assert_eq!(trio.answer(), 1, "asked for once, however often it was refused");
    trio.pass(250);
    assert!(trio.is_open());
}

#[test]
fn a_part_of_a_daemon_that_has_no_monitor_passes_its_wish_for_tickets_on() {
    let mut trio = Trio::new(EntityType::OSD);
    assert!(!trio.own.net.pass_ticket_wish_on());
    trio.replace_secrets(EntityType::OSD);
    trio.say();
    assert!(!trio.own.net.pass_ticket_wish_on(), "it asks by itself");
    let keeper = trio.own.net.keeper.clone();
    trio.own = Side::new(EntityType::OSD, "v2:127.0.0.1:6801/8", keeper);
    trio.osd = Side::new(EntityType::OSD, "v2:127.0.0.1:6800/7", None);
    trio.say();
    assert_eq!([(); 2].map(|()| trio.own.net.pass_ticket_wish_on()), [true, false]);
}

#[test]
fn tickets_that_are_refused_for_long_are_asked_for_again_and_again_with_pauses() {
    let mut trio = Trio::new(EntityType::CLIENT);
    trio.replace_secrets(EntityType::OSD);
    let addrs = trio.osd.addrs();
    for _ in 0..80 {
        let dialed = trio.own.end.dialed;
        trio.own.net.dial(&addrs, &mut trio.own.end);
        trio.connect(dialed);
        trio.pass(250);
    }
    assert!(!trio.is_open());
    assert_eq!(trio.answer(), 2);
}

#[test]
fn secrets_that_do_not_open_the_own_ticket_make_it_be_replaced() {
    let mut trio = Trio::new(EntityType::OSD);
    let mut service = ServiceAuth::new(EntityType::OSD, false);
    for (is_wiped, requests) in [(false, 0), (true, 1), (false, 0)] {
        if is_wiped {
            trio.replace_secrets(EntityType::OSD);
        }
        let secrets = trio.monitor.secrets[&EntityType::OSD].clone();
        service.on_secrets(secrets, &mut trio.own.net, &trio.own.end);
        trio.pass(250);
        assert_eq!(trio.answer(), requests);
    }
}

/// The monitor was away for days, or its clock leapt.
#[test]
fn an_osd_that_can_no_longer_prove_its_id_is_let_in_under_another() {
    for (kind, is_let_in) in [(EntityType::OSD, true), (EntityType::CLIENT, false)] {
        let mut trio = Trio::new(kind);
        trio.replace_secrets(EntityType::AUTH);
        trio.own.event(WireEvent::Closed(TO_MON), &mut NoAuthority);
        assert!(matches!(mem::take(&mut trio.own.told)[..], [NetEvent::MonClosed]));
        for _ in 0..5 {
            trio.pass(250);
        }
        let is_open = matches!(trio.own.told[..], [NetEvent::MonOpened]);
        assert_eq!(is_open, is_let_in, "{kind:?}: {:?}", trio.own.told);
        assert_eq!(trio.own.net.is_refused_by_mon(), !is_let_in, "{kind:?}");
    }
}

#[test]
fn all_connections_can_be_closed() {
    let mut trio = Trio::new(EntityType::CLIENT);
    let addrs = trio.osd.addrs();
    trio.own.net.dial(&addrs, &mut trio.own.end);
    let Side { net, mut end, .. } = trio.own;
    net.close_all(&mut end);
    assert_eq!(end.closed, [TO_MON, TO_MON + 1]);
}

/// Without a monitor, OSDs keep the secrets that open the tickets.
#[test]
fn a_ticket_that_nobody_renews_opens_as_long_as_its_secret_is_kept() {
    let mut trio = Trio::new(EntityType::OSD);
    trio.pass(3 * 3_600_000);
    assert_eq!(trio.asked().len(), 1);
    trio.say();
    assert!(trio.is_open());
}

#[test]
fn a_peer_that_gets_no_tickets_begins_another_session_with_the_monitor() {
    // Refused, or sealed with another key.
    for result in [-13, 0] {
        let mut trio = Trio::new(EntityType::OSD);
        trio.own.net.want_tickets();
        trio.pass(250);
        let [(id, _)] = trio.asked()[..] else { panic!("asked once") };
        let reply = MAuthReply { result, ..MAuthReply::default() };
        trio.mon.net.send(id, 0, &reply.into(), &mut trio.mon.end);
        trio.run();
        trio.pass(250);
        let told = &trio.own.told[..];
        assert!(matches!(told, [NetEvent::MonClosed, NetEvent::MonOpened]), "{told:?}");
    }
}
