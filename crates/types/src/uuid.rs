//! Uuids: of clusters, OSDs, stores.

use std::{fmt, str::FromStr};

use codec::Codec;

/// `uuid_d`: names a cluster, an OSD or a store.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

/// A text that is no uuid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a uuid")]
pub struct UuidParseError(String);

/// The bytes that have a hyphen before them.
const HYPHENATED: [usize; 4] = [4, 6, 8, 10];
/// Characters of the usual form.
const TEXT_LEN: usize = 36;

impl Uuid {
    /// All zeros, which stand for none.
    pub const NIL: Uuid = Uuid([0; 16]);

    /// The uuid of version 4 with these random bits.
    pub fn from_random(mut bytes: [u8; 16]) -> Uuid {
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Uuid(bytes)
    }

    fn parse(text: &str) -> Option<Uuid> {
        let inner = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(text);
        let has_hyphens = inner.len() == TEXT_LEN;
        let mut chars = inner.chars();
        let mut bytes = [0; 16];
        for (at, byte) in bytes.iter_mut().enumerate() {
            if has_hyphens && HYPHENATED.contains(&at) {
                chars.next().filter(|c| *c == '-')?;
            }
            let mut digit = || chars.next()?.to_digit(16);
            *byte = (digit()? << 4 | digit()?) as u8;
        }
        chars.next().is_none().then_some(Uuid(bytes))
    }
}

/// The usual form: 8, 4, 4, 4 and 12 lower-case digits.
impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            if HYPHENATED.contains(&at) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// Reads what `uuid_d::parse` takes: the usual form in letters of either case, or the same without any hyphen; with
/// braces around it or not.
impl FromStr for Uuid {
    type Err = UuidParseError;

    fn from_str(text: &str) -> Result<Uuid, UuidParseError> {
        Uuid::parse(text).ok_or_else(|| UuidParseError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "d115b587-6118-415a-af14-47309b5357db";

    #[test]
    fn every_form_that_ceph_takes_is_the_same_uuid() {
        let plain = TEXT.replace('-', "");
        for text in [TEXT, &TEXT.to_uppercase(), &plain, &format!("{{{TEXT}}}"), &format!("{{{plain}}}")] {
            assert_eq!(text.parse::<Uuid>().unwrap().to_string(), TEXT, "{text}");
        }
        assert_eq!(TEXT.parse::<Uuid>().unwrap().0[..4], [0xd1, 0x15, 0xb5, 0x87]);
    }

    #[test]
    fn a_mistyped_uuid_is_refused_and_not_cut() {
        let plain = TEXT.replace('-', "");
        let cases = [
            String::new(),
            "x".to_owned(),
            format!("{plain}0"),
            format!("{TEXT}0"),
            plain[..31].to_owned(),
            TEXT[..35].to_owned(),
            TEXT.replace("b587", "b5-87"),
            TEXT.replacen('-', "", 1),
            TEXT.replace('-', ":"),
            format!("+{}", &TEXT[1..]),
            format!("+{}", &plain[1..]),
            format!("{{{TEXT}"),
            format!("{TEXT}}}"),
            TEXT.replace('d', "é"),
        ];
        for text in cases {
            assert_eq!(text.parse::<Uuid>(), Err(UuidParseError(text.clone())), "{text}");
        }
    }

    #[test]
    fn random_bits_make_a_uuid_of_version_4() {
        let [zeros, ones] = [0, 0xff].map(|byte| Uuid::from_random([byte; 16]).to_string());
        assert_eq!(zeros, "00000000-0000-4000-8000-000000000000");
        assert_eq!(ones, "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
