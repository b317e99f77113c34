use bytes::Bytes;

use crate::{Message, RawMessage};

/// Decodes and re-encodes a captured message and compares the bytes.
fn round_trip(kind: u16, version: u16, compat: u16, front: &'static [u8], data: &'static [u8]) -> Message {
    let raw = RawMessage {
        kind,
        version,
        compat,
        front: Bytes::from_static(front),
        data: Bytes::from_static(data),
        ..RawMessage::default()
    };
    let message = Message::decode(raw.clone()).unwrap();
    let back = message.encode(0);
    assert_eq!((back.kind, back.version, back.compat), (kind, version, compat));
    assert_eq!(back.front, raw.front);
    let mut payload = back.data.to_vec();
    back.data_more.iter().for_each(|d| payload.extend_from_slice(d));
    assert_eq!(payload, raw.data);
    for end in 0..front.len() {
        let cut = RawMessage { front: raw.front.slice(..end), ..raw.clone() };
        assert!(Message::decode(cut).is_err(), "{end} of {}", front.len());
    }
    message
}
