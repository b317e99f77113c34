//! The cluster log: lines of the monitor and of daemons, kept in the ledger and sent to `ceph -w`.

use messages::{LogEntry, LogLevel, MLog, MLogAck, PaxosHeader};
use types::{EntityName, EntityNum, EntityType, UTime};

use crate::{
    ConnId, Effect, Effects, Mon, Peer,
    access::Right,
    commands::{pgmap_line, words_for_logs},
    ledger_keys,
    session::LOG,
    state::value,
    text_limit,
};

/// Lines kept, besides those on commands.
const LINES_MAX: usize = 1000;

/// The channel of the lines on commands.
const AUDIT: &str = "audit";

/// Lines on commands that are kept: however many commands clients send, the ledger does not grow, and the other lines
/// stay.
const AUDIT_LINES_MAX: usize = 500;

/// Bytes of one line; more is cut.
const LINE_BYTES_MAX: usize = 4096;

/// Bytes of a channel's name; more is cut.
const CHANNEL_BYTES_MAX: usize = 64;

/// Addresses that a line names: one for each protocol, of both families.
const ADDRS_MAX: usize = 4;

/// The level of a subscription to the cluster log, `log-info`.
pub(crate) fn log_level(what: &str) -> Option<LogLevel> {
    what.strip_prefix(LOG).and_then(LogLevel::parse)
}

impl Mon {
    /// A line of the monitor's own.
    pub(crate) fn log_info(&mut self, wall: UTime, message: String) {
        self.log_line(wall, LogLevel::INFO, message);
    }

    pub(crate) fn log_warn(&mut self, wall: UTime, message: String) {
        self.log_line(wall, LogLevel::WARN, message);
    }

    pub(crate) fn log_error(&mut self, wall: UTime, message: String) {
        self.log_line(wall, LogLevel::ERROR, message);
    }

    fn log_line(&mut self, wall: UTime, level: LogLevel, message: String) {
        let entry = self.own_line(wall, level, message);
        self.append_log(entry);
    }

    fn own_line(&self, wall: UTime, level: LogLevel, message: String) -> LogEntry {
        let name = EntityName::new(EntityType::MON, self.options.name.clone());
        let rank = EntityNum { kind: EntityType::MON.0, num: 0 };
        let addrs = self.next.monmap.mon(0).map(|info| info.public_addrs.clone()).unwrap_or_default();
        let channel = "cluster".to_owned();
        LogEntry { name, rank, addrs, stamp: wall, seq: self.log_seq, level, message, channel }
    }

    /// A line on a command that has changed something, in Ceph's form: what sent it, and its words.
    pub(crate) fn log_command(&mut self, wall: UTime, peer: &Peer, cmd: &[String]) {
        let (name, addr) = (&peer.name, peer.addr);
        let from = match name.kind {
            EntityType::CLIENT => format!("client.{}", peer.global_id.0),
            _ => name.to_string(),
        };
        let words = words_for_logs(cmd);
        let words = if words.starts_with('[') { words } else { format!("[{words}]") };
        let message = format!("from='{from} {addr}' entity='{name}' cmd={words}: dispatch");
        let line = self.own_line(wall, LogLevel::INFO, message);
        self.keep_line(LogEntry { channel: AUDIT.to_owned(), ..line });
    }

    /// Adds a line, also to the monitor's own log.
    pub(crate) fn append_log(&mut self, entry: LogEntry) {
        let entry = self.keep_line(entry);
        tracing::info!(target: "cluster", "{} {} : {}", entry.name, entry.level.tag(), entry.message);
    }

