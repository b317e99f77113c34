//! What a PG asks of another one for its clients: requests on objects that are redirected, and references. The primary
//! of the one asks the primary of the other, which may be this OSD, and answers the client when it has its answer.
//!
//! A request that is passed on keeps its client's name, so the other PG knows it when it comes again, by whatever way.
//! It waits at no object here: what a client sends in order is passed on in order, and objects that refer to each other
//! do not wait for each other. Questions may be lost with an interval: they are asked again when the other PG gets
//! another primary, and after a while. A primary that is asked again while the question is open ignores that, and an
//! answer that nothing waits for is dropped.
//!
//! Authority: `PrimaryLogPG::do_proxy_read`, `do_proxy_write`, `refcount_manifest` (16.2).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use messages::{
    MOSDOp, MOSDOpReply, MPgProxyOp, MPgProxyReply, ObjectLocator, OsdOp, PEER_SEGMENT_BYTES_MAX, osd_flag,
};
use types::{
    EVersion, EntityAddr, EntityNum, Epoch, Errno, HObject, Instant, MapFlags, OsdId, OsdMap, PgId,
    SnapContext, SnapId, UpActing,
};

use crate::{
    Client, Ctx, Effect, OpThrottle, Pg, exec,
    ops::{LoadId, WaitingOp, let_go_of_much},
    pg::Phase,
};

/// Until a question is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(15);
/// How many objects, one after the other, may lead a request, or a copy, on to the next.
pub(crate) const REDIRECTS_MAX: usize = 8;

/// Bytes of data that an answer may carry that is passed back: more does not fit into a message between OSDs.
const PASSED_BACK_BYTES_MAX: usize = PEER_SEGMENT_BYTES_MAX as usize / 2;

/// The session of requests that another PG passed on: no client's session has this number.
const NO_SESSION: u64 = u64::MAX;

/// Flags of a client's request that also count at the object that it is passed on to. `SUPPORTSPOOLEIO` (the client
/// knows of pools that fail all requests) does not: such a client fails its own requests to such a pool, but this one
/// it sent to another pool.
const KEPT_FOR_READS: u32 =
    osd_flag::RWORDERED | osd_flag::ORDERSNAP | osd_flag::ENFORCE_SNAPC | osd_flag::MAP_SNAP_CLONE;
const KEPT_FOR_CHANGES: u32 = osd_flag::RETURNVEC | osd_flag::FULL_TRY | osd_flag::FULL_FORCE;

/// Where the answer goes to a request that was passed on to this PG.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PassedOn {
    from: OsdId,
    asker: PgId,
    id: u64,
    /// The objects that have passed it on.
    path: Vec<HObject>,
}

impl PassedOn {
    fn name(&self) -> (OsdId, PgId, u64) {
        (self.from, self.asker, self.id)
    }
}

/// What becomes of an answer.
#[derive(Debug)]
enum Purpose {
    /// It answers this request.
    Request(Box<WaitingOp>),
    /// An op of a request needs it: of number `load` of the requests that wait at `head`.
    Step { head: HObject, load: LoadId, question: u32 },
    /// No request waits for it.
    Nobody,
}

/// A question to another PG.
#[derive(Debug)]
struct Question {
    purpose: Purpose,
    target: HObject,
    client: EntityNum,
    addr: EntityAddr,
    tid: u64,
    path: Vec<HObject>,
    op: MOSDOp,
    asked: Option<(Instant, Asked)>,
}

impl Question {
    /// True if it was sent so lately that it need not be sent again unless the primary changed.
    fn is_fresh(&self, now: Instant) -> bool {
        self.asked.as_ref().is_some_and(|(at, _)| now < *at + ASK_AGAIN)
    }

    /// Sends it, as number `id` of `asker`'s, to this primary, unless it was sent there lately, or clients' requests of
    /// its kind are held back.
    fn send(&mut self, asker: PgId, id: u64, to: &Asked, ctx: &mut Ctx<'_>) {
        let is_asked = self.is_fresh(ctx.now) && self.asked.as_ref().is_some_and(|(_, before)| before == to);
        let primary = to.primary();
        if is_asked || !primary.is_some() || is_paused(&self.op, &self.target, ctx) {
            return;
        }
        self.asked = Some((ctx.now, to.clone()));
        let (pgid, epoch) = (to.pgid, ctx.map.epoch);
        let message = MPgProxyOp {
            pgid,
            epoch,
            asker,
            id,
            client: self.client,
            addr: self.addr,
            tid: self.tid,
            path: self.path.clone(),
            op: MOSDOp { pgid, epoch, ..self.op.clone() },
        };
        ctx.effects.push(Effect::SendOsd(primary, message.into()));
    }
}

