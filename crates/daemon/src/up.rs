//! `loligo up`: a whole cluster on this machine, in one process or in several.

mod daemons;

use std::{
    fs,
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use daemons::{Daemons, Start};
use reactor::Reactor;
use store::DeviceRole;
use types::{EntityName, EntityType, KeyType};

use crate::{
    ceph_conf::CephConf,
    cluster_folder,
    device::{Access, Device},
    device_paths::DevicePaths,
    interrupt::Interrupt,
    new_cluster::NewCluster,
    new_stores::reactors_for,
    unfinished::Unfinished,
};

/// Arguments of `loligo up`.
pub struct UpOptions {
    /// The cluster's folder.
    pub data: PathBuf,
    /// How many OSDs a new cluster has, unless three.
    pub osds: Option<u32>,
    /// Their devices; files in the folder where there are fewer.
    pub devices: Vec<PathBuf>,
    /// Devices for the OSDs' journals; on their own devices where there are fewer.
    pub journal_devices: Vec<PathBuf>,
    /// Devices for the OSDs' indexes, the same.
    pub index_devices: Vec<PathBuf>,
    /// Size of a new cluster's files, in bytes, unless 20 GiB.
    pub device_bytes: Option<u64>,
    /// The port of a new cluster's monitor, unless 3300; OSDs take those behind it.
    pub port: Option<u16>,
    /// Reactors of each OSD of a new cluster; as many as suit the machine without it.
    pub reactors: Option<u16>,
    /// The devices of a new cluster are taken whatever they hold.
    pub is_forced: bool,
    /// A process for each daemon.
    pub is_separate: bool,
    /// CPUs for the reactors: `0-3,8`.
    pub cpus: Option<String>,
    /// The type of client keys of a new cluster.
    pub key_type: KeyType,
}

const OSDS_DEFAULT: u32 = 3;
const DEVICE_BYTES_DEFAULT: u64 = 20 << 30;
const PORT_DEFAULT: u16 = 3300;

const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// The last CPU that can be named: a thread is pinned by a mask of so many bits.
const CPU_MAX: usize = 1023;

/// Reads `0-3,8`; the order is kept.
pub fn parse_cpus(text: &str) -> Result<Vec<usize>> {
    let mut out = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let read = |t: &str| t.trim().parse::<usize>().with_context(|| format!("--cpus: {t} is not a CPU"));
        let (first, last) = (read(first)?, read(last)?);
        if last > CPU_MAX {
            bail!("--cpus: {part}: the last CPU that can be named is {CPU_MAX}");
        }
        if first > last {
            bail!("--cpus: {part} ends before it begins");
        }
        out.extend(first..=last);
    }
    Ok(out)
}

/// Runs the cluster until Ctrl-C.
pub fn up(options: &UpOptions) -> Result<()> {
    // First: Ctrl-C while a cluster is made ends that in order.
    let interrupt = Interrupt::new()?;
    let conf = options.data.join("ceph.conf");
    let cpus = match &options.cpus {
        Some(text) => parse_cpus(text)?,
        None => Vec::new(),
    };
    if conf.exists() {
        Unfinished::forget(&options.data);
        for line in differences(options, &conf)? {
            // The output may have no reader, which is no reason to fail.
            let _ = writeln!(std::io::stdout(), "Warning: {line}");
        }
    } else {
        make_cluster(options, &cpus, &interrupt)?;
    }
    let conf = conf.canonicalize()?;
    let osds = cluster_folder::osds(&options.data)?;
    let mut starts = vec![Start { kind: "mon", id: "a".to_owned(), cpus: Vec::new() }];
    starts.extend(osds.iter().enumerate().map(|(index, id)| {
        // Each begins at another CPU.
        let mut cpus = cpus.clone();
        let first = index * cpus.len() / osds.len();
        cpus.rotate_left(first);
        Start { kind: "osd", id: id.to_string(), cpus }
    }));
    daemons::run(
        starts,
        |start| start.daemon(&conf, options.is_separate),
        |daemons| wait_for_signal(&options.data, &interrupt, daemons),
    )
}

fn make_cluster(options: &UpOptions, cpus: &[usize], interrupt: &Interrupt) -> Result<()> {
    let osds = options.osds.unwrap_or(OSDS_DEFAULT);
    let cpu_count = if cpus.is_empty() { reactor::available_cpus()?.len() } else { cpus.len() };
    let suiting = reactors_for(cpu_count, osds as usize);
    let new = NewCluster {
        dir: &options.data,
        osds,
        devices: &options.devices,
        journal_devices: &options.journal_devices,
        index_devices: &options.index_devices,
        device_bytes: options.device_bytes.unwrap_or(DEVICE_BYTES_DEFAULT),
        reactors: options.reactors.unwrap_or(suiting),
        port: options.port.unwrap_or(PORT_DEFAULT),
        is_forced: options.is_forced,
        key_type: options.key_type,
        go_on: &|| interrupt.check(),
    };
    new.make().context("making the cluster")?;
    // The output may have no reader, which is no reason to fail.
    let _ = writeln!(std::io::stdout(), "{}", about_keys(options.key_type));
    Ok(())
}

