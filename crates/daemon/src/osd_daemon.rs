//! An OSD on a reactor: connections, the store's device, tickets.

use std::{collections::BTreeMap, fs, net::SocketAddr, path::Path, time::Duration};

use anyhow::{Context, Result, bail};
use auth::{CryptoKey, Keyring, OsdCaps, TicketKeeper, con_mode, method};
use messages::Message;
use msgr::Config;
use net::{NetEvent, ServiceAuth};
use osd::{ConnId, Effect, Event, Osd, OsdConfig, Peer};
use rand::Rng;
use reactor::{Event as IoEvent, Reactor};
use store::Store;
use types::{EntityAddrVec, EntityName, EntityType, GlobalId, OsdId, Token};

use crate::{
    ceph_conf::CephConf,
    clock, cluster,
    device::Device,
    host,
    memory::Memory,
    stop::Stop,
    wire::{Net, OnReactor, wire_event},
};

const NET_TIMER: u64 = u64::MAX - 1;
const NET_TICK: Duration = Duration::from_millis(200);

/// Runs OSD `id` until a signal.
pub fn run(id: &str, conf: &Path, cpu: Option<usize>) -> Result<()> {
    let stop = Stop::new()?;
    reactor::block_signals()?;
    let (id, conf) = (id.to_owned(), conf.to_owned());
    let handle = reactor::spawn(&format!("osd.{id}"), cpu, move || serve(&id, &conf, &stop, true))?;
    handle.join().map_err(|_| anyhow::anyhow!("the OSD's thread ended with a panic"))?
}

struct Daemon {
    osd: Osd,
    store: Store,
    device: Device,
    memory: Memory,
    net: Net,
    authority: ServiceAuth,
    is_none: bool,
    is_stopped: bool,
    effects: Vec<Effect>,
}

/// Serves until `stop` or, with `signals`, a signal.
pub(crate) fn serve(id: &str, conf_path: &Path, stop: &Stop, signals: bool) -> Result<()> {
    let conf = CephConf::read(conf_path)?;
    let who = EntityName::new(EntityType::OSD, id);
    let whoami = OsdId(id.parse().context("an OSD's id is a number")?);
    let data = conf.require(&who, "osd data")?;
    let mut reactor =
        Reactor::new(reactor::Config { waker: Some(stop.waker()), signals, ..Default::default() })?;
    let (device, memory, store) = open_store(&conf, &who, &mut reactor)?;
    let is_none = conf.get(&who, "auth cluster required").is_some_and(|v| v == "none");
    let key = own_key(Path::new(&data), &who)?;
    let wanted: SocketAddr = conf
        .get(&who, "public addr")
        .unwrap_or("127.0.0.1:0".into())
        .parse()
        .or_else(|_| {
            conf.get(&who, "public addr").unwrap_or_default().parse().map(|ip| SocketAddr::new(ip, 0))
        })
        .context("public addr is an address with or without a port")?;
    let listener = reactor.listen(wanted).with_context(|| format!("listening at {wanted}"))?;
    let socket = reactor.local_addr(listener).context("the listener has no address")?;
    let mut net = Net::new(
        Config {
            entity_type: EntityType::OSD,
            addrs: EntityAddrVec::default(),
            gid: i64::from(whoami.0),
            methods: vec![if is_none { method::NONE } else { method::CEPHX }],
            modes: vec![con_mode::CRC, con_mode::SECURE],
        },
        Some(TicketKeeper::new(who.clone(), key)),
        clock::random_seed(),
    );
    let nonce = net.rng().random_range(1..=u32::MAX);
    let addrs = EntityAddrVec::msgr2(socket, nonce);
    net.set_addrs(addrs.clone());
    net.keep_mon_session(conf.mon_hosts(&who)?);
    let fsid = cluster::parse_uuid(&conf.require(&who, "fsid")?)?;
    let config = OsdConfig {
        whoami,
        fsid,
        uuid: store.identity().store_uuid,
        device_bytes: device.bytes,
        metadata: metadata(&data, &cluster::device_path(&conf, &who)?),
        options: conf.all(&who),
        hostname: cluster::hostname(),
        features: codec::Features::PACIFIC.0,
        seed: net.rng().random(),
    };
    cluster::write_pid(&conf, &who)?;
    let mut daemon = Daemon {
        osd: Osd::new(config),
        store,
        device,
        memory,
        net,
        authority: ServiceAuth::new(EntityType::OSD, is_none),
        is_none,
        is_stopped: false,
        effects: Vec::new(),
    };
    daemon.handle(Event::Started { public_addrs: addrs.clone(), cluster_addrs: addrs }, &mut reactor);
    reactor.set_timer(NET_TIMER, clock::now().0);
    tracing::info!(%socket, "osd.{id} serves");
    let result = daemon.run(&mut reactor, stop);
    cluster::remove_pid(&conf, &who);
    result
}

