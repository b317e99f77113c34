//! `cargo xtask ceph-suites ROOT --workunits CEPH`: Ceph's command-line workunits, from a clone or an unpacked source
//! of Ceph, with the clients in a root, each against a new cluster of ours.
//!
//! `xtask/data/ceph_workunits.tsv` says which pass, and why others cannot.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{
    ceph_suites::{Cluster, wait},
    tidy,
};

/// The longest that a script may take.
const SCRIPT_LIMIT: Duration = Duration::from_secs(2_400);
/// Lines of a failed script that are shown.
const LINES_SHOWN: usize = 12;

/// A row of the data file.
struct Row {
    /// The script below `qa/workunits`, and its arguments.
    script: String,
    is_expected: bool,
}

/// Runs the scripts that are to pass, or those whose rows begin with one of `wanted`.
pub(crate) fn run(root: &Path, ceph: &Path, binary: Option<&Path>, wanted: &[String]) -> Result<()> {
    // Scripts find each other by their place, and are run from within the root.
    let ceph = ceph.canonicalize().with_context(|| ceph.display().to_string())?;
    let scripts = ceph.join("qa/workunits");
    if !root.join(scripts.strip_prefix("/").unwrap_or(&scripts)).exists() {
        bail!("{} is not to be seen from within {}: put it below /tmp", scripts.display(), root.display());
    }
    let rows = read_rows(&tidy::workspace_root().join("xtask/data/ceph_workunits.tsv"))?;
    let is_wanted = |row: &&Row| match wanted {
        [] => row.is_expected,
        wanted => wanted.iter().any(|start| row.script.starts_with(start.as_str())),
    };
    let mut failed = Vec::new();
    for row in rows.iter().filter(is_wanted) {
        let name = row.script.split(' ').next().unwrap_or_default();
        if !scripts.join(name).exists() {
            println!("{name}: not in this release");
        } else if !run_script(root, &ceph, binary, &row.script)? {
            failed.push(row.script.clone());
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
}

/// Rows of script, `pass` or `skip`, and the reason.
fn read_rows(path: &Path) -> Result<Vec<Row>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let mut rows = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [script, state @ ("pass" | "skip"), _reason] = fields[..] else {
            bail!("{}: not script, pass or skip, reason: {line}", path.display());
        };
        rows.push(Row { script: script.to_owned(), is_expected: state == "pass" });
    }
    Ok(rows)
}

/// True if the script ended well in time.
fn run_script(root: &Path, ceph: &Path, binary: Option<&Path>, script: &str) -> Result<bool> {
    let cluster = Cluster::start(binary)?;
    let prepare = "ceph osd pool create rbd 8 && rbd pool init rbd";
    crate::run(
        Command::new("bash")
            .args(["-c", prepare])
            .env("CEPH_CONF", cluster.conf())
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    )?;
    let work = cluster.dir.join("work");
    fs::create_dir_all(&work)?;
    // Some scripts give up root's rights.
    fs::set_permissions(&work, fs::Permissions::from_mode(0o777))?;
    // Scripts call `sudo`, which would forget where the cluster is.
    let sudo = work.join("sudo");
    fs::write(&sudo, "#!/bin/sh\nexec env \"$@\"\n")?;
    fs::set_permissions(&sudo, fs::Permissions::from_mode(0o755))?;
    let log: PathBuf = cluster.dir.join("script.log");
    let out = fs::File::create(&log)?;
    let units = ceph.join("qa/workunits");
    let path = format!("{}:{}:/usr/sbin:/usr/bin:/sbin:/bin", work.display(), units.join("rbd").display());
    let begin = Instant::now();
    let mut command = Command::new("chroot");
    command.arg(root).arg("env").arg(format!("CEPH_CONF={}", cluster.conf().display()));
    for (name, value) in [("CEPH_ROOT", ceph), ("CEPH_BASE", ceph), ("TESTDIR", &work)] {
        command.arg(format!("{name}={}", value.display()));
    }
    command.args(["CEPH_ID=0", "CEPH_ARGS=", "LC_ALL=C.UTF-8", &format!("PATH={path}")]);
    let start = if script.split(' ').next().is_some_and(|name| name.ends_with(".py")) {
        "python3"
    } else {
        "bash -x"
    };
    command.args([
        "sh",
        "-c",
        &format!("cd {} && exec {start} {}/{script}", work.display(), units.display()),
    ]);
    // A group of its own: what a script leaves running ends with it.
    let child = command.process_group(0).stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).spawn()?;
    let group = child.id();
    let has_passed = wait(child, SCRIPT_LIMIT)?;
    Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).stderr(Stdio::null()).status()?;
    println!("{script}: {}, {} s", if has_passed { "passed" } else { "FAILED" }, begin.elapsed().as_secs());
    if !has_passed {
        let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES_SHOWN)..].iter().for_each(|line| println!("    {line}"));
    }
    Ok(has_passed)
}
