//! Secret keys of a type that can be forged (CVE-2025-30156), as Ceph's checks `AUTH_INSECURE_*`.
//!
//! Clients' keys are not reported in a cluster that prefers `aes`: its operator has said which clients it has to serve.

use types::{EntityName, EntityType, KeyType};

use super::{Health, Severity};
use crate::Mon;

impl Mon {
    pub(super) fn check_keys(&self, health: &mut Health) {
        let monmap = &self.committed.monmap;
        if !monmap.service_key_type().is_secure() {
            let text = "Monitors are configured to issue insecure service tickets".to_owned();
            health.add("AUTH_INSECURE_SERVICE_TICKETS", Severity::Err, text, 1, Vec::new());
        }
        let forgeable = |kind: KeyType| !kind.is_secure();
        let services = self.committed.rotating.iter().filter(|(_, secrets)| {
            let mut kinds = secrets.all().map(|(_, key, _)| key.kind());
            kinds.any(forgeable) && monmap.service_key_type().is_secure()
        });
        let lines: Vec<String> = services
            .map(|(service, _)| {
                format!("rotating service keys for {} using insecure key type: aes", service.as_str())
            })
            .collect();
        add(
            health,
            "AUTH_INSECURE_ROTATING_SERVICE_KEY_TYPE",
            "rotating auth service keys using insecure key types",
            lines,
        );
        if !monmap.preferred_key_type().is_secure() {
            return;
        }
        let insecure = self.committed.entities.iter().filter(|(_, entity)| forgeable(entity.key.kind()));
        let line = |name: &EntityName| format!("entity {name} using insecure key type: aes");
        let (clients, services): (Vec<_>, Vec<_>) =
            insecure.map(|(name, _)| name).partition(|name| name.kind == EntityType::CLIENT);
        let (clients, services) =
            (clients.into_iter().map(line).collect(), services.into_iter().map(line).collect());
        let text = "auth client entities with insecure key types";
        add(health, "AUTH_INSECURE_CLIENT_KEY_TYPE", text, clients);
        let text = "auth service entities with insecure key types";
        add(health, "AUTH_INSECURE_SERVICE_KEY_TYPE", text, services);
        if monmap.allows_key_type(KeyType::Aes) {
            let text = "Monitors are configured to allow auth using insecure key types".to_owned();
            let detail = vec!["insecure cipher aes allowed for auth".to_owned()];
            health.add("AUTH_INSECURE_KEYS_ALLOWED", Severity::Warn, text, 1, detail);
        }
        if self.options.is_insecure_key_allowed {
            let text = "Monitors are configured to allow creation of insecure key types".to_owned();
            health.add("AUTH_INSECURE_KEYS_CREATABLE", Severity::Warn, text, 1, Vec::new());
        }
    }
}

fn add(health: &mut Health, code: &'static str, what: &str, detail: Vec<String>) {
    if !detail.is_empty() {
        let count = detail.len();
        health.add(code, Severity::Warn, format!("{count} {what}"), count, detail);
    }
}