/// The primary that a question was put to. If any of this has changed, the PG may have dropped the question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) pgid: PgId,
    /// Number of PGs of its pool: a PG that splits begins anew.
    pg_num: u32,
    placed: UpActing,
    /// Since when the primary has been up.
    up_from: Epoch,
}

impl Asked {
    /// The primary that a question about `target` is to be put to by this map; none without its pool.
    pub(crate) fn of(target: &HObject, map: &OsdMap) -> Option<Asked> {
        pg_of(target, map).map(|pgid| Asked::of_pg(pgid, map))
    }

    /// The primary of this PG.
    fn of_pg(pgid: PgId, map: &OsdMap) -> Asked {
        let placed = map.pg_to_up_acting(pgid);
        let pg_num = map.pools.get(&pgid.pool).map_or(0, |pool| pool.pg_num);
        Asked { pgid, pg_num, up_from: map.up_from(placed.acting_primary), placed }
    }

    pub(crate) fn primary(&self) -> OsdId {
        self.placed.acting_primary
    }
}

/// The PG that has the object by this map; none without its pool.
fn pg_of(target: &HObject, map: &OsdMap) -> Option<PgId> {
    map.object_to_pg(target.pool, &target.nspace, &target.key, &target.oid).map(|(_, pgid)| pgid)
}

/// The questions that a PG asks, and those that it is asked.
#[derive(Debug, Default)]
pub(crate) struct Proxies {
    questions: BTreeMap<u64, Question>,
    /// Questions of others that are not answered.
    open: BTreeSet<(OsdId, PgId, u64)>,
    count: u64,
    /// The map by which all questions were put to those that lead.
    asked_by: Epoch,
}

impl Proxies {
    /// An interval ends. The requests that were passed on begin again, and are returned; those that wait at objects
    /// begin again by themselves. References are still given back if this OSD remains primary.
    fn on_new_interval(&mut self, is_primary: bool) -> Vec<WaitingOp> {
        let mut requests = Vec::new();
        for (id, question) in std::mem::take(&mut self.questions) {
            match question.purpose {
                Purpose::Request(waiting) => requests.push(*waiting),
                Purpose::Nobody if is_primary => {
                    self.questions.insert(id, question);
                }
                Purpose::Step { .. } | Purpose::Nobody => {}
            }
        }
        requests
    }

    /// The number of the next question. Numbers begin with the epoch: before a restart they were counted from 1 as
    /// well, and a late answer must match no new question.
    fn next_id(&mut self, epoch: Epoch) -> u64 {
        self.count += 1;
        (u64::from(epoch.0) << 32) + self.count
    }

    /// Questions that are not answered, here and elsewhere.
    pub(crate) fn count(&self) -> usize {
        self.questions.len() + self.open.len()
    }

    /// Requests that were passed on, to be changed.
    pub(crate) fn requests_mut(&mut self) -> impl Iterator<Item = &mut WaitingOp> {
        self.questions.values_mut().filter_map(|question| match &mut question.purpose {
            Purpose::Request(waiting) => Some(&mut **waiting),
            Purpose::Step { .. } | Purpose::Nobody => None,
        })
    }

    /// Requests that were passed on.
    pub(crate) fn requests(&self) -> impl Iterator<Item = &WaitingOp> {
        self.questions.values().filter_map(|question| match &question.purpose {
            Purpose::Request(waiting) => Some(&**waiting),
            Purpose::Step { .. } | Purpose::Nobody => None,
        })
    }
}

