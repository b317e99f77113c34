//! Sessions and what their peers subscribed to.

use std::collections::BTreeMap;

use bytes::Bytes;
use codec::{Encode, Features};
use messages::{
    MConfig, MMonGetOSDMap, MMonGetVersion, MMonGetVersionReply, MMonMap, MMonSubscribe, MOSDMap, Message,
    SubscribeItem,
};
use types::{EntityType, Epoch, find_option};

use crate::{ConnId, Effect, Effects, Mon, Peer, access::Right, log_service::log_level, text_limit};

/// Incrementals in one message (`osd_map_message_max`).
const MAPS_PER_MESSAGE: usize = 40;
/// Whole maps in one message: each is computed anew from the nearest full map that is kept before it.
const FULL_MAPS_PER_MESSAGE: u32 = 5;

/// Bytes of maps in one message (`osd_map_message_max_bytes`): the kernel's client drops a message of more than 16 MiB.
const MAP_BYTES_PER_MESSAGE: usize = 10 << 20;

/// Bytes of a client's hostname, as in DNS.
const HOSTNAME_BYTES_MAX: usize = 255;

/// What subscriptions to the cluster log begin with; the level follows.
pub(crate) const LOG: &str = "log-";

/// Options of clients whose defaults in our table differ from those in Ceph's clients, so that clients must be told
/// ours. `rbd map` gives its options to the kernel, which speaks msgr1 unless told otherwise.
const CLIENT_DEFAULTS: &[&str] = &["rbd_default_map_options"];

/// Adds these options, where the operator has set nothing else.
fn add_client_defaults(config: &mut BTreeMap<String, String>) {
    for name in CLIENT_DEFAULTS {
        if let Some(info) = find_option(name) {
            config.entry((*name).to_owned()).or_insert_with(|| info.default_for(false));
        }
    }
}

/// The bytes of the maps that are in a message.
#[derive(Clone, Copy, Default)]
struct MapBytes(usize);

impl MapBytes {
    /// Adds a map, if there is room for it: the first one has room in any case, as no smaller message brings it.
    fn add(&mut self, len: usize) -> bool {
        let sum = self.0 + len;
        let is_room = self.0 == 0 || sum <= MAP_BYTES_PER_MESSAGE;
        if is_room {
            self.0 = sum;
        }
        is_room
    }
}

/// A subscription.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sub {
    /// The version to send next; 0 for whatever is there.
    pub(crate) next: u64,
    pub(crate) is_onetime: bool,
}

impl Sub {
    pub(crate) fn new(item: SubscribeItem) -> Sub {
        Sub { next: item.start, is_onetime: item.is_onetime() }
    }
}

/// A peer's session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) peer: Peer,
    pub(crate) hostname: String,
    pub(crate) subs: BTreeMap<String, Sub>,
    /// The options that it was told last.
    config_sent: Option<BTreeMap<String, String>>,
}

impl Session {
    pub(crate) fn new(peer: Peer) -> Session {
        Session { peer, hostname: String::new(), subs: BTreeMap::new(), config_sent: None }
    }

    /// Adds a subscription. A session has only one to the cluster log: a new level takes the place of the last.
    pub(crate) fn subscribe(&mut self, what: String, sub: Sub) {
        if what.starts_with(LOG) {
            self.subs.retain(|other, _| *other == what || !other.starts_with(LOG));
        }
        self.subs.insert(what, sub);
    }

    fn done(&mut self, what: &str, next: u64) {
        if let Some(sub) = self.subs.get_mut(what) {
            sub.next = next;
            if sub.is_onetime {
                self.subs.remove(what);
            }
        }
    }
}

/// True for a subscription that something may be sent to; others are not kept.
fn is_served(what: &str) -> bool {
    needs_no_right(what) || matches!(what, "mgrmap" | "osdmap") || log_level(what).is_some()
}

/// True for what every peer that is let in may subscribe to: a client asks for these two before all else, and without
/// them could not send the one command that it may send.
fn needs_no_right(what: &str) -> bool {
    matches!(what, "monmap" | "config")
}

