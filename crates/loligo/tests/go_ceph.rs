//! The tests that go-ceph has for its packages `rados`, `rbd` and `rbd/admin`, against real daemons.
//!
//! The versions of go-ceph and of what it needs are in `go_ceph/go.mod`, their hashes in `go_ceph/go.sum`. Where
//! Go or those modules cannot be had, the test says so and does nothing.

#![allow(clippy::unwrap_used, reason = "a test fails where it fails")]

mod cluster;

use std::{
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use cluster::{Cluster, Ran, say_skipped};

/// A package, its tests without (false) or with (true) "Encrypt" in their names, and how many of them, parts
/// included, pass at least: as many as with a real Ceph 16.2.15, but for its own `TestGetLargePoolList`. Those of
/// encryption spend their time deriving keys, beside the others.
const SHARES: [(&str, bool, usize); 4] =
    [("rados", false, 135), ("rbd/admin", false, 40), ("rbd", false, 238), ("rbd", true, 5)];

/// The longest that a package may take; on an idle machine it is a minute.
const LIMIT: Duration = Duration::from_secs(600);

/// Where `go` is besides `PATH`: the folder that Go's own archive says to unpack it to.
const GO: &str = "/usr/local/go/bin";

#[test]
fn go_ceph_passes() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/go_ceph");
    let modules = go(&dir, "mod download");
    if modules.code != 0 {
        return say_skipped("go_ceph", &format!("Go or its modules cannot be had: {}", modules.err));
    }
    let images = Cluster::start();
    // What go-ceph's own script prepares.
    images.sh("rbd mirror pool enable rbd image");
    // Tests of `rados` expect that nobody else makes or deletes pools meanwhile, as those of `rbd` do.
    let objects = Cluster::start();
    // go-ceph knows releases by build tags of their names.
    let release = images.sh("ceph --version").out.split(' ').nth(4).unwrap().to_owned();
    let share = |package: &str, encrypts: bool, passing: usize| {
        let c = if package == "rados" { &objects } else { &images };
        let binary = build(&dir, c.dir(), package, encrypts, &release);
        let listed = c.sh(&format!("{} -test.list .", binary.display())).out;
        let names: Vec<&str> = listed.lines().filter(|name| name.contains("Encrypt") == encrypts).collect();
        let command = format!("{} -test.v -test.run '^({})$'", binary.display(), names.join("|"));
        let ran = cluster::run_in(c.dir(), &command, LIMIT);
        let results = |what: &str| ran.out.lines().filter(|line| line.trim_start().starts_with(what)).count();
        let enough = results("--- PASS: ") >= passing;
        assert!(ran.code == 0 && enough, "{package}: {}\n{}\n{}\n{}", ran.code, ran.out, ran.err, c.logs());
    };
    thread::scope(|threads| {
        for (package, encrypts, passing) in SHARES {
            threads.spawn(move || share(package, encrypts, passing));
        }
    });
}

/// The program that runs a package's tests.
fn build(dir: &Path, out: &Path, package: &str, encrypts: bool, release: &str) -> PathBuf {
    let binary = out.join(format!("{}-{encrypts}.test", package.replace('/', "-")));
    let built = go(
        dir,
        &format!(
            "test -c -tags {release},ceph_preview -o {} github.com/ceph/go-ceph/{package}",
            binary.display()
        ),
    );
    assert_eq!(built.code, 0, "{}", built.err);
    binary
}

/// Runs `go` in the folder with `go.mod`.
fn go(dir: &Path, arguments: &str) -> Ran {
    let path = format!("{}:{GO}", std::env::var("PATH").unwrap_or_default());
    let output = Command::new("bash")
        .args(["-c", &format!("go {arguments}")])
        .current_dir(dir)
        .env("PATH", path)
        .output()
        .unwrap();
    cluster::ran(output)
}
