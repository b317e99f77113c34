//! What is looked up of images, as far as tasks and schedules need it. Formats: cls/rbd/cls_rbd_types.h; what
//! follows the fields named here is skipped.

use std::collections::{BTreeMap, BTreeSet};

use codec::{Codec, Decode, DecodeError, Reader};
use types::{Errno, PoolId, SnapId};

use super::spec::is_plain;
use crate::manager::objects::{ENTRIES_MAX, NoInput, Place, Stop, UnreadObjects, View, next_page};

/// Entries of one listing.
const LIST_MAX: u64 = 1024;

/// Images of one namespace whose names are listed.
const NAMES_MAX: usize = 100_000;

/// Snapshots of an image among which the newest mirror snapshot is looked for: each costs a read, one after the other.
const SNAPSHOTS_MAX: usize = 1_000;

/// `ParentImageSpec`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct ParentSpec {
    pool: i64,
    nspace: String,
    image_id: String,
    snap: SnapId,
}

/// `MigrationSpec`: as the header of either image has it.
#[derive(Codec)]
#[codec(version = 3, compat = 1)]
struct MigrationSpec {
    header_type: u8,
    pool: i64,
    nspace: String,
    image_name: String,
    image_id: String,
    snap_seqs: BTreeMap<u64, u64>,
    overlap: u64,
    flatten: bool,
    mirroring: bool,
    state: u8,
    state_description: String,
    #[codec(since = 2)]
    mirror_image_mode: u8,
    #[codec(since = 3)]
    source_spec: String,
}

/// `MIGRATION_HEADER_TYPE_SRC`.
const HEADER_OF_SOURCE: u8 = 1;

/// `MirrorImage`.
#[derive(Codec)]
#[codec(version = 2, compat = 1)]
struct MirrorImage {
    global_id: String,
    state: u8,
    #[codec(since = 2)]
    mode: u8,
}

/// `MIRROR_IMAGE_STATE_ENABLED`, `MIRROR_IMAGE_MODE_SNAPSHOT`, `MIRROR_MODE_IMAGE`.
const MIRRORING_ENABLED: u8 = 1;
const MODE_SNAPSHOT: u8 = 1;
const MIRROR_MODE_IMAGE: u32 = 1;

/// The part of `SnapshotInfo` that says whether it is a mirror snapshot, and in what state.
struct SnapshotKind(Option<u8>);

/// `SNAPSHOT_NAMESPACE_TYPE_MIRROR`, `MIRROR_SNAPSHOT_STATE_PRIMARY`.
const NAMESPACE_MIRROR: u32 = 3;
const STATE_PRIMARY: u8 = 0;

impl Decode for SnapshotKind {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        codec::decode_envelope(input, 1, "SnapshotInfo", |input, _| {
            SnapId::decode(input)?;
            let kind = codec::decode_envelope(input, 1, "SnapshotNamespace", |input, _| {
                let is_mirror = u32::decode(input)? == NAMESPACE_MIRROR;
                let state = if is_mirror { Some(u8::decode(input)?) } else { None };
                input.take_rest();
                Ok(SnapshotKind(state))
            })?;
            input.take_rest();
            Ok(kind)
        })
    }
}

/// An image that is being moved.
pub(super) struct Migration {
    /// The new image's id.
    pub(super) id: String,
    /// Pool, namespace and name.
    pub(super) source: (PoolId, String, String),
    /// `MIGRATION_STATE_*`.
    pub(super) state: u8,
}

/// `MIGRATION_STATE_PREPARED`, `_EXECUTING`, `_EXECUTED`.
pub(super) const MIGRATION_PREPARED: u8 = 2;
pub(super) const MIGRATION_EXECUTING: u8 = 3;
pub(super) const MIGRATION_EXECUTED: u8 = 4;

fn header(id: &str) -> String {
    format!("rbd_header.{id}")
}

