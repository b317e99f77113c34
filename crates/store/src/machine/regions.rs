//! Taking in the space map of a store that is opened: records as they are read, in order, a few in memory at a time.

use super::{Mount, MountError, mount::Blobs};
use crate::space::Space;

impl Mount {
    /// Takes in the space map as far as its records are there.
    pub(super) fn open_regions(&mut self, blobs: &mut Blobs) -> Result<(), MountError> {
        let count = Space::region_count(blobs.superblock.area);
        while blobs.is_root_read && blobs.next_region < count {
            let at = blobs.next_region;
            let first = blobs.root.regions.get(at).and_then(|blob| blob.runs.first());
            let record = match first {
                None => None,
                Some(_) => match blobs.regions.remove(&at) {
                    // It is on its way, and keeps a place among those that are read.
                    None => return Ok(()),
                    Some(None) => {
                        // An inspection goes on without a corrupt record: nothing of the region is free.
                        blobs.next_region += 1;
                        continue;
                    }
                    Some(record) => record,
                },
            };
            blobs.next_region += 1;
            if blobs.space.open_region(at as u64, record).is_err() {
                self.corrupt("record of the space map", first.map_or(0, |run| run.start))?;
            }
        }
        Ok(())
    }
}
