//! What the monitor was asked: requests that wait for the ledger, those that took longest lately, and slow ones.
//!
//! Authority: `OpHistory`, `MonOpRequest` (16.2). Messages other than commands are named by their kind alone.

use std::{collections::VecDeque, time::Duration};

use messages::Message;
use serde_json::{Value, json};
use types::{EntityAddr, Instant, Settings, UTime};

use crate::{Peer, commands::words_for_logs, text_limit};

/// One request.
#[derive(Debug)]
pub(crate) struct Op {
    seq: u64,
    description: String,
    source: String,
    initiated: UTime,
    begun: Instant,
    /// How long it took, once it is answered.
    took: Option<Duration>,
    /// It waits for the proposal in flight, not for the next one.
    is_proposed: bool,
}

/// The requests that wait for the ledger, the ones that took longest lately, and the slow ones.
#[derive(Debug, Default)]
pub(crate) struct OpHistory {
    seq: u64,
    waiting: VecDeque<Op>,
    /// In the order in which they came.
    longest: VecDeque<Op>,
    slow: VecDeque<Op>,
    size: usize,
    duration: Duration,
    slow_size: usize,
    threshold: Duration,
}

/// Bytes that are kept of a request: any client may send commands of megabytes.
const DESCRIPTION_BYTES_MAX: usize = 4_096;

/// A request in words.
pub(crate) fn describe(message: &Message) -> String {
    let mut text = match message {
        Message::MMonCommand(command) => format!("mon_command({} v 0)", words_for_logs(&command.cmd)),
        Message::MCommand(command) => format!("command({})", words_for_logs(&command.cmd)),
        other => other.name().to_owned(),
    };
    text_limit::cut(&mut text, DESCRIPTION_BYTES_MAX);
    text
}

impl OpHistory {
    /// `mon_op_history_*`.
    pub(crate) fn follow(&mut self, settings: &Settings) {
        let number = |name: &str, default: u64| {
            settings
                .get(name)
                .and_then(|value| value.parse::<f64>().ok())
                .map_or(default, |value| value as u64)
        };
        self.size = number("mon_op_history_size", 20) as usize;
        self.duration = Duration::from_secs(number("mon_op_history_duration", 600));
        self.slow_size = number("mon_op_history_slow_op_size", 20) as usize;
        self.threshold = Duration::from_secs(number("mon_op_history_slow_op_threshold", 10));
    }

    /// Notes a request that was handled. It has been answered unless `is_waiting`: then it is answered when the
    /// proposal in flight (`is_proposed`) or the next one is committed.
    pub(crate) fn note(
        &mut self,
        description: String,
        peer: &Peer,
        at: (Instant, UTime),
        is_waiting: bool,
        is_proposed: bool,
    ) {
        self.seq += 1;
        let addr: EntityAddr = peer.addr;
        let op = Op {
            seq: self.seq,
            description,
            source: format!("{} {addr}", peer.name),
            initiated: at.1,
            begun: at.0,
            took: None,
            is_proposed,
        };
        if is_waiting { self.waiting.push_back(op) } else { self.end(op, at.0) }
    }

    /// The next proposal is in flight now: requests that wait are noted as waiting for it.
    pub(crate) fn on_proposed(&mut self) {
        self.waiting.iter_mut().for_each(|op| op.is_proposed = true);
    }

    /// The proposal in flight is committed, and the requests that waited for it are answered.
    pub(crate) fn on_committed(&mut self, now: Instant) {
        for op in std::mem::take(&mut self.waiting) {
            if op.is_proposed { self.end(op, now) } else { self.waiting.push_back(op) }
        }
    }

    /// The lease is lost: no request that waits is answered any more.
    pub(crate) fn on_lease_lost(&mut self) {
        self.waiting.clear();
    }

    fn end(&mut self, mut op: Op, now: Instant) {
        let took = now.since(op.begun);
        op.took = Some(took);
        if took >= self.threshold {
            self.slow.push_back(op);
            self.slow.drain(..self.slow.len().saturating_sub(self.slow_size));
            return;
        }
        self.longest.push_back(op);
        self.longest.retain(|op| now.since(op.begun) <= self.duration);
        if self.longest.len() > self.size {
            let shortest = self.longest.iter().enumerate().min_by_key(|(_, op)| op.took);
            let at = shortest.map_or(0, |(at, _)| at);
            self.longest.remove(at);
        }
    }

    /// `ops`.
    pub(crate) fn dump_waiting(&self, now: Instant) -> Value {
        let ops: Vec<Value> = self.waiting.iter().map(|op| op.dump(now)).collect();
        json!({"num_ops": ops.len(), "ops": ops})
    }

    /// `dump_historic_ops`.
    pub(crate) fn dump(&self, now: Instant) -> Value {
        let recent = self.longest.iter().filter(|op| now.since(op.begun) <= self.duration);
        let ops: Vec<Value> = recent.map(|op| op.dump(now)).collect();
        json!({"size": self.size, "duration": self.duration.as_secs(), "ops": ops})
    }

    /// `dump_historic_slow_ops`.
    pub(crate) fn dump_slow(&self, now: Instant) -> Value {
        let ops: Vec<Value> = self.slow.iter().map(|op| op.dump(now)).collect();
        json!({
            "num to keep": self.slow_size,
            "threshold to keep": self.threshold.as_secs(),
            "Ops": ops,
        })
    }
}

impl Op {
    fn dump(&self, now: Instant) -> Value {
        let age = now.since(self.begun);
        let took = self.took.unwrap_or(age);
        let event = |name: &str, after: Duration, span: Duration| {
            json!({
                "event": name,
                "time": self.initiated.plus(after).to_string(),
                "duration": span.as_secs_f64(),
            })
        };
        let mut events = vec![event("initiated", Duration::ZERO, took)];
        if took > Duration::ZERO || self.took.is_none() {
            events.push(event("wait_for_finished_proposal", Duration::ZERO, took));
        }
        if self.took.is_some() {
            events.push(event("done", took, took));
        }
        json!({
            "description": self.description,
            "initiated_at": self.initiated.to_string(),
            "age": age.as_secs_f64(),
            "duration": took.as_secs_f64(),
            "type_data": {
                "events": events,
                "info": {
                    "seq": self.seq,
                    "src_is_mon": false,
                    "source": self.source,
                    "forwarded_to_leader": false,
                },
            },
        })
    }
}
