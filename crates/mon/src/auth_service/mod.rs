//! The authentication database: entities, rotating service secrets, global ids; and the answers that the
//! handshake of a connection asks the monitor for.

use auth::{
    AuthError, Authority, CryptoKey, EntityAuth, RotatingSecrets, answer_mauth, mauth_request_rotating,
    method,
};
use messages::{MAuth, MAuthReply};
use types::{EntityName, EntityType, Errno, GlobalId, KeyType, MonMap, UTime};

use crate::{
    ConnId, Effect, Effects, Mon, ledger_keys,
    state::{State, value},
};

/// Global ids that are reserved by one ledger entry: an id is given out only below the committed limit.
pub(crate) const GLOBAL_IDS_PER_BATCH: u64 = 10_000;

/// Services with rotating secrets.
pub(crate) const SERVICES: [EntityType; 5] =
    [EntityType::AUTH, EntityType::MON, EntityType::OSD, EntityType::MDS, EntityType::MGR];

impl Mon {
    /// True when the monitor can authenticate: its ledger is read and it may give out global ids. A daemon
    /// listens once this holds.
    pub fn is_ready(&self) -> bool {
        self.is_booted() && self.next_global_id < self.committed.global_id_limit
    }

    /// Reserves global ids and rotates secrets before they run out.
    pub(crate) fn tick_auth(&mut self, wall: UTime) {
        if self.next_global_id + GLOBAL_IDS_PER_BATCH / 2 > self.next.global_id_limit {
            let limit = self.next.global_id_limit.max(self.next_global_id) + GLOBAL_IDS_PER_BATCH;
            self.put(ledger_keys::GLOBAL_ID.to_owned(), value(&limit));
        }
        for service in SERVICES {
            let mut secrets = self.next.rotating.get(&service).cloned().unwrap_or_default();
            if secrets.rotate(service, self.next.monmap.service_key_type(), wall, &mut self.rng) {
                self.put(ledger_keys::rotating(service), value(&secrets));
            }
        }
    }

    /// Throws away the secrets of all services, and with them all tickets for services; the secrets behind clients'
    /// tickets for the monitors stay. Services with a session are told when the change is committed.
    pub(crate) fn wipe_secrets(&mut self, wall: UTime) {
        for service in SERVICES.into_iter().filter(|service| *service != EntityType::AUTH) {
            let mut secrets = self.next.rotating.get(&service).cloned().unwrap_or_default();
            secrets.wipe();
            secrets.rotate(service, self.next.monmap.service_key_type(), wall, &mut self.rng);
            self.put(ledger_keys::rotating(service), value(&secrets));
        }
        let mut monmap = MonMap::clone(&self.next.monmap);
        monmap.auth_epoch = monmap.auth_epoch.next();
        self.put_monmap(monmap, wall);
    }

    /// Writes a changed monitor map.
    pub(crate) fn put_monmap(&mut self, mut monmap: MonMap, wall: UTime) {
        monmap.epoch = monmap.epoch.next();
        monmap.last_changed = wall;
        self.put(ledger_keys::MONMAP.to_owned(), value(&monmap));
    }

    /// True if tickets for OSDs are sealed from now on with a secret that was none of those `before`. With time it is
    /// the one that came next, which OSDs know for an hour by then: but all were wiped, or the clock has leapt ahead.
    pub(crate) fn seals_with_unknown(&self, before: &State) -> bool {
        let of = |state: &State| state.rotating.get(&EntityType::OSD).cloned().unwrap_or_default();
        let known = of(before);
        let current = of(&self.committed).current().map(|(id, _)| id);
        current.is_some_and(|current| known.all().all(|(id, ..)| id != current))
    }

    /// Sends every OSD its secrets, as if it had asked: an OSD by itself asks only every few minutes.
    pub(crate) fn send_secrets(&mut self, wall: UTime, effects: &mut Effects) {
        let osds = self.sessions.iter().filter(|(_, s)| s.peer.name.kind == EntityType::OSD);
        for conn in osds.map(|(conn, _)| *conn).collect::<Vec<_>>() {
            let request =
                MAuth { protocol: method::CEPHX, payload: mauth_request_rotating(), ..MAuth::default() };
            self.on_auth(wall, conn, 0, &request, effects);
        }
    }

