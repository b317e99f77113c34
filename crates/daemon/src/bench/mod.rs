//! `loligo bench`: what a cluster does without a stock client's own cost. Speaks Ceph's protocol only, so
//! that it measures a real Ceph as well.

mod report;
mod workload;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process, thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use client::{Outcome, Request};
use hdrhistogram::Histogram;
use messages::{OpCode, OpParams, OsdOp};
use rand::{SeedableRng, rngs::StdRng};
use types::{EntityName, EntityType, OsdId, PoolId, Token};

use crate::{ceph_conf::CephConf, client_runner::ClientRunner, clock};

pub use workload::Workload;

/// Arguments of `loligo bench`.
pub struct BenchOptions {
    /// ceph.conf of the cluster, Loligo's or Ceph's.
    pub conf: PathBuf,
    /// Which client to be: the `admin` of `client.admin`.
    pub client: String,
    /// The pool; made if it is not there.
    pub pool: String,
    /// What to do.
    pub workload: Workload,
    /// Bytes of a request.
    pub block_bytes: u64,
    /// Requests in flight, one round for each number.
    pub depths: Vec<usize>,
    /// Length of a round.
    pub duration: Duration,
    /// How many objects the requests are spread over.
    pub objects: u64,
    /// Bytes of each object; written before the first round.
    pub object_bytes: u64,
    /// JSON instead of a table.
    pub is_json: bool,
}

/// What one round measured.
pub(crate) struct Round {
    pub(crate) depth: usize,
    pub(crate) requests: u64,
    pub(crate) elapsed: Duration,
    /// Nanoseconds.
    pub(crate) latency: Histogram<u64>,
    /// CPU time of all OSDs together, until [`SETTLE`] after the last request; none where their processes are not
    /// known.
    pub(crate) osd_cpu: Option<Duration>,
    /// CPU time of this process.
    pub(crate) own_cpu: Option<Duration>,
}

/// From a round's last answer until the OSDs' CPU time is read: what they put off (writes in place, checkpoints;
/// BlueStore's deferred writes) is part of what the requests cost. As long as `bench/compare` gives fio's rows.
const SETTLE: Duration = Duration::from_secs(1);

/// Longest latency told apart, in nanoseconds: ten minutes.
const LATENCY_MAX_NS: u64 = 600_000_000_000;
const LATENCY_DIGITS: u8 = 3;

/// Runs the rounds and prints what they measured; erases its objects at the end.
pub fn bench(options: &BenchOptions) -> Result<()> {
    if options.objects == 0 || options.object_bytes == 0 {
        bail!("requests need objects to go to: change --objects or --object-size");
    }
    if options.block_bytes == 0 || !options.object_bytes.is_multiple_of(options.block_bytes) {
        bail!("an object holds a whole number of blocks: change --bs or --object-size");
    }
    let conf = CephConf::read(&options.conf)?;
    let who = EntityName::new(EntityType::CLIENT, &options.client);
    let mut runner = ClientRunner::connect(&conf, &who)?;
    let pool = find_or_make_pool(&mut runner, &options.pool)?;
    let map = runner.client().map().context("connected")?;
    let processes = Processes::of(&conf, map.osds().filter(|osd| map.is_up(*osd)));
    let is_cpu_of_all = processes.as_ref().is_some_and(|processes| processes.has_all_daemons);
    let mut bench = Bench { options, runner, pool, processes, rng: StdRng::seed_from_u64(1) };
    bench.fill()?;
    let mut rounds = Vec::new();
    for depth in &options.depths {
        rounds.push(bench.round(*depth)?);
    }
    bench.erase()?;
    let report = if options.is_json { report::json } else { report::table };
    print!("{}", report(options, &rounds, is_cpu_of_all));
    Ok(())
}

