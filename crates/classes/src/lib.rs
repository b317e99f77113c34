//! Object classes: server-side methods over a small view of one object (Ceph's `src/cls`).
//!
//! Invariants: a method is synchronous, deterministic code; it sees one object through
//! [`ObjectView`] and changes it through the view's buffer. It knows no PG, no store, no message.

mod cas;
mod cmpomap;
mod comparison;
mod hello;
mod journal;
mod keys;
mod lock;
mod log;
mod numops;
mod queue;
mod rbd;
mod refcount;
pub mod registry;
mod sem_set;
#[cfg(test)]
mod test_view;
#[cfg(test)]
mod tests {
    mod damage;
}
mod time_key;
mod timeindex;
mod two_phase_queue;
mod user;
mod version;
mod view;

pub use comparison::{cmp_values, holds};
pub use registry::{Method, method};
pub use view::{CallContext, ObjectStat, ObjectView, Stop};
