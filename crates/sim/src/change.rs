//! What a client does to an object of its own, and what the result must be.

use std::collections::BTreeMap;

use bytes::Bytes;
use codec::{Encode, Features};
use messages::{ObjectLocator, OpCode, OpParams, OsdOp, op_flag};
use rand::{Rng, rngs::StdRng};
use types::{Errno, PoolId, SnapId};

use crate::model::Content;

/// The most data of a write, in bytes: some writes go through the journal, some straight to the device.
const WRITE_BYTES_MAX: usize = 24 << 10;
/// Objects end somewhere below.
const OBJECT_BYTES_MAX: u64 = 64 << 10;
/// Bytes of a pattern that is written again and again.
const PATTERN_BYTES: u64 = 512;
/// A failed comparison of data answers with less than this, by the offset of the first difference.
const MAX_ERRNO: i32 = 4095;
/// Comparison of xattrs: equal, as strings.
pub(crate) const EQUAL_STRINGS: [u8; 2] = [1, 1];

pub(crate) fn step(code: OpCode, params: OpParams, data: Bytes) -> OsdOp {
    OsdOp { params, data, ..OsdOp::new(code) }
}

/// A name and a value, as ops on xattrs have them.
pub(crate) fn xattr_step(code: OpCode, name: &[u8], value: &[u8], compare: [u8; 2]) -> OsdOp {
    let lengths = [(name.len() as u32).to_le_bytes(), (value.len() as u32).to_le_bytes()];
    let params = OpParams::from_parts(&[&lengths[0], &lengths[1], &compare]);
    step(code, params, Bytes::from([name, value].concat()))
}

/// One step of a request that changes the object.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Write { offset: u64, data: Bytes },
    WriteFull(Bytes),
    WriteSame { offset: u64, pattern: Bytes, times: u64 },
    Append(Bytes),
    Truncate(u64),
    Zero { offset: u64, len: u64 },
    Delete,
    Create { is_exclusive: bool },
    SetXattr(Bytes, Bytes),
    RemoveXattr(Bytes),
    OmapSet(Bytes, Bytes),
    OmapSetHeader(Bytes),
    OmapRemove(Bytes),
    OmapRemoveRange(Bytes, Bytes),
    OmapClear,
}

impl Change {
    pub(crate) fn random(rng: &mut StdRng, stamp: u64) -> Change {
        // Every write tells itself apart from every other.
        let stamped = |len: usize| {
            let mut data = vec![(stamp % 251) as u8; len];
            data.iter_mut().zip(stamp.to_be_bytes()).for_each(|(to, from)| *to = from);
            Bytes::from(data)
        };
        let len = rng.random_range(1..=WRITE_BYTES_MAX);
        let offset = rng.random_range(0..OBJECT_BYTES_MAX);
        let numbers: [u8; 2] = [rng.random_range(0..5), rng.random_range(0..5)];
        let key = |number: u8| Bytes::from(format!("key{number}"));
        let value = || Bytes::from(stamp.to_string());
        match rng.random_range(0..33) {
            0..8 => Change::Write { offset, data: stamped(len) },
            8..11 => Change::WriteFull(stamped(len)),
            11 => Change::WriteSame {
                offset,
                pattern: stamped(PATTERN_BYTES as usize),
                times: rng.random_range(1..20),
            },
            12..14 => Change::Append(stamped(len)),
            14 => Change::Truncate(offset),
            15..17 => Change::Zero { offset, len: len as u64 },
            17 => Change::Delete,
            18..20 => Change::Create { is_exclusive: rng.random() },
            20..24 => Change::SetXattr(key(numbers[0]), value()),
            24 => Change::RemoveXattr(key(numbers[0])),
            25..29 => Change::OmapSet(key(numbers[0]), value()),
            29 => Change::OmapSetHeader(value()),
            30 => Change::OmapRemove(key(numbers[0])),
            31 => Change::OmapRemoveRange(key(numbers[0]), key(numbers[1])),
            _ => Change::OmapClear,
        }
    }