impl Mon {
    /// Adds subscriptions. Those of a peer that may not read the monitor are dropped silently, as by Ceph's monitors
    /// (`Monitor::handle_subscribe`); some maps take more rights when they are sent.
    pub(crate) fn on_subscribe(&mut self, conn: ConnId, subscribe: MMonSubscribe, effects: &mut Effects) {
        let may_read = self.may(conn, "mon", Right::Read);
        let Some(session) = self.sessions.get_mut(&conn) else { return };
        session.hostname = subscribe.hostname;
        text_limit::cut(&mut session.hostname, HOSTNAME_BYTES_MAX);
        let wanted = subscribe.what.iter().find(|(what, _)| *what == "osdmap").map(|(_, item)| item.start);
        for (what, item) in subscribe.what.into_iter().filter(|(what, _)| is_served(what)) {
            if may_read || needs_no_right(&what) {
                session.subscribe(what, Sub::new(item));
            } else {
                tracing::debug!("{} may not read the monitor: no {what} for it", session.peer.name);
            }
        }
        if let (Some(osd), Some(start)) = (self.osd_of(conn), wanted) {
            self.note_wanted_map(osd, start);
        }
        self.check_subs(conn, effects);
    }

    /// Sends a session whatever is due to it.
    pub(crate) fn check_subs(&mut self, conn: ConnId, effects: &mut Effects) {
        let Some(session) = self.sessions.get(&conn) else { return };
        let wants_log = session.subs.keys().any(|what| log_level(what).is_some());
        for what in session.subs.keys().cloned().collect::<Vec<_>>() {
            match what.as_str() {
                "monmap" => self.check_monmap(conn, effects),
                "mgrmap" => self.check_mgrmap(conn, effects),
                "config" => self.check_config(conn, effects),
                "osdmap" => self.check_osdmap(conn, effects),
                // Log lines are sent as they are committed; everything else has no versions here.
                _ => {}
            }
        }
        if wants_log && self.may(conn, "log", Right::Read) {
            self.check_log(conn, effects);
        }
    }

    pub(crate) fn monmap_message(&self) -> Message {
        MMonMap { monmap: self.committed.monmap.to_bytes(Features::PACIFIC) }.into()
    }

    fn check_monmap(&mut self, conn: ConnId, effects: &mut Effects) {
        let epoch = u64::from(self.committed.monmap.epoch.0);
        let message = self.monmap_message();
        let Some(session) = self.sessions.get_mut(&conn) else { return };
        let Some(sub) = session.subs.get("monmap").copied() else { return };
        if sub.next <= epoch {
            session.done("monmap", epoch + 1);
            effects.push(Effect::Send { conn, tid: 0, message });
        }
    }

    fn check_mgrmap(&mut self, conn: ConnId, effects: &mut Effects) {
        if self.manager.0.is_empty() {
            return;
        }
        let (epoch, message) = (u64::from(self.mgrmap().epoch.0), self.mgrmap_message());
        let Some(session) = self.sessions.get_mut(&conn) else { return };
        let Some(sub) = session.subs.get("mgrmap").copied() else { return };
        if sub.next <= epoch {
            session.done("mgrmap", epoch + 1);
            effects.push(Effect::Send { conn, tid: 0, message });
        }
    }

    fn check_config(&mut self, conn: ConnId, effects: &mut Effects) {
        let Some(session) = self.sessions.get(&conn) else { return };
        let mut config = self.config_of(&session.peer.name, &session.hostname);
        if session.peer.name.kind == EntityType::CLIENT {
            add_client_defaults(&mut config);
        }
        let Some(session) = self.sessions.get_mut(&conn) else { return };
        let Some(sub) = session.subs.get("config").copied() else { return };
        if sub.next == 0 || session.config_sent.as_ref() != Some(&config) {
            session.config_sent = Some(config.clone());
            session.done("config", 1);
            effects.push(Effect::Send { conn, tid: 0, message: MConfig { config }.into() });
        }
    }

    fn check_osdmap(&mut self, conn: ConnId, effects: &mut Effects) {
        if !self.may(conn, "osd", Right::Read) {
            return;
        }
        let newest = self.committed.osdmap.epoch;
        let Some(session) = self.sessions.get_mut(&conn) else { return };
        let Some(sub) = session.subs.get("osdmap").copied() else { return };
        if sub.next > u64::from(newest.0) {
            return;
        }
        session.done("osdmap", u64::from(newest.0) + 1);
        let from = Epoch(u32::try_from(sub.next).unwrap_or(u32::MAX));
        self.send_osdmaps(conn, from, sub.is_onetime, effects);
    }

