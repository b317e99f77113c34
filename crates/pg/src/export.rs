//! A copy of a PG as a file: the transactions that make it, in order (docs/formats/pg.md).
//!
//! The PG's record comes last. What is left of a copy without one goes when its OSD starts, so that one that was not
//! taken in as a whole never answers for the PG.

use bytes::Bytes;
use codec::{Codec, Decode, DecodeError, Encode, Features, Reader, crc32c};
use thiserror::Error;
use types::{EVersion, Epoch, HObject, Membership, Mutation, OsdId, OsdMap, PgId, Transaction, Uuid};

use crate::{Pg, meta};

/// What the file begins with.
pub const MAGIC: &[u8; 8] = b"LOLIGOPG";
/// Bytes before each part's own.
pub const PART_HEAD_BYTES: usize = 16;
/// The most bytes of a part's meta, and of its payloads. A part of what is exported has a few MiB.
const PART_BYTES_MAX: u32 = 256 << 20;

const HEAD: u32 = 1;
const CHANGE: u32 = 2;
const END: u32 = 3;

/// Whose copy it is, and of when.
#[derive(Codec, Clone, Debug, PartialEq, Eq)]
#[codec(version = 2, compat = 1)]
pub struct CopyHead {
    /// The cluster.
    pub fsid: Uuid,
    /// The OSD that had it.
    pub osd: OsdId,
    /// The PG.
    pub pgid: PgId,
    /// The last OSD map that the copy saw.
    pub epoch: Epoch,
    /// PGs of the pool as the copy knew them; 0 if it did not.
    pub pg_num: u32,
    /// See [`CopyHead::known_until`]. 0 in files that do not say.
    #[codec(since = 2)]
    pub until: Epoch,
}

impl CopyHead {
    /// The last OSD map by which the copy was in its last interval. An OSD that takes it has to walk it through all
    /// maps since. In those that it skipped, others may have led the PG and taken writes.
    pub fn known_until(&self) -> Epoch {
        self.epoch.max(self.until)
    }
}

/// A part of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The first one.
    Head(CopyHead),
    /// The next transaction.
    Change(Transaction),
    /// The last one: so many came before it.
    End(u64),
}

/// What a part begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartHead {
    kind: u32,
    meta_bytes: u32,
    payload_bytes: u32,
    crc: u32,
}

/// Why a file is no copy of a PG.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExportError {
    /// A part's checksum, or what it begins with, is wrong.
    #[error("it is damaged")]
    Damaged,
    /// What it holds cannot be read; a later version of this program may have written it.
    #[error("it cannot be read: {0}")]
    Decode(#[from] DecodeError),
}

impl Part {
    /// Its bytes in the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (mut meta, mut payloads) = (Vec::new(), Vec::new());
        let kind = match self {
            Part::Head(head) => {
                head.encode(&mut meta, Features::default());
                HEAD
            }
            Part::Change(txn) => {
                txn.encode_split(&mut meta, &mut payloads);
                CHANGE
            }
            Part::End(parts) => {
                parts.encode(&mut meta, Features::default());
                END
            }
        };
        let payload_bytes: usize = payloads.iter().map(|payload| payload.len()).sum();
        let mut out = Vec::with_capacity(PART_HEAD_BYTES + meta.len() + payload_bytes);
        for number in [kind, meta.len() as u32, payload_bytes as u32, 0] {
            out.extend(number.to_le_bytes());
        }
        out.append(&mut meta);
        payloads.iter().for_each(|payload| out.extend_from_slice(payload));
        let crc = checksum(&out[..12], &out[PART_HEAD_BYTES..]);
        out[12..PART_HEAD_BYTES].copy_from_slice(&crc.to_le_bytes());
        out
    }
}

/// Of what a part begins with but the checksum itself, and of the rest.
fn checksum(head: &[u8], body: &[u8]) -> u32 {
    crc32c(crc32c(u32::MAX, head), body)
}

impl PartHead {
    /// Reads what a part begins with.
    ///
    /// # Errors
    /// When there is no such part.
    pub fn read(bytes: [u8; PART_HEAD_BYTES]) -> Result<PartHead, ExportError> {
        let (numbers, _) = bytes.as_chunks::<4>();
        let &[kind, meta_bytes, payload_bytes, crc] = numbers else { return Err(ExportError::Damaged) };
        let [kind, meta_bytes, payload_bytes, crc] =
            [kind, meta_bytes, payload_bytes, crc].map(u32::from_le_bytes);
        if meta_bytes > PART_BYTES_MAX || payload_bytes > PART_BYTES_MAX {
            return Err(ExportError::Damaged);
        }
        Ok(PartHead { kind, meta_bytes, payload_bytes, crc })
    }

