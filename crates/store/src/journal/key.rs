//! What a store knows its own journal records by.

use std::fmt;

use codec::Codec;

/// What each record of a store's journal bears: random, and of no use but this.
///
/// The ring holds data of clients, too, block by block as they sent it, and a mount looks for records in all of it. A
/// checksum tells a whole record from a torn one, but a client can compute it; and the store's uuid is the OSD's, which
/// each client learns from the OSD map. So the records bear what leaves the device in no message, log or dump.
#[derive(Clone, Copy, Codec, PartialEq, Eq)]
pub struct JournalKey([u8; 16]);

impl JournalKey {
    /// What a superblock has that was written before there were keys.
    pub(crate) const NONE: JournalKey = JournalKey([0; 16]);

    /// The key of these bytes, which must be random and of this store alone.
    pub const fn new(random: [u8; 16]) -> JournalKey {
        JournalKey(random)
    }
}

impl fmt::Debug for JournalKey {
    /// Does not show the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JournalKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_printed() {
        assert_eq!(format!("{:?}", JournalKey::new([0x2a; 16])), "JournalKey(..)");
    }
}
