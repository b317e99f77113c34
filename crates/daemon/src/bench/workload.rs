//! Which block comes next, and what is written to it.

use bytes::Bytes;
use rand::{Rng, RngCore, rngs::StdRng};

use super::BenchOptions;

/// What a round does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Writes blocks in random order.
    RandWrite,
    /// Reads blocks in random order.
    RandRead,
    /// Writes one object after the other.
    Write,
    /// Reads one object after the other.
    Read,
}

impl Workload {
    /// fio's names.
    pub fn parse(text: &str) -> Result<Workload, String> {
        match text {
            "randwrite" => Ok(Workload::RandWrite),
            "randread" => Ok(Workload::RandRead),
            "write" => Ok(Workload::Write),
            "read" => Ok(Workload::Read),
            _ => Err(format!("{text} is none of randwrite, randread, write, read")),
        }
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Workload::RandWrite => "randwrite",
            Workload::RandRead => "randread",
            Workload::Write => "write",
            Workload::Read => "read",
        }
    }

    pub(crate) fn is_write(self) -> bool {
        matches!(self, Workload::RandWrite | Workload::Write)
    }
}

/// Bytes that do not compress.
pub(super) fn payload(bytes: u64, rng: &mut StdRng) -> Bytes {
    let mut data = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
    rng.fill_bytes(&mut data);
    Bytes::from(data)
}

/// The blocks of a round.
pub(super) struct Stream {
    is_random: bool,
    objects: u64,
    block_bytes: u64,
    blocks_per_object: u64,
    at: u64,
}

impl Stream {
    pub(super) fn new(options: &BenchOptions) -> Stream {
        Stream {
            is_random: matches!(options.workload, Workload::RandWrite | Workload::RandRead),
            objects: options.objects,
            block_bytes: options.block_bytes,
            blocks_per_object: options.object_bytes / options.block_bytes,
            at: 0,
        }
    }

    /// The next block: its object and its offset there, in bytes.
    pub(super) fn next(&mut self, rng: &mut StdRng) -> (u64, u64) {
        let blocks = self.objects * self.blocks_per_object;
        let block = if self.is_random { rng.random_range(0..blocks) } else { self.at % blocks };
        self.at += 1;
        (block / self.blocks_per_object, block % self.blocks_per_object * self.block_bytes)
    }
}
