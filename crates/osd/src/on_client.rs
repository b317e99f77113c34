//! Messages of clients: is it for us, is it allowed, and which PG gets it.

use auth::OsdAccess;
use messages::{BackoffOp, MOSDBackoff, MOSDOp, MOSDOpReply, Message};
use types::{Errno, PgId};

use crate::{
    ConnId, Osd, ShardMessage,
    caps_check::Need,
    osd::{Ctx, Waiting},
};

impl Osd {
    /// A client's or an OSD's message, for this shard or another one.
    pub(crate) fn on_received(&mut self, conn: ConnId, tid: u64, message: Message, ctx: &mut Ctx<'_>) {
        match self.place_of(&message) {
            shard if shard == self.config.shard.index => self.on_own_message(conn, tid, message, ctx),
            shard => self.pass_on(shard, conn, tid, message, ctx),
        }
    }

    /// A client's or an OSD's message for this shard.
    pub(crate) fn on_own_message(&mut self, conn: ConnId, tid: u64, message: Message, ctx: &mut Ctx<'_>) {
        let Some(session) = self.sessions.get(&conn) else { return };
        if let Some(from) = session.osd() {
            return self.on_osd_message((conn, from), tid, message, ctx);
        }
        if session.drops() {
            return;
        }
        match message {
            Message::MOSDOp(op) => self.on_op(conn, tid, op, ctx),
            Message::MOSDBackoff(backoff) => self.on_backoff(conn, tid, backoff, ctx),
            Message::MCommand(command) => self.on_tell(conn, tid, &command, ctx),
            Message::MPing(_) => {}
            other => tracing::debug!(message = other.name(), "ignored from a client"),
        }
    }

    pub(crate) fn on_conn_closed(&mut self, conn: ConnId, ctx: &mut Ctx<'_>) {
        let Some(session) = self.sessions.remove(&conn) else { return };
        // The client hears no answers any more: its messages that have not reached a PG are dropped, since they hold
        // room that others need.
        self.waiting.retain(|waiting| waiting.conn != conn || waiting.from.is_some());
        self.pgs.early.retain(|(from, ..)| *from != conn);
        self.image_ops_dropped(conn);
        self.pgs_session_closed(conn, ctx);
        for shard in self.config.shard.others().filter(|shard| session.is_announced_to(*shard)) {
            ctx.send_shard(shard, ShardMessage::Closed(conn));
        }
    }

    fn on_op(&mut self, conn: ConnId, tid: u64, op: Box<MOSDOp>, ctx: &mut Ctx<'_>) {
        let Some(session) = self.sessions.get(&conn) else { return };
        if op.epoch > self.map.epoch {
            // A client with any grants has to wait: they may be good for something by the map that is awaited.
            if session.peer.caps.are_none() {
                return self.refuse(conn, tid, &op, Errno::EPERM, ctx);
            }
            let permit = self.admission.ahead.take_at(op.held_bytes(), ctx.now);
            let (epoch, message) = (op.epoch, Message::MOSDOp(op));
            let waiting = Waiting { epoch, conn, tid, from: None, message, permit: Some(permit) };
            if !self.wait_for_map(waiting, ctx) {
                self.close_conn(conn, ctx);
            }
            return;
        }
        // As in Ceph, a blocklisted client may still list objects, though it may not touch them
        // (`PrimaryLogPG::do_op`). Python's librados takes any errno for the end of a list, so that the pool would look
        // empty.
        let is_listing = || !op.ops.is_empty() && op.ops.iter().all(|step| step.code.is_pg());
        if self.map.is_blocklisted(&session.peer.addr) && !is_listing() {
            return self.refuse(conn, tid, &op, Errno::EBLOCKLISTED, ctx);
        }
        let epoch = op.epoch;
        self.share_maps(conn, epoch, ctx);
        if !self.map.pg_exists(op.pgid) {
            // The pool is gone, or has fewer PGs than the client thinks: its next map tells it.
            return;
        }
        if !is_listing() && !self.is_in_its_pg(&op) {
            // Likewise; or the client errs. An object under another hash than its own would not be found by other
            // clients, and would not go where its PG's objects go when the PG is split.
            return;
        }
        if let Err(errno) = self.check_op(conn, &op) {
            return self.refuse(conn, tid, &op, errno, ctx);
        }
        if self.lacks_room(&op) || self.admission.held_back.drops(&op) {
            // Clients hold such ops back themselves and send them again once the flag goes.
            return;
        }
        let bytes = op.held_bytes();
        if self.drops_for_room(conn, &op, bytes, ctx) {
            return;
        }
        let permit = self.admission.requests.take_at(bytes, ctx.now);
        self.image_op_started(conn, tid, &op, ctx);
        self.pg_op(conn, tid, op, permit, ctx);
    }

