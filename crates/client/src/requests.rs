//! Requests: where they go, when they go again, how they end.

use std::collections::BTreeSet;

use messages::{MOSDOp, MOSDOpReply, ObjectLocator, osd_flag, tries_when_full};
use types::{Epoch, Errno, HObject, MapFlags, OsdId, OsdMap, PgId, ReqId, SnapId, Token, UTime};

use crate::{Client, Effect, Request, Response, SessionId, machine::Ctx, places::Places};

/// A request that has not ended.
pub(crate) struct InFlight {
    pub(crate) token: Token,
    /// When the user submitted it: the object's mtime.
    mtime: UTime,
    pub(crate) request: Request,
    target: Option<Target>,
    /// The map says that it waits. What its target was sent before may still be answered.
    is_paused: bool,
    /// How often it was sent.
    attempts: i32,
    /// An OSD was not ready for it: from now on it is for the primary alone, though any copy may answer.
    is_primarys: bool,
    /// The monitor is being asked whether its pool is in a newer map.
    pub(crate) is_pool_checked: bool,
}

/// Where a request goes. A new interval of the PG makes a new target, and the request is sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    pg: PgId,
    /// Its head, as backoffs name it.
    object: HObject,
    /// A PG that is split keeps its number, and not all its objects.
    bits: u32,
    acting: Vec<OsdId>,
    primary: OsdId,
    /// The OSD that is asked: the primary, unless any copy may answer.
    osd: OsdId,
    /// When the pool last asked for everything to be sent again.
    resent: Epoch,
}

impl InFlight {
    pub(crate) fn new(token: Token, mtime: UTime, request: Request) -> InFlight {
        InFlight {
            token,
            mtime,
            request,
            target: None,
            is_paused: false,
            attempts: 0,
            is_primarys: false,
            is_pool_checked: false,
        }
    }
}

/// The OSD of the acting set that is asked: the primary, or the one that `choice` picks where any copy may answer.
fn choose(acting: &[OsdId], primary: OsdId, choice: Option<u64>) -> OsdId {
    let Some(choice) = choice else { return primary };
    let served: Vec<OsdId> = acting.iter().copied().filter(|osd| osd.is_some()).collect();
    match served.len() as u64 {
        0 => primary,
        count => served[(choice % count) as usize],
    }
}

/// Where the map says that a request goes; none without a pool or a primary.
fn target_of(map: &OsdMap, places: &mut Places, request: &Request, choice: Option<u64>) -> Option<Target> {
    let (hash, pg) = match request.hash {
        Some(hash) => (hash, map.pools.get(&request.pool)?.pg_of_hash(request.pool, hash)),
        None => map.object_to_pg(request.pool, &request.nspace, &request.key, &request.oid)?,
    };
    let at = places.find(map, pg);
    let pool = map.pools.get(&pg.pool)?;
    let bits = HObject::split_bits(pg, pool.pg_num);
    let is_served = at.acting_primary != OsdId::NONE;
    let object = HObject {
        pool: request.pool,
        nspace: request.nspace.clone(),
        key: request.key.clone(),
        oid: request.oid.clone(),
        hash,
        snap: SnapId::HEAD,
        ..HObject::default()
    };
    let primary = at.acting_primary;
    let osd = choose(&at.acting, primary, choice);
    let resent = pool.last_force_op_resend;
    is_served.then(|| Target { pg, object, bits, acting: at.acting.clone(), primary, osd, resent })
}

/// True when the map says that requests like this wait.
fn is_paused(map: &OsdMap, request: &Request) -> bool {
    let is_write = request.may_write();
    let lacks_room = || map.is_full(request.pool) && !tries_when_full(request.flags);
    (is_write && (map.has_flag(MapFlags::PAUSEWR) || lacks_room()))
        || (!is_write && map.has_flag(MapFlags::PAUSERD))
}

impl Client {
    /// Finds a request's target and sends it there if that is a new one, or if the request had to wait until now.
    pub(crate) fn place(&mut self, tid: u64, ctx: &mut Ctx<'_>) {
        let (Some(map), Some(flying)) = (&self.map, self.requests.get_mut(&tid)) else { return };
        if !map.pools.contains_key(&flying.request.pool) {
            self.check_pool(tid, ctx);
            return;
        }
        let is_for_any = flying.request.is_for_any_copy() && !flying.is_primarys;
        let choice = is_for_any.then_some(tid);
        let wanted = target_of(map, &mut self.places, &flying.request, choice);
        let is_paused = is_paused(map, &flying.request);
        let was_paused = std::mem::replace(&mut flying.is_paused, is_paused);
        if wanted != flying.target {
            // Nothing was sent to the new target, so nothing is taken from it while the request waits.
            flying.target = wanted.filter(|_| !is_paused);
            self.send(tid, ctx);
        } else if was_paused {
            self.send(tid, ctx);
        }
    }

    /// Marks all requests to be sent again: OSDs may have forgotten whatever was sent.
    pub(crate) fn forget_targets(&mut self) {
        self.requests.values_mut().for_each(|flying| flying.target = None);
    }

