//! The body of any message: it decodes or it is an error.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use messages::{Message, RawMessage};

fuzz_target!(|input: &[u8]| {
    let [kind_low, kind_high, version, split, rest @ ..] = input else { return };
    let (front, data) = rest.split_at(rest.len() * usize::from(*split) / 255);
    let raw = RawMessage {
        kind: u16::from_le_bytes([*kind_low, *kind_high]),
        version: u16::from(*version),
        compat: 1,
        front: Bytes::copy_from_slice(front),
        data: Bytes::copy_from_slice(data).into(),
        ..RawMessage::default()
    };
    if let Ok(message) = Message::decode(raw) {
        let _ = message.encode(1);
    }
});
