//! The machine driven with an in-memory ledger.

mod attacks;
mod balancer;
mod cluster;
mod commands;
mod config;
mod crush_rules;
mod file_systems;
mod health;
mod json_keys;
mod keys;
mod manager;
mod odd_cases;
mod operators;
mod osd_safety;
mod osds;
mod pg_merge;
mod pg_temp;
mod pools;
mod prometheus;
mod rbd_support;
mod restart;
mod scrubs;
mod snapshots;
mod surface;
mod tell;
mod upmaps;
