use std::collections::BTreeMap;

use bytes::Bytes;
use rand::{SeedableRng, rngs::StdRng};
use types::{EntityName, EntityType, KeyType, UTime};

use crate::*;

mod caps;
mod damage;

const ADMIN: &str = "AQAQuQBrA94mIBAAo+GWtvvESSLUPpNJ+huiaA==";

pub(crate) struct TestAuthority {
    service: EntityType,
    pub(crate) entities: BTreeMap<EntityName, EntityAuth>,
    pub(crate) secrets: BTreeMap<EntityType, RotatingSecrets>,
    next: u64,
}

impl Authority for TestAuthority {
    fn service(&self) -> EntityType {
        self.service
    }
    fn allows_none(&self) -> bool {
        false
    }
    fn entity(&self, name: &EntityName) -> Option<EntityAuth> {
        self.entities.get(name).cloned()
    }
    fn next_global_id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
    fn secrets(&self, service: EntityType) -> Option<&RotatingSecrets> {
        self.secrets.get(&service)
    }
}

pub(crate) const NOW: UTime = UTime { sec: 1_795_210_947, nsec: 0 };

pub(crate) fn cluster() -> (TestAuthority, TestAuthority, TicketKeeper, StdRng) {
    let mut rng = StdRng::seed_from_u64(1);
    let name = EntityName::parse("osd.3").unwrap();
    let key = CryptoKey::from_base64(ADMIN).unwrap();
    let caps =
        BTreeMap::from([("mon".to_owned(), "profile osd".to_owned()), ("osd".into(), "allow *".into())]);
    let mut secrets = BTreeMap::new();
    for service in [EntityType::AUTH, EntityType::MON, EntityType::OSD] {
        let mut rotating = RotatingSecrets::default();
        rotating.rotate(service, KeyType::Aes256k, NOW, &mut rng);
        secrets.insert(service, rotating);
    }
    let entities = BTreeMap::from([(name.clone(), EntityAuth { key: key.clone(), caps })]);
    let osd = BTreeMap::from([(EntityType::OSD, secrets[&EntityType::OSD].clone())]);
    let mon = TestAuthority { service: EntityType::MON, entities, secrets, next: 100 };
    let osd = TestAuthority { service: EntityType::OSD, entities: BTreeMap::new(), secrets: osd, next: 0 };
    (mon, osd, TicketKeeper::new(name, key), rng)
}

/// Runs a whole handshake; what the server authenticated, and the client's end.
pub(crate) fn shake(
    service: EntityType,
    mode: u32,
    now: UTime,
    authority: &mut TestAuthority,
    keeper: &mut TicketKeeper,
    rng: &mut StdRng,
) -> Result<(Box<Authenticated>, Bytes), AuthError> {
    let mut server = ServerAuth::new(method::CEPHX, mode);
    let (mut client, mut payload) = ClientAuth::start(service, keeper, rng)?;
    loop {
        match server.step(payload, now, rng, authority)? {
            AuthStep::More(reply) => match client.more(&reply, keeper, rng)? {
                ClientStep::More(next) => payload = next,
                ClientStep::Done { .. } => unreachable!("the server is not done"),
            },
            AuthStep::Done(authenticated) => {
                let id = authenticated.identity.global_id;
                match client.done(id, authenticated.payload.clone(), now, keeper)? {
                    ClientStep::Done { session_key, connection_secret } => {
                        assert_eq!(Some(session_key), authenticated.session_key);
                        return Ok((authenticated, connection_secret));
                    }
                    ClientStep::More(_) => unreachable!("the client is done"),
                }
            }
        }
    }
}

