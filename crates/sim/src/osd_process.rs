//! An OSD with its store on a virtual disk.

use std::{collections::BTreeMap, time::Duration};

use auth::{CryptoKey, OsdCaps, TicketKeeper, con_mode, method};
use codec::BLOCK_BYTES;
use messages::Message;
use msgr::Config;
use net::{Net, NetEvent, ServiceAuth, WireEvent};
use osd::{ConnId, Effect, Event, Osd, OsdConfig, Peer};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use store::{Config as StoreConfig, Mount, Store, virtual_disk::VirtualDisk};
use types::{EntityAddrVec, EntityName, EntityType, GlobalId, OsdId, Token};

use crate::{
    network::EndId,
    process::{Cx, Process},
    schedule::What,
};

const NET_TICK: Duration = Duration::from_millis(200);

/// Small, so that flushes and checkpoints happen all the time.
pub(crate) fn store_config() -> StoreConfig {
    StoreConfig {
        journal_bytes: 1 << 20,
        small_write_bytes_max: 16 << 10,
        pending_bytes_max: 64 << 10,
        cache_bytes_max: 64 << 10,
        prepares_journal: true,
        ..StoreConfig::default()
    }
}

/// What outlives the process.
#[derive(Clone)]
pub(crate) struct OsdDisk {
    pub(crate) whoami: OsdId,
    pub(crate) fsid: [u8; 16],
    pub(crate) key: CryptoKey,
    pub(crate) disk: VirtualDisk,
}

/// See the module's page.
pub(crate) struct OsdProcess {
    pub(crate) osd: Osd,
    pub(crate) store: Store,
    own: OsdDisk,
    net: Net<EndId>,
    authority: ServiceAuth,
    rng: StdRng,
}

/// Mounts what a crash has left; the seed chooses the order in which the disk answers.
pub(crate) fn mount(disk: &mut VirtualDisk, rng: &mut StdRng) -> Store {
    let mut mount: Mount = Store::mount(disk.bytes(), store_config());
    loop {
        disk.submit(mount.take_commands());
        if let Some(result) = mount.take() {
            return result.expect("a store can be mounted after a crash");
        }
        let (token, result) = disk.step(rng).expect("a mount that is not done waits for the disk");
        mount.device_done(token, result);
    }
}

impl OsdProcess {
    /// Starts on what its disk holds.
    pub(crate) fn start(
        mut own: OsdDisk,
        addrs: EntityAddrVec,
        mon: EntityAddrVec,
        rng: &mut StdRng,
        cx: &mut Cx<'_>,
    ) -> OsdProcess {
        let who = EntityName::new(EntityType::OSD, own.whoami.0.to_string());
        let store = mount(&mut own.disk, rng);
        let config = Config {
            entity_type: EntityType::OSD,
            addrs: addrs.clone(),
            gid: i64::from(own.whoami.0),
            methods: vec![method::CEPHX],
            modes: vec![con_mode::CRC],
        };
        let mut net = Net::new(config, Some(TicketKeeper::new(who, own.key.clone())), rng.random());
        net.keep_mon_session(vec![mon]);
        let osd = Osd::new(OsdConfig {
            hostname: String::new(),
            whoami: own.whoami,
            fsid: own.fsid,
            uuid: store.identity().store_uuid,
            device_bytes: own.disk.bytes(),
            metadata: BTreeMap::from([("hostname".to_owned(), "sim".to_owned())]),
            options: BTreeMap::new(),
            features: codec::Features::PACIFIC.0,
            seed: rng.random(),
        });
        if let Some(socket) = addrs.msgr2_addr().and_then(|addr| addr.socket) {
            cx.network.listen(cx.who, socket);
        }
        let authority = ServiceAuth::new(EntityType::OSD, false);
        let mut process = OsdProcess { osd, store, own, net, authority, rng: StdRng::from_rng(rng) };
        process.handle(Event::Started { public_addrs: addrs.clone(), cluster_addrs: addrs }, cx);
        process.end_turn(cx);
        cx.schedule.after(NET_TICK, cx.who, What::NetTick);
        process
    }

    /// The power fails: what was not durable survives in part or not at all.
    pub(crate) fn crash(mut self) -> OsdDisk {
        self.own.disk.crash(&mut self.rng);
        self.own
    }

    /// Some bits on the device are not what was written.
    pub(crate) fn rot(&mut self) {
        let offsets = self.store.data_offsets();
        for _ in 0..self.rng.random_range(1..4) {
            let Some(block) = offsets.choose(&mut self.rng) else { return };
            let (byte, bit) = (self.rng.random_range(0..BLOCK_BYTES as u64), self.rng.random_range(0..8));
            self.own.disk.flip_bit(block + byte, bit);
        }
    }

    /// The device executes one of its commands.
    pub(crate) fn on_device(&mut self, cx: &mut Cx<'_>) {
        if let Some((token, result)) = self.own.disk.step(&mut self.rng) {
            self.store.device_done(token, result);
        }
        self.end_turn(cx);
    }

