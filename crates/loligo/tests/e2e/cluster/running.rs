//! A program that runs beside a test and does not outlive it.

use std::{
    process::{Child, Command, ExitStatus},
    time::Duration,
};

use super::is_done_within;

/// How long a program may take to end once it is told to: `timeout` kills what does not within 10 s.
const END_LIMIT: Duration = Duration::from_secs(30);

/// A program that was started under `timeout`, which ends all that the program has started; ended when it is dropped.
pub struct Running(Child);

impl Running {
    /// Starts a command, whose first word is `timeout`.
    pub(super) fn start(mut command: Command) -> Running {
        Running(command.spawn().unwrap())
    }

    /// How it has ended; `None` while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().unwrap()
    }

    /// Waits for its end; true if it was a good one.
    pub fn ends_well(mut self) -> bool {
        self.0.wait().unwrap().success()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended().is_none() {
            end(&mut self.0, "-TERM", END_LIMIT);
        }
    }
}

/// Sends a process the signal and waits for its end. One that does not end within `limit` is killed: false.
pub(super) fn end(child: &mut Child, signal: &str, limit: Duration) -> bool {
    let _ = Command::new("kill").args([signal, &child.id().to_string()]).status();
    let has_ended = is_done_within(limit, || child.try_wait().unwrap().is_some());
    if !has_ended {
        let _ = child.kill();
        let _ = child.wait();
    }
    has_ended
}
