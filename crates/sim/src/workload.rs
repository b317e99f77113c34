//! What one client does: random requests on objects of its own and on shared ones.

mod aside;
mod fenced;
mod other_pool;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use client::{Request, Response};
use messages::{OpCode, osd_flag};
use rand::{Rng, rngs::StdRng};
use types::{EntityAddr, Instant, PoolId, SnapContext, SnapId, Token};

use crate::{
    Options,
    bulk::{self, Bulk},
    change::Source,
    conditional_objects,
    listing::{self, Lister},
    model::{Expected, Model},
    shared::{self, SharedObjects},
    watching::{self, Watcher},
    workload::{fenced::Standing, other_pool::OtherPool},
};

const OWN_OBJECTS: usize = 6;
/// Probes in flight, at most. Many wait for OSDs that the client does not hear, for as long as a division lasts; the
/// limit is high enough for others to reach the OSD that it does hear.
const PROBES_MAX: usize = 200;

enum InFlightOp {
    Own(usize, SnapId, Expected),
    /// A copy of the second one to the first.
    Copy(usize, usize, Expected),
    Shared(shared::InFlightOp),
    Conditional(conditional_objects::InFlightOp),
    Bulk(bulk::InFlightOp),
    Listing(listing::InFlightOp),
    Watching(watching::InFlightOp),
    Other(other_pool::InFlightOp),
}

/// How things stand for a client that is about to begin a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Instant,
    /// The pool has no room, as far as the client knows.
    pub(crate) is_full: bool,
    /// Nothing breaks any more.
    pub(crate) is_calm: bool,
    /// The other pool, if the client knows of one.
    pub(crate) other: Option<PoolId>,
}

/// What one client does: random requests on objects of its own and on shared ones.
pub(crate) struct Workload {
    client: u64,
    pub(crate) pool: PoolId,
    rng: StdRng,
    own: Vec<Model>,
    busy: BTreeSet<usize>,
    /// Reads of shared objects that any copy may answer, besides the client's other requests.
    probes: BTreeSet<Token>,
    in_flight: BTreeMap<Token, InFlightOp>,
    /// Requests of what follows, besides the client's other requests.
    aside: BTreeSet<Token>,
    other: OtherPool,
    bulk: Option<Bulk>,
    lister: Option<Lister>,
    watcher: Option<Watcher>,
    /// Tokens begin with this one.
    first_token: u64,
    next_token: u64,
    standing: Standing,
    /// The client from which it takes over.
    succeeds: Option<EntityAddr>,
    /// Requests in flight, at most.
    depth: usize,
    /// What remains to be read at the end: objects of its own, shared ones.
    final_reads: Vec<Target>,
}

#[derive(Clone, Copy)]
enum Target {
    Own(usize, SnapId),
    Shared(usize),
    Conditional,
    Claim,
    Bulk(usize),
    Other(usize),
    List,
}

impl Workload {
    pub(crate) fn new(client: u64, pool: PoolId, mut rng: StdRng) -> Workload {
        let depth = rng.random_range(1..=8);
        Workload {
            client,
            pool,
            rng,
            own: vec![Model::default(); OWN_OBJECTS],
            busy: BTreeSet::new(),
            probes: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            aside: BTreeSet::new(),
            other: OtherPool::default(),
            bulk: None,
            lister: None,
            watcher: None,
            first_token: 1,
            next_token: 1,
            standing: Standing::default(),
            succeeds: None,
            depth,
            final_reads: Vec::new(),
        }
    }

    /// One of so many clients that also do what clients do in such a world.
    pub(crate) fn with_options(self, options: &Options, clients: usize) -> Workload {
        let client = self.client;
        Workload {
            bulk: options.is_full.then(|| Bulk::new(client, clients)),
            lister: options.has_watchers.then(|| Lister::new(client)),
            watcher: options.has_watchers.then(|| Watcher::new(client)),
            ..self
        }
    }

    /// Requests that have not ended.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Requests that were begun.
    pub(crate) fn begun(&self) -> u64 {
        self.next_token - self.first_token
    }

    /// A snapshot is being removed from the pool.
    pub(crate) fn forget_snap(&mut self, snap: SnapId) {
        self.own.iter_mut().for_each(|model| model.forget_snap(snap));
    }

    /// From now on it only reads, everything once.
    pub(crate) fn finish(&mut self, shared: &SharedObjects) {
        if matches!(self.standing, Standing::Replaced { .. }) {
            return;
        }
        let own = self.own.iter().enumerate();
        let own =
            own.flat_map(|(at, model)| model.views().into_iter().map(move |snap| Target::Own(at, snap)));
        let shared = (0..shared.count()).map(Target::Shared);
        let bulk = (0..self.bulk.as_ref().map_or(0, Bulk::count)).map(Target::Bulk);
        let list = self.lister.iter().map(|_| Target::List);
        let aside = bulk.chain(self.others().map(Target::Other)).chain(list);
        self.final_reads =
            own.chain(shared).chain([Target::Conditional, Target::Claim]).chain(aside).collect();
    }

