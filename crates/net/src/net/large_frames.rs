//! Large frames of clients, while they are received: how much of the memory they may take together, and which have to
//! wait for their turn. What has been received is for the machine to count ([`Net::hold_clients`]).

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use messages::{MOSDOp, MOSDOpReply, RawMessage};
use msgr::PartialFrame;
use types::Errno;

use crate::{
    Wire,
    net::{Link, Net},
};

/// Frames up to this size wait for no others, and are not counted: writes of whole objects of the usual size, 4 MiB.
pub(super) const FRAME_BYTES_SMALL: usize = 5 << 20;
/// The larger ones may take so much together. More than a single one can take, so that each has its turn.
pub(super) const UNDER_WAY_BYTES_MAX: usize = 256 << 20;
/// While others wait, a large frame may take this time, and a second more for each of these bytes. A slower client
/// would keep the others waiting.
const FRAME_TIME: Duration = Duration::from_secs(10);
const FRAME_BYTES_PER_SECOND: usize = 1 << 20;
/// No more time than this counts at once: what stands still longer has not received either.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// A large frame that a client has begun to send.
#[derive(Debug)]
pub(super) enum LargeFrame {
    /// There is no room for it yet; nothing is received of it.
    Waiting(PartialFrame),
    /// It is being received, and has time left until others need not wait for it.
    UnderWay { bytes: usize, left_ns: u64 },
}

impl LargeFrame {
    fn under_way(bytes: usize) -> LargeFrame {
        let time = FRAME_TIME + Duration::from_secs((bytes / FRAME_BYTES_PER_SECOND) as u64);
        LargeFrame::UnderWay { bytes, left_ns: time.as_nanos() as u64 }
    }
}

/// The large frames of all clients.
#[derive(Debug)]
pub(super) struct LargeFrames<C> {
    /// What those take that are under way.
    pub(super) bytes: usize,
    /// Connections whose frames wait, in the order in which they came.
    waiting: VecDeque<C>,
    looked_at_ns: u64,
}

impl<C: PartialEq> LargeFrames<C> {
    pub(super) fn new() -> LargeFrames<C> {
        LargeFrames { bytes: 0, waiting: VecDeque::new(), looked_at_ns: 0 }
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.bytes == 0 || self.bytes + bytes <= UNDER_WAY_BYTES_MAX
    }

    /// A connection's frame is there, or its connection is gone.
    pub(super) fn end(&mut self, conn: &C, frame: &LargeFrame) {
        match frame {
            LargeFrame::UnderWay { bytes, .. } => self.bytes -= bytes,
            LargeFrame::Waiting(_) => self.waiting.retain(|waiting| waiting != conn),
        }
    }
}

impl<C: Copy + Ord + std::fmt::Debug> Net<C> {
    /// More comes of a large frame: all of it, if it is under way. Of one that waits, it is what the wire had received
    /// before.
    pub(super) fn go_on_with_frame(&mut self, conn: C, wire: &mut impl Wire<Conn = C>) {
        let Some(link) = self.links.get_mut(&conn) else { return };
        let Some(frame) = link.large.take() else { return };
        self.large.end(&conn, &frame);
        if let LargeFrame::Waiting(part) = frame {
            link.conn.put_back(part);
            wire.pause_receive(conn, link.waits(self.is_holding_clients));
        }
    }

    /// Receives the rest of a frame of which only a part is there, or lets the frame wait.
    pub(super) fn begin_frame(&mut self, conn: C, part: PartialFrame, wire: &mut impl Wire<Conn = C>) {
        if part.bytes <= FRAME_BYTES_SMALL {
            return wire.expect_frame(conn, part);
        }
        let Some(link) = self.links.get_mut(&conn) else { return };
        if !link.is_client {
            return wire.expect_frame(conn, part);
        }
        // It must not keep a receive buffer that others need.
        let have = vec![Bytes::from(part.have.concat())];
        link.large = Some(LargeFrame::Waiting(PartialFrame { have, ..part }));
        self.large.waiting.push_back(conn);
        self.admit_frames(wire);
        let Some(link) = self.links.get(&conn) else { return };
        if matches!(link.large, Some(LargeFrame::Waiting(_))) {
            wire.pause_receive(conn, true);
        }
    }

    /// Refuses a client's request whose payload is longer than what is taken, as Ceph does: if the connection was
    /// closed, the client would send it again, for ever. False for a message that cannot be refused.
    pub(super) fn refuse_too_long(
        &mut self,
        conn: C,
        raw: RawMessage,
        wire: &mut impl Wire<Conn = C>,
    ) -> bool {
        let (kind, tid) = (raw.kind, raw.tid);
        let client = self.links.get(&conn).filter(|link| link.is_client).map(|link| link.id);
        let (Some(id), Ok(op)) = (client, MOSDOp::decode_too_long(raw)) else {
            tracing::warn!(kind, "a message is too long; closing its connection");
            return false;
        };
        let reply = MOSDOpReply::refusal(&op, Errno::EMSGSIZE, op.epoch);
        self.send(id, tid, &reply.into(), wire);
        true
    }

    /// Goes on with the frames for which there is room, in their order: a larger one is not passed over for ever.
    pub(super) fn admit_frames(&mut self, wire: &mut impl Wire<Conn = C>) {
        while let Some(conn) = self.large.waiting.front().copied() {
            let link = self.links.get_mut(&conn).expect("a link that goes takes its frame along");
            let Some(LargeFrame::Waiting(part)) = &link.large else {
                unreachable!("a frame that is there takes its place along");
            };
            let bytes = part.bytes;
            if !self.large.has_room(bytes) {
                return;
            }
            self.large.bytes += bytes;
            self.large.waiting.pop_front();
            if let Some(LargeFrame::Waiting(part)) = link.large.replace(LargeFrame::under_way(bytes)) {
                wire.expect_frame(conn, part);
            }
            wire.pause_receive(conn, link.waits(self.is_holding_clients));
        }
    }

    /// Called several times a second: closes the connections of clients that keep others waiting with frames that they
    /// do not complete. Time in which the machine has a client wait does not count; that a client does not take its
    /// answers is its own doing.
    pub(super) fn look_at_frames(&mut self, wire: &mut impl Wire<Conn = C>) {
        let now = wire.now().0;
        let passed = now - std::mem::replace(&mut self.large.looked_at_ns, now);
        let passed = passed.min(LOOK_MAX.as_nanos() as u64);
        if self.large.bytes > 0 {
            let is_holding = self.is_holding_clients;
            let is_late = |link: &mut Link| {
                let waits = link.is_held || is_holding;
                let Some(LargeFrame::UnderWay { left_ns, .. }) = &mut link.large else { return false };
                *left_ns = left_ns.saturating_sub(if waits { 0 } else { passed });
                *left_ns == 0
            };
            let late: Vec<C> =
                self.links.iter_mut().filter_map(|(conn, link)| is_late(link).then_some(*conn)).collect();
            self.end_late(late, wire);
        }
        self.admit_frames(wire);
    }

    fn end_late(&mut self, late: Vec<C>, wire: &mut impl Wire<Conn = C>) {
        if self.large.waiting.is_empty() {
            return;
        }
        for conn in late {
            let peer = self.links.get(&conn).map(|link| link.conn.socket());
            tracing::warn!(?peer, "a client does not complete its message; closing its connection");
            self.cut(conn, wire);
        }
    }
}
