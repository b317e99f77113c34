//! Attacks that worked on Ceph's messenger, by an attacker between two honest ends.

use codec::{Decode, Encode, Features};

use super::*;
use crate::{
    control::{AuthRequest, BANNER},
    crypto::Cipher,
    frame::{FrameReader, FrameWriter, Tag},
};

/// What `bytes`, frames without a banner, become when `change` rewrites them; their checksums are made anew.
fn rewritten(bytes: &[u8], mut change: impl FnMut(Tag, &mut Bytes)) -> Vec<u8> {
    let mut reader = FrameReader::default();
    reader.push(Bytes::copy_from_slice(bytes));
    let mut out = Vec::new();
    while let Some(mut frame) = reader.next(None).unwrap() {
        change(frame.tag, &mut frame.segments[0]);
        FrameWriter::default().control(frame.tag, &frame.segments[0], &mut out);
    }
    out.concat()
}

/// Both ends can do both modes and the client prefers encryption; an attacker changes what is said.
fn handshake(change: impl Fn(Tag, &mut Bytes)) -> (Result<(), CloseReason>, Pair) {
    let mut pair = Pair::new(method::CEPHX, con_mode::SECURE, EntityType::MON, 12);
    let modes = vec![con_mode::SECURE, con_mode::CRC];
    for (side, role) in [
        Role::Dialer { target: server_addr(), service: EntityType::MON, resume: None },
        Role::Acceptor { peer: "127.0.0.1:50000".parse().unwrap() },
    ]
    .into_iter()
    .enumerate()
    {
        let (kind, addr) =
            if side == 0 { (EntityType::OSD, None) } else { (EntityType::MON, Some(server_addr())) };
        let own = Config { modes: modes.clone(), ..config(kind, addr, method::CEPHX, con_mode::SECURE) };
        pair.ends[side] = Connection::new(own, role);
    }
    pair.wires = Default::default();
    pair.begin();
    // Past the request everything is signed or sealed.
    let mut is_past = false;
    while let Some(side) = (0..2).find(|side| !pair.wires[*side].is_empty()) {
        if side == 1 && !is_past {
            let banner = if pair.wires[1].starts_with(BANNER) { BANNER.len() } else { 0 };
            let changed = rewritten(&pair.wires[1][banner..], |tag, segment| {
                is_past |= tag == Tag::AUTH_REQUEST;
                change(tag, segment);
            });
            pair.wires[1].truncate(banner);
            pair.wires[1].extend_from_slice(&changed);
        }
        if let Err(reason) = pair.run_once(side) {
            return (Err(reason), pair);
        }
    }
    (Ok(()), pair)
}

/// CVE-2018-1129: signatures did not cover all of what they stood for. Here an attacker removes encryption from what
/// the client offers, and makes the server's agreement say the same.
#[test]
fn a_handshake_that_was_changed_on_the_way_fails() {
    let (outcome, pair) = handshake(|_, _| {});
    assert_eq!(outcome, Ok(()));
    assert!(pair.ends.iter().all(Connection::is_ready));
    let (outcome, pair) = handshake(|tag, segment| {
        if tag == Tag::AUTH_REQUEST {
            let mut request = AuthRequest::from_bytes(segment.clone()).unwrap();
            assert_eq!(request.preferred_modes, [con_mode::SECURE, con_mode::CRC]);
            request.preferred_modes = vec![con_mode::CRC];
            *segment = request.to_bytes(Features::default());
        }
    });
    assert_eq!(outcome, Err(CloseReason::Signature));
    assert!(!pair.ends.iter().any(Connection::is_ready));
}

/// A secure connection and what crossed it toward the server.
fn secure(seed: u64) -> (Pair, Vec<u8>) {
    let mut pair = Pair::new(method::CEPHX, con_mode::SECURE, EntityType::MON, seed);
    pair.run().unwrap();
    pair.send(0, &message(100), None);
    let sealed = pair.wires[1].clone();
    (pair, sealed)
}

/// CVE-2020-1759: a nonce came back in a session, and with it the key of its tags.
#[test]
fn no_two_frames_are_sealed_alike() {
    let (mut pair, first) = secure(1);
    pair.run().unwrap();
    pair.send(0, &message(100), None);
    let second = pair.wires[1].clone();
    pair.send(1, &message(100), None);
    let back = pair.wires[0].clone();
    let apart = |a: &[u8], b: &[u8]| a.chunks(16).zip(b.chunks(16)).all(|(a, b)| a != b);
    assert!(first.len() == second.len() && apart(&first, &second) && apart(&first, &back));
    // A new connection has a new key, whatever is sent again on it.
    pair.keys.service = EntityType::MON;
    pair.ends = [
        Pair::dialer(method::CEPHX, con_mode::SECURE, EntityType::MON, None),
        Pair::acceptor(EntityType::MON, method::CEPHX, con_mode::SECURE),
    ];
    pair.wires = Default::default();
    pair.begin();
    pair.run().unwrap();
    pair.send(0, &message(100), None);
    assert!(apart(&first, &pair.wires[1]));
}

/// The counter in the nonce goes on past 32 bits.
#[test]
fn nonces_go_on_past_four_thousand_million_frames() {
    let mut secret = [7u8; 64];
    secret[20..28].copy_from_slice(&(u64::from(u32::MAX) - 1).to_le_bytes());
    let (mut cipher, _) = Cipher::pair(&secret).unwrap();
    let mut sealed = Vec::new();
    for _ in 0..4 {
        let mut frame = b"the same text every time".to_vec();
        cipher.seal(&mut frame);
        assert!(!sealed.contains(&frame));
        sealed.push(frame);
    }
    let (mut reader, _) = Cipher::pair(&secret).unwrap();
    assert!(sealed.into_iter().all(|mut frame| reader.open(&mut frame)));
}

/// Frames that an attacker overheard are accepted neither twice nor in another order, nor by the end that sent them.
#[test]
fn frames_are_taken_once_and_in_their_order() {
    let decrypt = Err(CloseReason::Frame(FrameError::Decrypt));
    let (mut pair, sealed) = secure(2);
    pair.run().unwrap();
    pair.wires[1] = sealed.clone();
    assert_eq!(pair.run(), decrypt, "twice");
    let (mut pair, _) = secure(3);
    pair.wires[1].clear();
    pair.send(0, &message(100), None);
    assert_eq!(pair.run(), decrypt, "one left out");
    let (mut pair, sealed) = secure(4);
    pair.wires[0] = sealed;
    assert_eq!(pair.run_once(0), decrypt, "reflected");
}
