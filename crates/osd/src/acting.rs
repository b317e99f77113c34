//! What primaries want of the monitor about who acts in their PGs: asked for together, since each answer is a map.

use std::{collections::BTreeMap, time::Duration};

use messages::MOSDPGTemp;
use types::{OsdId, PgId};

use crate::{
    Cross, Effect, Osd,
    osd::{ACTING, Cx},
    shard::CONTROL,
};

/// PGs peer one after the other: so long the first one waits for others.
const GATHER: Duration = Duration::from_millis(20);

/// What is to be asked for. It is gone when it was sent: PGs ask again as long as they have to.
pub(crate) type ActingWanted = BTreeMap<PgId, Vec<OsdId>>;

impl Osd {
    /// A PG wants these to act; nobody where those who are up are to.
    pub(crate) fn want_acting(&mut self, pgid: PgId, osds: Vec<OsdId>, cx: &mut Cx<'_>) {
        if !self.config.shard.is_control() {
            return cx.cross(CONTROL, Cross::WantActing(pgid, osds));
        }
        if self.acting_wanted.is_empty() {
            cx.effects.push(Effect::SetTimer(ACTING, cx.now + GATHER));
        }
        self.acting_wanted.insert(pgid, osds);
    }

    /// Asks the monitor.
    pub(crate) fn send_acting_wanted(&mut self, cx: &mut Cx<'_>) {
        let acting = std::mem::take(&mut self.acting_wanted);
        if !acting.is_empty() {
            let message = MOSDPGTemp { osd: self.config.whoami, acting };
            cx.effects.push(Effect::SendMon(message.into()));
        }
    }
}
