//! Where daemons listen: at the port that is said, or else, unless they are monitors, at the first free one of a range,
//! which firewalls open for them, as for Ceph's.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use reactor::{ListenerId, Reactor};
use types::EntityName;

use crate::ceph_conf::CephConf;

/// `ms_bind_port_min` to `ms_bind_port_max`. A range that begins with 0 stands for any port: the kernel chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BindPorts(RangeInclusive<u16>);

/// Between two attempts to listen at a port, and how many there are. After a daemon was killed the kernel takes its
/// ring of requests apart, the accept among them, only when the process is gone; the port is taken until then.
const LISTEN_PAUSE: Duration = Duration::from_millis(100);
const LISTEN_ATTEMPTS: u32 = 30;

/// Listens at a port that is said; waits for a daemon that is just ending.
pub(crate) fn listen_at(reactor: &mut Reactor, socket: SocketAddr) -> Result<ListenerId> {
    for _ in 1..LISTEN_ATTEMPTS {
        match reactor.listen(socket) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => thread::sleep(LISTEN_PAUSE),
            listening => return listening.with_context(|| format!("listening at {socket}")),
        }
    }
    reactor.listen(socket).with_context(|| format!("listening at {socket}"))
}

impl BindPorts {
    /// The range of `who`.
    pub(crate) fn read(conf: &CephConf, who: &EntityName) -> Result<BindPorts> {
        let port = |name: &str| -> Result<u16> {
            let text = conf.option(who, name).unwrap_or_default();
            text.parse().with_context(|| format!("{name} = {text}: this is no port"))
        };
        let (first, last) = (port("ms_bind_port_min")?, port("ms_bind_port_max")?);
        if first > last {
            bail!("ms_bind_port_min = {first} is above ms_bind_port_max = {last}");
        }
        Ok(BindPorts(first..=last))
    }

    /// Listens at a socket: at its port, or for port 0 at the first free one of the range.
    pub(crate) fn listen(
        &self,
        reactor: &mut Reactor,
        wanted: SocketAddr,
    ) -> Result<(ListenerId, SocketAddr)> {
        let listener = match wanted.port() {
            0 => self.listen_in_range(reactor, wanted.ip())?,
            _ => listen_at(reactor, wanted)?,
        };
        Ok((listener, reactor.local_addr(listener).context("the listener has no address")?))
    }

    /// Other daemons look for ports at the same time: the kernel says which one is free.
    fn listen_in_range(&self, reactor: &mut Reactor, ip: IpAddr) -> Result<ListenerId> {
        for port in self.0.clone() {
            let socket = SocketAddr::new(ip, port);
            match reactor.listen(socket) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                listening => return listening.with_context(|| format!("listening at {socket}")),
            }
        }
        let (first, last) = (self.0.start(), self.0.end());
        bail!("{ip} has no free port from {first} to {last}: see ms_bind_port_min and ms_bind_port_max");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<BindPorts> {
        BindPorts::read(&CephConf::parse(text).unwrap(), &EntityName::parse("osd.0").unwrap())
    }

    /// A loopback address of this process.
    fn own_ip() -> IpAddr {
        let [.., high, low] = std::process::id().to_be_bytes();
        [127, 77, high, low.clamp(1, 254)].into()
    }

    #[test]
    fn ports_are_those_of_ceph_unless_its_options_say_otherwise() {
        assert_eq!(read("").unwrap(), BindPorts(6800..=7300));
        let text = "[global]\nms bind port max = 7568\n[osd]\nms bind port min = 7000\n";
        assert_eq!(read(text).unwrap(), BindPorts(7000..=7568));
        read("[osd]\nms bind port min = 7301\n").unwrap_err();
        read("[osd]\nms bind port max = 70000\n").unwrap_err();
    }

    #[test]
    fn each_listener_takes_the_first_port_that_is_free() {
        let mut reactor = Reactor::new(reactor::Config::default()).unwrap();
        let (ip, ports) = (own_ip(), BindPorts(26_800..=26_802));
        let mut listen = |port| {
            let (_, socket) = ports.listen(&mut reactor, SocketAddr::new(ip, port))?;
            Ok::<u16, anyhow::Error>(socket.port())
        };
        assert_eq!(listen(26_801).unwrap(), 26_801, "a port that is said is taken");
        assert_eq!([0, 0].map(|any| listen(any).unwrap()), [26_800, 26_802]);
        let none = format!("{:#}", listen(0).unwrap_err());
        assert!(none.contains("no free port from 26800 to 26802"), "{none}");
        let taken = listen(26_801).unwrap_err();
        assert!(format!("{taken:#}").contains("listening at"), "{taken:#}");
    }

    #[test]
    fn a_port_is_waited_for_while_its_last_listener_ends() {
        let last = std::net::TcpListener::bind((own_ip(), 26_803)).unwrap();
        let socket = last.local_addr().unwrap();
        let ends = thread::spawn(move || {
            thread::sleep(LISTEN_PAUSE);
            drop(last);
        });
        let mut reactor = Reactor::new(reactor::Config::default()).unwrap();
        listen_at(&mut reactor, socket).unwrap();
        ends.join().unwrap();
    }

    #[test]
    fn a_range_from_zero_leaves_the_choice_to_the_kernel() {
        let mut reactor = Reactor::new(reactor::Config::default()).unwrap();
        let (_, socket) = BindPorts(0..=7300).listen(&mut reactor, SocketAddr::new(own_ip(), 0)).unwrap();
        assert_ne!(socket.port(), 0);
    }
}