    /// Bytes of the part that follow.
    pub fn body_bytes(self) -> usize {
        self.meta_bytes as usize + self.payload_bytes as usize
    }

    /// The part with these [`PartHead::body_bytes`].
    ///
    /// # Errors
    /// When they are not those that were written.
    pub fn part(self, body: Bytes) -> Result<Part, ExportError> {
        let mut head = [0; 12];
        let numbers = [self.kind, self.meta_bytes, self.payload_bytes];
        head.as_chunks_mut().0.iter_mut().zip(numbers).for_each(|(at, number)| *at = number.to_le_bytes());
        if body.len() != self.body_bytes() || checksum(&head, &body) != self.crc {
            return Err(ExportError::Damaged);
        }
        let payload = body.slice(self.meta_bytes as usize..);
        let mut meta = Reader::new(body.slice(..self.meta_bytes as usize));
        Ok(match self.kind {
            HEAD => Part::Head(CopyHead::decode(&mut meta)?),
            CHANGE => {
                let mut payload = Reader::new(payload);
                let txn = Transaction::decode_split(&mut meta, &mut payload)?;
                if payload.remaining() > 0 || meta.remaining() > 0 {
                    return Err(ExportError::Damaged);
                }
                Part::Change(txn)
            }
            END => Part::End(u64::decode(&mut meta)?),
            other => {
                return Err(DecodeError::Invalid { what: "part of a PG's copy", value: other.into() }.into());
            }
        })
    }
}

/// The object that has the PG's record. It comes before all others of the collection.
pub fn record_object() -> HObject {
    meta::object()
}

/// The change of the PG's record by which the copy lacks an object, which is at `version` where it is whole.
fn lacking(object: &HObject, version: EVersion) -> Mutation {
    let mut change = meta::MetaChange::default();
    change.missing(object, Some(version));
    Mutation::OmapSet(change.into_entries())
}

impl Pg {
    /// True for an object of the collection that is none of the PG's: what has come of one that another OSD sends in
    /// parts.
    pub fn puts_together(&self, object: &HObject) -> bool {
        self.gathered.objects().any(|other| other == object)
    }

    /// The change of the record by which a file of this copy lacks an object that cannot be read. None where the copy
    /// lacks it anyway: what is there is of a version before the one that the record tells. `version` is that of what
    /// is there.
    ///
    /// # Errors
    /// Those of `version`.
    pub fn as_lacking<E>(
        &self,
        object: &HObject,
        version: impl FnOnce() -> Result<EVersion, E>,
    ) -> Result<Option<Mutation>, E> {
        if self.missing.contains_key(object) {
            return Ok(None);
        }
        Ok(Some(lacking(object, version()?)))
    }

    /// Of when the copy is, for a file of it that an OSD of this cluster makes. `maps`: those that the OSD keeps, from
    /// the last one that the copy saw on, or from the oldest one. A copy keeps the map that its last interval began
    /// with, and is in that interval until they tell of another one.
    pub fn copy_head(&self, fsid: Uuid, maps: impl IntoIterator<Item = OsdMap>) -> CopyHead {
        let (pgid, epoch) = (self.pgid, self.epoch());
        let mut last: Option<(Epoch, Membership)> = None;
        for map in maps {
            let members = match last.take() {
                None => Membership::of(&map, pgid),
                Some((at, members)) if members.next(at, &map, pgid).is_none() => members,
                Some((at, members)) => {
                    last = Some((at, members));
                    break;
                }
            };
            last = Some((map.epoch, members));
        }
        let until = last.map_or(epoch, |(at, _)| at);
        CopyHead { fsid, osd: self.me, pgid, epoch, pg_num: self.info.pg_num, until }
    }
}

#[cfg(test)]
mod tests {
    use ::damage::{Damage, damaged};
    use codec::Payload;
    use proptest::{prelude::*, sample::Index};
    use store::{MemStore, ObjectStore};
    use types::{CollId, PgInfo, PoolId, Token, TxnOp};

    use super::*;

