//! `loligo up`: a whole cluster on this machine, in one process or in several.

use std::{
    fs,
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use reactor::{Event, Reactor};
use store::DeviceRole;
use types::{EntityName, EntityType, KeyType};

use crate::{
    ceph_conf::CephConf,
    device::{Access, Device},
    device_paths::DevicePaths,
    mon_daemon,
    new_cluster::NewCluster,
    new_stores::reactors_for,
    osd_daemon,
    stop::Stop,
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

/// Reads `0-3,8`; the order is kept.
pub fn parse_cpus(text: &str) -> Result<Vec<usize>> {
    let mut out = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let read = |t: &str| t.trim().parse::<usize>().with_context(|| format!("--cpus: {t} is not a CPU"));
        out.extend(read(first)?..=read(last)?);
    }
    Ok(out)
}

enum Daemon {
    Process(Child),
    Thread(Stop, std::thread::JoinHandle<Result<()>>),
}

/// Runs the cluster until Ctrl-C.
pub fn up(options: &UpOptions) -> Result<()> {
    let conf = options.data.join("ceph.conf");
    let cpus = match &options.cpus {
        Some(text) => parse_cpus(text)?,
        None => Vec::new(),
    };
    if conf.exists() {
        for line in differences(options, &conf)? {
            // The output may have no reader, which is no reason to fail.
            let _ = writeln!(std::io::stdout(), "Warning: {line}");
        }
    } else {
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
        };
        new.make().context("making the cluster")?;
        // The output may have no reader, which is no reason to fail.
        let _ = writeln!(std::io::stdout(), "{}", about_keys(options.key_type));
    }
    let conf = conf.canonicalize()?;
    let osds = existing_osds(&options.data)?;
    reactor::block_signals()?;
    let mut daemons = vec![("mon.a".to_owned(), start("mon", "a", &conf, Vec::new(), options.is_separate)?)];
    for (index, id) in osds.iter().enumerate() {
        // Each begins at another CPU.
        let mut cpus = cpus.clone();
        let first = index * cpus.len() / osds.len();
        cpus.rotate_left(first);
        daemons.push((format!("osd.{id}"), start("osd", id, &conf, cpus, options.is_separate)?));
    }
    let outcome = wait_for_signal(&options.data, &mut daemons);
    // OSDs first: they tell the monitor that they go.
    let mut result = outcome;
    for (name, daemon) in daemons.into_iter().rev() {
        if let Err(error) = end(daemon) {
            tracing::error!(%error, "{name} did not stop in order");
            result = result.and(Err(error));
        }
    }
    result
}

