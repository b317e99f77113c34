//! Damaged messages of both sides: a refusal or an answer, never a panic. A stranger's changes make no other identity.
//! What is sealed is damaged, too, and sealed again, as a peer with the key could.

use std::sync::LazyLock;

use ::damage::Damage;
use bytes::Bytes;
use codec::{Decode, DecodeError, Encode, Features, Reader};
use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
};
use rand::{SeedableRng, rngs::StdRng};
use types::{EntityName, EntityType, KeyType};

use super::{answer_mauth, mauth_request_rotating, mauth_request_tickets};
use crate::{
    AuthError, AuthStep, ClientAuth, ClientStep, CryptoKey, EntityAuth, Identity, RotatingSecrets,
    ServerAuth, TicketKeeper, con_mode,
    key::Usage,
    method,
    tests::{NOW, TestAuthority, cluster},
};

const USES: [Usage; 8] = [
    Usage::ConnectionSecret,
    Usage::TicketSessionKey,
    Usage::TicketBlob,
    Usage::Authorize,
    Usage::AuthorizeChallenge,
    Usage::AuthorizeReply,
    Usage::RotatingSecret,
    Usage::TicketInfo,
];

/// How many sealed parts each message of a conversation has.
const SEALED: [usize; 20] = [0, 0, 0, 7, 0, 0, 1, 8, 2, 1, 2, 1, 2, 4, 0, 1, 2, 1, 2, 1];

/// What carries messages and may change them: gets the place of a message in the conversation, the message, and the
/// client's tickets.
type Hand<'a> = &'a mut dyn FnMut(usize, Bytes, &TicketKeeper) -> Bytes;

/// A client that gets tickets from a monitor twice, the second time with a ticket, goes to an OSD with one, renews its
/// tickets, and gets the secrets of its service, which the OSD uses from then on.
struct Talk<'a> {
    hand: Hand<'a>,
    said: usize,
    mon: TestAuthority,
    osd: TestAuthority,
    keeper: TicketKeeper,
    rng: StdRng,
    /// Whom servers took the client for, and the session key of each handshake on both sides.
    believed: Vec<Identity>,
    keys: Vec<[CryptoKey; 2]>,
}

impl Talk<'_> {
    /// The client has a key of this type.
    fn new(kind: KeyType, hand: Hand<'_>) -> Talk<'_> {
        let (mut mon, osd, mut keeper, mut rng) = cluster();
        let name = keeper.name().clone();
        let own = mon.entities[&name].clone();
        let key = CryptoKey::generate(kind, NOW, &mut rng);
        mon.entities.insert(EntityName::parse("osd.4").unwrap(), own.clone());
        mon.entities.insert(name.clone(), EntityAuth { key: key.clone(), ..own });
        keeper = TicketKeeper::new(name, key);
        Talk { hand, said: 0, mon, osd, keeper, rng, believed: Vec::new(), keys: Vec::new() }
    }

    fn pass(&mut self, message: Bytes) -> Bytes {
        assert!(message.len() < 4_096, "no message is long, whatever was said before");
        self.said += 1;
        (self.hand)(self.said - 1, message, &self.keeper)
    }

    fn shake(&mut self, service: EntityType) -> Result<(), AuthError> {
        let mut server = ServerAuth::new(method::CEPHX, con_mode::SECURE);
        let (mut client, mut said) = ClientAuth::start(service, &self.keeper, &mut self.rng)?;
        loop {
            let heard = self.pass(said);
            let authority = if service == EntityType::MON { &mut self.mon } else { &mut self.osd };
            match server.step(heard, NOW, &mut self.rng, authority)? {
                AuthStep::More(reply) => {
                    let heard = self.pass(reply);
                    match client.more(&heard, &self.keeper, &mut self.rng)? {
                        ClientStep::More(next) => said = next,
                        ClientStep::Done { .. } => unreachable!("the server is not done"),
                    }
                }
                AuthStep::Done(authenticated) => {
                    let id = authenticated.identity.global_id;
                    self.believed.push(authenticated.identity);
                    let heard = self.pass(authenticated.payload);
                    let end = client.done(id, heard, NOW, &mut self.keeper)?;
                    let ClientStep::Done { session_key, .. } = end else {
                        unreachable!("the client is done")
                    };
                    self.keys.extend(authenticated.session_key.map(|key| [key, session_key]));
                    return Ok(());
                }
            }
        }
    }

    fn ask(&mut self, request: Bytes) -> Result<Option<RotatingSecrets>, AuthError> {
        let heard = self.pass(request);
        let (name, id) = (self.keeper.name().clone(), self.keeper.global_id());
        let reply = answer_mauth(&name, id, heard, NOW, &mut self.rng, &self.mon)?;
        let heard = self.pass(reply);
        self.keeper.take_mauth_reply(heard, NOW)
    }

    fn all(&mut self) -> Result<(), AuthError> {
        self.shake(EntityType::MON)?;
        self.shake(EntityType::MON)?;
        self.shake(EntityType::OSD)?;
        let request = mauth_request_tickets(&self.keeper, &mut self.rng).ok_or(AuthError::Denied)?;
        self.ask(request)?;
        let secrets = self.ask(mauth_request_rotating())?.ok_or(AuthError::Denied)?;
        secrets.clone().rotate(EntityType::OSD, KeyType::Aes256k, NOW, &mut self.rng);
        self.osd.secrets.insert(EntityType::OSD, secrets);
        self.shake(EntityType::OSD)
    }
}

