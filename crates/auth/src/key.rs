//! Secret keys of both types, and how cephx encrypts with them.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use codec::{Decode, DecodeError, Encode, Features, Reader};
use hmac::{Hmac, KeyInit, Mac};
use rand::RngCore;
use sha2::Sha256;
use thiserror::Error;
use types::{ConfParseError, KeyType, UTime};

use crate::{aes_cbc, aes256k};

/// Why a key is not usable, or bytes do not open with it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// Neither base64 nor a key in it.
    #[error("not an encoded key")]
    Malformed,
    /// A key type that this version does not have.
    #[error("key type {0} is not supported")]
    UnknownType(u16),
    /// The text of a keyring is none.
    #[error(transparent)]
    Text(#[from] ConfParseError),
    /// The bytes were not made with this key.
    #[error("the bytes do not decrypt with this key")]
    WrongKey,
}

/// `AUTH_ENC_MAGIC`: in front of everything that is encrypted, to tell a wrong key.
const MAGIC: u64 = 0xff00_9cad_8826_aa55;

/// What something is sealed for (`CEPHX_KEY_USAGE_*`). Keys of type `aes256k` open nothing that was sealed
/// for another use; `aes` keys make no difference between uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usage {
    /// The connection secret in a monitor's AUTH_DONE.
    ConnectionSecret = 0x03,
    /// What the owner of a ticket learns of it.
    TicketSessionKey = 0x04,
    /// A ticket on its way to a client that has an old one.
    TicketBlob = 0x05,
    /// The proof that the owner of a ticket knows its session key.
    Authorize = 0x10,
    /// The challenge to it.
    AuthorizeChallenge = 0x11,
    /// The service's own proof.
    AuthorizeReply = 0x12,
    /// A service's rotating secrets.
    RotatingSecret = 0x20,
    /// What the service learns of a ticket.
    TicketInfo = 0x30,
}

#[derive(Clone, PartialEq, Eq)]
enum Secret {
    Aes([u8; aes_cbc::KEY_BYTES]),
    Aes256k([u8; aes256k::KEY_BYTES]),
}

/// `CryptoKey`: a secret with its type and age.
#[derive(Clone, PartialEq, Eq)]
pub struct CryptoKey {
    created: UTime,
    secret: Secret,
}

impl std::fmt::Debug for CryptoKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CryptoKey({}, ..)", self.kind())
    }
}

impl CryptoKey {
    /// A new secret.
    pub fn generate(kind: KeyType, now: UTime, rng: &mut dyn RngCore) -> CryptoKey {
        let secret = match kind {
            KeyType::Aes => Secret::Aes(random(rng)),
            KeyType::Aes256k => Secret::Aes256k(random(rng)),
        };
        CryptoKey { created: now, secret }
    }

    /// What it is for.
    pub fn kind(&self) -> KeyType {
        match self.secret {
            Secret::Aes(_) => KeyType::Aes,
            Secret::Aes256k(_) => KeyType::Aes256k,
        }
    }

    /// When it was made.
    pub fn created(&self) -> UTime {
        self.created
    }

    fn bytes(&self) -> &[u8] {
        match &self.secret {
            Secret::Aes(bytes) => bytes,
            Secret::Aes256k(bytes) => bytes,
        }
    }

    /// The form in keyrings.
    pub fn to_base64(&self) -> String {
        STANDARD.encode(self.to_bytes(Features::default()))
    }

    /// Reads the form in keyrings.
    pub fn from_base64(text: &str) -> Result<CryptoKey, KeyError> {
        let bytes = STANDARD.decode(text.trim()).map_err(|_| KeyError::Malformed)?;
        let number = bytes.first_chunk::<2>().map(|b| u16::from_le_bytes(*b)).ok_or(KeyError::Malformed)?;
        if KeyType::from_number(number).is_none() {
            return Err(KeyError::UnknownType(number));
        }
        CryptoKey::from_bytes(Bytes::from(bytes)).map_err(|_| KeyError::Malformed)
    }

