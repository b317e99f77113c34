//! Frames: any segments, any chunks, any damage.

use codec::Payload;
use proptest::prelude::*;

use super::*;
use crate::{
    crypto::Cipher,
    frame::{FrameError, FrameReader, FrameWriter, Limits, Tag},
};

fn ends(is_secure: bool) -> (FrameWriter, FrameReader) {
    let (mut writer, mut reader) = (FrameWriter::default(), FrameReader::default());
    reader.ready(Limits::Any);
    if is_secure {
        let secret: Vec<u8> = (0..64).collect();
        writer.secure(Cipher::pair(&secret).unwrap().0);
        reader.secure(Cipher::pair(&secret).unwrap().0);
    }
    (writer, reader)
}

/// Header, front, and payload in pieces.
fn parts() -> impl Strategy<Value = (Vec<u8>, Vec<u8>, Vec<Vec<u8>>)> {
    let bytes = |most| prop::collection::vec(any::<u8>(), 0..most);
    (bytes(100), bytes(200), prop::collection::vec(bytes(300), 0..4))
}

fn encode(writer: &mut FrameWriter, first: &[u8], front: &[u8], data: &[Vec<u8>]) -> Vec<u8> {
    let data: Vec<Payload> = data.iter().cloned().map(|piece| Bytes::from(piece).into()).collect();
    let mut out = Vec::new();
    writer.frame(Tag::MESSAGE, first, (&Bytes::copy_from_slice(front), None), &data, &mut out);
    out.concat()
}

proptest! {
    #[test]
    fn come_back_as_they_were_sent(
        frames in prop::collection::vec(parts(), 1..5),
        chunk in 1usize..200,
        is_secure: bool,
    ) {
        let (mut writer, mut reader) = ends(is_secure);
        let wire: Vec<u8> =
            frames.iter().flat_map(|(first, front, data)| encode(&mut writer, first, front, data)).collect();
        let mut got = Vec::new();
        for piece in wire.chunks(chunk) {
            let wanted = reader.bytes_wanted();
            reader.push(Bytes::copy_from_slice(piece));
            let before = got.len();
            while let Some(frame) = reader.next(None).unwrap() {
                got.push(frame);
            }
            prop_assert!(wanted == 0 || piece.len() >= wanted || got.len() == before);
        }
        prop_assert_eq!(got.len(), frames.len());
        for (frame, (first, front, data)) in got.iter().zip(&frames) {
            prop_assert_eq!(&frame.segments[0], first);
            prop_assert_eq!(&frame.segments[1], front);
            prop_assert_eq!(&frame.segments[3], &data.concat());
        }
    }

    #[test]
    fn damage_is_found(parts in parts(), at: prop::sample::Index, bit in 0u8..8, is_secure: bool) {
        let (first, front, data) = parts;
        let (mut writer, mut reader) = ends(is_secure);
        let mut wire = encode(&mut writer, &first, &front, &data);
        let at = at.index(wire.len());
        wire[at] ^= 1 << bit;
        reader.push(Bytes::from(wire));
        if let Ok(Some(frame)) = reader.next(None) {
            // Behind the payload there are checksums of segments that are not there; they say nothing.
            prop_assert!(!is_secure);
            prop_assert_eq!(&frame.segments[0], &first);
            prop_assert_eq!(&frame.segments[1], &front);
            prop_assert_eq!(&frame.segments[3], &data.concat());
        }
    }

    #[test]
    fn noise_is_no_frame(noise in prop::collection::vec(any::<u8>(), 0..2000), is_secure: bool) {
        let (_, mut reader) = ends(is_secure);
        reader.push(Bytes::from(noise));
        prop_assert!(!matches!(reader.next(None), Ok(Some(_))));
    }

    /// Preambles that are right but for what they claim.
    #[test]
    fn no_claim_makes_the_reader_wait_for_too_much(
        tag in 0u8..24,
        count: u8,
        lengths: [u32; 4],
        limits in 0..4,
    ) {
        let mut preamble = [0u8; 32];
        (preamble[0], preamble[1]) = (tag, count);
        for (index, length) in lengths.iter().enumerate() {
            preamble[2 + index * 6..6 + index * 6].copy_from_slice(&length.to_le_bytes());
        }
        let crc = codec::crc32c(0, &preamble[..28]);
        preamble[28..].copy_from_slice(&crc.to_le_bytes());
        let mut reader = FrameReader::default();
        let (limits, most) = match limits {
            0 => (Limits::Handshake, 65 << 10),
            1 => (Limits::Command, (18 << 20) + (65 << 10)),
            2 => (Limits::Any, 256 << 20),
            _ => (Limits::Osd, (3 << 30) + (65 << 10)),
        };
        reader.ready(limits);
        reader.push(Bytes::copy_from_slice(&preamble));
        let _ = reader.next(None);
        prop_assert!(reader.bytes_wanted() < most);
    }
}

/// What a frame with two pieces of `bytes` in all is sent as, and where its payload is when it has been received.
fn payload_of(bytes: usize) -> (Vec<Payload>, Vec<Bytes>, Bytes, Bytes) {
    let payload = Bytes::from(vec![7; bytes]);
    let (mut writer, mut reader) = ends(false);
    let mut out = Vec::new();
    let data = [payload.slice(..4096), payload.slice(4096..)].map(Payload::from).to_vec();
    writer.frame(Tag::MESSAGE, b"header", (&Bytes::from_static(b"front"), None), &data, &mut out);
    let wire = Bytes::from(out.concat());
    reader.push(wire.clone());
    let frame = reader.next(None).unwrap().unwrap();
    assert_eq!(frame.segments[3], payload);
    (data, out, wire, frame.segments[3].clone())
}

