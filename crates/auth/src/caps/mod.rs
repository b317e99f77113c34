//! Capabilities: what an entity may do on a service (`MonCap`, `OSDCap`, `MgrCap`).

mod grammar;
mod mgr;
mod mon;
mod mon_profiles;
mod osd;

use thiserror::Error;

pub use mgr::{MgrAccess, MgrCaps};
pub use mon::{MonAccess, MonCaps};
pub use osd::{ClassCall, OsdAccess, OsdCaps};

/// A text that is no capability; monitors answer EINVAL.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("osd or mon capability parse failed, stopped at '{at}'")]
pub struct CapsError {
    /// The part that was not understood.
    pub at: String,
}
