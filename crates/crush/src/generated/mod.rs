//! Tables that are data, not code.

pub(crate) mod ln_tables;
