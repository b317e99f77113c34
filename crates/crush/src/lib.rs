//! CRUSH: object placement, computed identically by clients and daemons.
//!
//! Authority: Ceph's `src/crush` (16.2). Encodings, hashes and choices are bit-exact.
//!
//! Invariants: pure and total; no decoded map makes the mapper loop or panic. This crate knows no OSD map and no
//! pool.

mod binary;
mod choose;
mod classes;
mod edit;
mod generated;
mod hash;
mod links;
mod ln;
mod map;
mod mapper;
mod places;
mod shadows;
mod walk;
mod weight_sets;

pub use binary::LEVELS_MAX;
pub use edit::{EditError, RuleForm};
pub use hash::{ceph_stable_mod, ceph_str_hash_rjenkins, crush_hash32_2, crush_hash32_3, crush_hash32_4};
pub use map::{Bucket, BucketAlg, ChooseArg, CrushMap, Rule, Step, Tunables, WEIGHT_ONE, step};
pub use mapper::ITEM_NONE;
pub use places::PLACES_MAX;
pub use weight_sets::COMPAT_SET;

#[cfg(test)]
mod tests;
