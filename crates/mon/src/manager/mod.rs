//! The manager's part (`ceph-mgr`), which the monitor plays: clients dial it at an address of its own, which the
//! manager map names, and send it the commands that Ceph's manager and its modules serve.

/// The table of a module's commands: signature, permission, help, what answers.
macro_rules! module_rows {
    ($($sig:literal $perm:literal $help:literal $run:ident)*) => {
        pub(crate) const ROWS: &[$crate::commands::Row] = &[
            $($crate::commands::Row { sig: $sig, help: $help, module: "mgr", perm: $perm, run: $run }),*
        ];
    };
}

pub(crate) mod balancer;
pub(crate) mod crash;
pub(crate) mod device;
pub(crate) mod iostat;
pub(crate) mod modules;
pub(crate) mod not_deployed;
pub(crate) mod objects;
pub(crate) mod pg_autoscaler;
pub(crate) mod progress;
pub(crate) mod prometheus;
pub(crate) mod rbd_support;
pub(crate) mod status;
pub(crate) mod volumes;

use std::time::Duration;

use auth::{Authority, CryptoKey, EntityAuth, MgrAccess, MgrCaps, RotatingSecrets};
use bytes::Bytes;
use codec::Features;
use messages::{MCommandReply, MMgrCommandReply, MMgrMap, MMonCommandAck, Message, MgrMap, PaxosHeader};
use rand::Rng;
use types::{EntityAddrVec, EntityName, EntityType, Epoch, Errno, Instant, UTime, Uuid};

use crate::{
    ConnId, Effect, Effects, Mon, Peer,
    commands::{Answer, Args, Reply, Request, Row, describe, find_row, rows, tell},
    ledger_keys,
    state::value,
};

/// What Ceph's monitors leave to the manager, besides nearly all that begins with `pg` and what modules serve.
const COMMANDS: [&str; 37] = [
    "config show",
    "config show-with-defaults",
    "osd blocked-by",
    "osd deep-scrub",
    "osd destroy",
    "osd df",
    "osd ok-to-stop",
    "osd perf",
    "osd pool autoscale-status",
    "osd pool cancel-force-backfill",
    "osd pool cancel-force-recovery",
    "osd pool deep-scrub",
    "osd pool force-backfill",
    "osd pool force-recovery",
    "osd pool get noautoscale",
    "osd pool repair",
    "osd pool scrub",
    "osd pool set noautoscale",
    "osd pool stats",
    "osd pool unset noautoscale",
    "osd purge",
    "osd repair",
    "osd reweight-by-pg",
    "osd reweight-by-utilization",
    "osd safe-to-destroy",
    "osd scrub",
    "osd test-reweight-by-pg",
    "osd test-reweight-by-utilization",
    "pg cancel-force-backfill",
    "pg cancel-force-recovery",
    "pg deep-scrub",
    "pg force-backfill",
    "pg force-recovery",
    "pg repair",
    "pg scrub",
    "service dump",
    "service status",
];

/// The service that capabilities name for commands of modules.
pub(crate) const MODULE_SERVICE: &str = "py";

/// How long the manager's part stays away when its address has been blocklisted.
const FENCED: Duration = Duration::from_secs(5);

/// Ceph's words for a key without capabilities on the manager; clients look for them.
const NO_CAPS: &str = "access denied: does your client key have mgr caps? See \
                       http://docs.ceph.com/en/latest/mgr/administrator/#client-authentication";

/// The client that waits for the answer to a command that takes longer.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    /// A session of the monitor; the command is echoed.
    Mon { conn: ConnId, tid: u64, cmd: Vec<String> },
    /// A connection of the manager, and whether it sent an `MMgrCommand`.
    Manager { link: u64, tid: u64, is_mgr_command: bool },
}

impl Caller {
    /// The command that is echoed.
    pub(crate) fn cmd(&self) -> &[String] {
        match self {
            Caller::Mon { cmd, .. } => cmd,
            Caller::Manager { .. } => &[],
        }
    }
}

/// Commands are checked like the monitor's, with the capability on the manager.
impl Mon {
    /// Sets the address at which the manager's part listens. Clients learn it by subscription, so without an address
    /// none connects.
    pub fn set_manager(&mut self, addrs: EntityAddrVec) {
        self.manager = addrs;
    }

