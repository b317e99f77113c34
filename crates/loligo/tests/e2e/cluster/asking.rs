//! Asks daemons over and over with stock librados, in one process: `ceph` takes a third of a second of CPU time to
//! start, which what is waited for may need.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use super::{Ran, in_client_root, limited};

/// Answers each line, a command's words and the format that is wanted, with a line: an errno, and what is said. There
/// may be no cluster yet, or no monitor. Words are read by the module of `ceph` itself, and only by what begins like
/// them: it takes 0.1 s to compare them with all commands.
const SCRIPT: &str = r#"
import json, os, sys, ceph_argparse, rados
options = json.loads(sys.argv[1])
cluster, known = None, {}

def begins(sig, words):
    fixed = [(arg.instance.prefix, word) for arg, word in zip(sig, words) if arg.t is ceph_argparse.CephPrefix]
    return all(one == other for one, other in fixed)

def ask(words, format):
    target = ceph_argparse.find_cmd_target(words)
    if words[0] == "tell":
        words = words[2:]
    if target[0] != "mon":
        # By a map of long ago, librados might ask an OSD that is dead, and go on trying.
        cluster.wait_for_latest_osdmap()
    if target not in known:
        code, out, err = ceph_argparse.json_command(cluster, target=target, prefix="get_command_descriptions")
        if code != 0:
            return code, b"", err
        known[target] = ceph_argparse.parse_json_funcsigs(out.decode(), "cli")
    alike = {tag: row for tag, row in known[target].items() if begins(row["sig"], words)}
    command = ceph_argparse.validate_command(alike, words)
    if not command:
        return -22, b"", "invalid command"
    return ceph_argparse.json_command(cluster, target=target, argdict=dict(command, **format))

for line in sys.stdin:
    try:
        if cluster is None:
            new = rados.Rados(conffile=os.environ["CEPH_CONF"], conf=options)
            new.connect()
            cluster = new
        code, out, err = ask(*json.loads(line))
        said = [abs(code), out.decode(), err and err + "\n"]
    except rados.Error as error:
        said = [error.errno or 5, "", str(error)]
    print(json.dumps(said), flush=True)
"#;

/// Of who looks again soon.
pub(super) const IMPATIENT: &str =
    r#"{"client_mount_timeout": "2", "mon_client_hunt_interval": "0.5", "rados_mon_op_timeout": "5"}"#;

/// Of who looks once.
pub(super) const PATIENT: &str = "{}";

/// Means nothing to a shell.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || " ._:/@=-".contains(c)
}

/// The process; it ends when this is dropped.
pub(super) struct Asking {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Asking {
    /// For the cluster in the folder `dir`, with options of its own, and no longer than `limit`.
    pub(super) fn start(dir: &Path, options: &str, limit: Duration, log: File) -> Asking {
        let seconds = limit.as_secs().to_string();
        let mut command =
            in_client_root(dir, &limited(&seconds, &["/usr/bin/python3", "-c", SCRIPT, options]));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Asking { child, said }
    }

    /// Ends it, whatever it waits for.
    pub(super) fn kill(self) {
        // `timeout` passes it on.
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
    }

    /// True for a command that can be asked so: one to a daemon's session, in which a shell would change nothing.
    pub(super) fn takes(words: &str) -> bool {
        let is_known = !["daemon ", "ping "].iter().any(|other| words.starts_with(other));
        words.chars().all(is_plain) && !words.split(' ').any(|word| word.starts_with('-')) && is_known
    }

    /// True for a stock client's command without anything of a shell's; of `ceph`, for one that the monitor gets.
    pub(super) fn takes_one(command: &str) -> bool {
        match command.split_once(' ') {
            Some(("ceph", words)) => Self::takes(words) && !words.starts_with("tell "),
            Some(("rados" | "rbd", words)) => words.chars().all(is_plain),
            _ => false,
        }
    }

    /// What is said to a command, such as `osd stat`, as `ceph` would print it; none if the process has ended.
    pub(super) fn run(&mut self, words: &str, is_json: bool) -> Option<Ran> {
        let format = if is_json { json!({"format": "json"}) } else { json!({}) };
        let words: Vec<&str> = words.split_whitespace().collect();
        writeln!(self.child.stdin.as_mut()?, "{}", json!([words, format])).ok()?;
        let mut said = String::new();
        self.said.read_line(&mut said).ok()?;
        let (code, out, err) = serde_json::from_str(&said).ok()?;
        Some(Ran { code, out, err })
    }

    /// The JSON that is said to a command, if it succeeds.
    pub(super) fn ask(&mut self, words: &str) -> Option<Value> {
        let ran = self.run(words, true).filter(|ran| ran.code == 0)?;
        serde_json::from_str(&ran.out).ok()
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        // The end of what is asked ends it, and its limit if it waits for an answer.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
