//! `ENCODE_START` / `DECODE_START`: version, compat version and length around a struct.

use crate::{Decode, DecodeError, Reader};

/// Writes an envelope of `version` and `compat` around what `body` writes.
pub fn encode_envelope(out: &mut Vec<u8>, version: u8, compat: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(&[version, compat, 0, 0, 0, 0]);
    let start = out.len();
    body(out);
    let bytes = u32::try_from(out.len() - start).expect("a struct is far below 4 GiB");
    out[start - 4..start].copy_from_slice(&bytes.to_le_bytes());
}

/// Reads an envelope and hands its inside and its version to `body`; a tail that `body` leaves is
/// skipped, as newer writers append fields.
pub fn decode_envelope<T>(
    input: &mut Reader,
    ours: u8,
    what: &'static str,
    body: impl FnOnce(&mut Reader, u8) -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    let struct_v = u8::decode(input)?;
    let compat = u8::decode(input)?;
    if compat > ours {
        return Err(DecodeError::Incompatible { what, compat, ours });
    }
    let bytes = u32::decode(input)? as usize;
    input.within(bytes, |inside| body(inside, struct_v))
}
