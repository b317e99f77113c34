//! Ops that change nothing.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use codec::{Encode, Features};
use messages::{OpCode, OpParams, OsdOp};

use super::{Generator, KEYS, XATTRS, plain, xattr};
use crate::plan::Planned;

impl Generator<'_> {
    pub(super) fn reading(&mut self, at: usize, planned: &mut Planned) -> OsdOp {
        match self.dice.below(30) {
            0..=8 => self.reading_data(),
            9..=14 => self.reading_xattrs(),
            15..=20 => self.reading_omap(),
            _ => self.reading_else(at, planned),
        }
    }

    fn reading_data(&mut self) -> OsdOp {
        match self.dice.below(9) {
            0..=2 => {
                let mut op = self.extent(OpCode::READ, Bytes::new());
                if self.dice.one_in(12) {
                    op.params.0[8..16].copy_from_slice(&(1u64 << 40).to_le_bytes());
                }
                op
            }
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
                let keys: BTreeSet<Bytes> = [self.name(KEYS), self.name(KEYS)].into();
                let data = self.input(keys);
                plain(OpCode::OMAPGETVALSBYKEYS, data)
            }
            3 => OsdOp::new(OpCode::OMAPGETHEADER),
            _ => {
                let how = self.dice.pick(&[1i32, 1, 3, 5, 2, 0]);
                let wanted: BTreeMap<Bytes, (Bytes, i32)> = [(self.name(KEYS), (self.value(), how))].into();
                let data = self.input(wanted);
                plain(OpCode::OMAP_CMP, data)
            }
        }
    }

    fn reading_else(&mut self, at: usize, planned: &mut Planned) -> OsdOp {
        match self.dice.below(8) {
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
            6 => self.copy_get(),
            _ => self.extent(OpCode::MAPEXT, Bytes::new()),
        }
    }

    /// A piece of a copy. A cursor behind the data's end would end a real OSD.
    fn copy_get(&mut self) -> OsdOp {
        let (has_attrs, has_data, has_omap) = (self.dice.one_in(3), self.dice.one_in(3), self.dice.one_in(4));
        let offset = if has_data { self.dice.pick(&[0u64, 1, 4096]) } else { 0 };
        let key = if has_data { self.name(KEYS) } else { Bytes::new() };
        let cursor = ((has_attrs, offset), (has_data, key, has_omap)).to_bytes(Features::default());
        let most = self.dice.pick(&[0u64, 1, 5, 20, 100, 5_000, 1 << 20]);
        let data = self.input(((1u8, 1u8), cursor, most));
        plain(OpCode::COPY_GET, data)
    }
}
