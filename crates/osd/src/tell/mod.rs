//! `ceph tell osd.N …` and `ceph pg ID …`: commands to this OSD alone.
//!
//! Authority: `OSD::asok_command`, `OSDSocketHook` and the admin socket's own commands (16.2).

mod bench;
mod cache;
mod config;
mod histograms;
mod inject_full;
mod latest_map;
mod lists;
mod network;
mod ops;
mod perf;
mod pg_commands;
mod scrubs;
mod show;
mod states;

use messages::{MCommand, MCommandReply};
use serde_json::{Map, Value, json};
use types::{Errno, PgId};

use crate::{ConnId, Osd, osd::Ctx};

pub(crate) use bench::{Bench, is_bench_token};
pub(crate) use inject_full::InjectedFull;
pub(crate) use latest_map::{BOOT_HANDLE, LatestMaps};
pub(crate) use perf::Perf;

/// A refusal: errno and the line for the operator.
pub(crate) type Refusal = (Errno, String);

/// What a command answers at once; [`None`] when the answer comes later.
pub(crate) type Answer = Result<Option<Value>, Refusal>;

/// A command as its function sees it.
#[derive(Clone)]
pub(crate) struct Call {
    args: Map<String, Value>,
    conn: ConnId,
    tid: u64,
}

impl Call {
    /// A call with these arguments, without a caller to be answered.
    pub(crate) fn of(args: Map<String, Value>) -> Call {
        Call { args, conn: ConnId(0), tid: 0 }
    }

    pub(crate) fn args(&self) -> &Map<String, Value> {
        &self.args
    }

    fn prefix(&self) -> &str {
        self.args.get("prefix").and_then(Value::as_str).unwrap_or_default()
    }

    fn text(&self, name: &str) -> Option<String> {
        text(&self.args, name)
    }

    /// All values of an argument that may be repeated.
    fn list(&self, name: &str) -> Vec<String> {
        match self.args.get(name) {
            Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => self.text(name).into_iter().collect(),
        }
    }

    fn int(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }
}

/// An argument, which may come as text, as a number, or as a list of one.
fn text(args: &Map<String, Value>, name: &str) -> Option<String> {
    match args.get(name)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(items) => items.first().and_then(Value::as_str).map(str::to_owned),
        Value::Bool(_) | Value::Object(_) | Value::Null => None,
    }
}

