//! What an OSD knows of a connected client or OSD.

use std::collections::BTreeMap;

use types::{EntityNum, EntityType, Epoch, Instant, OsdId, PgId};

use crate::event::Peer;

/// One connection of a client or an OSD.
#[derive(Debug)]
pub(crate) struct Session {
    /// The peer, as it was authenticated.
    pub(crate) peer: Peer,
    /// The OSD at the other end, if it is one.
    osd: Option<OsdId>,
    /// Newest map that the peer has, as far as we know: what it named or we sent.
    pub(crate) map_epoch: Epoch,
    /// PGs of this shard of which changes were dropped that it does not send again unasked, with the bytes of the
    /// first.
    pub(crate) dropped: BTreeMap<PgId, u64>,
    /// Bits of the other shards that know of this session from us.
    announced: u64,
    /// Ops of it that wait for a map in this shard.
    ahead: u64,
    /// Since when nothing more is taken from it, as too many of its ops wait for PGs of this shard that are not here.
    early_since: Option<Instant>,
    /// An op of it was dropped for want of room.
    drops: bool,
    /// Bits of the shards for which nothing is taken from it.
    held_by: u64,
}

impl Session {
    pub(crate) fn new(peer: Peer) -> Session {
        let is_osd = peer.entity_type == EntityType::OSD && peer.name.kind == EntityType::OSD;
        let osd = is_osd.then(|| peer.name.id.parse().ok().map(OsdId)).flatten();
        Session {
            peer,
            osd,
            map_epoch: Epoch(0),
            dropped: BTreeMap::new(),
            announced: 0,
            ahead: 0,
            early_since: None,
            drops: false,
            held_by: 0,
        }
    }

    /// Notes that a shard gets to know of this session; true the first time.
    pub(crate) fn announce_to(&mut self, shard: u16) -> bool {
        let bit = 1 << shard;
        let is_new = self.announced & bit == 0;
        self.announced |= bit;
        is_new
    }

    /// True if a shard knows of this session from us.
    pub(crate) fn is_announced_to(&self, shard: u16) -> bool {
        self.announced & 1 << shard != 0
    }

    /// An op begins to wait for a map; true if the session is to be held now.
    pub(crate) fn begin_ahead(&mut self) -> bool {
        let is_held = self.is_to_be_held();
        self.ahead += 1;
        !is_held
    }

    /// An op waits no more; true if the session need not be held any more.
    pub(crate) fn end_ahead(&mut self) -> bool {
        self.ahead = self.ahead.saturating_sub(1);
        !self.is_to_be_held()
    }

    /// Too many ops wait for PGs that are not here; true if the session is to be held now.
    pub(crate) fn begin_early(&mut self, now: Instant) -> bool {
        let is_held = self.is_to_be_held();
        self.early_since.get_or_insert(now);
        !is_held
    }

    /// They are fewer; true if the session need not be held any more.
    pub(crate) fn end_early(&mut self) -> bool {
        self.early_since = None;
        !self.is_to_be_held()
    }

    /// Such an op was dropped: nothing that came after it may be carried out before it.
    pub(crate) fn begin_to_drop(&mut self) {
        self.drops = true;
    }

    /// True when what comes is dropped, until the client sends it again over another connection.
    pub(crate) fn drops(&self) -> bool {
        self.drops
    }

    /// Since when it is held for them.
    pub(crate) fn early_since(&self) -> Option<Instant> {
        self.early_since
    }

    fn is_to_be_held(&self) -> bool {
        self.ahead > 0 || self.early_since.is_some()
    }

    /// Nothing more is to be taken from it for a shard, or that shard lets it be taken again. True if that changes
    /// anything.
    pub(crate) fn hold(&mut self, shard: u16, hold: bool) -> bool {
        let (before, bit) = (self.held_by, 1 << shard);
        self.held_by = if hold { before | bit } else { before & !bit };
        (before == 0) != (self.held_by == 0)
    }

    /// `client.4123`, as request ids and lock owners name it.
    pub(crate) fn entity(&self) -> EntityNum {
        EntityNum { kind: self.peer.name.kind.0, num: self.peer.global_id.0 as i64 }
    }

    /// The OSD at the other end, if it is one.
    pub(crate) fn osd(&self) -> Option<OsdId> {
        self.osd
    }
}