/// What was asked for and is otherwise in the cluster that is there: options are for the making of one.
fn differences(options: &UpOptions, conf: &Path) -> Result<Vec<String>> {
    let conf = CephConf::read(conf)?;
    let mon = EntityName::new(EntityType::MON, "a");
    let monitor = conf.mon_hosts(&mon)?.into_iter().next().and_then(|addrs| addrs.msgr2_addr()?.socket);
    let osds = existing_osds(&options.data)?;
    let paths: Vec<DevicePaths> =
        osds.iter().map(|id| DevicePaths::read(&conf, &EntityName::new(EntityType::OSD, id))).collect();
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

/// Ids of the OSDs in the folder.
fn existing_osds(data: &Path) -> Result<Vec<String>> {
    let mut ids = Vec::new();
    for entry in fs::read_dir(data)? {
        let name = entry?.file_name();
        if let Some(id) = name.to_str().and_then(|n| n.strip_prefix("osd.")) {
            ids.push(id.to_owned());
        }
    }
    ids.sort_by_key(|id| id.parse::<u32>().unwrap_or(u32::MAX));
    Ok(ids)
}

fn start(kind: &str, id: &str, conf: &Path, cpus: Vec<usize>, is_separate: bool) -> Result<Daemon> {
    if is_separate {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(std::env::current_exe()?);
        command.args([kind, "--id", id, "--conf"]).arg(conf);
        if !cpus.is_empty() {
            let list: Vec<String> = cpus.iter().map(usize::to_string).collect();
            command.args(["--cpus", &list.join(",")]);
        }
        // A group of its own: Ctrl-C reaches this process, which stops the others in order.
        command.process_group(0);
        return Ok(Daemon::Process(command.spawn().with_context(|| format!("starting {kind}.{id}"))?));
    }
    let stop = Stop::new()?;
    let (id, conf, own, is_mon) = (id.to_owned(), conf.to_owned(), stop.clone(), kind == "mon");
    let cpu = cpus.first().copied();
    let handle = reactor::spawn(&format!("{kind}.{id}"), cpu, move || {
        if is_mon {
            mon_daemon::serve(&id, &conf, &own, false)
        } else {
            osd_daemon::serve(&id, &conf, &own, false, &cpus)
        }
    })?;
    Ok(Daemon::Thread(stop, handle))
}

/// Shows the cluster's state until Ctrl-C, or until a daemon ends that the cluster cannot do without.
fn wait_for_signal(data: &Path, daemons: &mut Vec<(String, Daemon)>) -> Result<()> {
    let mut reactor = Reactor::new(reactor::Config { signals: true, ..Default::default() })?;
    let mut events = Vec::new();
    let mut status = StatusLine::default();
    loop {
        reactor.poll(Some(STATUS_INTERVAL), &mut events)?;
        if events.drain(..).any(|event| matches!(event, Event::Signal(_))) {
            return Ok(());
        }
        let is_finished = |(_, daemon): &mut (String, Daemon)| daemon.is_finished();
        for (name, stopped) in daemons.extract_if(.., is_finished) {
            let is_needed = name.starts_with("mon.") || matches!(stopped, Daemon::Thread(..));
            match end(stopped).with_context(|| format!("{name} ended: its log says why")) {
                Err(error) if is_needed => return Err(error),
                Err(error) => tracing::error!("{error:#}"),
                Ok(()) => {}
            }
        }
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

impl Daemon {
    /// A process may be stopped or killed, and started again by hand: one that failed has ended. A thread ends on an
    /// operator's order alone, or as it failed.
    fn is_finished(&mut self) -> bool {
        match self {
            Daemon::Process(child) => child.try_wait().is_ok_and(|status| status.is_some_and(has_failed)),
            Daemon::Thread(_, handle) => handle.is_finished(),
        }
    }
}

/// True for a process that ended by itself with an error, not by a signal.
fn has_failed(status: ExitStatus) -> bool {
    status.code().is_some_and(|code| code != 0)
}

fn end(daemon: Daemon) -> Result<()> {
    match daemon {
        Daemon::Process(mut child) => {
            if child.try_wait()?.is_none()
                && let Err(error) = reactor::terminate(&child)
            {
                tracing::warn!(%error, "a daemon cannot be asked to stop, and is waited for all the same");
            }
            // One that was killed by hand is no error of this process.
            match child.wait()? {
                status if has_failed(status) => bail!("{status}"),
                _ => Ok(()),
            }
        }
        Daemon::Thread(stop, handle) => {
            stop.ask();
            handle.join().map_err(|_| anyhow::anyhow!("its thread panicked"))?
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(script: &str) -> Daemon {
        let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        child.wait().unwrap();
        Daemon::Process(child)
    }

    #[test]
    fn a_process_has_ended_when_it_failed_but_not_when_it_was_stopped_or_killed() {
        let found = ["exit 1", "exit 0", "kill -KILL $$"].map(|script| ended(script).is_finished());
        assert_eq!(found, [true, false, false]);
        assert!(end(ended("exit 1")).is_err());
        assert!(end(ended("kill -KILL $$")).is_ok());
    }

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
        assert!(parse_cpus("x").is_err());
    }
}
