//! `cargo xtask ceph-suites`: Ceph's own API tests of another release, from Debian's packages in a folder,
//! against a cluster of ours; with `--workunits`, its scripts instead (see `workunits`).
//!
//! What is left out, and why, is in `xtask/data/ceph_suites.tsv`; all else must pass.

use std::{
    env, fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{tidy, workunits};

/// What a root needs for the tests.
const PACKAGES: &str = "ceph-test ceph-base ceph-common python3-rados python3-rbd rbd-mirror qemu-utils qemu-block-extra \
     fio jq procps uuid-runtime";
/// The longest that a suite may take.
const SUITE_LIMIT: Duration = Duration::from_secs(600);

/// A row of the data file: a suite, and the tests of it that are left out.
struct Suite {
    name: String,
    left_out: Vec<String>,
}

/// Set where the root has what it shares with this machine.
const SHARED: &str = "LOLIGO_ROOT_IS_SHARED";

/// How to call it.
pub(crate) const USAGE: &str =
    "cargo xtask ceph-suites ROOT [--make DEBIAN] [--binary LOLIGO] [--e2e] [--workunits CEPH] [SUITE…]";

/// Our end-to-end tests that are made for clients of any release.
const END_TO_END: [&str; 4] = ["rados::", "rbd::", "commands::", "consumers::"];

/// Runs [`USAGE`].
pub(crate) fn run(args: &[String]) -> Result<()> {
    let mut args = args.iter();
    let (mut root, mut debian, mut ceph, mut binary) = (None, None, None, None);
    let mut again = Vec::new();
    let (mut with_e2e, mut wanted) = (false, Vec::new());
    while let Some(arg) = args.next() {
        if arg == "--make" {
            debian = args.next().cloned();
            continue;
        }
        again.push(arg.clone());
        match arg.as_str() {
            "--binary" | "--workunits" => {
                let path = args.next().with_context(|| format!("{arg} wants a path"))?;
                again.push(path.clone());
                *if arg == "--binary" { &mut binary } else { &mut ceph } = Some(PathBuf::from(path));
            }
            "--e2e" => with_e2e = true,
            _ if root.is_none() => root = Some(PathBuf::from(arg)),
            _ => wanted.push(arg.clone()),
        }
    }
    let root = root.with_context(|| format!("usage: {USAGE}"))?;
    if let Some(debian) = debian {
        make_root(&root, &debian)?;
    }
    if env::var_os(SHARED).is_none() {
        let mut own = in_root(&root);
        own.arg(env::current_exe()?).arg("ceph-suites").args(again).env(SHARED, "yes");
        return crate::run(&mut own);
    }
    if with_e2e {
        let mut cargo = Command::new("cargo");
        cargo.args(["test", "-p", "loligo", "--test", "e2e", "--"]).args(END_TO_END);
        crate::run(cargo.env("LOLIGO_CLIENT_ROOT", &root))?;
    }
    if let Some(ceph) = ceph {
        return workunits::run(&root, &ceph, binary.as_deref(), &wanted);
    }
    let suites = read_suites(&tidy::workspace_root().join("xtask/data/ceph_suites.tsv"))?;
    let cluster = Cluster::start(binary.as_deref())?;
    let mut failed = Vec::new();
    for suite in suites.iter().filter(|suite| wanted.is_empty() || wanted.contains(&suite.name)) {
        if !root.join("usr/bin").join(&suite.name).exists() {
            println!("{}: not in this release", suite.name);
            continue;
        }
        if !suite.run(&root, &cluster)? {
            failed.push(suite.name.clone());
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
}

/// Unpacks a Debian with Ceph's clients and tests into `root`; needs `debootstrap` and root's rights.
fn make_root(root: &Path, debian: &str) -> Result<()> {
    crate::run(Command::new("debootstrap").args(["--variant=minbase", debian]).arg(root))?;
    let install = format!(
        "apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends {PACKAGES}"
    );
    crate::run(in_root(root).arg("chroot").arg(root).args(["sh", "-c", &install]))
}

/// A command, to be added, that sees in a root what that has in common with this machine.
fn in_root(root: &Path) -> Command {
    let mut command = Command::new(tidy::workspace_root().join("scripts/share-root"));
    command.arg(root);
    command
}

/// Rows of suite, test and reason; `-` for a suite of which all must pass.
fn read_suites(path: &Path) -> Result<Vec<Suite>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let mut suites: Vec<Suite> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut fields = line.split('\t');
        let (Some(name), Some(test), Some(_reason)) = (fields.next(), fields.next(), fields.next()) else {
            bail!("{}: not three fields: {line}", path.display());
        };
        if suites.last().is_none_or(|suite| suite.name != name) {
            suites.push(Suite { name: name.to_owned(), left_out: Vec::new() });
        }
        if let Some(suite) = suites.last_mut().filter(|_| test != "-") {
            suite.left_out.push(test.to_owned());
        }
    }
    Ok(suites)
}

impl Suite {
    /// True if all of it passed in time.
    fn run(&self, root: &Path, cluster: &Cluster) -> Result<bool> {
        let log = cluster.dir.join(format!("{}.log", self.name));
        let out = fs::File::create(&log)?;
        let begin = Instant::now();
        let child = Command::new("chroot")
            .arg(root)
            .args(["env", &format!("CEPH_CONF={}", cluster.conf().display())])
            .arg(format!("/usr/bin/{}", self.name))
            .arg(format!("--gtest_filter=*-{}", self.left_out.join(":")))
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()?;
        let passed = wait(child, SUITE_LIMIT)?;
        let output = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        let ok = output.lines().filter(|line| line.starts_with("[       OK ]")).count();
        println!("{}: {ok} passed, {} s", self.name, begin.elapsed().as_secs());
        if !passed {
            let bad = |line: &&str| line.starts_with("[  FAILED  ]") && line.ends_with(')');
            output.lines().filter(bad).for_each(|line| println!("    {line}"));
            println!("    last: {}", output.lines().last().unwrap_or_default());
        }
        Ok(passed)
    }
}

/// True if the process ended well within the limit; one that did not is killed.
pub(crate) fn wait(mut child: Child, limit: Duration) -> Result<bool> {
    let begin = Instant::now();
    while begin.elapsed() < limit {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        thread::sleep(Duration::from_millis(200));
    }
    child.kill()?;
    child.wait()?;
    Ok(false)
}

/// The first of as many free ports as a cluster takes, and their guard.
///
/// They lie below those that the kernel gives to connections, one of which could be taken before a daemon listens. The
/// guard is the last port of their block: as long as it is held, no other run takes the block, nor does an end-to-end
/// test, which looks in the same way.
fn free_ports() -> Result<(u16, TcpListener)> {
    const BLOCK: u16 = 16;
    let blocks = (12_000..32_000).step_by(usize::from(BLOCK));
    let start = std::process::id() as usize % blocks.len();
    for port in blocks.clone().cycle().skip(start).take(blocks.len()) {
        let Ok(guard) = TcpListener::bind(("127.0.0.1", port + BLOCK - 1)) else { continue };
        if (port..port + BLOCK - 1).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return Ok((port, guard));
        }
    }
    bail!("no {BLOCK} ports in a row are free")
}

