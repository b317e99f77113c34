//! OSDs that have no room, whatever the map says of them (`osd_failsafe_full_ratio`).
//!
//! The map says that an OSD is full once the monitor has heard of it, and the monitor may be slower than clients fill
//! devices, or be away. Growth for which a store finds no room waits there, and all that comes later for its PG waits
//! behind it, removals included. So changes whose clients would hold them back are dropped before that: where an OSD
//! that has a copy is all but full, or has less room than what may be under way to it.
//!
//! What a change takes that its request has not brought, its PG weighs by the same rooms (`pg/src/ops/room.rs`).
//!
//! Each shard looks at its store whenever so much was written that it matters, and OSDs tell each other with
//! heartbeats, and as soon as their room has shrunk by a part ([`pg::STALE_PART`]).
//!
//! No map tells a client to send again what is dropped here. Until it does, its later changes of the same PG are
//! dropped as well: carried out now, they would be overwritten by the earlier ones. When there is room again, its
//! connection is closed. A client then sends again, in order, all that is not answered.
//!
//! Authority: `PrimaryLogPG::do_op`, `OSDService::check_failsafe_full` (16.2).

use messages::{LogLevel, MOSDOp, MOSDPing};
use pg::{CHANGE_BYTES, Room, Rooms, STALE_PART};
use store::StoreUsage;
use types::{OsdId, PgId, Settings};

use crate::{ConnId, Osd, ShardMessage, boot::Boot, osd::Ctx};

/// The part of a store that may be in use where no option says.
const RATIO: f64 = 0.97;
/// What is written, in parts of the room that there is, before a shard looks at its store again: more than once before
/// others must be told.
const LOOK_PART: u64 = 4 * STALE_PART;
/// A store that was all but full is so until so many times as much is free: its room is not news with each change.
const AGAIN_TIMES: f64 = 1.125;

/// What OSDs have room for.
#[derive(Debug)]
pub(crate) struct Failsafe {
    /// The part of a store that may be in use.
    ratio: f64,
    /// This OSD's is that of this shard's store.
    pub(crate) rooms: Rooms,
    /// This shard's room, as of the last look.
    own: Option<Room>,
    /// What others have heard of: the control shard of this one, or other OSDs of all.
    told: Option<Room>,
    /// What may be written before the next look.
    until_look: u64,
    /// True while clients are to send again what was dropped.
    is_dropping: bool,
    /// True while an operator has this OSD believe that its store is all but full.
    is_injected: bool,
}

impl Default for Failsafe {
    fn default() -> Failsafe {
        let rooms = Rooms::default();
        Failsafe {
            ratio: RATIO,
            rooms,
            own: None,
            told: None,
            until_look: 0,
            is_dropping: false,
            is_injected: false,
        }
    }
}

impl Failsafe {
    /// Follows the options.
    pub(crate) fn follow(&mut self, settings: &Settings) {
        let ratio = settings.get("osd_failsafe_full_ratio").and_then(|text| text.parse().ok());
        self.ratio = ratio.unwrap_or(RATIO);
    }

    /// What a store has room for: for growth, nothing when it is all but full.
    fn room_in(&self, usage: &StoreUsage) -> Room {
        let times = if self.own.is_some_and(is_full) { AGAIN_TIMES } else { 1.0 };
        let kept = usage.total_bytes as f64 * (1.0 - self.ratio) * times;
        let left_bytes = usage.available_bytes;
        let is_all_but_full = self.is_injected || left_bytes as f64 <= kept;
        Room { bytes: if is_all_but_full { 0 } else { left_bytes }, left_bytes }
    }

    /// True if others are to hear now that there is so much room.
    fn is_news(&self, room: Room) -> bool {
        let has_shrunk = |told: Room| told.left_bytes - told.left_bytes / STALE_PART >= room.left_bytes;
        self.told
            .is_some_and(|told| is_full(told) != is_full(room) || told.left_bytes > 0 && has_shrunk(told))
    }
}

fn is_full(room: Room) -> bool {
    room.bytes == 0
}

/// What a heartbeat says of the room.
pub(crate) fn in_ping(room: Option<Room>) -> (Option<u64>, u64) {
    (room.map(|room| room.bytes), room.map_or(0, |room| room.left_bytes))
}

impl Osd {
    /// Drops a change whose client would hold it back if it knew that there is no room, or that comes behind such a
    /// one. True if it was.
    pub(crate) fn drops_for_room(
        &mut self,
        conn: ConnId,
        op: &MOSDOp,
        bytes: u64,
        ctx: &mut Ctx<'_>,
    ) -> bool {
        if !op.says_it_writes() {
            return false;
        }
        self.note_written(bytes, ctx);
        let may_drop =
            self.failsafe.is_dropping || !self.failsafe.rooms.have_plenty(self.under_way_with(bytes));
        may_drop && !op.tries_when_full() && self.drops_short(conn, op.pgid, bytes)
    }

    fn drops_short(&mut self, conn: ConnId, pgid: PgId, bytes: u64) -> bool {
        let is_short = self.is_short(pgid, bytes);
        if is_short {
            self.note_dropped(conn, pgid, bytes);
        }
        self.sessions.get(&conn).is_none_or(|session| session.dropped.contains_key(&pgid))
    }

