//! `cargo xtask test`: all tests, built by cargo, then run by lanes.
//!
//! `cargo test` runs one test program after the other. The end-to-end ones wait most of their time, for a daemon to
//! come back or for a grace to run out, the others compute: side by side they take half as long.

use std::{
    collections::{BTreeSet, VecDeque},
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The package whose tests run real daemons.
const END_TO_END: &str = "loligo";
/// End-to-end programs that run at the same time. Each runs as many of its tests at once as there are CPUs.
const END_TO_END_LANES: usize = 2;
/// Ends a program that hangs, with what it has started, after an hour: the longest needs some minutes. As it is then in
/// a process group of its own, Ctrl-C does not reach it; it ends because this process does.
const LIMITED: [&str; 5] = ["setpriv", "--pdeathsig=TERM", "timeout", "--kill-after=60", "3600"];
/// What proptest draws its cases from: a commit's are the same on every machine, so that no run fails for one that only
/// it draws. `cargo xtask soak` and `cargo test` draw other ones.
const PROPERTY_SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "1");
/// What `timeout` exits with when it had to end the program.
const TIMED_OUT: i32 = 124;

/// A test program that cargo has built.
struct Program {
    /// What cargo would call it: `loligo tests/rados.rs`.
    name: String,
    package: String,
    executable: PathBuf,
    /// Cargo runs tests in the folder of their package.
    folder: PathBuf,
}

/// Builds and runs all tests of the workspace.
///
/// # Errors
/// When something does not build, or a test fails; all other tests are run nevertheless.
pub(crate) fn run() -> Result<()> {
    let programs = build()?;
    let count = programs.len();
    let (end_to_end, computing): (VecDeque<_>, VecDeque<_>) =
        programs.into_iter().partition(|program| program.package == END_TO_END);
    let (end_to_end, computing) = (Mutex::new(end_to_end), Mutex::new(computing));
    let outcome = Mutex::new(Outcome::default());
    thread::scope(|scope| {
        for _ in 0..END_TO_END_LANES {
            scope.spawn(|| lane(&end_to_end, &[], &outcome));
        }
        // The end-to-end tests, which mostly wait, go first when they have something to do: timeouts of stock clients
        // do not care why a daemon is slow.
        scope.spawn(|| lane(&computing, &["nice", "-n", "10"], &outcome));
    });
    crate::cargo(&["test", "--workspace", "--doc", "--quiet"])?;
    let Outcome { failed, skipped } = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("{} of {count} test programs passed", count - failed.len());
    for line in skipped {
        println!("{line}");
    }
    if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
}

/// What the programs that have run came to.
#[derive(Default)]
struct Outcome {
    /// The names of those that failed.
    failed: Vec<String>,
    /// What was not tested here, and why: in all that passed, nobody would see it.
    skipped: BTreeSet<String>,
}

/// The program's lines that say what it does not test here. Tests write them past libtest, to standard error.
fn skipped<'a>(name: &'a str, said: &'a str) -> impl Iterator<Item = String> + 'a {
    said.lines().filter(|line| line.starts_with("SKIPPED: ")).map(move |line| format!("{line} ({name})"))
}

/// The test programs, built.
fn build() -> Result<Vec<Program>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["test", "--workspace", "--no-run", "--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .context("starting cargo")?;
    if !output.status.success() {
        bail!("the tests do not build");
    }
    let text = String::from_utf8(output.stdout).context("cargo's messages")?;
    let mut programs = Vec::new();
    for line in text.lines() {
        let message: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        programs.extend(Program::of(&message));
    }
    if programs.is_empty() {
        bail!("cargo names no test programs");
    }
    // As cargo finishes them is another order each time.
    programs.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(programs)
}

impl Program {
    /// The program that cargo's message reports as built, if it is a test program.
    fn of(message: &Value) -> Option<Program> {
        let executable = message["executable"].as_str()?;
        if message["profile"]["test"] != true {
            return None;
        }
        let folder = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned();
        let package = folder.file_name()?.to_str()?.to_owned();
        let source = PathBuf::from(message["target"]["src_path"].as_str()?);
        let source = source.strip_prefix(&folder).unwrap_or(&source).display().to_string();
        Some(Program { name: format!("{package} {source}"), package, executable: executable.into(), folder })
    }
}

/// Runs programs of `queue` one after the other until there are none; what each says comes in one piece.
fn lane(queue: &Mutex<VecDeque<Program>>, with: &[&str], outcome: &Mutex<Outcome>) {
    // A statement of its own: the queue is free while the program runs.
    while let Some(program) = { locked(queue).pop_front() } {
        let start = Instant::now();
        let output = Command::new(LIMITED[0])
            .args(&LIMITED[1..])
            .args(with)
            .arg(&program.executable)
            .current_dir(&program.folder)
            .env(PROPERTY_SEED.0, PROPERTY_SEED.1)
            .stdin(Stdio::null())
            .output();
        let (said, is_good) = match &output {
            Ok(output) => {
                let both = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
                let mut said = String::from_utf8_lossy(&both).into_owned();
                if output.status.code() == Some(TIMED_OUT) {
                    said.push_str("\nit did not end by itself");
                }
                (said, output.status.success())
            }
            Err(error) => (error.to_string(), false),
        };
        println!("     Running {} ({:.0} s)\n{said}", program.name, start.elapsed().as_secs_f64());
        let mut outcome = locked(outcome);
        outcome.skipped.extend(skipped(&program.name, &said));
        if !is_good {
            outcome.failed.push(program.name);
        }
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::skipped;

    #[test]
    fn what_tests_skip_is_found_in_what_they_say() {
        let said = "running 2 tests\nSKIPPED: x: no y\ntest z ... ok\nnot SKIPPED: w\n";
        assert_eq!(skipped("p tests/x.rs", said).collect::<Vec<_>>(), ["SKIPPED: x: no y (p tests/x.rs)"]);
    }
}
