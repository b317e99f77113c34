//! Sessions with other OSDs, which survive lost connections: one in each direction, so that this OSD dials those that
//! it tells things, and they dial this one.

use std::sync::Arc;

use messages::RawMessage;
use msgr::{Established, OutSession, Output, PushError, Role};
use rand::Rng;
use types::{EntityAddrVec, EntityType, OsdId};

use super::{Net, NetEvent, Purpose, RETRY};
use crate::Wire;

/// An OSD that this one tells things.
pub(super) struct OsdPeer<C> {
    pub(super) addrs: Arc<EntityAddrVec>,
    pub(super) session: OutSession,
    pub(super) link: Option<C>,
    pub(super) retry_at_ns: u64,
    /// A message to the OSD was dropped: it took so little for so long, or it forgot the session. Requests that wait
    /// for its answer cannot go on until a map marks it down.
    pub(super) is_lost: bool,
}

impl<C: Copy + Ord + std::fmt::Debug> Net<C> {
    /// Tells an OSD, over a session that survives lost connections.
    pub fn send_osd(
        &mut self,
        osd: OsdId,
        addrs: Arc<EntityAddrVec>,
        raw: Arc<RawMessage>,
        wire: &mut impl Wire<Conn = C>,
    ) {
        let is_elsewhere = |peer: &OsdPeer<C>| !Arc::ptr_eq(&peer.addrs, &addrs) && *peer.addrs != *addrs;
        if self.osds.get(&osd).is_some_and(is_elsewhere) {
            self.forget_osd(osd, wire);
        }
        let peer = self.osds.entry(osd).or_insert_with(|| OsdPeer {
            addrs,
            session: OutSession::new(self.rng.random_range(1..=u64::MAX)),
            link: None,
            retry_at_ns: 0,
            is_lost: false,
        });
        if peer.is_lost {
            return;
        }
        let (seq, raw) = match peer.session.push(raw) {
            Ok(numbered) => numbered,
            Err(error @ PushError::TooLong { .. }) => {
                // A request that waits for the answer to this message keeps waiting; all else goes on.
                return tracing::error!(osd = osd.0, %error, "a message to an OSD is dropped");
            }
            Err(PushError::TooMany) => {
                tracing::error!(osd = osd.0, "an OSD does not take its messages; giving it up");
                peer.is_lost = true;
                peer.session.reset(self.rng.random_range(1..=u64::MAX));
                if let Some(conn) = peer.link.take() {
                    self.links.remove(&conn);
                    wire.close(conn);
                }
                return;
            }
        };
        match peer.link {
            Some(conn) => {
                let Some(link) = self.links.get_mut(&conn).filter(|l| l.conn.is_ready()) else { return };
                let mut output = Output::default();
                link.conn.send(raw, Some(seq), &mut output);
                wire.send(conn, output.bytes);
            }
            None => self.dial_osd(osd, wire),
        }
    }

    /// Drops the session with an OSD and all that waits in it; and the OSD's own session, if it is stuck.
    pub fn forget_osd(&mut self, osd: OsdId, wire: &mut impl Wire<Conn = C>) {
        if let Some(cookie) = self.undecodable.remove(&osd) {
            self.sessions.forget(cookie);
        }
        if let Some(conn) = self.osds.remove(&osd).and_then(|peer| peer.link) {
            self.links.remove(&conn);
            wire.close(conn);
        }
    }

    pub(super) fn dial_osd(&mut self, osd: OsdId, wire: &mut impl Wire<Conn = C>) {
        let now = wire.now().0;
        let Some(peer) = self.osds.get_mut(&osd) else { return };
        let parts = peer.addrs.msgr2_addrs().count().max(1);
        let Some(target) = peer.addrs.msgr2_addrs().nth(self.part % parts).copied() else { return };
        let Some(socket) = target.socket.filter(|_| now >= peer.retry_at_ns) else { return };
        let has_ticket = self.config.methods.first() != Some(&auth::method::CEPHX)
            || self.keeper.as_ref().is_some_and(|keeper| keeper.has_ticket(EntityType::OSD));
        if !has_ticket {
            return;
        }
        peer.retry_at_ns = now + RETRY.as_nanos() as u64;
        let resume = Some(peer.session.resume);
        if let Some(conn) = wire.connect(socket) {
            peer.link = Some(conn);
            self.add_link(
                conn,
                Purpose::Osd(osd),
                Role::Dialer { target, service: EntityType::OSD, resume },
                wire,
            );
        }
    }

    /// The OSD that was dialed takes up the session: what it has not heard is sent again.
    pub(super) fn resume_osd(
        &mut self,
        osd: OsdId,
        conn: C,
        end: &Established,
        wire: &mut impl Wire<Conn = C>,
    ) {
        let (Some(peer), Some(link)) = (self.osds.get_mut(&osd), self.links.get_mut(&conn)) else { return };
        if let Some((last, cookie)) = end.resumed {
            peer.session.acked(last);
            peer.session.resume.server_cookie = cookie;
            peer.session.resume.connect_seq += 1;
        }
        let mut output = Output::default();
        for (seq, raw) in peer.session.unacked() {
            link.conn.send(raw, Some(seq), &mut output);
        }
        wire.send(conn, output.bytes);
    }

    /// An OSD knows nothing of the session any more.
    pub(super) fn on_session_reset(&mut self, osd: OsdId) {
        let cookie = self.rng.random_range(1..=u64::MAX);
        if let Some(peer) = self.osds.get_mut(&osd) {
            if peer.session.unacked_count() > 0 {
                tracing::error!(osd = osd.0, "an OSD has forgotten its session; giving it up");
                peer.is_lost = true;
            }
            peer.session.reset(cookie);
        }
    }

    /// A message does not decode, or another OSD's is not known here: the first of the last `count` of its connection,
    /// which is closed. In a session that outlives it, none of them counts as received: OSDs rely on hearing all in
    /// order, and would take a message behind one that is lost for the proof that they have both. So the session is
    /// stuck until the map says something new of the sender.
    pub(super) fn refuse_undecodable(
        &mut self,
        conn: C,
        count: u64,
        wire: &mut impl Wire<Conn = C>,
        out: &mut Vec<NetEvent>,
    ) {
        let Some(link) = self.links.get_mut(&conn) else { return };
        if let (Some(cookie), Some(osd)) = (link.conn.take_back(count, &mut self.sessions), link.dialer) {
            self.undecodable.insert(osd, cookie);
        }
        wire.close(conn);
        self.drop_link(conn, wire, out);
    }

    /// True for a connection that an OSD in a session with this one sends over.
    pub(super) fn is_in_session(&self, conn: C) -> bool {
        self.links.get(&conn).is_some_and(|link| link.conn.session().is_some())
    }
}
