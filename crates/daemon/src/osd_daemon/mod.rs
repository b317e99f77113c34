//! An OSD as a process: a reactor for each of its shards, and how they find together.

mod end_limit;
mod own_key;
mod shard_daemon;
mod shard_queues;

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::mpsc::{self, RecvTimeoutError},
    thread::JoinHandle,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use auth::{CryptoKey, TicketKeeper, con_mode, method};
use msgr::Config;
use osd::{ConnId, Event, Osd, OsdConfig, Shard};
use rand::{Rng, SeedableRng};
use reactor::{ListenerId, Reactor, Waker};
use shard::ShardMachine;
use store::{Config as StoreConfig, DeviceSizes, Store};
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, OsdId, Uuid};

pub(crate) use own_key::own_key;

use self::{
    end_limit::EndLimit,
    shard_daemon::{NET_TIMER, ShardDaemon},
    shard_queues::{ShardQueues, SharedFailure},
};
use crate::{
    admin_socket::AdminSocket,
    bind_ports::BindPorts,
    ceph_conf::CephConf,
    clock,
    device::{Access, Device, GoOn, Interrupted},
    device_paths::{DevicePaths, Found, is_no_place_for_files, look_at},
    host, log_levels,
    memory::Memory,
    own_addresses,
    pid_file::PidFile,
    stop::{Stop, Stopped},
    store_owner,
    wire::{Net, OnReactor},
};

/// How often the control shard looks for signals while it waits for the other shards' mounts.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// Runs OSD `id` until a signal. Its reactors are pinned to `cpus` in turns, if there are any.
pub fn run(id: &str, conf: &Path, cpus: Vec<usize>) -> Result<()> {
    let stop = Stop::new()?;
    reactor::block_signals()?;
    let (id, conf) = (id.to_owned(), conf.to_owned());
    let cpu = cpus.first().copied();
    let handle = reactor::spawn(&format!("osd.{id}"), cpu, move || serve(&id, &conf, &stop, true, &cpus))?;
    handle.join().map_err(|_| anyhow!("the OSD's thread ended with a panic"))?
}

/// Where an OSD is reached: by all peers, and by other OSDs at an address for each shard.
#[derive(Clone, Debug)]
struct Addrs {
    public: EntityAddrVec,
    cluster: EntityAddrVec,
}

/// What the shards of an OSD have in common.
#[derive(Clone)]
struct Setup {
    conf: CephConf,
    who: EntityName,
    whoami: OsdId,
    data: String,
    key: CryptoKey,
    is_none: bool,
    /// Where clients find it, before the port is known.
    public: SocketAddr,
    /// For listeners whose port is not said.
    ports: BindPorts,
    /// Where other OSDs find it.
    cluster_ip: IpAddr,
    uuid: Uuid,
    device_bytes: u64,
    /// Of each shard's regions, as they were made.
    regions: DeviceSizes,
    failure: SharedFailure,
}

/// A shard's store, mounted.
struct Mounted {
    device: Device,
    memory: Memory,
    store: Store,
}

/// A shard that is not the control shard, on its way up: it says where it listens, and is told where all do.
struct Starting {
    thread: JoinHandle<Result<()>>,
    listens: mpsc::Receiver<SocketAddr>,
    addrs: mpsc::Sender<Addrs>,
}

/// Serves until `stop` or, with `signals`, a signal.
pub(crate) fn serve(id: &str, conf_path: &Path, stop: &Stop, signals: bool, cpus: &[usize]) -> Result<()> {
    let conf = CephConf::read(conf_path)?;
    let who = EntityName::new(EntityType::OSD, id);
    log_levels::follow(&who, |name| conf.option(&who, name));
    // Goes behind the reactor, which waits for its device commands.
    let end_limit = EndLimit::new(who.clone());
    let mut reactor =
        Reactor::new(reactor::Config { waker: Some(stop.waker()), signals, ..Default::default() })?;
    match serve_shards(conf, &who, stop, cpus, &mut reactor, &end_limit) {
        // As asked: what its mount has done the next one does again.
        Err(error) if error.is::<Stopped>() => {
            tracing::info!("{who}: {error:#}");
            Ok(())
        }
        Err(error) => {
            end_limit.begin(&error);
            Err(error)
        }
        Ok(()) => Ok(()),
    }
}

