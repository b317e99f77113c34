//! A monitor on a reactor: sessions, the ledger, the clock.

use std::{net::Ipv4Addr, path::Path, time::Duration};

use anyhow::{Context, Result, bail};
use auth::{con_mode, method};
use messages::Message;
use mon::{Effect, Event, Ledger, LedgerContents, Mon, MonOptions, Peer};
use msgr::Config;
use net::{NetEvent, PeerEvent};
use reactor::{Event as IoEvent, Reactor, Signal};
use types::{EntityName, EntityType, GlobalId};

use crate::{
    admin_socket::AdminSocket,
    bind_ports::{BindPorts, listen_at},
    ceph_conf::CephConf,
    clock,
    data_folder::{DataFolder, LEDGER_FILE, space_of},
    embedded_ledger::{ADVICE, EmbeddedLedger},
    host::{self, hostname},
    ledger_thread::LedgerThread,
    log_levels,
    manager_io::ManagerIo,
    manager_port::ManagerPort,
    metrics_port::MetricsPort,
    own_addresses,
    pid_file::PidFile,
    stop::Stop,
    wire::{Net, OnReactor, mon_peer, wire_event},
};

const MON_TIMER: u64 = 1;
const NET_TIMER: u64 = 2;
const MANAGER_TIMER: u64 = 3;
const NET_TICK: Duration = Duration::from_millis(250);
/// How often the status line's file is written, and the space that the data has is looked at.
const STATUS_TICKS: u32 = 8;
/// What ends a monitor.
const NOT_COMMITTED: &str = "a decision was not committed";

/// Runs monitor `id` until a signal.
pub fn run(id: &str, conf: &Path, cpu: Option<usize>) -> Result<()> {
    let stop = Stop::new()?;
    reactor::block_signals()?;
    let (id, conf) = (id.to_owned(), conf.to_owned());
    let handle = reactor::spawn(&format!("mon.{id}"), cpu, move || serve(&id, &conf, &stop, true))?;
    handle.join().map_err(|_| anyhow::anyhow!("the monitor's thread ended with a panic"))?
}

/// Serves until `stop` or, with `signals`, a signal.
pub(crate) fn serve(id: &str, conf_path: &Path, stop: &Stop, signals: bool) -> Result<()> {
    let conf = CephConf::read(conf_path)?;
    let data = conf.data(&EntityName::new(EntityType::MON, id));
    let ledger = EmbeddedLedger::find(&Path::new(&data).join(LEDGER_FILE))?;
    let ledger = ledger.with_context(|| no_cluster(&data, id))?;
    serve_from(Box::new(ledger), id, conf_path, stop, signals)
}

fn no_cluster(data: &str, id: &str) -> String {
    format!("{data} has no cluster yet: run `loligo mkfs mon --id {id}` first")
}

/// Serves from this ledger until `stop` or, with `signals`, a signal.
fn serve_from(
    ledger: Box<dyn Ledger + Send>,
    id: &str,
    conf_path: &Path,
    stop: &Stop,
    signals: bool,
) -> Result<()> {
    let conf = CephConf::read(conf_path)?;
    let who = EntityName::new(EntityType::MON, id);
    log_levels::follow(&who, |name| conf.option(&who, name));
    let data = conf.data(&who);
    let contents = ledger.load().context("reading the ledger")?;
    if contents.entries.is_empty() {
        bail!("{}; if it had one, {ADVICE}", no_cluster(&data, id));
    }
    let mut reactor =
        Reactor::new(reactor::Config { waker: Some(stop.waker()), signals, ..Default::default() })?;
    let addrs = own_addrs(&conf, &who, &contents)?;
    let socket =
        addrs.msgr2_addr().and_then(|a| a.socket).context("the monitor's address has no msgr2 part")?;
    listen_at(&mut reactor, socket)?;
    if !own_addresses::is_in_mon_host(&conf, &who, socket) {
        tracing::warn!(%socket, "`mon host` does not name this monitor's address, which its monitor map holds");
    }
    let is_auth_none = conf.is_auth_none(&who)?;
    let methods = vec![if is_auth_none { method::NONE } else { method::CEPHX }];
    let config = Config {
        entity_type: EntityType::MON,
        addrs: addrs.clone(),
        more_addrs: types::EntityAddrVec::default(),
        gid: 0,
        methods: methods.clone(),
        modes: vec![con_mode::CRC, con_mode::SECURE],
    };
    let net = Net::new(config, None, clock::random_seed());
    let _pid_file = PidFile::write(&conf, &who)?;
    let options = MonOptions {
        name: id.to_owned(),
        git_version: host::GIT_VERSION,
        is_auth_none,
        hostname: hostname(),
        host: host::facts(),
        conf: conf.all(&who),
        ..MonOptions::default()
    };
    let mut mon = Mon::new(options, clock::random_seed());
    let ports = BindPorts::read(&conf, &who)?;
    let manager = ManagerPort::open(&mut reactor, socket, &ports, methods, &mut mon)?;
    let admin = AdminSocket::open(&conf, &who, stop.waker())?;
    let metrics = MetricsPort::default();
    let ledger = LedgerThread::spawn(ledger, stop.waker())?;
    let data = Path::new(&data);
    // What cannot be told is not known.
    space_of(data).into_iter().for_each(|space| mon.set_data_space(space));
    let folder = DataFolder::spawn(data)?;
    let effects = Vec::new();
    let mut daemon = Daemon { mon, net, manager, metrics, manager_io: None, admin, ledger, folder, effects };
    daemon.boot(contents, &mut reactor)?;
    let conf_path = conf_path.canonicalize()?;
    let manager_key = daemon.mon.manager_key().filter(|_| !is_auth_none);
    let manager_io =
        ManagerIo::open(daemon.mon.manager_name(), manager_key, addrs, &conf_path, data, MANAGER_TIMER)?;
    daemon.manager_io = Some(manager_io);
    daemon.handle(Event::Timer, &mut reactor);
    reactor.set_timer(NET_TIMER, clock::now().0);
    tracing::info!(%socket, "mon.{id} serves");
    daemon.run(&mut reactor, stop)
}

