//! What reaches a monitor and what it wants done.

use std::net::IpAddr;

use bytes::Bytes;
use messages::Message;
use types::{EntityAddr, EntityName, Errno, GlobalId, Instant, Token};

use crate::{LedgerContents, LedgerError, LedgerTxn, ObjectRequest, Revision, RunId};

/// A connection of this daemon; ids are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// The entity at the other end of a connection, as its authentication proved.
#[derive(Clone, Debug)]
pub struct Peer {
    /// `client.admin`, `osd.3`, `mon.a`.
    pub name: EntityName,
    /// The global id that the handshake gave it.
    pub global_id: GlobalId,
    /// Its address, as the peer itself states it, with the nonce of its incarnation.
    pub addr: EntityAddr,
    /// The address from which its connection comes: capabilities may hold for some networks only.
    pub ip: IpAddr,
    /// Message features that both ends have.
    pub features: u64,
}

/// An input of the machine.
#[derive(Debug)]
pub enum Event {
    /// The ledger is open, the lease is held: this is all that was ever committed. If it cannot be read, the monitor
    /// does not serve ([`crate::Mon::is_booted`]).
    Boot(Box<LedgerContents>),
    /// The lease or the ledger is lost: sessions are closed until the next [`Event::Boot`].
    LeaseLost,
    /// The proposal in flight is durable.
    LedgerCommitted(Revision),
    /// A client or a daemon finished its handshake.
    ConnOpened(ConnId, Box<Peer>),
    /// Its connection is gone.
    ConnClosed(ConnId),
    /// A client or a daemon sends a message; `tid` names the request.
    Received {
        /// From where.
        conn: ConnId,
        /// The request's id, which the answer carries.
        tid: u64,
        /// What.
        message: Message,
    },
    /// A client sends the manager a message.
    ToManager {
        /// From where: a connection of the manager's.
        link: u64,
        /// The request's id, which the answer carries.
        tid: u64,
        /// The client.
        peer: Box<Peer>,
        /// What.
        message: Message,
    },
    /// [`Effect::Objects`] is done: what the last op gave, or why it failed.
    ObjectsDone(Token, Result<Bytes, Errno>),
    /// What [`Effect::Run`] started says how far it is, from 0 to 1.
    RunProgress(RunId, f64),
    /// It has ended.
    RunEnded {
        /// Which.
        run: RunId,
        /// What it exited with; none if a signal ended it.
        code: Option<i32>,
        /// The last line that it printed of an error.
        text: String,
    },
    /// [`Effect::Run`] could not be carried out.
    RunFailed {
        /// What did not start.
        run: RunId,
        /// Why.
        text: String,
    },
    /// [`Effect::Compact`] is done, or failed.
    Compacted(Result<(), LedgerError>),
    /// The timer of [`Effect::SetTimer`] rang.
    Timer,
}

/// An output of the machine, carried out in order.
#[derive(Debug)]
pub enum Effect {
    /// Says something to a peer.
    Send {
        /// To where.
        conn: ConnId,
        /// The request that it answers; 0 for a message that no request asked for.
        tid: u64,
        /// What.
        message: Message,
    },
    /// Close a connection; no [`Event::ConnClosed`] follows.
    Close(ConnId),
    /// Says something to a client of the manager.
    SendManager {
        /// To where.
        link: u64,
        /// The request that it answers.
        tid: u64,
        /// What.
        message: Message,
    },
    /// Do something with an object as [`crate::Mon::manager_name`]; answered with [`Event::ObjectsDone`].
    Objects(Token, ObjectRequest),
    /// Run the stock `rbd` with these arguments, as [`crate::Mon::manager_name`]; ends with [`Event::RunEnded`]
    /// or [`Event::RunFailed`].
    Run(RunId, Vec<String>),
    /// End a run.
    Kill(RunId),
    /// Commit to the ledger; answered with [`Event::LedgerCommitted`], or with [`Event::LeaseLost`] when
    /// that fails. One proposal is in flight at most.
    Propose(LedgerTxn),
    /// Options have other values: [`crate::Mon::option`] has them.
    OptionsChanged,
    /// Give back what the ledger's file does not need; answered with [`Event::Compacted`].
    Compact,
    /// Ring [`Event::Timer`] at this time; replaces an earlier timer.
    SetTimer(Instant),
}

/// Where the machine puts its effects; the caller owns and empties it.
pub type Effects = Vec<Effect>;
