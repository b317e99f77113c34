//! How long requests of clients took, by their size: Ceph's two-dimensional histograms. A PG uses few of their 4,096
//! cells, so it keeps only those.
//!
//! Authority: `OSD::create_logger`, `PrimaryLogPG::log_op_stats`, `PerfHistogram` (16.2).

/// Ceph's name and description of each histogram.
pub const HISTOGRAMS: [(&str, &str); 4] = [
    ("op_r_latency_out_bytes_histogram", "Requests that read, by their time and the bytes that they read"),
    (
        "op_w_latency_in_bytes_histogram",
        "Requests that change, by their time and the bytes that came with them",
    ),
    (
        "op_rw_latency_in_bytes_histogram",
        "Requests that read and change, by their time and the bytes that came with them",
    ),
    (
        "op_rw_latency_out_bytes_histogram",
        "Requests that read and change, by their time and the bytes that they read",
    ),
];

/// Their numbers.
pub(crate) const R_OUT: u16 = 0;
pub(crate) const W_IN: u16 = 1;
pub(crate) const RW_IN: u16 = 2;
pub(crate) const RW_OUT: u16 = 3;

/// Buckets of each axis.
pub const BUCKETS: usize = 32;
/// Nanoseconds in the second bucket, and from there on twice as many in each (Ceph calls them microseconds).
pub const NANOS_QUANT: u64 = 100_000;
/// Bytes, the same way.
pub const BYTES_QUANT: u64 = 512;

/// The bucket of a value: the first is for what is below zero.
fn bucket(value: u64, quant: u64) -> u16 {
    let above = value / quant;
    (1 + (u64::BITS - above.leading_zeros()) as u16).min(BUCKETS as u16 - 1)
}

/// Requests that were counted, by histogram and buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpHistograms {
    /// The cell (histogram, time, size) and how many are in it; what is often counted comes to the front.
    cells: Vec<(u16, u64)>,
}

impl OpHistograms {
    /// One more request, by its number in [`HISTOGRAMS`].
    #[inline]
    pub(crate) fn note(&mut self, histogram: u16, nanos: u64, bytes: u64) {
        let cell = histogram << 10 | bucket(nanos, NANOS_QUANT) << 5 | bucket(bytes, BYTES_QUANT);
        match self.cells.iter().position(|(of, _)| *of == cell) {
            Some(at) => {
                self.cells[at].1 += 1;
                if at > 0 {
                    self.cells.swap(at, at - 1);
                }
            }
            None => self.cells.push((cell, 1)),
        }
    }

    /// Adds what was counted elsewhere.
    pub fn add(&mut self, more: &OpHistograms) {
        for (cell, count) in &more.cells {
            match self.cells.iter_mut().find(|(of, _)| of == cell) {
                Some((_, sum)) => *sum += count,
                None => self.cells.push((*cell, *count)),
            }
        }
    }

    /// Takes away what was counted before.
    pub fn since(&mut self, base: &OpHistograms) {
        for (cell, count) in &base.cells {
            if let Some((_, sum)) = self.cells.iter_mut().find(|(of, _)| of == cell) {
                *sum = sum.saturating_sub(*count);
            }
        }
    }

    /// A histogram's rows: one for each bucket of time, in it a number for each bucket of size.
    pub fn rows(&self, histogram: usize) -> Vec<[u64; BUCKETS]> {
        let mut rows = vec![[0; BUCKETS]; BUCKETS];
        for (cell, count) in self.cells.iter().filter(|(cell, _)| usize::from(cell >> 10) == histogram) {
            rows[usize::from(cell >> 5) % BUCKETS][usize::from(*cell) % BUCKETS] = *count;
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_the_bucket_where_ceph_puts_it() {
        // The bounds that 16.2.15 shows.
        for (value, expect) in
            [(0, 1), (511, 1), (512, 2), (1_023, 2), (1_024, 3), (4_096, 5), (u64::MAX, 31)]
        {
            assert_eq!(bucket(value, BYTES_QUANT), expect, "{value}");
        }
        assert_eq!(bucket(274_877_906_943, BYTES_QUANT), 30);
        assert_eq!(bucket(274_877_906_944, BYTES_QUANT), 31);
        // Observed: most changes of 4 KiB that took six to twelve milliseconds were in bucket 8.
        assert_eq!(bucket(8_000_000, NANOS_QUANT), 8);
    }

    #[test]
    fn what_was_counted_adds_up() {
        let mut one = OpHistograms::default();
        (0..3).for_each(|_| one.note(1, 150_000, 4_096));
        one.note(1, 0, 0);
        one.note(1, 0, 0);
        one.note(3, 0, 4_096);
        let base = one.clone();
        let mut all = OpHistograms::default();
        all.add(&one);
        all.add(&one);
        assert_eq!((all.rows(1)[2][5], all.rows(1)[1][1], all.rows(3)[1][5]), (6, 4, 2));
        assert_eq!(all.rows(0), vec![[0; BUCKETS]; BUCKETS]);
        all.since(&base);
        assert_eq!(all.rows(1)[2][5], 3);
    }
}
