//! Structs of cephx. All have a version byte and no length.

use bytes::Bytes;
use codec::Codec;
use types::{EntityName, EntityType, UTime};

use crate::CryptoKey;

/// `CEPHX_GET_AUTH_SESSION_KEY`.
pub(super) const GET_AUTH_SESSION_KEY: u16 = 0x0100;
/// `CEPHX_GET_PRINCIPAL_SESSION_KEY`.
pub(super) const GET_PRINCIPAL_SESSION_KEY: u16 = 0x0200;
/// `CEPHX_GET_ROTATING_KEY`.
pub(super) const GET_ROTATING_KEY: u16 = 0x0400;

/// Services for which tickets are given, by bits of `other_keys`.
pub(super) const SERVICES: [EntityType; 4] =
    [EntityType::MON, EntityType::OSD, EntityType::MDS, EntityType::MGR];

/// `CephXServerChallenge`, `CephXAuthorizeChallenge`.
#[derive(Codec)]
#[codec(version_byte = 1)]
pub(super) struct Challenge {
    pub(super) server_challenge: u64,
}

/// `CephXTicketBlob`: a ticket as its owner carries it, sealed for the service.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version_byte = 1)]
pub(super) struct TicketBlob {
    pub(super) secret_id: u64,
    pub(super) blob: Bytes,
}

/// `CephXAuthenticate`.
#[derive(Codec)]
#[codec(version_byte = 3)]
pub(super) struct Authenticate {
    pub(super) client_challenge: u64,
    pub(super) key: u64,
    pub(super) old_ticket: TicketBlob,
    #[codec(since = 2)]
    pub(super) other_keys: u32,
}

/// `CephXServiceTicketRequest`.
#[derive(Codec)]
#[codec(version_byte = 1)]
pub(super) struct ServiceTicketRequest {
    pub(super) keys: u32,
}

/// `CephXServiceTicket`: what the owner learns of a ticket, sealed with one of the owner's keys.
#[derive(Codec, Clone)]
#[codec(version_byte = 1)]
pub(super) struct ServiceTicket {
    pub(super) session_key: CryptoKey,
    pub(super) validity: UTime,
}

/// `CephXServiceTicketInfo`: what the service learns, sealed with its secret. Only we read it.
#[derive(Codec, Clone)]
#[codec(version_byte = 1)]
pub(super) struct TicketInfo {
    pub(super) name: EntityName,
    pub(super) global_id: u64,
    pub(super) created: UTime,
    pub(super) expires: UTime,
    pub(super) caps: String,
    pub(super) session_key: CryptoKey,
}

/// `CephXAuthorize`: proof that the ticket's owner knows its session key.
#[derive(Codec)]
#[codec(version_byte = 2)]
pub(super) struct Authorize {
    pub(super) nonce: u64,
    #[codec(since = 2)]
    pub(super) have_challenge: bool,
    #[codec(since = 2)]
    pub(super) server_challenge_plus_one: u64,
}

/// `CephXAuthorizeReply`.
#[derive(Codec)]
#[codec(version_byte = 2)]
pub(super) struct AuthorizeReply {
    pub(super) nonce_plus_one: u64,
    #[codec(since = 2)]
    pub(super) connection_secret: Bytes,
}

/// `CephXChallengeBlob`: the challenges, as the client proves its key with them.
pub(super) type Challenges = (u64, u64);

/// `cephx_calc_client_server_challenge`: what the key makes of the challenges, folded to a word.
pub(super) fn fold_challenges(key: &CryptoKey, server: u64, client: u64) -> u64 {
    key.fingerprint(&Challenges::from((server, client))).chunks_exact(8).fold(0, |sum, word| {
        sum ^ u64::from_le_bytes(word.try_into().expect("chunks_exact gives eight bytes"))
    })
}
