//! Attacks that worked on Ceph's cephx, each tried on ours.

use bytes::Bytes;
use codec::{Encode, Features};
use rand::{SeedableRng, rngs::StdRng};
use types::{EntityName, EntityType, KeyType};

use super::types::{Authenticate, Authorize, GET_AUTH_SESSION_KEY, TicketBlob, TicketInfo, fold_challenges};
use crate::{
    AuthError, AuthStep, ClientAuth, ClientStep, CryptoKey, EntityAuth, RotatingSecrets, ServerAuth,
    TicketKeeper, con_mode,
    key::Usage,
    method,
    tests::{NOW, TestAuthority, cluster, shake},
};

fn server() -> ServerAuth {
    ServerAuth::new(method::CEPHX, con_mode::CRC)
}

/// Takes `said` one after the other, as one connection would; the last answer.
fn hears(said: &[&Bytes], authority: &mut TestAuthority, rng: &mut StdRng) -> Result<AuthStep, AuthError> {
    let mut server = server();
    let mut last = Err(AuthError::Malformed);
    for payload in said {
        last = server.step(Bytes::clone(payload), NOW, rng, authority);
        if last.is_err() {
            break;
        }
    }
    last
}

/// What a client says to an OSD that believes it.
fn overheard(osd: &mut TestAuthority, keeper: &TicketKeeper, rng: &mut StdRng) -> [Bytes; 2] {
    let mut server = server();
    let (mut client, first) = ClientAuth::start(EntityType::OSD, keeper, rng).unwrap();
    let AuthStep::More(challenge) = server.step(first.clone(), NOW, rng, osd).unwrap() else {
        panic!("no challenge")
    };
    let ClientStep::More(second) = client.more(&challenge, keeper, rng).unwrap() else { panic!("no answer") };
    assert!(matches!(server.step(second.clone(), NOW, rng, osd), Ok(AuthStep::Done(_))));
    [first, second]
}

/// CVE-2018-1128: an attacker who had seen an authorizer could use it again. CVE-2020-25660: a later release accepted
/// an authorizer without the answer to a challenge.
#[test]
fn authorizers_are_good_for_one_connection() {
    let (mut mon, mut osd, mut keeper, mut rng) = cluster();
    shake(EntityType::MON, 1, NOW, &mut mon, &mut keeper, &mut rng).unwrap();
    let [first, second] = overheard(&mut osd, &keeper, &mut rng);
    for replay in [[&first, &second], [&second, &second], [&first, &first], [&second, &first]] {
        assert_eq!(hears(&replay, &mut osd, &mut rng).unwrap_err(), AuthError::Denied);
    }
    // Two overheard connections together do not help either.
    let [_, other] = overheard(&mut osd, &keeper, &mut rng);
    assert_eq!(hears(&[&first, &other], &mut osd, &mut rng).unwrap_err(), AuthError::Denied);
}

fn hello(name: &EntityName, global_id: u64) -> Bytes {
    let f = Features::default();
    let mut out = vec![10u8];
    name.encode(&mut out, f);
    global_id.encode(&mut out, f);
    Bytes::from(out)
}

fn proof(key: &CryptoKey, challenge: &Bytes, old_ticket: TicketBlob) -> Bytes {
    let drawn = u64::from_le_bytes(*challenge.last_chunk().unwrap());
    let mut out = Vec::new();
    GET_AUTH_SESSION_KEY.encode(&mut out, Features::default());
    let key = fold_challenges(key, drawn, 5);
    let request = Authenticate { client_challenge: 5, key, old_ticket, other_keys: 0 };
    request.encode(&mut out, Features::default());
    Bytes::from(out)
}

/// A client claims to be `name` and to own `global_id`. Returns the global id that the monitor gives it.
fn claims(
    (name, key): (&EntityName, &CryptoKey),
    global_id: u64,
    ticket: TicketBlob,
    mon: &mut TestAuthority,
    rng: &mut StdRng,
) -> Result<u64, AuthError> {
    let mut server = server();
    let AuthStep::More(challenge) = server.step(hello(name, global_id), NOW, rng, mon)? else { panic!() };
    match server.step(proof(key, &challenge, ticket), NOW, rng, mon)? {
        AuthStep::Done(authenticated) => Ok(authenticated.identity.global_id),
        AuthStep::More(_) => panic!("nothing is left to say"),
    }
}

/// CVE-2021-20288: a client with any key got another client's global id by asking for it. OSDs, which blocklist and
/// fence by that id, then took it for the other client.
#[test]
fn a_global_id_is_reclaimed_with_its_own_ticket_only() {
    let (mut mon, _, mut victim, mut rng) = cluster();
    shake(EntityType::MON, 1, NOW, &mut mon, &mut victim, &mut rng).unwrap();
    let stolen = victim.ticket(EntityType::AUTH).unwrap().1.clone();
    let eve = EntityName::parse("client.eve").unwrap();
    let key = CryptoKey::generate(KeyType::Aes256k, NOW, &mut rng);
    let caps = [("mon".to_owned(), "allow r".to_owned())].into();
    mon.entities.insert(eve.clone(), EntityAuth { key: key.clone(), caps });
    let mut own = TicketKeeper::new(eve.clone(), key.clone());
    shake(EntityType::MON, 1, NOW, &mut mon, &mut own, &mut rng).unwrap();
    let own_ticket = own.ticket(EntityType::AUTH).unwrap().1.clone();
    let target = victim.global_id();
    assert_ne!(own.global_id(), target);
    let mut noise = stolen.clone();
    noise.blob = noise.blob.slice(1..);
    for ticket in [TicketBlob::default(), stolen.clone(), own_ticket.clone(), noise] {
        assert_eq!(claims((&eve, &key), target, ticket, &mut mon, &mut rng), Err(AuthError::Denied));
    }
    // The owner of a ticket does not get another id with it, and nobody gets the victim's id without the victim's key.
    assert_eq!(claims((&eve, &key), 99, own_ticket.clone(), &mut mon, &mut rng), Err(AuthError::Denied));
    let name = victim.name().clone();
    assert_eq!(claims((&name, &key), target, stolen, &mut mon, &mut rng), Err(AuthError::Denied));
    let kept = claims((&eve, &key), own.global_id(), own_ticket, &mut mon, &mut rng);
    assert_eq!(kept, Ok(own.global_id()));
}