/// Serves on `reactor`, the control shard's, and on one for each other shard.
fn serve_shards(
    conf: CephConf,
    who: &EntityName,
    stop: &Stop,
    cpus: &[usize],
    reactor: &mut Reactor,
    end_limit: &EndLimit,
) -> Result<()> {
    let whoami = OsdId(who.id.parse().context("an OSD's id is a number")?);
    let data = conf.data(who);
    let paths = DevicePaths::read(&conf, who);
    let path = &paths.main;
    let found = look_at(path).with_context(|| path.display().to_string())?;
    if found == Found::Nothing && !is_no_place_for_files(path) {
        bail!("{} does not exist: run `loligo mkfs osd --id {}` first", path.display(), who.id);
    }
    let mut device = Device::open(reactor, &paths, Access::Exclusive)?;
    let label = device.label(reactor)?;
    store_owner::check(&label.identity, &conf, who, path)?;
    let count = label.identity.shards;
    let is_sane = count.is_power_of_two() && count <= osd::SHARDS_MAX;
    let regions_bytes = if count == 1 { 0 } else { u64::from(count) * label.regions.main };
    if !is_sane || regions_bytes > device.main_bytes() {
        bail!("{} does not hold the {count} stores that it says it does", path.display());
    }
    if count > 1 {
        device.share_lock(reactor)?;
    }
    let mut wakers = vec![stop.waker()];
    for _ in 1..count {
        wakers.push(Waker::new().context("making an eventfd")?);
    }
    let public = own_addresses::public_addr(&conf, who)?;
    let setup = Setup {
        public,
        ports: BindPorts::read(&conf, who)?,
        cluster_ip: own_addresses::cluster_ip(&conf, who, public.ip())?,
        is_none: conf.is_auth_none(who)?,
        key: own_key(&conf, Path::new(&data), who)?,
        whoami,
        data,
        uuid: label.identity.store_uuid,
        device_bytes: device.main_bytes(),
        regions: label.regions,
        failure: SharedFailure::new(wakers.iter().cloned().collect(), end_limit.clone()),
        conf,
        who: who.clone(),
    };
    let mut queues = ShardQueues::between(&wakers);
    let others = queues.drain(1..).zip(1..).zip(&wakers[1..]);
    let others: Vec<Starting> = others
        .map(|((queues, index), waker)| {
            let cpu = cpus.get(usize::from(index) % cpus.len().max(1)).copied();
            setup.spawn(Shard { index, count }, queues, waker.clone(), cpu)
        })
        .collect::<Result<_>>()?;
    let own = queues.pop().expect("the control shard's are the first of at least one");
    let result = setup.serve_control(Shard { index: 0, count }, own, device, reactor, &others, stop);
    let is_stopped = setup.failure.take(&result);
    let mut results = vec![result];
    for Starting { thread, addrs, .. } in others {
        drop(addrs);
        results.push(thread.join().unwrap_or_else(|_| Err(anyhow!("a shard's thread ended with a panic"))));
    }
    for error in results.iter().filter_map(|result| result.as_ref().err()).skip(1).filter(|_| !is_stopped) {
        tracing::error!("{error:#}");
    }
    results.into_iter().collect()
}

impl Mounted {
    /// Takes what the device says, before there is a daemon to take it: a mount may end with commands in flight, and
    /// the store waits for each. Signals end the wait.
    fn take(&mut self, events: Vec<reactor::Event>) -> Result<(), Interrupted> {
        for (token, result) in self.device.answers(events)? {
            self.store.device_done(token, result);
        }
        Ok(())
    }
}

/// Where the other shards listen, in their order: each says so when its store is mounted. Nothing listens here before,
/// so other events are of the own store's device, or signals.
fn wait_for_others(
    others: &[Starting],
    mounted: &mut Mounted,
    reactor: &mut Reactor,
    stop: &Stop,
) -> Result<Vec<SocketAddr>> {
    let (mut sockets, mut events) = (Vec::new(), Vec::new());
    for other in others {
        sockets.push(loop {
            match other.listens.recv_timeout(SIGNAL_INTERVAL) {
                Ok(socket) => break socket,
                Err(RecvTimeoutError::Disconnected) => bail!("a shard failed at its start"),
                Err(RecvTimeoutError::Timeout) => {
                    reactor.poll(Some(Duration::ZERO), &mut events)?;
                    mounted.take(std::mem::take(&mut events))?;
                    stop.check()?;
                }
            }
        });
    }
    Ok(sockets)
}

