//! An OSD of one or several shards, each with its store on a virtual disk.

mod turn;

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use auth::{CryptoKey, TicketKeeper, con_mode, method};
use codec::BLOCK_BYTES;
use messages::MCommand;
use msgr::Config;
use net::Net;
use osd::{ConnId, Event, Osd, OsdConfig, Shard};
use rand::{
    Rng, SeedableRng,
    rngs::StdRng,
    seq::{IndexedMutRandom, IndexedRandom},
};
use shard::{Outcome, ShardMachine};
use store::{Config as StoreConfig, DeviceCommand, MountError, Store, virtual_disk::VirtualDisk};
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, Instant, OsdId, Token, Transaction, Uuid};

use self::turn::Came;
pub(crate) use self::turn::ShardItem;
use crate::{
    canary::{Canary, Heard},
    network::EndId,
    process::Ctx,
    schedule::Scheduled,
};

const NET_TICK: Duration = Duration::from_millis(200);

/// Small, so that flushes and checkpoints happen all the time; in many worlds hardly anything of the index stays in
/// memory, and collections go some objects at a time.
pub(crate) fn small_store(rng: &mut StdRng) -> StoreConfig {
    let index_bytes_max = [u64::MAX, 0, 60 << 10][rng.random_range(0..3)];
    let page_bytes_max = [512, 1 << 10, 16 << 10][rng.random_range(0..3)];
    let step_objects_max = [2, 16, 128][rng.random_range(0..3)];
    StoreConfig {
        index_bytes_max,
        page_bytes_max,
        step_objects_max,
        journal_bytes: 1 << 20,
        small_write_bytes_max: 16 << 10,
        pending_bytes_max: 64 << 10,
        cache_bytes_max: 64 << 10,
        reading_bytes_max: 64 << 10,
        prepares_journal: true,
        ..StoreConfig::default()
    }
}

/// What the configuration says of OSDs.
fn options(log_entries: Option<u64>) -> BTreeMap<String, String> {
    // Few objects are many here, and few are small enough for one part. OSDs are marked down more often than elsewhere.
    let mut out = BTreeMap::from([
        ("osd_async_recovery_min_cost", 3),
        ("osd_max_markdown_count", 1_000),
        ("osd_recovery_max_chunk", 500),
    ]);
    if let Some(entries) = log_entries {
        out.extend([("osd_max_pg_log_entries", entries), ("osd_pg_log_trim_min", entries / 4)]);
    }
    out.into_iter().map(|(name, value)| (name.to_owned(), value.to_string())).collect()
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Its host goes on, and so do the devices' caches.
    Killed,
    /// With its host.
    PowerCut,
}

/// What outlives the process.
#[derive(Clone)]
pub(crate) struct OsdDisk {
    pub(crate) whoami: OsdId,
    pub(crate) fsid: Uuid,
    pub(crate) key: CryptoKey,
    /// One for each shard.
    pub(crate) disks: Vec<VirtualDisk>,
    pub(crate) config: StoreConfig,
    /// See [`Scale::log_entries`](crate::world::Scale::log_entries).
    pub(crate) log_entries: Option<u64>,
    /// Other processes use its CPUs, too: events may have to wait, and are then handled in one turn with later ones.
    pub(crate) is_busy: bool,
    /// What it does wrong on purpose.
    pub(crate) canary: Option<Canary>,
}

/// One shard of an OSD: what runs on a reactor of its own.
pub(crate) struct Part {
    pub(crate) machine: ShardMachine<EndId>,
    disk: VirtualDisk,
    came: Came,
    /// Only kept where it does something wrong.
    heard: Heard,
}

/// An OSD of one or several shards, each with its store on a virtual disk.
pub(crate) struct OsdProcess {
    whoami: OsdId,
    fsid: Uuid,
    key: CryptoKey,
    config: StoreConfig,
    log_entries: Option<u64>,
    is_busy: bool,
    canary: Option<Canary>,
    parts: Vec<Part>,
    /// When the last message between two parts arrives: no message that is sent later may arrive earlier.
    last_shard_message: BTreeMap<(u16, u16), Instant>,
    /// Kept for their memory, as in production.
    outcomes: Vec<Outcome>,
    commands: Vec<DeviceCommand>,
    rng: StdRng,
    /// Why it serves no more.
    failure: Option<String>,
}

