//! Sessions between OSDs that outlive their connections. Each OSD sends over connections that it
//! opened itself and only receives over those that it accepted, so that nothing has to be resolved
//! when two dial each other.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use messages::RawMessage;
use thiserror::Error;

/// Messages kept for a peer that does not take them; then the session is given up.
const UNACKED_MAX: usize = 100_000;

/// Why a message is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PushError {
    /// Too many wait: the peer is as good as dead, and must be taken for it.
    #[error("the peer does not take its messages")]
    TooMany,
    /// The peer would refuse it, again with each connection, and with it all that comes after it.
    #[error("a message of kind {kind:#x} is longer than the peer takes")]
    TooLong {
        /// What it is.
        kind: u16,
    },
}

/// What a dialer needs to go on with a session over a new connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resume {
    /// Ours, drawn at random once per session.
    pub client_cookie: u64,
    /// The acceptor's; 0 before the first connection.
    pub server_cookie: u64,
    /// Counts the connections of the session.
    pub connect_seq: u64,
}

/// The sending side of a session.
#[derive(Debug, Default)]
pub struct OutSession {
    /// For the next connection.
    pub resume: Resume,
    sent: VecDeque<(u64, Arc<RawMessage>)>,
    next_seq: u64,
}

impl OutSession {
    /// A session that has not connected; `cookie` is random and not 0.
    pub fn new(cookie: u64) -> OutSession {
        OutSession { resume: Resume { client_cookie: cookie, ..Resume::default() }, ..OutSession::default() }
    }

    /// Numbers a message and keeps it until it is acknowledged; both are for the wire.
    ///
    /// # Errors
    /// The message is not sent.
    pub fn push(&mut self, message: Arc<RawMessage>) -> Result<(u64, &RawMessage), PushError> {
        if !message.fits_peers() {
            return Err(PushError::TooLong { kind: message.kind });
        }
        if self.sent.len() >= UNACKED_MAX {
            return Err(PushError::TooMany);
        }
        self.next_seq += 1;
        let at = self.sent.len();
        self.sent.push_back((self.next_seq, message));
        Ok((self.next_seq, &self.sent[at].1))
    }

    /// The peer has everything up to `seq`.
    pub fn acked(&mut self, seq: u64) {
        while self.sent.front().is_some_and(|(s, _)| *s <= seq) {
            self.sent.pop_front();
        }
    }

    /// The acceptor forgot the session: a new one with this cookie begins, without what was not acknowledged in this
    /// one. The caller sees to it that nothing waits for that.
    pub fn reset(&mut self, cookie: u64) {
        *self = OutSession::new(cookie);
    }

    /// What to send again over a new connection, after the peer said what it has.
    pub fn unacked(&self) -> impl Iterator<Item = (u64, &RawMessage)> {
        self.sent.iter().map(|(seq, message)| (*seq, &**message))
    }

    /// Messages kept.
    pub fn unacked_count(&self) -> usize {
        self.sent.len()
    }
}

/// What a message's number says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It is the next one.
    New,
    /// It was received before.
    Again,
    /// One before it is missing, or its session is: the connection cannot go on.
    Gap,
}

#[derive(Clone, Copy, Debug)]
struct InSession {
    /// The last number received.
    last: u64,
    /// When something was last heard in it, as a count of all that was.
    used: u64,
}

/// The receiving sides of all sessions of a daemon, by the sender's cookie.
#[derive(Debug, Default)]
pub struct InSessions {
    by_cookie: BTreeMap<u64, InSession>,
    uses: u64,
}

/// Sessions remembered; a cluster has far fewer OSDs. Those are forgotten in which nothing was heard for the longest
/// time.
const SESSIONS_MAX: usize = 10_000;

impl InSessions {
    /// Starts a session, or goes on with one in which nothing was received. False for one in which something was.
    pub(crate) fn open(&mut self, cookie: u64) -> bool {
        if self.by_cookie.get(&cookie).is_some_and(|session| session.last > 0) {
            return false;
        }
        self.uses += 1;
        self.by_cookie.insert(cookie, InSession { last: 0, used: self.uses });
        if self.by_cookie.len() > SESSIONS_MAX
            && let Some(oldest) = self.by_cookie.iter().min_by_key(|(_, s)| s.used).map(|(cookie, _)| *cookie)
        {
            self.by_cookie.remove(&oldest);
        }
        true
    }

    /// Goes on with a session that is known: the last number received in it.
    pub(crate) fn resume(&mut self, cookie: u64) -> Option<u64> {
        self.uses += 1;
        let session = self.by_cookie.get_mut(&cookie)?;
        session.used = self.uses;
        Some(session.last)
    }

    /// The last `count` messages count as not received.
    pub(crate) fn take_back(&mut self, cookie: u64, count: u64) {
        if let Some(session) = self.by_cookie.get_mut(&cookie) {
            session.last = session.last.saturating_sub(count);
        }
    }

    /// Forgets a session: its sender begins another one, without what this one still had.
    pub fn forget(&mut self, cookie: u64) {
        self.by_cookie.remove(&cookie);
    }

    /// Notes a message.
    pub(crate) fn receive(&mut self, cookie: u64, seq: u64) -> Arrival {
        let Some(session) = self.by_cookie.get_mut(&cookie) else { return Arrival::Gap };
        self.uses += 1;
        session.used = self.uses;
        if seq <= session.last {
            return Arrival::Again;
        }
        if seq > session.last + 1 {
            return Arrival::Gap;
        }
        session.last = seq;
        Arrival::New
    }
}