#[test]
fn a_large_payload_is_not_copied() {
    let (data, out, wire, got) = payload_of(64 << 10);
    assert!(data.iter().all(|piece| out.iter().any(|sent| sent.as_ptr() == piece.as_ptr())));
    assert!(wire.as_ptr_range().contains(&got.as_ptr()));
}

#[test]
fn a_small_payload_leaves_the_receive_buffer_for_aligned_memory() {
    let (_, _, wire, got) = payload_of(8192);
    assert!(!wire.as_ptr_range().contains(&got.as_ptr()));
    assert!((got.as_ptr() as usize).is_multiple_of(4096));
}

/// The sender filled what it had not sent with zeros, and summed those.
#[test]
fn a_frame_that_its_sender_gave_up_is_passed_over() {
    let (mut writer, mut reader) = ends(false);
    let mut aborted = encode(&mut writer, b"header", b"fro\0\0", &[vec![0; 300]]);
    let late = aborted.len() - 13;
    aborted[late] = 0x01;
    let whole = encode(&mut writer, b"another", b"front", &[]);
    for piece in [aborted.clone(), aborted, whole].concat().chunks(100) {
        reader.push(Bytes::copy_from_slice(piece));
        if let Some(frame) = reader.next(None).unwrap() {
            assert_eq!((&frame.segments[0][..], &frame.segments[1][..]), (&b"another"[..], &b"front"[..]));
            return;
        }
    }
    panic!("the frame behind them is lost");
}

#[test]
fn an_epilogue_that_says_neither_is_refused() {
    let (mut writer, mut reader) = ends(false);
    let mut wire = encode(&mut writer, b"header", b"front", &[]);
    let late = wire.len() - 13;
    for status in [0x00, 0x0f] {
        wire[late] = status;
        reader.push(Bytes::from(wire.clone()));
        assert!(matches!(reader.next(None), Err(FrameError::Epilogue)));
        (_, reader) = ends(false);
    }
}

/// As many peers as there are receive buffers may stop in the middle of a frame.
#[test]
fn a_frame_that_is_cut_early_keeps_no_receive_buffer() {
    let (mut writer, _) = ends(false);
    let wire = Bytes::from(encode(&mut writer, b"header", b"front", &[vec![0; 8000]]));
    for (cut, is_kept) in [(1, false), (1056, false), (2000, true)] {
        let (_, mut reader) = ends(false);
        let received = Bytes::copy_from_slice(&wire[..cut]);
        reader.push(received.clone());
        assert!(reader.next(None).unwrap().is_none());
        reader.wait();
        assert_eq!(!received.is_unique(), is_kept, "{cut}");
        reader.push(wire.slice(cut..));
        assert_eq!(reader.next(None).unwrap().unwrap().segments[3], vec![0u8; 8000]);
    }
}

/// What is before the payload comes without it, in little memory, however the bytes come.
#[test]
fn a_payload_that_is_too_long_is_dropped_as_it_comes() {
    let payload: Vec<Payload> = Payload::zeros((128 << 20) + 1).collect();
    let (mut writer, mut reader) = ends(false);
    let mut wire = Vec::new();
    let front = Bytes::from_static(b"front");
    writer.frame(Tag::MESSAGE, b"header", (&front, None), &payload, &mut wire);
    writer.frame(Tag::MESSAGE, b"another", (&front, None), &[], &mut wire);
    let (mut got, mut wanted) = (Vec::new(), 0);
    for (at, piece) in wire.iter().enumerate() {
        let pieces = piece.chunks(if at == 0 { 7 } else { 1 << 20 });
        for piece in pieces.map(Bytes::copy_from_slice) {
            reader.push(piece);
            while let Some(frame) = reader.next(None).unwrap() {
                got.push(frame);
            }
            wanted = wanted.max(reader.bytes_wanted());
            assert!(reader.take_partial().is_none_or(|part| part.bytes < 1_000));
        }
    }
    assert!((1..1_000).contains(&wanted), "what comes before the payload is put together: {wanted}");
    let [cut, whole] = &got[..] else { panic!("{}", got.len()) };
    assert_eq!((&cut.segments[0][..], &cut.segments[1], cut.segments[3].len()), (&b"header"[..], &front, 0));
    assert!(cut.is_cut && !whole.is_cut);
    assert_eq!(&whole.segments[0][..], b"another");
    // Who is no client, or hides what it says, may not send so much, nor much before it.
    let long = Bytes::from(vec![1; 64 << 10]);
    for (limits, is_secure, front) in
        [(Limits::Command, false, &front), (Limits::Any, true, &front), (Limits::Any, false, &long)]
    {
        let (mut writer, mut reader) = ends(is_secure);
        reader.ready(limits);
        let mut wire = Vec::new();
        writer.frame(Tag::MESSAGE, b"header", (front, None), &payload, &mut wire);
        reader.push(wire[0].slice(..wire[0].len().min(100)));
        assert!(matches!(reader.next(None), Err(FrameError::TooLong { .. })), "{limits:?}");
    }
}
