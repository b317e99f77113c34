//! Sends the same requests, made by chance from a seed, to two clusters, such as a real Ceph and Loligo, and
//! compares what they answer: results, results and output of every op, and versions. What differs is shrunk to the
//! fewest requests that show it.
//!
//!     cargo run -p daemon --example compare_ops -- REAL/ceph.conf OURS/ceph.conf [--seed N] [--episodes N] [--class C]
//!         [--ignore TEXT]…

mod calls;
mod compare;
mod dice;
mod generate;

use std::{cmp::Ordering, collections::BTreeMap, path::Path, time::Duration};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use client::{Request, Response};
use daemon::{CephConf, ClientRunner};
use messages::{OpCode, OpParams, OsdOp};
use types::{EntityName, EntityType, PoolId};

use generate::{Generator, Planned};

/// Requests on the same few objects.
const EPISODE_REQUESTS: usize = 40;
/// Requests that are shown of one difference.
const REPORTED_MAX: usize = 8;
/// Without an answer for so long, there is none.
const PATIENCE: Duration = Duration::from_secs(10);

struct Options {
    confs: [String; 2],
    seed: u64,
    episodes: u64,
    class: Option<String>,
    ignored: Vec<String>,
}

fn options() -> Result<Options> {
    let mut args = std::env::args().skip(1);
    let mut confs = Vec::new();
    let mut out =
        Options { confs: Default::default(), seed: 1, episodes: 20, class: None, ignored: Vec::new() };
    while let Some(arg) = args.next() {
        let mut value = || args.next().with_context(|| format!("{arg} wants a value"));
        match arg.as_str() {
            "--seed" => out.seed = value()?.parse()?,
            "--episodes" => out.episodes = value()?.parse()?,
            "--class" => out.class = Some(value()?),
            "--ignore" => out.ignored.push(value()?),
            _ => confs.push(arg),
        }
    }
    out.confs = confs.try_into().ok().context("two files: a ceph.conf of each cluster")?;
    Ok(out)
}

fn main() -> Result<()> {
    let options = options()?;
    let mut pair = Pair {
        clusters: [Cluster::connect(&options.confs[0])?, Cluster::connect(&options.confs[1])?],
        run: options.seed,
        prefixes: 0,
    };
    let mut ignored = options.ignored.clone();
    for episode in options.seed..options.seed + options.episodes {
        let mut generator = Generator::new(episode, PoolId(0), options.class.as_deref());
        let plan: Vec<Planned> = (0..EPISODE_REQUESTS).map(|_| generator.request()).collect();
        while let Some(found) = pair.run(&plan, &ignored)? {
            if found.answers.iter().any(Option::is_none) {
                // It would be sent again for ever.
                report(episode, &plan[found.at..=found.at], &found);
                bail!("no answer");
            }
            let (plan, found) = pair.shrink(plan[..=found.at].to_vec(), found, &ignored)?;
            report(episode, &plan, &found);
            ignored.push(found.how);
        }
    }
    let count = ignored.len() - options.ignored.len();
    if count == 0 { Ok(()) } else { bail!("{count} differences") }
}

fn report(episode: u64, plan: &[Planned], found: &Found) {
    println!("seed {episode}: {}", found.how);
    let skipped = plan.len().saturating_sub(REPORTED_MAX);
    if skipped > 0 {
        println!("  ({skipped} more before these)");
    }
    for Planned { request, versions } in &plan[skipped..] {
        let Request { oid, nspace, key, snapid, snapc, flags, .. } = request;
        println!(
            "  {oid:?} ns {nspace:?} key {key:?} snap {:x} snapc {}:{:?} flags {flags:#x} {}",
            snapid.0,
            snapc.seq.0,
            snapc.snaps.iter().map(|snap| snap.0).collect::<Vec<_>>(),
            if versions.is_empty() { String::new() } else { format!("versions {versions:?}") },
        );
        for op in &request.ops {
            let name = if op.code == OpCode::CALL { calls::name(op) } else { format!("{:?}", op.code) };
            println!(
                "      {name} flags {:#x} {:02x?} data {} {:?}",
                op.flags,
                op.params.0,
                op.data.len(),
                op.data.slice(..op.data.len().min(80))
            );
        }
    }
    println!("  real: {}", show(&found.answers[0]));
    println!("  ours: {}", show(&found.answers[1]));
}

