//! The cipher of `aes` keys: AES-128-CBC with PKCS#7 padding and an IV that never changes. Nothing in it
//! tells that bytes were changed; it serves clients that know no other (CVE-2025-30156).

use aes::{
    Aes128,
    cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit, block_padding::Pkcs7},
};

/// Bytes of a secret.
pub(crate) const KEY_BYTES: usize = 16;

/// `CEPH_AES_IV`.
const IV: &[u8; 16] = b"cephsageyudagreg";

/// Pads and encrypts.
pub(crate) fn encrypt(secret: &[u8; KEY_BYTES], plain: &[u8]) -> Vec<u8> {
    cbc::Encryptor::<Aes128>::new(secret.into(), IV.into()).encrypt_padded_vec::<Pkcs7>(plain)
}

/// None when the padding is none: the key is another one.
pub(crate) fn decrypt(secret: &[u8; KEY_BYTES], sealed: &[u8]) -> Option<Vec<u8>> {
    cbc::Decryptor::<Aes128>::new(secret.into(), IV.into()).decrypt_padded_vec::<Pkcs7>(sealed).ok()
}