    /// Sets the address at which the manager's part is a client of the cluster.
    pub fn set_manager_client(&mut self, addrs: &EntityAddrVec) {
        if self.manager_client != *addrs {
            self.manager_client = addrs.clone();
            self.manager_fenced_at = None;
        }
    }

    /// True while OSDs refuse the manager's part, because an operator has blocklisted its address.
    pub(crate) fn is_manager_fenced(&self) -> bool {
        self.committed.osdmap.is_any_blocklisted(&self.manager_client)
    }

    /// True when the manager's part is to go on under another address. It waits first, as an operator who fences it
    /// wants it to stop.
    pub fn wants_new_manager_client(&mut self, now: Instant) -> bool {
        if !self.is_manager_fenced() {
            return false;
        }
        let since = *self.manager_fenced_at.get_or_insert(now);
        now.since(since) >= FENCED
    }

    /// The entity as which the manager's part is a client of the cluster, `client.mgr.x`.
    pub fn manager_name(&self) -> EntityName {
        EntityName::new(EntityType::CLIENT, format!("mgr.{}", self.base_options.name))
    }

    /// Its key, once the ledger has it.
    pub fn manager_key(&self) -> Option<CryptoKey> {
        self.committed.entities.get(&self.manager_name()).map(|entity| entity.key.clone())
    }

    /// Makes the manager's entity where it is missing: at the start, and after an operator has removed it.
    pub(crate) fn ensure_manager_key(&mut self, wall: UTime) {
        let name = self.manager_name();
        if self.manager.0.is_empty() || self.next.entities.contains_key(&name) {
            return;
        }
        let caps = [("mon", "profile rbd"), ("osd", "profile rbd")];
        let caps = caps.map(|(service, text)| (service.to_owned(), text.to_owned())).into();
        // The stock `rbd` has to know the key's type.
        let key = self.new_key(self.next.monmap.preferred_key_type(), wall);
        self.put_entity(&name, &EntityAuth { key, caps });
    }

    /// The manager map of this monitor's life is newer than those of its earlier lives, whatever its clock says. Its
    /// epoch is at least the second in which this life begins: a ledger that was restored from a copy knows fewer
    /// epochs than clients do.
    pub(crate) fn begin_mgrmap(&mut self, wall: UTime) {
        let epoch = self.next.mgr_epoch.next().max(Epoch(wall.sec));
        self.put(ledger_keys::MGR_EPOCH.to_owned(), value(&epoch));
    }

    /// The manager map has changed: its subscribers are told.
    pub(crate) fn change_mgrmap(&mut self) {
        let epoch = self.next.mgr_epoch.next();
        self.put(ledger_keys::MGR_EPOCH.to_owned(), value(&epoch));
    }

    /// The manager map.
    pub(crate) fn mgrmap(&self) -> MgrMap {
        let is_there = !self.manager.0.is_empty();
        let since = self.started.since(UTime::default());
        MgrMap {
            epoch: self.committed.mgr_epoch,
            active_addrs: self.manager.clone(),
            active_gid: if is_there { since.max(Duration::from_secs(1)).as_secs() } else { 0 },
            available: is_there,
            active_name: self.options.name.clone(),
            active_change: self.started,
            active_mgr_features: Features::PACIFIC.0,
            modules: self.committed.mgr_modules.as_ref().clone(),
            services: self.metrics_url().map(|url| ("prometheus".to_owned(), url)).into_iter().collect(),
            always_on_modules: modules::always_on_by_release(),
            ..MgrMap::default()
        }
    }

    pub(crate) fn mgrmap_message(&self) -> Message {
        MMgrMap { mgrmap: self.mgrmap() }.into()
    }

    /// Answers a message from a client to the manager.
    pub(crate) fn on_manager_message(
        &mut self,
        wall: UTime,
        link: u64,
        tid: u64,
        peer: &Peer,
        message: Message,
        effects: &mut Effects,
    ) {
        let (is_mgr_command, cmd, input) = match message {
            Message::MMgrCommand(command) => (true, command.cmd, command.input),
            Message::MCommand(command) => (false, command.cmd, command.input),
            other => {
                let answer = self.on_service_message(wall, peer, other);
                effects.extend(answer.map(|message| Effect::SendManager { link, tid, message }));
                return;
            }
        };
        let caller = Caller::Manager { link, tid, is_mgr_command };
        let answer = self.manager_command(wall, peer, &caller, &cmd, &input);
        self.answer(caller, answer, effects);
    }

