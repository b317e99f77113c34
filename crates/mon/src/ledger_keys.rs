//! Keys of the ledger. Numbers in keys have leading zeros, so that the order of keys is theirs.

use types::{EntityName, EntityType, Epoch, OsdId, PoolId};

pub(crate) const MONMAP: &str = "monmap";
pub(crate) const OSDMAP_FULL: &str = "osdmap_full";
pub(crate) const OSDMAP_INC: &str = "osdmap_inc";
pub(crate) const AUTH: &str = "auth";
pub(crate) const PENDING_KEYS: &str = "auth_pending";
pub(crate) const ROTATING: &str = "rotating";
pub(crate) const GLOBAL_ID: &str = "global_id";
pub(crate) const CONFIG: &str = "config";
pub(crate) const CONFIG_KEY: &str = "config-key";
pub(crate) const LOG: &str = "log";
pub(crate) const OSD_METADATA: &str = "osd_metadata";
pub(crate) const CREATING: &str = "creating";
pub(crate) const REMOVED_SNAPS: &str = "removed_snaps";
pub(crate) const MUTES: &str = "mutes";
pub(crate) const MGR_MODULES: &str = "mgr_modules";
pub(crate) const MGR_EPOCH: &str = "mgr_epoch";

/// The epoch at the end of a map's key.
pub(crate) fn epoch(text: &str) -> Option<Epoch> {
    text.parse().ok().map(Epoch)
}

pub(crate) fn osdmap_full(epoch: Epoch) -> String {
    format!("{OSDMAP_FULL}/{:010}", epoch.0)
}

pub(crate) fn osdmap_inc(epoch: Epoch) -> String {
    format!("{OSDMAP_INC}/{:010}", epoch.0)
}

pub(crate) fn auth(name: &EntityName) -> String {
    format!("{AUTH}/{name}")
}

pub(crate) fn pending_key(name: &EntityName) -> String {
    format!("{PENDING_KEYS}/{name}")
}

pub(crate) fn rotating(service: EntityType) -> String {
    format!("{ROTATING}/{}", service.as_str())
}

/// An option of the configuration database: `key` is `config/WHO/NAME` both here and for clients.
pub(crate) fn is_config(key: &str) -> bool {
    key.strip_prefix(CONFIG).is_some_and(|rest| rest.starts_with('/'))
}

pub(crate) fn config_key(key: &str) -> String {
    format!("{CONFIG_KEY}/{key}")
}

pub(crate) fn log(seq: u64) -> String {
    format!("{LOG}/{seq:020}")
}

pub(crate) fn osd_metadata(osd: OsdId) -> String {
    format!("{OSD_METADATA}/{osd}")
}

pub(crate) fn creating(pool: PoolId) -> String {
    format!("{CREATING}/{pool}")
}

pub(crate) fn removed_snaps(pool: PoolId) -> String {
    format!("{REMOVED_SNAPS}/{pool}")
}

pub(crate) fn mute(code: &str) -> String {
    format!("{MUTES}/{code}")
}
