//! The tests that go-ceph has for its packages `rados`, `rbd` and `rbd/admin`, against real daemons.
//!
//! The versions of go-ceph and of what it needs are in `go_ceph/go.mod`, their hashes in `go_ceph/go.sum`. Where
//! Go or those modules cannot be had, the test says so and does nothing.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use crate::cluster::{self, Cluster, Ran, say_skipped};

/// A package, its tests without (false) or with (true) "Encrypt" in their names, and how many of them, parts
/// included, pass at least: as many as with a real Ceph 16.2.15, but for its own `TestGetLargePoolList`. Those of
/// encryption spend their time deriving keys, beside the others.
const SHARES: [(&str, bool, usize); 4] =
    [("rados", false, 135), ("rbd/admin", false, 40), ("rbd", false, 238), ("rbd", true, 5)];

/// The longest that a package may take: on an idle machine it is a minute and a half, but each of its tests asks
/// hundreds of times one thing after the other, and each time waits for whatever else the machine does.
const LIMIT: Duration = Duration::from_secs(2_400);

/// Where `go` is besides `PATH`: the folder that Go's own archive says to unpack it to.
const GO: &str = "/usr/local/go/bin";

#[test]
fn go_ceph_passes() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/go_ceph");
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
    let cluster_of = |package: &str| if package == "rados" { &objects } else { &images };
    let share = |package: &str, encrypts: bool| {
        let c = cluster_of(package);
        let binary = build(&dir, c.dir(), package, encrypts, &release);
        let listed = c.sh(&format!("{} -test.list .", binary.display())).out;
        let names: BTreeSet<&str> =
            listed.lines().filter(|name| name.contains("Encrypt") == encrypts).collect();
        let ran = run_tests(c, &binary, &names);
        (binary, ran)
    };
    let shares = thread::scope(|threads| {
        SHARES
            .map(|(package, encrypts, _)| threads.spawn(move || share(package, encrypts)))
            .map(|share| share.join().unwrap())
    });
    for ((package, _, passing), (binary, ran)) in SHARES.into_iter().zip(shares) {
        let c = cluster_of(package);
        let failed: BTreeSet<&str> = results(&ran, "--- FAIL: ").filter(|name| !name.contains('/')).collect();
        // Some of them wait for 100 ms only, which a busy machine may sleep: those get another chance, alone.
        let again = (!failed.is_empty()).then(|| run_tests(c, &binary, &failed));
        let last = again.as_ref().unwrap_or(&ran);
        let passed: BTreeSet<&str> =
            [&ran, last].into_iter().flat_map(|ran| results(ran, "--- PASS: ")).collect();
        // More than 1 is a program that did not come to its end.
        let is_good = ran.code <= 1 && last.code == 0 && passed.len() >= passing;
        let said = |ran: &Ran| format!("{}, not ended: {:?}\n{}\n{}", ran.code, open(ran), ran.out, ran.err);
        assert!(is_good, "{package}: {}\nagain: {}\n{}", said(&ran), said(last), c.logs());
    }
}

/// Runs these tests of a package.
fn run_tests(c: &Cluster, binary: &Path, names: &BTreeSet<&str>) -> Ran {
    let names = names.iter().copied().collect::<Vec<_>>().join("|");
    cluster::run_in(c.dir(), &format!("{} -test.v -test.run '^({names})$'", binary.display()), LIMIT)
}

/// The names of the tests and their parts that came to this.
fn results<'a>(ran: &'a Ran, what: &str) -> impl Iterator<Item = &'a str> {
    ran.out.lines().filter_map(move |line| line.trim_start().strip_prefix(what)?.split(' ').next())
}

/// The tests that began and did not end.
fn open(ran: &Ran) -> BTreeSet<&str> {
    let begun = ran.out.lines().filter_map(|line| line.strip_prefix("=== RUN   "));
    let ends = ["--- PASS: ", "--- FAIL: ", "--- SKIP: "];
    let ended: BTreeSet<&str> = ends.into_iter().flat_map(|what| results(ran, what)).collect();
    begun.filter(|name| !ended.contains(name)).collect()
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