    /// A client says that it holds. Its ops that wait for a map came before that, and may not come to the PG after it:
    /// it sends them again, behind others that it sent before them.
    fn on_backoff(&mut self, conn: ConnId, tid: u64, backoff: Box<MOSDBackoff>, ctx: &mut Ctx<'_>) {
        let ahead = self.waiting.iter().filter(|waiting| waiting.conn == conn && waiting.from.is_none());
        let Some(epoch) = ahead.map(|waiting| waiting.epoch).max() else {
            return self.backoff_told(conn, &backoff, ctx);
        };
        let message = Message::MOSDBackoff(backoff);
        if !self.wait_for_map(Waiting { epoch, conn, tid, from: None, message, permit: None }, ctx) {
            self.close_conn(conn, ctx);
        }
    }

    /// The same, when all that the client sent before is with its PG.
    pub(crate) fn backoff_told(&mut self, conn: ConnId, backoff: &MOSDBackoff, ctx: &mut Ctx<'_>) {
        if backoff.op == BackoffOp::ACK_BLOCK {
            self.pg_event(backoff.pgid.pg, pg::Event::BackoffAck { session: conn.0, id: backoff.id }, ctx);
        }
    }

    /// Capabilities.
    fn check_op(&self, conn: ConnId, op: &MOSDOp) -> Result<(), Errno> {
        let session = self.sessions.get(&conn).ok_or(Errno::EPERM)?;
        let pool = self.map.pools.get(&op.pgid.pool).ok_or(Errno::ENOENT)?;
        let need = Need::of(op);
        let access = OsdAccess {
            pool_name: self.map.pool_name(op.pgid.pool).unwrap_or_default(),
            namespace: &op.locator.nspace,
            application_metadata: &pool.application_metadata,
            key: if op.locator.key.is_empty() { &op.oid } else { &op.locator.key },
            read: need.read,
            write: need.write,
            classes: &need.classes,
        };
        if !session.peer.caps.allows(&access) {
            return Err(Errno::EPERM);
        }
        Ok(())
    }

    /// True if the PG holds objects of the hash that the op names.
    fn is_in_its_pg(&self, op: &MOSDOp) -> bool {
        let PgId { pool, .. } = op.pgid;
        self.map.pools.get(&pool).is_some_and(|its| its.pg_of_hash(pool, op.hash) == op.pgid)
    }

    /// True for a change of a pool without room whose client should hold it back. A pause (`osd pause`) is for clients
    /// to keep, as with Ceph: they would not all send again what is dropped here (the kernel's do not).
    fn lacks_room(&self, op: &MOSDOp) -> bool {
        op.says_it_writes() && !op.tries_when_full() && self.map.is_full(op.pgid.pool)
    }

    /// Answers an op with an errno and no data.
    pub(crate) fn refuse(&mut self, conn: ConnId, tid: u64, op: &MOSDOp, errno: Errno, ctx: &mut Ctx<'_>) {
        let reply = MOSDOpReply::refusal(op, errno, self.map.epoch);
        self.image_op_ended(conn, tid, &reply, ctx);
        self.send_conn(conn, tid, reply.into(), ctx);
    }
}

#[cfg(test)]
mod tests {
    use auth::OsdCaps;
    use messages::{OpCode, OsdOp};
    use store::MemStore;
    use types::{EntityAddr, EntityName, EntityType, GlobalId, Instant, PgPool, PoolId, PoolType, UTime};

    use super::*;
    use crate::{Effect, Event, Peer};

    const CONN: ConnId = ConnId(1);

    /// The answer to a client without rights that sends an op for this hash to this PG, of eight.
    fn answer(seed: u32, hash: u32, code: OpCode) -> Option<i32> {
        let mut osd = Osd::alone();
        let pool = PoolId(3);
        osd.map.pools.insert(pool, PgPool::new(PoolType::REPLICATED, 3, 2, 0, 8));
        let peer = Peer {
            name: EntityName::new(EntityType::CLIENT, "x"),
            entity_type: EntityType::CLIENT,
            global_id: GlobalId(7),
            addr: EntityAddr::default(),
            caps: OsdCaps::default(),
            features: 0,
        };
        let (mut store, mut effects) = (MemStore::new(), Vec::new());
        let op =
            MOSDOp { pgid: PgId::new(pool, seed), hash, ops: vec![OsdOp::new(code)], ..MOSDOp::default() };
        for event in
            [Event::ConnOpened(CONN, Box::new(peer)), Event::Received(CONN, 1, Message::MOSDOp(Box::new(op)))]
        {
            osd.handle(Instant(1), UTime::default(), event, &mut store, &mut effects);
        }
        effects.into_iter().find_map(|effect| match effect {
            Effect::Send(CONN, 1, Message::MOSDOpReply(reply)) => Some(reply.result),
            _ => None,
        })
    }

    #[test]
    fn ops_whose_objects_are_in_other_pgs_are_dropped() {
        let refused = Some(Errno::EPERM.negated());
        for code in [OpCode::READ, OpCode::WRITEFULL] {
            assert_eq!(answer(5, 0xabcd_0005, code), refused);
            assert_eq!(answer(5, 0xabcd_0006, code), None);
        }
        // What names a PG needs no hash.
        assert_eq!(answer(5, 0xabcd_0006, OpCode::PGNLS), refused);
    }
}