/// The id that is kept for an image's name, whether or not the image is whole.
pub(super) fn named_id(view: View<'_>, place: &Place, name: &str) -> Result<Option<String>, Stop> {
    view.call(place, format!("rbd_id.{name}"), "get_id", &NoInput)
}

/// The id of an image by its name.
pub(super) fn id_of(view: View<'_>, place: &Place, name: &str) -> Result<Option<String>, Stop> {
    let Some(id) = named_id(view, place, name)? else { return Ok(None) };
    // The name may be there without an image, while it is made or removed.
    let snapc: Option<(u64, Vec<SnapId>)> = view.call(place, header(&id), "get_snapcontext", &NoInput)?;
    Ok(snapc.map(|_| id))
}

pub(super) fn has_snapshots(view: View<'_>, place: &Place, id: &str) -> Result<bool, Stop> {
    let snapc: Option<(u64, Vec<SnapId>)> = view.call(place, header(id), "get_snapcontext", &NoInput)?;
    Ok(snapc.is_some_and(|(_, snaps)| !snaps.is_empty()))
}

pub(super) fn has_parent(view: View<'_>, place: &Place, id: &str) -> Result<bool, Stop> {
    let spec: Option<ParentSpec> = view.call(place, header(id), "parent_get", &NoInput)?;
    if !spec.is_some_and(|spec| spec.pool >= 0 && !spec.image_id.is_empty()) {
        return Ok(false);
    }
    // A flattened image whose snapshots have a parent has none itself any more.
    let overlap: Option<Option<u64>> = view.call(place, header(id), "parent_overlap_get", &SnapId::HEAD)?;
    Ok(overlap.flatten().is_some())
}

pub(super) fn is_in_trash(view: View<'_>, place: &Place, id: &str) -> Result<bool, Stop> {
    Ok(view.call::<Anything>(place, "rbd_trash", "trash_get", &id.to_owned())?.is_some())
}

/// Bytes that only need to be there.
struct Anything;

impl Decode for Anything {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        input.take_rest();
        Ok(Anything)
    }
}

/// The migration that leads to the image of this name.
pub(super) fn migration(view: View<'_>, place: &Place, name: &str) -> Result<Option<Migration>, Stop> {
    let Some(id) = id_of(view, place, name)? else { return Ok(None) };
    let spec: Option<MigrationSpec> = match view.call(place, header(&id), "migration_get", &NoInput) {
        // The image is not part of one.
        Err(Stop::Refused(Errno::EINVAL, _)) => None,
        other => other?,
    };
    Ok(spec.filter(|spec| spec.header_type != HEADER_OF_SOURCE).map(|spec| Migration {
        id,
        source: (PoolId(spec.pool), spec.nspace, spec.image_name),
        state: spec.state,
    }))
}

/// The namespaces of a pool that have names. Clients can leave any text there; what would be no name for `rbd` is left
/// out.
pub(super) fn namespaces(view: View<'_>, pool: PoolId) -> Result<BTreeSet<String>, Stop> {
    const OID: &str = "rbd_namespace";
    let place = Place::new(pool, "");
    let mut all = BTreeSet::new();
    let (mut listed, mut after) = (0, String::new());
    loop {
        let page: Option<Vec<String>> = view.call(&place, OID, "namespace_list", &(after, LIST_MAX))?;
        let page = page.unwrap_or_default();
        listed += page.len();
        if listed > ENTRIES_MAX {
            return Err(Stop::too_many(OID, ENTRIES_MAX));
        }
        let is_last = (page.len() as u64) < LIST_MAX;
        after = page.last().cloned().unwrap_or_default();
        all.extend(page.into_iter().filter(|name| is_plain(name)));
        if is_last {
            return Ok(all);
        }
    }
}

