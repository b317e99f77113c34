//! Asks the monitor over and over with stock librados, in one process: `ceph` takes a third of a second of CPU time to
//! start, which what is waited for may need.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Stdio},
    time::Duration,
};

use serde_json::Value;

use super::{in_client_root, limited};

/// Answers each line, which is a command's prefix, with a line: what the monitor says, or nothing if it does not answer
/// or refuses. There may be no cluster yet, or no monitor.
const SCRIPT: &str = r#"
import json, os, rados, sys
patience = {"client_mount_timeout": "2", "mon_client_hunt_interval": "0.5", "rados_mon_op_timeout": "5"}
cluster = None
for line in sys.stdin:
    said = ""
    try:
        if cluster is None:
            new = rados.Rados(conffile=os.environ["CEPH_CONF"], conf=patience)
            new.connect()
            cluster = new
        command = {"prefix": line.strip(), "format": "json"}
        code, out, _ = cluster.mon_command(json.dumps(command), b"")
        said = out.decode() if code == 0 else ""
    except rados.Error:
        pass
    print(said.replace("\n", " "), flush=True)
"#;

/// The process; it ends when this is dropped.
pub(super) struct Asking(Child);

impl Asking {
    /// For the cluster in the folder `dir`, and no longer than `limit`.
    pub(super) fn start(dir: &Path, limit: Duration) -> Asking {
        let seconds = limit.as_secs().to_string();
        let mut command = in_client_root(dir, &limited(&seconds, &["/usr/bin/python3", "-c", SCRIPT]));
        Asking(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// What the monitor says to a command without arguments, such as `osd stat`; none if it does not.
    pub(super) fn ask(&mut self, prefix: &str) -> Option<Value> {
        writeln!(self.0.stdin.as_mut()?, "{prefix}").ok()?;
        let mut said = String::new();
        // It says nothing without being asked, so that none of it is read ahead and lost.
        BufReader::new(self.0.stdout.as_mut()?).read_line(&mut said).ok()?;
        serde_json::from_str(&said).ok()
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        // The end of what is asked ends it, and its limit if it waits for the monitor.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