/// A row of the command table.
struct Row {
    /// Words, then arguments as `name=N,type=T[,key=value…]`.
    sig: &'static str,
    help: &'static str,
    run: fn(&mut Osd, &Call, &mut Ctx<'_>) -> Answer,
}

/// The argument of commands that show ops.
macro_rules! ops_filter {
    () => {
        " name=filterstr,type=CephString,n=N,req=false"
    };
}

const ROWS: &[Row] = &[
    Row { sig: "version", help: "get ceph version", run: show::version },
    Row { sig: "status", help: "high-level status of OSD", run: show::status },
    Row {
        sig: "dump_watchers",
        help: "show clients which have active watches, and on which objects",
        run: lists::gather,
    },
    Row { sig: "dump_blocklist", help: "dump blocklisted clients and times", run: lists::blocklist },
    Row {
        sig: "get_mapped_pools",
        help: "dump pools whose PG(s) are mapped to this OSD.",
        run: lists::gather,
    },
    Row {
        sig: "get_latest_osdmap",
        help: "force osd to update the latest map from the mon",
        run: latest_map::wait,
    },
    Row { sig: "send_beacon", help: "send OSD beacon to mon immediately", run: lists::send_beacon },
    Row { sig: "log dump", help: "dump recent log entries to log file", run: lists::log_is_well },
    Row { sig: "log flush", help: "flush log entries to log file", run: lists::log_is_well },
    Row { sig: "log reopen", help: "reopen log file", run: lists::log_is_well },
    Row {
        sig: "cluster_log name=level,type=CephChoices,strings=error,warning,info,debug name=message,type=CephString,n=N",
        help: "log a message to the cluster log",
        run: lists::cluster_log,
    },
    Row {
        sig: "perf dump name=logger,type=CephString,req=false name=counter,type=CephString,req=false",
        help: "dump perfcounters value",
        run: perf::dump,
    },
    Row { sig: "perf schema", help: "dump perfcounters schema", run: perf::schema },
    Row {
        sig: "perf reset name=var,type=CephString",
        help: "perf reset <name>: perf reset all or one perfcounter name",
        run: perf::reset,
    },
    Row {
        sig: "perf histogram dump name=logger,type=CephString,req=false name=counter,type=CephString,req=false",
        help: "dump perf histogram values",
        run: histograms::dump,
    },
    Row { sig: "perf histogram schema", help: "dump perf histogram schema", run: histograms::schema },
    Row {
        sig: "perfcounters_dump name=logger,type=CephString,req=false name=counter,type=CephString,req=false",
        help: "",
        run: perf::dump,
    },
    Row {
        sig: "1 name=logger,type=CephString,req=false name=counter,type=CephString,req=false",
        help: "",
        run: perf::dump,
    },
    Row { sig: "perfcounters_schema", help: "", run: perf::schema },
    Row { sig: "2", help: "", run: perf::schema },
    Row { sig: "0", help: "", run: show::socket_version },
    Row { sig: "git_version", help: "get git sha1", run: show::git_version },
    Row {
        sig: "smart name=devid,type=CephString,req=false",
        help: "probe OSD devices for SMART data.",
        run: show::smart,
    },
    Row { sig: "objecter_requests", help: "show in-progress osd requests", run: show::objecter_requests },
    Row { sig: "dump_op_pq_state", help: "dump op queue state", run: show::op_queues },
    Row {
        sig: "dump_recovery_reservations",
        help: "show recovery reservations",
        run: show::recovery_reservations,
    },
    Row {
        sig: "dump_pgstate_history",
        help: "show the states that PGs were in, and when",
        run: lists::gather,
    },
    Row { sig: "dump_pg_recovery_stats", help: "show how long PGs were in each state", run: lists::gather },
    Row { sig: "reset_pg_recovery_stats", help: "count those times anew", run: lists::gather },
    Row {
        sig: "scrub_purged_snaps",
        help: "Look for clones that purged snapshots have left behind",
        run: lists::gather,
    },
    Row { sig: "flush_journal", help: "flush the journal to permanent store", run: show::flush_journal },
    Row { sig: "flush_store_cache", help: "Flush bluestore internal cache", run: lists::gather },
    Row {
        sig: "cpu_profiler name=arg,type=CephChoices,strings=status|flush",
        help: "run cpu profiling on daemon",
        run: show::cpu_profiler,
    },
    Row { sig: "list_devices", help: "list OSD devices.", run: perf::list_devices },
    Row {
        sig: "dump_osd_network name=value,type=CephInt,req=false",
        help: "Dump osd heartbeat network ping times",
        run: network::dump,
    },
    Row { sig: "cache status", help: "Get OSD caches statistics", run: lists::gather },
    Row { sig: "cache drop", help: "Drop all OSD caches", run: lists::gather },
    Row { sig: "dump_mempools", help: "get mempool stats", run: lists::gather },
    Row { sig: "dump_scrubs", help: "print scheduled scrubs", run: lists::gather },
    Row { sig: "dump_scrub_reservations", help: "show scrub reservations", run: lists::gather },
    Row { sig: concat!("ops", ops_filter!()), help: "show the ops currently in flight", run: ops::dump },
    Row {
        sig: concat!("dump_ops_in_flight", ops_filter!()),
        help: "show the ops currently in flight",
        run: ops::dump,
    },
    Row {
        sig: concat!("dump_blocked_ops", ops_filter!()),
        help: "show the blocked ops currently in flight",
        run: ops::dump,
    },
    Row { sig: concat!("dump_historic_ops", ops_filter!()), help: "show recent ops", run: ops::dump },
    Row {
        sig: concat!("dump_historic_ops_by_duration", ops_filter!()),
        help: "show slowest recent ops, sorted by duration",
        run: ops::dump,
    },
    Row {
        sig: concat!("dump_historic_slow_ops", ops_filter!()),
        help: "show slowest recent ops",
        run: ops::dump,
    },
    Row { sig: "flush_pg_stats", help: "flush pg stats", run: show::flush_pg_stats },
    Row {
        sig: "bench name=count,type=CephInt,req=false name=size,type=CephInt,req=false name=object_size,type=CephInt,req=false name=object_num,type=CephInt,req=false",
        help: "OSD benchmark: write <count> <size>-byte objects(with <obj_size> <obj_num>), (default count=1G default size=4MB). Results in log.",
        run: bench::start,
    },
    Row { sig: "help", help: "list available commands", run: show::help },
    Row {
        sig: "injectfull name=type,type=CephString,req=false name=count,type=CephInt,req=false",
        help: "Inject a full disk (optional count times)",
        run: inject_full::run,
    },
    Row {
        sig: "heap name=heapcmd,type=CephChoices,strings=dump|start_profiler|stop_profiler|release|get_release_rate|set_release_rate|stats name=value,type=CephString,req=false",
        help: "show heap usage info (available only if compiled with tcmalloc)",
        run: show::heap,
    },
    Row {
        sig: "compact",
        help: "Commpact object store's omap. WARNING: Compaction probably slows your requests",
        run: show::compact,
    },
];

/// Commands for one PG, which the shard runs that has it. `ceph tell PGID` names the PG in other commands, too.
const PG_ROWS: &[Row] = &[
    Row { sig: "query", help: "show details of a specific pg", run: pg_commands::query },
    Row {
        sig: "list_unfound name=pgid,type=CephPgid,req=false name=offset,type=CephString,req=false",
        help: "list unfound objects on this pg, perhaps starting at an offset given in JSON",
        run: pg_commands::list_unfound,
    },
    Row {
        sig: "mark_unfound_lost name=pgid,type=CephPgid,req=false name=mulcmd,type=CephChoices,strings=revert|delete",
        help: "mark all unfound objects in this pg as lost, either removing or reverting to a prior version if one is available",
        run: pg_commands::mark_unfound_lost,
    },
    Row { sig: "scrub", help: "Scrub this PG now", run: pg_commands::shallow_scrub },
    Row { sig: "deep_scrub", help: "Deep-scrub this PG now", run: pg_commands::deep_scrub },
    Row { sig: "deep-scrub", help: "Deep-scrub this PG now", run: pg_commands::deep_scrub },
    Row {
        sig: "schedule-scrub name=time,type=CephInt,req=false",
        help: "Make this PG due for a scrub, as if the last one had been so many seconds ago",
        run: pg_commands::schedule_shallow,
    },
    Row {
        sig: "schedule-deep-scrub name=time,type=CephInt,req=false",
        help: "Make this PG due for a deep scrub, as if the last one had been so many seconds ago",
        run: pg_commands::schedule_deep,
    },
    // The form of `ceph pg ID …`: the word is an argument.
    Row {
        sig: "pg name=pgid,type=CephPgid name=cmd,type=CephChoices,strings=query",
        help: "",
        run: pg_commands::by_word,
    },
    Row {
        sig: "pg name=pgid,type=CephPgid name=cmd,type=CephChoices,strings=mark_unfound_lost name=mulcmd,type=CephChoices,strings=revert|delete",
        help: "",
        run: pg_commands::by_word,
    },
    Row {
        sig: "pg name=pgid,type=CephPgid name=cmd,type=CephChoices,strings=list_unfound name=offset,type=CephString,req=false",
        help: "",
        run: pg_commands::by_word,
    },
    Row {
        sig: "pg name=pgid,type=CephPgid name=cmd,type=CephChoices,strings=scrub",
        help: "",
        run: pg_commands::by_word,
    },
    Row {
        sig: "pg name=pgid,type=CephPgid name=cmd,type=CephChoices,strings=deep_scrub",
        help: "",
        run: pg_commands::by_word,
    },
];

fn rows() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().chain(PG_ROWS).chain(&config::ROWS)
}