fn show(answer: &Option<Answer>) -> String {
    match answer {
        None => "no answer".to_owned(),
        Some((answer, step)) => format!(
            "{} version {} ({step:?}) {:?}",
            answer.result,
            answer.user_version,
            answer.ops.iter().map(|op| (op.result, op.data.len())).collect::<Vec<_>>()
        ),
    }
}

/// What a cluster says, and how the version in it compares with the one before: PGs number failures, too, so that no
/// more than that is the same in two clusters.
type Answer = (Response, Option<Ordering>);

/// The first difference of a run.
struct Found {
    at: usize,
    how: String,
    answers: [Option<Answer>; 2],
}

/// One of the two clusters.
struct Cluster {
    runner: ClientRunner,
    pool: PoolId,
    /// User versions of objects, as last answered.
    versions: BTreeMap<Bytes, u64>,
    /// The one at the begin of the episode.
    base: u64,
}

impl Cluster {
    fn connect(conf: &str) -> Result<Cluster> {
        let conf = CephConf::read(Path::new(conf))?;
        let mut runner = ClientRunner::connect(&conf, &EntityName::new(EntityType::CLIENT, "admin"))?;
        let name = "compare";
        for command in [
            format!(r#"{{"prefix":"osd pool create","pool":{name:?},"pg_num":1,"pgp_num":1,"size":1}}"#),
            format!(r#"{{"prefix":"osd pool application enable","pool":{name:?},"app":"rbd"}}"#),
        ] {
            let reply = runner.command(command.clone())?;
            if reply.result < 0 {
                bail!("{command}: {} {}", reply.result, reply.status);
            }
        }
        loop {
            if let Some((pool, _)) = runner.client().map().and_then(|map| map.pool_by_name(name)) {
                return Ok(Cluster { runner, pool, versions: BTreeMap::new(), base: 0 });
            }
            runner.wait()?;
        }
    }

    fn answer(&mut self, mut planned: Planned, prefix: &str) -> Result<Option<Answer>> {
        let request = &mut planned.request;
        request.pool = self.pool;
        let name = Bytes::from([prefix.as_bytes(), &request.oid].concat());
        request.oid = name.clone();
        let last = self.versions.get(&name).copied().unwrap_or(self.base);
        for (at, distance) in &planned.versions {
            if let Some(op) = request.ops.get_mut(*at) {
                op.params.0[8..16].copy_from_slice(&last.saturating_add_signed(*distance).to_le_bytes());
            }
        }
        for op in
            request.ops.iter_mut().filter(|op| matches!(op.code, OpCode::COPY_FROM | OpCode::COPY_FROM2))
        {
            op.data = with_prefix(&op.data, prefix, self.pool);
        }
        let Some(answer) = self.runner.request(planned.request, PATIENCE)? else { return Ok(None) };
        let version = Some(answer.user_version).filter(|version| *version > 0 && answer.result >= 0);
        if let Some(version) = version {
            self.versions.insert(name, version);
        }
        Ok(Some((answer, version.map(|version| version.cmp(&last)))))
    }
}

/// The source of a copy, named with the episode's prefix, in the cluster's pool.
fn with_prefix(data: &Bytes, prefix: &str, pool: PoolId) -> Bytes {
    let Some(name_len) = data.get(..4).map(|len| u32::from_le_bytes([len[0], len[1], len[2], len[3]])) else {
        return data.clone();
    };
    let (name, rest) = data[4..].split_at(name_len as usize);
    let len = (prefix.len() as u32 + name_len).to_le_bytes();
    let mut rest = rest.to_vec();
    // Behind the envelope.
    rest[6..14].copy_from_slice(&pool.0.to_le_bytes());
    Bytes::from([&len[..], prefix.as_bytes(), name, &rest].concat())
}

struct Pair {
    clusters: [Cluster; 2],
    /// Objects of other runs are other objects.
    run: u64,
    prefixes: u64,
}

impl Pair {
    /// Runs the requests on objects that nobody used before; the first difference.
    fn run(&mut self, plan: &[Planned], ignored: &[String]) -> Result<Option<Found>> {
        self.prefixes += 1;
        let prefix = format!("{}-{}-", self.run, self.prefixes);
        let marker = OsdOp {
            params: OpParams::extent(0, 1),
            data: Bytes::from_static(b"1"),
            ..OsdOp::new(OpCode::WRITEFULL)
        };
        for cluster in &mut self.clusters {
            let request = Request::new(PoolId(0), "marker", vec![marker.clone()]);
            let answer = cluster.answer(Planned { request, versions: Vec::new() }, "")?;
            cluster.base = answer.context("the cluster does not answer")?.0.user_version;
        }
        for (at, planned) in plan.iter().enumerate() {
            let real = self.clusters[0].answer(planned.clone(), &prefix)?;
            let ours = self.clusters[1].answer(planned.clone(), &prefix)?;
            let how = match (&real, &ours) {
                (None, None) => None,
                (Some(real), Some(ours)) => compare::difference(&planned.request.ops, &real.0, &ours.0)
                    .or_else(|| {
                        (real.1 != ours.1).then(|| format!("version: {:?}, ours {:?}", real.1, ours.1))
                    }),
                (real, ours) => Some(format!("answers: {}, ours {}", show(real), show(ours))),
            };
            if let Some(how) = how
                && !ignored.iter().any(|text| how.contains(text))
            {
                return Ok(Some(Found { at, how, answers: [real, ours] }));
            }
        }
        Ok(None)
    }

    /// Fewer requests and ops that show the same difference.
    fn shrink(
        &mut self,
        mut plan: Vec<Planned>,
        mut found: Found,
        ignored: &[String],
    ) -> Result<(Vec<Planned>, Found)> {
        let at = |planned: &Planned| {
            let Request { oid, nspace, key, .. } = &planned.request;
            (oid.clone(), nspace.clone(), key.clone())
        };
        let object = plan.last().map(at);
        let fewer: Vec<Planned> =
            plan.iter().filter(|planned| Some(at(planned)) == object).cloned().collect();
        if let Some(again) = self.run(&fewer, ignored)?.filter(|again| again.how == found.how) {
            (plan, found) = (fewer, again);
        }
        let mut step = plan.len().next_power_of_two() / 2;
        while step > 0 {
            let mut end = plan.len();
            while end > 0 {
                let start = end.saturating_sub(step);
                let mut fewer = plan.clone();
                fewer.drain(start..end);
                if let Some(again) = self.run(&fewer, ignored)?.filter(|again| again.how == found.how) {
                    (plan, found) = (fewer, again);
                }
                end = start.min(plan.len());
            }
            step /= 2;
        }
        for at in (0..plan.len()).rev() {
            for op in (0..plan[at].request.ops.len()).rev() {
                let mut fewer = plan.clone();
                fewer[at].request.ops.remove(op);
                fewer[at].versions.retain(|(of, _)| *of != op);
                fewer[at].versions.iter_mut().filter(|(of, _)| *of > op).for_each(|(of, _)| *of -= 1);
                if fewer[at].request.ops.is_empty() {
                    continue;
                }
                if let Some(again) = self.run(&fewer, ignored)?.filter(|again| again.how == found.how) {
                    (plan, found) = (fewer, again);
                }
            }
        }
        Ok((plan, found))
    }
}