impl Setup {
    /// Starts a shard's thread.
    fn spawn(&self, shard: Shard, queues: ShardQueues, waker: Waker, cpu: Option<usize>) -> Result<Starting> {
        let (listening, listens) = mpsc::channel();
        let (addrs, told) = mpsc::channel();
        let setup = self.clone();
        let serve = move |reactor: &mut Option<Reactor>| -> Result<()> {
            let config = reactor::Config { waker: Some(waker), ..Default::default() };
            let reactor = reactor.insert(Reactor::new(config)?);
            let paths = DevicePaths::read(&setup.conf, &setup.who);
            let device = Device::open(reactor, &paths, Access::Shared)?;
            let mounted = setup.mount(shard, &device, reactor, &|| setup.failure.check())?;
            let (_, socket) = setup.listen_for_osds(reactor)?;
            listening.send(socket)?;
            // Without them the control shard has failed, and says why.
            let Ok(addrs) = told.recv() else { return Ok(()) };
            let mut daemon = setup.daemon(shard, queues, mounted, &addrs)?;
            setup.start(&mut daemon, addrs, reactor);
            daemon.run(reactor, None)
        };
        let failure = self.failure.clone();
        let name = format!("osd.{}.{}", self.whoami, shard.index);
        let thread = reactor::spawn(&name, cpu, move || {
            // Outlives the rest: as it goes it waits for the device commands under way, which may have a limit by then.
            let mut reactor = None;
            let result = serve(&mut reactor);
            if let Err(error) = &result {
                failure.fail(error);
            }
            result
        })?;
        Ok(Starting { thread, listens, addrs })
    }

    fn serve_control(
        &self,
        shard: Shard,
        queues: ShardQueues,
        device: Device,
        reactor: &mut Reactor,
        others: &[Starting],
        stop: &Stop,
    ) -> Result<()> {
        let go_on = || {
            stop.check()?;
            self.failure.check()
        };
        let mut mounted = self.mount(shard, &device, reactor, &go_on)?;
        let others_listen = wait_for_others(others, &mut mounted, reactor, stop)?;
        let (addrs, public) = self.listen(shard, others_listen, reactor)?;
        let mut daemon = self.daemon(shard, queues, mounted, &addrs)?;
        daemon.admin = AdminSocket::open(&self.conf, &self.who, stop.waker())?;
        daemon.public = public;
        daemon.machine.net.keep_mon_session(self.conf.mon_hosts(&self.who)?);
        for other in others {
            other.addrs.send(addrs.clone()).map_err(|_| anyhow!("a shard ended at its start"))?;
        }
        let _pid_file = PidFile::write(&self.conf, &self.who)?;
        let place = addrs.public.clone();
        self.start(&mut daemon, addrs, reactor);
        tracing::info!(%place, shards = shard.count, "{} listens", self.who);
        daemon.run(reactor, Some(stop))
    }

    /// Listens for clients, and with several shards, or a network of their own, for other OSDs besides, as the other
    /// shards do at `others`.
    fn listen(
        &self,
        shard: Shard,
        others: Vec<SocketAddr>,
        reactor: &mut Reactor,
    ) -> Result<(Addrs, Option<ListenerId>)> {
        let wanted = self.public;
        let (listener, socket) = self.ports.listen(reactor, wanted)?;
        let mut seed = rand::rngs::StdRng::from_seed(clock::random_seed());
        let nonce = seed.random_range(1..=u32::MAX);
        let public = EntityAddrVec::msgr2(socket, nonce);
        if shard.count == 1 && self.cluster_ip == wanted.ip() {
            return Ok((Addrs { cluster: public.clone(), public }, None));
        }
        let (_, own) = self.listen_for_osds(reactor)?;
        let sockets = std::iter::once(own).chain(others);
        let cluster = sockets.map(|socket| EntityAddr::msgr2(socket, nonce)).collect();
        Ok((Addrs { public, cluster: EntityAddrVec(cluster) }, Some(listener)))
    }

    /// A listener of one shard: other OSDs dial the shard of theirs.
    fn listen_for_osds(&self, reactor: &mut Reactor) -> Result<(ListenerId, SocketAddr)> {
        self.ports.listen(reactor, SocketAddr::new(self.cluster_ip, 0))
    }

    /// Mounts a shard's store. To be done before anything listens: a mount looks at its device's events alone, so a
    /// connection that arrives meanwhile would be forgotten.
    fn mount(
        &self,
        shard: Shard,
        device: &Device,
        reactor: &mut Reactor,
        go_on: GoOn<'_>,
    ) -> Result<Mounted> {
        let memory = Memory::read(&self.conf, &self.who)?.for_shard(shard);
        let mut device = device.shares(shard.index, shard.count, &self.regions);
        let discard = self.conf.option(&self.who, "bdev_enable_discard").as_deref() == Some("true");
        let config = memory.configure(StoreConfig { discard, ..device.store_config() });
        let store = device.mount(reactor, config, go_on);
        let store = store.with_context(|| format!("shard {}", shard.index))?;
        Ok(Mounted { device, memory, store })
    }

