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
use messages::{OpCode, OpParams, OsdOp, osd_flag};
use rand::{Rng, SeedableRng, rngs::StdRng};
use types::{Errno, Instant, PoolId, Token};

use super::{
    BenchOptions, LATENCY_DIGITS, LATENCY_MAX_NS, Round, SETTLE,
    arrivals::Arrivals,
    cpu::{MachineClock, Processes, cpu_time},
    stamps::{Payloads, Place, Writer},
    waiting, workload,
};
use crate::{client_runner::ClientRunner, clock};

/// Requests in flight while objects are written and erased.
const FILL_DEPTH: usize = 8;
/// And before the first round, where it is to begin with a store that has put something off, as the later ones do.
const WARM_UP_DEPTH: usize = 32;
/// Without an answer for so long, the user is told what is missing.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// The round in which the objects are written.
const FILL_ROUND: u64 = 0;
/// Of a round's blocks that are made before its time is taken.
const AHEAD_BYTES_MAX: usize = 256 << 20;

/// The objects of a bench.
struct Objects {
    pool: PoolId,
    /// In their names: benches that run at once in one pool, on whatever hosts, have objects of their own.
    run: u64,
}

impl Objects {
    fn request(&self, object: u64, op: OsdOp) -> Request {
        Request::new(self.pool, format!("loligo_bench.{:016x}.{object}", self.run), vec![op])
    }

    /// Removes one, also from a pool that is full, where requests wait for space that do not say that they try.
    fn erase(&self, object: u64) -> Request {
        Request { flags: osd_flag::FULL_TRY, ..self.request(object, OsdOp::new(OpCode::DELETE)) }
    }
}

/// What a round needs.
struct Prepared {
    depth: usize,
    payloads: Payloads,
    stream: workload::Stream,
}

/// A request that is in flight.
struct Started {
    since: Instant,
    place: Place,
    data: Bytes,
}

