//! What peers may do, by the capabilities on monitors that they have at this moment: with a service's messages, and
//! with commands.

use std::collections::BTreeMap;

use auth::{MonAccess, MonCaps};
use types::EntityType;

use crate::{
    ConnId, Mon, Peer,
    commands::{Args, Row},
};

/// What a message does with its service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// It asks.
    Read,
    /// It changes something.
    Write,
    /// It is for daemons.
    Execute,
}

impl Mon {
    /// True when the peer of a session has `right` on the messages of `service`.
    pub(crate) fn may(&self, conn: ConnId, service: &str, right: Right) -> bool {
        let Some(peer) = self.sessions.get(&conn).map(|session| &session.peer) else { return false };
        let (entity, arguments) = (peer.name.to_string(), BTreeMap::new());
        let access = MonAccess {
            entity: &entity,
            service,
            command: "",
            arguments: &arguments,
            read: right == Right::Read,
            write: right == Right::Write,
            execute: right == Right::Execute,
        };
        self.allows(peer, &access)
    }

    /// True for a peer that may run the command with these arguments.
    pub(crate) fn may_run(&self, peer: &Peer, row: &Row, args: &Args) -> bool {
        self.may_run_with(peer, row, row.perm, args)
    }

    /// True for a peer that may run the command with these arguments where it takes these rights (`rwx`) instead of
    /// the command's own.
    pub(crate) fn may_run_with(&self, peer: &Peer, row: &Row, perm: &str, args: &Args) -> bool {
        let (entity, arguments) = (peer.name.to_string(), args.texts());
        let access = MonAccess {
            entity: &entity,
            service: row.module,
            command: row.prefix_text(),
            arguments: &arguments,
            read: perm.contains('r'),
            write: perm.contains('w'),
            execute: perm.contains('x'),
        };
        self.allows(peer, &access)
    }

    /// True for a peer whose capabilities leave nothing out.
    pub(crate) fn may_do_everything(&self, peer: &Peer) -> bool {
        let (entity, arguments) = (peer.name.to_string(), BTreeMap::new());
        let access = MonAccess {
            entity: &entity,
            service: "mon",
            command: "tell",
            arguments: &arguments,
            read: true,
            write: true,
            execute: true,
        };
        self.allows(peer, &access)
    }

    /// True when the peer's capabilities on monitors grant `access` at the address that it connects from.
    pub(crate) fn allows(&self, peer: &Peer, access: &MonAccess<'_>) -> bool {
        MonCaps::parse(&self.caps_of(peer, "mon")).is_ok_and(|caps| caps.at(peer.ip).allows(access))
    }

    /// The capability text of a peer on a service, as the database has it at this moment; with auth `none`, where names
    /// are believed, capabilities protect nothing, so everything is allowed.
    pub(crate) fn caps_of(&self, peer: &Peer, service: &str) -> String {
        if peer.name.kind == EntityType::MON || self.options.is_auth_none {
            return "allow *".to_owned();
        }
        let entity = self.committed.entities.get(&peer.name);
        entity.and_then(|entity| entity.caps.get(service)).cloned().unwrap_or_default()
    }
}
