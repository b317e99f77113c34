//! Watches and notifications of a PG, while it leads: sessions, timeouts, answers. An object's watchers are kept with
//! the object; this is what has to be remembered besides.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bytes::Bytes;
use codec::{Encode, Features};
use messages::{MWatchNotify, WatchOpcode};
use types::{EntityAddr, Errno, HObject, Instant};

use crate::{
    Client, Ctx, Effect, Permit, Pg,
    exec::{self, KnownWatch, WatchChange},
    index_wait::IndexWait,
};

/// What an OSD holds for notifications that are not over, replies and a payload for each watcher: more than any one of
/// them has. A client that watches and never answers could have it hold as much as it sends, times its watches.
pub(crate) const NOTIFIES_BYTES_MAX: u64 = 128 << 20;

/// Global id and cookie of a watcher.
type WatcherKey = (u64, u64);

#[derive(Debug)]
struct Watch {
    /// Where notifications go; none while the client is away.
    session: Option<u64>,
    timeout: Duration,
    expires: Instant,
    addr: EntityAddr,
    /// False for a client whose connection is sign of life enough.
    pings: bool,
}

impl Watch {
    fn is_over(&self, now: Instant) -> bool {
        now >= self.expires && (self.pings || self.session.is_none())
    }
}

#[derive(Debug)]
struct Notify {
    object: HObject,
    notifier: Client,
    cookie: u64,
    payload: Bytes,
    user_version: u64,
    waiting: BTreeSet<WatcherKey>,
    replies: BTreeMap<WatcherKey, Bytes>,
    expires: Instant,
    /// What is held for it, its replies included.
    held: Vec<Permit>,
}

/// A watcher of an object, as operators see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watcher {
    /// The client's global id.
    pub client: u64,
    /// The client's name of the watch.
    pub cookie: u64,
    /// For how long the client may be silent.
    pub timeout: Duration,
    /// Where it was when it began to watch.
    pub addr: EntityAddr,
}

/// All watches and notifications of a PG.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    watches: BTreeMap<HObject, BTreeMap<WatcherKey, Watch>>,
    notifies: BTreeMap<u64, Notify>,
    count: u64,
}

impl Pg {
    /// All watchers, with the objects that they watch.
    pub fn watchers(&self) -> impl Iterator<Item = (&HObject, Watcher)> {
        self.watches.watches.iter().flat_map(|(object, watches)| {
            watches.iter().map(move |((client, cookie), watch)| {
                let (client, cookie) = (*client, *cookie);
                (object, Watcher { client, cookie, timeout: watch.timeout, addr: watch.addr })
            })
        })
    }
}

impl Watches {
    /// Notifications that are not over.
    pub(crate) fn notify_count(&self) -> usize {
        self.notifies.len()
    }

    /// Clients watch and notify again with the next primary.
    pub(crate) fn on_new_interval(&mut self) {
        self.watches.clear();
        self.notifies.clear();
    }

    pub(crate) fn on_session_closed(&mut self, session: u64, now: Instant) {
        for watch in self.watches.values_mut().flat_map(BTreeMap::values_mut) {
            if watch.session == Some(session) {
                watch.session = None;
                watch.expires = now + watch.timeout;
            }
        }
    }

    /// Cookies of the client's watches of an object, as far as it is connected.
    pub(crate) fn connected(&self, head: &HObject, client: &Client) -> BTreeSet<u64> {
        let gid = client.entity.num as u64;
        let Some(watches) = self.watches.get(head) else { return BTreeSet::new() };
        let of_client = watches.range((gid, 0)..=(gid, u64::MAX));
        of_client.filter(|(_, watch)| watch.session.is_some()).map(|((_, cookie), _)| *cookie).collect()
    }

    /// Watchers that an object has had since before this PG led: each has its time to come back.
    pub(crate) fn learn(&mut self, head: &HObject, known: &[KnownWatch], now: Instant) {
        if known.is_empty() {
            return;
        }
        let watches = self.watches.entry(head.clone()).or_default();
        for KnownWatch { watcher, timeout_sec, addr } in known {
            let timeout = Duration::from_secs(u64::from(*timeout_sec));
            let watch = Watch { session: None, timeout, expires: now + timeout, addr: *addr, pings: true };
            watches.entry(*watcher).or_insert(watch);
        }
    }

    /// The id of the next notification. Ids of one primary's time do not collide with those of the next.
    pub(crate) fn next_id(&self, ctx: &Ctx<'_>) -> u64 {
        u64::from(ctx.map.epoch.0) << 32 | (self.count + 1)
    }

