//! New OSD maps, and what they mean for what is in flight.

use codec::Decode;
use messages::{MMonGetVersion, MMonGetVersionReply, MMonSubscribe, MOSDMap, SubscribeItem};
use types::{Errno, Incremental, OsdMap};

use crate::{Client, Effect, Response, machine::Ctx};

/// How the map moved on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// By one epoch.
    Next,
    /// Over epochs that this client has not seen.
    Leap,
}

impl Client {
    /// Asks for every map from the next one on.
    pub(crate) fn subscribe(&self, ctx: &mut Ctx<'_>) {
        let epoch = self.epoch();
        let start = if epoch.0 == 0 { 0 } else { u64::from(epoch.next().0) };
        let what = [("osdmap".to_owned(), SubscribeItem { start, flags: 0 })].into();
        let message = MMonSubscribe { what, hostname: self.config.hostname.clone() };
        ctx.effects.push(Effect::SendMon(0, message.into()));
    }

    pub(crate) fn on_maps(&mut self, message: &MOSDMap, ctx: &mut Ctx<'_>) {
        let before = self.epoch();
        if self.map.as_ref().is_some_and(|map| map.fsid != message.fsid) {
            tracing::warn!("a map of another cluster is ignored");
            return;
        }
        // One by one: an interval that came and went between two maps is over all the same, and its primary
        // forgets what it was sent before.
        while let Some(step) = self.take_next(message) {
            if step == Step::Leap {
                self.forget_targets();
            }
            self.drop_dead_sessions(ctx);
            self.place_all(ctx);
        }
        if self.epoch() == before && message.newest > before {
            // The message does not connect to what is here.
            self.subscribe(ctx);
        }
        if before.0 == 0 && self.epoch() > before {
            self.resend_commands(ctx);
        }
    }

    /// Applies the next incremental of `message`, else its newest full map; none when it has neither.
    fn take_next(&mut self, message: &MOSDMap) -> Option<Step> {
        let next = self.epoch().next();
        if let (Some(map), Some(bytes)) = (&mut self.map, message.incrementals.get(&next)) {
            let applied = match Incremental::from_bytes(bytes.clone()) {
                Ok(inc) => map.apply(&inc).is_ok(),
                Err(_) => false,
            };
            if applied {
                return Some(Step::Next);
            }
            tracing::warn!(epoch = next.0, "an incremental map does not apply");
        }
        let newest = message.fulls.iter().next_back().filter(|(epoch, _)| **epoch >= next);
        let map = newest.and_then(|(_, bytes)| OsdMap::from_bytes(bytes.clone()).ok())?;
        let step = if map.epoch == next { Step::Next } else { Step::Leap };
        self.map = Some(map);
        Some(step)
    }

    /// A pool that is not in the map may be newer than the map: the monitor knows.
    pub(crate) fn check_pool(&mut self, tid: u64, ctx: &mut Ctx<'_>) {
        if self.pool_checks.values().all(|checked| *checked != tid) {
            let handle = self.take_tid();
            self.pool_checks.insert(handle, tid);
            self.ask_version(handle, ctx);
        }
    }

    pub(crate) fn ask_version(&self, handle: u64, ctx: &mut Ctx<'_>) {
        let question = MMonGetVersion { handle, what: "osdmap".to_owned() };
        ctx.effects.push(Effect::SendMon(handle, question.into()));
    }

    pub(crate) fn on_version(&mut self, reply: MMonGetVersionReply, ctx: &mut Ctx<'_>) {
        let Some(tid) = self.pool_checks.get(&reply.handle).copied() else { return };
        if u64::from(self.epoch().0) < reply.version {
            // Asked again when the map is here: the request is placed anew then.
            self.pool_checks.remove(&reply.handle);
            return;
        }
        self.pool_checks.remove(&reply.handle);
        let is_gone = |map: &OsdMap, pool| !map.pools.contains_key(&pool);
        let Some(request) = self.requests.get(&tid) else { return };
        if self.map.as_ref().is_some_and(|map| is_gone(map, request.request.pool)) {
            self.finish(tid, Response { result: -Errno::ENOENT.0, ..Response::default() }, ctx);
        }
    }
}
