//! What kinds of ops there are, where execution treats several alike. What changes an object is told by
//! [`OsdOp::may_change`](messages::OsdOp::may_change).

use messages::OpCode;

/// Ops that change something and yet give the object no new user version.
pub(super) fn is_hidden_change(code: OpCode) -> bool {
    matches!(
        code,
        OpCode::WATCH
            | OpCode::UNDIRTY
            | OpCode::COPY_FROM
            | OpCode::COPY_FROM2
            | OpCode::SET_REDIRECT
            | OpCode::TIER_PROMOTE
    )
}

/// Ops that leave the result of the op before them in place when they do not fail: what matters is
/// that of a comparison, 1.
pub(super) fn keeps_result(code: OpCode) -> bool {
    matches!(
        code,
        OpCode::STAT
            | OpCode::MAPEXT
            | OpCode::ASSERT_VER
            | OpCode::NOTIFY
            | OpCode::NOTIFY_ACK
            | OpCode::OMAPGETKEYS
            | OpCode::OMAPGETVALS
            | OpCode::OMAPGETHEADER
            | OpCode::OMAPGETVALSBYKEYS
            | OpCode::OMAP_CMP
    )
}

/// True for ops for which another object's contents are fetched, whatever state theirs is in.
pub(super) fn copies(code: OpCode) -> bool {
    matches!(code, OpCode::COPY_FROM | OpCode::COPY_FROM2 | OpCode::TIER_PROMOTE)
}

/// True for ops on the object itself, whatever it refers to.
pub(super) fn is_of_manifest(code: OpCode) -> bool {
    matches!(
        code,
        OpCode::SET_REDIRECT
            | OpCode::SET_CHUNK
            | OpCode::UNSET_MANIFEST
            | OpCode::TIER_PROMOTE
            | OpCode::TIER_FLUSH
            | OpCode::TIER_EVICT
    )
}