impl Row {
    fn prefix(&self) -> &'static str {
        self.sig.split(" name=").next().unwrap_or_default()
    }

    fn describe(&self) -> Value {
        let word = |part: &str| match part.starts_with("name=") {
            true => {
                let pairs = part.split(',').filter_map(|pair| pair.split_once('='));
                pairs.map(|(key, value)| (key.to_owned(), value.into())).collect::<Map<_, _>>().into()
            }
            false => Value::from(part),
        };
        json!({
            "sig": self.sig.split(' ').map(word).collect::<Vec<_>>(),
            "help": self.help,
            "module": "osd",
            "perm": "r",
            "flags": 0,
        })
    }
}

/// The parts of all shards as one answer.
pub(crate) fn merge(call: &Call, parts: Vec<Value>) -> Value {
    match call.prefix() {
        "dump_watchers" => lists::joined(parts).into(),
        "get_mapped_pools" => lists::merge_pools(parts),
        "cache status" | "dump_mempools" => cache::sum(parts),
        "cache drop" | "flush_store_cache" | "reset_pg_recovery_stats" | "scrub_purged_snaps" => Value::Null,
        "dump_pgstate_history" => states::merge_history(parts),
        "dump_pg_recovery_stats" => states::merge_times(parts),
        "dump_scrubs" => scrubs::merge_jobs(parts),
        "dump_scrub_reservations" => scrubs::merge_reservations(parts),
        _ => ops::merge(call, parts),
    }
}

fn descriptions() -> Value {
    let row = |(index, row): (usize, &Row)| (format!("cmd{index:03}"), row.describe());
    Value::Object(rows().enumerate().map(row).collect())
}

/// The document, indented unless `format` asks for one line; or as XML.
fn render(args: &Map<String, Value>, value: &Value) -> String {
    match args.get("format").and_then(Value::as_str) {
        Some("json") => format!("{value}\n"),
        Some(form @ ("xml" | "xml-pretty")) => {
            let prefix = text(args, "prefix").unwrap_or_default();
            types::daemon_xml(&prefix, value, form == "xml-pretty") + "\n"
        }
        Some(_) | None => types::pretty_json(value) + "\n",
    }
}

