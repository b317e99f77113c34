//! Where an incremental does not lead to the map that the monitor has, or a full map is not what it was sent as, that
//! map is asked for as a whole.

use std::time::Duration;

use messages::MMonGetOSDMap;
use types::{Epoch, Instant};

use crate::{Effect, Osd, ShardMessage, osd::Ctx, shard::CONTROL};

/// Between two requests for the same map: one that is as bad as its incremental must not be asked for at once.
const PATIENCE: Duration = Duration::from_secs(5);

/// The map that the next step has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WholeMap {
    epoch: Epoch,
    /// When to ask for it, again.
    due: Instant,
}

impl WholeMap {
    /// True if `newest` needs it no more, or if the monitor, whose oldest map this is, has it no more.
    pub(crate) fn is_over(self, newest: Epoch, oldest: Epoch) -> bool {
        newest >= self.epoch || oldest > self.epoch
    }
}

impl Osd {
    /// The map of `epoch` cannot be had from what was sent.
    pub(crate) fn want_whole_map(&mut self, epoch: Epoch, ctx: &mut Ctx<'_>) {
        if self.whole_map.is_none_or(|wanted| wanted.epoch != epoch) {
            self.whole_map = Some(WholeMap { epoch, due: ctx.now });
        }
        self.ask_for_whole_map(ctx);
    }

    /// Asks for the map that is wanted, if it is time.
    pub(crate) fn ask_for_whole_map(&mut self, ctx: &mut Ctx<'_>) {
        let is_control = self.config.shard.is_control();
        let Some(wanted) = self.whole_map.as_mut().filter(|wanted| ctx.now >= wanted.due) else { return };
        if !is_control {
            ctx.send_shard(CONTROL, ShardMessage::WantWholeMap(wanted.epoch));
        } else if self.has_mon {
            ctx.effects.push(Effect::SendMon(MMonGetOSDMap::whole(wanted.epoch).into()));
        } else {
            return;
        }
        wanted.due = ctx.now + PATIENCE;
    }

    /// The control shard has every map that it passed on.
    pub(crate) fn on_want_whole_map(&self, from: u16, epoch: Epoch, ctx: &mut Ctx<'_>) {
        if epoch <= self.map.epoch {
            let map = self.one_map(epoch, ctx);
            ctx.send_shard(from, ShardMessage::Maps(Box::new(map)));
        }
    }
}
