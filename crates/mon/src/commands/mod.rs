//! Commands: the table, arguments, permission, and one file for each family.

mod activity;
mod args;
mod auth_db;
mod auth_keys;
mod auth_pending;
mod config;
mod config_key;
mod config_show;
mod config_view;
mod crush_class;
mod crush_links;
mod crush_map;
mod crush_show;
mod crush_smoke;
mod crush_tunables;
mod crush_weight_sets;
mod descriptions;
mod df;
mod erasure_profile;
mod force_recovery;
mod fs;
mod log;
mod mds;
mod mgr;
mod mon_change;
mod mon_info;
mod named;
mod osd_change;
mod osd_df;
mod osd_dump;
mod osd_flags;
mod osd_info;
mod osd_life;
mod osd_lookup;
mod osd_safety;
mod osd_secrets;
mod osd_tree;
mod pg;
mod pg_dump;
mod pg_dump_text;
mod pg_getmap;
mod pg_temp;
mod ping;
mod pool_autoscale;
mod pool_change;
mod pool_set;
mod pool_show;
mod pool_tier;
mod reply;
mod report;
mod reweight_by;
mod scrub;
mod status;
mod status_line;
pub(crate) mod tell;
mod tell_daemon;
mod tell_perf;
mod upmap;

use bytes::Bytes;
use messages::{MCommand, MCommandReply, MMonCommand, Message};
use types::{Errno, OsdMap, UTime};

use crate::{
    ConnId, Effect, Effects, LedgerError, Mon, Peer,
    manager::{
        Caller, balancer, crash, device, iostat, modules, not_deployed, progress, prometheus, rbd_support,
        status as manager_status, volumes,
    },
    state::State,
};

pub(crate) use args::{Args, words_for_logs};
pub(crate) use descriptions::{Row, all as describe};
pub(crate) use fs::NO_FILE_SYSTEMS;
pub(crate) use osd_dump::state_names;
pub(crate) use pg::pgmap_line;
pub(crate) use ping::pong;
pub(crate) use reply::{Answer, Reply};

/// Commands with a newer name (`FLAG(DEPRECATED)` in `MonCommands.h`).
const DEPRECATED: [&str; 29] = [
    "auth list",
    "auth del",
    "mds compat show",
    "mds compat rm_compat",
    "mds compat rm_incompat",
    "fs set_default",
    "mon remove",
    "osd lspools",
    "osd crush rule list",
    "osd crush remove",
    "osd rm",
    "osd add-noup",
    "osd add-nodown",
    "osd add-noin",
    "osd add-noout",
    "osd rm-noup",
    "osd rm-nodown",
    "osd rm-noin",
    "osd rm-noout",
    "osd create",
    "osd blacklist",
    "osd blacklist ls",
    "osd blacklist clear",
    "osd pool delete",
    "osd tier remove",
    "osd tier remove-overlay",
    "config-key put",
    "config-key del",
    "config-key list",
];

/// What older releases had (`FLAG(OBSOLETE)`).
const OBSOLETE: [&str; 14] = [
    "scrub",
    "mds dump",
    "mds getmap",
    "mds tell",
    "mds stop",
    "mds deactivate",
    "mds set_max_mds",
    "mds set",
    "mds cluster_down",
    "mds cluster_up",
    "mds add_data_pool",
    "mds rm_data_pool",
    "mds remove_data_pool",
    "mds newfs",
];
/// The answer to obsolete commands, and to deprecated ones where the operator wants none.
const IS_OBSOLETE: &str = "command is obsolete; please check usage and/or man page";

/// A command as its function sees it.
pub(crate) struct Request<'a> {
    pub(crate) mon: &'a mut Mon,
    pub(crate) wall: UTime,
    /// The peer that asks.
    pub(crate) peer: &'a Peer,
    pub(crate) args: &'a Args,
    /// What `-i FILE` gave.
    pub(crate) input: &'a Bytes,
    /// The caller that waits for the answer, where the answer may come later.
    pub(crate) caller: Option<&'a Caller>,
}