    /// Sends the maps from `from` on; 0, an epoch that is not kept and one before a gap give the newest full map, but
    /// an OSD gets all that are kept, on both sides of a gap: its PGs walk through them. With `is_one_message` the
    /// receiver asks for the rest itself. A client skips no further than to the oldest map that a message says there
    /// is, so it is told of the newest map alone.
    pub(crate) fn send_osdmaps(
        &self,
        conn: ConnId,
        from: Epoch,
        is_one_message: bool,
        effects: &mut Effects,
    ) {
        let mut send = |message: MOSDMap| {
            effects.push(Effect::Send { conn, tid: 0, message: message.into() });
        };
        let mut from = from;
        let (state, is_walk) = (&self.committed, from.0 != 0 && self.osd_of(conn).is_some());
        let oldest = if is_walk { state.oldest_epoch() } else { state.unbroken_epoch() };
        if from.0 == 0 || from < oldest {
            let oldest = is_walk.then(|| state.full_map(oldest)).flatten();
            let map = oldest.as_ref().unwrap_or(&state.osdmap);
            let fulls = [(map.epoch, map.to_bytes_and_crc().0)].into();
            send(MOSDMap { fulls, oldest: map.epoch, ..self.empty_osdmap(conn) });
            from = map.epoch.next();
        }
        let mut due = state.incrementals.from(from).peekable();
        // From the map before a gap, no incremental leads on.
        let gap_end = state.gap_end();
        let jump = |epoch| state.fulls.get(&gap_end.filter(|end| *end == epoch)?);
        while due.peek().is_some() {
            let (mut message, mut bytes) = (self.empty_osdmap(conn), MapBytes::default());
            while message.incrementals.len() < MAPS_PER_MESSAGE
                && let Some((epoch, incremental)) = due.next_if(|(epoch, incremental)| {
                    bytes.add(incremental.len() + jump(*epoch).map_or(0, Bytes::len))
                })
            {
                message.incrementals.insert(epoch, incremental.clone());
                message.fulls.extend(jump(epoch).map(|full| (epoch, full.clone())));
            }
            send(message);
            if is_one_message {
                return;
            }
        }
    }

    /// Maps that a peer asked for by epoch, as many as are sent at once.
    pub(crate) fn osdmaps_by_epoch(&self, conn: ConnId, wanted: &MMonGetOSDMap) -> MOSDMap {
        let mut message = self.empty_osdmap(conn);
        let range = |first: Epoch, last: Epoch, most: u32| {
            let first = first.max(self.committed.oldest_epoch());
            let last = last.min(message.newest).min(Epoch(first.0.saturating_add(most - 1)));
            (first.0..=last.0).map(Epoch)
        };
        let fulls = range(wanted.full_first, wanted.full_last, FULL_MAPS_PER_MESSAGE);
        let incrementals = range(wanted.inc_first, wanted.inc_last, MAPS_PER_MESSAGE as u32);
        let full = |epoch| Some((epoch, self.committed.full_map(epoch)?.to_bytes_and_crc().0));
        let incremental = |epoch| Some((epoch, self.committed.incrementals.get(epoch)?.clone()));
        let mut bytes = MapBytes::default();
        message.fulls = fulls.filter_map(full).take_while(|(_, map)| bytes.add(map.len())).collect();
        message.incrementals =
            incrementals.filter_map(incremental).take_while(|(_, map)| bytes.add(map.len())).collect();
        message
    }

    /// An OSD is told of the maps before a gap, too: it would give up one of them that it asks for.
    fn empty_osdmap(&self, conn: ConnId) -> MOSDMap {
        let (state, is_osd) = (&self.committed, self.osd_of(conn).is_some());
        MOSDMap {
            fsid: self.committed.monmap.fsid,
            oldest: if is_osd { state.oldest_epoch() } else { state.unbroken_epoch() },
            newest: self.committed.osdmap.epoch,
            ..MOSDMap::default()
        }
    }

    pub(crate) fn on_get_version(
        &self,
        conn: ConnId,
        tid: u64,
        question: &MMonGetVersion,
        effects: &mut Effects,
    ) {
        let (version, oldest) = match question.what.as_str() {
            "osdmap" => (self.committed.osdmap.epoch.0, self.committed.unbroken_epoch().0),
            "monmap" => (self.committed.monmap.epoch.0, 1),
            "mgrmap" => (self.mgrmap().epoch.0, 1),
            // The client waits for an answer even where the map is unknown.
            _ => (0, 0),
        };
        let reply = MMonGetVersionReply {
            handle: question.handle,
            version: u64::from(version),
            oldest: u64::from(oldest),
        };
        effects.push(Effect::Send { conn, tid, message: reply.into() });
    }
}
