//! How many requests of clients were served, as `perf dump` tells it. PGs count; this adds up.

use std::iter::Sum;

use types::PgStatSum;

/// Requests of clients, and bytes of their data. One that reads and changes counts as a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpCounts {
    /// Reads.
    pub reads: u64,
    /// Bytes that they found.
    pub read_bytes: u64,
    /// Changes.
    pub writes: u64,
    /// Bytes that came with them.
    pub write_bytes: u64,
}

impl From<PgStatSum> for OpCounts {
    fn from(sum: PgStatSum) -> OpCounts {
        let PgStatSum { reads, read_bytes, writes, write_bytes, .. } = sum;
        OpCounts { reads, read_bytes, writes, write_bytes }
    }
}

impl Sum for OpCounts {
    fn sum<I: Iterator<Item = OpCounts>>(counts: I) -> OpCounts {
        counts.fold(OpCounts::default(), |a, b| OpCounts {
            reads: a.reads + b.reads,
            read_bytes: a.read_bytes + b.read_bytes,
            writes: a.writes + b.writes,
            write_bytes: a.write_bytes + b.write_bytes,
        })
    }
}