/// The command's document; empty if it is none.
fn args_of(command: &MCommand) -> Map<String, Value> {
    match serde_json::from_str(&command.cmd.concat()) {
        Ok(Value::Object(args)) => args,
        _ => Map::new(),
    }
}

/// The PG that a command is for, if it is for one.
pub(crate) fn pg_of(command: &MCommand) -> Option<PgId> {
    let args = args_of(command);
    let prefix = args.get("prefix").and_then(Value::as_str)?;
    PG_ROWS.iter().find(|row| row.prefix() == prefix)?;
    PgId::parse(text(&args, "pgid")?.as_str())
}

impl Osd {
    /// This shard's part of the answer to a command that all shards answer together.
    pub(crate) fn part_of(&mut self, call: &Call, ctx: &mut Ctx<'_>) -> Value {
        match call.prefix() {
            "cache status" => cache::status(ctx.store.cached()),
            "dump_mempools" => cache::mempools(ctx.store.cached()),
            "dump_pgstate_history" => states::history(self),
            "dump_pg_recovery_stats" => states::times(self),
            "reset_pg_recovery_stats" => {
                self.pgs.all_mut().for_each(pg::Pg::forget_state_times);
                Value::Null
            }
            "scrub_purged_snaps" => {
                self.pgs.all_mut().for_each(pg::Pg::trim_purged_snaps);
                Value::Null
            }
            "cache drop" | "flush_store_cache" => {
                ctx.store.drop_cache();
                Value::Null
            }
            "dump_watchers" => lists::watchers(self),
            "get_mapped_pools" => lists::mapped_pools(self),
            "dump_scrubs" => scrubs::jobs(self),
            "dump_scrub_reservations" => scrubs::reservations(self),
            _ => ops::part(self, call, ctx),
        }
    }

    pub(crate) fn on_tell(&mut self, conn: ConnId, tid: u64, command: &MCommand, ctx: &mut Ctx<'_>) {
        let may = self.sessions.get(&conn).is_some_and(|s| s.peer.caps.allows_all());
        let call = Call { args: args_of(command), conn, tid };
        let answer = match may {
            true => self.tell(&call, ctx),
            false => Err((Errno::EACCES, String::new())),
        };
        self.answer_tell(&call, answer, ctx);
    }

    fn tell(&mut self, call: &Call, ctx: &mut Ctx<'_>) -> Answer {
        let Some(prefix) = call.args.get("prefix").and_then(Value::as_str).map(str::to_owned) else {
            return Err((Errno::EINVAL, "command not understood".to_owned()));
        };
        if prefix == "get_command_descriptions" {
            return Ok(Some(descriptions()));
        }
        // Several rows may share a prefix and differ in a choice; they run the same function.
        match rows().find(|row| row.prefix() == prefix) {
            Some(row) => (row.run)(self, call, ctx),
            None => Err((Errno::EINVAL, format!("unknown command prefix {prefix}"))),
        }
    }

    /// Sends a document and a line for the operator.
    fn answer_with(&self, call: &Call, status: String, output: &Value, ctx: &mut Ctx<'_>) {
        let output = render(&call.args, output).into();
        let reply = MCommandReply { status, output, ..MCommandReply::default() };
        self.send_conn(call.conn, call.tid, reply.into(), ctx);
    }

    /// Sends output that is not one document.
    fn answer_text(&self, call: &Call, output: String, ctx: &mut Ctx<'_>) {
        let reply = MCommandReply { output: output.into(), ..MCommandReply::default() };
        self.send_conn(call.conn, call.tid, reply.into(), ctx);
    }

    /// Sends a line for the operator.
    fn answer_line(&self, call: &Call, status: String, ctx: &mut Ctx<'_>) {
        let reply = MCommandReply { status, ..MCommandReply::default() };
        self.send_conn(call.conn, call.tid, reply.into(), ctx);
    }

    /// Sends an answer, unless it comes later.
    pub(crate) fn answer_tell(&self, call: &Call, answer: Answer, ctx: &mut Ctx<'_>) {
        let reply = match answer {
            Ok(None) => return,
            Ok(Some(Value::Null)) => MCommandReply::default(),
            Ok(Some(value)) => {
                MCommandReply { output: render(&call.args, &value).into(), ..MCommandReply::default() }
            }
            Err((errno, status)) => {
                MCommandReply { result: errno.negated(), status, ..MCommandReply::default() }
            }
        };
        self.send_conn(call.conn, call.tid, reply.into(), ctx);
    }
}

#[cfg(test)]
mod tests;
