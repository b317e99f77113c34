//! The versions of the objects that a copy holds, read from the index for an activation, a few at a time.

use std::collections::BTreeMap;

use store::{NotCached, ObjectStore};
use types::{EVersion, HObject};

use crate::{
    Pg,
    exec::{Kept, info_at},
};

/// Objects listed at once in a scan.
const SCAN_STEP: usize = 64;
/// Objects looked up at once.
const LOOKUPS_MAX: usize = 16;

/// Versions of objects that are here, as far as they were read.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    known: BTreeMap<HObject, EVersion>,
    /// How far a scan of all objects is: those before are known.
    scanned: Option<HObject>,
    is_scanned: bool,
    has_grown: bool,
}

impl Versions {
    fn learn(&mut self, object: HObject, version: EVersion) {
        self.known.insert(object, version);
        self.has_grown = true;
    }

    /// True if versions were learned since the last call.
    pub(crate) fn take_grown(&mut self) -> bool {
        std::mem::take(&mut self.has_grown)
    }
}

/// The version of an object at hand; zero without one, or where what is kept with it cannot be decoded: a good copy is
/// to take its place.
///
/// # Errors
/// When it has to be loaded first.
pub fn object_version(
    store: &dyn ObjectStore,
    coll: types::CollId,
    object: &HObject,
) -> Result<EVersion, NotCached> {
    Ok(match info_at(store, coll, object)? {
        Kept::Known(info) => info.version,
        Kept::Absent => EVersion::ZERO,
        Kept::Undecodable => {
            tracing::error!(%object, "the version of an object cannot be decoded");
            EVersion::ZERO
        }
    })
}

impl Pg {
    /// What was read is of one moment.
    pub(crate) fn forget_versions(&mut self) {
        self.versions = Versions::default();
    }

    /// The version of an object here, as a scan or a look-up found it; zero without one.
    pub(crate) fn known_version(&self, object: &HObject) -> EVersion {
        self.versions.known.get(object).copied().unwrap_or(EVersion::ZERO)
    }

    /// All objects that a scan found.
    pub(crate) fn known_objects(&self) -> impl Iterator<Item = (&HObject, &EVersion)> {
        self.versions.known.iter()
    }

    /// Learns the versions of all objects of the PG that this copy holds.
    pub(crate) fn scan_objects(&mut self, store: &dyn ObjectStore) -> Result<(), Vec<NotCached>> {
        let (coll, pool) = (self.coll, self.pgid.pool);
        let versions = &mut self.versions;
        while !versions.is_scanned {
            let from = versions.scanned.clone().unwrap_or_else(HObject::min);
            let objects = store.list(coll, &from, SCAN_STEP).map_err(|missing| vec![missing])?;
            let is_last = objects.len() < SCAN_STEP;
            for object in objects {
                let next = object.with_snap(types::SnapId(object.snap.0.saturating_add(1)));
                if object.pool == pool {
                    let version = object_version(store, coll, &object).map_err(|missing| vec![missing])?;
                    versions.learn(object, version);
                }
                versions.scanned = Some(next);
            }
            versions.is_scanned = is_last;
        }
        Ok(())
    }

    /// Learns the versions of some objects.
    pub(crate) fn look_up<'a>(
        &mut self,
        objects: impl IntoIterator<Item = &'a HObject>,
        store: &dyn ObjectStore,
    ) -> Result<(), Vec<NotCached>> {
        let coll = self.coll;
        let versions = &mut self.versions;
        let mut lacking = Vec::new();
        for object in objects {
            if versions.known.contains_key(object) {
                continue;
            }
            match object_version(store, coll, object) {
                Ok(version) => versions.learn(object.clone(), version),
                Err(missing) => lacking.push(missing),
            }
            if lacking.len() == LOOKUPS_MAX {
                break;
            }
        }
        if lacking.is_empty() { Ok(()) } else { Err(lacking) }
    }
}
