//! `MWatchNotify` (44), version 3 (messages/MWatchNotify.h).

use bytes::Bytes;
use codec::{Codec, DecodeError, Encode, Features};

use crate::{RawMessage, table::Body};

/// What the message tells.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchOpcode(pub u8);

impl WatchOpcode {
    /// To a watcher: a client notifies.
    pub const NOTIFY: WatchOpcode = WatchOpcode(1);
    /// To the notifier: all watchers acknowledged or timed out.
    pub const NOTIFY_COMPLETE: WatchOpcode = WatchOpcode(2);
    /// To a watcher: the watch is gone.
    pub const DISCONNECT: WatchOpcode = WatchOpcode(3);
}

#[derive(Codec)]
struct Front {
    msg_version: u8,
    opcode: WatchOpcode,
    cookie: u64,
    version: u64,
    notify_id: u64,
    payload: Bytes,
    return_code: i32,
    notifier_gid: u64,
}

/// From an OSD to a client that watches or notifies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MWatchNotify {
    /// What it tells.
    pub opcode: WatchOpcode,
    /// The watcher's cookie, or the notifier's.
    pub cookie: u64,
    /// The object's user version.
    pub version: u64,
    /// The notification.
    pub notify_id: u64,
    /// For NOTIFY: the notifier's payload. Empty for NOTIFY_COMPLETE.
    pub payload: Bytes,
    /// For NOTIFY_COMPLETE: 0 or -ETIMEDOUT.
    pub return_code: i32,
    /// The notifier's global id.
    pub notifier_gid: u64,
    /// For NOTIFY_COMPLETE: the replies by (global id, cookie), then those that timed out. Data segment.
    pub replies: Bytes,
}

impl Body for MWatchNotify {
    fn encode_body(&self, raw: &mut RawMessage) {
        let front = Front {
            msg_version: 1,
            opcode: self.opcode,
            cookie: self.cookie,
            version: self.version,
            notify_id: self.notify_id,
            payload: self.payload.clone(),
            return_code: self.return_code,
            notifier_gid: self.notifier_gid,
        };
        raw.front = front.to_bytes(Features::PACIFIC);
        raw.data = self.replies.clone().into();
    }

    fn decode_body(raw: RawMessage) -> Result<Self, DecodeError> {
        let front: Front = codec::Decode::from_prefix(raw.front.clone())?;
        Ok(MWatchNotify {
            opcode: front.opcode,
            cookie: front.cookie,
            version: front.version,
            notify_id: front.notify_id,
            payload: front.payload,
            return_code: front.return_code,
            notifier_gid: front.notifier_gid,
            replies: Bytes::clone(&raw.data),
        })
    }
}
