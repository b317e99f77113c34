//! Mirror snapshots, in an image's header.

use bytes::Bytes;
use codec::{Decode, Encode, Features};
use types::{Errno, SnapId};

use super::types::MirrorNamespace;
use crate::{
    ObjectView, Stop,
    keys::input,
    rbd::{
        snapshot::{read_snap, write_snap},
        types::{Snap, namespace},
    },
};

/// Whether the fields of a mirror snapshot are all there.
pub(in crate::rbd) fn are_whole(fields: &Bytes) -> bool {
    MirrorNamespace::from_prefix(fields.clone()).is_ok()
}

/// EINVAL for a snapshot of another kind.
fn mirror_fields(snap: &Snap) -> Result<MirrorNamespace, Stop> {
    if snap.namespace.kind != namespace::MIRROR {
        return Err(Errno::EINVAL.into());
    }
    MirrorNamespace::from_prefix(snap.namespace.fields.clone()).map_err(|_| Errno::EIO.into())
}

fn keep(view: &mut dyn ObjectView, mut snap: Snap, fields: &MirrorNamespace) -> Result<Bytes, Stop> {
    snap.namespace.fields = fields.to_bytes(Features::PACIFIC);
    write_snap(view, &snap)?;
    Ok(Bytes::new())
}

/// A peer has copied the snapshot; ENOENT when it was not waited for.
pub(in crate::rbd) fn mirror_image_snapshot_unlink_peer(
    view: &mut dyn ObjectView,
    bytes: &Bytes,
) -> Result<Bytes, Stop> {
    let (id, peer): (SnapId, Bytes) = input(bytes)?;
    let snap = read_snap(view, id)?;
    let mut fields = mirror_fields(&snap)?;
    if !fields.mirror_peer_uuids.remove(&peer) {
        return Err(Errno::ENOENT.into());
    }
    keep(view, snap, &fields)
}

pub(in crate::rbd) fn mirror_image_snapshot_set_copy_progress(
    view: &mut dyn ObjectView,
    bytes: &Bytes,
) -> Result<Bytes, Stop> {
    let (id, is_complete, last_copied_object_number): (SnapId, bool, u64) = input(bytes)?;
    let snap = read_snap(view, id)?;
    let mut fields = mirror_fields(&snap)?;
    fields.is_complete = is_complete;
    if fields.is_non_primary() {
        fields.last_copied_object_number = last_copied_object_number;
    }
    keep(view, snap, &fields)
}
