//! Requests of primaries that the monitor have certain OSDs act in their PGs: sent together, since each answer is a
//! map.

use std::{collections::BTreeMap, time::Duration};

use messages::MOSDPGTemp;
use types::{OsdId, PgId};

use crate::{
    Effect, Osd, ShardMessage,
    osd::{ACTING, Ctx},
    shard::CONTROL,
};

/// How long the first request waits for others, as PGs peer one after the other.
const GATHER: Duration = Duration::from_millis(20);

/// Requests to be sent. They are forgotten once they are sent: PGs ask again as long as they have to.
pub(crate) type ActingWanted = BTreeMap<PgId, Vec<OsdId>>;

impl Osd {
    /// A PG wants these OSDs to act; `osds` is empty if those that are up are to act.
    pub(crate) fn want_acting(&mut self, pgid: PgId, osds: Vec<OsdId>, ctx: &mut Ctx<'_>) {
        if !self.config.shard.is_control() {
            return ctx.send_shard(CONTROL, ShardMessage::WantActing(pgid, osds));
        }
        if self.acting_wanted.is_empty() {
            ctx.effects.push(Effect::SetTimer(ACTING, ctx.now + GATHER));
        }
        self.acting_wanted.insert(pgid, osds);
    }

    /// Asks the monitor.
    pub(crate) fn send_acting_wanted(&mut self, ctx: &mut Ctx<'_>) {
        let acting = std::mem::take(&mut self.acting_wanted);
        if !acting.is_empty() {
            let message = MOSDPGTemp { osd: self.config.whoami, acting };
            ctx.effects.push(Effect::SendMon(message.into()));
        }
    }
}
