//! What a process that accepts no connections, such as a client, knows to authenticate others: nothing.

use auth::{Authority, EntityAuth, RotatingSecrets};
use types::{EntityName, EntityType};

/// An authority that knows no entities and no secrets.
#[derive(Clone, Copy, Debug)]
pub struct NoAuthority;

impl Authority for NoAuthority {
    fn service(&self) -> EntityType {
        EntityType::CLIENT
    }
    fn allows_none(&self) -> bool {
        false
    }
    fn entity(&self, _: &EntityName) -> Option<EntityAuth> {
        None
    }
    fn next_global_id(&mut self) -> u64 {
        0
    }
    fn secrets(&self, _: EntityType) -> Option<&RotatingSecrets> {
        None
    }
}
