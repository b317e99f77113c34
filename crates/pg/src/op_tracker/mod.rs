//! What operators see of single ops: those in flight, and the slowest of those that were answered.
//!
//! An op in flight costs the times that are kept with it; it is described when an operator asks. One that is answered
//! is described only if it was slower than all but a few of the last minutes.
//!
//! Authority: `OpTracker`, `OpHistory`, `TrackedOp`, `OpRequest::_dump` (16.2).

mod history;

use std::time::Duration;

use messages::MOSDOp;
use serde_json::{Value, json};
use types::{Instant, PoolId, UTime};

use crate::Client;

pub use history::OpHistory;

/// One op, described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpRecord {
    /// `osd_op(client.4123.0:7 1.0 1:…:::foo:head [write 0~4096] …)`.
    pub description: String,
    /// The client that sent it, `client.4123`.
    pub client: String,
    /// The client's address.
    pub client_addr: String,
    /// The client's number of it.
    pub tid: u64,
    /// Its pool.
    pub pool: PoolId,
    /// What it waits for, or how far it came.
    pub flag_point: String,
    is_delayed: bool,
    /// What happened to it, the oldest first; the first is its arrival.
    pub events: Vec<(String, Instant)>,
}

impl OpRecord {
    /// An op that came at `since` and is at this point.
    pub fn new(client: &Client, tid: u64, op: &MOSDOp, since: Instant, flag_point: &str) -> OpRecord {
        OpRecord {
            description: op.describe(&client.entity, tid),
            client: client.entity.to_string(),
            client_addr: client.addr.legacy_str(),
            tid,
            pool: op.pgid.pool,
            flag_point: flag_point.to_owned(),
            is_delayed: false,
            events: vec![("initiated".to_owned(), since)],
        }
    }

    /// Something else that happened to it.
    #[must_use]
    pub fn with(mut self, event: impl Into<String>, at: Instant) -> OpRecord {
        self.events.push((event.into(), at));
        self
    }

    /// It cannot begin since then, for this reason.
    #[must_use]
    pub fn delayed(mut self, why: &str, since: Instant) -> OpRecord {
        self.flag_point = why.to_owned();
        self.is_delayed = true;
        self.with(why, since)
    }

    /// What the cluster log counts it as.
    pub fn kind(&self) -> &'static str {
        match self.flag_point.as_str() {
            _ if self.is_delayed => "delayed",
            "started" => "started",
            "waiting for sub ops" => "waiting for sub ops",
            _ => "reached pg",
        }
    }

    /// When it came.
    pub fn since(&self) -> Instant {
        self.events.first().map_or(Instant::default(), |(_, at)| *at)
    }

    /// Whether it is answered.
    fn is_done(&self) -> bool {
        self.events.last().is_some_and(|(event, _)| event == DONE)
    }

    /// As the commands show it; `wall` is what the wall clock says at `now`.
    pub fn to_json(&self, now: Instant, wall: UTime) -> Value {
        let since = self.since();
        let end = self.events.last().filter(|_| self.is_done()).map_or(now, |(_, at)| *at);
        let mut before = since;
        let events = self.events.iter().map(|(event, at)| {
            let duration = at.since(std::mem::replace(&mut before, *at));
            json!({"event": event, "time": wall_at(*at, now, wall).to_string(), "duration": seconds(duration)})
        });
        let events: Vec<Value> = events.collect();
        json!({
            "description": self.description,
            "initiated_at": wall_at(since, now, wall).to_string(),
            "age": seconds(now.since(since)),
            "duration": seconds(end.since(since)),
            "type_data": {
                "flag_point": self.flag_point,
                "client_info": {
                    "client": self.client,
                    "client_addr": self.client_addr,
                    "tid": self.tid,
                },
                "events": events,
            },
        })
    }
}

/// The last event of an op.
pub(crate) const DONE: &str = "done";

/// What the wall clock said at an earlier time.
pub fn wall_at(at: Instant, now: Instant, wall: UTime) -> UTime {
    let then = Duration::new(wall.sec.into(), wall.nsec).saturating_sub(now.since(at));
    UTime::new(u32::try_from(then.as_secs()).unwrap_or(u32::MAX), then.subsec_nanos())
}

/// Seconds as Ceph shows them here: to the nanosecond.
fn seconds(span: Duration) -> f64 {
    span.as_secs_f64()
}

#[cfg(test)]
mod tests;