impl Request<'_> {
    /// What is committed: for commands that only look.
    pub(crate) fn state(&self) -> &State {
        &self.mon.committed
    }

    /// The committed OSD map.
    pub(crate) fn map(&self) -> &OsdMap {
        &self.mon.committed.osdmap
    }

    /// The OSD map with what is pending: for commands that change it.
    pub(crate) fn next_map(&self) -> &OsdMap {
        &self.mon.next.osdmap
    }

    /// Runs a command that its sender may run. It is refused where its module is off or its arguments do not fit, and
    /// nothing is changed where the OSD map could not be changed as it wanted, whatever the command itself answered.
    /// What changes something, or begins to, is logged.
    pub(crate) fn run(&mut self, row: &Row, cmd: &[String]) -> Answer {
        if let Some(refusal) = modules::check(self.mon, self.args.prefix()) {
            return refusal.into();
        }
        if let Err(text) = row.check(self.args) {
            return Reply::fail(Errno::EINVAL, text).into();
        }
        if !row.is_change() {
            return (row.run)(self).into();
        }
        if changes_osdmap(row)
            && let Some(why) = self.mon.cannot_change_osdmap()
        {
            return Reply::fail(Errno::EIO, why).into();
        }
        tracing::info!(target: "audit", "{} {}: {}", self.peer.name, self.peer.addr, words_for_logs(cmd));
        // A refusal of some other change is not this command's.
        self.mon.osds.take_refused();
        let before = self.mon.checkpoint();
        let reply = (row.run)(self);
        if let Some(why) = self.mon.osds.take_refused() {
            self.mon.roll_back(before);
            return Answer { reply: Reply::fail(Errno::EINVAL, why.to_string()), waits: true };
        }
        if self.mon.is_changed_since(&before) || !self.mon.orders.is_empty() || reply.is_later {
            self.mon.log_command(self.wall, self.peer, cmd);
        }
        Answer { reply, waits: true }
    }
}

/// Commands whose changes OSDs have to heed; some are in Ceph's table as the manager's.
fn changes_osdmap(row: &Row) -> bool {
    row.module == "osd" || row.sig.starts_with("osd ") || row.sig.starts_with("balancer execute")
}

/// What a command does.
pub(crate) type Run = fn(&mut Request<'_>) -> Reply;

/// All rows, family by family.
pub(crate) fn rows() -> impl Iterator<Item = &'static Row> {
    [
        status::ROWS,
        df::ROWS,
        fs::ROWS,
        mds::ROWS,
        mon_info::ROWS,
        mon_change::ROWS,
        mgr::ROWS,
        log::ROWS,
        report::ROWS,
        config::ROWS,
        config_view::ROWS,
        config_show::ROWS,
        config_key::ROWS,
        auth_db::ROWS,
        auth_keys::ROWS,
        auth_pending::ROWS,
        osd_info::ROWS,
        osd_dump::ROWS,
        osd_tree::ROWS,
        osd_df::ROWS,
        osd_change::ROWS,
        upmap::ROWS,
        osd_flags::ROWS,
        osd_life::ROWS,
        osd_lookup::ROWS,
        osd_safety::ROWS,
        reweight_by::ROWS,
        pool_autoscale::ROWS,
        pool_change::ROWS,
        pool_set::ROWS,
        pool_show::ROWS,
        pool_tier::ROWS,
        crush_map::ROWS,
        crush_links::ROWS,
        crush_tunables::ROWS,
        crush_weight_sets::ROWS,
        erasure_profile::ROWS,
        crush_class::ROWS,
        crush_show::ROWS,
        pg::ROWS,
        force_recovery::ROWS,
        scrub::ROWS,
        pg_dump::ROWS,
        pg_getmap::ROWS,
        pg_temp::ROWS,
        rbd_support::ROWS,
        progress::ROWS,
        balancer::ROWS,
        prometheus::ROWS,
        crash::ROWS,
        device::ROWS,
        manager_status::ROWS,
        iostat::ROWS,
        not_deployed::ROWS,
        volumes::ROWS,
    ]
    .into_iter()
    .flatten()
    .chain(modules::rows())
}

