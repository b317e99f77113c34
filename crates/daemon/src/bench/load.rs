//! The load: writes the objects, runs rounds on them, erases them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    thread,
    time::Duration,
};

use anyhow::{Result, bail};
use bytes::Bytes;
use client::{Outcome, Request, Response};
use hdrhistogram::Histogram;
use messages::{OpCode, OpParams, OsdOp};
use rand::{Rng, SeedableRng, rngs::StdRng};
use types::{Errno, Instant, PoolId, Token};

use super::{
    BenchOptions, LATENCY_DIGITS, LATENCY_MAX_NS, Round, SETTLE,
    cpu::{MachineClock, Processes, cpu_time},
    waiting, workload,
};
use crate::{client_runner::ClientRunner, clock};

/// Requests in flight while objects are written and erased.
const FILL_DEPTH: usize = 8;
/// And before the first round, where it is to begin with a store that has put something off, as the later ones do.
const WARM_UP_DEPTH: usize = 32;
/// Without an answer for so long, the user is told what is missing.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// A client and the objects that it loads a cluster with.
pub(super) struct Load<'a> {
    options: &'a BenchOptions,
    runner: ClientRunner,
    pool: PoolId,
    processes: Option<Processes>,
    /// Of the blocks, the same in every run.
    rng: StdRng,
    /// In the objects' names: benches that run at once in one pool, on whatever hosts, have objects of their own.
    run: u64,
    next_token: u64,
    /// When an answer came, or the user was told that none does.
    heard: Instant,
}

