//! Which of the machine's addresses an OSD serves at: as its ceph.conf says, or chosen as Ceph chooses
//! (`pick_addresses` in common/pick_address.cc).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use anyhow::{Context, Result, bail};
use types::{EntityAddr, EntityName};

use crate::ceph_conf::CephConf;

/// Where an OSD serves clients: `public addr`, or an address of the machine in `public network`, or the one that the
/// machine has towards the monitors. Ceph learns the last one from its first monitor. Port 0 is any of
/// [`BindPorts`](crate::bind_ports::BindPorts).
pub(crate) fn public_addr(conf: &CephConf, who: &EntityName) -> Result<SocketAddr> {
    if let Some(text) = conf.get(who, "public addr") {
        return parse_addr(&text).with_context(|| format!("public addr = {text}"));
    }
    let ip = match in_network(conf, who, "public network")? {
        Some(ip) => ip,
        None => towards_monitors(conf, who)?,
    };
    Ok(SocketAddr::new(ip, 0))
}

/// Where it serves other OSDs: `cluster addr`, or an address in `cluster network`, or `public`.
pub(crate) fn cluster_ip(conf: &CephConf, who: &EntityName, public: IpAddr) -> Result<IpAddr> {
    if let Some(text) = conf.get(who, "cluster addr") {
        return Ok(parse_addr(&text).with_context(|| format!("cluster addr = {text}"))?.ip());
    }
    Ok(in_network(conf, who, "cluster network")?.unwrap_or(public))
}

/// True if `mon host` names a monitor that serves at this address, as clients and OSDs look for it.
pub(crate) fn is_in_mon_host(conf: &CephConf, who: &EntityName, serves: SocketAddr) -> bool {
    let hosts = conf.mon_hosts(who).unwrap_or_default();
    hosts.iter().any(|addrs| addrs.0.iter().any(|addr| addr.socket == Some(serves)))
}

/// An address with or without a port.
fn parse_addr(text: &str) -> Result<SocketAddr> {
    let alone = || text.parse().map(|ip| SocketAddr::new(ip, 0));
    text.parse().or_else(|_| alone()).context("this is no address with or without a port")
}

fn in_network(conf: &CephConf, who: &EntityName, option: &str) -> Result<Option<IpAddr>> {
    let Some(text) = conf.get(who, option).filter(|text| !text.is_empty()) else { return Ok(None) };
    let about = || format!("{option} = {text}");
    let networks = parse_networks(&text).with_context(about)?;
    let own = reactor::interface_addresses().context("listing the addresses of this machine")?;
    pick(&networks, &own).context("this machine has no address in it").with_context(about).map(Some)
}

/// Reads `10.1.0.0/16, fd00::/64`.
fn parse_networks(text: &str) -> Result<Vec<EntityAddr>> {
    let parts = text.split([',', ';', ' ', '\t', '=']).filter(|part| !part.is_empty());
    let network = |part: &str| {
        let (ip, bits) = part.split_once('/')?;
        EntityAddr::cidr(ip.parse().ok()?, bits.parse().ok()?)
    };
    parts.map(|part| network(part).with_context(|| format!("{part} is no network"))).collect()
}

/// The first of the machine's addresses that is in one of the networks.
fn pick(networks: &[EntityAddr], own: &[IpAddr]) -> Option<IpAddr> {
    own.iter().copied().find(|ip| networks.iter().any(|network| network.covers(*ip)))
}

/// The address from which the machine would speak to the first monitor that it has a way to. Nothing is sent.
fn towards_monitors(conf: &CephConf, who: &EntityName) -> Result<IpAddr> {
    let hosts = conf.mon_hosts(who)?;
    let sockets = hosts.iter().filter_map(|addrs| addrs.msgr2_addr()?.socket);
    let found = sockets.filter_map(|to| source_to(to).ok()).next();
    let Some(ip) = found else {
        bail!("no address of this machine leads to a monitor: give `public addr` or `public network`");
    };
    Ok(ip)
}

fn source_to(to: SocketAddr) -> std::io::Result<IpAddr> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(to)?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn osd() -> EntityName {
        EntityName::parse("osd.0").unwrap()
    }

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn the_first_address_in_one_of_the_networks_is_taken() {
        let own = ips(&["192.168.7.9", "10.1.2.3", "10.1.2.4", "fd00:1::5"]);
        let chosen = |text| pick(&parse_networks(text).unwrap(), &own).map(|ip| ip.to_string());
        assert_eq!(chosen("10.1.0.0/16").as_deref(), Some("10.1.2.3"));
        assert_eq!(chosen("10.1.2.4/32; 172.16.0.0/12").as_deref(), Some("10.1.2.4"));
        assert_eq!(chosen("fd00:1::/64,10.9.0.0/16").as_deref(), Some("fd00:1::5"));
        assert_eq!(chosen("0.0.0.0/0").as_deref(), Some("192.168.7.9"));
        assert_eq!(chosen("172.16.0.0/12"), None);
        for bad in ["10.1.2.3", "10.1.2.3/33", "eth0/8", "10.0.0.0/8 x"] {
            assert!(parse_networks(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_address_is_stronger_than_a_network_and_a_network_that_the_machine_is_not_in_is_an_error() {
        let text =
            "[global]\nmon host = 127.0.0.1\npublic network = 203.0.113.0/24\n[osd.0]\npublic addr = ::1\n";
        let conf = CephConf::parse(text).unwrap();
        assert_eq!(public_addr(&conf, &osd()).unwrap(), "[::1]:0".parse().unwrap());
        let error = public_addr(&conf, &EntityName::parse("osd.1").unwrap()).unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "public network = 203.0.113.0/24: this machine has no address in it"
        );
        let public = "10.0.0.1".parse().unwrap();
        assert_eq!(cluster_ip(&conf, &osd(), public).unwrap(), public);
        let conf = CephConf::parse("[osd]\ncluster addr = 10.2.0.1:7000\n").unwrap();
        assert_eq!(cluster_ip(&conf, &osd(), public).unwrap().to_string(), "10.2.0.1");
    }

    #[test]
    fn a_monitor_that_has_moved_is_not_in_mon_host() {
        let conf = CephConf::parse("[global]\nmon host = [v2:10.0.0.1:3300,v1:10.0.0.1:6789]\n").unwrap();
        let who = EntityName::parse("mon.a").unwrap();
        let found = ["10.0.0.1:3300", "10.0.0.1:3301", "10.0.0.2:3300"]
            .map(|text| is_in_mon_host(&conf, &who, text.parse().unwrap()));
        assert_eq!(found, [true, false, false]);
        assert!(!is_in_mon_host(&CephConf::default(), &who, "10.0.0.1:3300".parse().unwrap()));
    }

    #[test]
    fn without_a_word_it_is_the_address_towards_the_monitor() {
        let conf = CephConf::parse("[global]\nmon host = [v2:127.0.0.1:3300]\n").unwrap();
        assert_eq!(public_addr(&conf, &osd()).unwrap(), "127.0.0.1:0".parse().unwrap());
    }
}
