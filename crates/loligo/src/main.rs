//! The command line of Loligo: arguments and wiring only.

use std::{
    ffi::OsString,
    io::{Write, stderr},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::{Parser, Subcommand};
use daemon::{CephConf, EntityName, EntityType, KeyType};

mod logging;
mod rebuild_args;
mod store_args;

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

/// A storage cluster for NVMe that unmodified Ceph clients use as if it were Ceph.
#[derive(Parser)]
#[command(name = "loligo", version, arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a whole cluster on this machine: a monitor and OSDs; Ctrl-C stops it, the next `up` goes on.
    Up(UpArgs),
    /// Make the data of one daemon, as named in ceph.conf: a monitor's ledger or an OSD's store.
    Mkfs(MkfsArgs),
    /// Run one monitor.
    Mon(DaemonArgs),
    /// Make a monitor's lost ledger anew, of what the OSDs' stores hold.
    ///
    /// For a monitor whose ledger is lost, or of which only an older copy is left (docs/operating.md, "When the ledger
    /// is lost"). All OSDs are stopped, and so is the monitor. The new ledger has the newest OSD map that the OSDs
    /// know, under an epoch that nobody has seen, and all OSDs down in it: start the monitor, then the OSDs. It prints
    /// what could not be brought back.
    MonRebuild(rebuild_args::MonRebuildArgs),
    /// Run one OSD.
    Osd(OsdArgs),
    /// Measure a cluster, Loligo's or Ceph's, with a load generator that costs less than a stock client.
    Bench(BenchArgs),
    /// Look at the store of an OSD that does not run: check it, show what it holds, measure it.
    #[command(subcommand)]
    Store(store_args::StoreCommand),
    #[command(name = daemon::EXEC_CHILD, hide = true)]
    ExecChild(ExecChildArgs),
}