    /// A shard on its store.
    fn daemon(
        &self,
        shard: Shard,
        queues: ShardQueues,
        mounted: Mounted,
        addrs: &Addrs,
    ) -> Result<ShardDaemon> {
        let Mounted { device, memory, store } = mounted;
        let keeper = TicketKeeper::new(self.who.clone(), self.key.clone());
        let config = Config {
            entity_type: EntityType::OSD,
            addrs: addrs.public.clone(),
            more_addrs: EntityAddrVec::default(),
            gid: i64::from(self.whoami.0),
            methods: vec![if self.is_none { method::NONE } else { method::CEPHX }],
            modes: vec![con_mode::CRC, con_mode::SECURE],
        };
        let mut net = Net::new(config, Some(keeper), clock::random_seed());
        net.set_part(usize::from(shard.index), addrs.cluster.clone(), ConnId::first_of(shard.index).0);
        net.set_queued_bytes_max(memory.queued_bytes_max());
        let config = OsdConfig {
            whoami: self.whoami,
            fsid: self.conf.fsid(&self.who)?,
            uuid: self.uuid,
            device_bytes: self.device_bytes,
            metadata: self.metadata(&DevicePaths::read(&self.conf, &self.who).main, shard),
            options: self.conf.all(&self.who),
            hostname: host::hostname(),
            features: codec::Features::PACIFIC.0,
            git_version: host::GIT_VERSION,
            shard,
            seed: net.rng().random(),
        };
        Ok(ShardDaemon {
            machine: ShardMachine::new(Osd::new(config), store, net, self.is_none),
            shard,
            device,
            memory,
            outcomes: Vec::new(),
            commands: Vec::new(),
            queues,
            items: Vec::new(),
            public: None,
            admin: None,
            next_shard: 0,
            failure: self.failure.clone(),
        })
    }

    fn start(&self, daemon: &mut ShardDaemon, addrs: Addrs, reactor: &mut Reactor) {
        let started = Event::Started { public_addrs: addrs.public, cluster_addrs: addrs.cluster };
        daemon.machine.handle(started, &OnReactor(reactor));
        reactor.set_timer(NET_TIMER, clock::now().0);
    }

    /// What this OSD tells of itself when it boots: `ceph osd metadata`.
    fn metadata(&self, device: &Path, shard: Shard) -> BTreeMap<String, String> {
        let mut out = host::facts();
        out.extend(host::device_facts(device));
        for (key, value) in [
            ("osd_objectstore", "loligo"),
            ("osd_data", &self.data),
            ("loligo_reactors", &shard.count.to_string()),
            ("ceph_version_short", types::DAEMON_VERSION),
            ("ceph_version", &types::daemon_version_line(host::GIT_VERSION)),
            ("ceph_release", "pacific"),
        ] {
            out.insert(key.to_owned(), value.to_owned());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use store::ObjectStore;
    use types::{CollId, Token, Transaction, TxnOp};

    use super::*;
    use crate::new_cluster::NewCluster;

    #[test]
    fn a_mount_ends_when_its_daemon_is_asked_to_stop() {
        let dir = std::env::temp_dir().join(format!("loligo-stopped-{}", std::process::id()));
        NewCluster::small(&dir).make().unwrap();
        let mut reactor = Reactor::new(reactor::Config::default()).unwrap();
        let conf = CephConf::read(&dir.join("ceph.conf")).unwrap();
        let paths = DevicePaths::read(&conf, &EntityName::new(EntityType::OSD, "0"));
        let mut device = Device::open(&mut reactor, &paths, Access::Offline).unwrap();
        let stop = Stop::new().unwrap();
        stop.ask();
        let mounted = device.mount(&mut reactor, device.store_config(), &|| Ok(stop.check()?));
        assert!(mounted.is_err_and(|error| error.is::<Stopped>()));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_store_hears_of_its_device_before_there_is_a_daemon() {
        let dir = std::env::temp_dir().join(format!("loligo-mounted-{}", std::process::id()));
        NewCluster::small(&dir).make().unwrap();
        let mut reactor = Reactor::new(reactor::Config::default()).unwrap();
        let conf = CephConf::read(&dir.join("ceph.conf")).unwrap();
        let paths = DevicePaths::read(&conf, &EntityName::new(EntityType::OSD, "0"));
        let mut device = Device::open(&mut reactor, &paths, Access::Offline).unwrap();
        let store = device.mount(&mut reactor, device.store_config(), &|| Ok(())).unwrap();
        let mut mounted = Mounted { device, memory: Memory::with_target(1 << 30), store };
        let ops = vec![TxnOp::CreateCollection];
        mounted.store.submit(Token(1), Transaction { ops, ..Transaction::new(CollId::META) });
        mounted.store.kick();
        let commands = mounted.store.take_commands();
        assert!(!commands.is_empty());
        mounted.device.submit(commands, &mut reactor);
        while mounted.store.take_completions().is_empty() {
            let mut events = Vec::new();
            reactor.poll(None, &mut events).unwrap();
            mounted.take(events).unwrap();
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
