//! Scrubs as far as the OSD has to do with them: the policy that its PGs share, and requests for scrubs.

use messages::MOSDScrub;
use pg::{Event, ScrubRequest};
use types::PgId;

use crate::{Osd, ShardMessage, osd::Ctx};

impl Osd {
    /// The monitor passes on what an operator wants; each shard scrubs its PGs.
    pub(crate) fn distribute_scrub(&mut self, message: &MOSDScrub, ctx: &mut Ctx<'_>) {
        let of = |pgs| ShardMessage::Scrub(Box::new(MOSDScrub { pgs, ..message.clone() }));
        self.send_shards_of(&message.pgs, of, ctx);
        self.on_scrub(message, ctx);
    }

    /// Scrubs those PGs of a list that this shard leads.
    pub(crate) fn on_scrub(&mut self, message: &MOSDScrub, ctx: &mut Ctx<'_>) {
        let request = ScrubRequest { is_deep: message.is_deep, is_repair: message.is_repair };
        for pgid in &message.pgs {
            self.scrub_pg(*pgid, request, ctx);
        }
    }

    pub(crate) fn scrub_pg(&mut self, pgid: PgId, request: ScrubRequest, ctx: &mut Ctx<'_>) {
        self.pg_event(pgid, Event::Scrub(request), ctx);
    }
}