    /// A request ran that does this to watches, now or later: its notifications have their names.
    pub(crate) fn count(&mut self, changes: &[WatchChange]) {
        let notifies = changes.iter().filter(|change| matches!(change, WatchChange::Notify { .. }));
        self.count += notifies.count() as u64;
    }

    /// Carries out what an op did to watches.
    pub(crate) fn apply(&mut self, head: &HObject, client: &Client, change: WatchChange, ctx: &mut Ctx<'_>) {
        let gid = client.entity.num as u64;
        let held = change.held();
        match change {
            WatchChange::Watch { cookie, timeout_sec, pings } => {
                let timeout = Duration::from_secs(u64::from(timeout_sec));
                let (session, expires) = (Some(client.session), ctx.now + timeout);
                let watch = Watch { session, timeout, expires, addr: client.addr, pings };
                let known = self.watches.entry(head.clone()).or_default().insert((gid, cookie), watch);
                // On the same connection it has them.
                if known.is_none_or(|known| known.session != Some(client.session)) {
                    self.repeat_notifies(head, (gid, cookie), client.session, ctx);
                }
            }
            WatchChange::Unwatch { cookie } => self.end((gid, cookie), head, false, ctx),
            WatchChange::Disconnect(watcher) => self.end(watcher, head, true, ctx),
            WatchChange::Ping { cookie } => {
                // It stays with the session that it is of, whatever session the sign comes over: only a client that
                // watches again is told what it has missed (`Watch::got_ping`).
                let watch = self.watches.get_mut(head).and_then(|w| w.get_mut(&(gid, cookie)));
                if let Some(watch) = watch.filter(|watch| watch.session.is_some()) {
                    watch.expires = ctx.now + watch.timeout;
                }
            }
            WatchChange::Notify { id, cookie, timeout_sec, payload, user_version } => {
                let waiting: BTreeSet<WatcherKey> =
                    self.watches.get(head).into_iter().flat_map(BTreeMap::keys).copied().collect();
                let held = ctx.notifying.take(held.total(waiting.len()));
                let notify = Notify {
                    object: head.clone(),
                    notifier: client.clone(),
                    cookie,
                    payload,
                    user_version,
                    waiting,
                    replies: BTreeMap::new(),
                    expires: ctx.now + Duration::from_secs(u64::from(timeout_sec)),
                    held: vec![held],
                };
                self.notify(id, notify, ctx);
            }
            WatchChange::Ack { notify_id, cookie, reply } => {
                if let Some(notify) = self.notifies.get_mut(&notify_id) {
                    let is_meant = |w: &WatcherKey| w.0 == gid && cookie.is_none_or(|cookie| w.1 == cookie);
                    let waited = notify.waiting.len();
                    for watcher in notify.waiting.extract_if(.., |w| is_meant(w)) {
                        notify.replies.insert(watcher, reply.clone());
                    }
                    if notify.waiting.len() < waited {
                        notify.held.push(ctx.notifying.take(held.total(0)));
                    }
                    self.complete(notify_id, ctx);
                }
            }
        }
    }

    /// A watcher that came back hears of notifications that still wait for it.
    fn repeat_notifies(&self, head: &HObject, watcher: WatcherKey, session: u64, ctx: &mut Ctx<'_>) {
        for (id, notify) in &self.notifies {
            if notify.object == *head && notify.waiting.contains(&watcher) {
                ctx.effects.push(Effect::Tell(session, notify.message(*id, watcher).into()));
            }
        }
    }

    fn notify(&mut self, id: u64, notify: Notify, ctx: &mut Ctx<'_>) {
        for (watcher, watch) in self.watches.get(&notify.object).into_iter().flatten() {
            if let Some(session) = watch.session {
                ctx.effects.push(Effect::Tell(session, notify.message(id, *watcher).into()));
            }
        }
        self.notifies.insert(id, notify);
        self.complete(id, ctx);
    }

    /// Watches are over that no client has ended.
    pub(crate) fn end_all(&mut self, head: &HObject, changes: &[WatchChange], ctx: &mut Ctx<'_>) {
        for change in changes {
            if let WatchChange::Disconnect(watcher) = change {
                self.end(*watcher, head, true, ctx);
            }
        }
    }