impl Load<'_> {
    pub(super) fn new(
        options: &BenchOptions,
        runner: ClientRunner,
        pool: PoolId,
        processes: Option<Processes>,
    ) -> Load<'_> {
        let run = StdRng::from_seed(clock::random_seed()).random();
        let rng = StdRng::seed_from_u64(1);
        Load { options, runner, pool, processes, rng, run, next_token: 0, heard: clock::now() }
    }

    fn object_request(&self, object: u64, op: OsdOp) -> Request {
        Request::new(self.pool, format!("loligo_bench.{:016x}.{object}", self.run), vec![op])
    }

    /// Starts a request under a token of its own: one of a round that an error ended may still be answered later.
    fn submit(&mut self, request: Request) -> Token {
        let token = Token(self.next_token);
        self.next_token += 1;
        self.runner.submit(token, request);
        token
    }

    /// Waits for something to happen while requests are in flight; what has ended by then.
    fn turn(&mut self) -> Result<Vec<(Token, Response)>> {
        let outcomes = self.runner.turn()?;
        if self.runner.take_signal() {
            bail!("interrupted");
        }
        let done = |outcome| match outcome {
            Outcome::Done(token, response) => Some((token, response)),
            Outcome::CommandDone(_) | Outcome::Notified(_) => None,
        };
        let ended: Vec<_> = outcomes.into_iter().filter_map(done).collect();
        let now = clock::now();
        if !ended.is_empty() {
            self.heard = now;
        } else if now.since(self.heard) >= SILENCE_MAX {
            self.heard = now;
            if let Some(map) = self.runner.client().map() {
                eprintln!("loligo: no answer for {SILENCE_MAX:?}: {}", waiting::reason(map, self.pool));
            }
        }
        Ok(ended)
    }

    /// Lets the client keep its connections while nothing is in flight.
    pub(super) fn idle(&mut self) -> Result<()> {
        self.turn()?;
        self.heard = clock::now();
        Ok(())
    }

    /// Does a request for each object, some at a time; `may_miss` where an object that is not there is no error.
    fn for_each_object(&mut self, op: &OsdOp, may_miss: bool) -> Result<()> {
        let mut flying = BTreeSet::new();
        let mut next = 0;
        self.heard = clock::now();
        while next < self.options.objects || !flying.is_empty() {
            while next < self.options.objects && flying.len() < FILL_DEPTH {
                let request = self.object_request(next, op.clone());
                flying.insert(self.submit(request));
                next += 1;
            }
            for (token, response) in self.turn()? {
                let is_missing = may_miss && response.result == Errno::ENOENT.negated();
                if flying.remove(&token) && response.result < 0 && !is_missing {
                    bail!("{:?} of an object: error {}", op.code, -response.result);
                }
            }
        }
        Ok(())
    }

    pub(super) fn fill(&mut self) -> Result<()> {
        let bytes = self.options.object_bytes;
        let data = workload::payload(bytes, &mut self.rng);
        let params = OpParams::extent(0, bytes);
        self.for_each_object(&OsdOp { params, data, ..OsdOp::new(OpCode::WRITEFULL) }, false)
    }

    /// Erases what may be there of the objects. A second signal ends that.
    pub(super) fn erase(&mut self) -> Result<()> {
        self.for_each_object(&OsdOp::new(OpCode::DELETE), true)
    }

    /// Does what a round does, for some bytes and unmeasured.
    pub(super) fn warm_up(&mut self) -> Result<()> {
        let requests = self.options.warm_up_bytes.div_ceil(self.options.block_bytes);
        self.run(WARM_UP_DEPTH, |submitted| submitted < requests, |_| {})
    }

    fn osd_cpu(&self) -> Option<Duration> {
        self.processes.as_ref()?.cpu_time()
    }

    pub(super) fn round(&mut self, depth: usize) -> Result<Round> {
        let mut latency = Histogram::new_with_max(LATENCY_MAX_NS, LATENCY_DIGITS)?;
        let (osd_cpu, own_cpu) = (self.osd_cpu(), cpu_time(Path::new("/proc/self")));
        let machine = MachineClock::start();
        let start = clock::now();
        let end = start + self.options.duration;
        let (mut requests, mut requests_in_time) = (0, 0);
        self.run(
            depth,
            |_| clock::now() < end,
            |since| {
                let now = clock::now();
                latency.saturating_record(now.since(since).as_nanos() as u64);
                requests += 1;
                requests_in_time += u64::from(now < end);
            },
        )?;
        let elapsed = clock::now().since(start);
        let own_after = cpu_time(Path::new("/proc/self"));
        thread::sleep(SETTLE);
        let used = |after: Option<Duration>, before: Option<Duration>| Some(after?.saturating_sub(before?));
        Ok(Round {
            depth,
            requests,
            requests_in_time,
            elapsed,
            latency,
            osd_cpu: used(self.osd_cpu(), osd_cpu),
            own_cpu: used(own_after, own_cpu),
            machine: machine.and_then(|clock| clock.used()),
        })
    }

    /// Keeps so many requests in flight while `may_begin`, which is told how many began, and waits for the last ones.
    /// `ended` is told when each that ends was submitted.
    fn run(
        &mut self,
        depth: usize,
        may_begin: impl Fn(u64) -> bool,
        mut ended: impl FnMut(Instant),
    ) -> Result<()> {
        let payload = workload::payload(self.options.block_bytes, &mut self.rng);
        let mut started: BTreeMap<Token, Instant> = BTreeMap::new();
        let mut stream = workload::Stream::new(self.options);
        let mut submitted = 0;
        self.heard = clock::now();
        loop {
            while started.len() < depth && may_begin(submitted) {
                let request = self.next_request(&mut stream, &payload);
                let now = clock::now();
                started.insert(self.submit(request), now);
                submitted += 1;
            }
            if started.is_empty() {
                return Ok(());
            }
            for (token, response) in self.turn()? {
                let Some(since) = started.remove(&token) else { continue };
                self.check(&response)?;
                ended(since);
            }
        }
    }

    /// Refuses an answer that is not what was asked for.
    fn check(&self, response: &Response) -> Result<()> {
        if response.result < 0 {
            bail!("a request ended with error {}", -response.result);
        }
        let wanted = if self.options.workload.is_write() { 0 } else { self.options.block_bytes };
        let read = response.ops.iter().map(|op| op.data_bytes() as u64).sum::<u64>();
        if read != wanted {
            bail!("a request returned {read} bytes instead of {wanted}");
        }
        Ok(())
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
