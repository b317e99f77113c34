//! `MMonGetVersion` (19) and `MMonGetVersionReply` (20): how new is a map?

use codec::Codec;

use crate::table::front_only;

/// Asks for the newest version of a map.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
pub struct MMonGetVersion {
    /// Chosen by the client, echoed by the answer.
    pub handle: u64,
    /// `osdmap`, `monmap`, …
    #[codec(lossy)]
    pub what: String,
}
front_only!(MMonGetVersion);

/// The answer.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MMonGetVersionReply {
    /// The question's.
    pub handle: u64,
    /// The newest version.
    pub version: u64,
    /// The oldest version that is kept.
    pub oldest: u64,
}
front_only!(MMonGetVersionReply);
