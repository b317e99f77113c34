//! Encodings of primitives and containers.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::{Decode, DecodeError, Encode, Features, Reader};

macro_rules! integers {
    ($($int:ty),*) => {$(
        impl Encode for $int {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>, _: Features) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }
        impl Decode for $int {
            #[inline]
            fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
                Ok(<$int>::from_le_bytes(input.array()?))
            }
        }
    )*};
}
integers!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

impl Encode for bool {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>, _: Features) {
        out.push(u8::from(*self));
    }
}
impl Decode for bool {
    #[inline]
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(u8::decode(input)? != 0)
    }
}

impl<const N: usize> Encode for [u8; N] {
    fn encode(&self, out: &mut Vec<u8>, _: Features) {
        out.extend_from_slice(self);
    }
}
impl<const N: usize> Decode for [u8; N] {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        input.array()
    }
}

#[inline]
fn encode_count(count: usize, out: &mut Vec<u8>) {
    let count = u32::try_from(count).expect("containers hold fewer than 2^32 elements");
    out.extend_from_slice(&count.to_le_bytes());
}

/// `bufferlist`: u32 length and bytes.
impl Encode for Bytes {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>, _: Features) {
        encode_count(self.len(), out);
        out.extend_from_slice(self);
    }
}
impl Decode for Bytes {
    #[inline]
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let count = input.count(1)?;
        input.take(count)
    }
}

impl Encode for str {
    fn encode(&self, out: &mut Vec<u8>, _: Features) {
        encode_count(self.len(), out);
        out.extend_from_slice(self.as_bytes());
    }
}
impl Encode for String {
    fn encode(&self, out: &mut Vec<u8>, features: Features) {
        self.as_str().encode(out, features);
    }
}
impl Decode for String {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        String::from_utf8(Bytes::decode(input)?.to_vec()).map_err(|_| DecodeError::NotUtf8)
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, out: &mut Vec<u8>, features: Features) {
        encode_count(self.len(), out);
        for element in self {
            element.encode(out, features);
        }
    }
}
/// The most elements for which memory is allocated before they have been decoded.
const ROOM_MAX: usize = 8;

impl<T: Decode> Decode for Vec<T> {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let count = input.count(1)?;
        let mut out = Vec::with_capacity(count.min(ROOM_MAX));
        for _ in 0..count {
            out.push(T::decode(input)?);
        }
        Ok(out)
    }
}

impl<T: Encode> Encode for BTreeSet<T> {
    fn encode(&self, out: &mut Vec<u8>, features: Features) {
        encode_count(self.len(), out);
        for element in self {
            element.encode(out, features);
        }
    }
}
impl<T: Decode + Ord> Decode for BTreeSet<T> {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        (0..input.count(1)?).map(|_| T::decode(input)).collect()
    }
}

impl<K: Encode, V: Encode> Encode for BTreeMap<K, V> {
    fn encode(&self, out: &mut Vec<u8>, features: Features) {
        encode_count(self.len(), out);
        for (key, value) in self {
            key.encode(out, features);
            value.encode(out, features);
        }
    }
}
/// If a key comes twice, its first value counts, as in Ceph (`denc.h`).
impl<K: Decode + Ord, V: Decode> Decode for BTreeMap<K, V> {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let mut pairs = Vec::<(K, V)>::decode(input)?;
        if !pairs.is_sorted_by(|one, next| one.0 < next.0) {
            pairs.sort_by(|one, other| one.0.cmp(&other.0));
            pairs.dedup_by(|later, first| later.0 == first.0);
        }
        Ok(pairs.into_iter().collect())
    }
}

/// `std::optional`: a presence byte, then the value.
impl<T: Encode> Encode for Option<T> {
    fn encode(&self, out: &mut Vec<u8>, features: Features) {
        self.is_some().encode(out, features);
        if let Some(value) = self {
            value.encode(out, features);
        }
    }
}
impl<T: Decode> Decode for Option<T> {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        if bool::decode(input)? { Ok(Some(T::decode(input)?)) } else { Ok(None) }
    }
}

impl<T: Encode> Encode for Box<T> {
    fn encode(&self, out: &mut Vec<u8>, features: Features) {
        (**self).encode(out, features);
    }
}
impl<T: Decode> Decode for Box<T> {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Box::new(T::decode(input)?))
    }
}

impl<A: Encode, B: Encode> Encode for (A, B) {
    fn encode(&self, out: &mut Vec<u8>, features: Features) {
        self.0.encode(out, features);
        self.1.encode(out, features);
    }
}
impl<A: Decode, B: Decode> Decode for (A, B) {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok((A::decode(input)?, B::decode(input)?))
    }
}
impl<A: Encode, B: Encode, C: Encode> Encode for (A, B, C) {
    fn encode(&self, out: &mut Vec<u8>, features: Features) {
        self.0.encode(out, features);
        self.1.encode(out, features);
        self.2.encode(out, features);
    }
}
impl<A: Decode, B: Decode, C: Decode> Decode for (A, B, C) {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok((A::decode(input)?, B::decode(input)?, C::decode(input)?))
    }
}
