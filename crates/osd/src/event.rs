//! What reaches an OSD and what it wants done.

use std::sync::Arc;

use auth::OsdCaps;
use messages::{Message, RawMessage};
use pg::LoadError;
use thiserror::Error;
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, Epoch, GlobalId, OsdId, PgId, Token};

use crate::ShardMessage;

/// A connection of this daemon; ids are never reused. The high bits name the shard whose reactor has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// The peer at the other end of a connection, as its authentication proved.
#[derive(Clone, Debug)]
pub struct Peer {
    /// `client.admin`, `osd.3`, `mon.a`.
    pub name: EntityName,
    /// What it is here: an OSD in its daemon's sessions, or a client. With an OSD's key one may be either.
    pub entity_type: EntityType,
    /// The global id of its ticket; 0 for daemons without one.
    pub global_id: GlobalId,
    /// Its address: what a blocklist names, with its nonce.
    pub addr: EntityAddr,
    /// What its ticket allows on OSDs.
    pub caps: OsdCaps,
    /// Message features that both ends have.
    pub features: u64,
}

impl Peer {
    /// A client that may do anything.
    #[cfg(test)]
    pub(crate) fn client() -> Peer {
        Peer {
            name: EntityName::new(EntityType::CLIENT, "x"),
            entity_type: EntityType::CLIENT,
            global_id: GlobalId(7),
            addr: EntityAddr::default(),
            caps: OsdCaps::allow_all(),
            features: 0,
        }
    }

    /// The peer at the OSD's admin socket, which counts as the OSD itself.
    pub fn at_admin_socket() -> Peer {
        Peer {
            name: EntityName::new(EntityType::OSD, ""),
            entity_type: EntityType::CLIENT,
            global_id: GlobalId(0),
            addr: EntityAddr::default(),
            caps: OsdCaps::allow_all(),
            features: 0,
        }
    }
}

/// An input of the machine.
#[derive(Debug)]
pub enum Event {
    /// The first event: the store is mounted, the daemon listens at these addresses.
    Started {
        /// Where clients reach it.
        public_addrs: EntityAddrVec,
        /// Where OSDs reach it.
        cluster_addrs: EntityAddrVec,
    },
    /// The session with a monitor is there (again).
    MonOpened,
    /// The session with the monitor is lost; the daemon looks for another.
    MonClosed,
    /// The monitor says.
    FromMon(Message),
    /// A client or an OSD finished its handshake.
    ConnOpened(ConnId, Box<Peer>),
    /// Its connection is gone.
    ConnClosed(ConnId),
    /// A client or an OSD says; `tid` names the request.
    Received(ConnId, u64, Message),
    /// An OSD answers on the connection that this one sends to it on.
    FromOsd(OsdId, Message),
    /// Nothing listens at the OSD's address.
    OsdRefused(OsdId),
    /// A message to the OSD had to be dropped, or one from it cannot be taken. Repeated until [`Effect::ForgetOsd`].
    OsdStuck(OsdId),
    /// A store request finished.
    Store(store::Completion),
    /// Another shard of this OSD says.
    ShardMessage(u16, ShardMessage),
    /// A timer of [`Effect::SetTimer`] rang.
    Timer(Token),
    /// SIGTERM or Ctrl-C: stop in order.
    Stop,
}

/// An output of the machine, carried out in order.
#[derive(Debug)]
pub enum Effect {
    /// To the monitor in session; dropped without one.
    SendMon(Message),
    /// Answers or tells the peer of a connection.
    Send(ConnId, u64, Message),
    /// To an OSD, over a session that survives lost connections.
    SendOsd {
        /// The OSD.
        osd: OsdId,
        /// Its cluster addresses by the newest map.
        addrs: Arc<EntityAddrVec>,
        /// The message; OSDs that are told the same share its memory.
        message: Arc<RawMessage>,
    },
    /// The life in which the OSD was spoken to is over, or this OSD's own: drop its session and all that is queued.
    ForgetOsd(OsdId),
    /// Close a connection; no [`Event::ConnClosed`] follows.
    Close(ConnId),
    /// Take nothing more from the client of a connection, or take again.
    Hold(ConnId, bool),
    /// To another shard of this OSD, in the order of these effects.
    ShardMessage(u16, ShardMessage),
    /// Ring [`Event::Timer`] at this time; replaces a timer of the same token.
    SetTimer(Token, types::Instant),
    /// Options have other values: [`crate::Osd::option`] has them.
    OptionsChanged,
    /// All is stopped in order: the store may be unmounted.
    Stopped,
    /// What the store keeps is not readable, or does not come: the process must end, and serve nothing before.
    Failed(Fault),
}

/// Why an OSD cannot serve what its store holds. If it went on without a PG that the store has, it would make that PG
/// anew, and forget the old one.
#[derive(Debug, Error)]
pub enum Fault {
    /// A PG's record of itself.
    #[error("the record of PG {pgid} cannot be used: {error}")]
    PgRecord {
        /// Which one.
        pgid: PgId,
        /// What is wrong with it.
        error: LoadError,
    },
    /// One of the maps that PGs have to walk through.
    #[error("the OSD map of epoch {epoch} that is kept is not readable")]
    Map {
        /// Which one.
        epoch: Epoch,
    },
    /// PGs that have seen newer maps than those that are kept.
    #[error(
        "PG {pgid} has seen the OSD map of epoch {epoch}, and the newest that is kept is that of epoch {newest}"
    )]
    MapsBehind {
        /// One of them.
        pgid: PgId,
        /// The last map that it saw.
        epoch: Epoch,
        /// The newest that is kept.
        newest: Epoch,
    },
    /// A device or a shard's thread does not go on: which one. What blocks it may never end, so an orderly stop is not
    /// possible.
    #[error("{0}")]
    Stalled(String),
}
