//! Listings.

use bytes::Bytes;
use codec::{Encode, Features};
use messages::OpCode;

use super::{Generator, XATTRS};
use crate::plan::{Listing, Start};

impl Generator<'_> {
    pub(super) fn listing(&mut self) -> Listing {
        let code = self.dice.pick(&[
            OpCode::PGNLS,
            OpCode::PGNLS,
            OpCode::PGNLS,
            OpCode::PGNLS_FILTER,
            OpCode::PGNLS_FILTER,
            OpCode::PGLS,
            OpCode::PGLS_FILTER,
        ]);
        let is_filtered = matches!(code, OpCode::PGNLS_FILTER | OpCode::PGLS_FILTER);
        let hash = self.dice.pick(&[0u32, 1, 0x4000_0000, 0x8000_0000, 0xdead_beef, u32::MAX]);
        Listing {
            code,
            nspace: self.dice.pick(&[b"".as_slice(), b"ns", b"\x01", b"\x01", b"none"]),
            filter: if is_filtered { self.filter() } else { Bytes::new() },
            start: self.dice.pick(&[
                Start::First,
                Start::First,
                Start::First,
                Start::Hash(hash),
                Start::Hash(hash),
                Start::Last,
                Start::Broken,
            ]),
            count: self.dice.pick(&[11u64, 100, 1_024, 5_000, u64::MAX]),
            snapid: if self.dice.one_in(12) { self.dice.pick(&[0u64, 1, u64::MAX]) } else { u64::MAX - 1 },
        }
    }

    /// A class and a method that nobody reads, the filter's name and what it decodes.
    fn filter(&mut self) -> Bytes {
        let text = |text: &'static str| Bytes::from_static(text.as_bytes());
        let mut out = (text(""), text("")).to_bytes(Features::default()).to_vec();
        let name = self.dice.pick(&[
            "plain",
            "plain",
            "plain",
            "hello.hello",
            "hello.no",
            "none.none",
            "",
            "x",
            "a.",
        ]);
        text(name).encode(&mut out, Features::default());
        let xattr = self.name(XATTRS);
        let xattr = if self.dice.one_in(6) { xattr } else { Bytes::from([b"_", &xattr[..]].concat()) };
        (xattr, self.value()).encode(&mut out, Features::default());
        if self.dice.one_in(20) {
            out.truncate(self.dice.below(out.len() as u64) as usize);
        }
        Bytes::from(out)
    }
}