#[test]
fn tickets_open_the_way_to_an_osd() {
    let (mut mon, mut osd, mut keeper, mut rng) = cluster();
    assert_eq!(
        shake(EntityType::OSD, 1, NOW, &mut osd, &mut keeper, &mut rng).unwrap_err(),
        AuthError::Denied
    );
    let (authenticated, secret) =
        shake(EntityType::MON, con_mode::SECURE, NOW, &mut mon, &mut keeper, &mut rng).unwrap();
    assert_eq!((authenticated.identity.caps.as_str(), secret.len()), ("profile osd", 64));
    assert_eq!(authenticated.connection_secret, secret);
    for mode in [con_mode::CRC, con_mode::SECURE] {
        let (authenticated, secret) =
            shake(EntityType::OSD, mode, NOW, &mut osd, &mut keeper, &mut rng).unwrap();
        assert_eq!(
            (authenticated.identity.global_id, authenticated.identity.caps.as_str()),
            (101, "allow *")
        );
        assert_eq!(authenticated.connection_secret, secret);
    }
    // The OSD's clock may be ahead. What ends a ticket is the end of its secret.
    let later = NOW.plus(SERVICE_TICKET_TTL * 24);
    shake(EntityType::OSD, 1, later, &mut osd, &mut keeper, &mut rng).unwrap();
    let secrets = osd.secrets.get_mut(&EntityType::OSD).unwrap();
    secrets.rotate(EntityType::OSD, KeyType::Aes256k, later, &mut rng);
    assert_eq!(
        shake(EntityType::OSD, 1, later, &mut osd, &mut keeper, &mut rng).unwrap_err(),
        AuthError::Denied
    );
}

#[test]
fn a_global_id_is_kept_with_proof_only() {
    let (mut mon, _, mut keeper, mut rng) = cluster();
    shake(EntityType::MON, 1, NOW, &mut mon, &mut keeper, &mut rng).unwrap();
    let (authenticated, _) = shake(EntityType::MON, 1, NOW, &mut mon, &mut keeper, &mut rng).unwrap();
    assert_eq!(authenticated.identity.global_id, 101);
    mon.secrets.insert(EntityType::AUTH, {
        let mut other = RotatingSecrets::default();
        other.rotate(EntityType::AUTH, KeyType::Aes256k, NOW, &mut rng);
        other
    });
    assert_eq!(
        shake(EntityType::MON, 1, NOW, &mut mon, &mut keeper, &mut rng).unwrap_err(),
        AuthError::Denied
    );
}

#[test]
fn a_wrong_key_and_an_unknown_name_are_denied_alike() {
    let (mut mon, _, keeper, mut rng) = cluster();
    let wrong = CryptoKey::generate(KeyType::Aes, NOW, &mut rng);
    for name in [keeper.name().clone(), EntityName::parse("client.nobody").unwrap()] {
        let mut keeper = TicketKeeper::new(name, wrong.clone());
        let denied = shake(EntityType::MON, 1, NOW, &mut mon, &mut keeper, &mut rng).unwrap_err();
        assert_eq!(denied, AuthError::Denied);
    }
}

#[test]
fn tickets_renew_and_secrets_come_over_the_session() {
    let (mut mon, mut osd, mut keeper, mut rng) = cluster();
    shake(EntityType::MON, 1, NOW, &mut mon, &mut keeper, &mut rng).unwrap();
    let name = keeper.name().clone();
    let later = NOW.plus(SERVICE_TICKET_TTL);
    for service in [EntityType::AUTH, EntityType::MON, EntityType::OSD] {
        mon.secrets.get_mut(&service).unwrap().rotate(service, KeyType::Aes256k, later, &mut rng);
    }
    assert!(keeper.needs_renewal(EntityType::OSD, later));
    let request = mauth_request_tickets(&keeper, &mut rng).unwrap();
    let reply = answer_mauth(&name, keeper.global_id(), request, later, &mut rng, &mon).unwrap();
    assert_eq!(keeper.take_mauth_reply(reply, later).unwrap(), None);
    assert!(!keeper.needs_renewal(EntityType::OSD, later));
    let reply = answer_mauth(&name, 101, mauth_request_rotating(), later, &mut rng, &mon).unwrap();
    osd.secrets.insert(EntityType::OSD, keeper.take_mauth_reply(reply, later).unwrap().unwrap());
    shake(EntityType::OSD, 1, later, &mut osd, &mut keeper, &mut rng).unwrap();
    let client = EntityName::parse("client.admin").unwrap();
    mon.entities.insert(client.clone(), mon.entities[&name].clone());
    let denied = answer_mauth(&client, 5, mauth_request_rotating(), later, &mut rng, &mon).unwrap_err();
    assert_eq!(denied, AuthError::Denied);
}

