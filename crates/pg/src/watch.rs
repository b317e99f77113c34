//! Watches and notifications of a PG, while it leads: sessions, timeouts, answers. Who watches an
//! object is kept with the object; this is what has to be remembered besides.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bytes::Bytes;
use codec::{Encode, Features};
use messages::{MWatchNotify, WatchOpcode};
use types::{Errno, HObject, Instant};

use crate::{
    Client, Ctx, Effect, Pg,
    exec::{self, WatchChange},
};

/// Global id and cookie of a watcher.
type Watcher = (u64, u64);

#[derive(Debug)]
struct Watch {
    /// Where notifications go; none while the client is away.
    session: Option<u64>,
    timeout: Duration,
    expires: Instant,
}

#[derive(Debug)]
struct Notify {
    object: HObject,
    notifier: Client,
    cookie: u64,
    waiting: BTreeSet<Watcher>,
    replies: BTreeMap<Watcher, Bytes>,
    expires: Instant,
}

/// All watches and notifications of a PG.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    watches: BTreeMap<HObject, BTreeMap<Watcher, Watch>>,
    notifies: BTreeMap<u64, Notify>,
    count: u64,
}

impl Watches {
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

    /// Carries out what an op did to watches; a new notification's id.
    pub(crate) fn apply(
        &mut self,
        head: &HObject,
        client: &Client,
        change: WatchChange,
        cx: &mut Ctx<'_>,
    ) -> Option<u64> {
        let gid = client.entity.num as u64;
        match change {
            WatchChange::Watch { cookie, timeout_sec } => {
                let timeout = Duration::from_secs(u64::from(timeout_sec));
                let watch = Watch { session: Some(client.session), timeout, expires: cx.now + timeout };
                self.watches.entry(head.clone()).or_default().insert((gid, cookie), watch);
                self.repeat_notifies(head, (gid, cookie), client.session, cx);
            }
            WatchChange::Unwatch { cookie } => {
                self.forget(head, (gid, cookie));
                self.answer_for((gid, cookie), head, cx);
            }
            WatchChange::Ping { cookie } => {
                let watch = self.watches.get_mut(head).and_then(|w| w.get_mut(&(gid, cookie)));
                if let Some(watch) = watch {
                    watch.session = Some(client.session);
                    watch.expires = cx.now + watch.timeout;
                }
            }
            WatchChange::Notify { cookie, timeout_sec, payload, watchers } => {
                return Some(self.notify(head, client, cookie, timeout_sec, payload, watchers, cx));
            }
            WatchChange::Ack { notify_id, cookie, reply } => {
                if let Some(notify) = self.notifies.get_mut(&notify_id)
                    && notify.waiting.remove(&(gid, cookie))
                {
                    notify.replies.insert((gid, cookie), reply);
                    self.complete(notify_id, cx);
                }
            }
        }
        None
    }

