//! Which block comes next.

use rand::{Rng, rngs::StdRng};

use super::{BenchOptions, stamps::Place};

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

    /// The next block.
    pub(super) fn next(&mut self, rng: &mut StdRng) -> Place {
        let blocks = self.objects * self.blocks_per_object;
        let block = if self.is_random { rng.random_range(0..blocks) } else { self.at % blocks };
        self.at += 1;
        Place {
            object: block / self.blocks_per_object,
            offset: block % self.blocks_per_object * self.block_bytes,
        }
    }
}
