//! The manager's part (`ceph-mgr`), which the monitor plays: clients dial it at an address of its own, that
//! the manager map names, and send it the commands that Ceph's manager serves.

use std::time::Duration;

use auth::{Authority, EntityAuth, RotatingSecrets};
use bytes::Bytes;
use codec::Features;
use messages::{MCommandReply, MMgrCommandReply, MMgrMap, Message, MgrMap};
use types::{EntityAddrVec, EntityName, EntityType, Epoch, Errno, UTime};

use crate::{
    Mon, Peer,
    commands::{Args, Reply, Row, describe, find_row, rows},
};

/// What Ceph's monitors leave to the manager, besides all that begins with `pg`.
const COMMANDS: [&str; 12] = [
    "config show",
    "config show-with-defaults",
    "osd blocked-by",
    "osd df",
    "osd ok-to-stop",
    "osd perf",
    "osd pool autoscale-status",
    "osd pool stats",
    "osd safe-to-destroy",
    "osd utilization",
    "service dump",
    "service status",
];

/// Ceph's words for a key without capabilities on the manager; clients look for them.
const NO_CAPS: &str = "access denied: does your client key have mgr caps? See \
                       http://docs.ceph.com/en/latest/mgr/administrator/#client-authentication";

/// Commands are checked like the monitor's, with the capability on the manager; nothing here waits.
impl Mon {
    /// The manager listens here. Clients learn it by subscription; without an address nobody does.
    pub fn set_manager(&mut self, addrs: EntityAddrVec) {
        self.manager = addrs;
    }

    /// The manager map. Its epoch is the second in which this monitor came to serve, so that a later
    /// incarnation with another address is newer.
    pub(crate) fn mgrmap(&self) -> MgrMap {
        let is_there = !self.manager.0.is_empty();
        let since = self.started.since(UTime::default());
        MgrMap {
            epoch: Epoch(u32::try_from(since.as_secs()).unwrap_or(u32::MAX).max(1)),
            active_addrs: self.manager.clone(),
            active_gid: if is_there { since.max(Duration::from_secs(1)).as_secs() } else { 0 },
            available: is_there,
            active_name: self.options.name.clone(),
            active_change: self.started,
            active_mgr_features: Features::PACIFIC.0,
            ..MgrMap::default()
        }
    }

    pub(crate) fn mgrmap_message(&self) -> Message {
        MMgrMap { mgrmap: self.mgrmap() }.into()
    }

    /// Answers what a client says to the manager; None for what needs no answer.
    pub fn answer_as_manager(&mut self, wall: UTime, peer: &Peer, message: Message) -> Option<Message> {
        Some(match message {
            Message::MMgrCommand(command) => {
                let reply = self.manager_command(wall, peer, &command.cmd, &command.input);
                MMgrCommandReply { result: reply.result, status: reply.status, output: reply.output }.into()
            }
            Message::MCommand(command) => {
                let reply = self.manager_command(wall, peer, &command.cmd, &command.input);
                MCommandReply { result: reply.result, status: reply.status, output: reply.output }.into()
            }
            other => return self.on_service_message(wall, peer, other),
        })
    }

    fn manager_command(&mut self, wall: UTime, peer: &Peer, cmd: &[String], input: &Bytes) -> Reply {
        let Some(args) = Args::parse(cmd) else {
            return Reply::fail(Errno::EINVAL, "bad or missing command");
        };
        let prefix = args.prefix();
        if prefix == "get_command_descriptions" {
            return Reply::text(describe(rows().filter(|row| is_served(row))));
        }
        let Some(row) = find_row(prefix).filter(|row| is_served(row)) else {
            if self.caps_of(peer, "mgr").is_empty() {
                return Reply::fail(Errno::EACCES, NO_CAPS);
            }
            // Clients that can do the work of a missing module themselves look for these words.
            return Reply::fail(Errno::EINVAL, format!("No handler found for '{prefix}'"));
        };
        if !self.may_run(peer, row, &args, "mgr") {
            return Reply::fail(Errno::EACCES, NO_CAPS);
        }
        if let Err(text) = row.check(&args) {
            return Reply::fail(Errno::EINVAL, text);
        }
        self.run_row(row, wall, peer, &args, input)
    }
}

/// True for commands that Ceph's manager answers, and that change nothing.
fn is_served(row: &Row) -> bool {
    let prefix = row.prefix();
    !row.is_change() && (prefix.starts_with("pg ") || COMMANDS.contains(&prefix.as_str()))
}

/// Who may dial the manager: whoever has a ticket for it.
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
