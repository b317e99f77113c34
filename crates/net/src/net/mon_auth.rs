//! What the monitor says to this peer's proof of itself: tickets, secrets, or no.

use messages::MAuthReply;
use types::EntityType;

use super::{Net, NetEvent};
use crate::Wire;

impl<C: Copy + Ord + std::fmt::Debug> Net<C> {
    /// True while monitors do not let this peer in. A client may then give up its requests and begin anew, with a new
    /// [`Net`].
    pub fn is_refused_by_mon(&self) -> bool {
        self.mon.as_ref().is_some_and(|mon| mon.is_refusing)
    }

    /// The monitor refuses this peer. It may no longer have the secret that opens the ticket by which the peer proves
    /// its global id, after days without a monitor or a leap of the monitor's clock: then it lets the peer in under
    /// another id. A client keeps its id, which names its requests: those that it sends again would run twice.
    pub(super) fn on_mon_refusal(&mut self) {
        if let Some(mon) = &mut self.mon {
            mon.is_refusing = true;
        }
        if let Some(keeper) = self.keeper.as_mut().filter(|_| self.config.entity_type != EntityType::CLIENT) {
            keeper.forget_auth_ticket();
        }
    }

    /// The monitor answers a request for tickets or secrets.
    pub(super) fn on_auth_reply(
        &mut self,
        conn: C,
        reply: MAuthReply,
        wire: &mut impl Wire<Conn = C>,
        out: &mut Vec<NetEvent>,
    ) {
        let Some(keeper) = self.keeper.as_mut() else { return };
        if reply.result != 0 {
            tracing::warn!(
                result = reply.result,
                message = reply.message,
                "no tickets or secrets; dialing again"
            );
            return self.dial_mon_again(conn, wire, out);
        }
        match keeper.take_mauth_reply(reply.payload, wire.wall()) {
            Ok(Some(secrets)) => out.push(NetEvent::Secrets(secrets)),
            Ok(None) => {
                self.wants_tickets = false;
                out.push(NetEvent::Tickets);
            }
            // The monitor may have sealed the answer before it took note that a pending key is used, or after the
            // key was replaced.
            Err(error) => {
                tracing::warn!(%error, "the monitor's authentication answer is not usable; dialing again");
                self.dial_mon_again(conn, wire, out);
            }
        }
    }

    /// The handshake gives both a ticket for the next request, and an answer to whether there may be one.
    fn dial_mon_again(&mut self, conn: C, wire: &mut impl Wire<Conn = C>, out: &mut Vec<NetEvent>) {
        wire.close(conn);
        self.drop_link(conn, wire, out);
    }
}