    fn parts() -> Vec<Part> {
        let pgid = PgId::new(PoolId(3), 7);
        let (fsid, osd, epoch, until) = (Uuid([5; 16]), OsdId(4), Epoch(12), Epoch(17));
        let head = CopyHead { fsid, osd, pgid, epoch, pg_num: 8, until };
        let mut txn = Transaction::new(CollId::pg(pgid));
        txn.ops.push(TxnOp::CreateCollection);
        let object = HObject { oid: Bytes::from_static(b"o"), ..HObject::default() };
        for (offset, data) in [(0, &b"abc"[..]), (4096, b"defg")] {
            let data = Payload::new(Bytes::from_static(data), None);
            txn.push(&object, Mutation::Write { offset, data });
        }
        txn.push(&record_object(), lacking(&object, EVersion::new(Epoch(3), 9)));
        vec![Part::Head(head), Part::Change(txn), Part::End(2)]
    }

    fn read(bytes: &[u8]) -> Result<Part, ExportError> {
        let Some((head, body)) = bytes.split_first_chunk() else { return Err(ExportError::Damaged) };
        PartHead::read(*head)?.part(Bytes::copy_from_slice(body))
    }

    #[test]
    fn parts_are_read_as_they_were_written() {
        for part in parts() {
            assert_eq!(read(&part.to_bytes()), Ok(part));
        }
    }

    #[test]
    fn a_copy_says_until_when_its_interval_went_on() {
        let world = crate::test_world::World::active();
        let (pg, first) = (&world.pg, &world.map);
        let until = |maps: &[OsdMap]| pg.copy_head(Uuid::NIL, maps.iter().cloned()).known_until();
        let next = |map: &OsdMap| OsdMap { epoch: map.epoch.next(), ..map.clone() };
        let second = next(first);
        let mut third = next(&second);
        third.osd_state[world.peers[0].0 as usize] = types::OsdState::EXISTS;
        let maps = [first.clone(), second, third.clone(), next(&third)];
        assert_eq!(
            [until(&[]), until(&maps[..2]), until(&maps)],
            [first.epoch, maps[1].epoch, maps[1].epoch]
        );
        // Maps of then are gone.
        assert_eq!(until(&maps[2..]), maps[3].epoch);
    }

    #[test]
    fn a_file_that_does_not_say_how_long_the_interval_went_on_is_read() {
        let head = CopyHead {
            fsid: Uuid([5; 16]),
            osd: OsdId(4),
            pgid: PgId::new(PoolId(3), 7),
            epoch: Epoch(12),
            pg_num: 8,
            until: Epoch(0),
        };
        let mut bytes = head.to_bytes(Features::default()).to_vec();
        // Version 1, without the last field.
        bytes.truncate(bytes.len() - 4);
        bytes[0] = 1;
        bytes[2] -= 4;
        let read = CopyHead::from_bytes(bytes.into()).unwrap();
        assert_eq!((read.known_until(), read), (Epoch(12), head));
    }

    #[test]
    fn an_object_that_is_lacking_is_missing_in_the_record() {
        let coll = CollId::pg(PgId::new(PoolId(3), 7));
        let (mut store, mut txn) = (MemStore::new(), Transaction::new(coll));
        txn.ops.push(TxnOp::CreateCollection);
        let mut info = meta::MetaChange::default();
        info.info(&PgInfo::default(), &mut None);
        info.into_txn(&mut txn);
        let (object, version) = (HObject::default(), EVersion::new(Epoch(3), 9));
        txn.push(&record_object(), lacking(&object, version));
        store.submit(Token(0), txn);
        let pg = Pg::load(1, coll.0, OsdId(4), &store).unwrap().unwrap();
        assert_eq!(pg.missing.get(&object), Some(&version));
    }

    #[test]
    fn an_object_that_is_missing_already_stays_so_in_its_version() {
        let mut world = crate::test_world::World::active();
        let (object, other) = (HObject::default(), HObject::max());
        let newer = EVersion::new(Epoch(3), 9);
        world.pg.missing.insert(object.clone(), newer);
        let older = || Ok::<_, ()>(EVersion::new(Epoch(3), 3));
        assert_eq!(world.pg.as_lacking(&object, older), Ok(None));
        assert_eq!(world.pg.as_lacking(&other, older), older().map(|older| Some(lacking(&other, older))));
        assert_eq!(world.pg.as_lacking(&other, || Err(())), Err(()));
    }

    proptest! {
        #![proptest_config(::damage::cases(1_000))]

        #[test]
        fn a_part_that_was_damaged_is_none(which in 0usize..3, at: Index, bit: u8, to: Index) {
            let bytes = parts()[which].to_bytes();
            for damage in [Damage::Bit(at, bit), Damage::Cut(to), Damage::More(to, vec![bit])] {
                let found = damaged(&bytes, &[damage]);
                prop_assert!(read(&found).is_err());
            }
        }
    }
}
