//! Sockets: making, listening, addresses.

use std::{
    io,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use rustix::{
    io::Errno,
    net::{
        AddressFamily, SocketFlags, SocketType, bind, getpeername, getsockname, ipproto, listen, socket_with,
        sockopt,
    },
};

use crate::{BackendKind, backend::OpKey};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;
/// A peer that has said nothing for so long is asked by the kernel whether it is there, and again after each interval.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// A peer that answers nothing of that for so long, or takes nothing of what is sent to it, is gone.
const PEER_TIMEOUT: Duration = Duration::from_secs(300);

/// Between two warnings that connections cannot be accepted.
const FAILURES_LOGGED: Duration = Duration::from_secs(60);

/// A listening socket.
pub(crate) struct Listener {
    pub(crate) fd: OwnedFd,
    pub(crate) local: SocketAddr,
    /// The accept in flight.
    pub(crate) accept: Option<OpKey>,
    /// Closed by its owner: goes when the accept has ended.
    pub(crate) closing: bool,
    /// No sooner is the next failure to accept a warning.
    warning_at_ns: u64,
}

impl Listener {
    pub(crate) fn bind(address: SocketAddr, kind: BackendKind) -> io::Result<Listener> {
        let fd = socket(address, kind)?;
        sockopt::set_socket_reuseaddr(&fd, true)?;
        bind(&fd, &address)?;
        listen(&fd, BACKLOG)?;
        let local = local_address(&fd)?;
        Ok(Listener { fd, local, accept: None, closing: false, warning_at_ns: 0 })
    }

    /// Says that a connection cannot be accepted. It is tried again many times a second, and warned of once a minute.
    pub(crate) fn log_failure(&mut self, error: Errno, now_ns: u64) {
        let local = self.local;
        if self.is_warning_due(now_ns) {
            tracing::warn!(%error, %local, "cannot accept connections; within a minute this is logged as debug");
        } else {
            tracing::debug!(%error, %local, "cannot accept connections");
        }
    }

    fn is_warning_due(&mut self, now_ns: u64) -> bool {
        let is_due = now_ns >= self.warning_at_ns;
        if is_due {
            self.warning_at_ns = now_ns + FAILURES_LOGGED.as_nanos() as u64;
        }
        is_due
    }
}

/// A connected socket on its way from one reactor to another.
#[derive(Debug)]
pub struct Socket(pub(crate) OwnedFd);

/// A TCP socket. Epoll needs it not to block. To io_uring it is the same: it waits unless a request has MSG_DONTWAIT.
pub(crate) fn socket(address: SocketAddr, kind: BackendKind) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let mut flags = SocketFlags::CLOEXEC;
    flags.set(SocketFlags::NONBLOCK, kind == BackendKind::Epoll);
    Ok(socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?)
}

/// Sets a connection's socket up. What is sent leaves at once. And a peer whose host is gone is noticed: nobody closes
/// such a connection, and it would be kept for ever, with all that it stands for.
pub(crate) fn set_up(fd: impl AsFd) -> io::Result<()> {
    sockopt::set_tcp_nodelay(&fd, true)?;
    sockopt::set_tcp_keepidle(&fd, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(&fd, KEEPALIVE_INTERVAL)?;
    let timeout_ms = u32::try_from(PEER_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_tcp_user_timeout(&fd, timeout_ms)?;
    Ok(sockopt::set_socket_keepalive(&fd, true)?)
}

/// Our address of a socket.
pub(crate) fn local_address(fd: impl AsFd) -> io::Result<SocketAddr> {
    Ok(SocketAddr::try_from(getsockname(fd)?)?)
}

/// The peer's address of a connected socket.
pub(crate) fn peer_address(fd: impl AsFd) -> io::Result<SocketAddr> {
    let address = getpeername(fd)?.ok_or(io::ErrorKind::NotConnected)?;
    Ok(SocketAddr::try_from(address)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Event, Reactor};

    #[test]
    fn a_failure_that_lasts_is_warned_of_once_a_minute() {
        let anywhere = "127.0.0.1:0".parse().unwrap();
        let mut listener = Listener::bind(anywhere, BackendKind::Epoll).unwrap();
        let tenths = 0..1_201;
        let due: Vec<u64> = tenths.filter(|tenth| listener.is_warning_due(tenth * 100_000_000)).collect();
        assert_eq!(due, [0, 600, 1_200]);
    }

    #[test]
    fn both_ends_of_a_connection_notice_when_the_other_is_gone() {
        let config = Config { backend: BackendKind::Epoll, ..Config::default() };
        let mut reactor = Reactor::new(config).expect("epoll is everywhere");
        let listener = reactor.listen("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let address = reactor.local_addr(listener).expect("it listens");
        let mut conns = vec![reactor.connect(address).expect("a socket")];
        while conns.len() < 2 {
            let mut events = Vec::new();
            reactor.poll(Some(Duration::from_secs(60)), &mut events).expect("epoll works");
            conns.extend(events.into_iter().filter_map(|event| match event {
                Event::Accepted { conn, .. } => Some(conn),
                _ => None,
            }));
        }
        for conn in conns {
            let fd = reactor.socket_of(conn).expect("it is open");
            assert_eq!(sockopt::socket_keepalive(fd), Ok(true));
            assert_eq!(sockopt::tcp_keepidle(fd), Ok(KEEPALIVE_IDLE));
            assert_eq!(sockopt::tcp_user_timeout(fd), Ok(PEER_TIMEOUT.as_millis() as u32));
        }
    }
}
