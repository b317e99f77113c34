//! Lines that this OSD writes to the cluster log: kept until the monitor has them.

use std::collections::VecDeque;

use messages::{LogEntry, LogLevel, MLog, MLogAck};
use types::{EntityName, EntityNum, EntityType};

use crate::{Effect, Osd, ShardMessage, osd::Ctx, shard::CONTROL};

/// Lines kept: without a monitor for long, the oldest go.
const LINES_MAX: usize = 1_000;

/// Lines for the cluster log, kept until the monitor has them. Empty on all shards but the control shard.
#[derive(Debug, Default)]
pub(crate) struct ClusterLog {
    lines: VecDeque<LogEntry>,
    last: u64,
}

impl Osd {
    /// Writes a line to the cluster log.
    pub(crate) fn cluster_log(&mut self, level: LogLevel, message: String, ctx: &mut Ctx<'_>) {
        if !self.config.shard.is_control() {
            return ctx.send_shard(CONTROL, ShardMessage::ClusterLog(level, message));
        }
        self.cluster_log.last += 1;
        let entry = LogEntry {
            name: EntityName::new(EntityType::OSD, self.config.whoami.to_string()),
            rank: EntityNum { kind: EntityType::OSD.0, num: i64::from(self.config.whoami.0) },
            addrs: self.public_addrs.clone(),
            stamp: ctx.wall,
            seq: self.cluster_log.last,
            level,
            message,
            channel: "cluster".to_owned(),
        };
        if self.has_mon {
            self.send_log(vec![entry.clone()], ctx);
        }
        self.cluster_log.lines.push_back(entry);
        if self.cluster_log.lines.len() > LINES_MAX {
            self.cluster_log.lines.pop_front();
        }
    }

    fn send_log(&self, entries: Vec<LogEntry>, ctx: &mut Ctx<'_>) {
        let message = MLog { fsid: self.config.fsid, entries, ..MLog::default() };
        ctx.effects.push(Effect::SendMon(message.into()));
    }

    /// In a new session with a monitor, sends again what the monitor may not have.
    pub(crate) fn resend_log(&self, ctx: &mut Ctx<'_>) {
        if !self.cluster_log.lines.is_empty() {
            self.send_log(self.cluster_log.lines.iter().cloned().collect(), ctx);
        }
    }

    pub(crate) fn on_log_ack(&mut self, ack: &MLogAck) {
        self.cluster_log.lines.retain(|line| line.seq > ack.last);
    }
}
