//! Against what Ceph 16.2.15 kept of a scrub (`ceph-kvstore-tool … get p …SCRUB_OBJ…` of its OSD) and of objects
//! (`ceph-objectstore-tool … get-attr _`, `get-attr snapset`).

use codec::Reader;
use types::{Epoch, IntervalSet, ObjectManifest, PoolId};

use super::*;
use crate::exec::{CloneInfo, Manifest};

/// Reads what [`InconsistentObject`] writes.
fn read_object(bytes: &'static [u8]) -> InconsistentObject {
    let mut input = Reader::new(Bytes::from_static(bytes));
    codec::decode_envelope(&mut input, 2, "inconsistent_obj_wrapper", |input, _| {
        let errors = u64::decode(input)?;
        let id = ObjectId::decode(input)?;
        let version = u64::decode(input)?;
        let mut copies = BTreeMap::new();
        for _ in 0..u32::decode(input)? {
            let shard = OsdShard::decode(input)?;
            assert_eq!(shard.shard, -1);
            copies
                .insert(OsdId(shard.osd), codec::decode_envelope(input, 3, "shard_info_wrapper", read_copy)?);
        }
        let all = u64::decode(input)?;
        let object =
            HObject { oid: id.name, nspace: id.nspace, key: id.locator, snap: id.snap, ..HObject::min() };
        let found = InconsistentObject { object, errors, version, copies };
        assert_eq!(found.copy_errors(), all);
        Ok(found)
    })
    .unwrap()
}

fn read_copy(input: &mut Reader, _: u8) -> Result<CopyInfo, codec::DecodeError> {
    let (errors, is_primary) = Decode::decode(input)?;
    let mut copy = CopyInfo { errors, is_primary, ..CopyInfo::default() };
    if errors & copy_error::MISSING == 0 {
        let (xattrs, size) = Decode::decode(input)?;
        let mut digest = || {
            let (is_there, value) = <(bool, u32)>::decode(input)?;
            Ok::<_, codec::DecodeError>(is_there.then_some(value))
        };
        let (omap_digest, data_digest) = (digest()?, digest()?);
        copy.facts = Some(CopyFacts { xattrs, size, omap_digest, data_digest });
        copy.is_selected = bool::decode(input)?;
    }
    Ok(copy)
}

#[test]
fn objects_are_told_as_ceph_tells_them() {
    let missing: &[u8] = include_bytes!("../../../testdata/inconsistent_obj_missing.bin");
    let attr: &[u8] = include_bytes!("../../../testdata/inconsistent_obj_attr.bin");
    for bytes in [missing, attr] {
        assert_eq!(read_object(bytes).to_bytes(Features::PACIFIC), bytes);
    }
    let found = read_object(missing);
    assert_eq!((found.object.oid.as_ref(), found.version, found.errors), (&b"b"[..], 6, 0));
    let errors: Vec<u64> = found.copies.values().map(|copy| copy.errors).collect();
    assert_eq!(errors, [copy_error::MISSING, 0, 0]);
    assert!(found.copies[&OsdId(1)].is_primary && found.copies[&OsdId(1)].is_selected);
    assert_eq!(read_object(attr).errors, object_error::ATTR_VALUE);
}

fn clone(id: u64) -> CloneInfo {
    CloneInfo { id: SnapId(id), snaps: vec![SnapId(id)], size: 5_000, overlap: IntervalSet::new() }
}

fn snapset() -> SnapSet {
    SnapSet { seq: SnapId(2), clones: vec![clone(1), clone(2)] }
}

#[test]
fn snapsets_are_told_as_ceph_tells_them() {
    let bytes: &[u8] = include_bytes!("../../../testdata/snapset.bin");
    assert_eq!(ceph_snapset(&snapset()), bytes);
    let bytes: &[u8] = include_bytes!("../../../testdata/inconsistent_snapset.bin");
    let found = InconsistentSnapset {
        errors: snapset_error::CLONE_MISSING,
        missing: vec![SnapId(1)],
        snapset: Some(snapset()),
        ..InconsistentSnapset::of(&HObject {
            oid: Bytes::from_static(b"g"),
            snap: SnapId::HEAD,
            ..HObject::min()
        })
    };
    // Ceph keeps the attribute with its length in front.
    assert_eq!(found.to_bytes(Features::PACIFIC), bytes);
}

