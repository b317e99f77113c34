//! Secret keys and the one way in which cephx encrypts with them.

use aes::cipher::{BlockDecryptMut, BlockEncryptMut, KeyIvInit, block_padding::Pkcs7};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use codec::{Decode, DecodeError, Encode, Features, Reader};
use hmac::{Hmac, Mac};
use rand::RngCore;
use sha2::Sha256;
use thiserror::Error;
use types::UTime;

/// Why a key is not usable, or bytes do not open with it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// Neither base64 nor a key in it.
    #[error("not an encoded key")]
    Malformed,
    /// A key type that this version does not have.
    #[error("key type {0} is not supported")]
    UnknownType(u16),
    /// The bytes were not made with this key.
    #[error("the bytes do not decrypt with this key")]
    WrongKey,
}

/// `CEPH_CRYPTO_AES`: AES-128-CBC with a fixed IV. The place of `aes256k` is beside it.
const TYPE_AES: u16 = 1;
const AES_BYTES: usize = 16;
const IV: &[u8; 16] = b"cephsageyudagreg";
/// `AUTH_ENC_MAGIC`: in front of everything that is encrypted, to tell a wrong key.
const MAGIC: u64 = 0xff00_9cad_8826_aa55;

/// `CryptoKey`: a secret with its type and age.
#[derive(Clone, PartialEq, Eq)]
pub struct CryptoKey {
    created: UTime,
    secret: [u8; AES_BYTES],
}

impl std::fmt::Debug for CryptoKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CryptoKey(..)")
    }
}

impl CryptoKey {
    /// A new secret.
    pub fn generate(now: UTime, rng: &mut dyn RngCore) -> CryptoKey {
        let mut secret = [0; AES_BYTES];
        rng.fill_bytes(&mut secret);
        CryptoKey { created: now, secret }
    }

    /// The form in keyrings.
    pub fn to_base64(&self) -> String {
        STANDARD.encode(self.to_bytes(Features::default()))
    }

    /// Reads the form in keyrings.
    pub fn from_base64(text: &str) -> Result<CryptoKey, KeyError> {
        let bytes = STANDARD.decode(text.trim()).map_err(|_| KeyError::Malformed)?;
        match bytes.first_chunk::<2>().map(|b| u16::from_le_bytes(*b)) {
            Some(TYPE_AES) => CryptoKey::from_bytes(Bytes::from(bytes)).map_err(|_| KeyError::Malformed),
            Some(other) => Err(KeyError::UnknownType(other)),
            None => Err(KeyError::Malformed),
        }
    }

    /// AES-128-CBC with PKCS#7 padding.
    pub(crate) fn encrypt(&self, plain: &[u8]) -> Bytes {
        let cipher = cbc::Encryptor::<aes::Aes128>::new((&self.secret).into(), IV.into());
        Bytes::from(cipher.encrypt_padded_vec_mut::<Pkcs7>(plain))
    }

    pub(crate) fn decrypt(&self, sealed: &[u8]) -> Result<Bytes, KeyError> {
        let cipher = cbc::Decryptor::<aes::Aes128>::new((&self.secret).into(), IV.into());
        cipher.decrypt_padded_vec_mut::<Pkcs7>(sealed).map(Bytes::from).map_err(|_| KeyError::WrongKey)
    }

    /// `encode_encrypt_enc_bl`: version, magic and the value, encrypted.
    pub(crate) fn seal(&self, value: &impl Encode) -> Bytes {
        let f = Features::default();
        let mut plain = Vec::new();
        (1u8, MAGIC).encode(&mut plain, f);
        value.encode(&mut plain, f);
        self.encrypt(&plain)
    }

    /// The inverse of [`CryptoKey::seal`].
    pub(crate) fn open<T: Decode>(&self, sealed: &[u8]) -> Result<T, KeyError> {
        let mut reader = Reader::new(self.decrypt(sealed)?);
        let (_version, magic) = <(u8, u64)>::decode(&mut reader).map_err(|_| KeyError::WrongKey)?;
        if magic != MAGIC {
            return Err(KeyError::WrongKey);
        }
        T::decode(&mut reader).map_err(|_| KeyError::WrongKey)
    }
}

impl Encode for CryptoKey {
    fn encode(&self, out: &mut Vec<u8>, f: Features) {
        TYPE_AES.encode(out, f);
        self.created.encode(out, f);
        (AES_BYTES as u16).encode(out, f);
        out.extend_from_slice(&self.secret);
    }
}

impl Decode for CryptoKey {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let kind = u16::decode(input)?;
        let created = UTime::decode(input)?;
        let len = u16::decode(input)?;
        if kind != TYPE_AES || usize::from(len) != AES_BYTES {
            return Err(DecodeError::Invalid { what: "key type", value: u64::from(kind) });
        }
        Ok(CryptoKey { created, secret: input.array()? })
    }
}

fn mac(key: &CryptoKey, bytes: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&key.secret).expect("HMAC takes keys of any length");
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
