//! The device reads of loads, in their order, and no more at a time than there is memory for: a client may ask for a
//! thousand large reads at once.

use std::collections::VecDeque;

use super::{Purpose, Store};
use crate::{device::BLOCK, space::Run};

/// A device read that belongs to a load.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataRead {
    /// The load's number, and which of its reads this is.
    pub(super) load: u64,
    pub(super) read: usize,
    pub(super) run: Run,
}

/// Reads that wait for others to end, and the bytes of those that do not.
#[derive(Debug, Default)]
pub(super) struct DataReads {
    waiting: VecDeque<DataRead>,
    reading_bytes: u64,
}

impl Store {
    /// Reads what a load needs, as soon as there is memory for it.
    pub(super) fn read_data(&mut self, read: DataRead) {
        self.data_reads.waiting.push_back(read);
        self.start_data_reads();
    }

    /// The device has answered a read.
    pub(super) fn data_read_done(&mut self, read: DataRead) {
        self.data_reads.reading_bytes -= read.run.count * BLOCK;
        self.start_data_reads();
    }

    fn start_data_reads(&mut self) {
        while let Some(&read) = self.data_reads.waiting.front() {
            let reading_bytes = self.data_reads.reading_bytes + read.run.count * BLOCK;
            // The longest read goes alone if it has to.
            if self.data_reads.reading_bytes > 0 && reading_bytes > self.config.reading_bytes_max {
                return;
            }
            self.data_reads.waiting.pop_front();
            self.data_reads.reading_bytes = reading_bytes;
            self.read_device(read.run, Purpose::Load(read));
        }
    }
}
