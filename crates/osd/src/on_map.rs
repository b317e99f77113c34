//! New maps: stored, applied one epoch at a time, walked through by the PGs, and shared.

mod asked;
mod whole;

use std::{collections::BTreeSet, time::Duration};

use bytes::Bytes;
use messages::{MOSDBoot, MOSDMap, Message};
use pg::Permit;
use types::{EntityType, Epoch, OsdId, OsdMap, OsdState};

use crate::{
    ConnId, Effect, Osd, ShardMessage,
    boot::Boot,
    map_store::MapStore,
    osd::{Ctx, WAITING_MAX, Waiting},
    session::Session,
    shard::CONTROL,
};

pub(crate) use asked::MapsAsked;
pub(crate) use whole::WholeMap;

/// Incrementals in one message to a client, OSD or shard that is behind.
const SHARED_MAX: u32 = 100;
/// Bytes of maps in such a message (`osd_map_message_max_bytes`), unless a single one is larger: the kernel's client
/// drops a message of more than 16 MiB.
const SHARED_BYTES_MAX: usize = 10 << 20;

/// How long a client's op waits for its map. A map takes seconds; one that does not come may not exist, and what waits
/// for it takes memory.
pub(crate) const MAP_PATIENCE: Duration = Duration::from_secs(30);

/// The sender of maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapSource {
    /// A monitor, which forgets no map that a PG still needs.
    Monitor,
    /// The control shard of this OSD.
    Control,
    /// Another OSD, which forgets maps as it likes.
    Osd,
}

impl Osd {
    /// Takes the maps of a message.
    pub(crate) fn on_osd_map(&mut self, source: MapSource, message: MOSDMap, ctx: &mut Ctx<'_>) {
        if message.fsid != self.config.fsid {
            tracing::warn!("a map of another cluster is ignored");
            return;
        }
        self.perf.map_messages += 1;
        self.perf.map_epochs += (message.incrementals.len() + message.fulls.len()) as u64;
        let before = self.map.epoch;
        while self.take_next_map(source, &message, ctx) {}
        let has_moved = self.map.epoch > before;
        let newest = message.newest;
        let oldest = if source == MapSource::Monitor { message.oldest } else { Epoch(0) };
        let is_over = |wanted: &mut WholeMap| wanted.is_over(self.map.epoch, oldest);
        let is_healed = self.whole_map.take_if(is_over).is_some();
        if is_healed {
            // What was sent when it was asked for last came too early.
            self.maps_asked = MapsAsked::default();
        }
        if has_moved {
            // The other shards learn maps from this one only, behind what it has told them of leases: so when an epoch
            // ends there, they know all peers that were given a lease in it.
            self.send_other_shards(|| ShardMessage::Maps(Box::new(message.clone())), ctx);
            self.after_new_maps(ctx);
        }
        // The message does not connect to what we have, or is not all. A monitor sends the rest by itself, unless it
        // sent the rest too early, before the whole map that it builds on was asked for.
        let comes_by_itself = has_moved && source == MapSource::Monitor && !is_healed;
        if newest > self.map.epoch && !comes_by_itself && self.whole_map.is_none() {
            self.want_maps(ctx);
        }
    }

    /// Asks for the maps from the next one on, unless that was done just now. The next message that is ahead of the map
    /// is a reason to ask again, if they do not come.
    pub(crate) fn want_maps(&mut self, ctx: &mut Ctx<'_>) {
        let have = self.map.epoch;
        if !self.maps_asked.is_due(have, ctx.now) {
            return;
        }
        if !self.config.shard.is_control() {
            self.maps_asked.note(have, ctx.now);
            ctx.send_shard(CONTROL, ShardMessage::WantMaps(self.map.epoch));
        } else if self.has_mon {
            self.subscribe(ctx);
        }
    }

    /// Applies the next epoch of `message`, if it has it.
    fn take_next_map(&mut self, source: MapSource, message: &MOSDMap, ctx: &mut Ctx<'_>) -> bool {
        let next = self.map.epoch.next();
        let step = if self.map.epoch.0 == 0 { None } else { message.incrementals.get(&next) };
        if let Some(bytes) = step {
            return self.take_incremental(bytes.clone(), ctx);
        }
        // Maps that are skipped may have had intervals in which others took writes.
        if source == MapSource::Osd && self.map.epoch.0 != 0 {
            return false;
        }
        let newer = message.fulls.iter().rev().find(|(epoch, _)| **epoch > self.map.epoch);
        let Some((epoch, bytes)) = newer else { return false };
        match OsdMap::of_epoch(*epoch, self.config.fsid, bytes.clone()) {
            Ok(map) => self.install(map, bytes.clone(), None, ctx),
            Err(error) => {
                tracing::error!(%error, epoch = epoch.0, "a full map is of no use");
                self.want_whole_map(*epoch, ctx);
                return false;
            }
        }
        true
    }

