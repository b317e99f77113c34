//! Runs of the stock `rbd` for the manager's part: started, watched by polling, ended. What they are for is not
//! known here.

use std::{
    collections::BTreeMap,
    io::{ErrorKind, Read},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Stdio},
};

use mon::{Event, RunId};
use types::EntityName;

use crate::exec_child::CANNOT_RUN;

/// Bytes of a line that is kept; what is longer says nothing more.
const LINE_BYTES_MAX: usize = 4096;

struct Run {
    child: Child,
    stderr: ChildStderr,
    output: RunOutput,
}

/// What a run said so far.
#[derive(Default)]
struct RunOutput {
    /// The line that has no end yet.
    line: String,
    /// From 0 to 1, where it changed since it was asked for.
    fraction: Option<f64>,
    /// The last line that tells of an error.
    error: String,
}

/// Runs of the stock `rbd` for the manager's part.
pub(crate) struct RbdRuns {
    who: EntityName,
    conf: PathBuf,
    keyring: Option<PathBuf>,
    running: BTreeMap<RunId, Run>,
    /// What could not be started, until the next poll.
    failed: Vec<Event>,
}

impl RunOutput {
    fn take(&mut self, bytes: &[u8]) {
        for c in String::from_utf8_lossy(bytes).chars() {
            if matches!(c, '\r' | '\n') {
                self.end_line();
            } else if self.line.len() < LINE_BYTES_MAX {
                self.line.push(c);
            }
        }
    }

    /// Lines are `Image flatten: 5% complete...`, those of the log, and `rbd: flatten error: …`.
    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if let Some((before, _)) = line.split_once("% complete") {
            let percent = before.rsplit(' ').next().and_then(|number| number.parse::<f64>().ok());
            self.fraction = percent.map(|percent| (percent / 100.0).clamp(0.0, 1.0)).or(self.fraction);
        } else if !line.trim().is_empty() && (line.starts_with("rbd: ") || !self.error.starts_with("rbd: ")) {
            self.error = line.trim().to_owned();
        }
    }
}

impl RbdRuns {
    /// Runs that authenticate as `who`, with the key in `keyring`, which is `None` if the cluster asks for no key.
    pub(crate) fn new(who: EntityName, conf: &Path, keyring: Option<PathBuf>) -> RbdRuns {
        RbdRuns { who, conf: conf.to_owned(), keyring, running: BTreeMap::new(), failed: Vec::new() }
    }

    /// Starts `rbd`.
    pub(crate) fn start(&mut self, id: RunId, args: &[String]) {
        match self.spawn(args) {
            Ok(run) => {
                tracing::info!("rbd {} runs as process {}", args.join(" "), run.child.id());
                self.running.insert(id, run);
            }
            Err(error) => self.failed.push(not_run(id, &error.to_string())),
        }
    }

    fn spawn(&self, args: &[String]) -> std::io::Result<Run> {
        let mut command = reactor::child_command("rbd");
        command.arg("--conf").arg(&self.conf).args(["--name", &self.who.to_string()]);
        if let Some(keyring) = &self.keyring {
            command.arg("--keyring").arg(keyring);
        }
        command.args(args).env_remove("CEPH_ARGS");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let stderr = child.stderr.take().ok_or(ErrorKind::BrokenPipe)?;
        reactor::set_nonblocking(&stderr)?;
        Ok(Run { child, stderr, output: RunOutput::default() })
    }

    /// Ends a run; that it has ended is told by the next poll.
    pub(crate) fn kill(&mut self, id: RunId) {
        if let Some(run) = self.running.get_mut(&id)
            && let Err(error) = run.child.kill()
        {
            tracing::warn!(%error, "rbd cannot be ended");
        }
    }

    /// What happened since the last poll.
    pub(crate) fn poll(&mut self) -> Vec<Event> {
        let mut events = std::mem::take(&mut self.failed);
        self.running.retain(|id, run| {
            // Whether it has ended is asked first, so that nothing it said is missed.
            let ended = run.child.try_wait();
            run.read();
            if let Some(fraction) = run.output.fraction.take() {
                events.push(Event::RunProgress(*id, fraction));
            }
            let code = match ended {
                Ok(None) => return true,
                Ok(Some(status)) => status.code(),
                Err(_) => None,
            };
            run.output.end_line();
            let text = std::mem::take(&mut run.output.error);
            events.push(ended_as(*id, code, text));
            false
        });
        events
    }
}

fn not_run(run: RunId, why: &str) -> Event {
    Event::RunFailed { run, text: format!("cannot run rbd (of ceph-common) on the monitor's host: {why}") }
}

/// What a run's end is to the monitor: a child may have ended before it was `rbd`.
fn ended_as(run: RunId, code: Option<i32>, text: String) -> Event {
    if code == Some(CANNOT_RUN) { not_run(run, &text) } else { Event::RunEnded { run, code, text } }
}

impl Run {
    fn read(&mut self) {
        let mut buffer = [0; 4096];
        loop {
            match self.stderr.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => self.output.take(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }
}

impl Drop for RbdRuns {
    fn drop(&mut self) {
        for run in self.running.values_mut() {
            // It may have ended by itself; the next start of the monitor takes the task up again.
            let _ = run.child.kill();
            let _ = run.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_and_errors_are_told_apart() {
        let mut output = RunOutput::default();
        output.take(b"\rImage flatten: 1% complete...\rImage flatten: 25% comp");
        assert_eq!(output.fraction.take(), Some(0.01));
        output.take(b"lete...\rImage flatten: 25% complete...failed.\n2026 -1 librbd: no\nrbd: flatten error: (22)\nx\n");
        assert_eq!(output.fraction, Some(0.25));
        assert_eq!(output.error, "rbd: flatten error: (22)");
    }

    #[test]
    fn a_child_that_could_not_become_rbd_is_no_run_that_ended() {
        let end = |code| ended_as(RunId(3), code, "no such file".to_owned());
        let Event::RunFailed { run: RunId(3), text } = end(Some(CANNOT_RUN)) else { panic!() };
        assert_eq!(text, "cannot run rbd (of ceph-common) on the monitor's host: no such file");
        assert!(matches!(end(Some(2)), Event::RunEnded { run: RunId(3), code: Some(2), .. }));
        assert!(matches!(end(None), Event::RunEnded { code: None, .. }));
    }
}