/// A cluster of three OSDs in a temporary folder.
pub(crate) struct Cluster {
    pub(crate) dir: PathBuf,
    supervisor: Child,
    _ports: TcpListener,
}

impl Cluster {
    /// Of `binary`, such as a release; else of the debug build, which is made.
    pub(crate) fn start(binary: Option<&Path>) -> Result<Cluster> {
        let built = tidy::workspace_root().join("target/debug/loligo");
        if binary.is_none() {
            crate::run(Command::new("cargo").args(["build", "-p", "loligo"]))?;
        }
        let dir = std::env::temp_dir().join(format!("ceph-suites-{}", std::process::id()));
        fs::create_dir_all(&dir)?;
        let (port, ports) = free_ports()?;
        let supervisor = Command::new(binary.unwrap_or(&built))
            .args(["up", "--osds", "3", "--port", &port.to_string(), "--data"])
            .arg(dir.join("cluster"))
            .stdin(Stdio::null())
            .stdout(fs::File::create(dir.join("up.log"))?)
            .spawn()?;
        let cluster = Cluster { dir, supervisor, _ports: ports };
        // The suite that lists objects makes its pool grow to 11 PGs, more than Ceph's pools begin with.
        let healthy = "until ceph --connect-timeout 5 health | grep -q HEALTH_OK; do sleep 1; done; \
                       ceph config set global osd_pool_default_pg_num 8";
        crate::run(
            Command::new("timeout").args(["60", "bash", "-c", healthy]).env("CEPH_CONF", cluster.conf()),
        )?;
        Ok(cluster)
    }

    pub(crate) fn conf(&self) -> PathBuf {
        self.dir.join("cluster/ceph.conf")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let pid = self.supervisor.id().to_string();
        if Command::new("kill").args(["-INT", &pid]).status().is_ok() {
            self.supervisor.wait().ok();
        }
        fs::remove_dir_all(&self.dir).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_two_clusters_differ_and_the_kernel_gives_them_to_no_connection() {
        let (first, _guard) = free_ports().unwrap();
        let (second, _) = free_ports().unwrap();
        assert_ne!(first, second);
        // Where the kernel's range begins unless its machine says otherwise.
        assert!(first.max(second) + 16 <= 32_768, "{first}, {second}");
    }
}