    /// True when everything was read.
    pub(crate) fn is_finished(&self) -> bool {
        let is_listing = self.lister.as_ref().is_some_and(Lister::is_listing);
        self.final_reads.is_empty() && self.in_flight.is_empty() && !is_listing
    }

    /// The next of the reads at the end.
    pub(crate) fn next_read(&mut self, moment: Moment, shared: &SharedObjects) -> Option<(Token, Request)> {
        if self.in_flight.len() >= self.depth {
            return None;
        }
        if self.lister.as_ref().is_some_and(Lister::is_listing) {
            return self.next_page(shared);
        }
        match self.final_reads.pop()? {
            Target::Bulk(at) => self.read_bulk(at),
            Target::Other(at) => self.read_other(at, moment.other),
            Target::List => self.next_page(shared),
            Target::Own(at, snap) => Some(self.own_read(at, snap)),
            Target::Shared(object) => {
                let (ops, in_flight) = shared.read(object);
                Some(self.begin(SharedObjects::name(object), ops, InFlightOp::Shared(in_flight)))
            }
            Target::Conditional => {
                let (name, ops, in_flight) = shared.conditional.read();
                Some(self.begin(name, ops, InFlightOp::Conditional(in_flight)))
            }
            Target::Claim => {
                let (name, ops, in_flight) = shared.conditional.read_claim();
                Some(self.begin(name, ops, InFlightOp::Conditional(in_flight)))
            }
        }
    }

    /// The next random request, if one more may be in flight.
    pub(crate) fn next(&mut self, moment: Moment, shared: &mut SharedObjects) -> Option<(Token, Request)> {
        if matches!(self.standing, Standing::Replaced { .. }) {
            return self.next_in_vain();
        }
        if let Some(next) = self.next_aside(moment, shared) {
            return Some(next);
        }
        if self.rng.random_bool(0.3) && self.probes.len() < PROBES_MAX {
            return Some(self.probe(shared));
        }
        if self.in_flight.len() - self.probes.len() - self.aside.len() >= self.depth {
            return None;
        }
        if self.rng.random_bool(0.25) {
            let object = self.rng.random_range(0..shared.count());
            let (ops, in_flight) = match self.rng.random_bool(0.6) {
                true => shared.append(object, self.client),
                false => shared.read(object),
            };
            return Some(self.begin(SharedObjects::name(object), ops, InFlightOp::Shared(in_flight)));
        }
        if self.is_alone() && self.rng.random_bool(0.2) {
            let (name, ops, in_flight) = shared.conditional.next(self.client, &mut self.rng);
            return Some(self.begin(name, ops, InFlightOp::Conditional(in_flight)));
        }
        let free: Vec<usize> = (0..self.own.len()).filter(|at| !self.busy.contains(at)).collect();
        let at = *free.get(self.rng.random_range(0..free.len().max(1)))?;
        match self.rng.random_range(0..10) {
            _ if self.own[at].is_vague() => Some(self.own_read(at, SnapId::HEAD)),
            0..3 => {
                let views = self.own[at].views();
                let snap = views[self.rng.random_range(0..views.len())];
                Some(self.own_read(at, snap))
            }
            what => {
                if what == 3 {
                    self.own[at].make_snap();
                }
                let from = free[self.rng.random_range(0..free.len())];
                let source = if what == 4 { self.source(at, from) } else { None };
                let stamp = self.client << 32 | self.next_token;
                let (ops, expected) = self.own[at].change(&mut self.rng, stamp, source.as_ref());
                self.busy.insert(at);
                let in_flight = match source {
                    Some(Source::Object { .. }) => InFlightOp::Copy(at, from, expected),
                    Some(Source::Snap(..)) | None => InFlightOp::Own(at, SnapId::HEAD, expected),
                };
                Some(self.begin(self.own_name(at), ops, in_flight))
            }
        }
    }

    /// What an object may take over: of its own snapshots, or of another object that stays as it is meanwhile.
    fn source(&mut self, at: usize, from: usize) -> Option<Source> {
        let model = &self.own[from];
        let views = model.views();
        let snap = views[self.rng.random_range(0..views.len())];
        let content = model.content(snap);
        if from == at {
            return (snap != SnapId::HEAD).then_some(Source::Snap(snap, content));
        }
        if model.is_vague() {
            return None;
        }
        self.busy.insert(from);
        Some(Source::Object { pool: self.pool, name: self.own_name(from), snap, content })
    }