/// How many of all tickets that differ from `keeper`'s in one bit a service with `secrets` would open.
fn forged(secrets: &RotatingSecrets, ticket: &TicketBlob) -> usize {
    let secret = secrets.get(ticket.secret_id).unwrap();
    let opens = |bit: &usize| {
        let mut blob = ticket.blob.to_vec();
        blob[bit / 8] ^= 1 << (bit % 8);
        secret.open::<TicketInfo>(Usage::TicketInfo, &blob).is_ok()
    };
    (0..ticket.blob.len() * 8).filter(opens).count()
}

/// CVE-2025-30156: nothing told that the bits of a ticket were changed, or that pieces of one were put into
/// another. So tickets are sealed with `aes256k` secrets, those of clients that know only `aes`, too.
#[test]
fn tickets_cannot_be_changed() {
    for (service_kind, client_kind) in
        [(KeyType::Aes256k, KeyType::Aes), (KeyType::Aes256k, KeyType::Aes256k), (KeyType::Aes, KeyType::Aes)]
    {
        let (mut mon, mut osd, keeper, mut rng) = cluster();
        // A name that fills a block, as an attacker would choose one.
        let name = EntityName::parse("client.abcdefghijklmn").unwrap();
        let key = CryptoKey::generate(client_kind, NOW, &mut rng);
        let caps = mon.entities[keeper.name()].caps.clone();
        mon.entities.insert(name.clone(), EntityAuth { key: key.clone(), caps });
        for secrets in mon.secrets.values_mut() {
            secrets.wipe();
            secrets.rotate(EntityType::OSD, service_kind, NOW, &mut rng);
        }
        osd.secrets.insert(EntityType::OSD, mon.secrets[&EntityType::OSD].clone());
        let mut keeper = TicketKeeper::new(name, key);
        shake(EntityType::MON, 1, NOW, &mut mon, &mut keeper, &mut rng).unwrap();
        shake(EntityType::OSD, 1, NOW, &mut osd, &mut keeper, &mut rng).unwrap();
        let (session_key, ticket) = keeper.ticket(EntityType::OSD).unwrap();
        assert_eq!(session_key.kind(), client_kind, "its owner must be able to read it");
        let count = forged(&osd.secrets[&EntityType::OSD], ticket);
        assert_eq!(count == 0, service_kind == KeyType::Aes256k, "{count} forged with {service_kind}");
    }
}

/// The answer to CVE-2025-30156: bytes sealed for one use open for no other, and never look the same twice.
#[test]
fn what_is_sealed_for_one_use_opens_for_no_other() {
    let mut rng = StdRng::seed_from_u64(3);
    let key = CryptoKey::generate(KeyType::Aes256k, NOW, &mut rng);
    let said = Authorize { nonce: 1, have_challenge: true, server_challenge_plus_one: 2 };
    let sealed = key.seal(Usage::Authorize, &said, &mut rng);
    assert_ne!(sealed, key.seal(Usage::Authorize, &said, &mut rng));
    let uses = [
        Usage::ConnectionSecret,
        Usage::TicketSessionKey,
        Usage::TicketBlob,
        Usage::AuthorizeChallenge,
        Usage::AuthorizeReply,
        Usage::RotatingSecret,
        Usage::TicketInfo,
    ];
    assert!(key.open::<Authorize>(Usage::Authorize, &sealed).is_ok());
    assert!(uses.iter().all(|usage| key.open::<Authorize>(*usage, &sealed).is_err()));
}

/// The type of an entity's key is fixed with the entity: an attacker who knows half of an `aes256k` secret gains
/// nothing by calling it an `aes` key.
#[test]
fn a_key_is_not_taken_for_one_of_the_other_type() {
    let (mut mon, _, keeper, mut rng) = cluster();
    let strong = CryptoKey::generate(KeyType::Aes256k, NOW, &mut rng);
    mon.entities.get_mut(keeper.name()).unwrap().key = strong.clone();
    let bytes = strong.to_bytes(Features::default());
    let half = [&[1, 0], &bytes[2..10], &[16, 0], &bytes[12..28]].concat();
    let half = <CryptoKey as codec::Decode>::from_bytes(Bytes::from(half)).unwrap();
    assert_eq!(half.kind(), KeyType::Aes);
    let mut keeper = TicketKeeper::new(keeper.name().clone(), half);
    let denied = shake(EntityType::MON, 1, NOW, &mut mon, &mut keeper, &mut rng).unwrap_err();
    assert_eq!(denied, AuthError::Denied);
}
