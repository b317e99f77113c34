use bytes::Bytes;
use codec::{Decode, Encode, Features};
use types::{Errno, HObject, PoolId, SnapId};

use super::{CreateOp, RefOp, refs::ChunkRefs};
use crate::test_view::TestView;

fn source(name: &'static str, hash: u32) -> HObject {
    let oid = Bytes::from_static(name.as_bytes());
    HObject { oid, hash, pool: PoolId(5), snap: SnapId::HEAD, ..HObject::default() }
}

fn create(view: &mut TestView, source: HObject, flags: u64, data: &'static str) -> Result<Bytes, Errno> {
    let op = CreateOp { source, flags, data: Bytes::from_static(data.as_bytes()) };
    view.call("cas", "chunk_create_or_get_ref", op.to_bytes(Features::PACIFIC))
}

fn call(view: &mut TestView, name: &str, source: HObject) -> Result<Bytes, Errno> {
    view.call("cas", name, RefOp { source }.to_bytes(Features::PACIFIC))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn a_chunk_lives_as_long_as_its_references() {
    let mut view = TestView::default();
    assert_eq!(call(&mut view, "chunk_get_ref", source("a", 1)).unwrap_err(), Errno::ENOENT);
    create(&mut view, source("a", 1), 0, "data").unwrap();
    create(&mut view, source("b", 0x8000_0000), 1, "data").unwrap();
    assert_eq!(create(&mut view, source("b", 7), 1, "other").unwrap_err(), Errno::ENOMSG);
    create(&mut view, source("b", 7), 0, "other").unwrap();
    assert_eq!(view.data, b"data");
    assert_eq!(
        hex(&view.xattrs[&b"chunk_refs"[..]]),
        "0101830000000101017c00000003000000\
         040322000000000000000100000062feffffffffffffff0000008000000000000500000000000000\
         040322000000000000000100000061feffffffffffffff0100000000000000000500000000000000\
         040322000000000000000100000062feffffffffffffff0700000000000000000500000000000000",
        "as a stock OSD has it"
    );
    let mut put = |name, hash| call(&mut view, "chunk_put_ref", source(name, hash)).err();
    let results = [put("q", 1), put("a", 1), put("a", 1), put("b", 0x8000_0000), put("b", 7), put("b", 7)];
    let (none, gone) = (Some(Errno::ENOLINK), Some(Errno::ENOENT));
    assert_eq!(results, [none, None, none, None, None, gone]);
}

/// Counted references, before and after one more, as a stock OSD has them.
#[test]
fn counted_references_stay_counted() {
    for (before, after) in [
        (
            "01010f000000020101080000000220010a0100000002",
            "0101160000000201010f0000000320020a01000000020a0101000001",
        ),
        ("01010b0000000401010400000002010a02", "01010b0000000401010400000003010a03"),
        ("01010f000000050101080000000200000000000000", "01010f000000050101080000000300000000000000"),
    ] {
        let bytes = |hex: &str| -> Vec<u8> {
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
        };
        let mut before = bytes(before);
        if before[6] == 2 {
            // Lengths of the version with one entry.
            (before[2], before[9]) = (before.len() as u8 - 6, before.len() as u8 - 13);
        }
        let mut view = TestView { exists: true, ..TestView::default() };
        view.xattrs.insert(Bytes::from_static(b"chunk_refs"), Bytes::from(before.clone()));
        call(&mut view, "chunk_get_ref", source("z", 0x101)).unwrap();
        assert_eq!(hex(&view.xattrs[&b"chunk_refs"[..]]), after);
        call(&mut view, "chunk_put_ref", source("z", 0x101)).unwrap();
        assert_eq!(hex(&view.xattrs[&b"chunk_refs"[..]]), hex(&before));
    }
    for bad in ["", "\x01\x01\x01\0\0\0\x03", "\x01\x01\x07\0\0\0\x02\x01\x01\x02\0\0\0\x01\x21"] {
        assert!(ChunkRefs::from_prefix(Bytes::from_static(bad.as_bytes())).is_err());
    }
}
