//! What a process knows of others that accepts nobody: clients.

use auth::{Authority, EntityAuth, RotatingSecrets};
use types::{EntityName, EntityType};

/// Knows nobody.
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