    fn take_incremental(&mut self, bytes: Bytes, ctx: &mut Ctx<'_>) -> bool {
        match self.map_after(&bytes) {
            Some((map, full)) => self.install(map, full, Some(bytes), ctx),
            None => {
                self.want_whole_map(self.map.epoch.next(), ctx);
                return false;
            }
        }
        true
    }

    /// The map that an incremental leads to, and its encoding; `None` if it is not the one that the monitor has.
    fn map_after(&self, bytes: &Bytes) -> Option<(OsdMap, Bytes)> {
        let inc = Osd::decode_incremental(bytes.clone())?;
        let mut map = self.map.clone();
        if let Err(error) = map.apply(&inc) {
            tracing::error!(%error, epoch = inc.epoch.0, "an incremental map does not apply");
            return None;
        }
        let (full, crc) = map.to_bytes_and_crc();
        if crc != inc.full_crc {
            tracing::error!(
                epoch = inc.epoch.0,
                "an incremental map leads to another one than the monitor's"
            );
            return None;
        }
        Some((map, full))
    }

    /// Makes `map` the newest: stored first, then walked through by every PG.
    fn install(&mut self, map: OsdMap, full: Bytes, incremental: Option<Bytes>, ctx: &mut Ctx<'_>) {
        self.maps.note_birth(&self.map, &map, self.config.whoami, self.config.uuid);
        let mut txn = MapStore::transaction(ctx.store);
        let needed = self.pgs.all().filter_map(pg::Pg::maps_needed_since).min();
        self.maps.push(&mut txn, map.epoch, full, incremental, needed);
        ctx.store.submit(crate::pgs::MAP_TOKEN, txn);
        self.admission.held_back.follow(Some(&self.map), &map);
        self.end_sessions(&map, ctx);
        self.map = map;
        let (map, me) = (&self.map, self.config.whoami);
        self.failsafe.rooms.retain(|osd| osd == me || map.is_up(osd));
        self.advance_pgs(ctx);
    }

    /// What the newest map says of this OSD.
    fn follow_own_state(&mut self, ctx: &mut Ctx<'_>) {
        let me = self.config.whoami;
        let is_ours = self.map.osd_addrs(me).is_some_and(|addrs| *addrs == self.public_addrs);
        match (self.map.is_up(me) && is_ours, self.boot) {
            // One message may bring the map that marks this OSD down and the one that has it up again.
            (true, Boot::Active) => self.boot_epoch = self.map.up_from(me),
            (true, Boot::Booting { .. } | Boot::CatchingUp(_) | Boot::Starting) => {
                self.boot = Boot::Active;
                self.boot_epoch = self.map.up_from(me);
                tracing::info!(osd = me.0, epoch = self.map.epoch.0, "up");
            }
            (false, Boot::Active) if self.map.state(me).has(OsdState::STOP) => {
                tracing::info!(osd = me.0, epoch = self.map.epoch.0, "stopped by an operator");
                self.boot = Boot::Stopping { deadline: ctx.now };
                self.finish_stop(ctx);
            }
            // What its PGs have may have been given up with it: it is not to come up again with that. One that was
            // purged gets no more maps, as its key is gone.
            (false, Boot::Active | Boot::Booting { .. } | Boot::CatchingUp(_))
                if self.boot_epoch > Epoch(0) && !self.map.exists(me) =>
            {
                tracing::warn!(osd = me.0, epoch = self.map.epoch.0, "removed from the map: stopping");
                self.boot = Boot::Stopping { deadline: ctx.now };
                self.finish_stop(ctx);
            }
            (false, Boot::Active) => self.on_marked_down(ctx),
            (false, Boot::Stopping { .. }) => self.finish_stop(ctx),
            _ => {}
        }
        self.boot_if_due(ctx);
        self.set_heartbeat_peers();
    }

    /// The map has it down, and it runs.
    fn on_marked_down(&mut self, ctx: &mut Ctx<'_>) {
        let (me, epoch) = (self.config.whoami.0, self.map.epoch);
        match self.markdowns.note(ctx.now, &self.settings) {
            None => {
                tracing::warn!(osd = me, epoch = epoch.0, "marked down while running: booting again");
                self.boot = Boot::CatchingUp(epoch);
            }
            Some(why) => {
                tracing::error!(osd = me, epoch = epoch.0, "{why}: stopping");
                self.boot = Boot::Stopping { deadline: ctx.now };
                self.finish_stop(ctx);
            }
        }
    }

