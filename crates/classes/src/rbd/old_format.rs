//! Snapshots of images of format 1: their header object `<name>.rbd` is plain data that clients read
//! themselves (`rbd_obj_header_ondisk`, include/rbd_types.h).
//!
//! Layout: 112 bytes, of which the u64 `snap_seq` at 88, the u32 count of snapshots at 96 and the u64
//! length of their names at 104 matter here; an id and a size (u64 each) for every snapshot, the newest
//! first; their names in the same order, each ended by a zero byte.

use bytes::Bytes;
use codec::{Encode, Features};
use types::{Errno, SnapId};

use crate::{
    ObjectView, Stop,
    keys::{find, input},
};

const HEADER_BYTES: usize = 112;
const IMAGE_SIZE_AT: usize = 80;
const SNAP_SEQ_AT: usize = 88;
const SNAP_COUNT_AT: usize = 96;
const NAMES_BYTES_AT: usize = 104;
/// What the header begins with (`RBD_HEADER_TEXT`).
const MAGIC: &[u8] = b"<<< Rados Block Device Image >>>\n";
/// What it begins with while the image is migrated (`RBD_MIGRATE_HEADER_TEXT`), so that no other client opens it.
const MIGRATING_MAGIC: &[u8] = b"<<< Migrating RBD Image      >>>\n";

struct OldSnap {
    id: u64,
    image_size: u64,
    name: Vec<u8>,
}

/// A decoded header; `fixed` are its first bytes.
struct OldHeader {
    fixed: Vec<u8>,
    snaps: Vec<OldSnap>,
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

impl OldHeader {
    fn parse(bytes: &[u8]) -> Option<OldHeader> {
        let fixed = bytes.get(..HEADER_BYTES)?.to_vec();
        let count = u32_at(bytes, SNAP_COUNT_AT)? as usize;
        let names_at = HEADER_BYTES.checked_add(count.checked_mul(16)?)?;
        let names_bytes = usize::try_from(u64_at(bytes, NAMES_BYTES_AT)?).ok()?;
        let names = bytes.get(names_at..names_at.checked_add(names_bytes)?)?;
        let mut names = names.split(|byte| *byte == 0);
        let snaps = (0..count).map(|index| {
            let at = HEADER_BYTES + index * 16;
            Some(OldSnap {
                id: u64_at(bytes, at)?,
                image_size: u64_at(bytes, at + 8)?,
                name: names.next()?.to_vec(),
            })
        });
        Some(OldHeader { fixed, snaps: snaps.collect::<Option<_>>()? })
    }

    /// EINVAL for an object that is no such header, or is not there.
    fn read(view: &mut dyn ObjectView) -> Result<OldHeader, Stop> {
        let size = view.stat()?.map_or(0, |stat| stat.size);
        let bytes = view.read(0, size)?;
        OldHeader::parse(&bytes).ok_or(Errno::EINVAL.into())
    }

    fn snap_seq(&self) -> u64 {
        u64_at(&self.fixed, SNAP_SEQ_AT).unwrap_or(0)
    }

    fn write(mut self, view: &mut dyn ObjectView, snap_seq: u64) -> Result<Bytes, Stop> {
        let names_bytes: usize = self.snaps.iter().map(|snap| snap.name.len() + 1).sum();
        let mut put = |at: usize, bytes: &[u8]| self.fixed[at..at + bytes.len()].copy_from_slice(bytes);
        put(SNAP_SEQ_AT, &snap_seq.to_le_bytes());
        put(SNAP_COUNT_AT, &(self.snaps.len() as u32).to_le_bytes());
        put(NAMES_BYTES_AT, &(names_bytes as u64).to_le_bytes());
        let mut out = self.fixed;
        for snap in &self.snaps {
            out.extend_from_slice(&snap.id.to_le_bytes());
            out.extend_from_slice(&snap.image_size.to_le_bytes());
        }
        for snap in &self.snaps {
            out.extend_from_slice(&snap.name);
            out.push(0);
        }
        view.write_full(Bytes::from(out))?;
        Ok(Bytes::new())
    }
}

/// How many snapshots an image of format 1 has; `None` when the object is no header of one.
pub(super) fn snap_count(view: &mut dyn ObjectView) -> Result<Option<u64>, Stop> {
    let start = view.read(0, HEADER_BYTES as u64)?;
    let count = start.starts_with(MAGIC).then(|| u32_at(&start, SNAP_COUNT_AT)).flatten();
    Ok(count.map(u64::from))
}

/// Whether the header says that the image is migrated; ENXIO for what is no header, or is not there.
pub(super) fn is_migrating(view: &mut dyn ObjectView) -> Result<bool, Stop> {
    let start = view.read(0, MAGIC.len() as u64 + 1)?;
    match start.strip_suffix(&[0]) {
        Some(MAGIC) => Ok(false),
        Some(MIGRATING_MAGIC) => Ok(true),
        _ => Err(Errno::ENXIO.into()),
    }
}

/// Says in the header whether the image is migrated.
pub(super) fn set_migrating(view: &mut dyn ObjectView, is_migrating: bool) -> Result<(), Stop> {
    view.write(0, Bytes::from_static(if is_migrating { MIGRATING_MAGIC } else { MAGIC }))
}

pub(super) fn snap_list(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    let header = OldHeader::read(view)?;
    let features = Features::PACIFIC;
    let mut out = header.snap_seq().to_le_bytes().to_vec();
    (header.snaps.len() as u32).encode(&mut out, features);
    for snap in header.snaps {
        (snap.id, snap.image_size).encode(&mut out, features);
        Bytes::from(snap.name).encode(&mut out, features);
    }
    Ok(Bytes::from(out))
}

pub(super) fn snap_add(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (name, id): (Bytes, SnapId) = input(bytes)?;
    let mut header = OldHeader::read(view)?;
    if header.snap_seq() > id.0 {
        return Err(Errno::ESTALE.into());
    }
    let limit = find::<u64>(view, b"snap_limit")?.unwrap_or(u64::MAX);
    if header.snaps.len() as u64 >= limit {
        return Err(Errno::EDQUOT.into());
    }
    if header.snaps.iter().any(|snap| snap.name == name) {
        return Err(Errno::EEXIST.into());
    }
    let image_size = u64_at(&header.fixed, IMAGE_SIZE_AT).unwrap_or(0);
    header.snaps.insert(0, OldSnap { id: id.0, image_size, name: name.to_vec() });
    header.write(view, id.0)
}

pub(super) fn snap_remove(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let name: Bytes = input(bytes)?;
    let mut header = OldHeader::read(view)?;
    let index = header.snaps.iter().position(|snap| snap.name == name).ok_or(Errno::ENOENT)?;
    header.snaps.remove(index);
    let seq = header.snap_seq();
    header.write(view, seq)
}

pub(super) fn snap_rename(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (id, name): (SnapId, Bytes) = input(bytes)?;
    let mut header = OldHeader::read(view)?;
    if header.snaps.iter().any(|snap| snap.name == name) {
        return Err(Errno::EEXIST.into());
    }
    let snap = header.snaps.iter_mut().find(|snap| snap.id == id.0).ok_or(Errno::ENOENT)?;
    snap.name = name.to_vec();
    let seq = header.snap_seq();
    header.write(view, seq)
}
