//! `loligo mon-rebuild`: arguments.

use std::path::PathBuf;

use daemon::{KeyType, MonRebuildOptions};

use crate::parse_key_type;

#[derive(clap::Args)]
pub(crate) struct MonRebuildArgs {
    /// The monitor's id: `a` of mon.a.
    #[arg(short, long)]
    id: String,
    /// ceph.conf of the cluster.
    #[arg(short, long, env = "CEPH_CONF", default_value = "/etc/ceph/ceph.conf")]
    conf: PathBuf,
    /// Of every OSD, its data directory, or the file that `loligo store maps --export` made of it on its machine.
    #[arg(required = true, value_name = "PATH")]
    sources: Vec<PathBuf>,
    /// An older copy of the ledger: users, options and all else but the OSD maps come from there.
    #[arg(long, value_name = "FILE")]
    base: Option<PathBuf>,
    /// A keyring whose users are let in with the capabilities that it names, as `ceph auth export` writes it. Without
    /// --base, those in the keyrings of the monitor are let in, too.
    #[arg(long, value_name = "FILE")]
    keyring: Vec<PathBuf>,
    /// Go on without some of the OSDs. What only they know is given up: newer OSD maps, and with them perhaps writes
    /// that no other OSD has.
    #[arg(long)]
    allow_missing: bool,
    /// Epochs to leave out behind the newest map: as many as clients, or OSDs that are missing, may know of.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    epoch_gap: u32,
    /// Type of the keys of a cluster without --base, as it was made with: aes or aes256k.
    #[arg(long, default_value = "aes", value_parser = parse_key_type, value_name = "TYPE", conflicts_with = "base")]
    key_type: KeyType,
}

impl MonRebuildArgs {
    /// Runs it.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        daemon::mon_rebuild(&MonRebuildOptions {
            id: self.id,
            conf: self.conf,
            sources: self.sources,
            base: self.base,
            keyrings: self.keyring,
            allows_missing: self.allow_missing,
            epoch_gap: self.epoch_gap,
            key_type: self.key_type,
        })
    }
}
