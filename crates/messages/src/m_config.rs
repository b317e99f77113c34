//! `MConfig` (62): the options that the monitors keep for a client.

use std::collections::BTreeMap;

use codec::Codec;

use crate::table::front_only;

/// All options that differ from the default, by name. Clients do not go on before they have it.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
pub struct MConfig {
    /// Name to value.
    pub config: BTreeMap<String, String>,
}
front_only!(MConfig);
