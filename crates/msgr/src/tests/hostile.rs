//! Peers that break the rules: each is closed, and nothing grows.

use codec::{Encode, Features};

use super::*;
use crate::{
    control::{AuthRequest, ClientIdent, Hello, ServerIdent, SessionReconnect},
    frame::FrameWriter,
};

fn frame(tag: Tag, payload: &impl Encode) -> Vec<u8> {
    let mut out = Vec::new();
    FrameWriter::default().control(tag, &payload.to_bytes(Features::default()), &mut out);
    out.concat()
}

fn hello(kind: EntityType) -> Vec<u8> {
    let hello = Hello { entity_type: kind.0, peer_addr: server_addr() };
    [&crate::control::BANNER[..], &frame(Tag::HELLO, &hello)].concat()
}

/// An acceptor whose peers are all hostile.
fn acceptor(auth: u32) -> Pair {
    let mut pair = Pair::new(auth, con_mode::CRC, EntityType::MON, 6);
    pair.wires = Default::default();
    pair
}

fn feed(pair: &mut Pair, bytes: Vec<u8>) -> Result<(), CloseReason> {
    pair.wires[1] = bytes;
    pair.run_once(1)
}

/// Authenticates without cephx as `name`; what comes next is the identification.
fn authenticated(name: &str, hello_kind: EntityType) -> Result<Pair, CloseReason> {
    let mut pair = acceptor(method::NONE);
    feed(&mut pair, hello(hello_kind))?;
    let mut payload = vec![10u8];
    EntityName::parse(name).unwrap().encode(&mut payload, Features::default());
    payload.extend_from_slice(&[0; 8]);
    let request = AuthRequest { method: method::NONE, preferred_modes: vec![1], payload: payload.into() };
    feed(&mut pair, frame(Tag::AUTH_REQUEST, &request))?;
    let mut signature = Vec::new();
    FrameWriter::default().control(Tag::AUTH_SIGNATURE, &[0; 32], &mut signature);
    feed(&mut pair, signature.concat())?;
    Ok(pair)
}

fn ident(target_addr: EntityAddr) -> ClientIdent {
    ClientIdent {
        addrs: EntityAddrVec(vec![EntityAddr::parse("v2:10.1.2.3:0/99").unwrap()]),
        target_addr,
        gid: 1,
        global_seq: 1,
        features_supported: crate::connection::FEATURES_SUPPORTED,
        features_required: 0,
        flags: 0,
        cookie: 5,
    }
}

fn established(pair: &mut Pair) -> Option<Box<Established>> {
    std::mem::take(&mut pair.seen[1]).into_iter().find_map(|event| match event {
        ConnEvent::Established(end) => Some(end),
        ConnEvent::Message(_) | ConnEvent::TooLong(_) | ConnEvent::Acked(_) | ConnEvent::SessionReset => None,
    })
}

