//! Networks whose clients are refused: entries are addresses of the type CIDR, whose nonce is the length of the
//! prefix in bits. They came with 16.2.14; maps without any are encoded as before.
//!
//! Authority: `OSDMap::range_blocklist`, `OSDMap::encode`, and maps of a 16.2.15 cluster.

use std::{collections::BTreeMap, net::IpAddr};

use codec::{Decode, DecodeError, Encode, Features, Reader};

use crate::{AddrType, EntityAddr, UTime};

/// Bytes that the fields of stretch mode, which is off, take before the ranges in a full map and in an incremental.
const STRETCH_BYTES: usize = 1 + 3 * 4 + 4;
const STRETCH_CHANGE_BYTES: usize = 1 + STRETCH_BYTES;

/// Networks and until when they are refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeBlocklist(pub BTreeMap<EntityAddr, UTime>);

/// What an incremental changes of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeChange {
    /// Networks refused, and until when.
    pub new: BTreeMap<EntityAddr, UTime>,
    /// Networks admitted again.
    pub old: Vec<EntityAddr>,
}

/// True when the first `bits` of both are the same.
fn share_prefix(a: IpAddr, b: IpAddr, bits: u32) -> bool {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            (a.to_bits() ^ b.to_bits()).checked_shr(32u32.saturating_sub(bits)).unwrap_or(0) == 0
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            (a.to_bits() ^ b.to_bits()).checked_shr(128u32.saturating_sub(bits)).unwrap_or(0) == 0
        }
        _ => false,
    }
}

impl RangeBlocklist {
    /// True for an address in one of the networks.
    pub fn contains(&self, addr: &EntityAddr) -> bool {
        let Some(ip) = addr.socket.map(|socket| socket.ip()) else { return false };
        self.0.keys().any(|range| range.covers(ip))
    }

    pub(super) fn apply(&mut self, change: &RangeChange) {
        // As with single addresses.
        for (range, until) in &change.new {
            let listed = self.0.entry(*range).or_insert(*until);
            *listed = (*listed).max(*until);
        }
        for range in &change.old {
            self.0.remove(range);
        }
    }
}

impl EntityAddr {
    /// A network: `address/bits`. None for more bits than the address has.
    pub fn cidr(addr: IpAddr, bits: u32) -> Option<EntityAddr> {
        let most = if addr.is_ipv4() { 32 } else { 128 };
        let socket = Some((addr, 0).into());
        (bits <= most).then_some(EntityAddr { kind: AddrType::CIDR, nonce: bits, socket })
    }

    /// True for a network that the address is in.
    pub fn covers(&self, ip: IpAddr) -> bool {
        self.socket.is_some_and(|net| share_prefix(net.ip(), ip, self.nonce))
    }
}

/// A field at the end of a section that is written only where it holds something, and makes the section one
/// of a newer version.
pub(super) trait Tail: Default {
    /// True when older readers would miss something.
    fn is_needed(&self) -> bool;
    /// Writes it, with all that came between the section's version and its own.
    fn encode_tail(&self, out: &mut Vec<u8>, f: Features);
    /// The inverse.
    fn decode_tail(input: &mut Reader) -> Result<Self, DecodeError>;
}

impl Tail for RangeBlocklist {
    fn is_needed(&self) -> bool {
        !self.0.is_empty()
    }

    fn encode_tail(&self, out: &mut Vec<u8>, f: Features) {
        out.extend_from_slice(&[0; STRETCH_BYTES]);
        self.0.encode(out, f);
    }

    fn decode_tail(input: &mut Reader) -> Result<Self, DecodeError> {
        input.take(STRETCH_BYTES)?;
        Ok(RangeBlocklist(BTreeMap::decode(input)?))
    }
}

impl Tail for RangeChange {
    fn is_needed(&self) -> bool {
        !self.new.is_empty() || !self.old.is_empty()
    }

    fn encode_tail(&self, out: &mut Vec<u8>, f: Features) {
        out.extend_from_slice(&[0; STRETCH_CHANGE_BYTES]);
        self.new.encode(out, f);
        self.old.encode(out, f);
    }

    fn decode_tail(input: &mut Reader) -> Result<Self, DecodeError> {
        input.take(STRETCH_CHANGE_BYTES)?;
        Ok(RangeChange { new: BTreeMap::decode(input)?, old: Vec::decode(input)? })
    }
}
