//! Runs the pure machines on reactors: executes their effects, reads the configuration, keeps the monitor's ledger.
//!
//! Invariant: decides nothing; what happens follows from the machines' effects.

mod admin_socket;
mod bench;
mod bind_ports;
mod ceph_conf;
mod client_io;
mod client_runner;
mod clock;
mod cluster_folder;
mod data_folder;
mod device;
mod device_paths;
mod device_share;
mod durable;
mod embedded_ledger;
mod exec_child;
mod file_space;
mod host;
mod interrupt;
mod ledger_thread;
mod limits;
mod log_levels;
mod manager_io;
mod manager_port;
mod memory;
mod metrics_port;
mod mkfs;
mod mon_daemon;
mod mon_rebuild;
mod new_cluster;
mod new_stores;
mod osd_daemon;
mod own_addresses;
mod pid_file;
mod private;
mod rbd_runs;
mod signatures;
mod size;
mod split_commands;
mod stop;
mod store_owner;
mod store_tool;
mod undo;
mod unfinished;
mod up;
mod wire;

pub use bench::{BenchOptions, Workload, bench};
pub use ceph_conf::CephConf;
pub use client_runner::ClientRunner;
pub use device_paths::NamedDevices;
pub use exec_child::{EXEC_CHILD, exec_child};
pub use limits::raise_limits;
pub use log_levels::set_log_filter;
pub use memory::set_allocator;
pub use mkfs::{MkfsOptions, mkfs};
pub use mon_daemon::run as run_mon;
pub use mon_rebuild::{MonRebuildOptions, mon_rebuild};
pub use osd_daemon::run as run_osd;
pub use store_tool::{
    DumpOptions, ObjectsOptions, StoreBenchOptions, StoreTarget, store_bench, store_dump, store_export,
    store_fsck, store_import, store_maps, store_objects,
};
pub use types::{EntityName, EntityType, KeyType};
pub use up::{UpOptions, about_keys, parse_cpus, up};
