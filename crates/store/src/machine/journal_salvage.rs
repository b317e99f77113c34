//! Reading the journal where the device cannot read all of it.
//!
//! A block that was being written when the power failed may be unreadable for good. A larger read that includes it
//! fails, so the journal is then read block by block, each several times if need be, and an unreadable block counts as
//! zeros: no record, as if it had been torn. If records that were durable follow, that is a gap like any other
//! ([`super::journal_end`]). More unreadable blocks than a power cut leaves mean that the device fails: they may have
//! held the journal's end, and nothing behind them would tell.

use bytes::Bytes;
use codec::BLOCK_BYTES;
use types::Token;

use super::{Mount, MountError, pages::READS_MAX};
use crate::{
    DeviceError,
    device::{BLOCK, spot},
    space::Run,
};

/// Unreadable blocks of the journal that do not fail a mount.
const BAD_BLOCKS_MAX: u64 = 16;

/// What is being read of the ring, by token.
#[derive(Debug)]
pub(super) enum RingRead {
    Whole(Run),
    /// The blocks before `next` have been read, or not; this one is on its way.
    Blocks {
        run: Run,
        next: u64,
        /// How often it was read by itself, this time included.
        reads: u32,
        data: Vec<u8>,
    },
}

impl Mount {
    /// Reads blocks of the ring; [`Mount::ring_read`] takes the answer.
    pub(super) fn read_ring(&mut self, run: Run) {
        let token = self.read(run);
        self.ring_reads.insert(token, RingRead::Whole(run));
    }

    /// An answer came: all that was asked for, or none if there is more to come.
    pub(super) fn ring_read(
        &mut self,
        token: Token,
        result: Result<Option<Bytes>, DeviceError>,
    ) -> Result<Option<Bytes>, MountError> {
        let Some(reading) = self.ring_reads.remove(&token.0) else { return Ok(None) };
        let (run, next, mut data) = match (reading, result) {
            (RingRead::Whole(_), Ok(data)) => return Ok(Some(data.unwrap_or_default())),
            (RingRead::Whole(run), Err(_)) => (run, run.start, Vec::new()),
            (RingRead::Blocks { run, next, mut data, .. }, Ok(block)) => {
                data.extend_from_slice(&block.unwrap_or_default());
                (run, next + 1, data)
            }
            // A device, or the path to it, may fail once, and what counts as zeros may have been acknowledged.
            (RingRead::Blocks { run, next, reads, data }, Err(error)) if reads < READS_MAX => {
                let at = spot(next * BLOCK);
                tracing::warn!(%error, at, reads, "a block of the journal cannot be read; it is read again");
                self.read_ring_block(run, next, reads + 1, data);
                return Ok(None);
            }
            (RingRead::Blocks { run, next, data, .. }, Err(error)) => {
                self.bad_blocks.insert(next);
                if self.bad_blocks.len() as u64 > BAD_BLOCKS_MAX {
                    return Err(MountError::Device(error));
                }
                (run, next + 1, data)
            }
        };
        data.resize((next - run.start) as usize * BLOCK_BYTES, 0);
        if next == run.end() {
            return Ok(Some(data.into()));
        }
        self.read_ring_block(run, next, 1, data);
        Ok(None)
    }

    fn read_ring_block(&mut self, run: Run, next: u64, reads: u32, data: Vec<u8>) {
        let token = self.read(Run { start: next, count: 1 });
        self.ring_reads.insert(token, RingRead::Blocks { run, next, reads, data });
    }
}