/// The row of a prefix. Some rows share a prefix and differ in a word behind it; those words are choices.
pub(crate) fn find_row(prefix: &str) -> Option<&'static Row> {
    rows().find(|row| row.prefix() == prefix)
}

impl Mon {
    pub(crate) fn on_command(
        &mut self,
        wall: UTime,
        conn: ConnId,
        tid: u64,
        command: MMonCommand,
        effects: &mut Effects,
    ) {
        let MMonCommand { cmd, input, .. } = command;
        let caller = Caller::Mon { conn, tid, cmd };
        let answer = self.run_command(wall, conn, &caller, &input);
        self.answer(caller, answer, effects);
    }

    /// `ceph tell mon.X`.
    pub(crate) fn on_tell(
        &mut self,
        wall: UTime,
        conn: ConnId,
        tid: u64,
        command: MCommand,
        effects: &mut Effects,
    ) {
        let reply = self.run_tell(wall, conn, &command.cmd, &command.input);
        if reply.is_later {
            // Only compaction takes time.
            self.compacting.push((conn, tid, self.now));
            effects.push(Effect::Compact);
            return;
        }
        let message: Message =
            MCommandReply { result: reply.result, status: reply.status, output: reply.output }.into();
        effects.push(Effect::Send { conn, tid, message });
    }

    /// The ledger is compacted.
    pub(crate) fn on_compacted(&mut self, result: &Result<(), LedgerError>, effects: &mut Effects) {
        for (conn, tid, since) in std::mem::take(&mut self.compacting) {
            let reply = match result {
                Ok(()) => MCommandReply {
                    output: format!("compacted redb in {} seconds\n", self.now.since(since).as_secs()).into(),
                    ..MCommandReply::default()
                },
                Err(error) => MCommandReply {
                    result: Errno::EIO.negated(),
                    status: error.to_string(),
                    ..MCommandReply::default()
                },
            };
            effects.push(Effect::Send { conn, tid, message: reply.into() });
        }
    }

    /// Answers a command; not at all where the answer comes later.
    pub(crate) fn answer(&mut self, caller: Caller, answer: Answer, effects: &mut Effects) {
        self.send_orders(effects);
        if answer.reply.is_later {
            return;
        }
        let message = self.answer_of(caller, answer.reply);
        if answer.waits {
            self.answer_when_committed(message, effects);
        } else {
            effects.push(message);
        }
    }

    /// Sends OSDs what commands want of them, on every session in the OSD's name: it is not known which of these is
    /// dead, or belongs to a tool with the OSD's key, and an order that comes twice counts once.
    fn send_orders(&mut self, effects: &mut Effects) {
        for (osd, message) in std::mem::take(&mut self.orders) {
            let conns = self.sessions.keys().filter(|conn| self.osd_of(**conn) == Some(osd));
            effects.extend(conns.map(|conn| Effect::Send { conn: *conn, tid: 0, message: message.clone() }));
        }
    }

    fn run_command(&mut self, wall: UTime, conn: ConnId, caller: &Caller, input: &Bytes) -> Answer {
        let cmd = caller.cmd();
        let Some(peer) = self.sessions.get(&conn).map(|s| s.peer.clone()) else {
            return Reply::fail(Errno::EACCES, "access denied").into();
        };
        let Some(args) = Args::parse(cmd) else {
            return Reply::fail(Errno::EINVAL, "command not understood").into();
        };
        let prefix = args.prefix();
        if prefix == "get_command_descriptions" {
            return Reply::text(describe(rows())).into();
        }
        let Some(row) = find_row(prefix) else {
            if OBSOLETE.contains(&prefix) {
                return Reply::fail(Errno::EOPNOTSUPP, IS_OBSOLETE).into();
            }
            return modules::refusal(self, prefix, "command not known").into();
        };
        if !self.may_run(&peer, row, &args) {
            return Reply::fail(Errno::EACCES, "access denied").into();
        }
        if self.options.is_deprecated_obsolete && row.is_deprecated() {
            return Reply::fail(Errno::EOPNOTSUPP, IS_OBSOLETE).into();
        }
        Request { mon: self, wall, peer: &peer, args: &args, input, caller: Some(caller) }.run(row, cmd)
    }
}