/// The OSD's device and what is on it.
fn open_store(conf: &CephConf, who: &EntityName, reactor: &mut Reactor) -> Result<(Device, Memory, Store)> {
    let path = cluster::device_path(conf, who)?;
    if !path.exists() {
        bail!("{} does not exist: run `loligo mkfs osd --id {}` first", path.display(), who.id);
    }
    let memory = Memory::read(conf, who)?;
    let device = Device::open(reactor, &path, None)?;
    let mut store = device.mount(reactor)?;
    store.set_cache_bytes(memory.cache_bytes());
    Ok((device, memory, store))
}

fn own_key(data: &Path, who: &EntityName) -> Result<CryptoKey> {
    let keyring = fs::read_to_string(data.join("keyring")).context("reading the OSD's keyring")?;
    let keyring = Keyring::parse(&keyring).context("parsing the OSD's keyring")?;
    Ok(keyring.0.get(who).with_context(|| format!("the keyring has no {who}"))?.key.clone())
}

/// What this OSD tells of itself when it boots: `ceph osd metadata`.
fn metadata(data: &str, device: &Path) -> BTreeMap<String, String> {
    let mut out = host::facts();
    out.extend(host::device_facts(device));
    let version = concat!("loligo version ", env!("CARGO_PKG_VERSION"), " pacific (stable)");
    for (key, value) in [
        ("osd_objectstore", "loligo"),
        ("osd_data", data),
        ("ceph_version_short", env!("CARGO_PKG_VERSION")),
        ("ceph_version", version),
        ("ceph_release", "pacific"),
    ] {
        out.insert(key.to_owned(), value.to_owned());
    }
    out
}

impl Daemon {
    fn run(&mut self, reactor: &mut Reactor, stop: &Stop) -> Result<()> {
        let mut io_events = Vec::new();
        let mut is_stopping = false;
        loop {
            self.drain_store(reactor);
            if let Some(fault) = self.store.fault() {
                bail!("the store failed and stopped: {fault}");
            }
            if self.is_stopped && self.store.is_unmounted() {
                return Ok(());
            }
            self.net.hold_clients(self.osd.is_saturated(), &mut OnReactor(reactor));
            reactor.poll(None, &mut io_events)?;
            for event in std::mem::take(&mut io_events) {
                self.on_io(event, reactor, &mut is_stopping);
            }
            if stop.is_asked() && !is_stopping {
                is_stopping = true;
                self.handle(Event::Stop, reactor);
            }
        }
    }

    fn on_io(&mut self, event: IoEvent, reactor: &mut Reactor, is_stopping: &mut bool) {
        match event {
            IoEvent::Signal(_) => {
                *is_stopping = true;
                self.handle(Event::Stop, reactor);
            }
            IoEvent::FileDone { token, result, .. } => {
                let (token, result) = Device::done(token, result);
                self.store.device_done(token, result);
            }
            IoEvent::Timer { token: NET_TIMER } => {
                let mut out = Vec::new();
                self.net.tick(&mut OnReactor(reactor), &mut out);
                self.on_net(out, reactor);
                self.authority.renew(&mut self.net, &mut OnReactor(reactor));
                if let Some(bytes) = self.memory.tick() {
                    self.store.set_cache_bytes(bytes);
                }
                reactor.set_timer(NET_TIMER, (clock::now() + NET_TICK).0);
            }
            IoEvent::Timer { token } => self.handle(Event::Timer(Token(token)), reactor),
            event => {
                let Some(event) = wire_event(event) else { return };
                let mut out = Vec::new();
                self.net.on_event(event, &mut OnReactor(reactor), &mut self.authority, &mut out);
                self.on_net(out, reactor);
            }
        }
    }

