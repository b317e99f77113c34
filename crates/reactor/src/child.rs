//! Child processes that depend on this one.
#![allow(unsafe_code, reason = "what a child does before it executes its program has no safe wrapper")]

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Child, Command},
};

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

use crate::signal::unblock_signals;

/// Starts a child that is killed when the calling thread ends, and that takes the signals that this process blocks
/// ([`block_signals`](crate::block_signals)): a blocked signal stays blocked when a program is executed.
pub fn spawn_child(command: &mut Command) -> io::Result<Child> {
    let prepare = || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        unblock_signals()
    };
    // SAFETY: these are system calls and functions on signal sets alone, which are safe after a fork: no memory is
    // allocated and no lock taken.
    unsafe { command.pre_exec(prepare) };
    command.spawn()
}

/// Asks a child that was not waited for to end: SIGTERM.
pub fn terminate(child: &Child) -> io::Result<()> {
    Ok(kill_process(Pid::from_child(child), Signal::TERM)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;
    use crate::block_signals;

    #[test]
    fn a_child_takes_the_signals_that_its_parent_blocks() {
        block_signals().unwrap();
        let mut child = spawn_child(Command::new("sleep").arg("3600")).unwrap();
        terminate(&child).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
    }

    #[test]
    fn a_child_ends_with_its_parent() {
        let parent = std::thread::spawn(|| spawn_child(Command::new("sleep").arg("3600")).unwrap());
        let mut child = parent.join().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }
}
