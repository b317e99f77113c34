//! The pid file of a daemon, where ceph.conf asks for one.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};
use types::EntityName;

use crate::ceph_conf::CephConf;

fn path(conf: &CephConf, who: &EntityName) -> Option<PathBuf> {
    conf.get(who, "pid file").map(PathBuf::from)
}

/// Writes it.
pub(crate) fn write(conf: &CephConf, who: &EntityName) -> Result<()> {
    let Some(path) = path(conf, who) else { return Ok(()) };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&path, format!("{}\n", std::process::id())).with_context(|| path.display().to_string())
}

/// Removes it.
pub(crate) fn remove(conf: &CephConf, who: &EntityName) {
    if let Some(path) = path(conf, who) {
        // It may be gone already: its folder belongs to the operator.
        let _ = fs::remove_file(path);
    }
}
