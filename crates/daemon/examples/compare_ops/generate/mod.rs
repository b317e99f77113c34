//! Requests of every kind, made by chance.

mod listing;
mod reading;
mod watching;
mod writing;

use bytes::Bytes;
use client::Request;
use codec::{Encode, Features};
use messages::{OpCode, OpParams, OsdOp, osd_flag};
use types::{PoolId, SnapContext, SnapId};

use crate::{
    calls,
    dice::Dice,
    plan::{Kind, Planned, Step},
};

/// Each cluster puts in its own.
const NO_POOL: PoolId = PoolId(0);

/// Objects of one episode, few, so that requests meet.
const OBJECTS: u64 = 4;
const XATTRS: &[&str] = &["a", "b", "n", "_x", "long"];
const KEYS: &[&str] = &["", "a", "ab", "b", "b\0", "c", "k1", "k10", "k2", "z\u{ff}"];

/// What a run of requests goes by.
pub(crate) struct Generator<'a> {
    dice: Dice,
    kind: &'a Kind,
    /// The newest snapshot so far.
    snaps: u64,
}

impl<'a> Generator<'a> {
    pub(crate) fn new(seed: u64, kind: &'a Kind) -> Generator<'a> {
        Generator { dice: Dice::new(seed), kind, snaps: 0 }
    }

    pub(crate) fn step(&mut self) -> Step {
        match self.kind {
            Kind::PoolSnaps if self.dice.one_in(8) => {
                self.snaps += 1;
                Step::MakeSnap(self.snaps)
            }
            Kind::PoolSnaps if self.dice.one_in(50) => Step::RemoveSnap(self.dice.below(self.snaps + 1)),
            Kind::Lists if self.dice.one_in(4) => Step::List(self.listing()),
            Kind::Watches if self.dice.one_in(25) => Step::Pause,
            Kind::Watches => Step::Request(self.watching()),
            _ => Step::Request(self.request()),
        }
    }

    fn class(&self) -> Option<&'a str> {
        match self.kind {
            Kind::Class(class) => Some(class),
            _ => None,
        }
    }

    fn object(&mut self) -> Planned {
        let oid = format!("o{}", self.dice.below(OBJECTS));
        Planned::new(Request::new(NO_POOL, oid, Vec::new()))
    }

    fn request(&mut self) -> Planned {
        let mut planned = self.object();
        let class = self.class();
        let kind = if class.is_some() { 9 } else { self.dice.below(9) };
        let count = if kind == 9 { 1 } else { self.dice.pick(&[1u64, 1, 1, 2, 2, 3, 4]) };
        // First what reads: behind a change in the same request, some of it sees what was before in a real Ceph.
        let changes_from = match kind {
            0..=2 => 0,
            3 | 4 => self.dice.below(count + 1),
            _ => count,
        };
        for at in 0..count as usize {
            let mut op = if at as u64 >= changes_from {
                self.writing(at, &mut planned)
            } else if class.is_some() || (at as u64 + 1 == count && self.dice.one_in(4)) {
                calls::call(&mut self.dice, class)
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
        self.place(&mut planned);
        planned
    }

    /// Snapshots, flags, namespaces, names.
    fn place(&mut self, planned: &mut Planned) {
        let request = &mut planned.request;
        if self.dice.one_in(15) && *self.kind != Kind::PoolSnaps {
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
        if self.dice.one_in(60) {
            planned.name_len = self.dice.pick(&[2_047, 2_048, 2_049, 5_000]);
        }
        if self.dice.one_in(60) {
            request.key = self.filled(&[2_047, 2_048, 2_049, 5_000]);
        }
        if self.dice.one_in(60) {
            request.nspace = self.filled(&[255, 256, 257, 3_000]);
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
        if *self.kind == Kind::Full {
            // Without one of them, clients hold back what they would send.
            request.flags |= self.dice.pick(&[osd_flag::FULL_TRY, osd_flag::FULL_TRY, osd_flag::FULL_FORCE]);
        }
    }

    /// A name of one of these lengths.
    fn filled(&mut self, lens: &[usize]) -> Bytes {
        Bytes::from(vec![b'n'; self.dice.pick(lens)])
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
