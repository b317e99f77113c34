//! Text of clients. Ceph takes any bytes as text, so bytes that are not UTF-8 are no reason to refuse a message: its
//! sender would connect and send it again for ever.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::{Decode, DecodeError, Reader};

/// Text, or collections of text, from whatever bytes there are: what is not UTF-8 becomes U+FFFD. For what is shown,
/// or looked up among names that are UTF-8; not for what is kept under its name, as two names could become one.
pub trait DecodeLossy: Sized {
    /// Reads one value from the front of `input`.
    fn decode_lossy(input: &mut Reader) -> Result<Self, DecodeError>;
}

impl DecodeLossy for String {
    fn decode_lossy(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(String::from_utf8_lossy(&Bytes::decode(input)?).into_owned())
    }
}

impl DecodeLossy for Vec<String> {
    fn decode_lossy(input: &mut Reader) -> Result<Self, DecodeError> {
        let texts = Vec::<Bytes>::decode(input)?;
        Ok(texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect())
    }
}

impl DecodeLossy for BTreeMap<String, String> {
    fn decode_lossy(input: &mut Reader) -> Result<Self, DecodeError> {
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        let pairs = BTreeMap::<Bytes, Bytes>::decode(input)?;
        Ok(pairs.iter().map(|(name, value)| (text(name), text(value))).collect())
    }
}
