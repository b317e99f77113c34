//! Sockets: making, listening, addresses.

use std::{
    io,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
};

use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, getpeername, getsockname, ipproto, listen, socket_with,
    sockopt,
};

use crate::{BackendKind, backend::OpKey};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// A listening socket.
pub(crate) struct Listener {
    pub(crate) fd: OwnedFd,
    pub(crate) local: SocketAddr,
    /// The accept in flight.
    pub(crate) accept: Option<OpKey>,
    /// Closed by its owner: goes when the accept has ended.
    pub(crate) closing: bool,
}

impl Listener {
    pub(crate) fn bind(address: SocketAddr, kind: BackendKind) -> io::Result<Listener> {
        let fd = socket(address, kind)?;
        sockopt::set_socket_reuseaddr(&fd, true)?;
        bind(&fd, &address)?;
        listen(&fd, BACKLOG)?;
        let local = local_address(&fd)?;
        Ok(Listener { fd, local, accept: None, closing: false })
    }
}

/// A connected socket on its way from one reactor to another.
#[derive(Debug)]
pub struct Socket(pub(crate) OwnedFd);

/// A TCP socket; epoll needs it not to block, io_uring needs the opposite.
pub(crate) fn socket(address: SocketAddr, kind: BackendKind) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let mut flags = SocketFlags::CLOEXEC;
    flags.set(SocketFlags::NONBLOCK, kind == BackendKind::Epoll);
    Ok(socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?)
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
