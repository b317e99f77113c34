//! What reaches a client and what it wants done.

use bytes::Bytes;
use messages::{MWatchNotify, Message, OsdOp, osd_flag, says_it_writes};
use types::{EntityAddrVec, Instant, PoolId, SnapContext, SnapId, Token};

/// A connection to an OSD that this client asked for; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// Ops on one object, done together.
#[derive(Clone, Debug)]
pub struct Request {
    /// The pool.
    pub pool: PoolId,
    /// The namespace; empty for the default one.
    pub nspace: Bytes,
    /// Hashed in place of the name, if not empty.
    pub key: Bytes,
    /// The object's name.
    pub oid: Bytes,
    /// Of a listing, which names no object: the hash whose PG is asked.
    pub hash: Option<u32>,
    /// What to do, in this order.
    pub ops: Vec<OsdOp>,
    /// What to read: the head or a snapshot.
    pub snapid: SnapId,
    /// For writes: the snapshots that exist.
    pub snapc: SnapContext,
    /// More of [`osd_flag`] than READ and WRITE, which follow from the ops.
    pub flags: u32,
}

impl Request {
    /// Ops on the head of an object in the default namespace.
    pub fn new(pool: PoolId, oid: impl Into<Bytes>, ops: Vec<OsdOp>) -> Request {
        Request {
            pool,
            nspace: Bytes::new(),
            key: Bytes::new(),
            oid: oid.into(),
            hash: None,
            ops,
            snapid: SnapId::HEAD,
            snapc: SnapContext::default(),
            flags: 0,
        }
    }

    /// The flags to send it with.
    pub(crate) fn all_flags(&self) -> u32 {
        let reads = self.ops.iter().any(|op| op.code.is_read());
        let read = if reads { osd_flag::READ } else { 0 };
        let write = if self.may_write() { osd_flag::WRITE } else { 0 };
        self.flags | read | write | osd_flag::ONDISK
    }

    /// True for a read that any copy may answer, as its flags say.
    pub(crate) fn is_for_any_copy(&self) -> bool {
        self.flags & osd_flag::ANY_COPY != 0 && !self.may_write()
    }

    /// True when an op may change the object, or the request says so.
    pub(crate) fn may_write(&self) -> bool {
        says_it_writes(self.flags, &self.ops) || self.ops.iter().any(OsdOp::may_change)
    }
}

/// What came of a [`Request`].
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// 0, or what a read returns; a negative errno when an op failed.
    pub result: i32,
    /// The ops with their results and output.
    pub ops: Vec<OsdOp>,
    /// The object's version as users see it.
    pub user_version: u64,
}

/// What a monitor said to a command.
#[derive(Clone, Debug, Default)]
pub struct CommandReply {
    /// 0 or a negative errno.
    pub result: i32,
    /// A line for the operator.
    pub status: String,
    /// The output.
    pub output: Bytes,
}

/// An input of the machine.
#[derive(Debug)]
pub enum Event {
    /// The session with a monitor is there (again).
    MonOpened,
    /// A message of that session, with its tid.
    FromMon(u64, Message),
    /// The connection of an [`Effect::Dial`] is authenticated.
    SessionOpened(SessionId),
    /// It could not be made, or is lost.
    SessionClosed(SessionId),
    /// A message of such a connection, with its tid.
    FromOsd(SessionId, u64, Message),
    /// The time of [`Effect::SetTimer`] has come.
    Timer,
}

/// What the machine wants done, in order.
#[derive(Debug)]
pub enum Effect {
    /// Tell the monitor; dropped without a session, since everything is sent again in the next one.
    SendMon(u64, Message),
    /// Connect to an OSD. Ends in `SessionOpened` or `SessionClosed`.
    Dial(SessionId, EntityAddrVec),
    /// End a connection; no `SessionClosed` is wanted.
    Close(SessionId),
    /// Send on an open connection.
    Send(SessionId, u64, Message),
    /// The one timer; a later call replaces an earlier one.
    SetTimer(Instant),
    /// A request has ended.
    Done(Token, Response),
    /// A command has ended.
    CommandDone(Token, CommandReply),
    /// An OSD tells a watcher, or a notifier, of a notification.
    Notified(Box<MWatchNotify>),
}