    fn probe(&mut self, shared: &SharedObjects) -> (Token, Request) {
        let object = self.rng.random_range(0..shared.count());
        let (ops, in_flight) = shared.read(object);
        let (token, request) = self.begin(SharedObjects::name(object), ops, InFlightOp::Shared(in_flight));
        self.probes.insert(token);
        (token, Request { flags: osd_flag::BALANCE_READS, ..request })
    }

    fn own_name(&self, at: usize) -> Bytes {
        Bytes::from(format!("own{}.{at}", self.client))
    }

    fn own_read(&mut self, at: usize, snap: SnapId) -> (Token, Request) {
        let (ops, expected) = self.own[at].read(snap);
        self.busy.insert(at);
        let is_vague = self.own[at].is_vague();
        let (token, request) = self.begin(self.own_name(at), ops, InFlightOp::Own(at, snap, expected));
        // Only from its primary a client learns for good what became of another one's last changes: a replica may have
        // the map that fences that one off before the primary has it.
        (token, Request { flags: if is_vague { 0 } else { request.flags }, ..request })
    }

    fn begin(&mut self, name: Bytes, ops: Vec<messages::OsdOp>, in_flight: InFlightOp) -> (Token, Request) {
        let token = Token(self.next_token);
        self.next_token += 1;
        let (snapid, snapc) = match &in_flight {
            InFlightOp::Own(at, snap, _) => (*snap, self.own[*at].snapc()),
            InFlightOp::Copy(at, ..) => (SnapId::HEAD, self.own[*at].snapc()),
            InFlightOp::Shared(_)
            | InFlightOp::Conditional(_)
            | InFlightOp::Bulk(_)
            | InFlightOp::Listing(_)
            | InFlightOp::Watching(_)
            | InFlightOp::Other(_) => (SnapId::HEAD, SnapContext::default()),
        };
        let codes: Vec<_> = ops.iter().map(|op| op.code.name()).collect();
        // Many reads may be answered by any copy. The class calls here write, whether their flags say so or not.
        let is_call = ops.iter().any(|op| op.code == OpCode::CALL);
        let is_read = ops.iter().all(|op| op.code.is_read());
        let flags = match (is_call, is_read) {
            // One that does not say so is refused where there is no room.
            (true, _) if self.bulk.is_some() => osd_flag::WRITE,
            (true, _) => [0, osd_flag::WRITE][self.rng.random_range(0..2)],
            (false, true) if self.rng.random_bool(0.7) => osd_flag::BALANCE_READS,
            (false, _) => 0,
        };
        tracing::debug!(client = self.client, token = token.0, ?name, ?snapid, ?codes, flags, "begun");
        self.in_flight.insert(token, in_flight);
        (token, Request { snapid, snapc, flags, ..Request::new(self.pool, name, ops) })
    }

    /// A request has ended.
    pub(crate) fn done(
        &mut self,
        token: Token,
        response: &Response,
        shared: &mut SharedObjects,
    ) -> Result<(), String> {
        tracing::debug!(client = self.client, token = token.0, result = response.result, "ended");
        self.probes.remove(&token);
        self.aside.remove(&token);
        let in_flight = self.in_flight.remove(&token);
        let in_flight = match in_flight {
            Some(InFlightOp::Copy(at, from, expected)) => {
                self.busy.remove(&from);
                Some(InFlightOp::Own(at, SnapId::HEAD, expected))
            }
            in_flight => in_flight,
        };
        let Some(in_flight) = self.of_account(in_flight, response) else { return Ok(()) };
        match in_flight {
            Some(InFlightOp::Own(at, snap, expected)) => {
                self.busy.remove(&at);
                let name = String::from_utf8_lossy(&self.own_name(at)).into_owned();
                if !self.own[at].has(snap) {
                    return Ok(());
                }
                self.own[at].done(expected, response).map_err(|why| format!("{name} at {snap:?}: {why}"))
            }
            Some(InFlightOp::Shared(in_flight)) => shared.done(in_flight, response),
            Some(InFlightOp::Conditional(in_flight)) => shared.conditional.done(in_flight, response),
            Some(InFlightOp::Bulk(in_flight)) => self.bulk_done(in_flight, response, shared),
            Some(InFlightOp::Listing(in_flight)) => self.listing_done(in_flight, response, shared),
            Some(InFlightOp::Watching(in_flight)) => self.watching_done(in_flight, response, shared),
            Some(InFlightOp::Other(in_flight)) => self.other_done(in_flight, response, shared),
            Some(InFlightOp::Copy(..)) | None => Err("a request ended twice".to_owned()),
        }
    }
}
