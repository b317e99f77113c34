//! Names of daemons and clients.

use std::fmt;

use codec::{Codec, Decode, DecodeError, Encode, Features, Reader};

/// The kind of an entity, as one byte or one u32 on the wire (`CEPH_ENTITY_TYPE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntityType(pub u8);

impl EntityType {
    /// A monitor.
    pub const MON: EntityType = EntityType(0x01);
    /// A metadata server.
    pub const MDS: EntityType = EntityType(0x02);
    /// An object storage daemon.
    pub const OSD: EntityType = EntityType(0x04);
    /// A client.
    pub const CLIENT: EntityType = EntityType(0x08);
    /// A manager.
    pub const MGR: EntityType = EntityType(0x10);
    /// The authentication service itself.
    pub const AUTH: EntityType = EntityType(0x20);

    /// `client`, `osd`, …
    pub fn as_str(self) -> &'static str {
        match self {
            EntityType::MON => "mon",
            EntityType::MDS => "mds",
            EntityType::OSD => "osd",
            EntityType::CLIENT => "client",
            EntityType::MGR => "mgr",
            EntityType::AUTH => "auth",
            EntityType(_) => "unknown",
        }
    }

    /// The kind that `text` names.
    pub fn parse(text: &str) -> Option<EntityType> {
        Some(match text {
            "mon" => EntityType::MON,
            "mds" => EntityType::MDS,
            "osd" => EntityType::OSD,
            "client" => EntityType::CLIENT,
            "mgr" => EntityType::MGR,
            "auth" => EntityType::AUTH,
            _ => return None,
        })
    }
}

/// `EntityName`: a kind and a name, `client.admin`. On the wire u32 kind, string id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntityName {
    /// The kind.
    pub kind: EntityType,
    /// The part behind the dot.
    pub id: String,
}

impl EntityName {
    /// `kind.id`.
    pub fn new(kind: EntityType, id: impl Into<String>) -> EntityName {
        EntityName { kind, id: id.into() }
    }

    /// Parses `client.admin`.
    pub fn parse(text: &str) -> Option<EntityName> {
        let (kind, id) = text.split_once('.')?;
        Some(EntityName { kind: EntityType::parse(kind)?, id: id.to_owned() })
    }
}

impl fmt::Display for EntityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind.as_str(), self.id)
    }
}

impl Encode for EntityName {
    fn encode(&self, out: &mut Vec<u8>, features: Features) {
        u32::from(self.kind.0).encode(out, features);
        self.id.encode(out, features);
    }
}

impl Decode for EntityName {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let kind = u32::decode(input)?;
        let kind = u8::try_from(kind)
            .map_err(|_| DecodeError::Invalid { what: "entity type", value: u64::from(kind) })?;
        Ok(EntityName { kind: EntityType(kind), id: String::decode(input)? })
    }
}

/// `entity_name_t`: a kind and a number, `client.4123` or `osd.0`.
#[derive(Codec, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntityNum {
    /// The kind, one byte.
    pub kind: u8,
    /// The global id of a client, the id of an OSD, the rank of a monitor.
    pub num: i64,
}

impl EntityNum {
    /// `client.N` for a global id.
    pub fn client(global_id: u64) -> EntityNum {
        EntityNum { kind: EntityType::CLIENT.0, num: global_id as i64 }
    }

    /// `osd.N`.
    pub fn osd(id: i32) -> EntityNum {
        EntityNum { kind: EntityType::OSD.0, num: i64::from(id) }
    }
}

impl fmt::Display for EntityNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", EntityType(self.kind).as_str(), self.num)
    }
}
