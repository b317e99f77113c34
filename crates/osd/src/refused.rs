//! OSDs that have said what cannot be so. It is as if their sessions were stuck with a message that does not decode:
//! nothing more of it reaches a PG of this shard, and the monitor is told again and again, until a map says something
//! new of the sender.

use std::collections::BTreeMap;

use pg::Nonsense;
use types::{Epoch, OsdId};

use crate::{Osd, osd::Ctx};

/// The lives, by when each began, of which nothing more is heard.
#[derive(Debug, Default)]
pub(crate) struct Refused(BTreeMap<OsdId, Epoch>);

impl Osd {
    /// Nothing more is to be heard of an OSD, in its present life.
    pub(crate) fn refuse_osd(&mut self, osd: OsdId, nonsense: Nonsense, ctx: &mut Ctx<'_>) {
        tracing::error!(osd = osd.0, %nonsense, "an OSD says what cannot be so: nothing more of it is heard");
        self.refused.0.insert(osd, self.map.up_from(osd));
        self.report_refused(ctx);
    }

    /// True if nothing is to be heard of the OSD.
    pub(crate) fn is_refused(&self, osd: OsdId) -> bool {
        self.refused.0.get(&osd).is_some_and(|life| *life == self.map.up_from(osd))
    }

    /// Has the monitor mark those down that are refused: what waits for their answers, or for ours, does not go on
    /// before.
    pub(crate) fn report_refused(&mut self, ctx: &mut Ctx<'_>) {
        let map = &self.map;
        self.refused.0.retain(|osd, life| map.up_from(*osd) == *life);
        let refused = self.refused.0.iter().map(|(osd, life)| (*osd, *life));
        for life in refused.filter(|(osd, _)| map.is_up(*osd)).collect::<Vec<_>>() {
            self.on_unreachable_osd(life, true, ctx);
        }
    }
}