/// A request as it is put to `target`.
fn redirected(op: &MOSDOp, target: &HObject) -> MOSDOp {
    let is_change = exec::is_ordered(op);
    let (mode, kept, snapid) = match is_change {
        true => (osd_flag::WRITE, KEPT_FOR_CHANGES, SnapId::HEAD),
        false => (osd_flag::READ, KEPT_FOR_READS, op.snapid),
    };
    let kept = op.flags & kept;
    let flags = osd_flag::ONDISK | osd_flag::IGNORE_CACHE | osd_flag::IGNORE_OVERLAY | mode | kept;
    MOSDOp { flags, snapid, ..addressed(op.clone(), target) }
}

fn addressed(op: MOSDOp, target: &HObject) -> MOSDOp {
    let HObject { oid, key, nspace, pool, hash, .. } = target.clone();
    let locator = ObjectLocator { pool, key, nspace, ..ObjectLocator::default() };
    MOSDOp { oid, locator, hash, ..op }
}

impl Pg {
    /// An interval ends: waiting requests go on in the next one if this OSD leads it (see `Ops::on_new_interval`).
    /// Clients send the rest again, except for reads that a replica has begun, which are refused: clients wait for
    /// these as long as the same OSDs act, and that may be so in the next interval, too.
    pub(crate) fn ops_end_interval(&mut self, is_primary: bool, ctx: &mut Ctx<'_>) {
        let passed_on = self.proxies.on_new_interval(is_primary);
        let dropped = self.ops.on_new_interval(passed_on, self.info.primary_since, is_primary);
        self.proxies.open = self.ops.early_passed_on().map(PassedOn::name).collect();
        // The PG may not serve for long.
        self.ops.early_mut().for_each(|waiting| let_go_of_much(waiting, ctx));
        let was_replica = self.phase == Phase::Replica;
        let mut sessions = BTreeSet::new();
        for waiting in dropped {
            if was_replica && self.is_replica_read(&waiting) {
                self.refuse(&waiting, Errno::EAGAIN, ctx);
            } else {
                sessions.insert(waiting.client.session);
                self.release(&waiting, ctx);
            }
        }
        // Else a client that waits for nothing but these would ask for a map when it has waited for seconds.
        ctx.effects.extend(sessions.into_iter().map(Effect::ShareMap));
    }

    /// Passes a request on to `target`, as its object redirects it there.
    pub(crate) fn pass_on(&mut self, head: &HObject, waiting: WaitingOp, target: HObject, ctx: &mut Ctx<'_>) {
        let mut path = waiting.passed_on.as_ref().map_or_else(Vec::new, |passed_on| passed_on.path.clone());
        path.push(head.clone());
        if !self.is_primary() {
            return self.refuse(&waiting, Errno::EAGAIN, ctx);
        }
        if path.len() > REDIRECTS_MAX || path.iter().any(|passed| passed.head() == target.head()) {
            return self.refuse(&waiting, Errno::ELOOP, ctx);
        }
        let mut waiting = Box::new(waiting);
        self.release(&waiting, ctx);
        waiting.forget_loads();
        let op = redirected(&waiting.op, &target);
        let (client, addr, tid) = (waiting.client.entity, waiting.client.addr, waiting.tid);
        let purpose = Purpose::Request(waiting);
        self.put_question(Question { purpose, target, client, addr, tid, path, op, asked: None }, ctx);
    }

    /// An op of a request asks `target` for something, in its client's name. `question` is below 2^15, and names the
    /// same question when it is asked again.
    pub(crate) fn ask_for(
        &mut self,
        head: &HObject,
        mut waiting: WaitingOp,
        question: u32,
        target: HObject,
        step: OsdOp,
        ctx: &mut Ctx<'_>,
    ) {
        let (client, addr, tid) = (waiting.client.entity, waiting.client.addr, waiting.tid);
        let op = MOSDOp {
            flags: osd_flag::ONDISK | osd_flag::WRITE | osd_flag::IGNORE_CACHE | osd_flag::IGNORE_OVERLAY,
            // Not the request's own name: its PG may be the one that is asked.
            client_inc: waiting.op.client_inc ^ (1 << 31 | question << 16),
            ops: vec![step],
            snapid: SnapId::HEAD,
            snapc: SnapContext::default(),
            ..addressed(without_ops(&waiting.op), &target)
        };
        waiting.is_asking = true;
        // The answer may take a while, and other requests want to copy as well.
        waiting.forget_copies();
        let_go_of_much(&mut waiting, ctx);
        let load = self.put_aside(head, waiting);
        let purpose = Purpose::Step { head: head.clone(), load, question };
        let path = vec![head.clone()];
        self.put_question(Question { purpose, target, client, addr, tid, path, op, asked: None }, ctx);
    }

