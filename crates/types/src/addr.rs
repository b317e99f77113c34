//! Addresses (`entity_addr_t`, `entity_addrvec_t`, msg/msg_types.h), always in the MSG_ADDR2 form.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6},
};

use codec::{Decode, DecodeError, Encode, Features, Reader};

/// Which protocol an address speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AddrType(pub u32);

impl AddrType {
    /// No address.
    pub const NONE: AddrType = AddrType(0);
    /// msgr v1.
    pub const LEGACY: AddrType = AddrType(1);
    /// msgr v2.
    pub const MSGR2: AddrType = AddrType(2);
    /// Either; what clients call themselves.
    pub const ANY: AddrType = AddrType(3);
    /// A network: the nonce is the length of its prefix.
    pub const CIDR: AddrType = AddrType(4);
}

/// `entity_addr_t`: protocol, IP address and port, and a nonce that tells incarnations apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct EntityAddr {
    /// The protocol.
    pub kind: AddrType,
    /// Chosen by the owner, anew for every incarnation.
    pub nonce: u32,
    /// IP address and port; none for a blank address.
    pub socket: Option<SocketAddr>,
}

const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

impl EntityAddr {
    /// An msgr2 address.
    pub fn msgr2(socket: SocketAddr, nonce: u32) -> EntityAddr {
        EntityAddr { kind: AddrType::MSGR2, nonce, socket: Some(socket) }
    }

    /// `ip:port/nonce`, without the protocol.
    pub fn legacy_str(&self) -> String {
        match self.socket {
            Some(socket) => format!("{socket}/{}", self.nonce),
            None => format!(":/{}", self.nonce),
        }
    }

    /// As commands show it (`entity_addr_t::dump`).
    pub fn dump(&self) -> serde_json::Value {
        let kind = match self.kind {
            AddrType::LEGACY => "v1",
            AddrType::MSGR2 => "v2",
            AddrType::ANY => "any",
            AddrType::CIDR => "cidr",
            AddrType(_) => "none",
        };
        let socket = self.socket.map_or("(unrecognized address family 0)".to_owned(), |s| s.to_string());
        serde_json::json!({"type": kind, "addr": socket, "nonce": self.nonce})
    }

    /// Parses `[v2:]ip:port[/nonce]`, `ip` alone included.
    pub fn parse(text: &str) -> Option<EntityAddr> {
        let (kind, text) = match text.split_at_checked(3) {
            Some(("v1:", rest)) => (AddrType::LEGACY, rest),
            Some(("v2:", rest)) => (AddrType::MSGR2, rest),
            Some(_) | None => (AddrType::ANY, text.strip_prefix("any:").unwrap_or(text)),
        };
        let (socket, nonce) = match text.split_once('/') {
            Some((socket, nonce)) => (socket, nonce.parse().ok()?),
            None => (text, 0),
        };
        let socket = match socket.parse::<SocketAddr>() {
            Ok(socket) => socket,
            Err(_) => {
                let ip = socket.strip_prefix('[').map_or(Some(socket), |inner| inner.strip_suffix(']'))?;
                SocketAddr::new(ip.parse::<IpAddr>().ok()?, 0)
            }
        };
        Some(EntityAddr { kind, nonce, socket: Some(socket) })
    }
}

/// `memcmp` of the C struct: the order in which Ceph encodes sets of addresses.
impl Ord for EntityAddr {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key = |addr: &EntityAddr| {
            let (family, port, flow, ip, scope) = match addr.socket {
                None => (0, 0, 0, [0; 16], 0),
                Some(SocketAddr::V4(v4)) => {
                    let mut ip = [0; 16];
                    ip[..4].copy_from_slice(&v4.ip().octets());
                    // The IPv4 address lies where an IPv6 one has its flow label.
                    (AF_INET, v4.port(), v4.ip().to_bits(), ip, 0)
                }
                Some(SocketAddr::V6(v6)) => {
                    (AF_INET6, v6.port(), v6.flowinfo(), v6.ip().octets(), v6.scope_id().swap_bytes())
                }
            };
            // The first two, the family and the scope are little-endian in memory, port and label big-endian.
            (addr.kind.0.swap_bytes(), addr.nonce.swap_bytes(), family, port, flow, ip, scope)
        };
        key(self).cmp(&key(other)).then_with(|| self.socket.cmp(&other.socket))
    }
}

impl PartialOrd for EntityAddr {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for EntityAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            AddrType::NONE => return f.write_str("-"),
            AddrType::LEGACY => f.write_str("v1:")?,
            AddrType::MSGR2 => f.write_str("v2:")?,
            AddrType::CIDR => f.write_str("cidr:")?,
            AddrType(_) => {}
        }
        f.write_str(&self.legacy_str())
    }
}

