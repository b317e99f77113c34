//! What the peer of a session may do with a service's messages. Commands have rules of their own.

use std::collections::BTreeMap;

use auth::{MonAccess, MonCaps};

use crate::{ConnId, Mon};

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
    /// True when the capability on monitors of the peer grants `right` on `service` at this moment.
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
        MonCaps::parse(&self.caps_of(peer, "mon")).is_ok_and(|caps| caps.at(peer.ip).allows(&access))
    }
}