    fn manager_command(
        &mut self,
        wall: UTime,
        peer: &Peer,
        caller: &Caller,
        cmd: &[String],
        input: &Bytes,
    ) -> Answer {
        let Some(args) = Args::parse(cmd) else {
            return Reply::fail(Errno::EINVAL, "bad or missing command").into();
        };
        let prefix = args.prefix();
        if prefix == "get_command_descriptions" {
            let served = rows().filter(|row| is_served(row));
            return Reply::text(describe(served.chain([&tell::VERSION_ROW]))).into();
        }
        // `ceph tell mgr version`: the manager is this monitor.
        if prefix == tell::VERSION_ROW.prefix_text() && !self.caps_of(peer, "mgr").is_empty() {
            return self.tell_version(&args).into();
        }
        let Some(row) = find_row(prefix).filter(|row| is_served(row)) else {
            if self.caps_of(peer, "mgr").is_empty() {
                return Reply::fail(Errno::EACCES, NO_CAPS).into();
            }
            // Clients that can do the work of a missing module themselves look for these words.
            let unknown = format!("No handler found for '{prefix}'");
            return modules::refusal(self, prefix, &unknown).into();
        };
        if !self.may_manage(peer, row, &args) {
            return Reply::fail(Errno::EACCES, NO_CAPS).into();
        }
        Request { mon: self, wall, peer, args: &args, input, caller: Some(caller) }.run(row, cmd)
    }

    /// True when the peer's capabilities on managers allow the command.
    fn may_manage(&self, peer: &Peer, row: &Row, args: &Args) -> bool {
        let arguments = args.texts();
        let module = modules::module_of(row.prefix_text());
        let access = MgrAccess {
            service: if module.is_some() { MODULE_SERVICE } else { row.module },
            module: module.unwrap_or_default(),
            command: row.prefix_text(),
            arguments: &arguments,
            read: row.perm.contains('r'),
            write: row.perm.contains('w'),
            execute: row.perm.contains('x'),
        };
        MgrCaps::parse(&self.caps_of(peer, "mgr")).is_ok_and(|caps| caps.at(peer.ip).allows(&access))
    }

    /// What answers a command.
    pub(crate) fn answer_of(&self, caller: Caller, reply: Reply) -> Effect {
        let Reply { result, status, output, .. } = reply;
        match caller {
            Caller::Mon { conn, tid, cmd } => {
                let header = PaxosHeader::new(u64::from(self.committed.osdmap.epoch.0));
                Effect::Send {
                    conn,
                    tid,
                    message: MMonCommandAck { header, result, status, cmd, output }.into(),
                }
            }
            Caller::Manager { link, tid, is_mgr_command: true } => {
                Effect::SendManager { link, tid, message: MMgrCommandReply { result, status, output }.into() }
            }
            Caller::Manager { link, tid, is_mgr_command: false } => {
                Effect::SendManager { link, tid, message: MCommandReply { result, status, output }.into() }
            }
        }
    }

    /// A new uuid as text.
    pub(crate) fn new_uuid(&mut self) -> String {
        Uuid::from_random(self.rng.random()).to_string()
    }
}

/// True for commands that Ceph's manager answers: those of modules, and its own.
pub(crate) fn is_served(row: &Row) -> bool {
    let prefix = row.prefix_text();
    modules::module_of(prefix).is_some()
        || (!row.is_change() && prefix.starts_with("pg ") && prefix != "pg map")
        || COMMANDS.contains(&prefix)
}

/// Lets clients dial the manager: any client with a ticket for it may.
pub struct ManagerAuthority<'a>(pub &'a Mon);

impl Authority for ManagerAuthority<'_> {
    fn service(&self) -> EntityType {
        EntityType::MGR
    }

    fn allows_none(&self) -> bool {
        self.0.allows_none()
    }

    fn entity(&self, _: &EntityName) -> Option<EntityAuth> {
        None
    }

    fn next_global_id(&mut self) -> u64 {
        0
    }

    fn secrets(&self, service: EntityType) -> Option<&RotatingSecrets> {
        if service == EntityType::MGR { self.0.secrets(service) } else { None }
    }
}