    fn after_new_maps(&mut self, ctx: &mut Ctx<'_>) {
        if self.config.shard.is_control() {
            self.follow_own_state(ctx);
        }
        self.retry_waiting(ctx);
        self.answer_latest_maps(ctx);
        self.stats_report.at_once(ctx.now);
    }

    /// Sends the boot message when it is due.
    pub(crate) fn boot_if_due(&mut self, ctx: &mut Ctx<'_>) {
        if !self.has_mon || self.watchdog.is_stalled() || !self.boot.is_due(ctx.now, self.map.epoch) {
            return;
        }
        self.boot = Boot::Booting { asked: ctx.now };
        let message = MOSDBoot {
            osd: self.config.whoami,
            uuid: self.config.uuid,
            public_addrs: self.public_addrs.clone(),
            cluster_addrs: self.cluster_addrs.clone(),
            newest_map: self.map.epoch,
            device_bytes: self.config.device_bytes,
            metadata: self.config.metadata.clone(),
            features: self.config.features,
        };
        ctx.effects.push(Effect::SendMon(message.into()));
    }

    /// Drops the sessions with OSDs whose lives are over with `map`, before anything is said in their next lives, and
    /// what is left of these OSDs' own sessions, whether this OSD has said anything to them or not. If this OSD's own
    /// life is over, it drops all: what waits in them is of that life, and a peer that gave one of them up with that
    /// life would drop what is said in the next one.
    fn end_sessions(&mut self, map: &OsdMap, ctx: &mut Ctx<'_>) {
        let (before, me) = (&self.map, self.config.whoami);
        let is_over = |osd| !(map.is_up(osd) && map.up_from(osd) == before.up_from(osd));
        let is_own = before.is_up(me) && is_over(me);
        for osd in before.osds().filter(|osd| *osd != me && before.is_up(*osd)) {
            if is_own || is_over(osd) {
                self.leases.forget_granted(osd);
                self.pgs.forget_contact(osd);
                ctx.effects.push(Effect::ForgetOsd(osd));
            }
        }
    }

    pub(crate) fn set_heartbeat_peers(&mut self) {
        let me = self.config.whoami;
        let mut peers = self.pgs.peers();
        self.control.reports().for_each(|report| peers.extend(&report.peers));
        // Few PGs make few peers: neighbours by number are peers, too, so that every OSD is watched.
        let up: Vec<OsdId> = self.map.osds().filter(|osd| self.map.is_up(*osd)).collect();
        if let Some(at) = up.iter().position(|osd| *osd == me) {
            peers.extend([1, 2].map(|n| up[(at + n) % up.len()]));
        }
        peers.remove(&me);
        let peers = peers.into_iter().filter(|osd| self.map.is_up(*osd));
        let with_incarnation: Vec<_> = peers.map(|osd| (osd, self.map.up_from(osd))).collect();
        self.heartbeat.set_peers(with_incarnation.into_iter());
    }

    /// Keeps a message until its map is there. False when it is a client's, and too many wait.
    pub(crate) fn wait_for_map(&mut self, waiting: Waiting, ctx: &mut Ctx<'_>) -> bool {
        // What another OSD sent counts as received, and is not sent again: nothing of it may be lost. Its own clients'
        // ops and its recovery, of which both there is a bounded part at a time, bound how much that can be.
        if waiting.from.is_none() {
            let is_too_much = self.admission.is_too_much_ahead(self.config.shard.count);
            if is_too_much || self.waiting.len() >= WAITING_MAX {
                return false;
            }
            // The client goes on once the map is there. What waits is not in the way of other clients meanwhile.
            if self.sessions.get_mut(&waiting.conn).is_some_and(Session::begin_ahead) {
                self.hold_conn(waiting.conn, true, ctx);
            }
        }
        // The maps of the other shards of this OSD are on their way from the control shard.
        let comes_by_itself = waiting.from == Some(self.config.whoami);
        self.perf.delayed_for_map += 1;
        self.waiting.push_back(waiting);
        if !comes_by_itself {
            self.want_maps(ctx);
        }
        true
    }

