//! Ops of cache tiers and of manifest objects, as an OSD answers them in a pool without tiers for objects
//! without manifests (`do_osd_ops`). Here all are: what would make another one is not supported.

use classes::Stop;
use messages::{MOSDOp, OpCode};
use types::Errno;

use super::{Output, Run};

/// True for a request about the pool's cache tier: it is answered where nothing but snapshots is left of an object.
pub(super) fn is_of_cache(op: &MOSDOp) -> bool {
    let is_cache = |code| matches!(code, OpCode::CACHE_FLUSH | OpCode::CACHE_TRY_FLUSH | OpCode::CACHE_EVICT);
    op.ops.iter().any(|step| is_cache(step.code))
}

pub(super) fn refuse_without_tier() -> Result<Output, Stop> {
    Err(Errno::EINVAL.into())
}

impl Run<'_, '_> {
    pub(super) fn tier_promote(&mut self) -> Result<Output, Stop> {
        self.view.check_exists()?;
        Ok(Output::default())
    }

    pub(super) fn tier_flush(&mut self) -> Result<Output, Stop> {
        self.view.check_exists()?;
        Ok(Output::default())
    }

    pub(super) fn tier_evict(&mut self) -> Result<Output, Stop> {
        self.view.check_exists()?;
        Err(Errno::EINVAL.into())
    }

    pub(super) fn unset_manifest(&mut self) -> Result<Output, Stop> {
        self.view.check_exists()?;
        Err(Errno::EOPNOTSUPP.into())
    }
}