/// What was asked for and is otherwise in the cluster that is there: options are for the making of one.
fn differences(options: &UpOptions, conf: &Path) -> Result<Vec<String>> {
    let conf = CephConf::read(conf)?;
    let mon = EntityName::new(EntityType::MON, "a");
    let monitor = conf.mon_hosts(&mon)?.into_iter().next().and_then(|addrs| addrs.msgr2_addr()?.socket);
    let osds = cluster_folder::osds(&options.data)?;
    let of_osd = |id: &u32| DevicePaths::read(&conf, &EntityName::new(EntityType::OSD, id.to_string()));
    let paths: Vec<DevicePaths> = osds.iter().map(of_osd).collect();
    let first = paths.first();
    let file_bytes = first.and_then(|paths| fs::metadata(&paths.main).ok()).filter(fs::Metadata::is_file);
    let mut out = Vec::new();
    let mut compare = |name: &str, wanted: Option<u64>, found: Option<u64>| {
        if let (Some(wanted), Some(found)) = (wanted, found)
            && wanted != found
        {
            out.push(format!("--{name} {wanted} is ignored: the cluster was made with {found}"));
        }
    };
    compare("osds", options.osds.map(u64::from), Some(osds.len() as u64));
    compare("port", options.port.map(u64::from), monitor.map(|socket| u64::from(socket.port())));
    compare("size", options.device_bytes, file_bytes.map(|found| found.len()));
    compare("reactors", options.reactors.map(u64::from), first.and_then(reactors_of).map(u64::from));
    for (name, wanted, role) in [
        ("device", &options.devices, DeviceRole::Main),
        ("journal-device", &options.journal_devices, DeviceRole::Journal),
        ("index-device", &options.index_devices, DeviceRole::Index),
    ] {
        for (wanted, paths) in wanted.iter().zip(&paths) {
            let found = paths.all().find(|(other, _)| *other == role).map(|(_, path)| path);
            if found != Some(&std::path::absolute(wanted)?) {
                out.push(format!("--{name} {} is ignored: the cluster is made already", wanted.display()));
            }
        }
    }
    Ok(out)
}

/// How many reactors a store was made for, if it can be read.
fn reactors_of(paths: &DevicePaths) -> Option<u16> {
    let mut reactor = Reactor::new(reactor::Config::default()).ok()?;
    let label = Device::open(&mut reactor, paths, Access::Offline).ok()?.label(&mut reactor).ok()?;
    Some(label.identity.shards)
}

/// Which clients can use keys of that type, and how to get keys of another type.
pub fn about_keys(kind: KeyType) -> &'static str {
    match kind {
        KeyType::Aes => {
            "Client keys are of type aes, which every client knows. `--key-type aes256k` makes a cluster for \
             clients from 19.2.6, 20.2.4 and Linux 7.0 on alone; `ceph auth get-or-create … --key-type aes256k` \
             makes a single key."
        }
        KeyType::Aes256k => {
            "Client keys are of type aes256k: clients older than 19.2.6, 20.2.4 and Linux 7.0 are not let in."
        }
    }
}

/// Shows the cluster's state until Ctrl-C, or until a daemon ends that the cluster cannot do without.
fn wait_for_signal(data: &Path, interrupt: &Interrupt, daemons: &mut Daemons) -> Result<()> {
    let mut status = StatusLine::default();
    loop {
        if interrupt.wait(STATUS_INTERVAL)?.is_some() {
            return Ok(());
        }
        daemons.take_finished()?;
        // The reader of the output may be gone: the cluster goes on.
        let _ = status.show(&fs::read_to_string(data.join("mon.a/status")).unwrap_or_default());
    }
}

/// What the monitor wrote of the cluster, shown in place on a terminal; elsewhere a line for each change
/// of state, and nothing of what clients do.
#[derive(Default)]
struct StatusLine {
    shown: String,
}

impl StatusLine {
    fn show(&mut self, text: &str) -> Result<()> {
        let (state, activity) = text.trim_end().split_once('\n').unwrap_or((text.trim_end(), ""));
        let mut out = std::io::stdout();
        let is_terminal = out.is_terminal();
        let line = match activity {
            "" => state.to_owned(),
            _ if is_terminal => format!("{state} | {activity}"),
            _ => state.to_owned(),
        };
        if line.is_empty() || line == self.shown {
            return Ok(());
        }
        if is_terminal {
            // Back to the line's start, and erase what a longer text left.
            write!(out, "\r{line}\x1b[K")?;
        } else {
            writeln!(out, "{line}")?;
        }
        out.flush()?;
        self.shown = line;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_differ_from_the_cluster_that_is_there_are_told() {
        let dir = std::env::temp_dir().join(format!("loligo-up-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        NewCluster::small(&dir).make().unwrap();
        let mut options = UpOptions {
            data: dir.clone(),
            osds: None,
            devices: Vec::new(),
            journal_devices: Vec::new(),
            index_devices: Vec::new(),
            device_bytes: Some(64 << 20),
            port: Some(3300),
            reactors: Some(1),
            is_forced: false,
            is_separate: false,
            cpus: None,
            key_type: KeyType::Aes,
        };
        let told = |options: &UpOptions| differences(options, &dir.join("ceph.conf")).unwrap();
        assert!(told(&options).is_empty(), "{:?}", told(&options));
        options.osds = Some(3);
        options.reactors = Some(2);
        options.devices = vec!["/dev/loligo-nosuch".into()];
        let words = [
            "--osds 3 is ignored: the cluster was made with 1",
            "--reactors 2 is ignored: the cluster was made with 1",
            "--device /dev/loligo-nosuch is ignored: the cluster is made already",
        ];
        assert_eq!(told(&options), words);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn cpu_lists() {
        assert_eq!(parse_cpus("0-2,8").unwrap(), [0, 1, 2, 8]);
        let refused = |text: &str| parse_cpus(text).unwrap_err().to_string();
        assert!(refused("x").contains("x is not a CPU"));
        assert!(refused("0,5-3").contains("5-3 ends before it begins"));
        assert!(refused("0-18446744073709551615").contains("the last CPU that can be named is 1023"));
    }
}
