//! `MMonGetMap` (5): a client asks for the monitor map.

use codec::Codec;

use crate::table::front_only;

/// Empty; answered with an `MMonMap`.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MMonGetMap {}
front_only!(MMonGetMap);
