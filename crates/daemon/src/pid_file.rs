//! The pid file of a daemon, where ceph.conf asks for one.

use std::{fs, path::PathBuf, process};

use anyhow::{Context, Result};
use types::EntityName;

use crate::ceph_conf::CephConf;

/// A daemon's pid file; it goes when this is dropped.
pub(crate) struct PidFile {
    /// None where there is none.
    path: Option<PathBuf>,
}

impl PidFile {
    /// Writes it.
    pub(crate) fn write(conf: &CephConf, who: &EntityName) -> Result<PidFile> {
        let Some(path) = conf.get(who, "pid file").map(PathBuf::from) else {
            return Ok(PidFile { path: None });
        };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&path, own_line()).with_context(|| path.display().to_string())?;
        Ok(PidFile { path: Some(path) })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Some(path) = &self.path
            // A daemon that was started meanwhile may have its own there.
            && fs::read_to_string(path).is_ok_and(|found| found == own_line())
        {
            // It may be gone already: its folder belongs to the operator.
            let _ = fs::remove_file(path);
        }
    }
}

fn own_line() -> String {
    format!("{}\n", process::id())
}

#[cfg(test)]
mod tests {
    use types::EntityType;

    use super::*;

    #[test]
    fn a_pid_file_goes_with_its_daemon_and_anothers_stays() {
        let dir = std::env::temp_dir().join(format!("loligo-pid-{}", process::id()));
        let text = format!("[global]\npid file = {}/run/$name.pid\n", dir.display());
        let conf = CephConf::parse(&text).unwrap();
        let who = EntityName::new(EntityType::OSD, "0");
        let path = dir.join("run/osd.0.pid");
        let file = PidFile::write(&conf, &who).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), own_line());
        drop(file);
        assert!(!path.exists());
        let file = PidFile::write(&conf, &who).unwrap();
        fs::write(&path, "1\n").unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n");
        drop(PidFile::write(&CephConf::default(), &who).unwrap());
        fs::remove_dir_all(&dir).unwrap();
    }
}
