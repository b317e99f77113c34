//! The cluster log.

use messages::{LogEntry, LogLevel};
use serde_json::{Value, json};
use types::{EntityAddrVec, EntityNum};

use super::{Reply, Request, Row};
use crate::log_service::format_line;

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "log name=logtext,type=CephString,n=N",
        help: "log supplied text to the monitor log",
        module: "mon",
        perm: "rw",
        run: write,
    },
    Row {
        sig: "log last name=num,type=CephInt,range=1,req=false name=level,type=CephChoices,strings=debug|info|sec|warn|error,req=false name=channel,type=CephChoices,strings=*|cluster|audit|cephadm,req=false",
        help: "print last few lines of the cluster log",
        module: "mon",
        perm: "r",
        run: last,
    },
];

/// Lines without a number given.
const LAST_LINES: i64 = 20;

fn write(req: &mut Request<'_>) -> Reply {
    let entry = LogEntry {
        name: req.peer.name.clone(),
        rank: EntityNum { kind: req.peer.name.kind.0, num: req.peer.global_id.0 as i64 },
        addrs: EntityAddrVec(vec![req.peer.addr]),
        stamp: req.wall,
        seq: 0,
        level: LogLevel::INFO,
        message: req.args.list("logtext").join(" "),
        channel: "cluster".to_owned(),
    };
    req.mon.append_log(entry);
    Reply::done("")
}

fn last(req: &mut Request<'_>) -> Reply {
    let level = req.args.text("level").and_then(|text| LogLevel::parse(&text)).unwrap_or(LogLevel::INFO);
    let channel = req.args.text("channel").filter(|c| c != "*");
    let count = usize::try_from(req.args.int("num").unwrap_or(LAST_LINES)).unwrap_or(0);
    let entries = req.state().log.iter().rev();
    let wanted = entries.filter(|e| e.level >= level && channel.as_ref().is_none_or(|c| *c == e.channel));
    let mut lines: Vec<&LogEntry> = wanted.take(count).collect();
    lines.reverse();
    let json = || lines.iter().map(|entry| entry_json(entry)).collect();
    let text = || lines.iter().map(|entry| format_line(entry) + "\n").collect();
    Reply::show(req.args, json, text)
}

fn entry_json(entry: &LogEntry) -> Value {
    json!({
        "name": entry.name.to_string(),
        "rank": entry.rank.to_string(),
        "addrs": super::mon_info::addrs_json(&entry.addrs),
        "stamp": entry.stamp.to_string(),
        "seq": entry.seq,
        "channel": entry.channel,
        "priority": entry.level.tag(),
        "message": entry.message,
    })
}
