//! Payloads of control frames, and the header of messages.

use bytes::Bytes;
use codec::Codec;
use types::{EntityAddr, EntityAddrVec, UTime};

/// `"ceph v2\n"`, payload length 16, features supported (revision 1) and required (none).
pub(crate) const BANNER: &[u8; 26] = b"ceph v2\n\x10\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// Bytes that are the same in every banner; features follow.
pub(crate) const BANNER_FIXED_BYTES: usize = 10;

#[derive(Codec)]
pub(crate) struct Hello {
    pub(crate) entity_type: u8,
    /// The other side's address, as the sender sees it.
    pub(crate) peer_addr: EntityAddr,
}

#[derive(Codec)]
pub(crate) struct AuthRequest {
    pub(crate) method: u32,
    pub(crate) preferred_modes: Vec<u32>,
    pub(crate) payload: Bytes,
}

#[derive(Codec)]
pub(crate) struct AuthBadMethod {
    pub(crate) method: u32,
    pub(crate) result: i32,
    pub(crate) allowed_methods: Vec<u32>,
    pub(crate) allowed_modes: Vec<u32>,
}

#[derive(Codec)]
pub(crate) struct AuthMore {
    pub(crate) payload: Bytes,
}

#[derive(Codec)]
pub(crate) struct AuthDone {
    pub(crate) global_id: u64,
    pub(crate) con_mode: u32,
    pub(crate) payload: Bytes,
}

#[derive(Codec)]
pub(crate) struct ClientIdent {
    pub(crate) addrs: EntityAddrVec,
    pub(crate) target_addr: EntityAddr,
    pub(crate) gid: i64,
    pub(crate) global_seq: u64,
    pub(crate) features_supported: u64,
    pub(crate) features_required: u64,
    pub(crate) flags: u64,
    pub(crate) cookie: u64,
}

/// `CEPH_MSG_CONNECT_LOSSY`.
pub(crate) const FLAG_LOSSY: u64 = 1;

#[derive(Codec)]
pub(crate) struct ServerIdent {
    pub(crate) addrs: EntityAddrVec,
    pub(crate) gid: i64,
    pub(crate) global_seq: u64,
    pub(crate) features_supported: u64,
    pub(crate) features_required: u64,
    pub(crate) flags: u64,
    pub(crate) cookie: u64,
}

#[derive(Codec)]
pub(crate) struct SessionReconnect {
    pub(crate) addrs: EntityAddrVec,
    pub(crate) client_cookie: u64,
    pub(crate) server_cookie: u64,
    pub(crate) global_seq: u64,
    pub(crate) connect_seq: u64,
    pub(crate) msg_seq: u64,
}

#[derive(Codec)]
pub(crate) struct Keepalive {
    pub(crate) stamp: UTime,
}

/// `ceph_msg_header2`, 41 bytes.
#[derive(Codec, Clone, Copy, Debug, Default)]
pub(crate) struct Header {
    pub(crate) seq: u64,
    pub(crate) tid: u64,
    pub(crate) kind: u16,
    pub(crate) priority: u16,
    pub(crate) version: u16,
    pub(crate) data_pre_padding_bytes: u32,
    pub(crate) data_offset: u16,
    pub(crate) ack_seq: u64,
    pub(crate) flags: u8,
    pub(crate) compat: u16,
    pub(crate) reserved: u16,
}

/// What Ceph's daemons and clients set in a header's flags.
pub(crate) const HEADER_FLAGS: u8 = 3;