/// A monitor that was away for days has none of the secrets any more that the ticket is sealed with.
#[test]
fn without_its_ticket_an_id_is_not_asked_for_again() {
    let (mut mon, mut osd, mut keeper, mut rng) = cluster();
    shake(EntityType::MON, 1, NOW, &mut mon, &mut keeper, &mut rng).unwrap();
    osd.secrets = mon.secrets.clone();
    let secrets = mon.secrets.get_mut(&EntityType::AUTH).unwrap();
    secrets.wipe();
    secrets.rotate(EntityType::AUTH, KeyType::Aes256k, NOW, &mut rng);
    let denied = shake(EntityType::MON, 1, NOW, &mut mon, &mut keeper, &mut rng).unwrap_err();
    assert_eq!(denied, AuthError::Denied);
    keeper.forget_auth_ticket();
    shake(EntityType::OSD, 1, NOW, &mut osd, &mut keeper, &mut rng).unwrap();
    shake(EntityType::MON, 1, NOW, &mut mon, &mut keeper, &mut rng).unwrap();
    shake(EntityType::OSD, 1, NOW, &mut osd, &mut keeper, &mut rng).unwrap();
}

#[test]
fn keyrings_read_what_ceph_authtool_writes() {
    let text = format!(
        "[client.admin]\n\tkey = {ADMIN}\n\tcaps mon = \"allow *\"\n\tcaps osd = \"allow rw pool=x\"\n"
    );
    let keyring = Keyring::parse(&text).unwrap();
    assert_eq!(keyring.to_string(), text);
    let text = format!("[client.a]\n\tkey = {ADMIN}\n\tcaps mon = \"allow command \\\"osd blocklist\\\"\"\n");
    let keyring = Keyring::parse(&text).unwrap();
    let name = EntityName::parse("client.a").unwrap();
    assert_eq!(keyring.0[&name].caps["mon"], "allow command \"osd blocklist\"");
    assert_eq!(keyring.to_string(), text);
    let by_hand = format!("# ours\n[client.a]\nkey=\"{ADMIN}\" # of a\ncaps mon=allow *\n");
    let entry = &Keyring::parse(&by_hand).unwrap().0[&name];
    assert_eq!((entry.key.to_base64().as_str(), entry.caps["mon"].as_str()), (ADMIN, "allow *"));
    assert!(Keyring::parse("key = x").is_err() && Keyring::parse("[client.a]\nkey = AAAA").is_err());
}

/// What a keyring that was printed is read as.
fn read_back(name: &str, caps: &str) -> Result<String, KeyError> {
    let name = EntityName::parse(name).unwrap();
    let key = CryptoKey::from_base64(ADMIN).unwrap();
    let entry = KeyringEntry { key, caps: BTreeMap::from([("mon".to_owned(), caps.to_owned())]) };
    let ring = Keyring::parse(&Keyring([(name.clone(), entry)].into()).to_string())?;
    Ok(ring.0[&name].caps["mon"].clone())
}

#[test]
fn a_keyring_keeps_backslashes_and_is_not_ended_by_line_breaks() {
    let pattern = r#"allow command x with key regex "^a\.b\"$""#;
    assert_eq!(read_back("client.a", pattern).as_deref(), Ok(pattern));
    let lines = "allow r,\nallow w\n[client.admin]\n\tkey = x";
    assert_eq!(read_back("client.a", lines), Ok(lines.replace('\n', " ")));
}

#[test]
fn names_that_a_keyring_cannot_have_are_told() {
    let can = |name: &str| Keyring::can_name(&EntityName::parse(name).unwrap());
    assert!(["client.a", "client.", "client. a b", "client.[#;=é"].into_iter().all(can));
    assert!(
        !["client.a ", "client.a\u{a0}", "client.a]", "client.a]\n[client.b", "client.\0"]
            .into_iter()
            .any(can)
    );
}

