//! Giving up objects that no OSD can supply, on an operator's order.

use messages::LogLevel;
use pg::{Event, GiveUp};
use types::PgId;

use crate::{Osd, osd::Cx};

impl Osd {
    /// Gives up the unfound objects of a PG that this OSD leads. What is done, or why it is not, in the words of
    /// `PrimaryLogPG::do_command`.
    pub(crate) fn give_up(&mut self, pgid: PgId, how: GiveUp, cx: &mut Cx<'_>) -> Result<String, String> {
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
        self.cluster_log(LogLevel::INFO, line.clone(), cx);
        self.pg_event(pgid, Event::GiveUp(how), cx);
        Ok(line)
    }
}