/// Of a child that a daemon starts.
#[derive(clap::Args)]
struct ExecChildArgs {
    /// The daemon's process.
    parent: u32,
    /// The program, and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

#[derive(clap::Args)]
struct UpArgs {
    /// Folder of the cluster: its ceph.conf and keyring are for the stock clients.
    #[arg(long, default_value = "loligo-data", value_name = "DIR")]
    data: PathBuf,
    /// How many OSDs a new cluster has; three without it.
    #[arg(long)]
    osds: Option<u32>,
    /// Block devices or files for the OSDs, one each; files in the cluster's folder without it.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    device: Vec<PathBuf>,
    /// Fast devices or files for the OSDs' journals, one each; 512 MiB are used. On the OSD's own device without it.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    journal_device: Vec<PathBuf>,
    /// Fast devices or files for the OSDs' indexes (object metadata, omap), one each; what does not fit goes to
    /// the OSD's own device.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    index_device: Vec<PathBuf>,
    /// Size of an OSD's file (sparse) of a new cluster, with K, M, G or T; 20G without it.
    #[arg(long, value_parser = parse_size)]
    size: Option<u64>,
    /// Port of a new cluster's monitor, 3300 without it; the OSDs take the ports behind it.
    #[arg(long)]
    port: Option<u16>,
    /// Reactors (threads with a store each) of every OSD of a new cluster: a power of two, for the life of
    /// its data. Without it one, or more where CPUs abound.
    #[arg(long, value_name = "N")]
    reactors: Option<u16>,
    /// Type of the client keys of a new cluster: aes, which every client knows, or aes256k, for clients from
    /// 19.2.6, 20.2.4 and Linux 7.0 on alone. OSDs' keys, which `auth export` shows, are of the same type.
    #[arg(long, default_value = "aes", value_parser = parse_key_type, value_name = "TYPE")]
    key_type: KeyType,
    /// For a new cluster: take the devices even if they hold a store, a file system or the like, which is lost.
    #[arg(long)]
    force: bool,
    /// Run every daemon as a process of its own, with DIR/run/NAME.pid.
    #[arg(long)]
    separate: bool,
    /// CPUs to pin the reactors to, such as 0-3,8; without it they run wherever this process may.
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
}

#[derive(clap::Args)]
struct MkfsArgs {
    /// What kind of daemon.
    #[arg(value_parser = ["mon", "osd"])]
    kind: String,
    /// The daemon's id: `a` of mon.a, `0` of osd.0.
    #[arg(short, long)]
    id: String,
    /// ceph.conf of the cluster.
    #[arg(short, long, env = "CEPH_CONF", default_value = "/etc/ceph/ceph.conf")]
    conf: PathBuf,
    /// Size of the OSD's file (sparse) if it is to be made, with K, M, G or T.
    #[arg(long, default_value = "20G", value_parser = parse_size)]
    size: u64,
    /// A device or file for the OSD's store, linked as `block` in its data folder. Without it: `loligo device` of
    /// ceph.conf, or a file in its data folder.
    #[arg(long, value_name = "PATH")]
    device: Option<PathBuf>,
    /// The OSD's uuid, as it was given to `ceph osd new`; a new one without it.
    #[arg(long, value_name = "UUID")]
    uuid: Option<String>,
    /// Reactors (threads with a store each) of the OSD: a power of two, for the life of its data. Without it
    /// one, or more where CPUs abound.
    #[arg(long, value_name = "N")]
    reactors: Option<u16>,
    /// A fast device for the OSD's journal, linked as `journal` in its data folder; 512 MiB are used. A file that is
    /// not there is made. Without it: `loligo journal device` of ceph.conf, or the OSD's own device.
    #[arg(long, value_name = "PATH")]
    journal_device: Option<PathBuf>,
    /// A fast device for the OSD's index (object metadata, omap), linked as `index`; what does not fit goes to the
    /// OSD's own device. Without it: `loligo index device` of ceph.conf, or the OSD's own device.
    #[arg(long, value_name = "PATH")]
    index_device: Option<PathBuf>,
    /// Take the OSD's devices even if they hold a store, a file system or the like, which is lost; make its files even
    /// if their file system has no room for all of them.
    #[arg(long)]
    force: bool,
    /// Type of the keys of a new cluster, for a monitor: aes, which every client knows, or aes256k, for clients
    /// from 19.2.6, 20.2.4 and Linux 7.0 on alone.
    #[arg(long, default_value = "aes", value_parser = parse_key_type, value_name = "TYPE")]
    key_type: KeyType,
}

#[derive(clap::Args)]
struct OsdArgs {
    /// The OSD's id: `0` of osd.0.
    #[arg(short, long)]
    id: String,
    /// ceph.conf of the cluster.
    #[arg(short, long, env = "CEPH_CONF", default_value = "/etc/ceph/ceph.conf")]
    conf: PathBuf,
    /// CPUs to pin the reactors to, in this order, such as 0-3,8; without it they run wherever this process
    /// may.
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    cpus: String,
}

#[derive(clap::Args)]
struct DaemonArgs {
    /// The daemon's id: `a` of mon.a, `0` of osd.0.
    #[arg(short, long)]
    id: String,
    /// ceph.conf of the cluster.
    #[arg(short, long, env = "CEPH_CONF", default_value = "/etc/ceph/ceph.conf")]
    conf: PathBuf,
    /// CPU to pin the reactor to.
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
}

#[derive(clap::Args)]
struct BenchArgs {
    /// ceph.conf of the cluster. CPU times of OSDs on this machine are measured by their `pid file`, until one
    /// second after a round's last request.
    #[arg(short, long, env = "CEPH_CONF", default_value = "/etc/ceph/ceph.conf")]
    conf: PathBuf,
    /// Which client to be.
    #[arg(long, default_value = "admin", value_name = "ID")]
    client: String,
    /// The pool, made if it is not there. Objects named `loligo_bench.RUN.N`, with a random
    /// RUN, are erased from it at the end, also after an error or a signal (a second one ends that).
    #[arg(short, long, default_value = "loligo-bench")]
    pool: String,
    /// randwrite, randread, write or read.
    #[arg(long, default_value = "randwrite", value_parser = daemon::Workload::parse)]
    rw: daemon::Workload,
    /// Bytes of a request, with K or M.
    #[arg(long, default_value = "4K", value_parser = parse_size)]
    bs: u64,
    /// Requests in flight, a round for each number.
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,64")]
    depth: Vec<usize>,
    /// Requests that begin in a second, on average, at times of chance that are set beforehand, as those of many
    /// clients; without it, each begins when another one has ended. At most --depth are in flight: one that is due
    /// earlier waits, and its latency counts from when it was due.
    #[arg(long)]
    rate: Option<u64>,
    /// Seconds of a round.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// How many objects.
    #[arg(long, default_value_t = 64)]
    objects: u64,
    /// Bytes of each, with K or M.
    #[arg(long, default_value = "4M", value_parser = parse_size)]
    object_size: u64,
    /// Bytes of requests before the first round that are not measured, 32 in flight, with K, M or G: that round then
    /// begins, as the later ones do, with a store that has put something off.
    #[arg(long, default_value = "0", value_parser = parse_size)]
    warm_up: u64,
    /// For several clients that load a cluster together: print `ready` when the objects are written, begin at a line on
    /// standard input, and erase the objects at the next one, or at its end.
    #[arg(long)]
    in_step: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Reads `20G`; K, M, G and T are powers of 1024.
fn parse_size(text: &str) -> Result<u64, String> {
    let units = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let (number, shift) = match text.char_indices().next_back() {
        Some((at, unit)) if unit.is_ascii_alphabetic() => {
            let unit = unit.to_ascii_uppercase();
            let found = units.iter().find(|(name, _)| *name == unit);
            (&text[..at], found.ok_or(format!("{text}: a size ends with K, M, G or T"))?.1)
        }
        _ => (text, 0),
    };
    let number: u64 = number.parse().map_err(|_| format!("{text} is not a size"))?;
    number.checked_shl(shift).filter(|n| n >> shift == number).ok_or(format!("{text} is too large"))
}

fn parse_key_type(text: &str) -> Result<KeyType, String> {
    KeyType::parse(text).ok_or(format!("{text} is neither aes nor aes256k"))
}

fn log_file(kind: EntityType, id: &str, conf: &Path) -> anyhow::Result<Option<PathBuf>> {
    Ok(CephConf::read(conf)?.log_file(&EntityName::new(kind, id)))
}

fn run(command: Command) -> anyhow::Result<()> {
    let log = match &command {
        Command::Up(up) => Some(up.data.join("log/loligo.log")),
        Command::Mkfs(_)
        | Command::MonRebuild(_)
        | Command::Bench(_)
        | Command::Store(_)
        | Command::ExecChild(_) => None,
        Command::Mon(mon) => log_file(EntityType::MON, &mon.id, &mon.conf)?,
        Command::Osd(osd) => log_file(EntityType::OSD, &osd.id, &osd.conf)?,
    };
    logging::start(log.as_deref())?;
    if matches!(command, Command::Up(_) | Command::Osd(_)) {
        allocator::keep_ready();
    }
    if matches!(command, Command::Up(_) | Command::Mon(_) | Command::Osd(_)) {
        daemon::raise_limits();
    }
    let result = execute(command);
    // Standard error says it, too, which may be all of the log.
    if let (Err(error), Some(_)) = (&result, log) {
        tracing::error!("{error:#}");
    }
    result
}

fn execute(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Store(store) => store.run(),
        Command::MonRebuild(rebuild) => rebuild.run(),
        Command::ExecChild(child) => daemon::exec_child(child.parent, &child.command),
        Command::Up(up) => daemon::up(&daemon::UpOptions {
            data: up.data,
            osds: up.osds,
            devices: up.device,
            journal_devices: up.journal_device,
            index_devices: up.index_device,
            device_bytes: up.size,
            port: up.port,
            reactors: up.reactors,
            is_forced: up.force,
            is_separate: up.separate,
            cpus: up.cpus,
            key_type: up.key_type,
        }),
        Command::Mkfs(mkfs) => {
            let devices = daemon::NamedDevices {
                main: mkfs.device,
                journal: mkfs.journal_device,
                index: mkfs.index_device,
            };
            daemon::mkfs(&daemon::MkfsOptions {
                kind: mkfs.kind,
                id: mkfs.id,
                conf: mkfs.conf,
                device_bytes: mkfs.size,
                reactors: mkfs.reactors,
                devices,
                uuid: mkfs.uuid,
                is_forced: mkfs.force,
                key_type: mkfs.key_type,
            })
        }
        Command::Mon(mon) => daemon::run_mon(&mon.id, &mon.conf, mon.cpu),
        Command::Osd(osd) => {
            let cpus = match osd.cpus.as_str() {
                "" => Vec::new(),
                list => daemon::parse_cpus(list)?,
            };
            daemon::run_osd(&osd.id, &osd.conf, cpus)
        }
        Command::Bench(bench) => daemon::bench(&daemon::BenchOptions {
            conf: bench.conf,
            client: bench.client,
            pool: bench.pool,
            workload: bench.rw,
            block_bytes: bench.bs,
            depths: bench.depth,
            rate: bench.rate,
            duration: Duration::from_secs(bench.seconds),
            objects: bench.objects,
            object_bytes: bench.object_size,
            warm_up_bytes: bench.warm_up,
            is_in_step: bench.in_step,
            is_json: bench.json,
        }),
    }
}

fn main() -> ExitCode {
    daemon::set_allocator(allocator::give_back);
    let args = Args::parse();
    match run(args.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Where it cannot be written, the exit status still tells.
            let _ = writeln!(stderr(), "loligo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("512"), Ok(512));
        assert_eq!(parse_size("4k"), Ok(4096));
        assert_eq!(parse_size("20G"), Ok(20 << 30));
        assert!(parse_size("x").is_err() && parse_size("1Q").is_err() && parse_size("99999999999T").is_err());
    }

    #[test]
    fn a_child_takes_the_options_of_its_program() {
        let words = ["loligo", daemon::EXEC_CHILD, "7", "rbd", "--conf", "c", "--help", "--", "-x"];
        let Command::ExecChild(child) = Args::try_parse_from(words).unwrap().command else { panic!() };
        assert_eq!((child.parent, child.command), (7, words[3..].iter().map(OsString::from).collect()));
    }

    #[test]
    fn the_command_line_is_sound() {
        <Args as clap::CommandFactory>::command().debug_assert();
    }
}
