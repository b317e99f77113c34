//! Commands: the table, arguments, permission, and one file for each family.

mod args;
mod auth_db;
mod config;
mod config_key;
mod config_show;
mod config_view;
mod crush_class;
mod crush_map;
mod crush_show;
mod descriptions;
mod df;
mod fs;
mod log;
mod mgr;
mod mon_info;
mod osd_change;
mod osd_df;
mod osd_dump;
mod osd_info;
mod osd_life;
mod osd_lookup;
mod osd_safety;
mod osd_tree;
mod pg;
mod pg_dump;
mod pg_dump_text;
mod ping;
mod pool_autoscale;
mod pool_change;
mod pool_set;
mod pool_show;
mod reply;
mod report;
mod status;
mod status_line;
mod tell;

use auth::{MonAccess, MonCaps};
use bytes::Bytes;
use messages::{MCommand, MCommandReply, MMonCommand, MMonCommandAck, Message, PaxosHeader};
use types::{EntityType, Errno, OsdMap, UTime};

use crate::{ConnId, Effect, Effects, Mon, Peer, mon::Answer, state::State};

pub(crate) use args::Args;
pub(crate) use descriptions::{Row, all as describe};
pub(crate) use ping::pong;
pub(crate) use reply::Reply;

/// A command as its function sees it.
pub(crate) struct Request<'a> {
    pub(crate) mon: &'a mut Mon,
    pub(crate) wall: UTime,
    /// Who asks.
    pub(crate) peer: &'a Peer,
    pub(crate) args: &'a Args,
    /// What `-i FILE` gave.
    pub(crate) input: &'a Bytes,
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
}

/// What a command does.
pub(crate) type Run = fn(&mut Request<'_>) -> Reply;

/// All rows, family by family.
pub(crate) fn rows() -> impl Iterator<Item = &'static Row> {
    [
        status::ROWS,
        df::ROWS,
        fs::ROWS,
        mon_info::ROWS,
        mgr::ROWS,
        log::ROWS,
        report::ROWS,
        config::ROWS,
        config_view::ROWS,
        config_show::ROWS,
        config_key::ROWS,
        auth_db::ROWS,
        osd_info::ROWS,
        osd_dump::ROWS,
        osd_tree::ROWS,
        osd_df::ROWS,
        osd_change::ROWS,
        osd_life::ROWS,
        osd_lookup::ROWS,
        osd_safety::ROWS,
        pool_autoscale::ROWS,
        pool_change::ROWS,
        pool_set::ROWS,
        pool_show::ROWS,
        crush_map::ROWS,
        crush_class::ROWS,
        crush_show::ROWS,
        pg::ROWS,
        pg_dump::ROWS,
    ]
    .into_iter()
    .flatten()
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
        let (reply, is_change) = self.run_command(wall, conn, &command.cmd, &command.input);
        let ack = MMonCommandAck {
            header: PaxosHeader::new(u64::from(self.committed.osdmap.epoch.0)),
            result: reply.result,
            status: reply.status,
            cmd: command.cmd,
            output: reply.output,
        };
        self.answer(Answer { conn, tid, message: ack.into() }, is_change, effects);
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
        let message: Message =
            MCommandReply { result: reply.result, status: reply.status, output: reply.output }.into();
        effects.push(Effect::Send { conn, tid, message });
    }

    fn answer(&mut self, answer: Answer, is_change: bool, effects: &mut Effects) {
        if is_change {
            self.answer_when_committed(answer, effects);
        } else {
            effects.push(Effect::Send { conn: answer.conn, tid: answer.tid, message: answer.message });
        }
    }

    /// Runs a command; true when its answer must wait for the ledger.
    fn run_command(&mut self, wall: UTime, conn: ConnId, cmd: &[String], input: &Bytes) -> (Reply, bool) {
        let Some(peer) = self.sessions.get(&conn).map(|s| s.peer.clone()) else {
            return (Reply::fail(Errno::EACCES, "access denied"), false);
        };
        let Some(args) = Args::parse(cmd) else {
            return (Reply::fail(Errno::EINVAL, "command not understood"), false);
        };
        let prefix = args.prefix().to_owned();
        if prefix == "get_command_descriptions" {
            return (Reply::text(describe(rows())), false);
        }
        let Some(row) = find_row(&prefix) else {
            return (Reply::fail(Errno::EINVAL, "command not known"), false);
        };
        if !self.may_run(&peer, row, &args, "mon") {
            return (Reply::fail(Errno::EACCES, "access denied"), false);
        }
        if let Err(text) = row.check(&args) {
            return (Reply::fail(Errno::EINVAL, text), false);
        }
        if row.is_change() {
            tracing::info!(target: "audit", "{} {}: {}", peer.name, peer.addr, cmd.join(" "));
        }
        (self.run_row(row, wall, &peer, &args, input), row.is_change())
    }

    /// Runs a command whose sender may and whose arguments fit.
    pub(crate) fn run_row(
        &mut self,
        row: &Row,
        wall: UTime,
        peer: &Peer,
        args: &Args,
        input: &Bytes,
    ) -> Reply {
        (row.run)(&mut Request { mon: self, wall, peer, args, input })
    }

    /// True when the peer's capabilities on `service` allow the command.
    pub(crate) fn may_run(&self, peer: &Peer, row: &Row, args: &Args, service: &str) -> bool {
        let arguments = args.texts();
        let access = MonAccess {
            service: row.module,
            command: row.prefix_text(),
            arguments: &arguments,
            read: row.perm.contains('r'),
            write: row.perm.contains('w'),
            execute: row.perm.contains('x'),
        };
        MonCaps::parse(&self.caps_of(peer, service)).is_ok_and(|caps| caps.at(peer.ip()).allows(&access))
    }

    /// True for those whose capabilities on monitors leave nothing out.
    pub(crate) fn may_do_everything(&self, peer: &Peer) -> bool {
        let arguments = std::collections::BTreeMap::new();
        let access = MonAccess {
            service: "mon",
            command: "tell",
            arguments: &arguments,
            read: true,
            write: true,
            execute: true,
        };
        MonCaps::parse(&self.caps_of(peer, "mon")).is_ok_and(|caps| caps.at(peer.ip()).allows(&access))
    }

    /// The capability text of a peer on a service, as the database has it at this moment.
    pub(crate) fn caps_of(&self, peer: &Peer, service: &str) -> String {
        if peer.name.kind == EntityType::MON {
            return "allow *".to_owned();
        }
        match self.committed.entities.get(&peer.name) {
            Some(entity) => entity.caps.get(service).cloned().unwrap_or_default(),
            None if self.options.is_auth_none => "allow *".to_owned(),
            None => String::new(),
        }
    }
}
