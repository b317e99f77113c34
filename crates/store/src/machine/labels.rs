//! Whether a store's devices are all there and its own, as the labels on them say. A copy of a label that is none, or
//! another store's, is written again.

use std::collections::BTreeMap;

use bytes::Bytes;
use types::Token;

use super::{Mount, MountError, Store, mount::Step, pages::READS_MAX};
use crate::{
    DeviceError, DeviceRole, Problem,
    device::{BLOCK, spot},
    space::Run,
    superblock::{COPIES, DeviceLabel, Superblock},
};

/// Those that have a label.
const LABELLED: [DeviceRole; 2] = [DeviceRole::Journal, DeviceRole::Index];

/// One of the two copies of a device's label.
#[derive(Clone, Copy, Debug)]
pub(super) struct LabelPlace {
    role: DeviceRole,
    /// Of all blocks of all devices.
    block: u64,
}

impl Mount {
    pub(super) fn read_labels(&mut self, superblock: Superblock) -> Result<Step, MountError> {
        let mut reading = BTreeMap::new();
        for role in LABELLED.into_iter().filter(|role| superblock.has_device(*role)) {
            for block in COPIES {
                let place = LabelPlace { role, block: role.base_block() + block };
                reading.insert(self.read_label(place), (place, 1));
            }
        }
        if reading.is_empty() {
            return self.devices_known(superblock);
        }
        Ok(Step::Labels { superblock: Box::new(superblock), reading, found: Vec::new() })
    }

    fn read_label(&mut self, place: LabelPlace) -> u64 {
        self.read(Run { start: place.block, count: 1 })
    }

    /// The devices are as many as they were and not smaller.
    pub(super) fn check_sizes(&self, superblock: &Superblock) -> Result<(), MountError> {
        for role in DeviceRole::ALL {
            let needed = match role {
                DeviceRole::Main => superblock.device_bytes,
                DeviceRole::Journal => superblock.journal.end() * BLOCK,
                DeviceRole::Index => superblock.index_area.end() * BLOCK,
            };
            match (self.sizes.get(role), superblock.has_device(role)) {
                (None, true) => return Err(MountError::DeviceMissing { role }),
                (Some(_), false) => return Err(MountError::DeviceUnused { role }),
                (Some(found), true) if found < needed - role.base() => {
                    return Err(MountError::DeviceSize { role, expected: needed - role.base(), found });
                }
                (Some(_), true) | (None, false) => {}
            }
        }
        Ok(())
    }

    pub(super) fn label_read(
        &mut self,
        superblock: Box<Superblock>,
        mut reading: BTreeMap<u64, (LabelPlace, u32)>,
        mut found: Vec<(LabelPlace, Option<DeviceLabel>)>,
        (token, result): (Token, Result<Option<Bytes>, DeviceError>),
    ) -> Result<Step, MountError> {
        if let Some((place, reads)) = reading.remove(&token.0) {
            let label = result.ok().flatten().and_then(|data| DeviceLabel::from_block(&data));
            if label.is_none() && reads < READS_MAX {
                let at = spot(place.block * BLOCK);
                tracing::warn!(at, reads, "what is read of a device's label is none; it is read again");
                reading.insert(self.read_label(place), (place, reads + 1));
                return Ok(Step::Labels { superblock, reading, found });
            }
            found.push((place, label));
        }
        if !reading.is_empty() {
            return Ok(Step::Labels { superblock, reading, found });
        }
        for role in LABELLED.into_iter().filter(|role| superblock.has_device(*role)) {
            let own = DeviceLabel::new(&superblock, role);
            let copies = || found.iter().filter(|(place, _)| place.role == role);
            let mut labels = copies().filter_map(|(_, label)| label.as_ref());
            if !labels.clone().any(|label| *label == own) {
                let owner = labels.next().map(|label| label.osd);
                return Err(MountError::DeviceWrong { role, owner });
            }
            for (place, label) in copies().filter(|(_, label)| label.as_ref() != Some(&own)) {
                self.note_bad_label(*place, label.as_ref());
            }
        }
        self.devices_known(*superblock)
    }

    /// One copy of a label is not this store's, and the other one is. If it is another store's, that one had the device
    /// before, or was never made to its end: both copies are written before any superblock. This mount writes to the
    /// device in any case, and a copy that says otherwise would let the other store do so, too.
    fn note_bad_label(&mut self, place: LabelPlace, label: Option<&DeviceLabel>) {
        let offset = place.block * BLOCK;
        match label {
            Some(other) => {
                tracing::warn!(
                    at = spot(offset),
                    osd = other.osd,
                    "a copy of a device's label is another store's"
                );
            }
            None => tracing::warn!(at = spot(offset), "a copy of a device's label is damaged"),
        }
        if let Some(findings) = &mut self.findings {
            findings.problems.push(Problem::Index { what: "label of a device", offset });
        }
        self.bad_labels.push(place);
    }

    /// Writes bad copies of labels again, when the store is known to be sound.
    pub(super) fn relabel(&mut self, store: Box<Store>) -> Step {
        let places = std::mem::take(&mut self.bad_labels);
        for place in &places {
            self.write(place.block, &DeviceLabel::new(&store.superblock, place.role).to_block());
        }
        if places.is_empty() { self.labelled(store) } else { Step::Relabel { store, left: places.len() } }
    }

    /// Without that copy the store is as it was, so a mount goes on.
    pub(super) fn label_written(
        &mut self,
        store: Box<Store>,
        left: usize,
        result: Result<Option<Bytes>, DeviceError>,
    ) -> Step {
        if let Err(error) = result {
            tracing::warn!(%error, "a copy of a device's label cannot be written");
        }
        if left > 1 { Step::Relabel { store, left: left - 1 } } else { self.labelled(store) }
    }
}
