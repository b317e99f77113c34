//! What an operator changes of where copies are: how many there are, which OSDs lead, and which ones have a PG.

use rand::{Rng, seq::IndexedRandom};
use types::{OsdId, PgId};

use crate::world::{POOL, World};

impl World {
    /// Another order at random.
    pub(crate) fn place_anew(&mut self) {
        match self.rng.random_range(0..3) {
            0 => self.set_size(),
            1 => self.set_affinity(),
            _ => self.set_upmap(),
        }
    }

    /// As many copies as take writes with the number that takes them now: what an acknowledged change is on at least
    /// stays so.
    fn set_size(&mut self) {
        let sizes = if self.options.copies.is_some() { [1, 2] } else { [3, 4] };
        let size = *sizes.choose(&mut self.rng).unwrap_or(&sizes[0]);
        if size <= self.osds.len() {
            self.note(format!("the pool is to have {size} copies"));
            self.command(format!(
                r#"{{"prefix":"osd pool set","pool":"{POOL}","var":"size","val":"{size}","yes_i_really_mean_it":true}}"#
            ));
        }
    }

    /// An OSD leads fewer PGs, none, or as many as any.
    fn set_affinity(&mut self) {
        let id = self.rng.random_range(0..self.osds.len());
        let weight = *[0.0, 0.3, 1.0].choose(&mut self.rng).unwrap_or(&1.0);
        if !self.is_known(id) {
            return;
        }
        self.note(format!("osd.{id} has the primary affinity {weight}"));
        self.command(format!(r#"{{"prefix":"osd primary-affinity","id":"{id}","weight":{weight}}}"#));
    }

    /// False for an OSD that was purged, or may be by the time when an order comes.
    fn is_known(&self, id: usize) -> bool {
        !self.is_removed(id) && self.osdmap().is_some_and(|map| map.exists(OsdId(id as i32)))
    }

    /// A copy moves to an OSD that has none: of the PG that no merge takes away.
    fn set_upmap(&mut self) {
        let Some(map) = self.osdmap() else { return };
        let Some((pool, _)) = map.pool_by_name(POOL) else { return };
        let pgid = PgId::new(pool, 0);
        let up = map.pg_to_up_acting(pgid).up;
        let others = (0..self.osds.len()).filter(|id| self.is_known(*id)).map(|id| OsdId(id as i32));
        let others: Vec<OsdId> = others.filter(|osd| !up.contains(osd)).collect();
        if let (Some(from), Some(to)) = (up.choose(&mut self.rng), others.choose(&mut self.rng))
            && from.is_some()
        {
            self.note(format!("a copy of {pgid} moves from osd.{} to osd.{}", from.0, to.0));
            let ids = format!(r#"["{}","{}"]"#, from.0, to.0);
            self.command(format!(r#"{{"prefix":"osd pg-upmap-items","pgid":"{pgid}","id":{ids}}}"#));
        }
    }
}