    /// `source` does not refer to these objects any more, as of a change that all members have durable.
    pub(crate) fn give_back(
        &mut self,
        source: &HObject,
        targets: Vec<HObject>,
        version: EVersion,
        ctx: &mut Ctx<'_>,
    ) {
        if targets.is_empty() {
            return;
        }
        for (index, target) in (0u64..).zip(targets) {
            // Named after the change, which is no other PG's.
            let client =
                EntityNum { num: self.pgid.pool.0 << 32 | i64::from(self.pgid.seed), ..EntityNum::osd(0) };
            // An object's record names what its changes give back, and has no room for 2^24 names.
            let tid = version.version << 24 | index;
            let op = MOSDOp {
                flags: osd_flag::ONDISK | osd_flag::WRITE | osd_flag::IGNORE_CACHE | osd_flag::IGNORE_OVERLAY,
                client_inc: version.epoch.0,
                ops: vec![exec::reference(source, false)],
                snapid: SnapId::HEAD,
                mtime: ctx.wall,
                ..addressed(MOSDOp::default(), &target)
            };
            let (purpose, addr, path) = (Purpose::Nobody, EntityAddr::default(), vec![source.clone()]);
            let question = Question { purpose, target, client, addr, tid, path, op, asked: None };
            let id = self.proxies.next_id(ctx.map.epoch);
            self.proxies.questions.insert(id, question);
        }
        self.ask_others(ctx);
    }

    fn put_question(&mut self, mut question: Question, ctx: &mut Ctx<'_>) {
        let id = self.proxies.next_id(ctx.map.epoch);
        let to = Asked::of(&question.target, ctx.map);
        // By a new map earlier questions may have to be sent again, before this one.
        let are_all_due = self.proxies.asked_by != ctx.map.epoch || to.is_none();
        if let Some(to) = to.filter(|_| !are_all_due) {
            question.send(self.pgid, id, &to, ctx);
        }
        self.proxies.questions.insert(id, question);
        if are_all_due {
            self.ask_others(ctx);
        }
    }

    /// Sends, in order, the questions that were not sent yet, or not to the present primary, or too long ago. Many may
    /// be about objects of the same PG, whose place is looked up once.
    pub(crate) fn ask_others(&mut self, ctx: &mut Ctx<'_>) {
        let mut without_pool = Vec::new();
        let mut primaries: BTreeMap<PgId, Asked> = BTreeMap::new();
        // While the map is the same, so are the primaries.
        let is_new_map = std::mem::replace(&mut self.proxies.asked_by, ctx.map.epoch) != ctx.map.epoch;
        for (id, question) in &mut self.proxies.questions {
            if !is_new_map && question.is_fresh(ctx.now) {
                continue;
            }
            match pg_of(&question.target, ctx.map) {
                Some(pgid) => {
                    let to = primaries.entry(pgid).or_insert_with(|| Asked::of_pg(pgid, ctx.map));
                    question.send(self.pgid, *id, to, ctx);
                }
                None => without_pool.push(*id),
            }
        }
        for id in without_pool {
            let reply = MOSDOpReply { result: Errno::ENOENT.negated(), ..MOSDOpReply::default() };
            self.on_answer(id, reply, ctx);
        }
    }

    /// Another PG answers.
    pub(crate) fn on_proxy_reply(&mut self, message: MPgProxyReply, ctx: &mut Ctx<'_>) {
        self.on_answer(message.id, message.reply, ctx);
    }

    fn on_answer(&mut self, id: u64, reply: MOSDOpReply, ctx: &mut Ctx<'_>) {
        let Some(question) = self.proxies.questions.remove(&id) else { return };
        match question.purpose {
            Purpose::Request(waiting) => self.answer_passed_on(&waiting, reply, ctx),
            Purpose::Step { head, load, question } => {
                self.resume_with_answer(&head, load, question, reply.result, ctx)
            }
            Purpose::Nobody if reply.result < 0 => {
                let (target, result) = (&question.target, reply.result);
                tracing::debug!(pg = %self.pgid, %target, result, "a reference could not be given back");
            }
            Purpose::Nobody => {}
        }
    }

