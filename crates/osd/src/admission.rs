//! What clients may have in this OSD at a time: requests, what these copy and notify of; and when clients have to wait.

use pg::{OpThrottle, ReadSlots, Slots};

use crate::held_back::HeldBack;

/// Clients' ops that the OSD holds at a time, at most (`osd_client_message_cap`): deep enough for any device.
const OPS_MAX: u64 = 1_024;
/// Their payload (`osd_client_message_size_cap`), in bytes.
const OP_BYTES_MAX: u64 = 128 << 20;
/// What a shard may hold of that at least: some of the largest writes that images and objects are made with (4 MiB). A
/// full shard makes all shards stop reading.
const SHARD_OP_BYTES_MIN: u64 = 16 << 20;

/// Payload of ops that wait for a map, and of those that wait for a PG, at most, in bytes; then connections of clients
/// that send more are closed. As nothing more is received from these clients, that is for many of them with a large
/// write each.
const AHEAD_BYTES_MAX: u64 = 512 << 20;
/// What a shard may hold of that at least: two of the longest messages.
const SHARD_AHEAD_BYTES_MIN: u64 = 256 << 20;

/// What a shard has admitted, and what the other shards say of themselves.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// Clients' requests.
    pub(crate) requests: OpThrottle,
    /// Those that wait for a map. They keep no other client waiting, as any client may name a map that never comes.
    pub(crate) ahead: OpThrottle,
    /// Those for PGs that this OSD leads and does not have: all copies may be down. They keep no client waiting that
    /// has none of them.
    pub(crate) early: OpThrottle,
    /// Requests that are not admitted while their pool is full.
    pub(crate) held_back: HeldBack,
    /// Requests that copy objects.
    pub(crate) copying: Slots,
    /// Requests that keep what they have loaded while they load more.
    pub(crate) reading: ReadSlots,
    /// Notifications that are not over.
    pub(crate) notifying: OpThrottle,
    /// Bits of the other shards that want clients to wait.
    full_shards: u64,
    /// Whether the others know that clients have to wait for this shard.
    has_told_full: bool,
}

/// True when so much waits that who sends more is closed.
fn is_too_much(waiting: &OpThrottle, shards: u16) -> bool {
    waiting.bytes() > (AHEAD_BYTES_MAX / u64::from(shards)).max(SHARD_AHEAD_BYTES_MIN)
}

impl Admission {
    /// True while one of `shards` shards, as this one, holds as much of clients as it wants to.
    pub(crate) fn is_full(&self, shards: u16) -> bool {
        is_full(&self.requests, shards)
    }

    /// True while clients have to wait for this shard or for another one.
    pub(crate) fn is_saturated(&self, shards: u16) -> bool {
        self.full_shards != 0 || self.is_full(shards)
    }

    /// True when more waits for a map than may.
    pub(crate) fn is_too_much_ahead(&self, shards: u16) -> bool {
        is_too_much(&self.ahead, shards)
    }

    /// True when as much waits for PGs to come as may be held otherwise.
    pub(crate) fn is_too_early(&self, shards: u16) -> bool {
        is_full(&self.early, shards)
    }

    /// True when more waits for PGs to come than may.
    pub(crate) fn is_too_much_early(&self, shards: u16) -> bool {
        is_too_much(&self.early, shards)
    }

    /// Clients' ops that are not answered.
    pub(crate) fn ops(&self) -> u64 {
        self.requests.ops() + self.ahead.ops() + self.early.ops()
    }

    /// Another shard is full, or not any more.
    pub(crate) fn on_shard_full(&mut self, shard: u16, is_full: bool) {
        let bit = 1u64 << shard;
        self.full_shards = if is_full { self.full_shards | bit } else { self.full_shards & !bit };
    }

    /// Whether this shard is full, if the others do not know it yet.
    pub(crate) fn news(&mut self, shards: u16) -> Option<bool> {
        let is_full = self.is_full(shards);
        (is_full != std::mem::replace(&mut self.has_told_full, is_full)).then_some(is_full)
    }
}

/// True while as much is held as one of `shards` shards wants to.
fn is_full(held: &OpThrottle, shards: u16) -> bool {
    let shards = u64::from(shards);
    let bytes_max = (OP_BYTES_MAX / shards).max(SHARD_OP_BYTES_MIN);
    held.ops() >= OPS_MAX / shards || held.bytes() >= bytes_max
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_shard_is_full_with_one_large_write() {
        let admission = Admission::default();
        let mut held = vec![admission.requests.take(8 << 20)];
        assert!(!admission.is_full(32));
        held.push(admission.requests.take(8 << 20));
        assert!(admission.is_full(32));
        assert!(!admission.is_full(4), "a quarter of all");
    }

    #[test]
    fn clients_wait_for_the_fullest_shard_and_each_change_is_told_once() {
        let mut admission = Admission::default();
        admission.on_shard_full(3, true);
        admission.on_shard_full(5, true);
        admission.on_shard_full(3, false);
        assert!(admission.is_saturated(8));
        admission.on_shard_full(5, false);
        assert!(!admission.is_saturated(8));
        assert_eq!(admission.news(8), None);
        let held = admission.requests.take(64 << 20);
        assert_eq!((admission.news(8), admission.news(8)), (Some(true), None));
        drop(held);
        assert_eq!((admission.news(8), admission.news(8)), (Some(false), None));
    }
}
