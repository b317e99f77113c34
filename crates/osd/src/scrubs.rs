//! Scrubs as far as the OSD has to do with them: the policy that its PGs share, and requests for scrubs.

use messages::MOSDScrub;
use pg::{Event, ScrubRequest};
use types::PgId;

use crate::{Cross, Osd, osd::Cx};

impl Osd {
    /// The monitor passes on what an operator wants; each shard scrubs its PGs.
    pub(crate) fn distribute_scrub(&mut self, message: &MOSDScrub, cx: &mut Cx<'_>) {
        let of = |pgs| Cross::Scrub(Box::new(MOSDScrub { pgs, ..message.clone() }));
        self.cross_pgs(&message.pgs, of, cx);
        self.on_scrub(message, cx);
    }

    /// Scrubs those PGs of a list that this shard leads.
    pub(crate) fn on_scrub(&mut self, message: &MOSDScrub, cx: &mut Cx<'_>) {
        let request = ScrubRequest { is_deep: message.is_deep, is_repair: message.is_repair };
        for pgid in &message.pgs {
            self.scrub_pg(*pgid, request, cx);
        }
    }

    pub(crate) fn scrub_pg(&mut self, pgid: PgId, request: ScrubRequest, cx: &mut Cx<'_>) {
        self.pg_event(pgid, Event::Scrub(request), cx);
    }
}
