//! Commands to the monitor, and its answers.

use bytes::Bytes;
use messages::{MMonCommand, MMonCommandAck};
use types::{Instant, Token};

use crate::{Client, CommandReply, Effect, machine::Ctx};

/// A command without its answer.
pub(crate) struct PendingCommand {
    token: Token,
    cmd: String,
    input: Bytes,
}

impl Client {
    /// Starts a command, one JSON document as Ceph's tools make it; `input` is what `-i FILE` gives. Ends
    /// in [`Effect::CommandDone`] with `token`. After a lost monitor session it is sent again.
    pub fn command(
        &mut self,
        now: Instant,
        token: Token,
        cmd: String,
        input: Bytes,
        effects: &mut Vec<Effect>,
    ) {
        let tid = self.take_tid();
        self.commands.insert(tid, PendingCommand { token, cmd, input });
        self.send_command(tid, &mut Ctx { now, effects });
    }

    fn send_command(&self, tid: u64, ctx: &mut Ctx<'_>) {
        // The map tells which cluster this is; the monitor refuses commands for another one.
        let (Some(map), Some(pending)) = (&self.map, self.commands.get(&tid)) else { return };
        let message = MMonCommand {
            fsid: map.fsid,
            cmd: vec![pending.cmd.clone()],
            input: pending.input.clone(),
            ..MMonCommand::default()
        };
        ctx.effects.push(Effect::SendMon(tid, message.into()));
    }

    pub(crate) fn resend_commands(&mut self, ctx: &mut Ctx<'_>) {
        for tid in self.commands.keys() {
            self.send_command(*tid, ctx);
        }
    }

    pub(crate) fn on_command_ack(&mut self, tid: u64, ack: MMonCommandAck, ctx: &mut Ctx<'_>) {
        let Some(pending) = self.commands.remove(&tid) else { return };
        let reply = CommandReply { result: ack.result, status: ack.status, output: ack.output };
        ctx.effects.push(Effect::CommandDone(pending.token, reply));
    }
}
