//! Whether a store's devices are all there and its own.

use std::collections::BTreeMap;

use bytes::Bytes;
use types::Token;

use super::{Mount, MountError, mount::Step};
use crate::{
    DeviceRole, Problem,
    device::BLOCK,
    space::Run,
    superblock::{COPIES, DeviceLabel, Superblock},
};

/// Those that have a label.
const LABELLED: [DeviceRole; 2] = [DeviceRole::Journal, DeviceRole::Index];

impl Mount {
    pub(super) fn read_labels(&mut self, superblock: Superblock) -> Result<Step, MountError> {
        let mut reading = BTreeMap::new();
        for role in LABELLED.into_iter().filter(|role| superblock.has_device(*role)) {
            for block in COPIES {
                let token = self.read(Run { start: role.base_block() + block, count: 1 });
                reading.insert(token, role);
            }
        }
        if reading.is_empty() {
            return self.devices_known(superblock);
        }
        Ok(Step::Labels { superblock: Box::new(superblock), reading, found: Vec::new() })
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
        mut reading: BTreeMap<u64, DeviceRole>,
        mut found: Vec<(DeviceRole, Option<DeviceLabel>)>,
        token: Token,
        data: Option<Bytes>,
    ) -> Result<Step, MountError> {
        if let Some(role) = reading.remove(&token.0) {
            let label = data.and_then(|data| DeviceLabel::from_block(&data));
            if let (Some(findings), None) = (&mut self.findings, &label) {
                findings.problems.push(Problem::Index { what: "label of a device", offset: role.base() });
            }
            found.push((role, label));
        }
        if !reading.is_empty() {
            return Ok(Step::Labels { superblock, reading, found });
        }
        for role in LABELLED.into_iter().filter(|role| superblock.has_device(*role)) {
            let own = DeviceLabel::new(&superblock, role);
            let labels = || found.iter().filter(|(other, _)| *other == role).filter_map(|(_, l)| l.as_ref());
            if !labels().any(|label| *label == own) {
                let owner = labels().next().map(|label| label.osd);
                return Err(MountError::DeviceWrong { role, owner });
            }
        }
        self.devices_known(*superblock)
    }
}
