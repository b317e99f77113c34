//! Recorded connections of stock clients: every frame decodes, every checksum, signature and tag is right,
//! what our client would have sent is what theirs sent, and encoding gives the same bytes again.

use std::collections::VecDeque;

use auth::{AuthStep, ClientAuth, ClientStep, Keyring, ServerAuth, signature};
use codec::Decode;

use super::*;
use crate::{
    control::{AuthDone, AuthMore, AuthRequest, BANNER, ClientIdent, Header, Hello, ServerIdent},
    crypto::Cipher,
    frame::{Frame, FrameReader, FrameWriter, Limits, Tag},
};

/// "Random" numbers that the recorded side drew.
struct Script(VecDeque<u64>);

impl rand::RngCore for Script {
    fn next_u32(&mut self) -> u32 {
        self.next_u64() as u32
    }
    fn next_u64(&mut self) -> u64 {
        self.0.pop_front().expect("the script has a number for each draw")
    }
    fn fill_bytes(&mut self, out: &mut [u8]) {
        out.fill(0x5a);
    }
}

fn script(numbers: impl IntoIterator<Item = u64>) -> Script {
    Script(numbers.into_iter().collect())
}

/// `CEPH_MSGR2_SUPPORTED_FEATURES` of newer releases, and their frames; we say that we have no such thing.
const COMPRESSION: u8 = 2;
const COMPRESSION_REQUEST: u8 = 21;
const COMPRESSION_DONE: u8 = 22;

/// What one end sent.
struct Half {
    recorded: &'static [u8],
    reader: FrameReader,
    writer: FrameWriter,
    again: Vec<u8>,
    transcript: Vec<u8>,
}

impl Half {
    fn new(recorded: &'static [u8], chunk: usize) -> Half {
        let mut reader = FrameReader::default();
        recorded.chunks(chunk).for_each(|piece| reader.push(Bytes::from_static(piece)));
        let banner = reader.take_raw(BANNER.len()).unwrap();
        // The features that 20.2 has besides: compression, which is agreed on behind the signatures.
        let mut plain = banner.to_vec();
        plain[10] &= !COMPRESSION;
        assert_eq!(plain, BANNER[..]);
        let (again, transcript) = (banner.to_vec(), banner.to_vec());
        Half { recorded, reader, writer: FrameWriter::default(), again, transcript }
    }

    /// The next frame; the bytes that make it are compared.
    fn next(&mut self, is_signed: bool) -> Option<Frame> {
        let transcript = is_signed.then_some(&mut self.transcript);
        let frame = self.reader.next(transcript).unwrap()?;
        let [first, front, middle, data] = &frame.segments;
        assert!(middle.is_empty());
        let mut out = Vec::new();
        self.writer.frame(frame.tag, first, (front, None), &[data.clone().into()], &mut out);
        out.iter().for_each(|piece| self.again.extend_from_slice(piece));
        assert!(self.recorded.starts_with(&self.again), "{:?} encodes to other bytes", frame.tag);
        Some(frame)
    }

    fn take<T: Decode>(&mut self, tag: Tag, is_signed: bool) -> T {
        let mut frame = self.next(is_signed).unwrap();
        if matches!(frame.tag, Tag(COMPRESSION_REQUEST | COMPRESSION_DONE)) {
            frame = self.next(is_signed).unwrap();
        }
        assert_eq!(frame.tag, tag);
        T::from_prefix(frame.segments[0].clone()).unwrap()
    }

    fn secure(&mut self, reads: Cipher, writes: Cipher) {
        self.reader.secure(reads);
        self.writer.secure(writes);
    }

    /// Messages until the end of the recording.
    fn messages(mut self) -> Vec<(Header, usize)> {
        self.reader.ready(Limits::Any);
        let mut out = Vec::new();
        while let Some(frame) = self.next(false) {
            if frame.tag == Tag::MESSAGE {
                let header = Header::from_prefix(frame.segments[0].clone()).unwrap();
                out.push((header, frame.segments[3].len()));
            }
        }
        assert_eq!(self.again.len(), self.recorded.len());
        out
    }
}

struct Replay {
    client: Half,
    server: Half,
    client_ident: ClientIdent,
    server_ident: ServerIdent,
}

