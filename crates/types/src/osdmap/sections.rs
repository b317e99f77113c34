//! The frame that full and incremental maps share: an outer envelope around a section for all receivers,
//! a section for OSDs only, and checksums. The sections are declared once, as lists of fields in wire order.

use codec::{Decode, DecodeError, Encode, Features, Reader};

/// Version and compat of the outer envelope (`OSDMap::encode`).
pub(super) const WRAPPER_VERSION: (u8, u8) = (8, 7);

/// Declares the codec of a map: for each section its version, compat and fields. A field with
/// `via module` is written and read by that module's `encode` and `decode`; one behind `tail N` is a `Tail`
/// of version `N`.
macro_rules! wire_sections {
    (
        $name:ident { $($rest:ident),* $(,)? }
        $($section:ident $version:literal / $compat:literal {
            $($field:ident $(via $via:ident)?,)* $(; tail $tail_version:literal $tail:ident)?
        })*
    ) => {
        impl $name {
            /// Writes both sections, without the outer envelope and checksums.
            #[allow(unused_imports, reason = "most sections have no tail")]
            fn encode_sections(&self, out: &mut Vec<u8>, f: codec::Features) {
                use $crate::osdmap::ranges::Tail as _;
                $(
                    #[allow(unused_mut, reason = "most sections have no tail")]
                    let mut version = $version;
                    $(if self.$tail.is_needed() { version = $tail_version; })?
                    codec::encode_envelope(out, version, $compat, |out| {
                        $(wire_sections!(@put (&self.$field) out f $($via)?);)*
                        $(if self.$tail.is_needed() { self.$tail.encode_tail(out, f); })?
                    });
                )*
            }

            /// Reads both sections; the fields outside of them are at their defaults.
            #[allow(unused_imports, reason = "most sections have no tail")]
            fn decode_sections(input: &mut codec::Reader) -> Result<Self, codec::DecodeError> {
                use $crate::osdmap::ranges::Tail;
                $(
                    let ($($field,)* $($tail,)?) = codec::decode_envelope(input, $version, stringify!($name), |input, struct_v| {
                        if struct_v < $version {
                            return Err(codec::DecodeError::Invalid {
                                what: concat!(stringify!($name), " ", stringify!($section), " section version"),
                                value: u64::from(struct_v),
                            });
                        }
                        $(let $field = wire_sections!(@get input $($via)?);)*
                        $(let $tail = match struct_v {
                            version if version >= $tail_version => Tail::decode_tail(input)?,
                            _ => Default::default(),
                        };)?
                        Ok(($($field,)* $($tail,)?))
                    })?;
                )*
                Ok($name { $($($field,)* $($tail,)?)* $($rest: Default::default(),)* })
            }
        }
    };
    (@put ($value:expr) $out:ident $f:ident) => { codec::Encode::encode($value, $out, $f) };
    (@put ($value:expr) $out:ident $f:ident $via:ident) => { $via::encode($value, $out, $f) };
    (@get $input:ident) => { codec::Decode::decode($input)? };
    (@get $input:ident $via:ident) => { $via::decode($input)? };
}
pub(super) use wire_sections;

/// crc32c over what an encoded map holds before and after its own checksum.
pub(super) fn crc_around(before: &[u8], after: &[u8]) -> u32 {
    codec::crc32c(codec::crc32c(u32::MAX, before), after)
}

/// Integers and floats whose negative values mean "not set": `Option` as -1.
pub(super) mod or_minus_one {
    use super::*;

    /// A type with a value that stands for none.
    pub(crate) trait OrMinusOne: Sized {
        /// The value, or none for a negative one.
        fn read(input: &mut Reader) -> Result<Option<Self>, DecodeError>;
        /// The value, or -1.
        fn write(value: Option<&Self>, out: &mut Vec<u8>, f: Features);
    }

    macro_rules! signed {
        ($($name:ty as $int:ty, $get:expr, $make:expr;)*) => {$(
            impl OrMinusOne for $name {
                fn read(input: &mut Reader) -> Result<Option<Self>, DecodeError> {
                    let value = <$int>::decode(input)?;
                    // Only -1 itself is made from "none", so that every other input is kept as it is.
                    Ok((value != -1 as $int).then(|| $make(value)))
                }
                fn write(value: Option<&Self>, out: &mut Vec<u8>, f: Features) {
                    value.map_or(-1 as $int, $get).encode(out, f);
                }
            }
        )*};
    }
    signed! {
        i32 as i32, |v| *v, |v| v;
        f32 as f32, |v| *v, |v| v;
        crate::PoolId as i64, |v: &crate::PoolId| v.0, crate::PoolId;
        super::super::MapFlags as i32, |v: &super::super::MapFlags| v.0 as i32, |v| super::super::MapFlags(v as u32);
    }

    impl OrMinusOne for super::super::Release {
        fn read(input: &mut Reader) -> Result<Option<Self>, DecodeError> {
            let value = u8::decode(input)?;
            Ok((value != u8::MAX).then_some(super::super::Release(value)))
        }
        fn write(value: Option<&Self>, out: &mut Vec<u8>, f: Features) {
            value.map_or(u8::MAX, |v| v.0).encode(out, f);
        }
    }

    pub(crate) fn encode<T: OrMinusOne>(value: &Option<T>, out: &mut Vec<u8>, f: Features) {
        T::write(value.as_ref(), out, f);
    }

    pub(crate) fn decode<T: OrMinusOne>(input: &mut Reader) -> Result<Option<T>, DecodeError> {
        T::read(input)
    }
}