    /// Closes connections of clients whose ops have waited for a map for too long. A client that still wants something
    /// sends it again. A client that is gone would not be noticed otherwise: while it waits, nothing is read from it,
    /// not even the end of its connection.
    pub(crate) fn give_up_waiting(&mut self, ctx: &mut Ctx<'_>) {
        let is_late = |permit: &Permit| ctx.now.since(permit.since()) >= MAP_PATIENCE;
        let late = self.waiting.iter().filter(|waiting| waiting.permit.as_ref().is_some_and(is_late));
        let conns: BTreeSet<ConnId> = late.map(|waiting| waiting.conn).collect();
        for conn in conns {
            tracing::warn!(conn = conn.0, "a client's map does not come; closing its connection");
            self.waiting.retain(|waiting| waiting.conn != conn || waiting.from.is_some());
            self.close_conn(conn, ctx);
        }
    }

    fn retry_waiting(&mut self, ctx: &mut Ctx<'_>) {
        let waiting = std::mem::take(&mut self.waiting);
        let (ready, later) = waiting.into_iter().partition(|w| w.epoch <= self.map.epoch);
        self.waiting = later;
        let ready: std::collections::VecDeque<Waiting> = ready;
        for Waiting { conn, tid, from, message, permit, .. } in ready {
            drop(permit);
            if from.is_none() && self.sessions.get_mut(&conn).is_some_and(Session::end_ahead) {
                self.hold_conn(conn, false, ctx);
            }
            // When the message came, its pool may not have been known, and so neither its shard.
            let shard = self.place_of(&message);
            match from {
                // Its connection may have ended meanwhile; what was received of it has to be heard all the same.
                Some(osd) if shard != self.config.shard.index => {
                    ctx.send_shard(shard, ShardMessage::FromPeer(conn, osd, message));
                }
                Some(osd) => self.pg_peer_message(osd, message, ctx),
                None if shard != self.config.shard.index => self.pass_on(shard, conn, tid, message, ctx),
                None => match message {
                    // What waits still came after it.
                    Message::MOSDBackoff(backoff) => self.backoff_told(conn, &backoff, ctx),
                    message => self.on_own_message(conn, tid, message, ctx),
                },
            }
        }
    }

    /// Sends a client or OSD that named `its_epoch` the maps that it lacks, once each.
    pub(crate) fn share_maps(&mut self, conn: ConnId, its_epoch: Epoch, ctx: &mut Ctx<'_>) {
        let newest = self.map.epoch;
        let Some(session) = self.sessions.get_mut(&conn) else { return };
        let have = session.map_epoch.max(its_epoch);
        if have >= newest || session.peer.name.kind == EntityType::MON {
            session.map_epoch = have;
            return;
        }
        session.map_epoch = newest;
        // A client needs the newest map alone, and jumps to it if that is the oldest it is told of.
        let is_client = session.osd().is_none();
        let is_far = newest.0 - have.0 > SHARED_MAX || have < self.maps.oldest;
        let since = (!is_client || !is_far).then(|| self.maps_since(have, ctx));
        let is_enough = |maps: &MOSDMap| !is_client || maps.incrementals.contains_key(&newest);
        let message = since.filter(is_enough).unwrap_or_else(|| self.one_map(newest, ctx));
        self.send_conn(conn, 0, Message::from(message), ctx);
    }

    /// The next maps for an OSD or a shard that has those up to `have`; from the oldest one on where it is behind that.
    /// The receiver asks for the rest.
    pub(crate) fn maps_since(&self, have: Epoch, ctx: &Ctx<'_>) -> MOSDMap {
        let first = have.next().max(self.maps.oldest);
        let last = Epoch(have.0.saturating_add(SHARED_MAX)).max(first).min(self.map.epoch);
        let mut message = match have < self.maps.oldest {
            true => self.one_map(first, ctx),
            false => self.no_map(),
        };
        let mut sum: usize = message.fulls.values().map(Bytes::len).sum();
        for epoch in (first.0..=last.0).map(Epoch) {
            if let Ok(Some(bytes)) = self.maps.incremental(ctx.store, epoch) {
                let is_first = sum == 0;
                sum += bytes.len();
                if sum > SHARED_BYTES_MAX && !is_first {
                    break;
                }
                message.incrementals.insert(epoch, bytes);
            }
        }
        message
    }

    fn no_map(&self) -> MOSDMap {
        let (fsid, oldest, newest) = (self.config.fsid, self.maps.oldest, self.map.epoch);
        MOSDMap { fsid, oldest, newest, ..MOSDMap::default() }
    }

    pub(crate) fn one_map(&self, epoch: Epoch, ctx: &Ctx<'_>) -> MOSDMap {
        let full = self.maps.full(ctx.store, epoch).ok().flatten();
        let fulls = full.map(|bytes| (epoch, bytes)).into_iter().collect();
        MOSDMap { fulls, oldest: epoch, ..self.no_map() }
    }
}

#[cfg(test)]
mod tests;
