//! `ops`, `dump_historic_ops` and their like: what is known of single ops, of all shards together.
//!
//! Authority: `OSD::asok_command`, `OpTracker::dump_ops_in_flight` (16.2).

use messages::Message;
use pg::{Client, OpRecord};
use serde_json::{Value, json};
use types::{Errno, Instant};

use super::{Answer, Call};
use crate::{Osd, osd::Ctx};

/// What is answered while nothing is tracked.
const DISABLED: &str = "op_tracker tracking is not enabled now, so no ops are tracked currently, even those get stuck. \
    Please enable \"osd_enable_op_tracker\", and the tracker will start to track new ops received afterwards.";

/// Any of these commands: every shard has a part of the answer.
pub(super) fn dump(osd: &mut Osd, call: &Call, ctx: &mut Ctx<'_>) -> Answer {
    if !osd.admission.requests.with_history(|history| history.is_enabled) {
        return Err((Errno::EINVAL, DISABLED.to_owned()));
    }
    osd.gather(call, ctx)
}

/// A part of such an answer.
pub(super) fn part(osd: &Osd, call: &Call, ctx: &Ctx<'_>) -> Value {
    let history =
        |act: &dyn Fn(&pg::OpHistory) -> Value| osd.admission.requests.with_history(|history| act(history));
    let mut out = match call.prefix() {
        "dump_historic_ops" => history(&|history| history.dump(false, ctx.now, ctx.wall)),
        "dump_historic_ops_by_duration" => history(&|history| history.dump(true, ctx.now, ctx.wall)),
        "dump_historic_slow_ops" => history(&|history| history.dump_slow(ctx.now, ctx.wall)),
        prefix => {
            let complaint = osd.admission.requests.with_history(|history| history.complaint);
            let age = if prefix == "dump_blocked_ops" { complaint.as_nanos() } else { 0 };
            let until = Instant(ctx.now.0.saturating_sub(u64::try_from(age).unwrap_or(u64::MAX)));
            let mut ops = osd.ops_until(until);
            ops.sort_by_key(OpRecord::since);
            let ops: Vec<Value> = ops.iter().map(|op| op.to_json(ctx.now, ctx.wall)).collect();
            let mut out = json!({"ops": ops});
            if prefix == "dump_blocked_ops" {
                out["complaint_time"] = match complaint.subsec_nanos() {
                    0 => complaint.as_secs().into(),
                    _ => complaint.as_secs_f64().into(),
                };
                out["num_blocked_ops"] = 0.into();
            } else {
                out["num_ops"] = 0.into();
            }
            out
        }
    };
    let filters = call.list("filterstr");
    if let Some(ops) = ops_of(&mut out).filter(|_| !filters.is_empty()) {
        // Ops of one of these clients, or of the clients at one of these addresses.
        ops.retain(|op| {
            let info = &op["type_data"]["client_info"];
            filters.iter().any(|filter| {
                info["client"].as_str() == Some(filter)
                    || info["client_addr"].as_str().is_some_and(|addr| addr.starts_with(filter.as_str()))
            })
        });
    }
    out
}

fn ops_of(part: &mut Value) -> Option<&mut Vec<Value>> {
    let name = if part.get("Ops").is_some() { "Ops" } else { "ops" };
    part.get_mut(name)?.as_array_mut()
}

/// The parts of all shards as one answer: in the order of each, and as many as one of them would keep.
pub(super) fn merge(call: &Call, mut parts: Vec<Value>) -> Value {
    let mut all = parts.pop().unwrap_or_default();
    let mut ops: Vec<Value> = ops_of(&mut all).map(std::mem::take).unwrap_or_default();
    parts.iter_mut().filter_map(ops_of).for_each(|more| ops.append(more));
    let arrival = |op: &Value| op["initiated_at"].as_str().unwrap_or_default().to_owned();
    let duration = |op: &Value| op["duration"].as_f64().unwrap_or_default();
    let limit = all.get("size").or(all.get("num to keep")).and_then(Value::as_u64);
    if let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) {
        ops.sort_by(|a, b| duration(b).total_cmp(&duration(a)));
        ops.truncate(limit);
    }
    if call.prefix() != "dump_historic_ops_by_duration" {
        ops.sort_by_key(arrival);
    }
    for name in ["num_ops", "num_blocked_ops"] {
        if let Some(count) = all.get_mut(name) {
            *count = ops.len().into();
        }
    }
    if let Some(place) = ops_of(&mut all) {
        *place = ops;
    }
    all
}

impl Osd {
    /// Ops of this shard that are not answered, as far as they came up to `until`.
    pub(crate) fn ops_until(&self, until: Instant) -> Vec<OpRecord> {
        let early =
            self.pgs.early.iter().map(|(conn, tid, op, permit)| (*conn, *tid, op, permit, "waiting for pg"));
        let waiting = self.waiting.iter().filter_map(|waiting| match (&waiting.message, &waiting.permit) {
            (Message::MOSDOp(op), Some(permit)) => {
                Some((waiting.conn, waiting.tid, op, permit, "waiting for map"))
            }
            _ => None,
        });
        let mut out = Vec::new();
        for (conn, tid, op, permit, why) in early.chain(waiting) {
            let Some(session) = self.sessions.get(&conn).filter(|_| permit.since() <= until) else {
                continue;
            };
            let entity = session.entity();
            let client = Client { session: conn.0, entity, addr: session.peer.addr, features: 0 };
            let record = OpRecord::new(&client, tid, op, permit.since(), "no flag points reached");
            out.push(record.delayed(why, permit.since()));
        }
        out.extend(self.pgs.all().flat_map(|pg| pg.ops_until(until)));
        out
    }
}