    /// A watcher that came back hears of notifications that still wait for it.
    fn repeat_notifies(&self, head: &HObject, watcher: Watcher, session: u64, cx: &mut Ctx<'_>) {
        for (id, notify) in &self.notifies {
            if notify.object == *head && notify.waiting.contains(&watcher) {
                let message = MWatchNotify {
                    opcode: WatchOpcode::NOTIFY,
                    cookie: watcher.1,
                    notify_id: *id,
                    notifier_gid: notify.notifier.entity.num as u64,
                    ..MWatchNotify::default()
                };
                cx.effects.push(Effect::Notify(session, Box::new(message)));
            }
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of a notify op")]
    fn notify(
        &mut self,
        head: &HObject,
        notifier: &Client,
        cookie: u64,
        timeout_sec: u32,
        payload: Bytes,
        watchers: Vec<Watcher>,
        cx: &mut Ctx<'_>,
    ) -> u64 {
        self.count += 1;
        // Ids of one primary's time do not meet those of the next.
        let id = u64::from(cx.map.epoch.0) << 32 | self.count;
        let expires = cx.now + Duration::from_secs(u64::from(timeout_sec));
        for watcher in &watchers {
            // Watchers known only from the object were not heard of since this primary leads.
            let known = self.watches.entry(head.clone()).or_default();
            let timeout = Duration::from_secs(30);
            let watch =
                known.entry(*watcher).or_insert(Watch { session: None, timeout, expires: cx.now + timeout });
            if let Some(session) = watch.session {
                let message = MWatchNotify {
                    opcode: WatchOpcode::NOTIFY,
                    cookie: watcher.1,
                    notify_id: id,
                    payload: payload.clone(),
                    notifier_gid: notifier.entity.num as u64,
                    ..MWatchNotify::default()
                };
                cx.effects.push(Effect::Notify(session, Box::new(message)));
            }
        }
        let waiting = watchers.into_iter().collect();
        let notify = Notify {
            object: head.clone(),
            notifier: notifier.clone(),
            cookie,
            waiting,
            replies: BTreeMap::new(),
            expires,
        };
        self.notifies.insert(id, notify);
        self.complete(id, cx);
        id
    }

    /// A watcher is gone: nobody waits for it any more.
    fn answer_for(&mut self, watcher: Watcher, head: &HObject, cx: &mut Ctx<'_>) {
        let ids: Vec<u64> =
            self.notifies.iter().filter(|(_, n)| n.object == *head).map(|(id, _)| *id).collect();
        for id in ids {
            if self.notifies.get_mut(&id).is_some_and(|n| n.waiting.remove(&watcher)) {
                self.complete(id, cx);
            }
        }
    }

    /// Tells the notifier when all answered or the time is over.
    fn complete(&mut self, id: u64, cx: &mut Ctx<'_>) {
        let is_done = |n: &Notify| n.waiting.is_empty() || cx.now >= n.expires;
        if !self.notifies.get(&id).is_some_and(is_done) {
            return;
        }
        let Some(notify) = self.notifies.remove(&id) else { return };
        let timed_out: Vec<Watcher> = notify.waiting.into_iter().collect();
        let return_code = if timed_out.is_empty() { 0 } else { Errno::ETIMEDOUT.negated() };
        let message = MWatchNotify {
            opcode: WatchOpcode::NOTIFY_COMPLETE,
            cookie: notify.cookie,
            notify_id: id,
            return_code,
            notifier_gid: notify.notifier.entity.num as u64,
            replies: (notify.replies, timed_out).to_bytes(Features::default()),
            ..MWatchNotify::default()
        };
        cx.effects.push(Effect::Notify(notify.notifier.session, Box::new(message)));
    }

    fn forget(&mut self, head: &HObject, watcher: Watcher) {
        if let Some(watches) = self.watches.get_mut(head) {
            watches.remove(&watcher);
            if watches.is_empty() {
                self.watches.remove(head);
            }
        }
    }

    fn expired(&self, now: Instant) -> Vec<(HObject, Watcher)> {
        let all = self.watches.iter().flat_map(|(o, ws)| ws.iter().map(move |(w, watch)| (o, w, watch)));
        all.filter(|(_, _, watch)| now >= watch.expires).map(|(o, w, _)| (o.clone(), *w)).collect()
    }
}

impl Pg {
    /// Ends watches and notifications whose time is over.
    pub(crate) fn tick_watches(&mut self, cx: &mut Ctx<'_>) {
        for id in self.watches.notifies.keys().copied().collect::<Vec<_>>() {
            self.watches.complete(id, cx);
        }
        for (head, watcher) in self.watches.expired(cx.now) {
            if !self.is_object_idle(&head) || self.is_degraded(&head) {
                continue;
            }
            let at = self.next_version(cx);
            if let Ok(Some(staged)) = exec::remove_watcher(cx.store, self.coll, &head, watcher, at) {
                self.submit_internal(&head, staged, cx);
            }
            self.watches.forget(&head, watcher);
            self.watches.answer_for(watcher, &head, cx);
        }
    }
}