/// A capability that was cut might grant more.
#[test]
fn a_keyring_whose_quotes_are_not_closed_is_refused() {
    for line in ["caps mon = \"allow r pool=a", "caps mon = \"allow r\" pool=a", "caps mon = 'allow r"] {
        let text = format!("[client.a]\nkey = {ADMIN}\n{line}\n");
        assert!(matches!(Keyring::parse(&text), Err(KeyError::Text(_))), "{line}");
    }
}

/// Days of a client that renews its tickets as stock clients do, and of its last handshake's proof.
#[test]
fn a_long_session_keeps_its_tickets_and_its_global_id() {
    let (mut mon, mut osd, mut keeper, mut rng) = cluster();
    shake(EntityType::MON, 1, NOW, &mut mon, &mut keeper, &mut rng).unwrap();
    let name = keeper.name().clone();
    let mut now = NOW;
    while !keeper.needs_renewal(EntityType::AUTH, now) {
        now = now.plus(std::time::Duration::from_secs(600));
        for service in [EntityType::AUTH, EntityType::MON, EntityType::OSD] {
            mon.secrets.get_mut(&service).unwrap().rotate(service, KeyType::Aes256k, now, &mut rng);
        }
        osd.secrets = mon.secrets.clone();
        if keeper.needs_renewal(EntityType::OSD, now) {
            let request = mauth_request_tickets(&keeper, &mut rng).unwrap();
            let reply = answer_mauth(&name, keeper.global_id(), request, now, &mut rng, &mon).unwrap();
            keeper.take_mauth_reply(reply, now).unwrap();
        }
        shake(EntityType::OSD, 1, now, &mut osd, &mut keeper, &mut rng).unwrap();
    }
    assert_eq!(now, NOW.plus(ticket_ttl(EntityType::AUTH) * 3 / 4));
    let asked = Bytes::from_static(&[0, 1]);
    let due = answer_mauth(&name, keeper.global_id(), asked, now, &mut rng, &mon).unwrap_err();
    assert_eq!(due, AuthError::HandshakeDue);
    // So it is when the monitor's clock has gone on, or the ticket's secret was wiped.
    let asks = |now: UTime, mon: &TestAuthority, rng: &mut StdRng| {
        let request = mauth_request_tickets(&keeper, rng).unwrap();
        answer_mauth(&name, keeper.global_id(), request, now, rng, mon).map(drop)
    };
    let late = now.plus(ticket_ttl(EntityType::AUTH));
    assert_eq!(asks(now, &mon, &mut rng), Ok(()));
    assert_eq!(asks(late, &mon, &mut rng), Err(AuthError::HandshakeDue));
    let secrets = mon.secrets.insert(EntityType::AUTH, RotatingSecrets::default()).unwrap();
    assert_eq!(asks(now, &mon, &mut rng), Err(AuthError::HandshakeDue));
    mon.secrets.insert(EntityType::AUTH, secrets);
    let (authenticated, _) = shake(EntityType::MON, 1, now, &mut mon, &mut keeper, &mut rng).unwrap();
    assert_eq!(authenticated.identity.global_id, 101);
    assert!(!keeper.needs_renewal(EntityType::AUTH, now));
}

#[test]
fn secrets_last_as_long_as_the_tickets_sealed_with_them() {
    let mut rng = StdRng::seed_from_u64(7);
    for service in [EntityType::AUTH, EntityType::OSD] {
        let (mut secrets, mut now) = (RotatingSecrets::default(), NOW);
        let mut issued = Vec::new();
        for _ in 0..200 {
            secrets.rotate(service, KeyType::Aes256k, now, &mut rng);
            issued.push((secrets.current().unwrap().0, now.plus(ticket_ttl(service))));
            issued.retain(|(_, expires)| *expires > now);
            assert!(issued.iter().all(|(id, _)| secrets.get(*id).is_some()), "{service:?}");
            now = now.plus(ticket_ttl(service) / 7);
        }
    }
}

#[test]
fn who_has_no_capability_on_monitors_gets_no_tickets() {
    let (mut mon, _, mut keeper, mut rng) = cluster();
    mon.entities.get_mut(keeper.name()).unwrap().caps.remove("mon");
    let denied = shake(EntityType::MON, 1, NOW, &mut mon, &mut keeper, &mut rng).unwrap_err();
    assert_eq!(denied, AuthError::Denied);
}
