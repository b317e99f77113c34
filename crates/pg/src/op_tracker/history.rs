//! Ops that were answered and took long.

use std::time::Duration;

use serde_json::{Value, json};
use types::{Instant, Settings, UTime};

use super::OpRecord;

/// The slowest ops of the last minutes, and the last ones that were slow.
#[derive(Debug)]
pub struct OpHistory {
    /// The slowest that came within `duration`, the fastest first.
    slowest: Vec<(Duration, OpRecord)>,
    /// Those that took `slow_threshold`, the oldest first.
    slow: Vec<(Duration, OpRecord)>,
    /// `osd_enable_op_tracker`.
    pub is_enabled: bool,
    /// `osd_op_history_size`.
    size: usize,
    /// `osd_op_history_duration`.
    duration: Duration,
    /// `osd_op_history_slow_op_size`.
    slow_size: usize,
    /// `osd_op_history_slow_op_threshold`.
    slow_threshold: Duration,
    /// `osd_op_complaint_time`.
    pub complaint: Duration,
    /// `osd_op_log_threshold`.
    pub log_threshold: usize,
}

impl Default for OpHistory {
    fn default() -> OpHistory {
        OpHistory {
            slowest: Vec::new(),
            slow: Vec::new(),
            is_enabled: true,
            size: 20,
            duration: Duration::from_secs(600),
            slow_size: 20,
            slow_threshold: Duration::from_secs(10),
            complaint: Duration::from_secs(30),
            log_threshold: 5,
        }
    }
}

impl OpHistory {
    /// Takes the options that are in force.
    pub fn follow(&mut self, settings: &Settings) {
        let unknown = OpHistory::default();
        let count = |name: &str, or: usize| settings.get(name).and_then(|t| t.parse().ok()).unwrap_or(or);
        let span = |name: &str, or: Duration| {
            let seconds = settings.get(name).and_then(|text| text.parse().ok());
            seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(or)
        };
        self.is_enabled = settings.get("osd_enable_op_tracker").is_none_or(|text| text != "false");
        self.size = count("osd_op_history_size", unknown.size);
        self.duration = span("osd_op_history_duration", unknown.duration);
        self.slow_size = count("osd_op_history_slow_op_size", unknown.slow_size);
        self.slow_threshold = span("osd_op_history_slow_op_threshold", unknown.slow_threshold);
        self.complaint = span("osd_op_complaint_time", unknown.complaint);
        self.log_threshold = count("osd_op_log_threshold", unknown.log_threshold);
        self.shrink();
    }

    /// Nanoseconds that an op must have taken to be remembered.
    pub(crate) fn remember_from(&self) -> u64 {
        if !self.is_enabled {
            return u64::MAX;
        }
        let of_slowest = match self.slowest.first() {
            _ if self.size == 0 => u64::MAX,
            Some((fastest, _)) if self.slowest.len() >= self.size => nanos(*fastest).saturating_add(1),
            Some(_) | None => 0,
        };
        of_slowest.min(nanos(self.slow_threshold))
    }

    pub(crate) fn remember(&mut self, took: Duration, op: OpRecord) {
        if took >= self.slow_threshold && self.slow_size > 0 {
            self.slow.push((took, op.clone()));
        }
        let at = self.slowest.partition_point(|(other, _)| *other <= took);
        self.slowest.insert(at, (took, op));
        self.shrink();
    }

    fn shrink(&mut self) {
        self.slowest.drain(..self.slowest.len().saturating_sub(self.size));
        self.slow.drain(..self.slow.len().saturating_sub(self.slow_size));
    }

    /// Forgets what came too long ago.
    pub fn expire(&mut self, now: Instant) {
        self.slowest.retain(|(_, op)| now.since(op.since()) <= self.duration);
    }

    /// `dump_historic_ops` of this part of an OSD: by arrival or, from the slowest on, by duration.
    pub fn dump(&self, by_duration: bool, now: Instant, wall: UTime) -> Value {
        let mut ops: Vec<&OpRecord> = self.slowest.iter().rev().map(|(_, op)| op).collect();
        if !by_duration {
            ops.sort_by_key(|op| op.since());
        }
        let ops: Vec<Value> = ops.into_iter().map(|op| op.to_json(now, wall)).collect();
        json!({"size": self.size, "duration": self.duration.as_secs(), "ops": ops})
    }

    /// `dump_historic_slow_ops` of this part of an OSD.
    pub fn dump_slow(&self, now: Instant, wall: UTime) -> Value {
        let ops: Vec<Value> = self.slow.iter().map(|(_, op)| op.to_json(now, wall)).collect();
        let threshold = self.slow_threshold.as_secs();
        json!({"num to keep": self.slow_size, "threshold to keep": threshold, "Ops": ops})
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
