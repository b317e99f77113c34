//! The event loop under the daemons, with their system calls: sockets, files and block devices, timers, signals,
//! wake-ups, and queues between threads.
//!
//! A [`Reactor`] belongs to one thread. The loop: [`Reactor::poll`] for [`Event`]s, hand them to the pure machines,
//! turn their effects into calls here. No call waits for the network or a disk: all work queued in a turn enters
//! the kernel with the next poll, in one system call, and comes back as events. It runs on io_uring
//! ([`BackendKind::IoUring`]), or on epoll and plain system calls where a kernel or container forbids io_uring.
//!
//! Must not know: protocols, messages, PGs, stores.

mod addresses;
mod backend;
mod buffer;
mod buffer_pool;
mod channel;
mod child;
pub mod clock;
mod config;
mod connection;
mod descriptors;
mod event;
mod file;
mod listener;
mod memory;
mod reactor;
mod signal;
mod slab;
mod sleep;
mod sync;
mod thread;
mod timers;
mod wake;
mod yielding;

use std::os::fd::RawFd;

pub use addresses::interface_addresses;
pub use channel::{Receiver, Sender, channel};
pub use child::{EXEC_CHILD, child_command, exec_child, has_crashed, terminate};
pub use config::{BackendKind, Config};
pub use descriptors::raise_descriptor_limit;
pub use event::{CloseReason, ConnId, Event, FileError, FileId, FileOperation, ListenerId};
pub use file::{FileSystem, Lock, OpenOptions};
pub use listener::Socket;
pub use memory::{memory_limit_bytes, resident_bytes};
pub use reactor::Reactor;
pub use signal::{Signal, block_signals};
pub use thread::{available_cpus, set_nonblocking, spawn};
pub use wake::Waker;
