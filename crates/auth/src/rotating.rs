//! Service secrets that rotate: tickets are sealed with the current one, and open with the previous
//! and the next one, too.

use std::{collections::BTreeMap, time::Duration};

use codec::Codec;
use rand::RngCore;
use types::{EntityType, KeyType, UTime};

use crate::CryptoKey;

/// `auth_service_ticket_ttl`: a service ticket's life, and the step of rotation.
pub const SERVICE_TICKET_TTL: Duration = Duration::from_secs(3_600);

/// `auth_mon_ticket_ttl`: life of the ticket that proves a client to the monitors, with which it renews
/// the others and reclaims its global id.
const AUTH_TICKET_TTL: Duration = Duration::from_secs(72 * 3_600);

/// Life of a service's tickets, and the step in which its secrets rotate: a ticket must open for as long
/// as it is valid.
pub fn ticket_ttl(service: EntityType) -> Duration {
    if service == EntityType::AUTH { AUTH_TICKET_TTL } else { SERVICE_TICKET_TTL }
}

/// Secrets kept: previous, current, next.
const KEPT: usize = 3;

#[derive(Codec, Clone, Debug, PartialEq, Eq)]
struct Expiring {
    key: CryptoKey,
    expires: UTime,
}

/// `RotatingSecrets` of one service.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct RotatingSecrets {
    secrets: BTreeMap<u64, Expiring>,
    newest: u64,
}

impl RotatingSecrets {
    /// Makes the secrets that are missing at `now`, of type `kind`, and drops expired ones; each lasts the
    /// service's [`ticket_ttl`]. True when something changed.
    pub fn rotate(&mut self, service: EntityType, kind: KeyType, now: UTime, rng: &mut dyn RngCore) -> bool {
        let before = self.newest;
        while self.secrets.len() > 1 && self.secrets.values().nth(1).is_some_and(|s| s.expires <= now) {
            self.secrets.pop_first();
        }
        while self.secrets.len() < KEPT {
            let last = self.secrets.values().next_back().map_or(now, |s| s.expires.max(now));
            self.newest = self.newest.wrapping_add(1);
            let expires = last.plus(ticket_ttl(service));
            let key = CryptoKey::generate(kind, now, rng);
            self.secrets.insert(self.newest, Expiring { key, expires });
        }
        self.newest != before
    }

    /// The id that was given last: the next secrets get those behind it.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// The secret to seal with, and its id: the one before the newest.
    pub fn current(&self) -> Option<(u64, &CryptoKey)> {
        self.secrets.iter().rev().nth(1).map(|(id, s)| (*id, &s.key))
    }

    /// Forgets all secrets, and with them every ticket that was sealed with one. Their ids are not used again.
    pub fn wipe(&mut self) {
        self.secrets.clear();
    }

    /// Id, secret and end of each that is kept, oldest first.
    pub fn all(&self) -> impl Iterator<Item = (u64, &CryptoKey, UTime)> {
        self.secrets.iter().map(|(id, secret)| (*id, &secret.key, secret.expires))
    }

    /// The secret of that id, while it is kept.
    pub fn get(&self, id: u64) -> Option<&CryptoKey> {
        self.secrets.get(&id).map(|s| &s.key)
    }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::StdRng};

    use super::*;

    /// As damage may leave it.
    #[test]
    fn ids_begin_anew_behind_the_last() {
        let mut secrets = RotatingSecrets { newest: u64::MAX, ..RotatingSecrets::default() };
        let (mut rng, now) = (StdRng::seed_from_u64(1), UTime::new(9, 0));
        assert!(secrets.rotate(EntityType::OSD, KeyType::Aes256k, now, &mut rng));
        assert_eq!(secrets.all().map(|(id, _, _)| id).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(secrets.current().map(|(id, _)| id), Some(1));
    }
}