/// Follows a connection through its handshake. `nonce` is the one of the recorded authorizer.
fn replay(
    keys: &RecordedKeys,
    recorded: [&'static [u8]; 2],
    chunk: usize,
    keeper: &mut TicketKeeper,
    service: EntityType,
    nonce: u64,
) -> Replay {
    let [mut client, mut server] = recorded.map(|bytes| Half::new(bytes, chunk));
    let hello: Hello = client.take(Tag::HELLO, true);
    assert_eq!(hello.entity_type, EntityType::CLIENT.0);
    let hello: Hello = server.take(Tag::HELLO, true);
    assert_eq!(hello.entity_type, service.0);
    let request: AuthRequest = client.take(Tag::AUTH_REQUEST, true);
    let (mut key, mut secret, mut mode) = (None, Bytes::new(), con_mode::CRC);
    if request.method == method::CEPHX {
        let challenge: AuthMore = server.take(Tag::AUTH_REPLY_MORE, true);
        let answer: AuthMore = client.take(Tag::AUTH_REQUEST_MORE, true);
        let done: AuthDone = server.take(Tag::AUTH_DONE, true);
        // Behind the request's number and a version stands the challenge that the client drew.
        let drawn = answer.payload[3..].first_chunk::<8>().map(|b| u64::from_le_bytes(*b)).unwrap();
        let mut rng = script([nonce, drawn]);
        let (mut auth, payload) = ClientAuth::start(service, keeper, &mut rng).unwrap();
        let same = payload.len() - keys.random_bytes(service);
        assert_eq!(payload[..same], request.payload[..same]);
        let ClientStep::More(payload) = auth.more(&challenge.payload, keeper, &mut rng).unwrap() else {
            panic!("a challenge is answered");
        };
        // Of the monitor, stock clients want a ticket for the manager as well.
        let services = if service == EntityType::MON { 4 } else { keys.random_bytes(service) };
        let same = payload.len() - services;
        assert_eq!(payload.len(), answer.payload.len());
        assert_eq!(payload[..same], answer.payload[..same]);
        if service == EntityType::MON {
            server_accepts(keys, keeper, &request.payload, &challenge.payload, &answer.payload);
        }
        let end = auth.done(done.global_id, done.payload, NOW, keeper).unwrap();
        let ClientStep::Done { session_key, connection_secret } = end else { panic!("it is done") };
        (key, secret, mode) = (Some(session_key), connection_secret, done.con_mode);
    } else {
        let done: AuthDone = server.take(Tag::AUTH_DONE, true);
        assert_eq!((done.con_mode, done.payload.len()), (con_mode::CRC, 0));
    }
    if mode == con_mode::SECURE {
        let ((from_server, from_client), again) =
            (Cipher::pair(&secret).unwrap(), Cipher::pair(&secret).unwrap());
        server.secure(from_server, again.0);
        client.secure(from_client, again.1);
    }
    let heard = [server.transcript.clone(), client.transcript.clone()];
    for (signer, heard) in [&mut client, &mut server].into_iter().zip(heard) {
        let signed = signer.next(false).unwrap();
        assert_eq!(signed.tag, Tag::AUTH_SIGNATURE);
        assert_eq!(signed.segments[0], signature(key.as_ref(), &heard)[..]);
        assert!(auth::is_signature(key.as_ref(), &heard, &signed.segments[0]));
    }
    let client_ident = client.take(Tag::CLIENT_IDENT, false);
    let server_ident = server.take(Tag::SERVER_IDENT, false);
    Replay { client, server, client_ident, server_ident }
}

/// Our monitor takes the proof that the stock client made of its key.
fn server_accepts(
    keys: &RecordedKeys,
    keeper: &TicketKeeper,
    request: &Bytes,
    challenge: &Bytes,
    answer: &Bytes,
) {
    let keyring = Keyring::parse(keys.keyring).unwrap();
    let entry = keyring.0[keeper.name()].clone();
    let mut authority = Keys {
        service: EntityType::MON,
        entities: [(keeper.name().clone(), EntityAuth { key: entry.key, caps: entry.caps })].into(),
        secrets: BTreeMap::new(),
    };
    let mut rotating = RotatingSecrets::default();
    rotating.rotate(EntityType::AUTH, KeyType::Aes, NOW, &mut StdRng::seed_from_u64(1));
    authority.secrets.insert(EntityType::AUTH, rotating);
    let drawn = challenge.last_chunk::<8>().map(|b| u64::from_le_bytes(*b)).unwrap();
    let mut server = ServerAuth::new(method::CEPHX, con_mode::CRC);
    let AuthStep::More(ours) =
        server.step(request.clone(), NOW, &mut script([drawn]), &mut authority).unwrap()
    else {
        panic!("a client is challenged");
    };
    assert_eq!(ours, challenge);
    let AuthStep::Done(authenticated) =
        server.step(answer.clone(), NOW, &mut script([]), &mut authority).unwrap()
    else {
        panic!("its answer ends it");
    };
    assert_eq!(
        (authenticated.identity.name.to_string(), authenticated.identity.caps),
        ("client.admin".into(), "allow *".into())
    );
}

/// The keys of a recorded cluster.
struct RecordedKeys {
    keyring: &'static str,
    /// Bytes of an authorizer that a client never makes twice the same way.
    authorizer: usize,
}

impl RecordedKeys {
    const AES: RecordedKeys =
        RecordedKeys { keyring: include_str!("../../testdata/streams/keyring"), authorizer: 0 };

    const AES256K: RecordedKeys =
        RecordedKeys { keyring: include_str!("../../testdata/streams/keyring_aes256k"), authorizer: 67 };

    fn random_bytes(&self, service: EntityType) -> usize {
        if service == EntityType::MON { 0 } else { self.authorizer }
    }

    fn admin(&self) -> TicketKeeper {
        let keyring = Keyring::parse(self.keyring).unwrap();
        let name = EntityName::parse("client.admin").unwrap();
        let key = keyring.0[&name].key.clone();
        TicketKeeper::new(name, key)
    }
}

macro_rules! stream {
    ($name:literal) => {
        [
            include_bytes!(concat!("../../testdata/streams/", $name, ".client")).as_slice(),
            include_bytes!(concat!("../../testdata/streams/", $name, ".server")).as_slice(),
        ]
    };
}

/// Replays the session with a monitor and then the one with an OSD, in several chunkings.
fn check(
    keys: &RecordedKeys,
    mon: [&'static [u8]; 2],
    osd: [&'static [u8]; 2],
    nonce: u64,
    payload_bytes: usize,
) {
    for chunk in [1, 7, 4096, usize::MAX] {
        let mut keeper = keys.admin();
        let session = replay(keys, mon, chunk, &mut keeper, EntityType::MON, 0);
        for theirs in [session.client_ident.features_supported, session.server_ident.features_supported] {
            let ours = crate::connection::FEATURES_SUPPORTED;
            assert!(theirs == ours || (keys.authorizer > 0 && theirs & ours == ours), "{theirs:#x}");
        }
        assert_eq!(session.client_ident.target_addr, session.server_ident.addrs.0[0]);
        let said = session.client.messages();
        assert_eq!(
            said.iter().map(|(h, _)| h.seq).collect::<Vec<_>>(),
            (1..=said.len() as u64).collect::<Vec<_>>()
        );
        assert!(said.len() > 2 && session.server.messages().len() > 2);

        let session = replay(keys, osd, chunk, &mut keeper, EntityType::OSD, nonce);
        assert_eq!(session.client_ident.flags, crate::control::FLAG_LOSSY);
        // MOSDOp and MOSDOpReply.
        let (said, heard) = (session.client.messages(), session.server.messages());
        assert!(said.iter().any(|(h, _)| h.kind == 42) && heard.iter().any(|(h, _)| h.kind == 43));
        let most = said.iter().chain(&heard).map(|(_, bytes)| *bytes).max();
        assert!(most >= Some(payload_bytes), "{most:?}");
    }
}

#[test]
fn stock_connections_without_authentication() {
    check(&RecordedKeys::AES, stream!("none_mon"), stream!("none_osd"), 0, 1);
}

#[test]
fn stock_connections_with_cephx_and_checksums() {
    check(&RecordedKeys::AES, stream!("crc_mon"), stream!("crc_osd"), 0xcfd9_ef8e_6e06_46e0, 16 << 10);
}

#[test]
fn stock_connections_with_encryption() {
    check(&RecordedKeys::AES, stream!("secure_mon"), stream!("secure_osd"), 0x8716_0409_30e5_452a, 16 << 10);
}

#[test]
fn connections_of_20_2_with_aes256k_keys_and_checksums() {
    let keys = &RecordedKeys::AES256K;
    check(keys, stream!("aes256k_crc_mon"), stream!("aes256k_crc_osd"), 0x32a6_72f7_7a0a_aa58, 16 << 10);
}

#[test]
fn connections_of_20_2_with_aes256k_keys_and_encryption() {
    let keys = &RecordedKeys::AES256K;
    check(keys, stream!("aes256k_secure_mon"), stream!("aes256k_secure_osd"), 0x7f565e88a2479d99, 16 << 10);
}
