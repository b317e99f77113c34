//! What any copy does for a scrub: it looks through its objects.

use messages::{MOSDRepScrub, MOSDRepScrubMap};
use store::Completion;
use types::OsdId;

use super::scan::{Scan, Step};
use crate::{
    Ctx, Effect, Pg,
    pg::{Pending, Phase},
};

impl Pg {
    /// The primary wants to know what is here.
    pub(crate) fn on_rep_scrub(&mut self, from: OsdId, message: MOSDRepScrub, ctx: &mut Ctx<'_>) {
        if from == self.members.primary && self.phase == Phase::Replica {
            let MOSDRepScrub { id, start, end, is_deep, .. } = message;
            self.start_scan(Scan::new(from, id, start, end, is_deep.then_some(ctx.scrub.stride)), ctx);
        }
    }

    /// Looks through a range. What was looked through before is wanted no more.
    pub(super) fn start_scan(&mut self, scan: Scan, ctx: &mut Ctx<'_>) {
        self.end_scan(ctx);
        self.scrubs.scan = Some(scan);
        self.go_on_scanning(ctx);
    }

    pub(super) fn end_scan(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(scan) = self.scrubs.scan.take() {
            scan.held.into_iter().for_each(|token| ctx.store.unload(token));
        }
    }

    fn go_on_scanning(&mut self, ctx: &mut Ctx<'_>) {
        let (coll, pool) = (self.coll, self.pgid.pool);
        let Some(mut scan) = self.scrubs.scan.take() else { return };
        let step = scan.step(ctx.store, coll, pool);
        // What was loaded before has been looked through, or hashed, and may go. Otherwise it is held beside what comes
        // now, as one step may need both.
        if scan.take_got_on() || !matches!(step, Step::Load(_)) {
            scan.held.drain(..).for_each(|token| ctx.store.unload(token));
        }
        match step {
            Step::Load(missing) => {
                let token = self.token(Pending::ScrubLoad { is_anew: false });
                scan.waiting = Some(token);
                ctx.store.load(token, missing);
            }
            Step::LoadAnew(object, offset, len) => {
                let token = self.token(Pending::ScrubLoad { is_anew: true });
                scan.waiting = Some(token);
                ctx.store.load_anew(token, coll, &object, offset, len);
            }
            Step::Done => return self.tell_scan(scan, ctx),
        }
        self.scrubs.scan = Some(scan);
    }

    /// Something that a scan waits for is there.
    pub(crate) fn on_scrub_loaded(&mut self, is_anew: bool, completion: Completion, ctx: &mut Ctx<'_>) {
        let Completion::Loaded(token, result) = completion else { return };
        let Some(scan) = self.scrubs.scan.as_mut().filter(|scan| scan.waiting == Some(token)) else {
            return ctx.store.unload(token);
        };
        scan.held.push(token);
        scan.waiting = None;
        if is_anew {
            scan.on_loaded_anew(result.is_ok());
        }
        self.go_on_scanning(ctx);
    }

    fn tell_scan(&mut self, mut scan: Scan, ctx: &mut Ctx<'_>) {
        let (id, objects) = (scan.id, scan.take());
        if scan.asker == self.me {
            return self.on_scrub_map(self.me, id, objects);
        }
        let (pgid, epoch, is_too_much) = (self.pgid, ctx.map.epoch, objects.is_none());
        let objects = objects.unwrap_or_default();
        let message = MOSDRepScrubMap { pgid, epoch, id, objects, is_too_much };
        ctx.effects.push(Effect::SendOsd(scan.asker, message.into()));
    }
}

#[cfg(test)]
mod tests;
