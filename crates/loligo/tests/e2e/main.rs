//! The stock clients against real daemons. One program, as all its tests have what runs clusters in common, which is
//! compiled and linked once; `cargo xtask test` runs each module in a process of its own.

#![allow(clippy::unwrap_used, reason = "a test fails where it fails")]

mod cluster;

mod bench;
mod block_devices;
mod by_hand;
mod capabilities;
mod commands;
mod consumers;
mod failure;
mod go_ceph;
mod hostile;
mod keys;
mod large_objects;
mod logs;
mod merge;
mod mirror;
mod operators;
mod pg_copies;
mod rados;
mod rados_model;
mod rbd;
mod rbd_fsx;
mod rbd_surface;
mod rebalance;
mod rebuild;
mod replica_reads;
mod scrub;
mod split;
mod store_tool;
