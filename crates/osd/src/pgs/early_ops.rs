//! Clients' ops for PGs that this OSD leads and does not have yet: an OSD with a copy tells of it soon, unless all
//! copies are down. As they may wait for long, they have a limit of their own: when it is reached, nothing more is
//! taken from the clients that send more of them, and all others go on. As each client may have sent one by then,
//! there is another limit, from which on their ops are dropped; these clients' connections are closed after a while,
//! and they send all again.

use messages::MOSDOp;
use types::Instant;

use crate::{
    ConnId, Osd,
    on_map::MAP_PATIENCE,
    osd::{Ctx, WAITING_MAX},
    session::Session,
};

impl Osd {
    /// Keeps an op that came at `since` until its PG is here. Where too many wait it is dropped, and so is what its
    /// client sends behind it: closed at once, the client would send it again at once.
    pub(super) fn wait_for_pg(
        &mut self,
        conn: ConnId,
        tid: u64,
        op: Box<MOSDOp>,
        since: Instant,
        ctx: &mut Ctx<'_>,
    ) {
        let shards = self.config.shard.count;
        let is_too_much = self.admission.is_too_much_early(shards) || self.pgs.early.len() >= WAITING_MAX;
        if !is_too_much {
            let permit = self.admission.early.take_at(op.held_bytes(), since);
            self.pgs.early.push((conn, tid, op, permit));
        }
        let is_too_early = is_too_much || self.admission.is_too_early(shards);
        let Some(session) = self.sessions.get_mut(&conn).filter(|_| is_too_early) else { return };
        if is_too_much {
            session.begin_to_drop();
        }
        if session.begin_early(ctx.now) {
            self.hold_conn(conn, true, ctx);
        }
    }

    /// Delivers what has waited for PGs that are here now, as if it came now. What is left waits for PGs that are not.
    pub(super) fn deliver_early_ops(&mut self, ctx: &mut Ctx<'_>) {
        let pgs = &self.pgs.pgs;
        let ops: Vec<_> = self.pgs.early.extract_if(.., |(_, _, op, _)| pgs.contains_key(&op.pgid)).collect();
        for (conn, tid, op, permit) in ops {
            let (bytes, since) = (op.held_bytes(), permit.since());
            drop(permit);
            if !self.drops_for_room(conn, &op, bytes, ctx) {
                let permit = self.admission.requests.take_at(bytes, since);
                self.pg_op(conn, tid, op, permit, ctx);
            }
        }
        self.settle_early(ctx);
    }

    /// Lets clients go on that sent too many of these ops, once they are fewer. Closes connections that have been held
    /// back for long, as [`Osd::give_up_waiting`] does, and for the same reason.
    pub(crate) fn settle_early(&mut self, ctx: &mut Ctx<'_>) {
        let is_too_early = self.admission.is_too_early(self.config.shard.count);
        let is_due = |since| !is_too_early || ctx.now.since(since) >= MAP_PATIENCE;
        let held = self.sessions.iter().filter_map(|(conn, session)| Some((*conn, session.early_since()?)));
        let due: Vec<ConnId> = held.filter(|(_, since)| is_due(*since)).map(|(conn, _)| conn).collect();
        for conn in due {
            if is_too_early || self.sessions.get(&conn).is_some_and(Session::drops) {
                tracing::warn!(conn = conn.0, "a client's PGs do not come; closing its connection");
                self.close_conn(conn, ctx);
            } else if self.sessions.get_mut(&conn).is_some_and(Session::end_early) {
                self.hold_conn(conn, false, ctx);
            }
        }
    }
}
