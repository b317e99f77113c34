//! Ops of cache tiers, as an OSD answers them in a pool without tiers (`do_osd_ops`): here all are.

use classes::Stop;
use messages::{MOSDOp, OpCode};
use types::Errno;

use super::Output;

/// True for a request about the pool's cache tier: it is answered where nothing but snapshots is left of an object.
pub(super) fn is_of_cache(op: &MOSDOp) -> bool {
    let is_cache = |code| matches!(code, OpCode::CACHE_FLUSH | OpCode::CACHE_TRY_FLUSH | OpCode::CACHE_EVICT);
    op.ops.iter().any(|step| is_cache(step.code))
}

pub(super) fn refuse_without_tier() -> Result<Output, Stop> {
    Err(Errno::EINVAL.into())
}