/// A client and the objects that it loads a cluster with.
pub(super) struct Load<'a> {
    options: &'a BenchOptions,
    runner: ClientRunner,
    objects: Objects,
    processes: Option<Processes>,
    /// Of the blocks, the same in every run.
    rng: StdRng,
    /// That have begun.
    rounds: u64,
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
        let objects = Objects { pool, run };
        Load {
            options,
            runner,
            objects,
            processes,
            rng,
            rounds: FILL_ROUND,
            next_token: 0,
            heard: clock::now(),
        }
    }

    /// Starts a request under a token of its own: one of a round that an error ended may still be answered later.
    fn submit(&mut self, request: Request) -> Token {
        let token = Token(self.next_token);
        self.next_token += 1;
        self.runner.submit(token, request);
        token
    }

    /// Waits for something to happen, no longer than `until`, while requests are in flight; what has ended by then.
    fn turn(&mut self, until: Option<Instant>) -> Result<Vec<(Token, Response)>> {
        let outcomes = match until {
            Some(at) => self.runner.turn_until(at)?,
            None => self.runner.turn()?,
        };
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
                eprintln!(
                    "loligo: no answer for {SILENCE_MAX:?}: {}",
                    waiting::reason(map, self.objects.pool)
                );
            }
        }
        Ok(ended)
    }

    /// Lets the client keep its connections while nothing is in flight.
    pub(super) fn idle(&mut self) -> Result<()> {
        self.turn(None)?;
        self.heard = clock::now();
        Ok(())
    }

    /// Does a request for each object, some at a time; `may_miss` where an object that is not there is no error.
    fn for_each_object(
        &mut self,
        mut request: impl FnMut(&Objects, u64) -> Request,
        may_miss: bool,
    ) -> Result<()> {
        let mut flying = BTreeSet::new();
        let mut next = 0;
        self.heard = clock::now();
        while next < self.options.objects || !flying.is_empty() {
            while next < self.options.objects && flying.len() < FILL_DEPTH {
                let request = request(&self.objects, next);
                flying.insert(self.submit(request));
                next += 1;
            }
            for (token, response) in self.turn(None)? {
                let is_missing = may_miss && response.result == Errno::ENOENT.negated();
                if flying.remove(&token) && response.result < 0 && !is_missing {
                    let op = response.ops.first().map(|op| op.code);
                    bail!("{op:?} of an object: error {}", -response.result);
                }
            }
        }
        Ok(())
    }

    fn writer(&self, round: u64) -> Writer {
        Writer::new(self.objects.run, round, self.options.block_bytes)
    }

    pub(super) fn fill(&mut self) -> Result<()> {
        let bytes = self.options.object_bytes;
        let mut payloads = Payloads::new(self.writer(FILL_ROUND), bytes, 0, &mut self.rng);
        let fill = |objects: &Objects, object| {
            let data = payloads.take(Place { object, offset: 0 });
            let params = OpParams::extent(0, bytes);
            objects.request(object, OsdOp { params, data, ..OsdOp::new(OpCode::WRITEFULL) })
        };
        self.for_each_object(fill, false)
    }

    /// Erases what may be there of the objects. A second signal ends that.
    pub(super) fn erase(&mut self) -> Result<()> {
        self.for_each_object(Objects::erase, true)
    }

    /// Does what a round does, for some bytes and unmeasured.
    pub(super) fn warm_up(&mut self) -> Result<()> {
        let requests = self.options.warm_up_bytes.div_ceil(self.options.block_bytes);
        let run = self.prepare(WARM_UP_DEPTH);
        self.run(run, None, |submitted, _| submitted < requests, |_| {})
    }

    fn osd_cpu(&self) -> Option<Duration> {
        self.processes.as_ref()?.cpu_time()
    }

    pub(super) fn round(&mut self, depth: usize) -> Result<Round> {
        let run = self.prepare(depth);
        let mut latency = Histogram::new_with_max(LATENCY_MAX_NS, LATENCY_DIGITS)?;
        let (osd_cpu, own_cpu) = (self.osd_cpu(), cpu_time(Path::new("/proc/self")));
        let machine = MachineClock::start();
        let start = clock::now();
        let end = start + self.options.duration;
        let (mut requests, mut requests_in_time) = (0, 0);
        let seed = self.objects.run.wrapping_add(self.rounds);
        let arrivals = self.options.rate.map(|rate| Arrivals::new(start, rate, seed));
        self.run(
            run,
            arrivals,
            |_, due| due < end,
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

    /// What a round needs before its time is taken.
    fn prepare(&mut self, depth: usize) -> Prepared {
        self.rounds += 1;
        let is_write = self.options.workload.is_write();
        let ahead = if is_write { depth.min(AHEAD_BYTES_MAX / self.options.block_bytes as usize) } else { 0 };
        let writer = self.writer(self.rounds);
        let payloads = Payloads::new(writer, self.options.block_bytes, ahead, &mut self.rng);
        Prepared { depth, payloads, stream: workload::Stream::new(self.options) }
    }

    /// Keeps its depth of requests in flight, or begins them when they are due, while `may_begin`, which is told
    /// how many began and when the next one is due; and waits for the last ones. `ended` is told when each that
    /// ends was submitted or, where they do not wait for each other, due: what it waited for the depth counts.
    fn run(
        &mut self,
        run: Prepared,
        mut arrivals: Option<Arrivals>,
        may_begin: impl Fn(u64, Instant) -> bool,
        mut ended: impl FnMut(Instant),
    ) -> Result<()> {
        let Prepared { depth, mut payloads, mut stream } = run;
        let mut started: BTreeMap<Token, Started> = BTreeMap::new();
        let mut submitted = 0;
        self.heard = clock::now();
        loop {
            let mut until = None;
            while started.len() < depth {
                let now = clock::now();
                let due = arrivals.as_ref().map_or(now, Arrivals::due);
                if !may_begin(submitted, due) {
                    break;
                }
                if due > now {
                    until = Some(due);
                    break;
                }
                let place = stream.next(&mut self.rng);
                let (request, data) = self.request_at(place, &mut payloads);
                let since = arrivals.as_mut().map_or_else(clock::now, Arrivals::take);
                started.insert(self.submit(request), Started { since, place, data });
                submitted += 1;
            }
            if started.is_empty() {
                if until.is_none() {
                    return Ok(());
                }
                self.heard = clock::now();
            }
            for (token, response) in self.turn(until)? {
                let Some(Started { since, place, data }) = started.remove(&token) else { continue };
                ended(since);
                check(self.options, self.writer(FILL_ROUND), place, &response)?;
                payloads.give_back(data);
            }
        }
    }

    /// With what it writes.
    fn request_at(&self, place: Place, payloads: &mut Payloads) -> (Request, Bytes) {
        let params = OpParams::extent(place.offset, self.options.block_bytes);
        let (code, data) = if self.options.workload.is_write() {
            (OpCode::WRITE, payloads.take(place))
        } else {
            (OpCode::READ, Bytes::new())
        };
        let op = OsdOp { params, data: data.clone(), ..OsdOp::new(code) };
        (self.objects.request(place.object, op), data)
    }
}

/// Refuses an answer that is not what was asked for: reads return what `filler` wrote, as a bench that reads writes
/// nothing else.
fn check(options: &BenchOptions, filler: Writer, place: Place, response: &Response) -> Result<()> {
    if response.result < 0 {
        bail!("a request ended with error {}", -response.result);
    }
    let wanted = if options.workload.is_write() { 0 } else { options.block_bytes };
    let read = response.ops.iter().map(|op| op.data_bytes() as u64).sum::<u64>();
    if read != wanted {
        bail!("a request returned {read} bytes instead of {wanted}");
    }
    if !response.ops.iter().all(|op| filler.has_written(place, &op.data)) {
        let Place { object, offset } = place;
        bail!("a request returned other bytes than were written to object {object} at {offset}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use messages::tries_when_full;

    use super::{
        super::{Workload, tests::options},
        *,
    };

    fn read(data: impl Into<Bytes>) -> Response {
        let ops = vec![OsdOp { data: data.into(), ..OsdOp::new(OpCode::READ) }];
        Response { ops, ..Response::default() }
    }

    #[test]
    fn what_a_read_returns_is_what_was_written_there() {
        let options = BenchOptions { workload: Workload::RandRead, ..options() };
        let filler = Writer::new(7, FILL_ROUND, options.block_bytes);
        let (place, other) = (Place { object: 1, offset: 8192 }, Place { object: 1, offset: 4096 });
        let mut payloads = Payloads::new(filler, options.block_bytes, 0, &mut StdRng::seed_from_u64(1));
        let [right, wrong] = [place, other].map(|place| read(payloads.take(place)));
        check(&options, filler, place, &right).unwrap();
        for bad in [wrong, read(vec![0; 4096])] {
            let error = check(&options, filler, place, &bad).unwrap_err().to_string();
            assert_eq!(error, "a request returned other bytes than were written to object 1 at 8192");
        }
        assert!(check(&options, filler, place, &read(vec![0; 100])).is_err());
        assert!(check(&options, filler, place, &Response { result: -5, ..right }).is_err());
    }

    #[test]
    fn objects_are_erased_from_a_pool_that_is_full_of_them() {
        let objects = Objects { pool: PoolId(1), run: 7 };
        assert!(tries_when_full(objects.erase(3).flags));
        assert!(!tries_when_full(objects.request(3, OsdOp::new(OpCode::READ)).flags));
    }
}
