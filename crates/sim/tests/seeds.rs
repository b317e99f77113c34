//! Worlds by the hundred. `SIM_SEEDS=N` chooses how many, `SIM_SEED=S` lives through one and tells of it (name the
//! test, too).

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use sim::{Canary, Options, Report, World};

const SEEDS: u64 = 64;
/// By so many worlds each fault that is made on purpose has shown.
const CANARY_SEEDS: u64 = 40;
const RESIZED_SEEDS: u64 = 16;
const MOVED_SEEDS: u64 = 16;
const FULL_SEEDS: u64 = 6;
const WATCHED_SEEDS: u64 = 12;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn lying(seed: u64) -> Options {
    Options { is_disk_lying: true, ..Options::new(seed) }
}

fn resized(seed: u64) -> Options {
    Options { is_resized: true, ..Options::new(seed) }
}

/// Most pools have two copies, some have a single one.
fn moved(seed: u64) -> Options {
    let copies = if seed.is_multiple_of(4) { 1 } else { 2 };
    Options { copies: Some(copies), ..Options::new(seed) }
}

/// In every other world devices also fill while PGs are split and merged.
fn full(seed: u64) -> Options {
    Options { is_full: true, is_resized: seed % 2 == 1, ..Options::new(seed) }
}

/// Most pools have PGs that are split and merged, some take writes with one copy, while their PGs move.
fn watched(seed: u64) -> Options {
    let copies = seed.is_multiple_of(4).then_some(2);
    Options { has_watchers: true, is_resized: copies.is_none(), copies, ..Options::new(seed) }
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

/// Lives through all worlds on all cores; the failures, by seed, and what was seen in the others.
fn failures(
    seeds: std::ops::Range<u64>,
    world: impl Fn(u64) -> Options + Sync,
) -> (Vec<String>, BTreeSet<&'static str>) {
    let next = AtomicU64::new(seeds.start);
    let work = || {
        let (mut failed, mut seen) = (Vec::new(), BTreeSet::new());
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return (failed, seen);
            }
            match live(world(seed)) {
                Ok(report) => seen.extend(report.seen),
                Err(why) => failed.push((seed, why)),
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let outcomes = thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("panics are caught")).collect::<Vec<_>>()
    });
    let (failed, seen): (Vec<_>, Vec<_>) = outcomes.into_iter().unzip();
    let mut failed = failed.concat();
    failed.sort();
    (failed.into_iter().map(|(_, why)| why).collect(), seen.into_iter().flatten().collect())
}

/// Lives through the worlds that were asked for, `seeds` of them unless the environment says how many. In one of these,
/// each of `wanted` has to happen.
fn lose_nothing(seeds: u64, wanted: &[&str], world: impl Fn(u64) -> Options + Sync) {
    if let Some(seed) = variable("SIM_SEED") {
        let level = std::env::var("SIM_LOG").unwrap_or_else(|_| "info".to_owned());
        tracing_subscriber::fmt().with_env_filter(level).with_ansi(false).without_time().init();
        println!("{:#?}", live(world(seed)).unwrap_or_else(|why| panic!("{why}")));
        return;
    }
    let start = variable("SIM_START").unwrap_or(0);
    let count = variable("SIM_SEEDS").unwrap_or(seeds);
    let (failed, seen) = failures(start..start + count, world);
    assert!(failed.is_empty(), "{} worlds failed\n{}", failed.len(), failed.join("\n"));
    let missing: Vec<_> = wanted.iter().filter(|what| !seen.contains(**what)).collect();
    assert!(missing.is_empty() || (start, count) != (0, seeds), "no world shows {missing:?}");
}

#[test]
fn worlds_lose_nothing() {
    let wanted = ["a request found its pool deleted", "a client took over from another", "a log was trimmed"];
    lose_nothing(SEEDS, &wanted, Options::new);
}

#[test]
fn worlds_whose_pools_change_their_number_of_pgs_lose_nothing() {
    lose_nothing(RESIZED_SEEDS, &[], resized);
}

#[test]
fn worlds_whose_pgs_move_while_one_copy_is_enough_lose_nothing() {
    lose_nothing(MOVED_SEEDS, &[], moved);
}

#[test]
fn worlds_whose_devices_become_full_lose_nothing() {
    let wanted = [
        "a pool was nearly full",
        "a pool was too full to be filled",
        "a pool was full",
        "a write waited for room",
        "a write was refused for want of room",
        "a PG was not filled for want of room",
        "a PG was not recovered for want of room",
    ];
    lose_nothing(FULL_SEEDS, &wanted, full);
}

