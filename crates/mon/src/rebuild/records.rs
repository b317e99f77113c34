//! What an OSD knows of its cluster, and the file that carries it to the monitor's machine.

use std::collections::{BTreeMap, BTreeSet};

use auth::CryptoKey;
use bytes::Bytes;
use codec::{Codec, Decode, DecodeError, Encode, Features, crc32c};
use thiserror::Error;
use types::{Epoch, OsdId, PgId, Uuid};

/// What the file begins with; docs/formats/maps.md describes it.
const MAGIC: &[u8; 8] = b"LOLIMAPS";
const VERSION: u32 = 1;
/// Magic, version, checksum of the rest.
const HEAD_BYTES: usize = 16;

/// What the stores of one OSD tell.
#[derive(Codec, Clone, Debug, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct OsdRecords {
    /// The cluster.
    pub fsid: Uuid,
    /// The OSD's id.
    pub osd: OsdId,
    /// The OSD's own uuid.
    pub uuid: Uuid,
    /// Its key, where that was found.
    pub key: Option<CryptoKey>,
    /// Its stores, one for each reactor.
    pub stores: Vec<StoreRecords>,
}

/// What one store tells.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct StoreRecords {
    /// PGs of which it has a copy, or a part of one.
    pub pgs: BTreeSet<PgId>,
    /// The oldest full map that it keeps, encoded; empty for none.
    pub first: Bytes,
    /// The incrementals behind that map, encoded, by the epochs that they lead to.
    pub incrementals: BTreeMap<Epoch, Bytes>,
    /// The newest full map, encoded; empty for none.
    pub newest: Bytes,
}

/// Why a file is not read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RecordsError {
    /// It is some other file.
    #[error("it is no file that `loligo store maps --export` wrote")]
    NoRecords,
    /// A later version of this program wrote it.
    #[error("it is of format version {0}, which this program does not read")]
    Version(u32),
    /// Its bytes have changed since it was written.
    #[error("it is damaged: its checksum is wrong")]
    Damaged,
    /// What it holds makes no sense.
    #[error("it cannot be read: {0}")]
    Decode(#[from] DecodeError),
}

impl OsdRecords {
    /// The file's bytes.
    pub fn to_file(&self) -> Bytes {
        let body = self.to_bytes(Features::PACIFIC);
        let mut out = MAGIC.to_vec();
        out.extend(VERSION.to_le_bytes());
        out.extend(crc32c(u32::MAX, &body).to_le_bytes());
        out.extend(&body);
        out.into()
    }

    /// Reads the file's bytes.
    pub fn from_file(file: &Bytes) -> Result<OsdRecords, RecordsError> {
        if file.len() < HEAD_BYTES || !file.starts_with(MAGIC) {
            return Err(RecordsError::NoRecords);
        }
        let number = |at: usize| file[at..].first_chunk::<4>().copied().map_or(0, u32::from_le_bytes);
        if number(8) != VERSION {
            return Err(RecordsError::Version(number(8)));
        }
        let body = file.slice(HEAD_BYTES..);
        if crc32c(u32::MAX, &body) != number(12) {
            return Err(RecordsError::Damaged);
        }
        Ok(OsdRecords::from_bytes(body)?)
    }
}