/// The monitor's address: as its monitor map says.
fn own_addrs(conf: &CephConf, who: &EntityName, contents: &LedgerContents) -> Result<types::EntityAddrVec> {
    let bytes = contents.entries.get("monmap").context("the ledger has no monitor map")?;
    let monmap =
        <types::MonMap as codec::Decode>::from_bytes(bytes.clone()).context("decoding the monitor map")?;
    match monmap.rank_of(&who.id).and_then(|rank| monmap.mon(rank)) {
        Some(info) => Ok(info.public_addrs.clone()),
        None => conf.mon_hosts(who)?.into_iter().next().context("mon host is empty"),
    }
}

struct Daemon {
    mon: Mon,
    net: Net,
    manager: ManagerPort,
    metrics: MetricsPort,
    /// There once the monitor has booted.
    manager_io: Option<ManagerIo>,
    admin: Option<AdminSocket>,
    ledger: LedgerThread,
    folder: DataFolder,
    effects: Vec<Effect>,
}

impl Daemon {
    /// Begins with what the ledger holds.
    fn boot(&mut self, contents: LedgerContents, reactor: &mut Reactor) -> Result<()> {
        self.handle(Event::Boot(Box::new(contents)), reactor);
        while let Some(event) = self.ledger.wait().context(NOT_COMMITTED)? {
            self.handle(event, reactor);
        }
        if !self.mon.is_booted() {
            bail!("the ledger holds what this version cannot read");
        }
        Ok(())
    }

    /// Tells the monitor what the ledger has done. Fails once a decision was not committed: what the ledger holds is
    /// unknown then, so the monitor ends, and reads it when it is started again.
    fn take_ledger(&mut self, reactor: &mut Reactor) -> Result<()> {
        while let Some(event) = self.ledger.take().context(NOT_COMMITTED)? {
            self.handle(event, reactor);
        }
        Ok(())
    }

