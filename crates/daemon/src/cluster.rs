//! A cluster's folder as all its daemons see it: names, pid files, logs.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use rand::{Rng, rngs::StdRng};
use types::{EntityName, EntityType};

use crate::ceph_conf::CephConf;

/// A new uuid, version 4.
pub(crate) fn new_uuid(rng: &mut StdRng) -> [u8; 16] {
    let mut bytes: [u8; 16] = rng.random();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}

/// The usual form of a uuid.
pub(crate) fn format_uuid(bytes: &[u8; 16]) -> String {
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Reads the usual form.
pub(crate) fn parse_uuid(text: &str) -> Result<[u8; 16]> {
    let hex: String = text.chars().filter(|c| *c != '-').collect();
    let bytes: Option<Vec<u8>> =
        (0..hex.len() / 2).map(|i| u8::from_str_radix(hex.get(2 * i..2 * i + 2)?, 16).ok()).collect();
    bytes.and_then(|b| b.try_into().ok()).with_context(|| format!("{text} is not a uuid"))
}

/// The machine's name; `localhost` for one that was given none, as no bucket of a CRUSH map can have Linux's `(none)`.
pub(crate) fn hostname() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" | "(none)" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}

fn pid_path(conf: &CephConf, who: &EntityName) -> Option<PathBuf> {
    conf.get(who, "pid file").map(PathBuf::from)
}

/// Where the daemon logs to, if its ceph.conf says.
pub fn log_file(kind: &str, id: &str, conf_path: &Path) -> Result<Option<PathBuf>> {
    let kind = if kind == "mon" { EntityType::MON } else { EntityType::OSD };
    Ok(CephConf::read(conf_path)?.get(&EntityName::new(kind, id), "log file").map(PathBuf::from))
}

/// Writes the pid file, if one is configured.
pub(crate) fn write_pid(conf: &CephConf, who: &EntityName) -> Result<()> {
    let Some(path) = pid_path(conf, who) else { return Ok(()) };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&path, format!("{}\n", std::process::id())).with_context(|| path.display().to_string())
}

/// Removes it.
pub(crate) fn remove_pid(conf: &CephConf, who: &EntityName) {
    if let Some(path) = pid_path(conf, who) {
        // It may be gone already: its folder belongs to the operator.
        let _ = fs::remove_file(path);
    }
}

/// What `client.admin` may do.
pub(crate) fn operator_caps() -> BTreeMap<String, String> {
    ["mds", "mgr", "mon", "osd"].map(|service| (service.to_owned(), "allow *".to_owned())).into()
}

/// As many reactors as an OSD gets by itself, on a machine with so many CPUs and OSDs: half of the CPUs are
/// for the kernel, the network and clients.
pub(crate) fn reactors_for(cpus: usize, osds: usize) -> u16 {
    let share = cpus / (2 * osds.max(1));
    let power = share.checked_ilog2().unwrap_or(0);
    1 << power.min(REACTORS_DEFAULT_MAX.ilog2())
}

/// A guess: nobody has measured on an NVMe device from how many reactors on more are of no use to it.
const REACTORS_DEFAULT_MAX: u16 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_machines_have_one_reactor_for_each_osd() {
        let found = [(2, 3), (1, 1), (4, 1), (16, 4), (64, 4), (256, 2)].map(|(c, o)| reactors_for(c, o));
        assert_eq!(found, [1, 1, 2, 2, 8, 8]);
    }
}
