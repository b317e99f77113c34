//! CPU time: of the OSDs' processes, of this one, and of the whole machine.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    time::{Duration, Instant, UNIX_EPOCH},
};

use types::{EntityName, EntityType, OsdId};

use crate::ceph_conf::CephConf;

/// Linux counts in these for user space on every machine that we know.
const TICKS_PER_SEC: u64 = 100;

fn of_ticks(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 1000 / TICKS_PER_SEC)
}

/// The OSDs' processes, each once: daemons of one process share it.
pub(super) struct Processes {
    pids: BTreeSet<u32>,
    /// A process that has all daemons: what it takes is not the OSDs' alone.
    pub(super) has_all_daemons: bool,
}

impl Processes {
    /// By the pid files that ceph.conf names; none unless all these OSDs run on this machine. A file that a killed
    /// daemon left names no process, or another one by now.
    pub(super) fn of(conf: &CephConf, osds: impl Iterator<Item = OsdId>) -> Option<Processes> {
        let pid_of = |kind, id: &str| -> Option<u32> {
            let path = conf.get(&EntityName::new(kind, id), "pid file")?;
            let pid: u32 = fs::read_to_string(&path).ok()?.trim().parse().ok()?;
            has_written(Path::new(&format!("/proc/{pid}")), path.as_ref()).then_some(pid)
        };
        let pids: BTreeSet<u32> =
            osds.map(|osd| pid_of(EntityType::OSD, &osd.0.to_string())).collect::<Option<_>>()?;
        let members =
            conf.get(&EntityName::new(EntityType::MON, ""), "mon initial members").unwrap_or_default();
        let mut mons = members.split([',', ' ']).filter_map(|id| pid_of(EntityType::MON, id));
        let has_all_daemons = mons.any(|pid| pids.contains(&pid));
        (!pids.is_empty()).then_some(Processes { pids, has_all_daemons })
    }

    pub(super) fn cpu_time(&self) -> Option<Duration> {
        self.pids.iter().map(|pid| cpu_time(Path::new(&format!("/proc/{pid}")))).sum()
    }
}

/// What Linux tells of a process.
struct Stat {
    /// Of its program: the first 15 bytes.
    name: String,
    /// CPU time that it used until now.
    cpu_time: Duration,
    /// Since the machine's.
    start: Duration,
}

impl Stat {
    fn read(proc_dir: &Path) -> Option<Stat> {
        Stat::parse(&fs::read_to_string(proc_dir.join("stat")).ok()?)
    }

    fn parse(stat: &str) -> Option<Stat> {
        // Behind the name in parentheses, which may hold anything, come the third field and the others.
        let (before, after) = stat.rsplit_once(')')?;
        let name = before.split_once('(')?.1.to_owned();
        let fields: Vec<&str> = after.split_whitespace().collect();
        let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok().map(of_ticks);
        Some(Stat { name, cpu_time: ticks(11)? + ticks(12)?, start: ticks(19)? })
    }
}

/// CPU time that a process used until now.
pub(super) fn cpu_time(proc_dir: &Path) -> Option<Duration> {
    Stat::read(proc_dir).map(|stat| stat.cpu_time)
}

/// What the programs are called whose pid files are looked at, beside this one: builds have names with endings.
const PROGRAMS: [&str; 3] = ["loligo", "ceph-osd", "ceph-mon"];

/// So much later than its pid file a process may seem to have begun: the start of the machine is known in seconds, and
/// its clock is set now and then.
const START_TOLERANCE: Duration = Duration::from_secs(5);

/// Whether a process can be the one that wrote this pid file: one of ours, and no younger.
fn has_written(proc_dir: &Path, pid_file: &Path) -> bool {
    let own_name = Stat::read(Path::new("/proc/self")).map(|stat| stat.name);
    let find = || {
        let stat = Stat::read(proc_dir)?;
        let is_ours =
            PROGRAMS.iter().any(|name| stat.name.starts_with(name)) || Some(&stat.name) == own_name.as_ref();
        let start = machine_start(&fs::read_to_string("/proc/stat").ok()?)? + stat.start;
        let written = fs::metadata(pid_file).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some(is_ours && start <= written + START_TOLERANCE)
    };
    find().unwrap_or(false)
}

/// When the machine began, since 1970.
fn machine_start(stat: &str) -> Option<Duration> {
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(Duration::from_secs(seconds.trim().parse().ok()?))
}

/// What the whole machine did in a stretch of time: kernel threads work for OSDs, too, and no process has their time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MachineUse {
    /// CPU time of everything on it.
    pub(crate) busy: Duration,
    /// The stretch's length.
    pub(crate) elapsed: Duration,
}

/// The begin of such a stretch.
pub(super) struct MachineClock {
    since: Instant,
    cpus: u32,
    idle: Duration,
}