    fn run(&mut self, reactor: &mut Reactor, stop: &Stop) -> Result<()> {
        let mut io_events = Vec::new();
        let mut ticks = 0u32;
        loop {
            reactor.poll(None, &mut io_events)?;
            for event in std::mem::take(&mut io_events) {
                match event {
                    // As Ceph's daemons are told that their logs were moved; ours sees it by itself.
                    IoEvent::Signal(Signal::Hangup) => {}
                    IoEvent::Signal(Signal::Interrupt | Signal::Terminate) => return Ok(()),
                    IoEvent::Timer { token: MON_TIMER } => self.handle(Event::Timer, reactor),
                    IoEvent::Timer { token: MANAGER_TIMER } => {
                        if let Some(io) = &mut self.manager_io {
                            io.on_timer(reactor);
                        }
                    }
                    IoEvent::Timer { .. } => {
                        let mut out = Vec::new();
                        self.net.tick(&mut OnReactor(reactor), &mut out);
                        self.on_net(out, reactor);
                        let said = self.manager.tick(reactor);
                        self.handle_all(said, reactor);
                        self.metrics.tick(&mut self.mon, reactor);
                        if let Some(io) = &mut self.manager_io {
                            io.tick(self.mon.manager_key(), reactor);
                            if self.mon.wants_new_manager_client(clock::now()) {
                                io.change_client_addrs(reactor);
                            }
                            self.mon.set_manager_client(io.client_addrs());
                            let events = io.poll_runs();
                            self.handle_all(events, reactor);
                        }
                        reactor.set_timer(NET_TIMER, (clock::now() + NET_TICK).0);
                        ticks += 1;
                        if ticks.is_multiple_of(STATUS_TICKS) {
                            let (state, activity) = self.mon.status_lines();
                            self.folder.look(format!("{state}\n{activity}\n"));
                        }
                        self.folder.take().into_iter().for_each(|space| self.mon.set_data_space(space));
                    }
                    event => self.on_connection(event, reactor),
                }
            }
            self.take_ledger(reactor)?;
            self.take_objects(reactor);
            self.take_admin(reactor);
            if stop.is_asked() {
                return Ok(());
            }
        }
    }

    /// What concerns a connection, of whichever part it is.
    fn on_connection(&mut self, event: IoEvent, reactor: &mut Reactor) {
        let accepted_by = match &event {
            IoEvent::Accepted { listener, .. } => Some(*listener),
            _ => None,
        };
        let Some(event) = wire_event(event) else { return };
        if self.metrics.owns(&event, accepted_by) {
            self.metrics.on_event(event, &self.mon, reactor);
        } else if self.manager.owns(&event, accepted_by) {
            let said = self.manager.on_event(event, &mut self.mon, reactor);
            self.handle_all(said, reactor);
        } else if let Some(io) = &mut self.manager_io
            && io.owns(event.conn())
        {
            io.on_event(event, reactor);
        } else {
            let mut out = Vec::new();
            self.net.on_event(event, &mut OnReactor(reactor), &mut self.mon, &mut out);
            self.on_net(out, reactor);
        }
    }

    fn handle_all(&mut self, events: Vec<Event>, reactor: &mut Reactor) {
        for event in events {
            self.handle(event, reactor);
        }
    }

    /// Tells the monitor of objects that were read or written for it; it may ask for more at once.
    fn take_objects(&mut self, reactor: &mut Reactor) {
        while let Some(io) = &mut self.manager_io {
            let done = io.take_finished();
            if done.is_empty() {
                return;
            }
            self.handle_all(done, reactor);
        }
    }

    /// What was asked at the admin socket: as the monitor itself.
    fn take_admin(&mut self, reactor: &mut Reactor) {
        for (id, command) in self.admin.as_mut().map(AdminSocket::take).unwrap_or_default() {
            let conn = mon::ConnId(id);
            let peer = Peer {
                name: EntityName::new(EntityType::MON, ""),
                global_id: GlobalId(0),
                addr: types::EntityAddr::default(),
                ip: Ipv4Addr::UNSPECIFIED.into(),
                features: 0,
            };
            self.handle(Event::ConnOpened(conn, Box::new(peer)), reactor);
            self.handle(Event::Received { conn, tid: 0, message: command.into() }, reactor);
        }
    }

    fn on_net(&mut self, events: Vec<NetEvent>, reactor: &mut Reactor) {
        for event in events.into_iter().filter_map(NetEvent::from_peer) {
            match event {
                PeerEvent::Opened(id, end) => {
                    self.handle(Event::ConnOpened(mon::ConnId(id), Box::new(mon_peer(*end))), reactor);
                }
                PeerEvent::Closed(id) => self.handle(Event::ConnClosed(mon::ConnId(id)), reactor),
                PeerEvent::Received(id, tid, message) => {
                    self.handle(Event::Received { conn: mon::ConnId(id), tid, message }, reactor);
                }
            }
        }
    }

    fn handle(&mut self, event: Event, reactor: &mut Reactor) {
        let mut effects = std::mem::take(&mut self.effects);
        self.mon.handle(clock::now(), clock::wall(), event, &mut effects);
        for effect in effects.drain(..) {
            self.execute(effect, reactor);
        }
        self.effects = effects;
    }

