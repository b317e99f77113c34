//! `MPing` (2): what a client with watches sends every 5 s.

use codec::Codec;

use crate::table::front_only;

/// Empty: the connection's activity is the message.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MPing {}
front_only!(MPing);