/// Equal but for what is not kept here: the last request, the time by the OSD's clock, the data's digest.
fn assert_info(bytes: &[u8], ours: &Bytes, unknown: &[std::ops::Range<usize>]) {
    assert_eq!(ours.len(), bytes.len());
    for at in (0..bytes.len()).filter(|at| !unknown.iter().any(|range| range.contains(at))) {
        assert_eq!(ours[at], bytes[at], "byte {at:#x}");
    }
}

#[test]
fn object_infos_are_told_as_ceph_tells_them() {
    let head = HObject {
        oid: Bytes::from_static(b"x"),
        pool: PoolId(3),
        hash: 0xd6d9_af33,
        snap: SnapId::HEAD,
        ..HObject::default()
    };
    let bytes: &[u8] = include_bytes!("../../../testdata/object_info_head.bin");
    let mut info = ObjectInfo {
        version: EVersion::new(Epoch(25), 32),
        prior_version: EVersion::new(Epoch(24), 30),
        user_version: 32,
        mtime: UTime::new(0x6b02_b589, 0),
        ..ObjectInfo::default()
    };
    let mut object = ScrubObject { object: head.clone(), size: 5_000, ..ScrubObject::default() };
    // Request, nanoseconds, flag of the digest, local time and digest.
    let unknown = [0x6c..0x87, 0x93..0x97, 0xd8..0xd9, 0xdc..0xe8];
    assert_info(bytes, &ceph_object_info(&object, &info), &unknown);
    let bytes: &[u8] = include_bytes!("../../../testdata/object_info_clone.bin");
    object.object = head.with_snap(SnapId(3));
    (info.version, info.user_version) = (EVersion::new(Epoch(25), 31), 30);
    info.mtime.sec -= 1;
    let unknown = [0x6c..0x87, 0x93..0x97, 0xc1..0xc2, 0xc5..0xd1];
    assert_info(bytes, &ceph_object_info(&object, &info), &unknown);
}

#[test]
fn a_redirect_is_told_as_ceph_tells_it() {
    let named = |oid, pool, hash| HObject {
        oid: Bytes::from_static(oid),
        pool: PoolId(pool),
        hash,
        snap: SnapId::HEAD,
        ..HObject::default()
    };
    let (object, target) = (named(b"moved", 3, 0xe1f0_c9a3), named(b"place", 4, 0xad85_3f23));
    let bytes: &[u8] = include_bytes!("../../../testdata/object_info_redirect.bin");
    // It is the last part.
    let manifest = ObjectManifest::Redirect(target);
    assert_eq!(ObjectManifest::from_bytes(Bytes::from_static(&bytes[0x104..])).unwrap(), manifest);
    let info = ObjectInfo {
        version: EVersion::new(Epoch(21), 7),
        prior_version: EVersion::new(Epoch(21), 6),
        mtime: UTime::new(0x6b04_4ab0, 0),
        manifest: Some(Box::new(Manifest { manifest, has_reference: true })),
        ..ObjectInfo::default()
    };
    let object = ScrubObject { object, ..ScrubObject::default() };
    // Request, nanoseconds and local time.
    let unknown = [0x70..0x8b, 0x97..0x9b, 0xe0..0xe8];
    assert_info(bytes, &ceph_object_info(&object, &info), &unknown);
}

#[test]
fn a_listing_names_what_to_begin_behind() {
    let arg = ScrubLsArg {
        interval: 7,
        after_name: Bytes::from_static(b"a"),
        max_return: 3,
        ..ScrubLsArg::default()
    };
    assert_eq!(ScrubLsArg::from_bytes(arg.to_bytes(Features::PACIFIC)).unwrap(), arg);
}

#[test]
fn of_long_xattrs_length_and_sum_are_listed() {
    let mut object = ScrubObject::default();
    object.xattrs.insert(Bytes::from_static(b"ua"), Bytes::from_static(b"short"));
    object.long_xattrs.insert(Bytes::from_static(b"ub"), XattrSum { bytes: 5_000, crc: 0xfe_dcba });
    let told = CopyFacts::of(&object).xattrs;
    let told: Vec<(&[u8], &[u8])> = told.iter().map(|(name, value)| (&name[..], &value[..])).collect();
    assert_eq!(told, [(&b"_a"[..], &b"short"[..]), (b"_b", b"(5000 bytes, crc32c 0x00fedcba)")]);
}
