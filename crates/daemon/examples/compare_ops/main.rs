//! Sends the same requests, made by chance from a seed, to two clusters, such as a real Ceph and Loligo, and
//! compares what they answer: results, results and output of every op, versions, listings and notifications. What
//! differs is shrunk to the fewest requests that show it.
//!
//!     cargo run -p daemon --example compare_ops -- REAL/ceph.conf OURS/ceph.conf [--seed N] [--episodes N]
//!         [--kind ops|pool-snaps|lists|watches|full] [--class C] [--ignore TEXT]…

mod calls;
mod cluster;
mod compare;
mod dice;
mod generate;
mod pair;
mod plan;

use anyhow::{Context, Result, bail};
use client::Request;
use messages::OpCode;

use cluster::Outcome;
use generate::Generator;
use pair::{Found, Pair};
use plan::{Kind, Planned, Step};

/// Steps with the same few objects.
const EPISODE_STEPS: usize = 40;
/// Steps that are shown of one difference.
const REPORTED_MAX: usize = 8;

struct Options {
    confs: [String; 2],
    seed: u64,
    episodes: u64,
    kind: Kind,
    ignored: Vec<String>,
}

fn options() -> Result<Options> {
    let mut args = std::env::args().skip(1);
    let mut confs = Vec::new();
    let mut out =
        Options { confs: Default::default(), seed: 1, episodes: 20, kind: Kind::Ops, ignored: Vec::new() };
    while let Some(arg) = args.next() {
        let mut value = || args.next().with_context(|| format!("{arg} wants a value"));
        match arg.as_str() {
            "--seed" => out.seed = value()?.parse()?,
            "--episodes" => out.episodes = value()?.parse()?,
            "--kind" => out.kind = Kind::parse(&value()?).context("no such kind")?,
            "--class" => out.kind = Kind::Class(value()?),
            "--ignore" => out.ignored.push(value()?),
            _ => confs.push(arg),
        }
    }
    out.confs = confs.try_into().ok().context("two files: a ceph.conf of each cluster")?;
    Ok(out)
}

fn main() -> Result<()> {
    let options = options()?;
    let mut pair = Pair::connect(&options.confs, &options.kind, options.seed)?;
    let mut ignored = options.ignored.clone();
    for episode in options.seed..options.seed + options.episodes {
        let mut generator = Generator::new(episode, &options.kind);
        let plan: Vec<Step> = (0..EPISODE_STEPS).map(|_| generator.step()).collect();
        while let Some(found) = pair.run(&plan, &ignored)? {
            if found.outcomes.iter().any(Option::is_none) {
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

fn report(episode: u64, plan: &[Step], found: &Found) {
    println!("seed {episode}: {}", found.how);
    let skipped = plan.len().saturating_sub(REPORTED_MAX);
    if skipped > 0 {
        println!("  ({skipped} more before these)");
    }
    for step in &plan[skipped..] {
        match step {
            Step::Request(planned) => report_request(planned),
            Step::MakeSnap(number) => println!("  snapshot {number} made"),
            Step::RemoveSnap(number) => println!("  snapshot {number} removed"),
            Step::List(listing) => println!("  {listing:?}"),
            Step::Pause => println!("  a pause"),
        }
    }
    for (who, outcome, notified) in
        [("real", &found.outcomes[0], &found.notified[0]), ("ours", &found.outcomes[1], &found.notified[1])]
    {
        println!("  {who}: {}", show(outcome));
        notified.iter().for_each(|message| println!("      {message:?}"));
    }
}

fn report_request(planned: &Planned) {
    let Planned { request, versions, name_len } = planned;
    let Request { oid, nspace, key, snapid, snapc, flags, .. } = request;
    println!(
        "  {oid:?} ns {nspace:?} key {key:?} snap {:x} snapc {}:{:?} flags {flags:#x} {}{}",
        snapid.0,
        snapc.seq.0,
        snapc.snaps.iter().map(|snap| snap.0).collect::<Vec<_>>(),
        if versions.is_empty() { String::new() } else { format!("versions {versions:?} ") },
        if *name_len == 0 { String::new() } else { format!("filled up to {name_len}") },
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

fn show(outcome: &Option<Outcome>) -> String {
    match outcome {
        None => "no answer".to_owned(),
        Some(Outcome::Answer(answer, step)) => format!(
            "{} version {} ({step:?}) {:?}",
            answer.result,
            answer.user_version,
            answer.ops.iter().map(|op| (op.result, op.data.len())).collect::<Vec<_>>()
        ),
        Some(other) => format!("{other:?}"),
    }
}