    /// Gives the store its turn: one journal write for all that this turn submitted.
    fn drain_store(&mut self, reactor: &mut Reactor) {
        loop {
            if !self.is_stopped {
                self.store.kick();
            }
            self.device.submit(self.store.take_commands(), reactor);
            let completions = self.store.take_completions();
            if completions.is_empty() {
                return;
            }
            for completion in completions {
                self.handle(Event::Store(completion), reactor);
            }
        }
    }

    fn on_net(&mut self, events: Vec<NetEvent>, reactor: &mut Reactor) {
        for event in events {
            match event {
                NetEvent::Opened(id, end) => {
                    let caps = if self.is_none {
                        OsdCaps::allow_all()
                    } else {
                        OsdCaps::parse(&end.identity.caps).unwrap_or_default().at(end.socket.ip())
                    };
                    let peer = Peer {
                        name: end.identity.name,
                        global_id: GlobalId(end.identity.global_id),
                        addr: end.addr,
                        caps,
                        features: end.features,
                    };
                    self.handle(Event::ConnOpened(ConnId(id), Box::new(peer)), reactor);
                }
                NetEvent::Closed(id) => self.handle(Event::ConnClosed(ConnId(id)), reactor),
                NetEvent::Received(id, tid, message) => {
                    self.handle(Event::Received(ConnId(id), tid, message), reactor);
                }
                NetEvent::MonOpened => {
                    if self.authority.on_mon_opened(&mut self.net, &mut OnReactor(reactor)) {
                        self.handle(Event::MonOpened, reactor);
                    }
                }
                NetEvent::MonClosed => {
                    self.authority.on_mon_closed();
                    self.handle(Event::MonClosed, reactor);
                }
                NetEvent::FromMon(_, Message::MAuthReply(reply)) => {
                    let wire = &mut OnReactor(reactor);
                    if self.authority.on_auth_reply(reply.payload, &mut self.net, wire) {
                        self.handle(Event::MonOpened, reactor);
                    }
                }
                NetEvent::FromMon(_, message) => self.handle(Event::FromMon(message), reactor),
                NetEvent::OsdRefused(osd) => self.handle(Event::OsdRefused(osd), reactor),
            }
        }
    }

    fn handle(&mut self, event: Event, reactor: &mut Reactor) {
        if self.is_stopped {
            return;
        }
        let mut effects = std::mem::take(&mut self.effects);
        self.osd.handle(clock::now(), clock::wall(), event, &mut self.store, &mut effects);
        for effect in effects.drain(..) {
            self.execute(effect, reactor);
        }
        self.effects = effects;
    }

    fn execute(&mut self, effect: Effect, reactor: &mut Reactor) {
        let wire = &mut OnReactor(reactor);
        match effect {
            Effect::SendMon(message) => self.net.send_mon(0, &message, wire),
            Effect::Send(conn, tid, message) => self.net.send(conn.0, tid, &message, wire),
            Effect::SendOsd { osd, addrs, message } => self.net.send_osd(osd, addrs, &message, wire),
            Effect::ForgetOsd(osd) => self.net.forget_osd(osd, wire),
            Effect::Close(conn) => self.net.close(conn.0, wire),
            Effect::SetTimer(token, at) => wire.0.set_timer(token.0, at.0),
            Effect::OptionsChanged => {
                let option = |name| self.osd.option(name);
                self.memory.set(option("osd_memory_target"), option("bluestore_cache_size"));
                self.store.set_cache_bytes(self.memory.cache_bytes());
            }
            Effect::Stopped => {
                self.is_stopped = true;
                self.store.unmount();
            }
        }
    }
}