#[test]
fn worlds_whose_clients_list_and_watch_lose_nothing() {
    let wanted = [
        "a watch was connected again",
        "a watch expired",
        "a client was told of the end of its watch",
        "a notification ended late",
    ];
    lose_nothing(WATCHED_SEEDS, &wanted, watched);
}

#[test]
fn replicas_answer_where_they_may() {
    let answered =
        (0..5).map(|seed| live(Options::new(seed)).expect("a world where nothing is lost").replica_answers);
    assert!(answered.sum::<u64>() > 0);
}

#[test]
fn the_same_seed_is_the_same_world() {
    for seed in 0..5 {
        assert_eq!(live(resized(seed)), live(resized(seed)));
    }
}

/// What a checker says that finds less than another read had found, and what one says that knows what must be found.
const OLD: &str = " after another one had found ";
const WRONG: &str = ", expected ";
/// What may be said of a change that is lost.
const LOST: [&str; 3] = [" was acknowledged and is not there", OLD, WRONG];

/// Worlds of a fault that is made on purpose are lived through until one fails with a message that has one of `signs`:
/// any other failure proves nothing, as it may be the fault's making, or the simulator, that went wrong.
fn assert_found_out(signs: &[&str], world: impl Fn(u64) -> Options) {
    let mut others = Vec::new();
    for seed in 0..CANARY_SEEDS {
        let Err(why) = live(world(seed)) else { continue };
        let why = why.lines().next().unwrap_or_default().to_owned();
        if signs.iter().any(|sign| why.contains(sign)) {
            println!("{why}");
            return;
        }
        others.push(why);
    }
    panic!("no world of {CANARY_SEEDS} shows it; others failed:\n{}", others.join("\n"));
}

fn spoiled(canary: Canary) -> impl Fn(u64) -> Options {
    move |seed| Options { canary: Some(canary), ..Options::new(seed) }
}

#[test]
fn disks_that_lie_are_found_out() {
    assert_found_out(&["cannot start: "], lying);
}

#[test]
fn disks_that_lie_only_in_the_end_are_found_out() {
    assert_found_out(&["after the power cut, the store of osd."], spoiled(Canary::LateLie));
}

#[test]
fn changes_that_are_acknowledged_too_early_are_found_out() {
    assert_found_out(&LOST, spoiled(Canary::EarlyAck));
}

#[test]
fn replicas_that_lose_writes_are_found_out() {
    assert_found_out(&LOST, spoiled(Canary::LostWrite));
}

#[test]
fn requests_that_are_done_twice_are_found_out() {
    assert_found_out(&["a record is there twice", "the counter is "], spoiled(Canary::DoneTwice));
}

#[test]
fn leases_that_last_too_long_are_found_out() {
    assert_found_out(&[OLD, WRONG], spoiled(Canary::LongLease));
}

/// No device fails in them.
fn spoiled_moved(canary: Canary) -> impl Fn(u64) -> Options {
    move |seed| Options { canary: Some(canary), ..moved(seed) }
}

#[test]
fn clients_that_are_not_fenced_off_are_found_out() {
    assert_found_out(&[WRONG], spoiled_moved(Canary::Unfenced));
}

fn spoiled_full(canary: Canary) -> impl Fn(u64) -> Options {
    move |seed| Options { canary: Some(canary), ..full(seed) }
}

#[test]
fn refusals_that_are_told_as_successes_are_found_out() {
    assert_found_out(&[WRONG], spoiled_full(Canary::RefusedAsDone));
}

#[test]
fn osds_that_never_have_room_again_are_found_out() {
    assert_found_out(&["waited for requests to end in vain"], spoiled_full(Canary::FullForEver));
}

fn spoiled_watched(canary: Canary) -> impl Fn(u64) -> Options {
    move |seed| Options { canary: Some(canary), ..watched(seed) }
}

#[test]
fn listings_that_leave_objects_out_are_found_out() {
    assert_found_out(&["and is not listed"], spoiled_watched(Canary::LostEntry));
}

#[test]
fn notifications_that_hide_what_they_did_not_reach_are_found_out() {
    assert_found_out(&["which an OSD has said is over"], spoiled_watched(Canary::HiddenTimeout));
}

#[test]
fn notifications_that_are_told_twice_are_found_out() {
    assert_found_out(&["is told twice"], spoiled_watched(Canary::ToldTwice));
}
