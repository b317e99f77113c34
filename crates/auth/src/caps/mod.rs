//! Capabilities: what an entity may do on a service (`MonCap`, `OSDCap`, `MgrCap`).

mod constraint;
mod grammar;
mod grants;
mod mds;
mod mgr;
mod mon;
mod mon_profiles;
mod osd;

use thiserror::Error;

pub use mds::check_mds_caps;
pub use mgr::{MgrAccess, MgrCaps};
pub use mon::{MonAccess, MonCaps};
pub use osd::{ClassCall, OsdAccess, OsdCaps};

/// A text that is no capability; monitors answer EINVAL.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CapsError {
    /// It does not read on.
    #[error("capability parse failed, stopped at '{at}'")]
    Syntax {
        /// The part that was not understood.
        at: String,
    },
    /// A profile that does not exist, or that does not take these arguments.
    #[error("{0}")]
    Profile(String),
}