    pub(crate) fn on_auth(
        &mut self,
        wall: UTime,
        conn: ConnId,
        tid: u64,
        request: &MAuth,
        effects: &mut Effects,
    ) {
        let Some(peer) = self.sessions.get(&conn).map(|s| s.peer.clone()) else { return };
        let mut rng = self.rng.clone();
        let payload = request.payload.clone();
        let answer = answer_mauth(&peer.name, peer.global_id.0, payload, wall, &mut rng, self);
        self.rng = rng;
        let reply = match answer {
            Ok(payload) => MAuthReply {
                protocol: request.protocol,
                result: 0,
                global_id: peer.global_id,
                payload,
                message: String::new(),
            },
            Err(AuthError::HandshakeDue) => {
                self.sessions.remove(&conn);
                return effects.push(Effect::Close(conn));
            }
            Err(error) => MAuthReply {
                protocol: request.protocol,
                result: Errno::EACCES.negated(),
                global_id: GlobalId(0),
                message: error.to_string(),
                ..MAuthReply::default()
            },
        };
        effects.push(Effect::Send { conn, tid, message: reply.into() });
    }

    /// Writes an entity to the database.
    pub(crate) fn put_entity(&mut self, name: &EntityName, entity: &EntityAuth) {
        // A second key left behind by an earlier entity of this name does not belong to the new one.
        if !self.next.entities.contains_key(name) {
            self.put_pending_key(name, None);
        }
        self.put(ledger_keys::auth(name), value(&(entity.key.clone(), entity.caps.clone())));
    }

    /// Takes an entity out, with its second key.
    pub(crate) fn drop_entity(&mut self, name: &EntityName) {
        self.put_pending_key(name, None);
        if self.next.entities.contains_key(name) {
            self.put(ledger_keys::auth(name), None);
        }
    }

    /// Writes an entity's second key, or takes it out.
    pub(crate) fn put_pending_key(&mut self, name: &EntityName, key: Option<&CryptoKey>) {
        if key.is_some() || self.next.pending_keys.contains_key(name) {
            self.put(ledger_keys::pending_key(name), key.and_then(value));
        }
    }

    /// Makes an entity's second key its only one. False if it has none.
    pub(crate) fn commit_pending_key(&mut self, name: &EntityName) -> bool {
        let Some(key) = self.next.pending_keys.get(name).cloned() else { return false };
        if let Some(entity) = self.next.entities.get(name).cloned() {
            self.put_entity(name, &EntityAuth { key, ..entity });
        }
        self.put_pending_key(name, None);
        true
    }

    /// Makes second keys that their entities have used the first ones.
    pub(crate) fn commit_used_keys(&mut self) {
        for (name, key) in std::mem::take(&mut self.used_pending_keys) {
            if self.next.pending_keys.get(&name) == Some(&key) {
                self.commit_pending_key(&name);
            }
        }
    }

    /// A new secret key.
    pub(crate) fn new_key(&mut self, kind: KeyType, wall: UTime) -> CryptoKey {
        CryptoKey::generate(kind, wall, &mut self.rng)
    }
}

impl Authority for Mon {
    fn service(&self) -> EntityType {
        EntityType::MON
    }

    /// As [`Authority::secrets`]: not while no global id can be given out.
    fn allows_none(&self) -> bool {
        self.options.is_auth_none && self.is_ready()
    }

    /// The entity of this name. One whose key is of a type that is not allowed is turned away, as if its key were
    /// wrong.
    fn entity(&self, name: &EntityName) -> Option<EntityAuth> {
        let entity = self.committed.entities.get(name)?;
        self.committed.monmap.allows_key_type(entity.key.kind()).then(|| entity.clone())
    }

    /// Its second key, unless that is of a type that is not allowed.
    fn pending_key(&self, name: &EntityName) -> Option<CryptoKey> {
        let key = self.committed.pending_keys.get(name)?;
        self.committed.monmap.allows_key_type(key.kind()).then(|| key.clone())
    }

    fn note_pending_key_used(&mut self, name: &EntityName) {
        // Nobody may have used another one that comes in its place.
        if let Some(key) = self.pending_key(name) {
            self.used_pending_keys.insert(name.clone(), key);
        }
    }

    fn next_global_id(&mut self) -> u64 {
        self.next_global_id += 1;
        self.next_global_id
    }

    /// None, so that every peer is turned away, while no global id can be given out.
    fn secrets(&self, service: EntityType) -> Option<&RotatingSecrets> {
        if self.is_ready() { self.committed.rotating.get(&service) } else { None }
    }
}
