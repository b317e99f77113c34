//! `loligo bench`: what a cluster does without a stock client's own cost. Speaks Ceph's protocol only, so
//! that it measures a real Ceph as well.

mod arrivals;
mod cpu;
mod load;
mod pool;
mod report;
mod stamps;
mod waiting;
mod workload;

use std::{
    io::{self, Write},
    path::PathBuf,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use cpu::{MachineUse, Processes};
use hdrhistogram::Histogram;
use load::Load;
use types::{EntityName, EntityType};

use crate::{ceph_conf::CephConf, client_runner::ClientRunner};

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
    /// Requests that begin in a second, at times set beforehand, as far as the depth lets them; without it, each begins
    /// as soon as another one has ended.
    pub rate: Option<u64>,
    /// Length of a round.
    pub duration: Duration,
    /// How many objects the requests are spread over.
    pub objects: u64,
    /// Bytes of each object; written before the first round.
    pub object_bytes: u64,
    /// Bytes of requests before the first round that are not measured.
    pub warm_up_bytes: u64,
    /// The caller says on standard input when to begin and when to erase.
    pub is_in_step: bool,
    /// JSON instead of a table.
    pub is_json: bool,
}

impl BenchOptions {
    /// Refuses what nothing can be measured with.
    fn check(&self) -> Result<()> {
        if self.objects == 0 || self.object_bytes == 0 {
            bail!("requests need objects to go to: change --objects or --object-size");
        }
        if self.block_bytes == 0 || !self.object_bytes.is_multiple_of(self.block_bytes) {
            bail!("an object holds a whole number of blocks: change --bs or --object-size");
        }
        if self.depths.is_empty() || self.depths.contains(&0) {
            bail!("a round has at least one request in flight: change --depth");
        }
        if self.rate.is_some_and(|rate| !(1..=RATE_MAX).contains(&rate)) {
            bail!("no less than one request and no more than {RATE_MAX} begin in a second: change --rate");
        }
        if self.duration.is_zero() {
            bail!("a round takes some time: change --seconds");
        }
        Ok(())
    }
}

/// What one round measured.
pub(crate) struct Round {
    pub(crate) depth: usize,
    pub(crate) requests: u64,
    /// Those of them that ended within the round's time, before the last ones in flight did.
    pub(crate) requests_in_time: u64,
    pub(crate) elapsed: Duration,
    /// Nanoseconds.
    pub(crate) latency: Histogram<u64>,
    /// CPU time of all OSDs together, until [`SETTLE`] after the last request; none where their processes are not
    /// known.
    pub(crate) osd_cpu: Option<Duration>,
    /// CPU time of this process.
    pub(crate) own_cpu: Option<Duration>,
    /// CPU time of the whole machine, from the first request until [`SETTLE`] after the last.
    pub(crate) machine: Option<MachineUse>,
}

/// From a round's last answer until the OSDs' CPU time is read: what they put off (writes in place, checkpoints;
/// BlueStore's deferred writes) is part of what the requests cost. As long as `bench/compare` gives fio's rows.
const SETTLE: Duration = Duration::from_secs(1);

/// More requests a second than any client begins.
const RATE_MAX: u64 = 10_000_000;

/// Longest latency told apart, in nanoseconds: ten minutes.
const LATENCY_MAX_NS: u64 = 600_000_000_000;
const LATENCY_DIGITS: u8 = 3;

/// Runs the rounds and prints what they measured; erases its objects at the end, also after an error or a signal.
pub fn bench(options: &BenchOptions) -> Result<()> {
    options.check()?;
    reactor::block_signals()?;
    let conf = CephConf::read(&options.conf)?;
    let who = EntityName::new(EntityType::CLIENT, &options.client);
    let mut runner = ClientRunner::connect_until_signal(&conf, &who)?;
    let pool = pool::find_or_make(&mut runner, &options.pool)?;
    let map = runner.client().map().context("connected")?;
    let processes = Processes::of(&conf, map.osds().filter(|osd| map.is_up(*osd)));
    let is_cpu_of_all = processes.as_ref().is_some_and(|processes| processes.has_all_daemons);
    let mut load = Load::new(options, runner, pool, processes);
    let mut rounds = Vec::new();
    let measured = measure(options, &mut load, &mut rounds);
    let mut printed = Ok(());
    if !rounds.is_empty() {
        let report = if options.is_json { report::json } else { report::table };
        printed = print(&report(options, &rounds, is_cpu_of_all));
    }
    let mut waited = Ok(());
    if measured.is_ok() && options.is_in_step {
        waited = wait_for_line(&mut load).map(drop);
    }
    let erased = load.erase();
    measured.and(printed).and(waited).and(erased)
}

/// Writes the objects and runs the rounds.
fn measure(options: &BenchOptions, load: &mut Load<'_>, rounds: &mut Vec<Round>) -> Result<()> {
    load.fill()?;
    if options.is_in_step {
        print("ready\n")?;
        if wait_for_line(load)? == 0 {
            bail!("standard input ended before it said to begin");
        }
    }
    load.warm_up()?;
    for depth in &options.depths {
        rounds.push(load.round(*depth)?);
    }
    Ok(())
}

/// `print!` would end the process where nobody reads, and leave the objects.
fn print(text: &str) -> Result<()> {
    let mut out = io::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("writing to standard output")
}

/// Waits for the caller's next line, while the client stays connected: its length, 0 at the input's end.
fn wait_for_line(load: &mut Load<'_>) -> Result<usize> {
    let reader = thread::spawn(|| io::stdin().read_line(&mut String::new()));
    while !reader.is_finished() {
        load.idle()?;
    }
    let read = reader.join().map_err(|_| anyhow::anyhow!("reading standard input panicked"))?;
    read.context("reading standard input")
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn options() -> BenchOptions {
        BenchOptions {
            conf: PathBuf::new(),
            client: "admin".to_owned(),
            pool: "rbd".to_owned(),
            workload: Workload::RandWrite,
            block_bytes: 4096,
            depths: vec![1, 8],
            rate: None,
            duration: Duration::from_secs(1),
            objects: 1,
            object_bytes: 4 << 20,
            warm_up_bytes: 0,
            is_in_step: false,
            is_json: false,
        }
    }

    #[test]
    fn a_round_without_requests_or_time_is_refused() {
        assert!(options().check().is_ok());
        let refused = |options: BenchOptions| options.check().unwrap_err().to_string();
        assert!(refused(BenchOptions { depths: vec![1, 0], ..options() }).contains("--depth"));
        assert!(refused(BenchOptions { depths: Vec::new(), ..options() }).contains("--depth"));
        assert!(refused(BenchOptions { rate: Some(0), ..options() }).contains("--rate"));
        assert!(refused(BenchOptions { duration: Duration::ZERO, ..options() }).contains("--seconds"));
        assert!(refused(BenchOptions { objects: 0, ..options() }).contains("--objects"));
        assert!(refused(BenchOptions { block_bytes: 3000, ..options() }).contains("--bs"));
    }
}
