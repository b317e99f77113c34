//! Requests of every kind, made by chance.

use bytes::Bytes;
use client::Request;
use codec::{Encode, Features};
use messages::{OpCode, OpParams, OsdOp, osd_flag};
use types::{PoolId, SnapContext, SnapId};

use crate::{calls, dice::Dice};

/// Objects of one episode, few, so that requests meet.
const OBJECTS: u64 = 4;
const XATTRS: &[&str] = &["a", "b", "n", "_x", "long"];
const KEYS: &[&str] = &["", "a", "ab", "b", "b\0", "c", "k1", "k10", "k2", "z\u{ff}"];

/// A request, and which of its ops name a version of an object as a distance from its last one.
#[derive(Clone)]
pub(crate) struct Planned {
    pub(crate) request: Request,
    /// Index of the op, distance.
    pub(crate) versions: Vec<(usize, i64)>,
}

/// What a run of requests goes by.
pub(crate) struct Generator<'a> {
    dice: Dice,
    pool: PoolId,
    class: Option<&'a str>,
    /// The newest snapshot so far.
    snaps: u64,
}

impl<'a> Generator<'a> {
    pub(crate) fn new(seed: u64, pool: PoolId, class: Option<&'a str>) -> Generator<'a> {
        Generator { dice: Dice::new(seed), pool, class, snaps: 0 }
    }

    pub(crate) fn request(&mut self) -> Planned {
        let oid = format!("o{}", self.dice.below(OBJECTS));
        let kind = if self.class.is_some() { 9 } else { self.dice.below(9) };
        let count = if kind == 9 { 1 } else { self.dice.pick(&[1u64, 1, 1, 2, 2, 3, 4]) };
        let mut planned = Planned { request: Request::new(self.pool, oid, Vec::new()), versions: Vec::new() };
        // First what reads: behind a change in the same request, some of it sees what was before in a real Ceph.
        let changes_from = match kind {
            0..=2 => 0,
            3 | 4 => self.dice.below(count + 1),
            _ => count,
        };
        for at in 0..count as usize {
            let mut op = if at as u64 >= changes_from {
                self.writing(at, &mut planned)
            } else if self.class.is_some() || (at as u64 + 1 == count && self.dice.one_in(4)) {
                calls::call(&mut self.dice, self.class)
            } else {
                self.reading(at, &mut planned)
            };
            // A real Ceph says EINPROGRESS of a copy that may fail.
            if self.dice.one_in(6) && !matches!(op.code, OpCode::COPY_FROM | OpCode::COPY_FROM2) {
                op.flags |= 2;
            }
            if self.dice.one_in(12) {
                op.flags |= self.dice.pick(&[4, 8, 0x10, 0x20, 0x40, 0x80]);
            }
            if matches!(op.code, OpCode::COPY_FROM | OpCode::COPY_FROM2 | OpCode::ROLLBACK | OpCode::DELETE) {
                // Two copies in one request end a real OSD; the others look at what was before the request.
                planned.request.ops = vec![op];
                planned.versions.retain_mut(|(of, _)| std::mem::take(of) == at);
                break;
            }
            planned.request.ops.push(op);
        }
        self.place(&mut planned.request);
        planned
    }

    /// Snapshots, flags, namespaces.
    fn place(&mut self, request: &mut Request) {
        if self.dice.one_in(15) {
            self.snaps += 1;
        }
        let seq = if self.dice.one_in(12) { self.dice.below(self.snaps + 1) } else { self.snaps };
        let mut snaps: Vec<SnapId> = (1..=seq).rev().map(SnapId).collect();
        if self.dice.one_in(20) && !snaps.is_empty() {
            snaps.remove(self.dice.below(snaps.len() as u64) as usize);
        }
        if self.dice.one_in(60) {
            snaps.reverse();
        }
        request.snapc = SnapContext { seq: SnapId(seq), snaps };
        let lists = request.ops.iter().any(|op| op.code == OpCode::LIST_SNAPS);
        if lists && !self.dice.one_in(5) {
            request.snapid = SnapId::DIR;
        } else if !request.ops.iter().any(|op| op.code.is_write()) && self.dice.one_in(4) {
            request.snapid = SnapId(self.dice.below(self.snaps + 2));
        } else if self.dice.one_in(80) {
            request.snapid = self.dice.pick(&[SnapId(1), SnapId::DIR]);
        }
        if self.dice.one_in(12) {
            request.nspace = Bytes::from_static(b"ns");
        }
        if self.dice.one_in(12) {
            request.key = Bytes::from_static(b"key");
        }
        if self.dice.one_in(6) {
            request.flags |= self.dice.pick(&[
                osd_flag::RETURNVEC,
                osd_flag::RETURNVEC,
                osd_flag::ORDERSNAP,
                osd_flag::RWORDERED,
                osd_flag::FULL_TRY,
                osd_flag::FULL_FORCE,
                osd_flag::IGNORE_CACHE,
                osd_flag::IGNORE_OVERLAY,
                osd_flag::SKIPRWLOCKS,
                osd_flag::PARALLELEXEC,
                osd_flag::ENFORCE_SNAPC,
                osd_flag::MAP_SNAP_CLONE,
                osd_flag::WRITE,
                osd_flag::IGNORE_REDIRECT,
            ]);
        }
    }

    fn offset(&mut self) -> u64 {
        self.dice.pick(&[
            0,
            0,
            1,
            3,
            100,
            512,
            4095,
            4096,
            4097,
            8192,
            65536,
            1 << 20,
            (128 << 20) - 1,
            128 << 20,
            u64::MAX,
        ])
    }

    fn length(&mut self) -> u64 {
        self.dice.pick(&[0, 1, 3, 100, 512, 4096, 5000, 8192, 70000])
    }

    fn name(&mut self, all: &[&'static str]) -> Bytes {
        Bytes::from_static(self.dice.pick(all).as_bytes())
    }

    fn value(&mut self) -> Bytes {
        let digits: &[&'static str] = &["5", "10", " 7", "abc", "", "18446744073709551616", "-1", "007"];
        if self.dice.one_in(3) {
            return self.name(digits);
        }
        let len = self.dice.pick(&[0, 1, 5, 8, 100]);
        self.dice.bytes(len)
    }

    /// Bytes of an encoded input, broken now and then.
    fn input(&mut self, value: impl Encode) -> Bytes {
        let mut bytes = value.to_bytes(Features::default()).to_vec();
        if self.dice.one_in(25) {
            bytes.truncate(self.dice.below(bytes.len() as u64) as usize);
        }
        if self.dice.one_in(40) {
            bytes.push(0);
        }
        Bytes::from(bytes)
    }

    fn extent(&mut self, code: OpCode, data: Bytes) -> OsdOp {
        let mut length = if data.is_empty() { self.length() } else { data.len() as u64 };
        if self.dice.one_in(30) {
            length += 1;
        }
        let mut params = OpParams::extent(self.offset(), length);
        if self.dice.one_in(15) {
            let (size, seq) = self.dice.pick(&[(0u64, 1u32), (4096, 1), (4096, 2), (100, 3), (u64::MAX, 1)]);
            params.0[16..24].copy_from_slice(&size.to_le_bytes());
            params.0[24..28].copy_from_slice(&seq.to_le_bytes());
        }
        OsdOp { params, data, ..OsdOp::new(code) }
    }

    fn writing(&mut self, at: usize, planned: &mut Planned) -> OsdOp {
        match self.dice.below(31) {
            0..=14 => self.writing_data(),
            15..=23 => self.writing_keys(),
            _ => self.writing_else(at, planned),
        }
    }

    fn writing_data(&mut self) -> OsdOp {
        let len = self.length();
        let data = self.dice.bytes(len);
        match self.dice.below(15) {
            0..=3 => self.extent(OpCode::WRITE, data),
            4 | 5 => self.extent(OpCode::WRITEFULL, data),
            6 => self.extent(OpCode::APPEND, data),
            7 => {
                let unit = self.dice.pick(&[0, 1, 3, 512, 4096]);
                let data = self.dice.bytes(unit);
                let times = self.dice.pick(&[0, 1, 2, 7]);
                let mut op = self.extent(OpCode::WRITESAME, data);
                op.params.0[8..16]
                    .copy_from_slice(&(unit * times + u64::from(self.dice.one_in(10))).to_le_bytes());
                op.params.0[16..24].copy_from_slice(&unit.to_le_bytes());
                op
            }
            8 | 9 => {
                let mut op = self.extent(OpCode::TRUNCATE, Bytes::new());
                if self.dice.one_in(2) {
                    op.params.0[8..16].fill(0);
                }
                // Two sizes that differ end a real OSD.
                op.params.0.copy_within(0..8, 16);
                op
            }
            10 => {
                let mut op = self.extent(OpCode::ZERO, Bytes::new());
                if op.params.length() == 0 {
                    // Ends a real OSD.
                    op.params.0[8] = 1;
                }
                op
            }
            11 | 12 => {
                let flags = self.dice.pick(&[0, 1, 1]);
                let data =
                    if self.dice.one_in(8) { self.input(Bytes::from_static(b"cat")) } else { Bytes::new() };
                OsdOp { flags, data, ..OsdOp::new(OpCode::CREATE) }
            }
            13 => OsdOp::new(OpCode::DELETE),
            _ => {
                let mut op = OsdOp::new(OpCode::SETALLOCHINT);
                op.params = OpParams::from_parts(&[&4096u64.to_le_bytes(), &4096u64.to_le_bytes(), &[1]]);
                op
            }
        }
    }

    fn writing_keys(&mut self) -> OsdOp {
        match self.dice.below(9) {
            0 | 1 => {
                let name = if self.dice.one_in(20) { self.dice.bytes(101) } else { self.name(XATTRS) };
                let value = self.value();
                xattr(OpCode::SETXATTR, name, value)
            }
            2 => {
                let name = self.name(XATTRS);
                xattr(OpCode::RMXATTR, name, Bytes::new())
            }
            3 | 4 => {
                let count = self.dice.below(4);
                let pairs: std::collections::BTreeMap<Bytes, Bytes> =
                    (0..count).map(|_| (self.name(KEYS), self.value())).collect();
                let data = self.input(pairs);
                plain(OpCode::OMAPSETVALS, data)
            }
            5 => {
                let value = self.value();
                plain(OpCode::OMAPSETHEADER, value)
            }
            6 => {
                let keys: std::collections::BTreeSet<Bytes> = [self.name(KEYS), self.name(KEYS)].into();
                let data = self.input(keys);
                plain(OpCode::OMAPRMKEYS, data)
            }
            7 => {
                let data = (self.name(KEYS), self.name(KEYS));
                let data = self.input(data);
                plain(OpCode::OMAPRMKEYRANGE, data)
            }
            _ => OsdOp::new(OpCode::OMAPCLEAR),
        }
    }

    fn writing_else(&mut self, at: usize, planned: &mut Planned) -> OsdOp {
        match self.dice.below(7) {
            0 | 1 => {
                let snap = self.dice.pick(&[0, 1, 1, 2, 3, u64::MAX - 1, self.snaps]);
                OsdOp { params: OpParams::from_parts(&[&snap.to_le_bytes()]), ..OsdOp::new(OpCode::ROLLBACK) }
            }
            2 => {
                let cookie = self.dice.pick(&[1u64, 2, 3]);
                let what = self.dice.pick(&[0u8, 1, 3, 3, 5, 7]);
                let mut op = OsdOp::new(OpCode::WATCH);
                op.params = OpParams::from_parts(&[
                    &cookie.to_le_bytes(),
                    &[0; 8],
                    &[what],
                    &1u32.to_le_bytes(),
                    &60u32.to_le_bytes(),
                ]);
                op
            }
            3 | 4 => {
                let version = self.dice.one_in(3).then(|| self.dice.pick(&[-1, 0, 0, 1]));
                if let Some(distance) = version {
                    planned.versions.push((at, distance));
                }
                // A real OSD waits for ever for a copy of the same object at a snapshot.
                let source = format!("o{}", self.dice.below(OBJECTS + 1));
                if planned.request.oid == source {
                    planned.request.oid = Bytes::from_static(b"copy");
                }
                let snap = self.dice.pick(&[u64::MAX - 1, u64::MAX - 1, 1, 0, self.snaps]);
                self.copy(&source, snap)
            }
            5 => {
                let code = self.dice.pick(&[
                    OpCode::UNDIRTY,
                    OpCode::CACHE_PIN,
                    OpCode::CACHE_UNPIN,
                    OpCode::CACHE_EVICT,
                    OpCode::CACHE_FLUSH,
                    OpCode::UNSET_MANIFEST,
                    OpCode::TIER_PROMOTE,
                    OpCode::TIER_FLUSH,
                    OpCode::TIER_EVICT,
                    OpCode::STARTSYNC,
                    OpCode::SETTRUNC,
                    OpCode::TRIMTRUNC,
                    OpCode::RESETXATTRS,
                    OpCode::SETXATTRS,
                    OpCode(0x2230),
                    OpCode(0x1299),
                ]);
                OsdOp::new(code)
            }
            _ => {
                let pairs: std::collections::BTreeMap<Bytes, Bytes> =
                    [(self.name(KEYS), self.value())].into();
                let data = (self.value(), pairs).to_bytes(Features::default());
                plain(OpCode::TMAPPUT, data)
            }
        }
    }

    fn copy(&mut self, source: &str, snap: u64) -> OsdOp {
        let flags = self.dice.pick(&[0u8, 0, 0, 8, 64]);
        let new = self.dice.one_in(2);
        let mut data = Bytes::copy_from_slice(source.as_bytes()).to_bytes(Features::default()).to_vec();
        let locator = messages::ObjectLocator { pool: self.pool, ..Default::default() };
        locator.encode(&mut data, Features::default());
        if new {
            self.dice.pick(&[0u32, 2]).encode(&mut data, Features::default());
            self.dice.pick(&[0u64, 100]).encode(&mut data, Features::default());
        }
        let mut op = OsdOp::new(if new { OpCode::COPY_FROM2 } else { OpCode::COPY_FROM });
        op.params = OpParams::from_parts(&[&snap.to_le_bytes(), &0u64.to_le_bytes(), &[flags]]);
        op.data = Bytes::from(data);
        op
    }

    fn reading(&mut self, at: usize, planned: &mut Planned) -> OsdOp {
        match self.dice.below(28) {
            0..=8 => self.reading_data(),
            9..=14 => self.reading_xattrs(),
            15..=20 => self.reading_omap(),
            _ => self.reading_else(at, planned),
        }
    }

    fn reading_data(&mut self) -> OsdOp {
        match self.dice.below(9) {
            0..=2 => self.extent(OpCode::READ, Bytes::new()),
            3 => self.extent(OpCode::SPARSE_READ, Bytes::new()),
            4 => OsdOp::new(OpCode::STAT),
            5 | 6 => {
                let len = self.dice.pick(&[0, 1, 100, 5000]);
                let data = self.dice.bytes(len);
                self.extent(OpCode::CMPEXT, data)
            }
            _ => {
                let kind = self.dice.pick(&[0u8, 1, 2, 3]);
                let chunk = self.dice.pick(&[0u32, 0, 1, 100, 4096]);
                let (offset, length) = (self.offset(), self.dice.pick(&[0u64, 100, 4096, 8192]));
                let seed = self.dice.pick(&[0u64, 1, u64::MAX]);
                let data = if kind == 1 { self.input(seed) } else { self.input(seed as u32) };
                let params = OpParams::from_parts(&[
                    &offset.to_le_bytes(),
                    &length.to_le_bytes(),
                    &chunk.to_le_bytes(),
                    &[kind],
                ]);
                OsdOp { params, data, ..OsdOp::new(OpCode::CHECKSUM) }
            }
        }
    }

    fn reading_xattrs(&mut self) -> OsdOp {
        match self.dice.below(6) {
            0 | 1 => {
                let name = self.name(XATTRS);
                xattr(OpCode::GETXATTR, name, Bytes::new())
            }
            2 => OsdOp::new(OpCode::GETXATTRS),
            _ => {
                let mode = self.dice.pick(&[1u8, 1, 2, 2, 0, 3]);
                let how = self.dice.pick(&[1u8, 2, 3, 4, 5, 6, 0, 7]);
                let name = self.name(XATTRS);
                let value = if mode == 2 && !self.dice.one_in(8) {
                    self.dice.pick(&[0u64, 5, 7, 10, u64::MAX]).to_bytes(Features::default())
                } else {
                    self.value()
                };
                let mut op = xattr(OpCode::CMPXATTR, name, value);
                (op.params.0[8], op.params.0[9]) = (how, mode);
                op
            }
        }
    }

    fn reading_omap(&mut self) -> OsdOp {
        match self.dice.below(6) {
            0 => {
                let what = (self.name(KEYS), self.dice.pick(&[0u64, 1, 2, 2000]));
                let data = self.input(what);
                plain(OpCode::OMAPGETKEYS, data)
            }
            1 => {
                let prefix = self.dice.pick(&["", "", "k", "a", "zz"]);
                let what = (
                    self.name(KEYS),
                    self.dice.pick(&[0u64, 1, 2, 2000]),
                    Bytes::from_static(prefix.as_bytes()),
                );
                let data = self.input(what);
                plain(OpCode::OMAPGETVALS, data)
            }
            2 => {
                let keys: std::collections::BTreeSet<Bytes> = [self.name(KEYS), self.name(KEYS)].into();
                let data = self.input(keys);
                plain(OpCode::OMAPGETVALSBYKEYS, data)
            }
            3 => OsdOp::new(OpCode::OMAPGETHEADER),
            _ => {
                let how = self.dice.pick(&[1i32, 1, 3, 5, 2, 0]);
                let wanted: std::collections::BTreeMap<Bytes, (Bytes, i32)> =
                    [(self.name(KEYS), (self.value(), how))].into();
                let data = self.input(wanted);
                plain(OpCode::OMAP_CMP, data)
            }
        }
    }

    fn reading_else(&mut self, at: usize, planned: &mut Planned) -> OsdOp {
        match self.dice.below(7) {
            0 | 1 => {
                planned.versions.push((at, self.dice.pick(&[-1, 0, 0, 0, 1])));
                OsdOp::new(OpCode::ASSERT_VER)
            }
            2 => OsdOp::new(OpCode::LIST_SNAPS),
            3 => OsdOp::new(OpCode::LIST_WATCHERS),
            4 => OsdOp::new(self.dice.pick(&[
                OpCode::ISDIRTY,
                OpCode::TMAPGET,
                OpCode::SYNC_READ,
                OpCode::MASKTRUNC,
                OpCode::SRC_CMPXATTR,
                OpCode(0x12ff),
                OpCode::COPY_GET_CLASSIC,
            ])),
            5 => {
                let mut op = OsdOp::new(OpCode::NOTIFY_ACK);
                op.data = self.input((1u64, 1u64));
                op
            }
            _ => self.extent(OpCode::MAPEXT, Bytes::new()),
        }
    }
}

fn xattr(code: OpCode, name: Bytes, value: Bytes) -> OsdOp {
    let mut op = OsdOp::new(code);
    // Lengths beyond the data end a real OSD, as broken inputs of TMAPUP do.
    let (name_len, value_len) = (name.len() as u32, value.len() as u32);
    op.params.0[0..4].copy_from_slice(&name_len.to_le_bytes());
    op.params.0[4..8].copy_from_slice(&value_len.to_le_bytes());
    op.data = Bytes::from([name, value].concat());
    op
}

fn plain(code: OpCode, data: Bytes) -> OsdOp {
    let params = OpParams::extent(0, data.len() as u64);
    OsdOp { params, data, ..OsdOp::new(code) }
}
