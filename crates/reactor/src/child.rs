//! Child processes that depend on this one.
//!
//! A fork copies the page tables of all of this process' memory, and whatever thread touches memory meanwhile waits. So
//! nothing is executed between a fork and the child's program: a child begins as this very program, which prepares
//! itself ([`exec_child`]) and becomes what it is to be.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{self, Child, Command, ExitStatus},
};

use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};

use crate::signal::unblock_signals;

/// The subcommand by which this program has to call [`exec_child`], with the rest of its arguments.
pub const EXEC_CHILD: &str = "exec-child";

/// The program that runs, even if its file has been replaced since.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// A command for a child that runs `program`. It is killed when the thread that spawns it ends, and takes the signals
/// that this process blocks ([`block_signals`](crate::block_signals)).
///
/// What the caller adds must not need a fork, as [`CommandExt::pre_exec`] does. A program that cannot be executed is
/// told by the child: on its standard error, and by its exit status.
pub fn child_command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(OWN_PROGRAM);
    command.args([EXEC_CHILD, &process::id().to_string()]).arg(program);
    command
}

/// What a child does that was spawned by process `parent`: becomes `program`. Returns only if it cannot.
pub fn exec_child(parent: u32, program: &OsStr, args: &[OsString]) -> io::Error {
    let prepare = || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // One that ended before that sends no signal.
        let is_there = getppid().is_some_and(|pid| u32::try_from(pid.as_raw_pid()) == Ok(parent));
        if !is_there {
            return Err(io::Error::other("its parent has ended"));
        }
        // A blocked signal stays blocked when a program is executed.
        unblock_signals()
    };
    match prepare() {
        Ok(()) => Command::new(program).args(args).exec(),
        Err(error) => error,
    }
}

/// Asks a child that was not waited for to end: SIGTERM.
pub fn terminate(child: &Child) -> io::Result<()> {
    Ok(kill_process(Pid::from_child(child), Signal::TERM)?)
}

/// True for a process that ended by a signal that it brought upon itself, as a release does when it panics; false for
/// one that was killed by somebody.
pub fn has_crashed(status: ExitStatus) -> bool {
    let faults =
        [Signal::ABORT, Signal::BUS, Signal::FPE, Signal::ILL, Signal::SEGV, Signal::SYS, Signal::TRAP];
    status.signal().is_some_and(|signal| faults.iter().any(|fault| fault.as_raw() == signal))
}

#[cfg(test)]
mod tests {
    use std::{
        env,
        io::{BufRead, BufReader},
        process::Stdio,
    };

    use super::*;
    use crate::block_signals;

    /// Tells a run of [`the_child_of_another_test`] that it is one, and whose.
    const PARENT: &str = "REACTOR_TEST_PARENT";
    /// Says when it runs.
    const SCRIPT: &str = "echo runs; exec sleep 3600";

    #[test]
    fn the_child_of_another_test() {
        let Ok(parent) = env::var(PARENT) else { return };
        let error = exec_child(parent.parse().unwrap(), "sh".as_ref(), &["-c".into(), SCRIPT.into()]);
        panic!("{error}");
    }

    /// As [`child_command`], of the program of these tests. Returns when the child is what it is to be, or has ended.
    fn spawn(parent: u32) -> (Child, bool) {
        let mut command = Command::new(OWN_PROGRAM);
        command.args(["--exact", "child::tests::the_child_of_another_test", "--nocapture"]);
        command.env(PARENT, parent.to_string()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let runs = { lines }.any(|line| line.unwrap() == "runs");
        (child, runs)
    }

    #[test]
    fn a_child_takes_the_signals_that_its_parent_blocks() {
        block_signals().unwrap();
        let (mut child, runs) = spawn(process::id());
        assert!(runs);
        terminate(&child).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
    }

    #[test]
    fn a_child_ends_with_its_parent() {
        let parent = std::thread::spawn(|| spawn(process::id()));
        let (mut child, runs) = parent.join().unwrap();
        assert!(runs);
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn a_child_whose_parent_has_ended_before_does_not_begin() {
        let (mut child, runs) = spawn(1);
        assert!(!runs);
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn a_child_begins_as_this_program() {
        let command = child_command("rbd");
        assert_eq!(command.get_program(), OWN_PROGRAM);
        let args: Vec<&OsStr> = command.get_args().collect();
        assert_eq!(args, [EXEC_CHILD.as_ref(), process::id().to_string().as_ref(), OsStr::new("rbd")]);
    }
}
