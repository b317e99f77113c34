//! `loligo store`: arguments.

use std::{path::PathBuf, time::Duration};

use daemon::{DumpOptions, NamedDevices, ObjectsOptions, StoreBenchOptions, StoreTarget, Workload};

/// The commands.
#[derive(clap::Subcommand)]
pub(crate) enum StoreCommand {
    /// Check a store without changing it.
    ///
    /// Reads the superblocks, every page of the index and the journal, and verifies their checksums; that no
    /// block is used twice, that none is lost, and that the store's counters are right. With --deep it also reads
    /// all data and verifies the checksum of every 4 KiB.
    ///
    /// Prints what the store holds and, line by line, what is wrong. What a crash may leave, and the next start
    /// of the OSD mends, is a note and no problem. Exit code 0: the store is sound. 1: something is wrong, or the
    /// store could not be read. An OSD whose store has problems is best replaced under its id, on the same device
    /// (docs/operating.md, "Replacing a failed device": mark it out, wait, stop it, `ceph osd destroy`, make its key
    /// and its store anew): the cluster fills it from the other copies.
    Fsck(FsckArgs),
    /// Show what is in a store.
    ///
    /// Without more arguments the superblock and the collections (PGs, by pool and seed; `meta` is the OSD's
    /// own). --objects lists objects, --object shows everything about one: size, extents on the device with their
    /// checksums, what is pending, xattrs, omap. --journal shows the records that the last checkpoint does not
    /// hold. Bytes that are no ASCII text are escaped, as in \x00.
    Dump(DumpArgs),
    /// Show which OSD maps an OSD keeps, and export what it knows of its cluster.
    ///
    /// With --export it writes a new file with the maps, the names of the PGs and the OSD's key, with which `loligo
    /// mon-rebuild` makes a lost ledger anew on the monitor's machine.
    Maps(MapsArgs),
    /// Write the copy of a PG to a file, for another OSD.
    ///
    /// For a PG whose other copies are lost, or older, and whose OSD does not start any more. The store is not changed.
    /// Objects that cannot be read are named, and are missing in the copy, so that the PG looks for them elsewhere.
    /// See docs/operating.md, "When an OSD with the last copy does not start".
    Export(ExportArgs),
    /// Take the copy of a PG that `loligo store export` wrote into the store of another OSD.
    ///
    /// That OSD must have no copy of the PG, and OSD maps at least as new as the copy. It tells the PG's primary of the
    /// copy when it starts.
    Import(ImportArgs),
    /// Measure a store without network and PGs, beside its raw device.
    ///
    /// Writes objects of 4 MiB to a collection of its own, runs 4 KiB randwrite and randread and 4 MiB write and
    /// read at each depth, then the same on the raw device (O_DIRECT; writes durable, as RWF_DSYNC), over the blocks
    /// of these objects, and removes them. Objects of PGs are not touched; the OSD starts afterwards as before.
    Bench(BenchArgs),
    /// Measure a store with more objects than memory holds.
    ///
    /// Makes a store in a new file, fills it with small objects, measures 4 KiB reads and writes of objects whose
    /// index entries are in memory and of any, and how long a mount takes after a kill and after an orderly end; all
    /// under a memory target, as an OSD keeps it. Prints JSON and removes the file.
    Objects(ObjectsArgs),
}

#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct TargetArgs {
    /// The OSD's id: `0` of osd.0. It must not run.
    #[arg(short, long, required_unless_present = "device")]
    id: Option<String>,
    /// ceph.conf of the cluster.
    #[arg(short, long, env = "CEPH_CONF", default_value = "/etc/ceph/ceph.conf")]
    conf: PathBuf,
    /// The device or file itself, instead of --id.
    #[arg(long, value_name = "PATH", conflicts_with = "id")]
    device: Option<PathBuf>,
    /// Which store of an OSD with several reactors, from 0; without it fsck checks all, others take the first.
    #[arg(long, value_name = "N")]
    reactor: Option<u16>,
    /// With --device: the device of its journal, if it has one of its own.
    #[arg(long, value_name = "PATH", requires = "device")]
    journal_device: Option<PathBuf>,
    /// With --device: the device of its index, if it has one of its own.
    #[arg(long, value_name = "PATH", requires = "device")]
    index_device: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct FsckArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Read all data, too.
    #[arg(long)]
    deep: bool,
    /// How to print.
    #[arg(long, value_parser = ["plain", "json"], default_value = "plain")]
    format: String,
}