    fn answer_passed_on(&mut self, waiting: &WaitingOp, answer: MOSDOpReply, ctx: &mut Ctx<'_>) {
        let MOSDOpReply { result, ops, user_version, .. } = answer;
        let ops = if ops.is_empty() { waiting.op.echoed_ops() } else { ops };
        let reply = MOSDOpReply { result, ops, user_version, ..MOSDOpReply::to(&waiting.op, ctx.map.epoch) };
        let is_change = waiting.is_ordered;
        self.stats.note_served(&waiting.op, &reply.ops, is_change, waiting.nanos_until(ctx.now));
        self.reply(waiting, Box::new(reply), ctx);
    }

    /// Another PG's primary passes a request on.
    pub(crate) fn on_proxy_op(&mut self, from: OsdId, message: MPgProxyOp, ctx: &mut Ctx<'_>) {
        let MPgProxyOp { asker, id, client, addr, tid, path, op, .. } = message;
        let is_for_primary = self.is_primary() && op.epoch >= self.info.primary_since;
        // As of a client that errs: under another hash than its own, other clients would not find the object.
        let pool = ctx.map.pools.get(&op.locator.pool);
        let is_here = pool.is_some_and(|pool| pool.pg_of_hash(op.locator.pool, op.hash) == self.pgid);
        if !is_for_primary || !is_here || !self.proxies.open.insert((from, asker, id)) {
            return;
        }
        let is_blocklisted = ctx.map.is_blocklisted(&addr);
        // A client that knows no backoffs is never told to hold.
        let client = Client { session: NO_SESSION, entity: client, addr, features: 0 };
        let bytes = op.ops.iter().map(|step| step.data.len() as u64).sum();
        let permit = OpThrottle::default().take_at(bytes, ctx.now);
        let mut waiting = WaitingOp::new(client, tid, Box::new(op), permit, ctx.now);
        waiting.passed_on = Some(Box::new(PassedOn { from, asker, id, path }));
        if is_blocklisted {
            // Its request may have been on the way since before that.
            return self.refuse(&waiting, Errno::EBLOCKLISTED, ctx);
        }
        self.take(waiting, false, ctx);
    }

    /// Answers a request: to its client, or to the PG that passed it on.
    pub(crate) fn reply(&mut self, waiting: &WaitingOp, reply: Box<MOSDOpReply>, ctx: &mut Ctx<'_>) {
        waiting.answered(ctx.now);
        let Some(passed_on) = &waiting.passed_on else {
            let (session, tid) = (waiting.client.session, waiting.tid);
            return ctx.effects.push(Effect::Reply { session, tid, reply });
        };
        let (from, asker, id) = passed_on.name();
        self.proxies.open.remove(&(from, asker, id));
        let mut reply = *reply;
        if reply.ops.iter().map(OsdOp::data_bytes).sum::<usize>() > PASSED_BACK_BYTES_MAX {
            reply.ops = waiting.op.echoed_ops();
            reply.result = Errno::EMSGSIZE.negated();
        }
        let message = MPgProxyReply { pgid: asker, epoch: ctx.map.epoch, id, reply };
        ctx.effects.push(Effect::SendOsd(from, message.into()));
    }

    /// Asks questions again that are due.
    pub(crate) fn tick_proxies(&mut self, ctx: &mut Ctx<'_>) {
        if self.phase == Phase::Active && !self.proxies.questions.is_empty() {
            self.ask_others(ctx);
        }
    }
}

/// A request without what it does.
fn without_ops(op: &MOSDOp) -> MOSDOp {
    let MOSDOp { features, mtime, retry_attempt, .. } = *op;
    MOSDOp { features, mtime, retry_attempt, ..MOSDOp::default() }
}

/// True while clients hold such requests back themselves.
fn is_paused(op: &MOSDOp, target: &HObject, ctx: &Ctx<'_>) -> bool {
    match op.says_it_writes() {
        true => {
            let lacks_room = ctx.map.is_full(target.pool) && !op.tries_when_full();
            ctx.map.has_flag(MapFlags::PAUSEWR) || lacks_room
        }
        false => ctx.map.has_flag(MapFlags::PAUSERD),
    }
}

#[cfg(test)]
mod tests;
