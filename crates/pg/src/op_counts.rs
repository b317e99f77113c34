//! Counts of clients' requests, as `perf dump` tells them. A request is counted when it is answered, so that its time
//! is known; refused ones are not counted.

use std::{iter::Sum, ops::AddAssign};

use messages::{MOSDOp, OsdOp};

use crate::CommitTimes;

/// Requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// How many.
    pub ops: u64,
    /// Bytes that came with them.
    pub in_bytes: u64,
    /// Bytes that they read.
    pub out_bytes: u64,
    /// Nanoseconds from their coming to their answer, all together.
    pub nanos: u64,
}

impl AddAssign for Served {
    fn add_assign(&mut self, more: Served) {
        self.ops += more.ops;
        self.in_bytes += more.in_bytes;
        self.out_bytes += more.out_bytes;
        self.nanos = self.nanos.saturating_add(more.nanos);
    }
}

/// Requests by what they do, as Ceph parts them, and changes that came from primaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpCounts {
    /// Those that read.
    pub reads: Served,
    /// Those that change.
    pub writes: Served,
    /// Those that do both, as most calls of classes that change anything.
    pub both: Served,
    /// Changes that primaries sent, and how long they took to become durable here.
    pub subops: CommitTimes,
}

/// A request that was counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noted {
    pub(crate) is_read: bool,
    pub(crate) is_change: bool,
    pub(crate) in_bytes: u64,
    pub(crate) out_bytes: u64,
}

impl OpCounts {
    /// One more that is answered with `ops` and took `nanos`; what it was.
    #[inline]
    pub(crate) fn note(&mut self, op: &MOSDOp, ops: &[OsdOp], is_change: bool, nanos: u64) -> Noted {
        let is_change = is_change || op.says_it_writes();
        let is_read = op.ops.iter().any(|step| step.code.is_read());
        let bytes = |steps: &[OsdOp]| steps.iter().map(|step| step.data.len() as u64).sum();
        let kind = match (is_read, is_change) {
            (true, true) => &mut self.both,
            (false, true) => &mut self.writes,
            (_, false) => &mut self.reads,
        };
        let in_bytes = if is_change { bytes(&op.ops) } else { 0 };
        let out_bytes = if is_read { ops.iter().map(|step| step.data_bytes() as u64).sum() } else { 0 };
        *kind += Served { ops: 1, in_bytes, out_bytes, nanos };
        Noted { is_read, is_change, in_bytes, out_bytes }
    }

    /// All requests together.
    pub fn all(&self) -> Served {
        let mut all = self.reads;
        all += self.writes;
        all += self.both;
        all
    }
}

impl Sum for OpCounts {
    fn sum<I: Iterator<Item = OpCounts>>(counts: I) -> OpCounts {
        counts.fold(OpCounts::default(), |mut sum, more| {
            sum.reads += more.reads;
            sum.writes += more.writes;
            sum.both += more.both;
            sum.subops = [sum.subops, more.subops].into_iter().sum();
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use messages::OpCode;

    use super::*;

    #[test]
    fn a_request_counts_as_what_its_ops_do() {
        let request = |codes: &[OpCode]| MOSDOp {
            ops: codes.iter().map(|code| OsdOp { data: "abc".into(), ..OsdOp::new(*code) }).collect(),
            ..MOSDOp::default()
        };
        let mut counts = OpCounts::default();
        let answer = [OsdOp { data: "12".into(), ..OsdOp::new(OpCode::READ) }];
        counts.note(&request(&[OpCode::READ]), &answer, false, 10);
        counts.note(&request(&[OpCode::WRITE]), &[], true, 20);
        counts.note(&request(&[OpCode::CALL]), &answer, false, 1);
        counts.note(&request(&[OpCode::CALL, OpCode::WRITE]), &answer, true, 40);
        let served = |ops, in_bytes, out_bytes, nanos| Served { ops, in_bytes, out_bytes, nanos };
        assert_eq!(counts.reads, served(2, 0, 4, 11));
        assert_eq!(counts.writes, served(1, 3, 0, 20));
        assert_eq!(counts.both, served(1, 6, 2, 40));
        let twice: OpCounts = [counts, counts].into_iter().sum();
        assert_eq!(twice.all(), served(8, 18, 12, 142));
    }
}