    /// Adds a line, as far as it is kept. Its number is the log's own.
    fn keep_line(&mut self, mut entry: LogEntry) -> LogEntry {
        self.log_seq += 1;
        entry.seq = self.log_seq;
        text_limit::cut(&mut entry.message, LINE_BYTES_MAX);
        text_limit::cut(&mut entry.channel, CHANNEL_BYTES_MAX);
        entry.addrs.0.truncate(ADDRS_MAX);
        self.put(ledger_keys::log(self.log_seq), value(&entry));
        let is_audit = entry.channel == AUDIT;
        let max = if is_audit { AUDIT_LINES_MAX } else { LINES_MAX };
        let alike = |line: &&LogEntry| (line.channel == AUDIT) == is_audit;
        let excess = self.next.log.iter().filter(alike).count().saturating_sub(max);
        let oldest: Vec<u64> = self.next.log.iter().filter(alike).take(excess).map(|line| line.seq).collect();
        oldest.into_iter().for_each(|seq| self.put(ledger_keys::log(seq), None));
        entry
    }

    pub(crate) fn on_log(&mut self, conn: ConnId, tid: u64, log: MLog, effects: &mut Effects) {
        let Some(last) = log.entries.last() else { return };
        let ack = MLogAck { fsid: log.fsid, last: last.seq, channel: last.channel.clone() };
        // A client may write under its own name only.
        let Some(name) = self.sessions.get(&conn).map(|s| s.peer.name.clone()) else { return };
        for entry in log.entries.into_iter().filter(|entry| entry.name == name) {
            self.append_log(entry);
        }
        let answer = Effect::Send { conn, tid, message: ack.into() };
        self.answer_when_committed(answer, effects);
    }

    /// Sends a line on the PGs to the sessions that subscribed to the log's debug level. The line is not kept, so that
    /// an idle cluster writes nothing.
    pub(crate) fn tell_pgmap(&mut self, wall: UTime, effects: &mut Effects) {
        let debugs = |what: &String| log_level(what) == Some(LogLevel::DEBUG);
        let readers: Vec<ConnId> = self
            .sessions
            .iter()
            .filter(|(conn, session)| session.subs.keys().any(debugs) && self.may(**conn, "log", Right::Read))
            .map(|(conn, _)| *conn)
            .collect();
        if readers.is_empty() {
            return;
        }
        let line = format!("pgmap v{}: {}", self.stats.version, pgmap_line(self));
        let entries = vec![self.own_line(wall, LogLevel::DEBUG, line)];
        let fsid = self.committed.monmap.fsid;
        let header = PaxosHeader::new(self.committed.log.back().map_or(0, |e| e.seq));
        for conn in readers {
            let message = MLog { header, fsid, entries: entries.clone() }.into();
            effects.push(Effect::Send { conn, tid: 0, message });
        }
    }

    /// Sends the lines that a session subscribed to and has not seen.
    pub(crate) fn check_log(&mut self, conn: ConnId, effects: &mut Effects) {
        let newest = self.committed.log.back().map_or(0, |e| e.seq);
        let fsid = self.committed.monmap.fsid;
        let Some(session) = self.sessions.get_mut(&conn) else { return };
        for (what, sub) in &mut session.subs {
            let Some(level) = log_level(what) else { continue };
            let log = &self.committed.log;
            let wanted = |entry: &&LogEntry| entry.level >= level;
            // A new subscriber gets the newest line of its level, as from Ceph: librados' own test waits for one.
            let entries: Vec<LogEntry> = match sub.next {
                0 => log.iter().rev().find(wanted).into_iter().cloned().collect(),
                next => log.iter().filter(|entry| entry.seq >= next).filter(wanted).cloned().collect(),
            };
            sub.next = newest + 1;
            if !entries.is_empty() {
                let message = MLog { header: PaxosHeader::new(newest), fsid, entries }.into();
                effects.push(Effect::Send { conn, tid: 0, message });
            }
        }
    }
}

/// A line as `ceph log last` and the log file show it.
pub(crate) fn format_line(entry: &LogEntry) -> String {
    format!(
        "{} {} ({}) {} : {} {} {}",
        entry.stamp,
        entry.name,
        entry.rank,
        entry.seq,
        entry.channel,
        entry.level.tag(),
        entry.message
    )
}