    pub(crate) fn op(&self) -> OsdOp {
        let f = Features::default();
        let extent = |offset: u64, data: &Bytes| OpParams::extent(offset, data.len() as u64);
        let bare = |code, input: Bytes| step(code, OpParams::default(), input);
        match self {
            Change::Write { offset, data } => step(OpCode::WRITE, extent(*offset, data), data.clone()),
            Change::WriteFull(data) => step(OpCode::WRITEFULL, extent(0, data), data.clone()),
            Change::WriteSame { offset, pattern, times } => {
                let unit = pattern.len() as u64;
                let numbers = [*offset, unit * times, unit].map(u64::to_le_bytes);
                let params = OpParams::from_parts(&[&numbers[0], &numbers[1], &numbers[2]]);
                step(OpCode::WRITESAME, params, pattern.clone())
            }
            Change::Append(data) => step(OpCode::APPEND, extent(0, data), data.clone()),
            Change::Truncate(size) => step(OpCode::TRUNCATE, OpParams::extent(*size, 0), Bytes::new()),
            Change::Zero { offset, len } => step(OpCode::ZERO, OpParams::extent(*offset, *len), Bytes::new()),
            Change::Delete => OsdOp::new(OpCode::DELETE),
            Change::Create { is_exclusive } => {
                OsdOp { flags: if *is_exclusive { op_flag::EXCL } else { 0 }, ..OsdOp::new(OpCode::CREATE) }
            }
            Change::SetXattr(name, value) => xattr_step(OpCode::SETXATTR, name, value, [0; 2]),
            Change::RemoveXattr(name) => xattr_step(OpCode::RMXATTR, name, b"", [0; 2]),
            Change::OmapSet(key, value) => {
                let entries = BTreeMap::from([(key.clone(), value.clone())]);
                bare(OpCode::OMAPSETVALS, entries.to_bytes(f))
            }
            Change::OmapSetHeader(header) => bare(OpCode::OMAPSETHEADER, header.clone()),
            Change::OmapRemove(key) => bare(OpCode::OMAPRMKEYS, vec![key.clone()].to_bytes(f)),
            Change::OmapRemoveRange(first, last) => {
                bare(OpCode::OMAPRMKEYRANGE, (first.clone(), last.clone()).to_bytes(f))
            }
            Change::OmapClear => OsdOp::new(OpCode::OMAPCLEAR),
        }
    }

    /// True if the result of what was before it in the request stays: zeros at the end of an object, or beyond it, are
    /// no change, and Ceph does not even note that they were asked for.
    pub(crate) fn keeps_result(&self, head: &Option<Content>) -> bool {
        let Change::Zero { offset, len } = self else { return false };
        *len > 0 && head.as_ref().is_some_and(|content| *offset >= content.data.len() as u64)
    }

    pub(crate) fn apply(&self, head: &mut Option<Content>) -> Result<(), Errno> {
        let existing = |head: &mut Option<Content>| head.take().ok_or(Errno::ENOENT);
        match self {
            Change::Write { offset, data } => put(head, *offset, data),
            Change::WriteFull(data) => head.get_or_insert_default().data = data.to_vec(),
            Change::WriteSame { offset, pattern, times } => {
                put(head, *offset, &pattern.repeat(*times as usize));
            }
            Change::Append(data) => head.get_or_insert_default().data.extend_from_slice(data),
            Change::Truncate(size) => {
                if let Some(content) = head {
                    content.data.resize(*size as usize, 0);
                }
            }
            Change::Zero { offset, len } => {
                if let Some(Content { data, .. }) = head {
                    let (start, end) = (*offset as usize, (offset + len) as usize);
                    match end < data.len() {
                        true => data[start..end].fill(0),
                        // Zeros at the end are no data.
                        false => data.truncate(start),
                    }
                }
            }
            Change::Delete => drop(existing(head)?),
            Change::Create { is_exclusive: true } if head.is_some() => return Err(Errno::EEXIST),
            Change::Create { .. } => drop(head.get_or_insert_default()),
            Change::SetXattr(name, value) => {
                head.get_or_insert_default().xattrs.insert(name.clone(), value.clone());
            }
            Change::RemoveXattr(name) => drop(head.as_mut().ok_or(Errno::ENOENT)?.xattrs.remove(name)),
            Change::OmapSet(key, value) => {
                head.get_or_insert_default().omap.insert(key.clone(), value.clone());
            }
            Change::OmapSetHeader(header) => head.get_or_insert_default().omap_header = header.clone(),
            Change::OmapRemove(key) => drop(head.as_mut().ok_or(Errno::ENOENT)?.omap.remove(key)),
            Change::OmapRemoveRange(first, last) => {
                let omap = &mut head.as_mut().ok_or(Errno::ENOENT)?.omap;
                omap.retain(|key, _| key < first || key >= last);
            }
            Change::OmapClear => {
                let content = head.as_mut().ok_or(Errno::ENOENT)?;
                content.omap.clear();
                content.omap_header.clear();
            }
        }
        Ok(())
    }
}