    /// Gives the store its turn, as the daemon does after each round of events.
    fn end_turn(&mut self, cx: &mut Cx<'_>) {
        loop {
            self.store.kick();
            let commands = self.store.take_commands();
            for _ in &commands {
                let us = match self.rng.random_range(0..200) {
                    0 => self.rng.random_range(0..50_000),
                    _ => self.rng.random_range(10..300),
                };
                cx.schedule.after(Duration::from_micros(us), cx.who, What::Device);
            }
            self.own.disk.submit(commands);
            assert_eq!(self.store.fault(), None, "the store of {:?} failed", self.own.whoami);
            let completions = self.store.take_completions();
            if completions.is_empty() {
                self.net.hold_clients(self.osd.is_saturated(), &mut cx.wire());
                return;
            }
            for completion in completions {
                self.handle(Event::Store(completion), cx);
            }
        }
    }

    /// Takes the store and its disk out of the OSD, with nothing outstanding.
    pub(crate) fn into_store(mut self) -> (Store, VirtualDisk) {
        loop {
            self.store.kick();
            self.own.disk.submit(self.store.take_commands());
            match self.own.disk.step(&mut self.rng) {
                Some((token, result)) => self.store.device_done(token, result),
                None => return (self.store, self.own.disk),
            }
        }
    }

    fn on_net(&mut self, events: Vec<NetEvent>, cx: &mut Cx<'_>) {
        for event in events {
            match event {
                NetEvent::Opened(id, end) => {
                    let caps = OsdCaps::parse(&end.identity.caps).unwrap_or_default();
                    let peer = Peer {
                        name: end.identity.name,
                        global_id: GlobalId(end.identity.global_id),
                        addr: end.addr,
                        caps: caps.at(end.socket.ip()),
                        features: end.features,
                    };
                    self.handle(Event::ConnOpened(ConnId(id), Box::new(peer)), cx);
                }
                NetEvent::Closed(id) => self.handle(Event::ConnClosed(ConnId(id)), cx),
                NetEvent::Received(id, tid, message) => {
                    self.handle(Event::Received(ConnId(id), tid, message), cx);
                }
                NetEvent::MonOpened => {
                    if self.authority.on_mon_opened(&mut self.net, &mut cx.wire()) {
                        self.handle(Event::MonOpened, cx);
                    }
                }
                NetEvent::MonClosed => {
                    self.authority.on_mon_closed();
                    self.handle(Event::MonClosed, cx);
                }
                NetEvent::FromMon(_, Message::MAuthReply(reply)) => {
                    if self.authority.on_auth_reply(reply.payload, &mut self.net, &mut cx.wire()) {
                        self.handle(Event::MonOpened, cx);
                    }
                }
                NetEvent::FromMon(_, message) => self.handle(Event::FromMon(message), cx),
                NetEvent::OsdRefused(osd) => self.handle(Event::OsdRefused(osd), cx),
            }
        }
    }

    fn handle(&mut self, event: Event, cx: &mut Cx<'_>) {
        let mut effects = Vec::new();
        let (now, wall) = (cx.schedule.now(), cx.schedule.wall());
        self.osd.handle(now, wall, event, &mut self.store, &mut effects);
        for effect in effects {
            match effect {
                Effect::SendMon(message) => self.net.send_mon(0, &message, &mut cx.wire()),
                Effect::Send(conn, tid, message) => self.net.send(conn.0, tid, &message, &mut cx.wire()),
                Effect::SendOsd { osd, addrs, message } => {
                    self.net.send_osd(osd, addrs, &message, &mut cx.wire());
                }
                Effect::ForgetOsd(osd) => self.net.forget_osd(osd, &mut cx.wire()),
                Effect::Close(conn) => self.net.close(conn.0, &mut cx.wire()),
                Effect::SetTimer(token, at) => cx.set_timer(token, at),
                // What runs here has no memory to save.
                Effect::OptionsChanged => {}
                Effect::Stopped => unreachable!("nobody asks an OSD here to stop in order"),
            }
        }
    }
}

impl Process for OsdProcess {
    fn on_wire(&mut self, event: WireEvent<EndId>, cx: &mut Cx<'_>) {
        let mut out = Vec::new();
        self.net.on_event(event, &mut cx.wire(), &mut self.authority, &mut out);
        self.on_net(out, cx);
        self.end_turn(cx);
    }

    fn on_net_tick(&mut self, cx: &mut Cx<'_>) {
        let mut out = Vec::new();
        self.net.tick(&mut cx.wire(), &mut out);
        self.on_net(out, cx);
        self.authority.renew(&mut self.net, &mut cx.wire());
        self.end_turn(cx);
        cx.schedule.after(NET_TICK, cx.who, What::NetTick);
    }

    fn on_timer(&mut self, token: Token, cx: &mut Cx<'_>) {
        self.handle(Event::Timer(token), cx);
        self.end_turn(cx);
    }
}