    /// Finds the targets of all requests, in the order of their submission, and sends those that have a new one.
    pub(crate) fn place_all(&mut self, ctx: &mut Ctx<'_>) {
        let tids: Vec<u64> = self.requests.keys().copied().collect();
        for tid in tids {
            self.place(tid, ctx);
        }
        // Connections that were dropped with their OSD's address took their requests along.
        let lost: BTreeSet<OsdId> = self.targets().filter(|osd| !self.sessions.contains_key(osd)).collect();
        for osd in lost {
            self.resend_to(osd, ctx);
        }
    }

    fn targets(&self) -> impl Iterator<Item = OsdId> + '_ {
        self.requests.values().filter_map(|flying| Some(flying.target.as_ref()?.osd))
    }

    /// Sends everything that goes to `osd` (again).
    pub(crate) fn resend_to(&mut self, osd: OsdId, ctx: &mut Ctx<'_>) {
        self.resend_where(|target| target.osd == osd, ctx);
    }

    /// Sends what goes to some objects of a PG (again).
    pub(crate) fn resend_of_pg(
        &mut self,
        osd: OsdId,
        pg: PgId,
        is_wanted: impl Fn(&HObject) -> bool,
        ctx: &mut Ctx<'_>,
    ) {
        self.resend_where(|target| target.osd == osd && target.pg == pg && is_wanted(&target.object), ctx);
    }

    fn resend_where(&mut self, goes: impl Fn(&Target) -> bool, ctx: &mut Ctx<'_>) {
        let all = self.requests.iter();
        let tids: Vec<u64> = all
            .filter(|(_, flying)| flying.target.as_ref().is_some_and(&goes))
            .map(|(tid, _)| *tid)
            .collect();
        for tid in tids {
            self.send(tid, ctx);
        }
    }

    fn send(&mut self, tid: u64, ctx: &mut Ctx<'_>) {
        let Some(flying) = self.requests.get(&tid).filter(|flying| !flying.is_paused) else { return };
        let Some(target) = flying.target.clone() else { return };
        let Some(session) = self.session_to(target.osd, ctx) else { return };
        if self.is_backed_off(target.osd, target.pg, &target.object) {
            return;
        }
        let (epoch, features) = (self.epoch(), self.config.features);
        let Some(flying) = self.requests.get_mut(&tid) else { return };
        let request = &flying.request;
        let message = MOSDOp {
            pgid: target.pg,
            shard: -1,
            hash: target.object.hash,
            epoch,
            flags: request.all_flags() & !if flying.is_primarys { osd_flag::ANY_COPY } else { 0 }
                | if flying.attempts > 0 { osd_flag::RETRY } else { 0 },
            reqid: ReqId::default(),
            client_inc: 0,
            mtime: flying.mtime,
            locator: ObjectLocator {
                pool: request.pool,
                key: request.key.clone(),
                nspace: request.nspace.clone(),
                hash: -1,
            },
            oid: request.oid.clone(),
            ops: request.ops.clone(),
            snapid: request.snapid,
            snapc: request.snapc.clone(),
            retry_attempt: flying.attempts,
            features,
            tid,
            data_sums: None,
            front_bytes: 0,
        };
        flying.attempts += 1;
        ctx.effects.push(Effect::Send(session, tid, message.into()));
    }

    pub(crate) fn on_reply(&mut self, id: SessionId, tid: u64, reply: MOSDOpReply, ctx: &mut Ctx<'_>) {
        let Some(flying) = self.requests.get(&tid) else { return };
        let is_from_target = flying.target.as_ref().is_some_and(|target| self.is_open(id, target.osd));
        // An answer to an earlier attempt may be of an interval that is over: the newest one decides.
        let is_newest = reply.retry_attempt < 0 || reply.retry_attempt == flying.attempts - 1;
        if is_from_target && is_newest {
            let is_replicas = flying.target.as_ref().is_some_and(|target| target.osd != target.primary);
            if reply.result == Errno::EAGAIN.negated() {
                return self.ask_again(tid, ctx);
            }
            self.replica_answers += u64::from(is_replicas);
            let MOSDOpReply { result, ops, user_version, .. } = reply;
            self.finish(tid, Response { result, ops, user_version }, ctx);
        }
    }

    /// The OSD that was asked is not ready, and has not carried the request out: it goes again as a new one, and to the
    /// primary without the flags that have any copy answer.
    fn ask_again(&mut self, tid: u64, ctx: &mut Ctx<'_>) {
        let Some(flying) = self.requests.remove(&tid) else { return };
        let tid = self.take_tid();
        let again = InFlight {
            is_primarys: true,
            attempts: flying.attempts,
            ..InFlight::new(flying.token, flying.mtime, flying.request)
        };
        self.requests.insert(tid, again);
        self.place(tid, ctx);
    }

    /// Ends a request.
    pub(crate) fn finish(&mut self, tid: u64, response: Response, ctx: &mut Ctx<'_>) {
        if let Some(flying) = self.requests.remove(&tid) {
            ctx.effects.push(Effect::Done(flying.token, response));
        }
    }
}