fn put(head: &mut Option<Content>, offset: u64, data: &[u8]) {
    let content = &mut head.get_or_insert_default().data;
    let (start, end) = (offset as usize, offset as usize + data.len());
    content.resize(content.len().max(end), 0);
    content[start..end].copy_from_slice(data);
}

/// The condition under which the rest of a request is executed.
#[derive(Clone, Debug)]
pub(crate) enum Guard {
    Xattr(Bytes, Bytes),
    Data { offset: u64, data: Bytes },
    Version(u64),
}

impl Guard {
    /// One that holds, or one that does not.
    pub(crate) fn random(rng: &mut StdRng, head: &Option<Content>, version: Option<u64>) -> Option<Guard> {
        let Some(content) = head else { return Some(Guard::Xattr(Bytes::from("key0"), Bytes::from("1"))) };
        match rng.random_range(0..3) {
            0 => {
                let name = Bytes::from(format!("key{}", rng.random_range(0..5)));
                let value = content.xattrs.get(&name).cloned().filter(|_| rng.random_bool(0.6));
                Some(Guard::Xattr(name, value.unwrap_or_else(|| Bytes::from("0"))))
            }
            1 => {
                let start = rng.random_range(0..=content.data.len());
                let end = (start + rng.random_range(1..2_000)).min(content.data.len());
                let mut data = content.data[start..end].to_vec();
                if let Some(last) = data.last_mut().filter(|_| rng.random_bool(0.3)) {
                    *last ^= 1;
                }
                Some(Guard::Data { offset: start as u64, data: data.into() })
            }
            _ => Some(Guard::Version(version?.saturating_add_signed(rng.random_range(0..5) / 3))),
        }
    }

    pub(crate) fn op(&self) -> OsdOp {
        match self {
            Guard::Xattr(name, value) => xattr_step(OpCode::CMPXATTR, name, value, EQUAL_STRINGS),
            Guard::Data { offset, data } => {
                step(OpCode::CMPEXT, OpParams::extent(*offset, data.len() as u64), data.clone())
            }
            Guard::Version(version) => {
                let params = OpParams::from_parts(&[&[0; 8], &version.to_le_bytes()]);
                step(OpCode::ASSERT_VER, params, Bytes::new())
            }
        }
    }

    /// The result of its op.
    pub(crate) fn holds(&self, head: &Option<Content>, version: Option<u64>) -> Result<i32, Errno> {
        match self {
            Guard::Xattr(name, given) => {
                let content = head.as_ref().ok_or(Errno::ENOENT)?;
                match content.xattrs.get(name).is_some_and(|value| value == given) {
                    true => Ok(1),
                    false => Err(Errno::ECANCELED),
                }
            }
            Guard::Data { offset, data } => {
                let stored = head.iter().flat_map(|content| content.data.iter().skip(*offset as usize));
                match stored.zip(data).position(|(stored, given)| stored != given) {
                    None => Ok(0),
                    Some(at) => Err(Errno(MAX_ERRNO + at as i32)),
                }
            }
            Guard::Version(given) => match given.cmp(&version.unwrap_or_default()) {
                std::cmp::Ordering::Less => Err(Errno::ERANGE),
                std::cmp::Ordering::Equal => Ok(0),
                std::cmp::Ordering::Greater => Err(Errno::EOVERFLOW),
            },
        }
    }
}

/// A content that an object takes over as a whole.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// Its own, of a snapshot.
    Snap(SnapId, Option<Content>),
    /// Another object's.
    Object { pool: PoolId, name: Bytes, snap: SnapId, content: Option<Content> },
}

impl Source {
    pub(crate) fn snap(&self) -> SnapId {
        match self {
            Source::Snap(snap, _) | Source::Object { snap, .. } => *snap,
        }
    }

    pub(crate) fn op(&self) -> OsdOp {
        let params = OpParams::from_parts(&[&self.snap().0.to_le_bytes()]);
        match self {
            Source::Snap(..) => step(OpCode::ROLLBACK, params, Bytes::new()),
            Source::Object { pool, name, .. } => {
                let locator = ObjectLocator { pool: *pool, ..ObjectLocator::default() };
                let data = (name.clone(), locator).to_bytes(Features::default());
                step(OpCode::COPY_FROM, params, data)
            }
        }
    }

    pub(crate) fn take(&self, head: &mut Option<Content>) -> Result<(), Errno> {
        match self {
            Source::Snap(_, content) => *head = content.clone(),
            Source::Object { content, .. } => *head = Some(content.clone().ok_or(Errno::ENOENT)?),
        }
        Ok(())
    }
}
