//! An OSD of one or several shards, each with its store on a virtual disk.
//!
//! What goes in and out is never inlined: `bench/instructions` counts what these functions call.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use auth::{CryptoKey, OsdCaps, TicketKeeper, con_mode, method};
use codec::BLOCK_BYTES;
use messages::{MCommand, Message};
use msgr::Config;
use net::{Net, NetEvent, ServiceAuth, WireEvent};
use osd::{ConnId, Cross, Effect, Event, Osd, OsdConfig, Peer, Shard};
use rand::{
    Rng, SeedableRng,
    rngs::StdRng,
    seq::{IndexedMutRandom, IndexedRandom},
};
use store::{Completion, Config as StoreConfig, DeviceCommand, Mount, Store, virtual_disk::VirtualDisk};
use types::{
    EntityAddr, EntityAddrVec, EntityName, EntityType, GlobalId, Instant, OsdId, Token, Transaction,
};

use crate::{
    network::EndId,
    process::{Cx, Process},
    schedule::What,
};

const NET_TICK: Duration = Duration::from_millis(200);

/// Small, so that flushes and checkpoints happen all the time; in many worlds hardly anything of the index stays in
/// memory.
pub(crate) fn small_store(rng: &mut StdRng) -> StoreConfig {
    let index_bytes_max = [u64::MAX, 0, 60 << 10][rng.random_range(0..3)];
    let page_bytes_max = [512, 1 << 10, 16 << 10][rng.random_range(0..3)];
    StoreConfig {
        index_bytes_max,
        page_bytes_max,
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
    /// One for each shard.
    pub(crate) disks: Vec<VirtualDisk>,
    pub(crate) config: StoreConfig,
}

/// One shard of an OSD: what runs on a reactor of its own.
pub(crate) struct Part {
    pub(crate) osd: Osd,
    pub(crate) store: Store,
    disk: VirtualDisk,
    net: Net<EndId>,
    authority: ServiceAuth,
}

/// See the module's page.
pub(crate) struct OsdProcess {
    whoami: OsdId,
    fsid: [u8; 16],
    key: CryptoKey,
    config: StoreConfig,
    parts: Vec<Part>,
    /// When the last word between two parts arrives: nothing said later may arrive earlier.
    last_cross: BTreeMap<(u16, u16), Instant>,
    /// Kept for their memory, as in production.
    net_events: Vec<NetEvent>,
    effects: Vec<Effect>,
    commands: Vec<DeviceCommand>,
    completions: Vec<Completion>,
    rng: StdRng,
}

/// Mounts what a crash has left; the seed chooses the order in which the disk answers.
pub(crate) fn mount(disk: &mut VirtualDisk, config: StoreConfig, rng: &mut StdRng) -> Store {
    let mut mount: Mount = Store::mount(disk.bytes(), config);
    loop {
        disk.submit(mount.take_commands());
        if let Some(result) = mount.take() {
            return result.expect("a store can be mounted after a crash");
        }
        let (token, result) = disk.step(rng).expect("a mount that is not done waits for the disk");
        mount.device_done(token, result);
    }
}

impl Part {
    fn start(
        own: &OsdDisk,
        mut disk: VirtualDisk,
        shard: Shard,
        addrs: &Addrs,
        mon: &EntityAddrVec,
        rng: &mut StdRng,
    ) -> Part {
        let who = EntityName::new(EntityType::OSD, own.whoami.0.to_string());
        let store = mount(&mut disk, own.config, rng);
        let config = Config {
            entity_type: EntityType::OSD,
            addrs: addrs.public.clone(),
            more_addrs: EntityAddrVec::default(),
            gid: i64::from(own.whoami.0),
            methods: vec![method::CEPHX],
            modes: vec![con_mode::CRC],
        };
        let mut net = Net::new(config, Some(TicketKeeper::new(who, own.key.clone())), rng.random());
        net.set_part(usize::from(shard.index), addrs.cluster.clone(), ConnId::first_of(shard.index).0);
        if shard.is_control() {
            net.keep_mon_session(vec![mon.clone()]);
        }
        let osd = Osd::new(OsdConfig {
            hostname: String::new(),
            whoami: own.whoami,
            fsid: own.fsid,
            uuid: store.identity().store_uuid,
            device_bytes: disk.bytes(),
            metadata: BTreeMap::from([("hostname".to_owned(), "sim".to_owned())]),
            // Few objects are many here.
            options: [("osd_async_recovery_min_cost".to_owned(), "3".to_owned())].into(),
            features: codec::Features::PACIFIC.0,
            git_version: "",
            shard,
            seed: rng.random(),
        });
        Part { osd, store, disk, net, authority: ServiceAuth::new(EntityType::OSD, false) }
    }

    /// Takes the store and its disk out, with nothing outstanding.
    fn into_store(mut self, rng: &mut StdRng) -> (Store, VirtualDisk) {
        loop {
            self.store.kick();
            self.disk.submit(self.store.take_commands());
            match self.disk.step(rng) {
                Some((token, result)) => self.store.device_done(token, result),
                None => return (self.store, self.disk),
            }
        }
    }
}

/// Where an OSD is reached: by clients, and by other OSDs at one address for each shard.
pub(crate) struct Addrs {
    pub(crate) public: EntityAddrVec,
    pub(crate) cluster: EntityAddrVec,
}

fn socket(addr: &EntityAddr) -> SocketAddr {
    addr.socket.expect("daemons here have sockets")
}

impl OsdProcess {
    /// Starts on what its disks hold.
    pub(crate) fn start(
        mut own: OsdDisk,
        addrs: &Addrs,
        mon: &EntityAddrVec,
        rng: &mut StdRng,
        cx: &mut Cx<'_>,
    ) -> OsdProcess {
        let who = cx.who;
        let disks = std::mem::take(&mut own.disks);
        let count = disks.len() as u16;
        let part =
            |(index, disk)| Part::start(&own, disk, Shard { index: index as u16, count }, addrs, mon, rng);
        let parts = disks.into_iter().enumerate().map(part).collect();
        let OsdDisk { whoami, fsid, key, config, .. } = own;
        let rng = StdRng::from_rng(rng);
        let mut process = OsdProcess {
            whoami,
            fsid,
            key,
            config,
            parts,
            last_cross: BTreeMap::new(),
            net_events: Vec::new(),
            effects: Vec::new(),
            commands: Vec::new(),
            completions: Vec::new(),
            rng,
        };
        addrs.public.0.iter().for_each(|addr| cx.network.listen(who, socket(addr), count));
        for index in 0..count {
            cx.who = who.part(index);
            // One shard alone needs no address besides.
            if let Some(addr) = addrs.cluster.0.get(usize::from(index)).filter(|_| count > 1) {
                cx.network.listen(cx.who, socket(addr), 1);
            }
            let started =
                Event::Started { public_addrs: addrs.public.clone(), cluster_addrs: addrs.cluster.clone() };
            process.handle(started, cx);
            process.end_turn(cx);
            cx.schedule.after(NET_TICK, cx.who, What::NetTick);
        }
        cx.who = who;
        process
    }

    /// The power fails: what was not durable survives in part or not at all.
    pub(crate) fn crash(mut self) -> OsdDisk {
        self.parts.iter_mut().for_each(|part| part.disk.crash(&mut self.rng));
        let disks = self.parts.into_iter().map(|part| part.disk).collect();
        OsdDisk { whoami: self.whoami, fsid: self.fsid, key: self.key, disks, config: self.config }
    }

    /// Some bits on the device are not what was written.
    pub(crate) fn rot(&mut self) {
        let Some(part) = self.parts.choose_mut(&mut self.rng) else { return };
        let offsets = part.store.data_offsets();
        for _ in 0..self.rng.random_range(1..4) {
            let Some(block) = offsets.choose(&mut self.rng) else { return };
            let (byte, bit) = (self.rng.random_range(0..BLOCK_BYTES as u64), self.rng.random_range(0..8));
            part.disk.flip_bit(block + byte, bit);
        }
    }

    /// Something happens to what an OSD has, and nobody notices.
    pub(crate) fn damage(&mut self, txn: Transaction) {
        let (count, Some(first)) = (self.parts.len() as u16, self.parts.first()) else { return };
        let shard = Shard { index: 0, count }.owner(txn.coll.0, first.osd.map());
        let part = &mut self.parts[usize::from(shard)];
        // Nobody waits for a token like this.
        store::ObjectStore::submit(&mut part.store, Token(0), txn);
    }

    /// An operator at the OSD's admin socket.
    pub(crate) fn command(&mut self, json: String, cx: &mut Cx<'_>) {
        let peer = Peer::at_admin_socket();
        let command = MCommand { cmd: vec![json], ..MCommand::default() };
        // The network has no connection like this: nobody hears the answer.
        let conn = ConnId(u64::from(u32::MAX));
        self.handle(Event::ConnOpened(conn, Box::new(peer)), cx);
        self.handle(Event::Received(conn, 0, command.into()), cx);
        self.handle(Event::ConnClosed(conn), cx);
    }

    /// The shards.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The device executes one of its commands.
    #[inline(never)]
    pub(crate) fn on_device(&mut self, cx: &mut Cx<'_>) {
        let part = &mut self.parts[cx.who.index()];
        if let Some((token, result)) = part.disk.step(&mut self.rng) {
            part.store.device_done(token, result);
        }
        self.end_turn(cx);
    }

    /// Another shard's word arrives.
    #[inline(never)]
    pub(crate) fn on_cross(&mut self, from: u16, cross: Cross, cx: &mut Cx<'_>) {
        self.handle(Event::Cross(from, cross), cx);
        self.end_turn(cx);
    }

    /// Gives the store its turn, as the daemon does after each round of events.
    fn end_turn(&mut self, cx: &mut Cx<'_>) {
        loop {
            let part = &mut self.parts[cx.who.index()];
            part.store.set_time(cx.schedule.now());
            part.store.kick();
            part.store.swap_commands(&mut self.commands);
            for _ in &self.commands {
                let us = match self.rng.random_range(0..200) {
                    0 => self.rng.random_range(0..50_000),
                    _ => self.rng.random_range(10..300),
                };
                cx.schedule.after(Duration::from_micros(us), cx.who, What::Device);
            }
            part.disk.submit(self.commands.drain(..));
            assert_eq!(part.store.fault(), None, "the store of {:?} failed", self.whoami);
            let mut completions = std::mem::take(&mut self.completions);
            part.store.swap_completions(&mut completions);
            if completions.is_empty() {
                self.completions = completions;
                part.net.hold_clients(part.osd.is_saturated(), &mut cx.wire());
                return;
            }
            for completion in completions.drain(..) {
                self.handle(Event::Store(completion), cx);
            }
            self.completions = completions;
        }
    }

    /// Takes the stores and their disks out of the OSD, with nothing outstanding.
    pub(crate) fn into_stores(mut self) -> Vec<(Store, VirtualDisk)> {
        self.parts.into_iter().map(|part| part.into_store(&mut self.rng)).collect()
    }

    fn on_net(&mut self, mut events: Vec<NetEvent>, cx: &mut Cx<'_>) {
        for event in events.drain(..) {
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
                    let part = &mut self.parts[cx.who.index()];
                    if part.authority.on_mon_opened(&mut part.net, &mut cx.wire()) {
                        self.handle(Event::MonOpened, cx);
                    }
                    self.share_auth();
                }
                NetEvent::MonClosed => {
                    self.parts[cx.who.index()].authority.on_mon_closed();
                    self.handle(Event::MonClosed, cx);
                }
                NetEvent::FromMon(_, Message::MAuthReply(reply)) => {
                    let part = &mut self.parts[cx.who.index()];
                    if part.authority.on_auth_reply(reply.payload, &mut part.net, &mut cx.wire()) {
                        self.handle(Event::MonOpened, cx);
                    }
                    self.share_auth();
                }
                NetEvent::FromMon(_, message) => self.handle(Event::FromMon(message), cx),
                NetEvent::OsdRefused(osd) => self.handle(Event::OsdRefused(osd), cx),
            }
        }
        self.net_events = events;
    }

    /// The other shards get the tickets and secrets that the control shard has.
    fn share_auth(&mut self) {
        let Some((control, others)) = self.parts.split_first_mut() else { return };
        for other in others {
            other.net.keeper.clone_from(&control.net.keeper);
            if let Some(secrets) = control.authority.own_secrets() {
                other.authority.set_secrets(secrets.clone());
            }
        }
    }

    fn cross(&mut self, to: u16, cross: Cross, cx: &mut Cx<'_>) {
        let from = cx.who.index() as u16;
        let us = match self.rng.random_range(0..200) {
            0 => self.rng.random_range(0..20_000),
            _ => self.rng.random_range(1..30),
        };
        let last = self.last_cross.entry((from, to)).or_default();
        // Things of one time happen in the order in which they were scheduled.
        *last = (cx.schedule.now() + Duration::from_micros(us)).max(*last);
        cx.schedule.at(*last, cx.who.part(to), What::Cross(from, Box::new(cross)));
    }

    fn handle(&mut self, event: Event, cx: &mut Cx<'_>) {
        let mut effects = std::mem::take(&mut self.effects);
        let (now, wall) = (cx.schedule.now(), cx.schedule.wall());
        let part = &mut self.parts[cx.who.index()];
        part.osd.handle(now, wall, event, &mut part.store, &mut effects);
        for effect in effects.drain(..) {
            let net = &mut self.parts[cx.who.index()].net;
            match effect {
                Effect::SendMon(message) => net.send_mon(0, &message, &mut cx.wire()),
                Effect::Send(conn, tid, message) => net.send(conn.0, tid, &message, &mut cx.wire()),
                Effect::SendOsd { osd, addrs, message } => {
                    net.send_osd(osd, addrs, message, &mut cx.wire());
                }
                Effect::ForgetOsd(osd) => net.forget_osd(osd, &mut cx.wire()),
                Effect::Close(conn) => net.close(conn.0, &mut cx.wire()),
                Effect::Cross(to, cross) => self.cross(to, cross, cx),
                Effect::SetTimer(token, at) => cx.set_timer(token, at),
                // What runs here has no memory to save.
                Effect::OptionsChanged => {}
                Effect::Stopped => unreachable!("nobody asks an OSD here to stop in order"),
                Effect::Failed(fault) => panic!("{:?} finds its own records damaged: {fault}", self.whoami),
            }
        }
        self.effects = effects;
    }
}

impl Process for OsdProcess {
    #[inline(never)]
    fn on_wire(&mut self, event: WireEvent<EndId>, cx: &mut Cx<'_>) {
        let mut events = std::mem::take(&mut self.net_events);
        let part = &mut self.parts[cx.who.index()];
        part.net.on_event(event, &mut cx.wire(), &mut part.authority, &mut events);
        self.on_net(events, cx);
        self.end_turn(cx);
    }

    #[inline(never)]
    fn on_net_tick(&mut self, cx: &mut Cx<'_>) {
        let mut events = std::mem::take(&mut self.net_events);
        self.parts[cx.who.index()].net.tick(&mut cx.wire(), &mut events);
        self.on_net(events, cx);
        let part = &mut self.parts[cx.who.index()];
        part.authority.renew(&mut part.net, &mut cx.wire());
        self.end_turn(cx);
        cx.schedule.after(NET_TICK, cx.who, What::NetTick);
    }

    #[inline(never)]
    fn on_timer(&mut self, token: Token, cx: &mut Cx<'_>) {
        self.handle(Event::Timer(token), cx);
        self.end_turn(cx);
    }
}
