//! The primary's side: chunk by chunk, what all copies have is asked for and compared.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use messages::{LogLevel, MOSDRepScrub, MOSDRepScrubMap};
use types::{HObject, Instant, LogEntry, OsdId, OsdMap, PgId, ScrubObject, SnapId};

use super::{
    Cause, ScrubRequest, Wanted,
    compare::{self, Maps},
    listing::Results,
    policy::held_back,
    scan::Scan,
    snapsets,
    verdict::Verdict,
};
use crate::{Ctx, Effect, Pg, exec::Delta, index_wait::IndexWait, pg::Phase};

/// A scrub that has to wait so long for its PG to be clean is put off: the PG may not be before an operator gives up an
/// unfound object, and other PGs wait for the scrub's slots. A bad copy that a client comes upon is replaced sooner.
const UNCLEAN_MAX: Duration = Duration::from_secs(10);

/// A scrub under way.
#[derive(Debug)]
pub(crate) struct Run {
    pub(super) request: ScrubRequest,
    pub(super) cause: Cause,
    /// All objects before this one are done.
    at: HObject,
    chunk: Option<Chunk>,
    preemptions: u64,
    /// A change waits for the chunk.
    pub(super) is_hindering: bool,
    pub(super) verdict: Verdict,
    /// The next chunk comes then (`osd_scrub_sleep`).
    rest_until: Instant,
    /// The PG has not been clean since then.
    unclean_since: Option<Instant>,
}

/// Objects looked at together, from where the run is.
#[derive(Debug)]
struct Chunk {
    id: u64,
    /// Behind the last one.
    end: HObject,
    is_asked: bool,
    waiting: BTreeSet<OsdId>,
    maps: Maps,
    /// Some copy has more in it than can be told.
    is_too_much: bool,
}

impl Run {
    pub(super) fn holds(&self, head: &HObject) -> bool {
        self.chunk.as_ref().is_some_and(|chunk| (&self.at..&chunk.end).contains(&head))
    }

    pub(super) fn may_hear(&self, from: OsdId, map: &MOSDRepScrubMap) -> bool {
        let chunk = self.chunk.as_ref().filter(|chunk| chunk.id == map.id && chunk.waiting.contains(&from));
        chunk.is_none_or(|chunk| map.objects.iter().all(|o| (&self.at..&chunk.end).contains(&&o.object)))
    }

    pub(super) fn on_change(&mut self, head: &HObject, log: &[LogEntry], delta: Delta) {
        if *head < self.at {
            self.verdict.totals = delta.added_to(self.verdict.totals);
        }
        for entry in log.iter().filter(|entry| !entry.is_error) {
            self.verdict.on_change(entry);
        }
    }

    /// True while flags hold it back.
    fn is_held_back(&self, pgid: PgId, map: &OsdMap) -> bool {
        let pool = map.pools.get(&pgid.pool).filter(|_| self.cause == Cause::Due);
        pool.is_some_and(|pool| {
            let (shallow, deep) = held_back(map, pool);
            if self.request.is_deep { deep } else { shallow }
        })
    }

    /// Where the scrub is: from, to, and the OSDs that it waits for.
    pub(super) fn place(&self) -> (String, String, Vec<String>) {
        let end = self.chunk.as_ref().map_or(&self.at, |chunk| &chunk.end).to_string();
        let waiting = self.chunk.iter().flat_map(|chunk| &chunk.waiting).map(ToString::to_string);
        (self.at.to_string(), end, waiting.collect())
    }

    /// As Ceph calls it.
    pub(super) fn mode(&self) -> &'static str {
        match self.request {
            ScrubRequest { is_repair: true, .. } => "repair",
            ScrubRequest { is_deep: true, .. } => "deep-scrub",
            ScrubRequest { .. } => "scrub",
        }
    }
}

/// What is to be done next.
enum Next {
    Finish,
    PutOff,
    Choose,
    Ask,
    GiveWay,
    Compare,
    Wait,
}

