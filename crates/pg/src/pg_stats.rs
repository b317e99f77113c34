//! What a PG counts and times of what it does. All of it begins anew when the PG is loaded.

use messages::{MOSDOp, OsdOp};
use types::{PgStatSum, PgState, PgTimes, UTime};

use crate::{
    CommitTimes, OpCounts, OpHistograms,
    op_histogram::{R_OUT, RW_IN, RW_OUT, W_IN},
};

/// What a copy of a PG has done since it was loaded; what it holds is in its info.
#[derive(Debug, Default)]
pub(crate) struct PgStats {
    /// By Ceph's names, whether it led or not.
    pub(crate) sum: PgStatSum,
    pub(crate) commit_times: CommitTimes,
    pub(crate) ops: OpCounts,
    pub(crate) histograms: OpHistograms,
    /// Copies here that could not be read and are replaced.
    pub(crate) copies_repaired: u64,
    /// Reports that were made.
    pub(crate) reported_seq: u64,
    pub(crate) stamps: Stamps,
}

impl PgStats {
    /// Counts a request that is answered with `ops` after `nanos`.
    #[inline]
    pub(crate) fn note_served(&mut self, op: &MOSDOp, ops: &[OsdOp], is_change: bool, nanos: u64) {
        let of = self.ops.note(op, ops, is_change, nanos);
        match (of.is_read, of.is_change) {
            (true, true) => {
                self.histograms.note(RW_IN, nanos, of.in_bytes);
                self.histograms.note(RW_OUT, nanos, of.out_bytes);
            }
            (false, true) => self.histograms.note(W_IN, nanos, of.in_bytes),
            (_, false) => self.histograms.note(R_OUT, nanos, of.out_bytes),
        }
    }
}

/// When the PG was last in each kind of state.
#[derive(Debug, Default)]
pub(crate) struct Stamps {
    pub(crate) state: PgState,
    pub(crate) change: UTime,
    pub(crate) active: UTime,
    pub(crate) clean: UTime,
    pub(crate) others: PgTimes,
}

impl Stamps {
    /// The PG is in this state now. True if that is another one than before.
    pub(crate) fn enter(&mut self, state: PgState, wall: UTime) -> bool {
        let is_new = state != self.state;
        if is_new {
            // Until now it was in the one before.
            self.note(self.state, wall);
            self.note(state, wall);
            (self.state, self.change) = (state, wall);
        }
        is_new
    }

    /// The PG is in this state, as it was.
    pub(crate) fn note(&mut self, state: PgState, wall: UTime) {
        if self.others == PgTimes::default() {
            // The states before the PG was loaded are not known: any that it is not in now counts as left at this time.
            self.others = PgTimes::at(wall);
            (self.active, self.clean) = (wall, wall);
        }
        let was = self.state;
        if state.has(PgState::ACTIVE) {
            self.active = wall;
            if !was.has(PgState::ACTIVE) {
                self.others.became_active = wall;
            }
        }
        let has_peered = |state: PgState| state.has(PgState::ACTIVE) || state.has(PgState::PEERED);
        if has_peered(state) {
            self.others.peered = wall;
            if !has_peered(was) {
                self.others.became_peered = wall;
            }
        }
        if state.has(PgState::CLEAN) {
            self.clean = wall;
        }
        if !state.has(PgState::DEGRADED) {
            self.others.undegraded = wall;
        }
        if !state.has(PgState::UNDERSIZED) {
            self.others.fullsized = wall;
        }
    }
}
