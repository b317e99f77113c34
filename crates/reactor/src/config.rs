//! What a reactor is made from.

use std::time::Duration;

use crate::Waker;

/// The kernel interface of a reactor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendKind {
    /// io_uring where the kernel gives it to us, epoll elsewhere (with a warning in the log).
    #[default]
    Automatic,
    /// io_uring (Linux 6.0 or newer) or an error.
    IoUring,
    /// epoll; a few threads work on files.
    Epoll,
}

/// Settings of one reactor. The defaults are right for a daemon.
#[derive(Clone)]
pub struct Config {
    /// The kernel interface.
    pub backend: BackendKind,
    /// Submission queue entries, a power of two; more work than that in a turn costs another
    /// system call.
    pub entries: u32,
    /// Provided receive buffers, a power of two; shared by all connections.
    pub receive_buffers: u16,
    /// Size of each: a receive never delivers more than this at once.
    pub receive_buffer_bytes: usize,
    /// How long to look for completions without sleeping, after a turn that had events. A wake-up
    /// costs about ten times as much latency as a completion that is found awake, and spinning
    /// costs a core. Never spins when idle.
    pub spin: Duration,
    /// How long a peer may take for what is queued when its connection is to be closed.
    pub close_patience: Duration,
    /// The reactor's waker; one is made if there is none.
    pub waker: Option<Waker>,
    /// Deliver SIGINT and SIGTERM here, see [`block_signals`](crate::block_signals).
    pub signals: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            backend: BackendKind::Automatic,
            entries: 512,
            receive_buffers: 256,
            receive_buffer_bytes: 16 << 10,
            spin: Duration::ZERO,
            close_patience: Duration::from_secs(10),
            waker: None,
            signals: false,
        }
    }
}