#[test]
fn a_client_keeps_the_address_that_it_says_and_is_lossy() {
    let mut pair = authenticated("client.x", EntityType::CLIENT).unwrap();
    feed(&mut pair, frame(Tag::CLIENT_IDENT, &ident(server_addr()))).unwrap();
    let end = established(&mut pair).unwrap();
    assert_eq!(end.addr.socket, Some("10.1.2.3:0".parse().unwrap()));
    assert_eq!((end.addr.nonce, end.socket), (99, "127.0.0.1:50000".parse().unwrap()));
    // The bootstrap connection of stock clients asks for more than a lossy session.
    let reply: Vec<u8> = pair.wires[0].clone();
    let at = reply.len() - 4 - 16;
    assert_eq!(reply[at..at + 16], [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "flags, cookie");
}

#[test]
fn who_meant_another_incarnation_is_closed() {
    for (nonce, expect) in [(7, Ok(())), (0, Ok(())), (8, Err(CloseReason::WrongAddress))] {
        let mut pair = authenticated("client.x", EntityType::CLIENT).unwrap();
        let target = EntityAddr { nonce, ..server_addr() };
        assert_eq!(feed(&mut pair, frame(Tag::CLIENT_IDENT, &ident(target))), expect, "{nonce}");
    }
}

#[test]
fn a_client_key_makes_no_osd() {
    let denied = CloseReason::Auth(auth::AuthError::Denied);
    assert_eq!(authenticated("client.x", EntityType::OSD).err(), Some(denied));
    assert!(authenticated("osd.1", EntityType::OSD).is_ok());
    // A tool that uses a daemon's key.
    assert!(authenticated("osd.1", EntityType::CLIENT).is_ok());
}

#[test]
fn a_client_does_not_speak_for_the_server() {
    let mut pair = authenticated("client.x", EntityType::CLIENT).unwrap();
    let ours = ServerIdent {
        addrs: EntityAddrVec(vec![server_addr()]),
        gid: 1,
        global_seq: 1,
        features_supported: u64::MAX,
        features_required: 0,
        flags: 0,
        cookie: 9,
    };
    let refused = Err(CloseReason::Protocol(Tag::SERVER_IDENT.0));
    assert_eq!(feed(&mut pair, frame(Tag::SERVER_IDENT, &ours)), refused);
    assert!(established(&mut pair).is_none());
}

#[test]
fn who_lacks_features_is_told_which_and_closed() {
    let mut pair = authenticated("client.x", EntityType::CLIENT).unwrap();
    pair.wires = Default::default();
    let old = ClientIdent { features_supported: 0, ..ident(server_addr()) };
    let missing = crate::connection::FEATURES_REQUIRED;
    // Asked again and again, the answers would fill the memory if the peer read none.
    assert_eq!(feed(&mut pair, frame(Tag::CLIENT_IDENT, &old)), Err(CloseReason::Features(missing)));
    assert_eq!(pair.wires[0], frame(Tag::IDENT_MISSING_FEATURES, &missing));
    assert!(established(&mut pair).is_none() && !pair.ends[1].is_ready());
}

/// A request for a session that nobody knows.
fn unknown_session() -> Vec<u8> {
    let addrs = EntityAddrVec::default();
    let (client_cookie, server_cookie, global_seq, connect_seq, msg_seq) = (5, 5, 1, 1, 0);
    let asked = SessionReconnect { addrs, client_cookie, server_cookie, global_seq, connect_seq, msg_seq };
    frame(Tag::SESSION_RECONNECT, &asked)
}

#[test]
fn who_asks_for_an_unknown_session_may_begin_another_but_not_ask_again() {
    for asks_again in [false, true] {
        let mut pair = authenticated("client.x", EntityType::CLIENT).unwrap();
        pair.wires = Default::default();
        feed(&mut pair, unknown_session()).unwrap();
        assert_eq!(pair.wires[0], frame(Tag::SESSION_RESET, &1u8));
        if asks_again {
            let refused = Err(CloseReason::Protocol(Tag::SESSION_RECONNECT.0));
            assert_eq!(feed(&mut pair, unknown_session()), refused);
        } else {
            feed(&mut pair, frame(Tag::CLIENT_IDENT, &ident(server_addr()))).unwrap();
        }
        assert_eq!(established(&mut pair).is_none(), asks_again);
    }
}

#[test]
fn refused_requests_do_not_fill_memory() {
    let mut pair = acceptor(method::CEPHX);
    feed(&mut pair, hello(EntityType::CLIENT)).unwrap();
    let payload = Bytes::from(vec![0; 60_000]);
    let request = frame(Tag::AUTH_REQUEST, &AuthRequest { method: 77, preferred_modes: vec![1], payload });
    let closed_after = (0..).find(|_| feed(&mut pair, request.clone()).is_err());
    assert!(closed_after.is_some_and(|requests| requests < 10));
    assert!(pair.ends[1].received.len() < 1 << 20 && pair.ends[1].sent.len() < 1 << 20);
}

#[test]
fn messages_before_the_session_are_refused() {
    let mut pair = acceptor(method::CEPHX);
    feed(&mut pair, hello(EntityType::CLIENT)).unwrap();
    let mut early = Vec::new();
    let header = crate::control::Header::default().to_bytes(Features::default());
    FrameWriter::default().frame(
        Tag::MESSAGE,
        &header,
        (&Bytes::from_static(b"front"), None),
        &[],
        &mut early,
    );
    assert_eq!(feed(&mut pair, early.concat()), Err(CloseReason::Frame(FrameError::Preamble)));
    let mut pair = acceptor(method::CEPHX);
    feed(&mut pair, hello(EntityType::CLIENT)).unwrap();
    let early = frame(Tag::MESSAGE, &crate::control::Header::default());
    assert_eq!(feed(&mut pair, early), Err(CloseReason::Protocol(Tag::MESSAGE.0)));
}

#[test]
fn a_dialer_takes_the_next_method_that_both_have() {
    let mut pair = Pair::new(method::NONE, con_mode::CRC, EntityType::MON, 2);
    let mut wanted = config(EntityType::OSD, None, method::CEPHX, con_mode::CRC);
    wanted.methods.push(method::NONE);
    let role = Role::Dialer { target: server_addr(), service: EntityType::MON, resume: None };
    pair.ends[0] = Connection::new(wanted, role);
    pair.wires = Default::default();
    pair.begin();
    pair.run().unwrap();
    assert!(pair.ends.iter().all(Connection::is_ready));
}

#[test]
fn a_wrong_key_is_told_so_and_closed() {
    for service in [EntityType::MON, EntityType::OSD] {
        let mut pair = Pair::new(method::CEPHX, con_mode::SECURE, EntityType::MON, 8);
        pair.run().unwrap();
        pair.keys.service = service;
        if service == EntityType::MON {
            let key = CryptoKey::generate(KeyType::Aes256k, NOW, &mut pair.rng);
            pair.keeper = TicketKeeper::new(pair.keeper.name().clone(), key);
        } else {
            let secrets = pair.keys.secrets.get_mut(&EntityType::OSD).unwrap();
            *secrets = RotatingSecrets::default();
            secrets.rotate(EntityType::OSD, KeyType::Aes256k, NOW, &mut pair.rng);
        }
        pair.ends = [
            Pair::dialer(method::CEPHX, con_mode::SECURE, service, None),
            Pair::acceptor(service, method::CEPHX, con_mode::SECURE),
        ];
        pair.wires = Default::default();
        pair.begin();
        let denied = Err(CloseReason::Auth(auth::AuthError::Denied));
        assert_eq!(pair.run(), denied);
        // The server refused; the client learns it from what the server said last.
        assert_eq!(pair.run(), denied, "{service:?}");
        assert!(pair.ends.iter().all(|end| !end.is_ready()));
    }
}

#[test]
fn only_the_stamp_of_a_keepalive_is_sent_back() {
    let mut pair = authenticated("client.x", EntityType::CLIENT).unwrap();
    feed(&mut pair, frame(Tag::CLIENT_IDENT, &ident(server_addr()))).unwrap();
    pair.wires[0].clear();
    let stamp = UTime { sec: 7, nsec: 9 };
    feed(&mut pair, frame(Tag::KEEPALIVE2, &(stamp, vec![0u8; 10_000]))).unwrap();
    assert_eq!(pair.wires[0], frame(Tag::KEEPALIVE2_ACK, &stamp));
    assert_eq!(feed(&mut pair, frame(Tag::KEEPALIVE2, &7u32)), Err(CloseReason::Protocol(Tag::KEEPALIVE2.0)));
}