    /// `encode_encrypt`: version, magic and the value, encrypted.
    pub(crate) fn seal(&self, usage: Usage, value: &impl Encode, rng: &mut dyn RngCore) -> Bytes {
        let plain = envelope(value);
        Bytes::from(match &self.secret {
            Secret::Aes(secret) => aes_cbc::encrypt(secret, &plain),
            Secret::Aes256k(secret) => aes256k::encrypt(secret, usage as u32, &random(rng), &plain),
        })
    }

    /// The inverse of [`CryptoKey::seal`].
    pub(crate) fn open<T: Decode>(&self, usage: Usage, sealed: &[u8]) -> Result<T, KeyError> {
        let plain = match &self.secret {
            Secret::Aes(secret) => aes_cbc::decrypt(secret, sealed),
            Secret::Aes256k(secret) => aes256k::decrypt(secret, usage as u32, sealed),
        };
        let mut reader = Reader::new(Bytes::from(plain.ok_or(KeyError::WrongKey)?));
        let (_version, magic) = <(u8, u64)>::decode(&mut reader).map_err(|_| KeyError::WrongKey)?;
        if magic != MAGIC {
            return Err(KeyError::WrongKey);
        }
        T::decode(&mut reader).map_err(|_| KeyError::WrongKey)
    }

    /// What two sides compare to see that both have the key: always the same for the same value. `aes` keys
    /// seal the value, `aes256k` keys, which never seal twice the same way, take its HMAC-SHA256.
    pub(crate) fn fingerprint(&self, value: &impl Encode) -> Vec<u8> {
        let f = Features::default();
        match &self.secret {
            Secret::Aes(secret) => aes_cbc::encrypt(secret, &envelope(value)).to_bytes(f).to_vec(),
            Secret::Aes256k(_) => mac(self, &value.to_bytes(f)).finalize().into_bytes().to_vec(),
        }
    }
}

fn random<const N: usize>(rng: &mut dyn RngCore) -> [u8; N] {
    let mut out = [0; N];
    rng.fill_bytes(&mut out);
    out
}

fn envelope(value: &impl Encode) -> Vec<u8> {
    let mut plain = Vec::new();
    (1u8, MAGIC).encode(&mut plain, Features::default());
    value.encode(&mut plain, Features::default());
    plain
}

impl Encode for CryptoKey {
    fn encode(&self, out: &mut Vec<u8>, f: Features) {
        self.kind().number().encode(out, f);
        self.created.encode(out, f);
        (self.bytes().len() as u16).encode(out, f);
        out.extend_from_slice(self.bytes());
    }
}

impl Decode for CryptoKey {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let number = u16::decode(input)?;
        let created = UTime::decode(input)?;
        let len = usize::from(u16::decode(input)?);
        let secret = match (KeyType::from_number(number), len) {
            (Some(KeyType::Aes), aes_cbc::KEY_BYTES) => Secret::Aes(input.array()?),
            (Some(KeyType::Aes256k), aes256k::KEY_BYTES) => Secret::Aes256k(input.array()?),
            _ => return Err(DecodeError::Invalid { what: "key type", value: u64::from(number) }),
        };
        Ok(CryptoKey { created, secret })
    }
}

fn mac(key: &CryptoKey, bytes: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.bytes()).expect("HMAC takes keys of any length");
    mac.update(bytes);
    mac
}

/// `AUTH_SIGNATURE`: HMAC-SHA256 of what a side received; zeros without a session key (auth `none`).
pub fn signature(key: Option<&CryptoKey>, received: &[u8]) -> [u8; 32] {
    key.map_or([0; 32], |key| mac(key, received).finalize().into_bytes().into())
}

/// True when `claimed` is the peer's signature over what was sent to it. Takes the same time for any
/// wrong one.
pub fn is_signature(key: Option<&CryptoKey>, sent: &[u8], claimed: &[u8]) -> bool {
    match key {
        Some(key) => mac(key, sent).verify_slice(claimed).is_ok(),
        None => claimed == [0; 32],
    }
}