/// Pages of a class method that lists pairs of texts, `max` pairs at most.
fn pairs(
    view: View<'_>,
    place: &Place,
    oid: &str,
    method: &'static str,
    max: usize,
) -> Result<BTreeMap<String, String>, Stop> {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    let mut after = String::new();
    loop {
        let page: Option<BTreeMap<String, String>> =
            view.call(place, oid, method, &(after.clone(), LIST_MAX))?;
        let page = page.unwrap_or_default();
        let is_last = (page.len() as u64) < LIST_MAX;
        let last = page.keys().next_back().cloned().unwrap_or_default();
        all.extend(page);
        if all.len() > max {
            return Err(Stop::too_many(oid, max));
        }
        if is_last {
            return Ok(all);
        }
        after = next_page(&after, last)?;
    }
}

/// The object that knows the images of a namespace.
const DIRECTORY: &str = "rbd_directory";

/// Names of images by their ids.
pub(super) fn names(view: View<'_>, place: &Place) -> Result<BTreeMap<String, String>, Stop> {
    let ids = pairs(view, place, DIRECTORY, "dir_list", NAMES_MAX)?;
    Ok(ids.into_iter().map(|(name, id)| (id, name)).collect())
}

/// The name of an image, if it has one that is a name for `rbd`, too.
pub(super) fn name_of(view: View<'_>, place: &Place, id: &str) -> Result<Option<String>, Stop> {
    let name: Option<String> = view.call(place, DIRECTORY, "dir_get_name", &id.to_owned())?;
    Ok(name.filter(|name| is_plain(name)))
}

/// True where images are mirrored one by one.
pub(super) fn is_mirrored_by_image(view: View<'_>, place: &Place) -> Result<bool, Stop> {
    let mode: Option<u32> = view.call(place, "rbd_mirroring", "mirror_mode_get", &NoInput)?;
    Ok(mode == Some(MIRROR_MODE_IMAGE))
}

/// True for an image that is mirrored by snapshots.
pub(super) fn is_mirrored_by_snapshots(view: View<'_>, place: &Place, id: &str) -> Result<bool, Stop> {
    let image: Option<MirrorImage> = view.call(place, "rbd_mirroring", "mirror_image_get", &id.to_owned())?;
    Ok(image.is_some_and(|image| image.mode == MODE_SNAPSHOT && image.state == MIRRORING_ENABLED))
}

/// Images that are mirrored by snapshots and that are primary here: names by ids.
pub(super) fn mirrored_primaries(view: View<'_>, place: &Place) -> Result<BTreeMap<String, String>, Stop> {
    let mirrored = pairs(view, place, "rbd_mirroring", "mirror_image_list", ENTRIES_MAX)?;
    let mut out = BTreeMap::new();
    let mut missing = UnreadObjects::default();
    for id in mirrored.into_keys() {
        if let Some(Some(name)) = missing.pass(name_of_primary(view, place, &id))? {
            out.insert(id, name);
        }
    }
    missing.end()?;
    Ok(out)
}

/// The name of an image that is mirrored by snapshots and primary here; none of others.
fn name_of_primary(view: View<'_>, place: &Place, id: &str) -> Result<Option<String>, Stop> {
    if is_mirrored_by_snapshots(view, place, id)? && is_primary(view, place, id)? {
        name_of(view, place, id)
    } else {
        Ok(None)
    }
}

/// What the newest mirror snapshot says.
fn is_primary(view: View<'_>, place: &Place, id: &str) -> Result<bool, Stop> {
    let snapc: Option<(u64, Vec<SnapId>)> = view.call(place, header(id), "get_snapcontext", &NoInput)?;
    let mut snaps = snapc.map(|(_, snaps)| snaps).unwrap_or_default();
    snaps.sort_by_key(|snap| std::cmp::Reverse(snap.0));
    for snap in snaps.into_iter().take(SNAPSHOTS_MAX) {
        let kind: Option<SnapshotKind> = view.call(place, header(id), "snapshot_get", &snap)?;
        if let Some(SnapshotKind(Some(state))) = kind {
            return Ok(state == STATE_PRIMARY);
        }
    }
    Ok(false)
}
