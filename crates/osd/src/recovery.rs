//! Recovery as far as the OSD has to do with it: which PG's turn it is, and operators' orders for its PGs.

use messages::{LogLevel, MOSDForceRecovery};
use pg::{Event, GiveUp};
use types::PgId;

use crate::{Osd, ShardMessage, osd::Ctx};

impl Osd {
    /// Gives up the unfound objects of a PG that this OSD leads. Returns what is done, or why it is not, in the words
    /// of `PrimaryLogPG::do_command`.
    pub(crate) fn give_up(&mut self, pgid: PgId, how: GiveUp, ctx: &mut Ctx<'_>) -> Result<String, String> {
        let count = self.pgs.get(pgid).map_or(0, pg::Pg::unfound_count);
        if count == 0 {
            return Ok("pg has no unfound objects".to_owned());
        }
        if !self.pgs.get(pgid).is_some_and(|pg| pg.is_all_probed(&self.map)) {
            return Err(format!(
                "pg has {count} unfound objects but we haven't probed all sources, not marking lost"
            ));
        }
        let line = format!("pg has {count} objects unfound and apparently lost marking");
        self.cluster_log(LogLevel::INFO, line.clone(), ctx);
        self.pg_event(pgid, Event::GiveUp(how), ctx);
        Ok(line)
    }

    /// PGs that waited go on with recovery, as far as something has come to where it was sent.
    pub(crate) fn give_recovery_turns(&mut self, ctx: &mut Ctx<'_>) {
        while let Some((pgid, osd)) = self.recovery_policy.next_turn() {
            self.pg_event(pgid, Event::RecoveryTurn(osd), ctx);
        }
    }

    /// The monitor passes on what an operator wants recovered first, or no more; each shard does so.
    pub(crate) fn distribute_force(&mut self, message: &MOSDForceRecovery, ctx: &mut Ctx<'_>) {
        let of = |pgs| ShardMessage::Force(Box::new(MOSDForceRecovery { pgs, ..message.clone() }));
        self.send_shards_of(&message.pgs, of, ctx);
        self.on_force(message, ctx);
    }

    /// Obeys the order for those PGs of a list that this shard leads.
    pub(crate) fn on_force(&mut self, message: &MOSDForceRecovery, ctx: &mut Ctx<'_>) {
        let MOSDForceRecovery { is_backfill, is_forced, .. } = *message;
        for pgid in &message.pgs {
            self.pg_event(*pgid, Event::ForceRecovery { is_backfill, is_forced }, ctx);
        }
    }
}
