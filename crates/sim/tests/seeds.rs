//! Worlds by the hundred. `SIM_SEEDS=N` chooses how many, `SIM_SEED=S` lives through one and tells of it (name the test, too).

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use sim::{Options, Report, World};

const SEEDS: u64 = 300;
const RESIZED_SEEDS: u64 = 60;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A world as most are.
fn usual(seed: u64) -> Options {
    Options { seed, is_disk_lying: false, is_resized: false }
}

fn lying(seed: u64) -> Options {
    Options { is_disk_lying: true, ..usual(seed) }
}

fn resized(seed: u64) -> Options {
    Options { is_resized: true, ..usual(seed) }
}

fn live(options: Options) -> Result<Report, String> {
    let seed = options.seed;
    let run = || World::run(options);
    let outcome = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(text.unwrap_or_else(|| "a panic".to_owned()))
    });
    outcome.map_err(|why| format!("seed {seed}: {why}"))
}

/// Lives through all worlds on all cores; the failures, by seed.
fn failures(seeds: std::ops::Range<u64>, world: impl Fn(u64) -> Options + Sync) -> Vec<String> {
    let next = AtomicU64::new(seeds.start);
    let work = || {
        let mut failed = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return failed;
            }
            failed.extend(live(world(seed)).err().map(|why| (seed, why)));
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut failed = thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("panics are caught")).collect::<Vec<_>>()
    });
    failed.sort();
    failed.into_iter().map(|(_, why)| why).collect()
}

/// Lives through the worlds that were asked for, `seeds` unless somebody says how many.
fn lose_nothing(seeds: u64, world: impl Fn(u64) -> Options + Sync) {
    if let Some(seed) = variable("SIM_SEED") {
        let level = std::env::var("SIM_LOG").unwrap_or_else(|_| "info".to_owned());
        tracing_subscriber::fmt().with_env_filter(level).with_ansi(false).without_time().init();
        println!("{:#?}", live(world(seed)).unwrap_or_else(|why| panic!("{why}")));
        return;
    }
    let start = variable("SIM_START").unwrap_or(0);
    let failed = failures(start..start + variable("SIM_SEEDS").unwrap_or(seeds), world);
    assert!(failed.is_empty(), "{} worlds failed\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn worlds_lose_nothing() {
    lose_nothing(SEEDS, usual);
}

#[test]
fn worlds_whose_pools_change_their_number_of_pgs_lose_nothing() {
    lose_nothing(RESIZED_SEEDS, resized);
}

#[test]
fn replicas_answer_where_they_may() {
    let answered =
        (0..5).map(|seed| live(usual(seed)).expect("a world where nothing is lost").replica_answers);
    assert!(answered.sum::<u64>() > 0);
}

#[test]
fn the_same_seed_is_the_same_world() {
    for seed in 0..5 {
        assert_eq!(live(resized(seed)), live(resized(seed)));
    }
}

#[test]
fn disks_that_lie_are_found_out() {
    assert!(!failures(0..40, lying).is_empty());
}
