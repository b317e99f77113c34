//! Ops that change an object.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use codec::{Encode, Features};
use messages::{OpCode, OpParams, OsdOp};

use super::{Generator, KEYS, NO_POOL, OBJECTS, XATTRS, plain, xattr};
use crate::plan::Planned;

impl Generator<'_> {
    pub(super) fn writing(&mut self, at: usize, planned: &mut Planned) -> OsdOp {
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
                let name =
                    if self.dice.one_in(15) { self.filled(&[99, 100, 101, 300]) } else { self.name(XATTRS) };
                let value =
                    if self.dice.one_in(20) { self.filled(&[65_536, 65_537, 300_000]) } else { self.value() };
                xattr(OpCode::SETXATTR, name, value)
            }
            2 => {
                let name = self.name(XATTRS);
                xattr(OpCode::RMXATTR, name, Bytes::new())
            }
            3 | 4 => {
                let count = self.dice.below(4);
                let pairs: BTreeMap<Bytes, Bytes> =
                    (0..count).map(|_| (self.name(KEYS), self.value())).collect();
                let mut pairs = pairs;
                if self.dice.one_in(20) {
                    let (key, value) = (self.filled(&[1_024, 5_000]), self.filled(&[0, 65_537, 200_000]));
                    pairs.insert(key, value);
                }
                let data = self.input(pairs);
                plain(OpCode::OMAPSETVALS, data)
            }
            5 => {
                let value = self.value();
                plain(OpCode::OMAPSETHEADER, value)
            }
            6 => {
                let keys: BTreeSet<Bytes> = [self.name(KEYS), self.name(KEYS)].into();
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
                self.watch(cookie)
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
                let pairs: BTreeMap<Bytes, Bytes> = [(self.name(KEYS), self.value())].into();
                let data = (self.value(), pairs).to_bytes(Features::default());
                plain(OpCode::TMAPPUT, data)
            }
        }
    }

    fn copy(&mut self, source: &str, snap: u64) -> OsdOp {
        let flags = self.dice.pick(&[0u8, 0, 0, 8, 64]);
        let new = self.dice.one_in(2);
        let mut data = Bytes::copy_from_slice(source.as_bytes()).to_bytes(Features::default()).to_vec();
        let locator = messages::ObjectLocator { pool: NO_POOL, ..Default::default() };
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
}