impl MachineClock {
    /// Begins now; none where Linux does not tell.
    pub(super) fn start() -> Option<MachineClock> {
        let (cpus, idle) = idle_time(&fs::read_to_string("/proc/stat").ok()?)?;
        Some(MachineClock { since: Instant::now(), cpus, idle })
    }

    /// What was done since.
    pub(super) fn used(&self) -> Option<MachineUse> {
        let (_, idle) = idle_time(&fs::read_to_string("/proc/stat").ok()?)?;
        let elapsed = self.since.elapsed();
        let busy = (elapsed * self.cpus).saturating_sub(idle.saturating_sub(self.idle));
        Some(MachineUse { busy, elapsed })
    }
}

/// How many CPUs `/proc/stat` names, and the time that they were idle or taken by a hypervisor. The rest is busy: Linux
/// measures when a CPU begins and ends to be idle, and only samples what it is busy with.
fn idle_time(stat: &str) -> Option<(u32, Duration)> {
    let mut lines = stat.lines().filter(|line| line.starts_with("cpu"));
    // Behind the name: user, nice, system, idle, iowait, irq, softirq, steal.
    let all: Vec<u64> =
        lines.next()?.split_whitespace().skip(1).map(|field| field.parse().ok()).collect::<Option<_>>()?;
    let ticks = all.get(3)? + all.get(4)? + all.get(7)?;
    Some((u32::try_from(lines.count()).ok()?, of_ticks(ticks)))
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    #[test]
    fn the_machine_is_busy_when_its_cpus_are_not_idle() {
        let stat = "cpu  10 20 30 400 50 6 7 80 0 0\ncpu0 5 10 15 200 25 3 4 40 0 0\ncpu1 5 10 15 200 25 3 3 40 0 0\n\
                    intr 99\n";
        assert_eq!(idle_time(stat), Some((2, Duration::from_millis(5300))));
        assert_eq!(idle_time("cpu  1 2"), None);
        assert_eq!(idle_time(""), None);
        let clock = MachineClock::start().unwrap();
        let used = clock.used().unwrap();
        assert!(used.busy <= used.elapsed * clock.cpus + Duration::from_millis(100));
    }

    #[test]
    fn a_process_is_called_what_its_parentheses_hold() {
        let stat =
            Stat::parse("17 (a) (b) S 1 17 17 0 -1 4194560 9 8 7 6 250 50 0 0 20 0 3 0 4711 99 1\n").unwrap();
        assert_eq!((stat.name.as_str(), stat.cpu_time.as_millis()), ("a) (b", 3000));
        assert_eq!(stat.start, Duration::from_millis(47_110));
        assert!(Stat::parse("17 (a) S 1").is_none());
        assert_eq!(machine_start("cpu 1\nbtime 1700000000\n"), Some(Duration::from_secs(1_700_000_000)));
    }

    /// Children with their pids, killed at the end.
    struct Children(Vec<process::Child>);

    impl Children {
        /// A process of the name of a program.
        fn spawn(&mut self, dir: &Path, program: &str) -> u32 {
            let path = dir.join(program);
            std::os::unix::fs::symlink("/bin/sleep", &path).unwrap();
            let child = process::Command::new(path).arg("600").spawn().unwrap();
            self.0.push(child);
            self.0.last().unwrap().id()
        }
    }

    impl Drop for Children {
        fn drop(&mut self) {
            for child in &mut self.0 {
                child.kill().unwrap();
                child.wait().unwrap();
            }
        }
    }

    #[test]
    fn a_process_counts_once_and_only_if_all_osds_are_here() {
        let dir = std::env::temp_dir().join(format!("loligo-bench-{}", process::id()));
        fs::create_dir_all(&dir).unwrap();
        let text = format!("[global]\nmon initial members = a\npid file = {}/$name.pid\n", dir.display());
        let conf = CephConf::parse(&text).unwrap();
        let path = |name: &str| dir.join(format!("{name}.pid"));
        let write = |name: &str, pid: u32| fs::write(path(name), format!("{pid}\n")).unwrap();
        let found = |osds: i32| {
            Processes::of(&conf, (0..osds).map(OsdId)).map(|found| (found.pids.len(), found.has_all_daemons))
        };
        let mut children = Children(Vec::new());
        let [first, second] = ["loligo-new", "ceph-osd"].map(|program| children.spawn(&dir, program));
        for name in ["mon.a", "osd.0", "osd.1", "osd.2"] {
            write(name, process::id());
        }
        assert_eq!([found(0), found(1), found(3), found(4)], [None, Some((1, true)), Some((1, true)), None]);
        write("osd.0", first);
        write("osd.1", second);
        assert_eq!(found(2), Some((2, false)));
        // Of daemons that were killed: the pid is another program's, or that of a process that began later.
        write("osd.1", children.spawn(&dir, "nothing"));
        assert_eq!(found(2), None);
        write("osd.1", second);
        let file = fs::File::options().write(true).open(path("osd.1")).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
        assert_eq!(found(2), None);
        drop(children);
        fs::remove_dir_all(&dir).unwrap();
    }
}