impl Encode for EntityAddr {
    fn encode(&self, out: &mut Vec<u8>, features: Features) {
        1u8.encode(out, features);
        codec::encode_envelope(out, 1, 1, |out| {
            self.kind.0.encode(out, features);
            self.nonce.encode(out, features);
            match self.socket {
                None => 0u32.encode(out, features),
                Some(SocketAddr::V4(v4)) => {
                    16u32.encode(out, features);
                    AF_INET.encode(out, features);
                    out.extend_from_slice(&v4.port().to_be_bytes());
                    out.extend_from_slice(&v4.ip().octets());
                    out.extend_from_slice(&[0; 8]);
                }
                Some(SocketAddr::V6(v6)) => {
                    28u32.encode(out, features);
                    AF_INET6.encode(out, features);
                    out.extend_from_slice(&v6.port().to_be_bytes());
                    out.extend_from_slice(&v6.flowinfo().to_be_bytes());
                    out.extend_from_slice(&v6.ip().octets());
                    v6.scope_id().encode(out, features);
                }
            }
        });
    }
}

impl Decode for EntityAddr {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let marker = u8::decode(input)?;
        if marker != 1 {
            return Err(DecodeError::Invalid { what: "entity_addr_t marker", value: u64::from(marker) });
        }
        codec::decode_envelope(input, 1, "entity_addr_t", |input, _| {
            let kind = AddrType(u32::decode(input)?);
            let nonce = u32::decode(input)?;
            let bytes = u32::decode(input)? as usize;
            let sockaddr = input.take(bytes)?;
            Ok(EntityAddr { kind, nonce, socket: decode_sockaddr(&sockaddr)? })
        })
    }
}

fn decode_sockaddr(bytes: &[u8]) -> Result<Option<SocketAddr>, DecodeError> {
    let Some((family, rest)) = bytes.split_first_chunk::<2>() else { return Ok(None) };
    let short = DecodeError::Truncated { needed: 16, available: bytes.len() };
    let port = rest.first_chunk::<2>().copied().map(u16::from_be_bytes);
    match u16::from_le_bytes(*family) {
        0 => Ok(None),
        AF_INET => {
            let ip: [u8; 4] = rest.get(2..6).and_then(|b| b.try_into().ok()).ok_or(short.clone())?;
            Ok(Some(SocketAddr::new(Ipv4Addr::from(ip).into(), port.ok_or(short)?)))
        }
        AF_INET6 => {
            let ip: [u8; 16] = rest.get(6..22).and_then(|b| b.try_into().ok()).ok_or(short.clone())?;
            let label = rest.get(2..6).and_then(|b| b.try_into().ok()).map_or(0, u32::from_be_bytes);
            // A link-local address means nothing without its scope, the number of an interface.
            let scope = rest.get(22..26).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes);
            Ok(Some(SocketAddrV6::new(Ipv6Addr::from(ip), port.ok_or(short)?, label, scope).into()))
        }
        other => Err(DecodeError::Invalid { what: "sa_family", value: u64::from(other) }),
    }
}

/// `entity_addrvec_t`: all addresses of one entity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntityAddrVec(pub Vec<EntityAddr>);

impl EntityAddrVec {
    /// One msgr2 address.
    pub fn msgr2(socket: SocketAddr, nonce: u32) -> EntityAddrVec {
        EntityAddrVec(vec![EntityAddr::msgr2(socket, nonce)])
    }

    /// The address to dial: the first that speaks msgr2.
    pub fn msgr2_addr(&self) -> Option<&EntityAddr> {
        self.msgr2_addrs().next()
    }

    /// All that speak msgr2.
    pub fn msgr2_addrs(&self) -> impl Iterator<Item = &EntityAddr> {
        self.0.iter().filter(|a| a.kind == AddrType::MSGR2)
    }
}

/// `[v2:1.2.3.4:3300/0,v1:1.2.3.4:6789/0]`, without brackets for one address, `-` for none.
impl fmt::Display for EntityAddrVec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [] => f.write_str("-"),
            [one] => one.fmt(f),
            many => {
                let list: Vec<String> = many.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", list.join(","))
            }
        }
    }
}

impl Encode for EntityAddrVec {
    fn encode(&self, out: &mut Vec<u8>, features: Features) {
        2u8.encode(out, features);
        self.0.encode(out, features);
    }
}

impl Decode for EntityAddrVec {
    /// Marker 2 is a vector; marker 1 is a lone address, as older encoders write it.
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        match input.peek().first() {
            Some(1) => Ok(EntityAddrVec(vec![EntityAddr::decode(input)?])),
            Some(2) => {
                let _marker = u8::decode(input)?;
                Ok(EntityAddrVec(Vec::decode(input)?))
            }
            Some(&other) => {
                Err(DecodeError::Invalid { what: "entity_addrvec_t marker", value: u64::from(other) })
            }
            None => Err(DecodeError::Truncated { needed: 1, available: 0 }),
        }
    }
}
