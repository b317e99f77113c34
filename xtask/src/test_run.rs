//! `cargo xtask test`: all tests, built by cargo, then run by lanes, with the lints and the count of instructions.
//!
//! `cargo test` builds all, then runs one test program after the other. The end-to-end ones wait much of their time,
//! for a daemon to come back or for a grace to run out; everything else computes. So these begin as soon as they
//! are built, and all else is done beside them.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    process::{Command, Stdio},
    sync::{
        Mutex, MutexGuard, PoisonError,
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::Instant,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The program whose tests run real daemons.
const END_TO_END: &str = "loligo tests/e2e/main.rs";
/// Modules of it that run at the same time. Each runs as many of its tests at once as there are CPUs.
const END_TO_END_LANES: usize = 2;
/// Ends a program that hangs, with what it has started, after an hour: the longest needs some minutes. As it is then in
/// a process group of its own, Ctrl-C does not reach it; it ends because this process does.
const LIMITED: [&str; 5] = ["setpriv", "--pdeathsig=TERM", "timeout", "--kill-after=60", "3600"];
/// What proptest draws its cases from: a commit's are the same on every machine, so that no run fails for one that only
/// it draws. `cargo xtask soak` and `cargo test` draw other ones.
const PROPERTY_SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "1");
/// What `timeout` exits with when it had to end the program.
const TIMED_OUT: i32 = 124;

