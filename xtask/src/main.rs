//! `cargo xtask check|tidy|surface|test|soak|ceph-suites|kernel-client`: the gates of the project, in one place.

mod ceph_suites;
mod kernel_client;
mod shown;
mod surface;
mod test_run;
mod tidy;
mod workunits;

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

/// The lints, none of which may have anything to say.
const LINTS: [&str; 8] =
    ["cargo", "clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.first().map(String::as_str) {
        Some("check") => check(),
        Some("tidy") => run_tidy(),
        Some("surface") => surface::write(&tidy::workspace_root()),
        Some("test") => style().and_then(|()| test_run::run()),
        Some("soak") => soak(&args[1..]),
        Some("ceph-suites") => ceph_suites::run(&args[1..]),
        Some("kernel-client") => kernel_client::run(&args[1..]),
        _ => {
            eprintln!("usage: cargo xtask check | tidy | surface | test | soak [SEEDS]");
            eprintln!("       {}\n       {}", ceph_suites::USAGE, kernel_client::USAGE);
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The read-only gate: format, house style, lints.
fn check() -> Result<()> {
    style()?;
    run(Command::new(LINTS[0]).args(&LINTS[1..]))
}

/// What needs no build.
fn style() -> Result<()> {
    run(Command::new("cargo").args(["fmt", "--all", "--check"]))?;
    run_tidy()
}

fn run_tidy() -> Result<()> {
    let problems = tidy::problems(&tidy::workspace_root())?;
    for problem in &problems {
        eprintln!("tidy: {problem}");
    }
    if problems.is_empty() { Ok(()) } else { bail!("{} breaches of the house style", problems.len()) }
}

/// For a soak, `PROPTEST_CASES`: 30 times what is usual.
const SOAK_CASES: u32 = 30 * 256;
/// For a soak, how often half a million mappings are compared with Ceph's.
const SOAK_MAPPING_ROUNDS: &str = "10";

/// What a release needs for a request, many cases of the property tests, which are other ones each time, and many crash
/// seeds of the store and of whole clusters; the number of seeds is an argument, 1,500 without one.
fn soak(args: &[String]) -> Result<()> {
    let seeds = args.first().map_or("1500", String::as_str);
    run(Command::new("bench/instructions").arg("--check").current_dir(tidy::workspace_root()))?;
    let mut properties = Command::new("cargo");
    properties.args(["test", "--workspace", "--lib", "--no-fail-fast"]);
    properties
        .env("PROPTEST_CASES", SOAK_CASES.to_string())
        .env("LOLIGO_MAPPING_ROUNDS", SOAK_MAPPING_ROUNDS);
    run(&mut properties)?;
    run(Command::new("cargo").args(["test", "--release", "-p", "store"]).env("STORE_CRASH_SEEDS", seeds))?;
    run(Command::new("cargo").args(["test", "--release", "-p", "sim"]).env("SIM_SEEDS", seeds))
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("starting {command:?}"))?;
    if status.success() { Ok(()) } else { bail!("{command:?} failed: {status}") }
}
