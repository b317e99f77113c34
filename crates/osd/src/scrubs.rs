//! Scrubs as the OSD has to do with them: the policy that its PGs share, and who asks for one.

use messages::MOSDScrub;
use pg::{Event, ScrubRequest};
use types::PgId;

use crate::{Cross, Osd, osd::Cx};

impl Osd {
    /// Goes by the options that are in force now.
    pub(crate) fn follow_scrub_options(&mut self) {
        self.scrub_policy.follow(&self.settings);
    }

    /// The monitor passes on what an operator wants; each shard scrubs its PGs.
    pub(crate) fn distribute_scrub(&mut self, message: &MOSDScrub, cx: &mut Cx<'_>) {
        let shard = self.config.shard;
        for other in shard.others() {
            let pgs: Vec<_> =
                message.pgs.iter().filter(|pgid| shard.owner(**pgid, &self.map) == other).copied().collect();
            if !pgs.is_empty() {
                cx.cross(other, Cross::Scrub(Box::new(MOSDScrub { pgs, ..message.clone() })));
            }
        }
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
