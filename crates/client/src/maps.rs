//! New OSD maps, and what they mean for what is in flight.

use std::time::Duration;

use codec::Decode;
use messages::{MMonGetVersion, MMonGetVersionReply, MMonSubscribe, MOSDMap, SubscribeItem};
use types::{Errno, Incremental, Instant, OsdMap};

use crate::{Client, Effect, Response, machine::Ctx};

/// Between two questions for maps whose answers do not lead on: the same answer must not be asked for at once again.
pub(crate) const ASK_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// What this client lacks to get on from its map.
#[derive(Debug, Default)]
pub(crate) struct MapWish {
    /// The next incremental was of no use, nor was any other map beside it: only a whole one leads on.
    is_for_whole: bool,
    /// The maps that came did not lead on, and the monitor was asked: when to ask again.
    due: Option<Instant>,
}

/// How the map moved on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// By one epoch.
    Next,
    /// Over epochs that this client has not seen.
    Leap,
}

impl Client {
    /// Asks for every map from the next one on, or from the newest one on if no other leads there.
    pub(crate) fn subscribe(&self, ctx: &mut Ctx<'_>) {
        let epoch = self.epoch();
        let has_to_leap = epoch.0 == 0 || self.map_wish.is_for_whole;
        let start = if has_to_leap { 0 } else { u64::from(epoch.next().0) };
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
        if self.epoch() > before {
            self.map_wish.due = None;
        }
        // The message does not connect to what is here, or what connects does not lead on.
        let is_stuck = self.epoch() == before || self.map_wish.is_for_whole;
        if is_stuck && message.newest > self.epoch() {
            self.want_maps(ctx);
        }
        if before.0 == 0 && self.epoch() > before {
            self.resend_commands(ctx);
        }
    }

    /// Asks for maps if that was not done just now.
    fn want_maps(&mut self, ctx: &mut Ctx<'_>) {
        if self.map_wish.due.is_none_or(|due| due <= ctx.now) {
            let due = ctx.now + ASK_AGAIN_AFTER;
            self.map_wish.due = Some(due);
            self.wake_at(due, ctx);
            self.subscribe(ctx);
        }
    }

    /// The timer has come: asks again for maps that are still missing, or waits on.
    pub(crate) fn ask_again_for_maps(&mut self, ctx: &mut Ctx<'_>) {
        match self.map_wish.due {
            Some(due) if due > ctx.now => self.wake_at(due, ctx),
            Some(_) => self.want_maps(ctx),
            None => {}
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
                self.map_wish.is_for_whole = false;
                return Some(Step::Next);
            }
            tracing::warn!(epoch = next.0, "an incremental map does not apply");
            self.map_wish.is_for_whole = true;
        }
        let (epoch, bytes) = message.fulls.iter().next_back().filter(|(epoch, _)| **epoch >= next)?;
        match OsdMap::of_epoch(*epoch, message.fsid, bytes.clone()) {
            Ok(map) => self.map = Some(map),
            Err(error) => {
                tracing::warn!(epoch = epoch.0, %error, "a full map is of no use");
                return None;
            }
        }
        self.map_wish.is_for_whole = false;
        Some(if *epoch == next { Step::Next } else { Step::Leap })
    }

    /// A pool that is not in the map may be newer than the map: the monitor knows.
    pub(crate) fn check_pool(&mut self, tid: u64, ctx: &mut Ctx<'_>) {
        let Some(flying) = self.requests.get_mut(&tid) else { return };
        if !std::mem::replace(&mut flying.is_pool_checked, true) {
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
        let Some(tid) = self.pool_checks.remove(&reply.handle) else { return };
        let Some(flying) = self.requests.get_mut(&tid) else { return };
        flying.is_pool_checked = false;
        let pool = flying.request.pool;
        if u64::from(self.epoch().0) < reply.version {
            // Asked again when the map is here: the request is placed anew then.
            return;
        }
        let is_gone = |map: &OsdMap, pool| !map.pools.contains_key(&pool);
        if self.map.as_ref().is_some_and(|map| is_gone(map, pool)) {
            self.finish(tid, Response { result: -Errno::ENOENT.0, ..Response::default() }, ctx);
        }
    }
}
