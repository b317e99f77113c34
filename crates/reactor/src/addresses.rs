//! The addresses of this machine's network interfaces.
#![allow(unsafe_code, reason = "getifaddrs has no safe wrapper")]

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ptr,
};

/// All IP addresses of interfaces other than the loopback's, in the system's order.
pub fn interface_addresses() -> io::Result<Vec<IpAddr>> {
    let mut head: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: `head` is a place for the list, which is looked at only if it was made.
    if unsafe { libc::getifaddrs(&raw mut head) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut out = Vec::new();
    let mut at = head;
    // SAFETY: `at` is null or an entry of the list, which lives until it is freed below.
    while let Some(entry) = unsafe { at.as_ref() } {
        let is_loopback = entry.ifa_flags & libc::IFF_LOOPBACK.cast_unsigned() != 0;
        // SAFETY: the entry's address is null or a whole one of its family.
        out.extend(unsafe { ip_of(entry.ifa_addr) }.filter(|_| !is_loopback));
        at = entry.ifa_next;
    }
    // SAFETY: the list was made above, and nothing of it is used any more.
    unsafe { libc::freeifaddrs(head) };
    Ok(out)
}

/// The IP address in a socket address of any family.
///
/// # Safety
///
/// `addr` must be null or point to an address that is as long as its family says.
unsafe fn ip_of(addr: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the caller's promise; every socket address begins with its family.
    let family = unsafe { addr.as_ref() }?.sa_family;
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: the caller's promise; libc may not have aligned it.
            let addr = unsafe { addr.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(addr.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let addr = unsafe { addr.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(addr.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn what_is_listed_can_be_bound_and_is_no_loopback() {
        for ip in interface_addresses().unwrap() {
            assert!(!ip.is_loopback(), "{ip}");
            // Link-local ones want their interface besides.
            let is_link_local = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
            assert!(is_link_local || UdpSocket::bind((ip, 0)).is_ok(), "{ip}");
        }
    }
}
