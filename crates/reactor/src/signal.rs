//! SIGINT, SIGTERM and SIGHUP as events: blocked in every thread, read by one reactor from a signalfd.
#![allow(unsafe_code, reason = "signal masks and signalfd have no safe wrapper")]

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{FromRawFd, OwnedFd},
    ptr,
};

/// What a signal asks of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM: a service manager or `kill`.
    Terminate,
    /// SIGHUP: the terminal is gone, or logs were rotated.
    Hangup,
}

impl Signal {
    /// From the first word of a `signalfd_siginfo`.
    pub(crate) fn from_info(info: &[u8]) -> Option<Signal> {
        let number = u32::from_ne_bytes(info.first_chunk::<4>().copied()?);
        match i32::try_from(number).ok()? {
            libc::SIGINT => Some(Signal::Interrupt),
            libc::SIGTERM => Some(Signal::Terminate),
            libc::SIGHUP => Some(Signal::Hangup),
            _ => None,
        }
    }
}

/// True where `nohup` or a shell has this process ignore SIGHUP.
fn is_hangup_ignored() -> bool {
    let mut old = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: nothing is changed; the result is looked at only if it was written.
    unsafe {
        libc::sigaction(libc::SIGHUP, ptr::null(), old.as_mut_ptr()) == 0
            && old.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

fn signals() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set, the signal numbers are valid.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGINT);
        libc::sigaddset(set.as_mut_ptr(), libc::SIGTERM);
        // One that is blocked reaches the signalfd though it is ignored.
        if !is_hangup_ignored() {
            libc::sigaddset(set.as_mut_ptr(), libc::SIGHUP);
        }
        set.assume_init()
    }
}

/// Blocks these signals in this thread and all that it starts later, so that the reactor with
/// `Config::signals` reads them as events. Called by `main` before any thread exists.
pub fn block_signals() -> io::Result<()> {
    // SAFETY: the set is initialised; no old set is asked for.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &signals(), ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Undoes [`block_signals`] in this thread: for a child process about to be executed.
pub(crate) fn unblock_signals() -> io::Result<()> {
    // SAFETY: as in `block_signals`.
    match unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &signals(), ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// A descriptor that reads as one `signalfd_siginfo` per blocked signal.
pub(crate) fn open_signalfd() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised; the descriptor is new and owned by the result alone.
    unsafe {
        match libc::signalfd(-1, &signals(), libc::SFD_CLOEXEC) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}
