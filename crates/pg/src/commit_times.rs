//! How long changes take to become durable here: what `ceph osd perf` is made of.

use std::{iter::Sum, time::Duration};

/// Changes that became durable, and how long that took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitTimes {
    /// How many.
    pub count: u64,
    /// Nanoseconds from handing them to the store, all together.
    pub nanos: u64,
}

impl CommitTimes {
    /// One more.
    pub(crate) fn note(&mut self, took: Duration) {
        self.count += 1;
        self.nanos += u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    }

    /// The mean since `before`, in nanoseconds; 0 without any.
    pub fn mean_since(self, before: CommitTimes) -> u64 {
        let nanos = self.nanos.saturating_sub(before.nanos);
        nanos.checked_div(self.count.saturating_sub(before.count)).unwrap_or(0)
    }
}

impl Sum for CommitTimes {
    fn sum<I: Iterator<Item = CommitTimes>>(times: I) -> CommitTimes {
        times.fold(CommitTimes::default(), |a, b| CommitTimes {
            count: a.count + b.count,
            nanos: a.nanos + b.nanos,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_that_of_what_came_since() {
        let mut times = CommitTimes::default();
        assert_eq!(times.mean_since(times), 0);
        times.note(Duration::from_nanos(100));
        let before = times;
        times.note(Duration::from_nanos(10));
        times.note(Duration::from_nanos(20));
        assert_eq!(times.mean_since(before), 15);
        assert_eq!([times, before].into_iter().sum::<CommitTimes>().nanos, 230);
    }
}