/// Everything behind the envelope of what is sealed.
struct Raw(Bytes);

impl Encode for Raw {
    fn encode(&self, out: &mut Vec<u8>, _: Features) {
        out.extend_from_slice(&self.0);
    }
}

impl Decode for Raw {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Raw(input.take_rest()))
    }
}

/// A piece of a message.
#[derive(Clone)]
enum Part {
    Plain(Vec<u8>),
    Sealed(CryptoKey, Usage, Vec<Part>),
    /// Pieces with their length in front, which has to stay right so that they are looked at.
    Counted(Vec<Part>),
}

/// Takes a message apart, as far as these keys open something in it.
fn parts(bytes: &[u8], keys: &[CryptoKey]) -> Vec<Part> {
    if let Some(sealed) = opened(bytes, keys) {
        return vec![sealed];
    }
    let (mut out, mut plain, mut at) = (Vec::new(), 0, 0);
    while let Some(len) = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
        let end = at + 4 + u32::from_le_bytes(*len) as usize;
        let inner = bytes.get(at + 4..end).map(|inner| parts(inner, keys)).unwrap_or_default();
        // Whatever has a length of its own ends with what is sealed: other numbers are none.
        if !matches!(inner.last(), Some(Part::Sealed(..) | Part::Counted(_))) {
            at += 1;
            continue;
        }
        out.extend([Part::Plain(bytes[plain..at].to_vec()), Part::Counted(inner)]);
        (plain, at) = (end, end);
    }
    if plain < bytes.len() {
        out.push(Part::Plain(bytes[plain..].to_vec()));
    }
    out
}

fn opened(bytes: &[u8], keys: &[CryptoKey]) -> Option<Part> {
    // No cipher makes less of an envelope.
    if bytes.len() < 16 {
        return None;
    }
    let tries = keys.iter().flat_map(|key| USES.map(|usage| (key, usage)));
    let mut open = tries.filter_map(|(key, usage)| Some((key, usage, key.open::<Raw>(usage, bytes).ok()?)));
    open.next().map(|(key, usage, Raw(inner))| Part::Sealed(key.clone(), usage, parts(&inner, keys)))
}

/// Puts a message together again.
fn joined(parts: &[Part], rng: &mut StdRng) -> Bytes {
    let mut out = Vec::new();
    for part in parts {
        match part {
            Part::Plain(bytes) => out.extend_from_slice(bytes),
            Part::Sealed(key, usage, inner) => out.extend(key.seal(*usage, &Raw(joined(inner, rng)), rng)),
            Part::Counted(inner) => joined(inner, rng).encode(&mut out, Features::default()),
        }
    }
    out.into()
}

fn sealed_count(parts: &[Part]) -> usize {
    let count = |part: &Part| match part {
        Part::Plain(_) => 0,
        Part::Sealed(_, _, inner) => 1 + sealed_count(inner),
        Part::Counted(inner) => sealed_count(inner),
    };
    parts.iter().map(count).sum()
}

/// All bytes of a message that can be damaged without breaking a seal.
fn plain(parts: &mut [Part]) -> Vec<&mut Vec<u8>> {
    parts
        .iter_mut()
        .flat_map(|part| match part {
            Part::Plain(bytes) => Vec::from_iter(Some(bytes).filter(|bytes| !bytes.is_empty())),
            Part::Sealed(_, _, inner) | Part::Counted(inner) => plain(inner),
        })
        .collect()
}

