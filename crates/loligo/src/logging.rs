//! Where the log goes: a daemon's `log file` of ceph.conf, else standard error.

use std::{
    fs,
    io::{IsTerminal, stderr},
    path::Path,
    sync::Mutex,
};

use anyhow::{Context, Result};
use tracing_subscriber::EnvFilter;

/// Starts logging to the end of `file`, or to standard error without one. `LOLIGO_LOG` filters, as in
/// `LOLIGO_LOG=debug` or `LOLIGO_LOG=info,osd=debug`.
pub fn start(file: Option<&Path>) -> Result<()> {
    let filter = EnvFilter::try_from_env("LOLIGO_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
    let Some(path) = file else {
        log.with_writer(stderr).with_ansi(stderr().is_terminal()).init();
        return Ok(());
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    let mut options = fs::File::options();
    let file = options.create(true).append(true).open(path);
    let file = file.with_context(|| format!("opening the log {}", path.display()))?;
    log.with_writer(Mutex::new(file)).with_ansi(false).init();
    Ok(())
}