/// The end-to-end tests, which often wait, go first when they have something to do: timeouts of stock clients do not
/// care why a daemon is slow. What is only nice still makes each of their many steps wait its turn; a container may
/// allow no more than that.
const YIELDING: [&str; 4] =
    ["sh", "-c", r#"chrt --idle --pid 0 $$ 2> /dev/null || renice 10 $$ > /dev/null; exec "$@""#, "sh"];

/// A test program that cargo has built, or a module of the end-to-end one.
struct Program {
    /// What cargo would call it, and the module: `loligo tests/e2e/main.rs rados`.
    name: String,
    executable: PathBuf,
    /// What its tests' names begin with: of a module, `rados::`.
    tests: String,
    /// Cargo runs tests in the folder of their package.
    folder: PathBuf,
}

/// Builds and runs all tests of the workspace, looks for lints, and counts instructions per request.
///
/// # Errors
/// When something does not build, or a test fails; all else is done nevertheless.
pub(crate) fn run() -> Result<()> {
    let outcome = Mutex::new(Outcome::default());
    let (end_to_end, built) = mpsc::channel();
    let built = Mutex::new(built);
    thread::scope(|scope| {
        for _ in 0..END_TO_END_LANES {
            scope.spawn(|| run_all(&built, &outcome));
        }
        scope.spawn(|| compute(end_to_end, &outcome));
    });
    let Outcome { ran, failed, skipped } = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    let failed_programs = failed.iter().filter(|name| ran.contains(*name)).count();
    println!("{} of {} test programs passed", ran.len() - failed_programs, ran.len());
    for line in skipped {
        println!("{line}");
    }
    if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
}

/// Everything but running the end-to-end tests, which go to `end_to_end` when they are built.
fn compute(end_to_end: Sender<Program>, outcome: &Mutex<Outcome>) {
    let mut computing = Vec::new();
    // Those that are files of their own come first, the end-to-end ones among them. They may run when all of these are
    // built, as they need the daemons' program, too.
    for targets in [&["--test", "*"][..], &["--lib", "--bins"]] {
        match build(targets) {
            Ok(programs) => {
                let (waiting, own): (Vec<_>, Vec<_>) =
                    programs.into_iter().partition(|program| program.name == END_TO_END);
                computing.extend(own);
                for program in waiting {
                    match program.modules() {
                        // Their lanes take all that is sent.
                        Ok(parts) => parts.into_iter().for_each(|part| drop(end_to_end.send(part))),
                        Err(error) => note(outcome, &program.name, Err(error)),
                    }
                }
            }
            Err(error) => note(outcome, "build", Err(error)),
        }
    }
    drop(end_to_end);
    // Those with long tests that use one CPU alone are the last by name: they are not to be all that is left.
    computing.reverse();
    let computing = Mutex::new(computing.into_iter());
    let run_programs = || {
        while let Some(program) = { locked(&computing).next() } {
            program.run(&YIELDING, outcome);
        }
    };
    thread::scope(|scope| {
        scope.spawn(run_programs);
        run_commands(outcome);
        run_programs();
    });
}

/// What else there is to be done but running tests that were built.
fn run_commands(outcome: &Mutex<Outcome>) {
    for (name, command) in [
        // Long, and partly on one CPU alone.
        ("instructions per request", &["bench/instructions", "--as-tests", "--check"][..]),
        ("lints", &crate::LINTS),
    ] {
        let start = Instant::now();
        let done = crate::run(yielding(command).current_dir(crate::tidy::workspace_root()));
        println!("     Done with {name} ({:.0} s)", start.elapsed().as_secs_f64());
        note(outcome, name, done);
    }
}

fn yielding(command: &[&str]) -> Command {
    let mut with = Command::new(YIELDING[0]);
    with.args(&YIELDING[1..]).args(command);
    with
}

fn note(outcome: &Mutex<Outcome>, name: &str, done: Result<()>) {
    if let Err(error) = done {
        println!("{name}: {error:#}");
        locked(outcome).failed.push(name.into());
    }
}

/// What the programs that have run came to.
#[derive(Default)]
struct Outcome {
    /// The test programs that have ended.
    ran: BTreeSet<String>,
    /// The names of what failed.
    failed: Vec<String>,
    /// What was not tested here, and why: in all that passed, nobody would see it.
    skipped: BTreeSet<String>,
}

/// The program's lines that say what it does not test here. Tests write them past libtest, to standard error.
fn skipped<'a>(name: &'a str, said: &'a str) -> impl Iterator<Item = String> + 'a {
    said.lines().filter(|line| line.starts_with("SKIPPED: ")).map(move |line| format!("{line} ({name})"))
}

/// Builds the test programs of these targets of the workspace.
fn build(targets: &[&str]) -> Result<Vec<Program>> {
    let output = yielding(&["cargo", "test", "--workspace", "--no-run"])
        .args(["--message-format", "json-render-diagnostics"])
        .args(targets)
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
        let name = format!("{package} {source}");
        Some(Program { name, executable: executable.into(), folder, tests: String::new() })
    }

    /// One for each module that has tests: they run beside each other, and tell of themselves when they end.
    fn modules(&self) -> Result<Vec<Program>> {
        let output = Command::new(&self.executable)
            .args(["--list", "--format", "terse"])
            .current_dir(&self.folder)
            .output()
            .context("listing tests")?;
        if !output.status.success() {
            bail!("its tests cannot be listed");
        }
        let listed = String::from_utf8(output.stdout).context("names of tests")?;
        let modules = modules(&listed).context("a test that is in no module")?;
        let part = |module: &str| Program {
            name: format!("{} {module}", self.name),
            executable: self.executable.clone(),
            folder: self.folder.clone(),
            tests: format!("{module}::"),
        };
        Ok(modules.into_iter().map(part).collect())
    }

    /// Runs it; what it says comes in one piece.
    fn run(self, with: &[&str], outcome: &Mutex<Outcome>) {
        let start = Instant::now();
        let output = Command::new(LIMITED[0])
            .args(&LIMITED[1..])
            .args(with)
            .arg(&self.executable)
            .arg(&self.tests)
            .current_dir(&self.folder)
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
        println!("     Running {} ({:.0} s)\n{said}", self.name, start.elapsed().as_secs_f64());
        let mut outcome = locked(outcome);
        outcome.skipped.extend(skipped(&self.name, &said));
        if !is_good {
            outcome.failed.push(self.name.clone());
        }
        outcome.ran.insert(self.name);
    }
}

/// The modules of these tests, as libtest lists them: `rados::pool_snapshots_keep_old_data: test`. None where one is in
/// no module.
fn modules(listed: &str) -> Option<BTreeSet<&str>> {
    listed.lines().map(|line| Some(line.split_once("::")?.0)).collect()
}

/// Runs what comes, one program after the other, until no more can come.
fn run_all(built: &Mutex<Receiver<Program>>, outcome: &Mutex<Outcome>) {
    // A statement of its own: the other lanes may take the next one while the program runs.
    while let Ok(program) = { locked(built).recv() } {
        program.run(&[], outcome);
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{modules, skipped};

    #[test]
    fn tests_are_told_by_their_modules() {
        let listed = "rbd::one: test\nrbd::inner::two: test\nrados::one: test\n";
        assert_eq!(modules(listed), Some(["rados", "rbd"].into()));
        assert_eq!(modules("rbd::one: test\ntwo: test\n"), None);
    }

    #[test]
    fn what_tests_skip_is_found_in_what_they_say() {
        let said = "running 2 tests\nSKIPPED: x: no y\ntest z ... ok\nnot SKIPPED: w\n";
        assert_eq!(skipped("p tests/x.rs", said).collect::<Vec<_>>(), ["SKIPPED: x: no y (p tests/x.rs)"]);
    }
}