impl Pg {
    pub(super) fn begin_scrub(&mut self, wanted: Wanted, ctx: &mut Ctx<'_>) {
        let run = Run {
            request: wanted.request,
            cause: wanted.cause,
            at: HObject::min(),
            chunk: None,
            preemptions: 0,
            is_hindering: false,
            verdict: Verdict::default(),
            rest_until: ctx.now,
            unclean_since: None,
        };
        let line = format!("{} {} starts", self.pgid, run.mode());
        ctx.effects.push(Effect::ClusterLog(LogLevel::DEBUG, line));
        self.scrubs.results = Some(Results::default());
        self.scrubs.has_failed = false;
        self.scrubs.run = Some(run);
    }

    /// Goes on with the scrub under way, as far as it can: after each event.
    pub(crate) fn drive_scrub(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(run) = &mut self.scrubs.run {
            run.unclean_since = if self.is_clean { None } else { run.unclean_since.or(Some(ctx.now)) };
        }
        while self.scrubs.run.is_some() {
            match self.next_scrub_step(ctx) {
                Next::Wait => return,
                Next::Finish => return self.finish_scrub(ctx),
                Next::PutOff => return self.put_off_scrub(ctx),
                Next::Choose if self.choose_chunk(ctx) => {}
                Next::Choose => return,
                Next::Ask => self.ask_for_maps(ctx),
                // The waiting change has its turn; the next event brings the chunk back.
                Next::GiveWay => return self.give_way(ctx),
                Next::Compare => {
                    self.compare_chunk(ctx);
                    // Where no other copy is waited for, all of the PG would be looked at within one event.
                    if self.acting_others().next().is_none() {
                        return ctx.effects.push(Effect::WakeAt(ctx.now));
                    }
                }
            }
        }
    }

    fn next_scrub_step(&self, ctx: &Ctx<'_>) -> Next {
        let Some(run) = &self.scrubs.run else { return Next::Wait };
        if self.phase != Phase::Active {
            return Next::Wait;
        }
        match &run.chunk {
            None if self.is_waiting(IndexWait::Scrub) => Next::Wait,
            None if run.unclean_since.is_some_and(|since| ctx.now >= since + UNCLEAN_MAX) => Next::PutOff,
            // What is being recovered has copies that differ.
            None if !self.is_clean => Next::Wait,
            None if run.at.is_max => Next::Finish,
            None if run.is_held_back(self.pgid, ctx.map) => Next::PutOff,
            None if ctx.now < run.rest_until => Next::Wait,
            None => Next::Choose,
            Some(_) if run.is_hindering && run.preemptions < ctx.scrub.max_preemptions => Next::GiveWay,
            Some(chunk) if !chunk.is_asked => Next::Ask,
            Some(chunk) if chunk.waiting.is_empty() => Next::Compare,
            Some(_) => Next::Wait,
        }
    }

    /// Picks the objects to look at next, and has changes of them wait. False if that has to wait.
    fn choose_chunk(&mut self, ctx: &mut Ctx<'_>) -> bool {
        let Some(run) = &self.scrubs.run else { return false };
        let mut count = ctx.scrub.chunk_size(run.preemptions);
        let end = loop {
            let listed = match ctx.store.list(self.coll, &run.at, count + 1) {
                Ok(listed) => listed,
                Err(missing) => {
                    self.wait(IndexWait::Scrub, vec![missing], ctx);
                    return false;
                }
            };
            // Clones come before their head: the last object of those listed may not be whole.
            let cut = listed.get(count).map(|last| last.with_snap(SnapId(0)));
            match cut {
                None => break HObject::max(),
                Some(end) if end > run.at => break end,
                Some(_) => count *= 2,
            }
        };
        self.let_go(IndexWait::Scrub, ctx);
        self.scrubs.next_id += 1;
        let id = self.scrubs.next_id;
        let (waiting, maps) = (BTreeSet::new(), BTreeMap::new());
        let chunk = Chunk { id, end, is_asked: false, waiting, maps, is_too_much: false };
        if let Some(run) = &mut self.scrubs.run {
            run.chunk = Some(chunk);
            run.is_hindering = false;
        }
        true
    }

