//! What is done several times a second: dialing, renewing, ending what takes too long.

use auth::{TicketKeeper, mauth_request_tickets, method};
use messages::MAuth;
use msgr::{Output, Role};
use types::{EntityAddr, EntityType, OsdId};

use super::{
    HANDSHAKE_TIMEOUT, MON_KEEPALIVE, MON_SILENCE_MAX, Net, NetEvent, Purpose, RETRY, TICKETS_RETRY,
};
use crate::Wire;

impl<C: Copy + Ord + std::fmt::Debug> Net<C> {
    fn dial_mon(&mut self, wire: &mut impl Wire<Conn = C>) {
        let now = wire.now().0;
        let Some(mon) = self.mon.as_mut().filter(|m| m.link.is_none() && now >= m.retry_at_ns) else {
            return;
        };
        let host = &mon.hosts[mon.next % mon.hosts.len()];
        mon.retry_at_ns = now + RETRY.as_nanos() as u64;
        let found = host.msgr2_addr().and_then(|target| Some((*target, target.socket?)));
        let Some((target, socket)) = found else {
            return self.pass_mon_over("it has no address for msgr2", wire.now());
        };
        if let Some(conn) = wire.connect(socket) {
            mon.link = Some(conn);
            mon.keepalive_at_ns = now + MON_KEEPALIVE.as_nanos() as u64;
            mon.asked_at_ns = None;
            let role = Role::Dialer {
                target: EntityAddr { nonce: 0, ..target },
                service: EntityType::MON,
                resume: None,
            };
            self.add_link(conn, Purpose::Mon, role, wire);
        } else {
            self.pass_mon_over("there is no socket to be had", wire.now());
        }
    }

    /// The ticket that proves this daemon to the monitors is only renewed by a handshake.
    fn renew_mon_session(&mut self, wire: &mut impl Wire<Conn = C>, out: &mut Vec<NetEvent>) {
        let is_old = |keeper: &TicketKeeper| keeper.needs_renewal(EntityType::AUTH, wire.wall());
        let is_due =
            self.config.methods.first() == Some(&method::CEPHX) && self.keeper.as_ref().is_some_and(is_old);
        let Some(conn) = self.mon.as_ref().and_then(|mon| mon.link).filter(|_| is_due) else { return };
        if self.links.get(&conn).is_some_and(|link| link.conn.is_ready()) {
            wire.close(conn);
            self.drop_link(conn, wire, out);
        }
    }

    /// Asks for new tickets to OSDs before those that there are expire, or when they are refused.
    fn renew_tickets(&mut self, wire: &mut impl Wire<Conn = C>) {
        let now = wire.now().0;
        let is_ready = |conn: C| self.links.get(&conn).is_some_and(|link| link.conn.is_ready());
        let Some(keeper) = &self.keeper else { return };
        let is_due = now >= self.tickets_at_ns
            && self.config.methods.first() == Some(&method::CEPHX)
            && (self.wants_tickets || keeper.needs_renewal(EntityType::OSD, wire.wall()));
        if !is_due || !self.mon.as_ref().and_then(|mon| mon.link).is_some_and(is_ready) {
            return;
        }
        let Some(payload) = mauth_request_tickets(keeper, &mut self.rng) else { return };
        if self.wants_tickets {
            tracing::warn!("the tickets are refused, or about to be; asking the monitor for new ones");
        }
        self.tickets_at_ns = now + TICKETS_RETRY.as_nanos() as u64;
        let request = MAuth { protocol: method::CEPHX, payload, ..MAuth::default() };
        self.send_mon(0, &request.into(), wire);
    }

    /// Acknowledges messages, so that peers need not keep them for lost connections any longer.
    fn acknowledge(&mut self, wire: &mut impl Wire<Conn = C>) {
        for (conn, link) in &mut self.links {
            let mut output = Output::default();
            link.conn.acknowledge(&mut output);
            if !output.bytes.is_empty() {
                wire.send(*conn, output.bytes);
            }
        }
    }

    /// Several times a second: dials what is to be dialed, ends handshakes that take too long.
    pub fn tick(&mut self, wire: &mut impl Wire<Conn = C>, out: &mut Vec<NetEvent>) {
        self.look_at_clients(wire);
        self.look_at_frames(wire);
        self.handshakes.free(|conn| wire.is_gone(conn));
        self.closing.free(|conn| wire.is_gone(conn));
        out.append(&mut self.closed);
        self.dial_mon(wire);
        let waiting: Vec<OsdId> = self
            .osds
            .iter()
            .filter(|(_, peer)| peer.link.is_none() && peer.session.unacked_count() > 0)
            .map(|(osd, _)| *osd)
            .collect();
        for osd in waiting {
            self.dial_osd(osd, wire);
        }
        let lost = self.osds.iter().filter(|(_, peer)| peer.is_lost);
        out.extend(
            lost.map(|(osd, _)| osd).chain(self.undecodable.keys()).map(|osd| NetEvent::OsdStuck(*osd)),
        );
        let now = wire.now().0;
        let limit = now.saturating_sub(HANDSHAKE_TIMEOUT.as_nanos() as u64);
        let slow: Vec<C> = self
            .links
            .iter()
            .filter(|(_, link)| !link.conn.is_ready() && link.opened_ns < limit)
            .map(|(conn, _)| *conn)
            .collect();
        for conn in slow {
            self.note_mon_failure(conn, "it does not answer");
            wire.close(conn);
            self.drop_link(conn, wire, out);
        }
        self.renew_mon_session(wire, out);
        self.renew_tickets(wire);
        self.acknowledge(wire);
        self.keep_mon_alive(wire, out);
    }

    /// Asks the monitor for a sign of life, and gives up one that does not give any.
    fn keep_mon_alive(&mut self, wire: &mut impl Wire<Conn = C>, out: &mut Vec<NetEvent>) {
        let now = wire.now().0;
        let Some(mon) = &mut self.mon else { return };
        let Some(conn) = mon.link else { return };
        if mon.asked_at_ns.is_some_and(|at| now - at >= MON_SILENCE_MAX.as_nanos() as u64) {
            tracing::warn!("the monitor does not answer; dialing again");
            wire.close(conn);
            return self.drop_link(conn, wire, out);
        }
        if now < mon.keepalive_at_ns {
            return;
        }
        mon.keepalive_at_ns = now + MON_KEEPALIVE.as_nanos() as u64;
        if let Some(link) = self.links.get_mut(&conn).filter(|l| l.conn.is_ready()) {
            mon.asked_at_ns.get_or_insert(now);
            let mut output = Output::default();
            link.conn.keepalive(wire.wall(), &mut output);
            wire.send(conn, output.bytes);
        }
    }
}