/// The messages of an honest conversation, taken apart with the keys of all sides.
fn honest(kind: KeyType) -> Vec<Vec<Part>> {
    let (mut said, mut keys) = (Vec::new(), Vec::<CryptoKey>::new());
    let services = [EntityType::AUTH, EntityType::MON, EntityType::OSD];
    let mut keep = |keeper: &TicketKeeper| {
        let found = services.iter().filter_map(|service| keeper.ticket(*service));
        for key in found.map(|(key, _)| key).chain([keeper.key()]) {
            if !keys.contains(key) {
                keys.push(key.clone());
            }
        }
    };
    let mut hand = |_: usize, message: Bytes, keeper: &TicketKeeper| {
        keep(keeper);
        said.push(message.clone());
        message
    };
    let mut talk = Talk::new(kind, &mut hand);
    talk.all().unwrap();
    let Talk { mon, keeper, .. } = talk;
    keep(&keeper);
    keys.extend(mon.secrets.values().flat_map(RotatingSecrets::all).map(|(_, key, _)| key.clone()));
    said.iter().map(|message| parts(message, &keys)).collect()
}

static HONEST: LazyLock<[Vec<Vec<Part>>; 2]> = LazyLock::new(|| KeyType::ALL.map(honest));

fn honest_of(kind: KeyType) -> &'static Vec<Vec<Part>> {
    &HONEST[usize::from(kind == KeyType::Aes256k)]
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(u64::MAX), Just(u64::from(u32::MAX)), Just(1 << 31), 0u64..200, any::<u64>()]
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        4 => (any::<Index>(), any::<u8>()).prop_map(|(at, value)| Damage::Byte(at, value)),
        3 => (any::<Index>(), number(), select(vec![2, 4, 8])).prop_map(|(at, n, width)| Damage::Number(at, n, width)),
        1 => any::<Index>().prop_map(Damage::Cut),
        1 => (any::<Index>(), vec(any::<u8>(), 1..40)).prop_map(|(at, more)| Damage::More(at, more)),
        1 => vec(any::<u8>(), 0..80).prop_map(Damage::Noise),
    ]
}

fn kind() -> impl Strategy<Value = KeyType> {
    select(&KeyType::ALL[..])
}

/// Otherwise no damage would reach what is sealed.
#[test]
fn messages_are_taken_apart_to_the_last_seal() {
    for kind in KeyType::ALL {
        let messages = honest_of(kind);
        assert_eq!(
            messages.iter().map(|message| sealed_count(message)).collect::<Vec<_>>(),
            SEALED,
            "{kind}"
        );
        let mut rng = StdRng::seed_from_u64(5);
        for (changed, parts) in messages.iter().enumerate() {
            let sealed_anew = joined(parts, &mut rng);
            let mut hand = |at: usize, message: Bytes, _: &TicketKeeper| {
                if at == changed { sealed_anew.clone() } else { message }
            };
            assert_eq!(Talk::new(kind, &mut hand).all(), Ok(()), "{kind}: message {changed}");
        }
    }
}

proptest! {
    #![proptest_config(::damage::cases(400))]

    #[test]
    fn a_stranger_who_changes_messages_becomes_nobody_else(
        kind in kind(),
        changed in 0..SEALED.len(),
        damages in vec(damage(), 1..4),
    ) {
        let mut hand = |at: usize, message: Bytes, _: &TicketKeeper| {
            let mut bytes = message.to_vec();
            if at == changed {
                damages.iter().for_each(|damage| damage.apply(&mut bytes));
            }
            Bytes::from(bytes)
        };
        let mut talk = Talk::new(kind, &mut hand);
        let _ = talk.all();
        for identity in &talk.believed {
            prop_assert_eq!(identity.name.to_string(), "osd.3");
            prop_assert!(["profile osd", "allow *"].contains(&identity.caps.as_str()), "{}", identity.caps);
            // A client may ask for a new id.
            prop_assert!((101..=102).contains(&identity.global_id), "{}", identity.global_id);
        }
        // Nothing tells that something was sealed with another key of type `aes`.
        if kind == KeyType::Aes256k {
            prop_assert!(talk.keys.iter().all(|[server, client]| server == client));
        }
    }

    #[test]
    fn a_peer_with_the_keys_may_say_anything(
        kind in kind(),
        changed in 0..SEALED.len(),
        damages in vec((any::<Index>(), damage()), 1..4),
    ) {
        let mut message = honest_of(kind)[changed].clone();
        for (at, damage) in damages {
            let mut places = plain(&mut message);
            let count = places.len();
            if count > 0 {
                damage.apply(places[at.index(count)]);
            }
        }
        let damaged = joined(&message, &mut StdRng::seed_from_u64(5));
        let mut hand = |at: usize, message: Bytes, _: &TicketKeeper| if at == changed { damaged.clone() } else { message };
        let _ = Talk::new(kind, &mut hand).all();
    }
}