    /// A change of a client was dropped, which takes so much.
    pub(crate) fn note_dropped(&mut self, conn: ConnId, pgid: PgId, bytes: u64) {
        if let Some(session) = self.sessions.get_mut(&conn) {
            session.dropped.entry(pgid).or_insert(bytes);
            self.failsafe.is_dropping = true;
        }
    }

    /// Ends the sessions of clients that are to send again what was dropped, as there is room for the first of it.
    pub(crate) fn end_dropping(&mut self, ctx: &mut Ctx<'_>) {
        if !self.failsafe.is_dropping {
            return;
        }
        let has_room = |(pgid, bytes): (&PgId, &u64)| !self.is_short(*pgid, *bytes);
        let sessions = self.sessions.iter().filter(|(_, session)| session.dropped.iter().any(has_room));
        for conn in sessions.map(|(conn, _)| *conn).collect::<Vec<_>>() {
            self.close_conn(conn, ctx);
        }
        self.failsafe.is_dropping = self.sessions.values().any(|session| !session.dropped.is_empty());
    }

    /// What clients have under way here, with a change of so many bytes.
    fn under_way_with(&self, bytes: u64) -> u64 {
        self.admission.requests.under_way() + bytes + CHANGE_BYTES
    }

    /// True if a change of the PG of so many bytes might find no room on this OSD, or on another that has a copy.
    fn is_short(&self, pgid: PgId, bytes: u64) -> bool {
        let (rooms, under_way) = (&self.failsafe.rooms, self.under_way_with(bytes));
        rooms.is_full(self.config.whoami)
            || self.pgs.get(pgid).is_some_and(|pg| rooms.are_short(pg.members(), under_way))
    }

    /// So much is about to be written to this shard's store.
    pub(crate) fn note_written(&mut self, bytes: u64, ctx: &mut Ctx<'_>) {
        match self.failsafe.until_look.checked_sub(bytes.saturating_add(CHANGE_BYTES)) {
            Some(rest) => self.failsafe.until_look = rest,
            None => self.look_at_room(ctx),
        }
    }

    /// Looks how much room this shard's store has.
    pub(crate) fn look_at_room(&mut self, ctx: &mut Ctx<'_>) {
        let room = self.failsafe.room_in(&ctx.store.usage());
        let was_full = self.failsafe.own.replace(room).is_some_and(is_full);
        self.failsafe.until_look = room.left_bytes / LOOK_PART;
        self.failsafe.rooms.set(self.config.whoami, room);
        if is_full(room) && !was_full {
            let line = "all but full, whatever the map says: changes that take room are dropped".to_owned();
            self.cluster_log(LogLevel::ERROR, line, ctx);
        }
        self.tell_room(ctx);
    }

    /// Has all shards follow what an operator has injected, or what is over.
    pub(crate) fn follow_injected_full(&mut self, ctx: &mut Ctx<'_>) {
        let is_injected = self.injected_full.is_some_and(|injected| injected.is_failsafe());
        if self.config.shard.is_control() && is_injected != self.failsafe.is_injected {
            self.send_other_shards(|| ShardMessage::InjectFailsafe(is_injected), ctx);
            self.inject_failsafe(is_injected, ctx);
        }
    }

    pub(crate) fn inject_failsafe(&mut self, is_injected: bool, ctx: &mut Ctx<'_>) {
        self.failsafe.is_injected = is_injected;
        self.look_at_room(ctx);
    }

    /// Tells of the room at once if others reckon with more, or with none.
    pub(crate) fn tell_room(&mut self, ctx: &mut Ctx<'_>) {
        if !self.room().is_some_and(|room| self.failsafe.is_news(room)) {
            return;
        }
        if !self.config.shard.is_control() {
            self.report(ctx);
        } else if self.boot == Boot::Active && !self.watchdog.is_stalled() {
            self.ping_peers(ctx);
            self.stats_report.at_once(ctx.now);
            self.send_stats_if_due(ctx);
        }
    }

    /// What this shard has room for; of all shards, for the control shard: the fullest one counts.
    fn room(&self) -> Option<Room> {
        let others = self.control.reports().map(|report| self.failsafe.room_in(&report.usage));
        let less = |one: Room, other: Room| Room {
            bytes: one.bytes.min(other.bytes),
            left_bytes: one.left_bytes.min(other.left_bytes),
        };
        Some(others.fold(self.failsafe.own?, less))
    }

    /// The room that a heartbeat, or a report to the control shard, tells of.
    pub(crate) fn told_room(&mut self) -> Option<Room> {
        self.failsafe.told = self.room();
        self.failsafe.told
    }

    /// Another OSD tells of its room.
    pub(crate) fn on_room(&mut self, osd: OsdId, ping: &MOSDPing, ctx: &mut Ctx<'_>) {
        let room = ping.room.map(|bytes| Room { bytes, left_bytes: ping.left_bytes });
        if let Some(room) = room.filter(|room| self.failsafe.rooms.set(osd, *room)) {
            self.send_other_shards(|| ShardMessage::Room(osd, room), ctx);
        }
    }
}

#[cfg(test)]
mod tests;
