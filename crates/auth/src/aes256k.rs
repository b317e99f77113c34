//! The cipher of `aes256k` keys: AES256-CTS-HMAC-SHA384-192 (RFC 8009). What is sealed is a random block (the
//! confounder) and the text, encrypted, with a MAC behind; keys for both come from the secret and from what
//! they are used for, so that nothing sealed for one use opens as another.

use aes::Aes256;
use cts::{CbcCs3, Decrypt, Encrypt, KeyIvInit};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha384;

/// Bytes of a secret.
pub(crate) const KEY_BYTES: usize = 32;
/// Bytes of the confounder, a block.
pub(crate) const CONFOUNDER_BYTES: usize = 16;
const MAC_BYTES: usize = 24;
const IV: [u8; 16] = [0; 16];
/// What the keys derived from one secret and usage differ by (RFC 3961 §5.3).
const FOR_ENCRYPTION: u8 = 0xaa;
const FOR_INTEGRITY: u8 = 0x55;

fn hmac(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha384> {
    let mut mac = Hmac::<Sha384>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac
}

/// `KDF-HMAC-SHA2`: `N` bytes for a usage.
fn derive<const N: usize>(secret: &[u8; KEY_BYTES], usage: u32, purpose: u8) -> [u8; N] {
    let (counter, bits) = (1u32.to_be_bytes(), (N as u32 * 8).to_be_bytes());
    let label = [&usage.to_be_bytes()[..], &[purpose, 0]].concat();
    let long = hmac(secret, &[&counter, &label, &bits]).finalize().into_bytes();
    *long.first_chunk().expect("SHA-384 gives 48 bytes, and no key is longer")
}

fn integrity(secret: &[u8; KEY_BYTES], usage: u32, encrypted: &[u8]) -> Hmac<Sha384> {
    hmac(&derive::<MAC_BYTES>(secret, usage, FOR_INTEGRITY), &[&IV, encrypted])
}

fn cipher(secret: &[u8; KEY_BYTES], usage: u32) -> CbcCs3<Aes256> {
    CbcCs3::new(&derive::<KEY_BYTES>(secret, usage, FOR_ENCRYPTION).into(), &IV.into())
}

/// Seals `plain`, which must not be empty, for `usage`. `confounder` is random and never used again.
pub(crate) fn encrypt(
    secret: &[u8; KEY_BYTES],
    usage: u32,
    confounder: &[u8; CONFOUNDER_BYTES],
    plain: &[u8],
) -> Vec<u8> {
    // Of a lone block `cts` 0.7 makes something else than RFC 8009 wants.
    assert!(!plain.is_empty(), "an envelope is in front of everything");
    let mut out = [confounder, plain].concat();
    cipher(secret, usage).encrypt(&mut out).expect("the confounder is a whole block");
    let mac = integrity(secret, usage, &out).finalize().into_bytes();
    out.extend_from_slice(&mac[..MAC_BYTES]);
    out
}

/// Opens what was sealed for `usage`; None when the key is another one, or a bit was changed.
pub(crate) fn decrypt(secret: &[u8; KEY_BYTES], usage: u32, sealed: &[u8]) -> Option<Vec<u8>> {
    let (encrypted, mac) = sealed.split_at_checked(sealed.len().checked_sub(MAC_BYTES)?)?;
    integrity(secret, usage, encrypted).verify_truncated_left(mac).ok()?;
    let mut out = encrypted.to_vec();
    cipher(secret, usage).decrypt(&mut out).ok()?;
    Some(out.split_off(CONFOUNDER_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
        digits.chunks(2).map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap()).collect()
    }

    fn key() -> [u8; KEY_BYTES] {
        hex("6D404D37FAF79F9DF0D33568D320669800EB4836472EA8A026D16B7182460C52").try_into().unwrap()
    }

    #[test]
    fn keys_of_rfc_8009() {
        let ke = "56AB22BEE63D82D7BC5227F6773F8EA7A5EB1C825160C38312980C442E5C7E49";
        let ki = "69B16514E3CD8E56B82010D5C73012B622C4D00FFC23ED1F";
        assert_eq!(derive::<KEY_BYTES>(&key(), 2, FOR_ENCRYPTION).to_vec(), hex(ke));
        assert_eq!(derive::<MAC_BYTES>(&key(), 2, FOR_INTEGRITY).to_vec(), hex(ki));
    }

    /// Appendix A: less than a block, a block, more than a block.
    #[test]
    fn encryption_of_rfc_8009() {
        let text: Vec<u8> = (0..21).collect();
        for (plain, confounder, sealed) in [
            (
                &text[..6],
                "B80D3251C1F6471494256FFE712D0B9A",
                "4ED7B37C2BCAC8F74F23C1CF07E62BC7B75FB3F637B9F559C7F664F69EAB7B6092237526EA0D1F61CB20D69D10F2",
            ),
            (
                &text[..16],
                "53BF8A0D105265D4E276428624CE5E63",
                "BC47FFEC7998EB91E8115CF8D19DAC4BBBE2E163E87DD37F49BECA92027764F6\
                 8CF51F14D798C2273F35DF574D1F932E40C4FF255B36A266",
            ),
            (
                &text[..],
                "763E65367E864F02F55153C7E3B58AF1",
                "40013E2DF58E8751957D2878BCD2D6FE101CCFD556CB1EAE79DB3C3EE86429F2\
                 B2A602AC86FEF6ECB647D6295FAE077A1FEB517508D2C16B4192E01F62",
            ),
        ] {
            let confounder: [u8; 16] = hex(confounder).try_into().unwrap();
            assert_eq!(encrypt(&key(), 2, &confounder, plain), hex(sealed));
            assert_eq!(decrypt(&key(), 2, &hex(sealed)).unwrap(), plain);
            assert_eq!(decrypt(&key(), 3, &hex(sealed)), None);
        }
    }

    /// Less than a block, or no text behind the confounder: a peer with the key can make any of it.
    #[test]
    fn what_no_peer_seals_does_not_open_or_opens_as_noise() {
        for len in 0..70 {
            let mut sealed = vec![7; len];
            let mac = integrity(&key(), 4, &sealed).finalize().into_bytes();
            sealed.extend_from_slice(&mac[..MAC_BYTES]);
            let opened = decrypt(&key(), 4, &sealed);
            assert_eq!(opened.map(|text| text.len()), len.checked_sub(CONFOUNDER_BYTES));
        }
    }

    #[test]
    fn every_changed_bit_is_seen() {
        let sealed = encrypt(&key(), 4, &[7; 16], b"what a ticket says");
        for bit in 0..sealed.len() * 8 {
            let mut other = sealed.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decrypt(&key(), 4, &other), None, "{bit}");
        }
        for end in 0..sealed.len() {
            assert_eq!(decrypt(&key(), 4, &sealed[..end]), None, "{end}");
        }
    }
}