impl Part {
    fn start(
        own: &OsdDisk,
        (store, disk): (Store, VirtualDisk),
        shard: Shard,
        addrs: &Addrs,
        mon: &EntityAddrVec,
        rng: &mut StdRng,
    ) -> Part {
        let who = EntityName::new(EntityType::OSD, own.whoami.0.to_string());
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
            options: options(own.log_entries),
            features: codec::Features::PACIFIC.0,
            git_version: "",
            shard,
            seed: rng.random(),
        });
        Part {
            machine: ShardMachine::new(osd, store, net, false),
            disk,
            came: Came::default(),
            heard: Heard::new(),
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
    /// Starts the OSD on what its disks hold. Returns why it cannot start, if they do not allow it.
    pub(crate) fn start(
        mut own: OsdDisk,
        addrs: &Addrs,
        mon: &EntityAddrVec,
        rng: &mut StdRng,
        ctx: &mut Ctx<'_>,
    ) -> Result<OsdProcess, (OsdDisk, String)> {
        let who = ctx.who;
        let mounted: Result<Vec<Store>, MountError> =
            own.disks.iter_mut().map(|disk| disk.mount(own.config, rng)).collect();
        let stores = match mounted {
            Ok(stores) => stores,
            Err(error) => return Err((own, error.to_string())),
        };
        let disks = std::mem::take(&mut own.disks);
        let count = disks.len() as u16;
        let part =
            |(index, disk)| Part::start(&own, disk, Shard { index: index as u16, count }, addrs, mon, rng);
        let parts = stores.into_iter().zip(disks).enumerate().map(part).collect();
        let OsdDisk { whoami, fsid, key, config, log_entries, is_busy, canary, .. } = own;
        let rng = StdRng::from_rng(rng);
        let mut process = OsdProcess {
            whoami,
            fsid,
            key,
            config,
            log_entries,
            is_busy,
            canary,
            parts,
            last_shard_message: BTreeMap::new(),
            outcomes: Vec::new(),
            commands: Vec::new(),
            rng,
            failure: None,
        };
        addrs.public.0.iter().for_each(|addr| ctx.network.listen(who, socket(addr), count));
        for index in 0..count {
            ctx.who = who.part(index);
            // One shard alone needs no address besides.
            if let Some(addr) = addrs.cluster.0.get(usize::from(index)).filter(|_| count > 1) {
                ctx.network.listen(ctx.who, socket(addr), 1);
            }
            let started =
                Event::Started { public_addrs: addrs.public.clone(), cluster_addrs: addrs.cluster.clone() };
            process.parts[usize::from(index)].machine.handle(started, &ctx.wire());
            process.turn(ctx);
            ctx.schedule.after(NET_TICK, ctx.who, Scheduled::NetTick);
        }
        ctx.who = who;
        Ok(process)
    }

    /// The process ends. If the power fails, what was not durable survives in part or not at all.
    pub(crate) fn end(mut self, end: End) -> OsdDisk {
        for part in &mut self.parts {
            match end {
                End::PowerCut => part.disk.crash(&mut self.rng),
                End::Killed => part.disk.kill(&mut self.rng),
            }
            part.disk.set_failing(0);
        }
        let disks = self.parts.into_iter().map(|part| part.disk).collect();
        let OsdProcess { whoami, fsid, key, config, log_entries, is_busy, canary, .. } = self;
        OsdDisk { whoami, fsid, key, disks, config, log_entries, is_busy, canary }
    }

    /// Some bits on the device are not what was written.
    pub(crate) fn rot(&mut self) {
        let Some(part) = self.parts.choose_mut(&mut self.rng) else { return };
        let offsets = part.machine.store.data_offsets();
        for _ in 0..self.rng.random_range(1..4) {
            let Some(block) = offsets.choose(&mut self.rng) else { return };
            let (byte, bit) = (self.rng.random_range(0..BLOCK_BYTES as u64), self.rng.random_range(0..8));
            part.disk.flip_bit(block + byte, bit);
        }
    }

    /// Its devices fail so many of a thousand commands, until the process ends.
    pub(crate) fn fail_commands(&mut self, per_thousand: u32) {
        self.parts.iter_mut().for_each(|part| part.disk.set_failing(per_thousand));
    }

    /// From now on its disks say that writes are durable that are not.
    pub(crate) fn lie(&mut self) {
        self.parts.iter_mut().for_each(|part| part.disk.set_lying(true));
    }

    /// Some blocks cannot be read any more: of objects' data, or any.
    pub(crate) fn lose_blocks(&mut self, is_any: bool) {
        let Some(part) = self.parts.choose_mut(&mut self.rng) else { return };
        let offsets = if is_any { part.disk.written_offsets() } else { part.machine.store.data_offsets() };
        for _ in 0..self.rng.random_range(1..6) {
            let Some(block) = offsets.choose(&mut self.rng) else { return };
            part.disk.set_unreadable(*block);
        }
    }

    /// Why it serves no more, if it does not.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Changes what an OSD has stored without its knowledge.
    pub(crate) fn damage(&mut self, txn: Transaction) {
        let (count, Some(first)) = (self.parts.len() as u16, self.parts.first()) else { return };
        let shard = Shard { index: 0, count }.owner(txn.coll.0, first.machine.osd.map());
        let part = &mut self.parts[usize::from(shard)];
        // No request waits for a token like this.
        store::ObjectStore::submit(&mut part.machine.store, Token(0), txn);
    }

    /// An operator gives a command at the OSD's admin socket, and does not wait for the answer.
    pub(crate) fn command(&mut self, json: String, ctx: &mut Ctx<'_>) {
        let command = MCommand { cmd: vec![json], ..MCommand::default() };
        let (session, machine) = (ConnId::local(0), &mut self.parts[ctx.who.index()].machine);
        machine.on_command(session, command, &ctx.wire());
        machine.handle(Event::ConnClosed(session), &ctx.wire());
        self.turn(ctx);
    }

    /// The shards.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }
}