    /// Asks all copies what they have, this one included.
    fn ask_for_maps(&mut self, ctx: &mut Ctx<'_>) {
        let members: BTreeSet<OsdId> =
            self.members.acting.iter().copied().filter(|osd| osd.is_some()).collect();
        let Some(run) = &mut self.scrubs.run else { return };
        let Some(chunk) = &mut run.chunk else { return };
        chunk.is_asked = true;
        chunk.waiting.clone_from(&members);
        let (id, start, end, is_deep) = (chunk.id, run.at.clone(), chunk.end.clone(), run.request.is_deep);
        let others: Vec<OsdId> = members.into_iter().filter(|osd| *osd != self.me).collect();
        if !others.is_empty() {
            let (pgid, epoch) = (self.pgid, ctx.map.epoch);
            let (start, end) = (start.clone(), end.clone());
            let message = MOSDRepScrub { pgid, epoch, id, start, end, is_deep };
            ctx.effects.push(Effect::SendOsds(others, message.into()));
        }
        self.start_scan(Scan::new(self.me, id, start, end, is_deep.then_some(ctx.scrub.stride)), ctx);
    }

    /// Lets the change run that waits for the chunk; a smaller one comes in its place.
    fn give_way(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(run) = &mut self.scrubs.run {
            run.preemptions += 1;
        }
        self.release_chunk(false, ctx);
    }

    /// Ends a chunk. Its objects' changes run: with a chunk that is counted they change the count.
    fn release_chunk(&mut self, is_counted: bool, ctx: &mut Ctx<'_>) {
        self.end_scan(ctx);
        let Some(run) = &mut self.scrubs.run else { return };
        run.is_hindering = false;
        if let Some(chunk) = run.chunk.take() {
            let start = run.at.clone();
            if is_counted {
                run.at = chunk.end.clone();
            }
            self.run_objects_between(&start, &chunk.end, ctx);
        }
    }

    pub(crate) fn on_rep_scrub_map(&mut self, from: OsdId, message: MOSDRepScrubMap) {
        let objects = (!message.is_too_much).then_some(message.objects);
        self.on_scrub_map(from, message.id, objects);
    }

    /// A copy has told what it has, or that this is too much to be told.
    pub(super) fn on_scrub_map(&mut self, from: OsdId, id: u64, objects: Option<Vec<ScrubObject>>) {
        let chunk = self.scrubs.run.as_mut().and_then(|run| run.chunk.as_mut());
        if let Some(chunk) = chunk.filter(|chunk| chunk.id == id)
            && chunk.waiting.remove(&from)
        {
            chunk.is_too_much |= objects.is_none();
            let objects = objects.into_iter().flatten().map(|object| (object.object.clone(), object));
            chunk.maps.insert(from, objects.collect());
        }
    }

    /// All copies have told.
    fn compare_chunk(&mut self, ctx: &mut Ctx<'_>) {
        // A copy that was found unreadable meanwhile is being replaced: all of it again.
        if self.is_clean {
            let Some(run) = &mut self.scrubs.run else { return };
            let mode = run.mode();
            let Some(chunk) = &mut run.chunk else { return };
            let maps = std::mem::take(&mut chunk.maps);
            if chunk.is_too_much {
                let (start, end) = (&run.at, &chunk.end);
                run.verdict.leave_out(format!(
                    "{mode} {} {start} : up to {end}, too much to be compared",
                    self.pgid
                ));
            }
            let maps = if chunk.is_too_much { Maps::default() } else { maps };
            let sound =
                compare::compare(&maps, self.me, (self.pgid, self.info.last_update), &mut run.verdict);
            snapsets::check(&sound, self.pgid, mode, &mut run.verdict);
            sound.values().for_each(|object| run.verdict.note_omap(object, self.pgid, ctx.scrub.omap_max));
            for (level, line) in run.verdict.log.drain(..) {
                ctx.effects.push(Effect::ClusterLog(level, line));
            }
            if run.request.is_repair {
                // As in Ceph, what is being mended is not listed.
                run.verdict.objects.clear();
                run.verdict.snapsets.clear();
            } else if let Some(results) = &mut self.scrubs.results {
                results.take(&mut run.verdict);
            }
            self.release_chunk(true, ctx);
            if let Some(run) = &mut self.scrubs.run {
                run.preemptions = 0;
                let rest = ctx.scrub.rest(run.cause, ctx.wall);
                if !rest.is_zero() {
                    run.rest_until = ctx.now + rest;
                    ctx.effects.push(Effect::WakeAt(run.rest_until));
                }
            }
        } else {
            self.release_chunk(false, ctx);
        }
    }
}

#[cfg(test)]
mod tests;
