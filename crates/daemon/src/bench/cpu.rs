//! CPU time: of the OSDs' processes, of this one, and of the whole machine.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    time::{Duration, Instant},
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
    /// By the pid files that ceph.conf names; none unless all these OSDs run on this machine.
    pub(super) fn of(conf: &CephConf, osds: impl Iterator<Item = OsdId>) -> Option<Processes> {
        let pid_of = |kind, id: &str| -> Option<u32> {
            let path = conf.get(&EntityName::new(kind, id), "pid file")?;
            fs::read_to_string(path).ok()?.trim().parse().ok()
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

/// CPU time that a process used until now.
pub(super) fn cpu_time(proc_dir: &Path) -> Option<Duration> {
    let stat = fs::read_to_string(proc_dir.join("stat")).ok()?;
    // Behind the name in parentheses, which may hold anything, come the third field and the others.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(of_ticks(ticks))
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
    fn a_process_counts_once_and_only_if_all_osds_are_here() {
        let dir = std::env::temp_dir().join(format!("loligo-bench-{}", process::id()));
        fs::create_dir_all(&dir).unwrap();
        let text = format!("[global]\nmon initial members = a\npid file = {}/$name.pid\n", dir.display());
        let conf = CephConf::parse(&text).unwrap();
        let write =
            |name: &str, pid: u32| fs::write(dir.join(format!("{name}.pid")), format!("{pid}\n")).unwrap();
        let found = |osds: i32| {
            Processes::of(&conf, (0..osds).map(OsdId)).map(|found| (found.pids.len(), found.has_all_daemons))
        };
        for name in ["mon.a", "osd.0", "osd.1", "osd.2"] {
            write(name, 10);
        }
        assert_eq!([found(0), found(1), found(3), found(4)], [None, Some((1, true)), Some((1, true)), None]);
        write("osd.0", 11);
        write("osd.1", 12);
        assert_eq!(found(2), Some((2, false)));
        fs::remove_dir_all(&dir).unwrap();
    }
}
