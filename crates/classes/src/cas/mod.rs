//! The `cas` class: chunks of deduplicated data, which are kept as long as objects refer to them. The
//! references are in the xattr `chunk_refs`.
//!
//! Authority: `cls/cas` of Ceph 16.2 (cls_cas.cc, cls_cas_ops.h).

mod refs;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use codec::{Codec, Decode};
use refs::ChunkRefs;
use types::{Errno, HObject};

use crate::{
    Method, ObjectView, Stop,
    keys::{check_exists, input, output},
    method::{self, row},
};

const RW: u8 = method::RD | method::WR;

/// The methods with their Ceph flags.
pub(crate) const METHODS: &[Method] = &[
    row("cas", "chunk_create_or_get_ref", RW, create_or_get_ref),
    row("cas", "chunk_get_ref", RW, get_ref),
    row("cas", "chunk_put_ref", RW, put_ref),
    row("cas", "references_chunk", method::RD, references_chunk),
];

const XATTR: &[u8] = b"chunk_refs";
/// The data of a chunk that is there must be the same.
const FLAG_VERIFY: u64 = 1;

/// `cls_cas_chunk_create_or_get_ref_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct CreateOp {
    source: HObject,
    flags: u64,
    data: Bytes,
}

/// `cls_cas_chunk_get_ref_op`, and `cls_cas_chunk_put_ref_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct RefOp {
    source: HObject,
}

/// The references; ENOENT without a chunk.
fn load(view: &mut dyn ObjectView) -> Result<ChunkRefs, Stop> {
    check_exists(view)?;
    let Some(bytes) = view.xattr(XATTR)? else { return Ok(ChunkRefs::default()) };
    ChunkRefs::from_prefix(bytes).map_err(|_| Errno::EIO.into())
}

fn store(view: &mut dyn ObjectView, refs: &ChunkRefs) -> Result<Bytes, Stop> {
    view.set_xattr(XATTR, output(refs)?)?;
    Ok(Bytes::new())
}

fn create_or_get_ref(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: CreateOp = input(bytes)?;
    let mut refs = match view.stat()? {
        None => {
            view.write_full(op.data)?;
            ChunkRefs::default()
        }
        Some(stat) => {
            let refs = load(view)?;
            if op.flags & FLAG_VERIFY != 0 && view.read(0, stat.size)? != op.data {
                return Err(Errno::ENOMSG.into());
            }
            refs
        }
    };
    refs.get(op.source);
    store(view, &refs)
}

fn get_ref(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: RefOp = input(bytes)?;
    let mut refs = load(view)?;
    refs.get(op.source);
    store(view, &refs)
}

fn put_ref(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: RefOp = input(bytes)?;
    let mut refs = load(view)?;
    if !refs.put(&op.source) {
        return Err(Errno::ENOLINK.into());
    }
    if refs.is_empty() {
        view.remove()?;
        return Ok(Bytes::new());
    }
    store(view, &refs)
}

/// How many references an object has to chunks of a name, as the method's result.
fn references_chunk(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let name: Bytes = input(bytes)?;
    check_exists(view)?;
    match view.chunk_references(&name)? {
        0 => Err(Errno::ENOLINK.into()),
        count => {
            view.set_result(count);
            Ok(Bytes::new())
        }
    }
}