#[derive(clap::Args)]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Only this collection: a PG's name as 1.a, or meta.
    #[arg(long, value_name = "PG")]
    collection: Option<String>,
    /// List the objects.
    #[arg(long)]
    objects: bool,
    /// Show all about the objects (head and clones) of this name.
    #[arg(long, value_name = "NAME")]
    object: Option<String>,
    /// Show the journal's records.
    #[arg(long)]
    journal: bool,
    /// How to print.
    #[arg(long, value_parser = ["plain", "json"], default_value = "plain")]
    format: String,
}

#[derive(clap::Args)]
pub(crate) struct MapsArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// The file to be made.
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// The PG, such as 1.a.
    #[arg(long)]
    pg: String,
    /// Write it though the store's index or journal is damaged: what that hides is missing, or old, without a sign
    #[arg(long)]
    despite_damage: bool,
    /// The file to be made.
    file: PathBuf,
}

#[derive(clap::Args)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Take it though the OSD lacks maps: what others may have written to the PG meanwhile is lost without a sign
    #[arg(long)]
    despite_gap: bool,
    /// The file.
    file: PathBuf,
}

#[derive(clap::Args)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Requests in flight, a round for each number.
    #[arg(long, value_delimiter = ',', default_value = "1,16")]
    depth: Vec<usize>,
    /// Seconds of a round.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// How many objects of 4 MiB.
    #[arg(long, default_value_t = 64)]
    objects: u64,
    /// Only this of randwrite, randread, write and read.
    #[arg(long, value_name = "RW", value_parser = Workload::parse)]
    only: Option<Workload>,
    /// Print JSON: also the latencies by what the store did beside (flushes, checkpoints), and their curve.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub(crate) struct ObjectsArgs {
    /// The file to be made. It is sparse, and needs about 1 KiB for each object.
    #[arg(long, value_name = "PATH")]
    file: PathBuf,
    /// How many objects.
    #[arg(long, default_value_t = 10_000_000)]
    objects: u64,
    /// Bytes of memory (`osd_memory_target`).
    #[arg(long, default_value_t = 512 << 20)]
    memory: u64,
    /// Requests in flight.
    #[arg(long, default_value_t = 32)]
    depth: usize,
    /// Seconds of a round.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
}

impl From<TargetArgs> for StoreTarget {
    fn from(args: TargetArgs) -> StoreTarget {
        let devices =
            NamedDevices { main: args.device, journal: args.journal_device, index: args.index_device };
        StoreTarget { id: args.id, conf: args.conf, reactor: args.reactor, devices }
    }
}

impl StoreCommand {
    /// Runs it.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            StoreCommand::Fsck(args) => {
                daemon::store_fsck(&args.target.into(), args.deep, args.format == "json")
            }
            StoreCommand::Dump(args) => {
                let options = DumpOptions {
                    collection: args.collection,
                    has_objects: args.objects,
                    object: args.object,
                    has_journal: args.journal,
                    is_json: args.format == "json",
                };
                daemon::store_dump(&args.target.into(), &options)
            }
            StoreCommand::Maps(args) => daemon::store_maps(&args.target.into(), args.export.as_deref()),
            StoreCommand::Export(args) => {
                daemon::store_export(&args.target.into(), &args.pg, &args.file, args.despite_damage)
            }
            StoreCommand::Import(args) => {
                daemon::store_import(&args.target.into(), &args.file, args.despite_gap)
            }
            StoreCommand::Objects(args) => daemon::store_objects(&ObjectsOptions {
                file: args.file,
                objects: args.objects,
                memory_bytes: args.memory,
                depth: args.depth,
                duration: Duration::try_from_secs_f64(args.seconds)?,
            }),
            StoreCommand::Bench(args) => {
                let options = StoreBenchOptions {
                    depths: args.depth,
                    duration: Duration::try_from_secs_f64(args.seconds)?,
                    objects: args.objects,
                    only: args.only,
                    is_json: args.json,
                };
                daemon::store_bench(&args.target.into(), &options)
            }
        }
    }
}
