//! Feature bits of a peer (`include/ceph_features.h`).

/// The 64-bit feature mask that two peers negotiate; encoders take it as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Features(pub u64);

impl Features {
    /// What a Pacific (16.2) client and daemon announce.
    pub const PACIFIC: Features = Features(0x3f01_cfbd_fffd_ffff);
    /// `MSG_ADDR2` (bit 59): addresses with a type, address vectors. Required of every msgr2 peer.
    pub const MSG_ADDR2: u64 = 1 << 59;
    /// `RADOS_BACKOFF` (bit 21 of incarnation 2, shared with `SERVER_LUMINOUS`): understands MOSDBackoff.
    pub const RADOS_BACKOFF: u64 = 1 << 21 | 1 << 57;
    /// `SERVER_NAUTILUS` (bit 2 of incarnation 2).
    pub const SERVER_NAUTILUS: u64 = 1 << 2;

    /// True when every bit of `mask` is set.
    pub fn has(self, mask: u64) -> bool {
        self.0 & mask == mask
    }
}
