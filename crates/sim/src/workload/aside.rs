//! What clients do only in some worlds, besides their other requests: they fill devices, list the pool, watch objects,
//! use another pool.

use client::{Request, Response};
use messages::MWatchNotify;
use rand::Rng;
use types::{Instant, Token};

use super::{InFlightOp, Moment, Workload, other_pool};
use crate::{
    bulk::{self, Bulk},
    listing,
    shared::SharedObjects,
    watching::{self, Watcher},
};

/// How often a client goes on to make room, while that is wanted: what is left is read in the end.
const REMOVAL_CHANCE: f64 = 0.03;

impl Workload {
    /// The next request of these, if there is one.
    pub(super) fn next_aside(
        &mut self,
        moment: Moment,
        shared: &mut SharedObjects,
    ) -> Option<(Token, Request)> {
        if let Some(bulk) = &mut self.bulk {
            if moment.is_full && bulk.has_waiting() {
                shared.seen.insert("a write waited for room");
            }
            if self.rng.random_bool(0.5)
                && let Some(step) = bulk.next(&mut self.rng, moment.is_full)
            {
                return Some(self.begin_bulk(step));
            }
        }
        if let Some(lister) = self.lister.as_mut().filter(|_| self.rng.random_bool(0.5))
            && let Some((request, in_flight)) = lister.next(self.pool, &mut self.rng, &mut shared.listed)
        {
            return Some(self.begin_aside(request, InFlightOp::Listing(in_flight)));
        }
        if self.is_alone()
            && self.rng.random_bool(other_pool::CHANCE)
            && let Some(next) = self.next_of_other(moment.other)
        {
            return Some(next);
        }
        self.next_of_watches(moment, shared)
    }

    /// The next request of a client that only watches, if there is one.
    pub(crate) fn next_of_watches(
        &mut self,
        moment: Moment,
        shared: &mut SharedObjects,
    ) -> Option<(Token, Request)> {
        let Moment { now, is_calm, .. } = moment;
        let watcher = self.watcher.as_mut()?;
        let step = watcher.next(&mut self.rng, now, is_calm, &mut shared.watched)?;
        Some(self.begin_watching(step))
    }

    /// The next request of a client that ends its watches, if there is one.
    pub(crate) fn next_unwatch(&mut self, shared: &mut SharedObjects) -> Option<(Token, Request)> {
        let step = self.watcher.as_mut()?.next_end(&mut shared.watched)?;
        Some(self.begin_watching(step))
    }

    /// True for a client that watches nothing.
    pub(crate) fn has_no_watch(&self) -> bool {
        self.watcher.as_ref().is_none_or(Watcher::is_idle)
    }

    /// The next request of a client that only makes room, if there is one.
    pub(crate) fn next_removal(&mut self) -> Option<(Token, Request)> {
        let bulk = self.bulk.as_mut().filter(|_| self.rng.random_bool(REMOVAL_CHANCE))?;
        let step = bulk.next_removal(&mut self.rng)?;
        Some(self.begin_bulk(step))
    }

    /// True for a client that has something to remove.
    pub(crate) fn can_make_room(&self) -> bool {
        self.bulk.as_ref().is_some_and(Bulk::can_remove)
    }

    pub(super) fn read_bulk(&mut self, at: usize) -> Option<(Token, Request)> {
        let step = self.bulk.as_mut()?.read(at);
        Some(self.begin_bulk(step))
    }

    pub(super) fn next_page(&mut self, shared: &SharedObjects) -> Option<(Token, Request)> {
        let lister = self.lister.as_mut()?;
        let (request, in_flight) = lister.next_page(self.pool, &mut self.rng, &shared.listed)?;
        Some(self.begin_aside(request, InFlightOp::Listing(in_flight)))
    }

    fn begin_bulk(&mut self, (at, ops, flags, in_flight): bulk::Step) -> (Token, Request) {
        let name = self.bulk.as_ref().map(|bulk| bulk.name(at)).unwrap_or_default();
        let request = Request { flags, ..Request::new(self.pool, name, ops) };
        self.begin_aside(request, InFlightOp::Bulk(in_flight))
    }

    fn begin_watching(&mut self, (name, ops, in_flight): watching::Step) -> (Token, Request) {
        self.begin_aside(Request::new(self.pool, name, ops), InFlightOp::Watching(in_flight))
    }

    pub(super) fn begin_aside(&mut self, request: Request, in_flight: InFlightOp) -> (Token, Request) {
        let token = Token(self.next_token);
        self.next_token += 1;
        let codes: Vec<_> = request.ops.iter().map(|op| op.code.name()).collect();
        let (name, flags) = (&request.oid, request.flags);
        tracing::debug!(client = self.client, token = token.0, ?name, ?codes, flags, "begun");
        self.in_flight.insert(token, in_flight);
        self.aside.insert(token);
        (token, request)
    }

    pub(super) fn bulk_done(
        &mut self,
        in_flight: bulk::InFlightOp,
        response: &Response,
        shared: &mut SharedObjects,
    ) -> Result<(), String> {
        let Some(bulk) = &mut self.bulk else { return Ok(()) };
        if bulk.done(in_flight, response)? {
            shared.seen.insert("a write was refused for want of room");
        }
        Ok(())
    }

    pub(super) fn listing_done(
        &mut self,
        in_flight: listing::InFlightOp,
        response: &Response,
        shared: &mut SharedObjects,
    ) -> Result<(), String> {
        let Some(lister) = &mut self.lister else { return Ok(()) };
        lister.done(in_flight, response, &mut shared.listed)
    }

    pub(super) fn watching_done(
        &mut self,
        in_flight: watching::InFlightOp,
        response: &Response,
        shared: &mut SharedObjects,
    ) -> Result<(), String> {
        let Some(watcher) = &mut self.watcher else { return Ok(()) };
        shared.seen.extend(watcher.done(in_flight, response, &mut shared.watched)?);
        Ok(())
    }

    /// An OSD tells the client of a notification or of a watch.
    pub(crate) fn notified(
        &mut self,
        message: &MWatchNotify,
        now: Instant,
        shared: &mut SharedObjects,
    ) -> Result<(), String> {
        let Some(watcher) = &mut self.watcher else { return Ok(()) };
        shared.seen.extend(watcher.on_notified(message, now, &mut shared.watched)?);
        Ok(())
    }
}