    /// A watch is over; `is_told` if the client does not know yet.
    fn end(&mut self, watcher: WatcherKey, head: &HObject, is_told: bool, ctx: &mut Ctx<'_>) {
        let watch = self.watches.get_mut(head).and_then(|watches| watches.remove(&watcher));
        if self.watches.get(head).is_some_and(BTreeMap::is_empty) {
            self.watches.remove(head);
        }
        if let Some(session) = watch.and_then(|watch| watch.session).filter(|_| is_told) {
            let message = MWatchNotify {
                opcode: WatchOpcode::DISCONNECT,
                cookie: watcher.1,
                ..MWatchNotify::default()
            };
            ctx.effects.push(Effect::Tell(session, message.into()));
        }
        self.answer_for(watcher, head, ctx);
    }

    /// A watcher is gone: no notification waits for it any more.
    fn answer_for(&mut self, watcher: WatcherKey, head: &HObject, ctx: &mut Ctx<'_>) {
        let ids: Vec<u64> =
            self.notifies.iter().filter(|(_, n)| n.object == *head).map(|(id, _)| *id).collect();
        for id in ids {
            if self.notifies.get_mut(&id).is_some_and(|n| n.waiting.remove(&watcher)) {
                self.complete(id, ctx);
            }
        }
    }

    /// Tells the notifier when all answered or the time is over.
    fn complete(&mut self, id: u64, ctx: &mut Ctx<'_>) {
        let is_done = |n: &Notify| n.waiting.is_empty() || ctx.now >= n.expires;
        if !self.notifies.get(&id).is_some_and(is_done) {
            return;
        }
        let Some(notify) = self.notifies.remove(&id) else { return };
        let timed_out: Vec<WatcherKey> = notify.waiting.into_iter().collect();
        let return_code = if timed_out.is_empty() { 0 } else { Errno::ETIMEDOUT.negated() };
        let message = MWatchNotify {
            opcode: WatchOpcode::NOTIFY_COMPLETE,
            cookie: notify.cookie,
            version: notify.user_version,
            notify_id: id,
            return_code,
            notifier_gid: notify.notifier.entity.num as u64,
            replies: (notify.replies, timed_out).to_bytes(Features::default()),
            ..MWatchNotify::default()
        };
        ctx.effects.push(Effect::Tell(notify.notifier.session, message.into()));
    }

    /// Watches whose time is over, or whose client is blocklisted.
    fn expired(&self, ctx: &Ctx<'_>) -> Vec<(HObject, WatcherKey)> {
        let is_over = |watch: &Watch| watch.is_over(ctx.now) || ctx.map.is_blocklisted(&watch.addr);
        let all = self.watches.iter().flat_map(|(o, ws)| ws.iter().map(move |(w, watch)| (o, w, watch)));
        all.filter(|(_, _, watch)| is_over(watch)).map(|(o, w, _)| (o.clone(), *w)).collect()
    }
}

impl Notify {
    fn message(&self, id: u64, watcher: WatcherKey) -> MWatchNotify {
        MWatchNotify {
            opcode: WatchOpcode::NOTIFY,
            cookie: watcher.1,
            version: self.user_version,
            notify_id: id,
            payload: self.payload.clone(),
            notifier_gid: self.notifier.entity.num as u64,
            ..MWatchNotify::default()
        }
    }
}

impl Pg {
    /// Ends watches and notifications whose time is over. A watch is over once that is durable: a primary of a later
    /// interval would know of it before.
    pub(crate) fn tick_watches(&mut self, ctx: &mut Ctx<'_>) {
        for id in self.watches.notifies.keys().copied().collect::<Vec<_>>() {
            self.watches.complete(id, ctx);
        }
        if self.members.is_merging || self.is_waiting(IndexWait::Watches) {
            return;
        }
        for (head, watcher) in self.watches.expired(ctx) {
            // One that came back is not known here before its change is durable.
            let is_changing = self.is_changing_watch(&head, watcher);
            if is_changing || !self.may_change_unasked(&head) || self.is_degraded(&head) {
                continue;
            }
            let at = self.next_version(ctx);
            match exec::remove_watcher(ctx.store, self.coll, &head, watcher, at) {
                Ok(Some(staged)) => {
                    let ends = vec![WatchChange::Disconnect(watcher)];
                    self.submit_internal(&head, staged, ends, Vec::new(), ctx);
                }
                Ok(None) => self.watches.end(watcher, &head, true, ctx),
                Err(missing) => {
                    return self.wait(IndexWait::Watches, vec![missing], ctx);
                }
            }
        }
        self.let_go(IndexWait::Watches, ctx);
    }
}

#[cfg(test)]
mod tests;