/// The pool's id; one that is not there is made, for benchmarks by its application, and stays.
fn find_or_make_pool(runner: &mut ClientRunner, name: &str) -> Result<PoolId> {
    let id_in = |runner: &ClientRunner| Some(runner.client().map()?.pool_by_name(name)?.0);
    if id_in(runner).is_none() {
        run(runner, &format!(r#"{{"prefix":"osd pool create","pool":{name:?},"pg_num":32}}"#))?;
        let enable = "osd pool application enable";
        run(runner, &format!(r#"{{"prefix":{enable:?},"pool":{name:?},"app":"loligo-bench"}}"#))?;
    }
    loop {
        if let Some(id) = id_in(runner) {
            return Ok(id);
        }
        runner.turn()?;
    }
}

fn run(runner: &mut ClientRunner, json: &str) -> Result<()> {
    let reply = runner.command(json.to_owned())?;
    if reply.result < 0 {
        bail!("{json}: error {}: {}", -reply.result, reply.status);
    }
    Ok(())
}

/// The OSDs' processes, each once: daemons of one process share it.
struct Processes {
    pids: BTreeSet<u32>,
    /// A process that has all daemons: what it takes is not the OSDs' alone.
    has_all_daemons: bool,
}

impl Processes {
    /// By the pid files that ceph.conf names; none unless all these OSDs run on this machine.
    fn of(conf: &CephConf, osds: impl Iterator<Item = OsdId>) -> Option<Processes> {
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

    fn cpu_time(&self) -> Option<Duration> {
        self.pids.iter().map(|pid| cpu_time(Path::new(&format!("/proc/{pid}")))).sum()
    }
}

/// CPU time that a process used until now.
fn cpu_time(proc_dir: &Path) -> Option<Duration> {
    /// Linux counts in these for user space on every machine that we know.
    const TICKS_PER_SEC: u64 = 100;
    let stat = fs::read_to_string(proc_dir.join("stat")).ok()?;
    // Behind the name in parentheses, which may hold anything, come the third field and the others.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SEC))
}

struct Bench<'a> {
    options: &'a BenchOptions,
    runner: ClientRunner,
    pool: PoolId,
    processes: Option<Processes>,
    rng: StdRng,
}

/// Requests in flight while objects are written and erased.
const FILL_DEPTH: usize = 8;

impl Bench<'_> {
    /// Benches that run at once in one pool have objects of their own.
    fn object_request(&self, object: u64, op: OsdOp) -> Request {
        Request::new(self.pool, format!("loligo_bench.{}.{object}", process::id()), vec![op])
    }

    /// Does a request for each object, some at a time.
    fn for_each_object(&mut self, op: &OsdOp) -> Result<()> {
        let (mut next, mut ended) = (0, 0);
        while ended < self.options.objects {
            while next < self.options.objects && next - ended < FILL_DEPTH as u64 {
                self.runner.submit(Token(next), self.object_request(next, op.clone()));
                next += 1;
            }
            for outcome in self.runner.turn()? {
                let Outcome::Done(_, response) = outcome else { continue };
                if response.result < 0 {
                    bail!("{:?} of an object: error {}", op.code, -response.result);
                }
                ended += 1;
            }
        }
        Ok(())
    }

    fn fill(&mut self) -> Result<()> {
        let bytes = self.options.object_bytes;
        let data = workload::payload(bytes, &mut self.rng);
        self.for_each_object(&OsdOp {
            params: OpParams::extent(0, bytes),
            data,
            ..OsdOp::new(OpCode::WRITEFULL)
        })
    }

    fn erase(&mut self) -> Result<()> {
        self.for_each_object(&OsdOp::new(OpCode::DELETE))
    }

    fn osd_cpu(&self) -> Option<Duration> {
        self.processes.as_ref()?.cpu_time()
    }

    fn round(&mut self, depth: usize) -> Result<Round> {
        let mut latency = Histogram::new_with_max(LATENCY_MAX_NS, LATENCY_DIGITS)?;
        let payload = workload::payload(self.options.block_bytes, &mut self.rng);
        let mut started: BTreeMap<Token, u64> = BTreeMap::new();
        let mut stream = workload::Stream::new(self.options);
        let (osd_cpu, own_cpu) = (self.osd_cpu(), cpu_time(Path::new("/proc/self")));
        let start = clock::now();
        let end = start + self.options.duration;
        let mut requests = 0;
        let mut next = 0;
        loop {
            while started.len() < depth && clock::now() < end {
                let request = self.next_request(&mut stream, &payload);
                started.insert(Token(next), clock::now().0);
                self.runner.submit(Token(next), request);
                next += 1;
            }
            if started.is_empty() {
                break;
            }
            for outcome in self.runner.turn()? {
                let Outcome::Done(token, response) = outcome else { continue };
                if response.result < 0 {
                    bail!("a request ended with error {}", -response.result);
                }
                let Some(since) = started.remove(&token) else { continue };
                latency.saturating_record(clock::now().0 - since);
                requests += 1;
            }
        }
        let elapsed = clock::now().since(start);
        let own_after = cpu_time(Path::new("/proc/self"));
        thread::sleep(SETTLE);
        let used = |after: Option<Duration>, before: Option<Duration>| Some(after?.saturating_sub(before?));
        Ok(Round {
            depth,
            requests,
            elapsed,
            latency,
            osd_cpu: used(self.osd_cpu(), osd_cpu),
            own_cpu: used(own_after, own_cpu),
        })
    }

    fn next_request(&mut self, stream: &mut workload::Stream, payload: &Bytes) -> Request {
        let (object, offset) = stream.next(&mut self.rng);
        let params = OpParams::extent(offset, self.options.block_bytes);
        let op = if self.options.workload.is_write() {
            OsdOp { params, data: payload.clone(), ..OsdOp::new(OpCode::WRITE) }
        } else {
            OsdOp { params, ..OsdOp::new(OpCode::READ) }
        };
        self.object_request(object, op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