    fn execute(&mut self, effect: Effect, reactor: &mut Reactor) {
        match effect {
            Effect::Send { conn, tid, message } => self.send(conn.0, tid, &message, reactor),
            Effect::SendManager { link, tid, message } => self.manager.send(link, tid, &message, reactor),
            Effect::Objects(token, request) => {
                if let Some(io) = &mut self.manager_io {
                    io.submit(token, request, reactor);
                }
            }
            Effect::Run(run, args) => {
                if let Some(io) = &mut self.manager_io {
                    io.run(run, &args);
                }
            }
            Effect::Kill(run) => {
                if let Some(io) = &mut self.manager_io {
                    io.kill(run);
                }
            }
            Effect::Close(conn) => self.net.close(conn.0, &mut OnReactor(reactor)),
            Effect::SetTimer(at) => reactor.set_timer(MON_TIMER, at.0),
            Effect::OptionsChanged => {
                let who = EntityName::new(EntityType::MON, self.mon.name());
                log_levels::follow(&who, |name| self.mon.option(name));
            }
            Effect::Compact => self.ledger.compact(),
            Effect::Propose(txn) => self.ledger.commit(txn),
        }
    }

    fn send(&mut self, conn: u64, tid: u64, message: &Message, reactor: &mut Reactor) {
        if AdminSocket::owns(conn) {
            if self.admin.as_mut().is_some_and(|admin| admin.answer(conn, message)) {
                self.handle(Event::ConnClosed(mon::ConnId(conn)), reactor);
            }
            return;
        }
        self.net.send(conn, tid, message, &mut OnReactor(reactor));
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::TcpListener,
        path::PathBuf,
        sync::atomic::{AtomicU16, Ordering},
    };

    use mon::{LedgerError, LedgerTxn, MemLedger, Revision};

    use super::*;
    use crate::new_cluster::NewCluster;

    /// One that can be read, but not written.
    struct Unwritable(MemLedger);

    impl Ledger for Unwritable {
        fn load(&self) -> Result<LedgerContents, LedgerError> {
            self.0.load()
        }

        fn commit(&mut self, _: &LedgerTxn) -> Result<Revision, LedgerError> {
            Err(LedgerError::Io { errno: 5 })
        }
    }

    /// A port that is free, another one each time. It lies below those that the kernel gives to connections: one of
    /// these could be taken before the monitor listens.
    fn free_port() -> u16 {
        static TRIED: AtomicU16 = AtomicU16::new(0);
        // Programs that run at the same time begin at different places.
        let start = std::process::id() * 16;
        let ports = std::iter::repeat_with(|| {
            let at = start + u32::from(TRIED.fetch_add(1, Ordering::Relaxed));
            12_000 + (at % 20_000) as u16
        });
        ports.take(20_000).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
    }

    /// The folder of a new cluster without OSDs, and what its ledger holds.
    fn new_cluster(name: &str) -> (PathBuf, LedgerContents) {
        let port = free_port();
        let dir = std::env::temp_dir().join(format!("loligo-mon-{name}-{}", std::process::id()));
        let new = NewCluster { osds: 0, port, ..NewCluster::small(&dir) };
        new.make().unwrap();
        let contents = EmbeddedLedger::open(&dir.join("mon.a/ledger.redb")).unwrap().load().unwrap();
        (dir, contents)
    }

    fn outcome(ledger: Box<dyn Ledger + Send>, dir: &Path) -> String {
        let conf = dir.join("ceph.conf");
        let error = serve_from(ledger, "a", &conf, &Stop::new().unwrap(), false).unwrap_err();
        std::fs::remove_dir_all(dir).unwrap();
        format!("{error:#}")
    }

    #[test]
    fn a_monitor_whose_ledger_cannot_be_written_ends_with_an_error() {
        let (dir, contents) = new_cluster("unwritable");
        let text = outcome(Box::new(Unwritable(MemLedger(contents))), &dir);
        assert_eq!(text, "a decision was not committed: the ledger failed: errno 5");
    }

    #[test]
    fn a_monitor_that_cannot_begin_leaves_no_pid_file() {
        let (dir, contents) = new_cluster("pid");
        // In the way of the manager's key.
        std::fs::create_dir(dir.join("mon.a/mgr.keyring")).unwrap();
        let (conf, ledger) = (dir.join("ceph.conf"), Box::new(MemLedger(contents)));
        serve_from(ledger, "a", &conf, &Stop::new().unwrap(), false).unwrap_err();
        assert!(!dir.join("run/mon.a.pid").exists());
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_monitor_whose_ledger_cannot_be_understood_ends_with_an_error() {
        let (dir, mut contents) = new_cluster("unreadable");
        contents.entries.insert("mutes/X".to_owned(), bytes::Bytes::from_static(b"1"));
        let text = outcome(Box::new(MemLedger(contents)), &dir);
        assert_eq!(text, "the ledger holds what this version cannot read");
    }
}
