//! Secure mode: AES-128-GCM with a counter in the nonce (`crypto_onwire.cc`).

use aes_gcm::{AeadInOut, Aes128Gcm, KeyInit, Nonce, Tag};

/// Bytes of the tag behind what is encrypted.
pub(crate) const TAG_BYTES: usize = 16;

/// One direction's cipher.
pub(crate) struct Cipher {
    gcm: Aes128Gcm,
    fixed: [u8; 4],
    counter: u64,
}

impl std::fmt::Debug for Cipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cipher(..)")
    }
}

/// Bytes of a connection secret.
const SECRET_BYTES: usize = 64;

impl Cipher {
    /// The ciphers of server → client and client → server. None if the secret is too short.
    pub(crate) fn pair(secret: &[u8]) -> Option<(Cipher, Cipher)> {
        if secret.len() < SECRET_BYTES {
            return None;
        }
        let make = |nonce: &[u8]| {
            Some(Cipher {
                gcm: Aes128Gcm::new_from_slice(&secret[..16]).ok()?,
                fixed: nonce[..4].try_into().ok()?,
                counter: u64::from_le_bytes(nonce[4..12].try_into().ok()?),
            })
        };
        Some((make(&secret[16..28])?, make(&secret[28..40])?))
    }

    fn nonce(&mut self) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&self.fixed);
        nonce[4..].copy_from_slice(&self.counter.to_le_bytes());
        self.counter = self.counter.wrapping_add(1);
        nonce
    }

    /// Encrypts `buffer` and appends the tag.
    pub(crate) fn seal(&mut self, buffer: &mut Vec<u8>) {
        let nonce = self.nonce();
        let tag = self.gcm.encrypt_inout_detached(&Nonce::from(nonce), b"", buffer.as_mut_slice().into());
        buffer.extend_from_slice(&tag.expect("a frame is far below the cipher's limit"));
    }

    /// Checks the tag at the end of `buffer`, decrypts, and cuts the tag off. False if it is wrong.
    pub(crate) fn open(&mut self, buffer: &mut Vec<u8>) -> bool {
        let nonce = self.nonce();
        let Some(end) = buffer.len().checked_sub(TAG_BYTES) else { return false };
        let Ok(tag) = Tag::try_from(&buffer[end..]) else { return false };
        buffer.truncate(end);
        self.gcm.decrypt_inout_detached(&Nonce::from(nonce), b"", buffer.as_mut_slice().into(), &tag).is_ok()
    }
}
