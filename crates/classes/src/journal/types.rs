//! Structs of the journal class (cls/journal/cls_journal_types.h).

use bytes::Bytes;
use codec::Codec;

/// `ObjectPosition`: an entry that a client has committed.
#[derive(Codec, Clone, Debug, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(super) struct ObjectPosition {
    pub(super) object_number: u64,
    pub(super) tag_tid: u64,
    pub(super) entry_tid: u64,
}

/// `ObjectSetPosition`: a position in each of the objects that entries go to in turn, the most recent first.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(super) struct ObjectSetPosition {
    pub(super) object_positions: Vec<ObjectPosition>,
}

/// `CLIENT_STATE_DISCONNECTED`: entries need not be kept for this client.
pub(super) const DISCONNECTED: u8 = 1;

/// `Client`: a reader of the journal.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(super) struct Client {
    pub(super) id: Bytes,
    pub(super) data: Bytes,
    pub(super) commit_position: ObjectSetPosition,
    pub(super) state: u8,
}

impl Client {
    /// The tag of the oldest entry that it still needs.
    pub(super) fn oldest_tag(&self) -> Option<u64> {
        self.commit_position.object_positions.iter().map(|position| position.tag_tid).min()
    }
}

/// `Tag::TAG_CLASS_NEW`: asks for a class of its own.
pub(super) const TAG_CLASS_NEW: u64 = u64::MAX;

/// `Tag`: says which client wrote the entries that carry its number.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(super) struct Tag {
    pub(super) tid: u64,
    pub(super) tag_class: u64,
    pub(super) data: Bytes,
}
