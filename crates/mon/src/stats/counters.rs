//! What a PG has done, as its primaries count it. Each of them counts from zero when it loads the PG, and a replica
//! counts the reads that it serves, so what a report says is no total: only differences between reports of the same
//! process are.

use types::{OsdId, PgStatSum};

/// The primary that made a report: the OSD, and the epoch in which it came up. An OSD that is marked down and boots
/// again is another one, even if its process is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reporter {
    osd: OsdId,
    up_from: u32,
}

impl Reporter {
    /// The upper half of a report's number is the epoch in which the OSD came up.
    pub(super) fn new(osd: OsdId, seq: u64) -> Reporter {
        Reporter { osd, up_from: (seq >> 32) as u32 }
    }
}

/// The counters of a PG, of a pool, or of what an OSD leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) reads: u64,
    pub(crate) read_bytes: u64,
    pub(crate) writes: u64,
    pub(crate) write_bytes: u64,
    pub(crate) objects_recovered: u64,
    pub(crate) bytes_recovered: u64,
    pub(crate) objects_repaired: u64,
}

impl Counters {
    pub(super) fn of(sum: &PgStatSum) -> Counters {
        Counters {
            reads: sum.reads,
            read_bytes: sum.read_bytes,
            writes: sum.writes,
            write_bytes: sum.write_bytes,
            objects_recovered: sum.objects_recovered,
            bytes_recovered: sum.bytes_recovered,
            objects_repaired: sum.objects_repaired,
        }
    }

    /// `sum` with these counters instead of its own.
    pub(super) fn in_sum(self, sum: PgStatSum) -> PgStatSum {
        PgStatSum {
            reads: self.reads,
            read_bytes: self.read_bytes,
            writes: self.writes,
            write_bytes: self.write_bytes,
            objects_recovered: self.objects_recovered,
            bytes_recovered: self.bytes_recovered,
            objects_repaired: self.objects_repaired,
            ..sum
        }
    }

    fn zip(self, other: Counters, both: impl Fn(u64, u64) -> u64) -> Counters {
        Counters {
            reads: both(self.reads, other.reads),
            read_bytes: both(self.read_bytes, other.read_bytes),
            writes: both(self.writes, other.writes),
            write_bytes: both(self.write_bytes, other.write_bytes),
            objects_recovered: both(self.objects_recovered, other.objects_recovered),
            bytes_recovered: both(self.bytes_recovered, other.bytes_recovered),
            objects_repaired: both(self.objects_repaired, other.objects_repaired),
        }
    }

    /// Sum of two.
    pub(super) fn plus(self, other: Counters) -> Counters {
        self.zip(other, u64::saturating_add)
    }

    /// What has been counted since `before`; nothing where less is counted now.
    pub(super) fn since(self, before: Counters) -> Counters {
        self.zip(before, u64::saturating_sub)
    }
}

/// The counters in the last report on a PG, and the primary that made it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    by: Reporter,
    counters: Counters,
}

impl Counted {
    pub(super) fn new(by: Reporter, sum: &PgStatSum) -> Counted {
        Counted { by, counters: Counters::of(sum) }
    }

    /// True for a report of this OSD, in whichever life.
    pub(super) fn is_of(&self, osd: OsdId) -> bool {
        self.by.osd == osd
    }

    /// What the PG has done between two reports on it.
    pub(super) fn since(&self, before: &Counted) -> Counters {
        if self.by != before.by {
            // What another primary says may have been counted long ago. It reports as soon as it leads: little is lost.
            return Counters::default();
        }
        let more = self.counters.since(before.counters);
        // Where any counter fell, the process has loaded the PG anew since then.
        if more.plus(before.counters) == self.counters { more } else { self.counters }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(osd: i32, up_from: u64, reads: u64, writes: u64) -> Counted {
        let sum = PgStatSum { reads, writes, bytes: 7, ..PgStatSum::default() };
        Counted::new(Reporter::new(OsdId(osd), up_from << 32 | reads), &sum)
    }

    fn done(reads: u64, writes: u64) -> Counters {
        Counters { reads, writes, ..Counters::default() }
    }

    #[test]
    fn reports_of_one_process_are_compared_and_others_are_not() {
        let before = counted(1, 4, 10, 20);
        assert_eq!(counted(1, 4, 13, 20).since(&before), done(3, 0));
        assert_eq!(counted(2, 4, 900, 800).since(&before), done(0, 0), "another OSD");
        assert_eq!(counted(1, 5, 900, 800).since(&before), done(0, 0), "another process");
        assert_eq!(counted(1, 4, 2, 30).since(&before), done(2, 30), "the PG was loaded anew");
    }

    #[test]
    fn counters_replace_those_of_a_sum_and_nothing_else() {
        let sum = PgStatSum { reads: 1, bytes: 7, objects_repaired: 3, ..PgStatSum::default() };
        let other = PgStatSum { reads: 5, bytes: 7, ..PgStatSum::default() };
        assert_eq!(done(5, 0).in_sum(sum), other);
        assert_eq!(Counters::of(&sum).in_sum(sum), sum);
    }
}
