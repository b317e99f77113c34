//! Options set on a pool (`pool_opts_t`): a sparse map of number to string, integer or float.

use std::{collections::BTreeMap, fmt};

use codec::{Codec, Decode, DecodeError, Encode, Features, Reader};

/// `pool_opts_t::key_t`: the number of an option.
#[derive(Codec, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolOptKey(pub i32);

/// What kind of value an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolOptKind {
    /// Text.
    Str,
    /// A signed integer.
    Int,
    /// A float.
    Double,
}

/// Number, name and kind of every option, as Pacific has them.
const OPTIONS: &[(i32, &str, PoolOptKind)] = &[
    (0, "scrub_min_interval", PoolOptKind::Double),
    (1, "scrub_max_interval", PoolOptKind::Double),
    (2, "deep_scrub_interval", PoolOptKind::Double),
    (3, "recovery_priority", PoolOptKind::Int),
    (4, "recovery_op_priority", PoolOptKind::Int),
    (5, "scrub_priority", PoolOptKind::Int),
    (6, "compression_mode", PoolOptKind::Str),
    (7, "compression_algorithm", PoolOptKind::Str),
    (8, "compression_required_ratio", PoolOptKind::Double),
    (9, "compression_max_blob_size", PoolOptKind::Int),
    (10, "compression_min_blob_size", PoolOptKind::Int),
    (11, "csum_type", PoolOptKind::Int),
    (12, "csum_max_block", PoolOptKind::Int),
    (13, "csum_min_block", PoolOptKind::Int),
    (14, "fingerprint_algorithm", PoolOptKind::Str),
    (15, "pg_num_min", PoolOptKind::Int),
    (16, "target_size_bytes", PoolOptKind::Int),
    (17, "target_size_ratio", PoolOptKind::Double),
    (18, "pg_autoscale_bias", PoolOptKind::Double),
    (19, "read_lease_interval", PoolOptKind::Double),
    (20, "dedup_tier", PoolOptKind::Int),
    (21, "dedup_chunk_algorithm", PoolOptKind::Str),
    (22, "dedup_cdc_chunk_size", PoolOptKind::Int),
    (23, "pg_num_max", PoolOptKind::Int),
];

impl PoolOptKey {
    /// The option that `name` names, and what it takes.
    pub fn parse(name: &str) -> Option<(PoolOptKey, PoolOptKind)> {
        OPTIONS.iter().find(|(_, n, _)| *n == name).map(|(key, _, kind)| (PoolOptKey(*key), *kind))
    }

    /// The option's name.
    pub fn name(self) -> Option<&'static str> {
        OPTIONS.iter().find(|(key, ..)| *key == self.0).map(|(_, name, _)| *name)
    }
}

impl PoolOptKey {
    /// How many PGs a pool had before that was changed first. Ours, behind all of Ceph's: clients keep options
    /// that they do not know, and show none of them.
    pub const FIRST_PG_NUM: PoolOptKey = PoolOptKey(0x1001);
}

/// An option's value.
#[derive(Clone, Debug, PartialEq)]
pub enum PoolOptValue {
    /// Text.
    Str(String),
    /// A signed integer.
    Int(i64),
    /// A float.
    Double(f64),
}

impl fmt::Display for PoolOptValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoolOptValue::Str(text) => f.write_str(text),
            PoolOptValue::Int(value) => value.fmt(f),
            PoolOptValue::Double(value) => value.fmt(f),
        }
    }
}

impl Encode for PoolOptValue {
    fn encode(&self, out: &mut Vec<u8>, features: Features) {
        match self {
            PoolOptValue::Str(text) => {
                0i32.encode(out, features);
                text.encode(out, features);
            }
            PoolOptValue::Int(value) => {
                1i32.encode(out, features);
                value.encode(out, features);
            }
            PoolOptValue::Double(value) => {
                2i32.encode(out, features);
                value.encode(out, features);
            }
        }
    }
}

impl Decode for PoolOptValue {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        match i32::decode(input)? {
            0 => Ok(PoolOptValue::Str(String::decode(input)?)),
            1 => Ok(PoolOptValue::Int(i64::decode(input)?)),
            2 => Ok(PoolOptValue::Double(f64::decode(input)?)),
            other => Err(DecodeError::Invalid { what: "pool option type", value: other as u64 }),
        }
    }
}

/// `pool_opts_t`, version 2: the options that are set.
#[derive(Codec, Clone, Debug, Default, PartialEq)]
#[codec(version = 2, compat = 1)]
pub struct PoolOpts(pub BTreeMap<PoolOptKey, PoolOptValue>);

impl PoolOpts {
    /// The value of an option, by name.
    pub fn get(&self, name: &str) -> Option<&PoolOptValue> {
        self.0.get(&PoolOptKey::parse(name)?.0)
    }
}
