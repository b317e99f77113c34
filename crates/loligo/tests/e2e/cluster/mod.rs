//! A real cluster for tests: daemon processes on loopback in a folder of their own, driven by the
//! stock Ceph clients. Everything is stopped, by pid, and erased when it is dropped.

mod asking;
pub mod load;
pub mod running;

use std::{
    fs,
    io::Write,
    net::TcpListener,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use asking::{Asking, IMPATIENT, PATIENT};
use running::{Running, end};
use serde_json::Value;

/// The binary under test.
pub const LOLIGO: &str = env!("CARGO_BIN_EXE_loligo");

/// The longest that a command which must succeed may take, on a slow machine that does other things, too: a stock
/// client that hangs fails its test, and does not hang CI.
const COMMAND_LIMIT: Duration = Duration::from_secs(600);

/// The longest that a command beside a test may take: longer than any test on a slow machine.
const BESIDE_LIMIT: Duration = Duration::from_secs(900);

/// As long as a cluster may take to become healthy after a fault, on a slow machine that does other things, too.
const HEALTHY_LIMIT: Duration = Duration::from_secs(180);

/// How long daemons may take to stop in order. A failed test may have left one that cannot, as it stands still.
const STOP_LIMIT: Duration = Duration::from_secs(120);

/// How long a test rests between two looks.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(1);

static COUNTER: AtomicU32 = AtomicU32::new(0);

/// A running cluster.
pub struct Cluster {
    dir: PathBuf,
    supervisor: Option<Child>,
    restarted: Vec<(String, Child)>,
    osds: usize,
    port: u16,
    extra: Vec<String>,
    /// What sends commands for [`Cluster::sh`] and [`Cluster::json`], as long as the monitor lives.
    asking: Mutex<Option<Asking>>,
}

/// The number that an environment variable holds.
pub fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Says that a test does nothing here: past the harness, which keeps to itself what a test prints that passes.
pub fn say_skipped(what: &str, why: &str) {
    std::io::stderr().write_all(format!("SKIPPED: {what}: {why}\n").as_bytes()).unwrap();
}

/// What a command printed.
pub struct Ran {
    /// Exit code; if a signal ended it, that below zero.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Cluster {
    /// Three OSDs and a monitor, a process each, waited for until healthy.
    pub fn start() -> Cluster {
        Cluster::start_with(3, &["--separate"])
    }

    /// `loligo up` with `osds` OSDs and more arguments.
    pub fn start_with(osds: usize, extra: &[&str]) -> Cluster {
        let dir = temp_dir();
        let extra = extra.iter().map(ToString::to_string).collect();
        let mut cluster = Cluster {
            dir,
            supervisor: None,
            restarted: Vec::new(),
            osds,
            port: free_port(),
            extra,
            asking: Mutex::default(),
        };
        cluster.up();
        cluster.sh("ceph osd pool create rbd 32; rbd pool init rbd");
        cluster.wait_healthy();
        cluster
    }

    /// Starts (again) everything with `loligo up` and waits for health.
    pub fn up(&mut self) {
        let log = self.log("up.log");
        let child = Command::new(LOLIGO)
            .args(["up", "--data"])
            .arg(&self.dir)
            .args(["--osds", &self.osds.to_string(), "--port", &self.port.to_string()])
            .args(["--size", "4G"].iter().filter(|_| !self.extra.iter().any(|arg| arg == "--size")))
            .args(&self.extra)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.supervisor = Some(child);
        self.wait_healthy();
    }

    /// Folder of the cluster.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// `ceph.conf` for the stock clients.
    pub fn conf(&self) -> PathBuf {
        self.dir.join("ceph.conf")
    }

    /// Waits until all PGs are active+clean and `ceph health` has nothing to say but that a pool has many objects:
    /// `rados bench` writes as many as the machine can.
    pub fn wait_healthy(&self) {
        self.wait_told("a healthy cluster", HEALTHY_LIMIT, "status", |status| {
            let states = status["pgmap"]["pgs_by_state"].as_array().cloned().unwrap_or_default();
            let checks = status["health"]["checks"].as_object();
            checks.is_some_and(|checks| checks.keys().all(|name| name == "MANY_OBJECTS_PER_PG"))
                && status["osdmap"]["num_up_osds"].as_u64() == Some(self.osds as u64)
                && states.iter().all(|s| s["state_name"] == "active+clean")
        });
    }

    /// Polls until what the monitor says to a command without arguments is as wanted.
    fn wait_told(&self, what: &str, limit: Duration, prefix: &str, is_wanted: impl Fn(&Value) -> bool) {
        let mut asking = Asking::start(&self.dir, IMPATIENT, 2 * limit, self.log("asking.log"));
        self.wait(what, limit, |_| asking.ask(prefix).is_some_and(|told| is_wanted(&told)));
    }

    /// Polls `done` until it holds; fails the test with the daemons' logs after `limit`.
    pub fn wait(&self, what: &str, limit: Duration, mut done: impl FnMut(&Cluster) -> bool) {
        if !is_done_within(limit, || done(self)) {
            // It may be the monitor that does not answer.
            let status = self.run_limited("ceph --connect-timeout 10 -s", Duration::from_secs(30));
            panic!("no {what} within {limit:?}\n{}\n{}", status.out, self.logs());
        }
    }

    /// How many OSDs are up by the newest OSDMap.
    pub fn up_osds(&self) -> u64 {
        self.json("ceph osd stat")["num_up_osds"].as_u64().expect("the monitor counts OSDs")
    }

    /// Waits until so many OSDs are up: for a mark-down, or until those that were started again are back.
    pub fn wait_up_osds(&self, count: u64) {
        let is_count = |stat: &Value| stat["num_up_osds"].as_u64() == Some(count);
        self.wait_told(&format!("{count} OSDs up"), Duration::from_secs(120), "osd stat", is_count);
    }

    /// Runs a shell command with CEPH_CONF set, in the cluster's folder.
    pub fn run(&self, command: &str) -> Ran {
        self.run_limited(command, Duration::from_secs(120))
    }

    fn run_limited(&self, command: &str, limit: Duration) -> Ran {
        run_in(&self.dir, command, limit)
    }

    /// Runs commands that must all succeed. Where they are only such that `ceph` sends to the monitor, and others of
    /// stock clients between them, `ceph` is not started for them.
    pub fn sh(&self, command: &str) -> Ran {
        let ran = if command.split("; ").all(Asking::takes_one) {
            let mut all = Ran { code: 0, out: String::new(), err: String::new() };
            for one in command.split("; ") {
                let ran = match one.strip_prefix("ceph ") {
                    Some(words) => self.ask(words, false),
                    None => self.run_limited(one, COMMAND_LIMIT),
                };
                all = Ran { code: ran.code, out: all.out + &ran.out, err: all.err + &ran.err };
                if all.code != 0 {
                    break;
                }
            }
            all
        } else {
            self.run_limited(command, COMMAND_LIMIT)
        };
        assert_eq!(ran.code, 0, "{command}\n{}\n{}\n{}", ran.out, ran.err, self.logs());
        ran
    }

    /// Has a command done that `ceph` would send; see [`Asking::takes`].
    fn ask(&self, words: &str, is_json: bool) -> Ran {
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let start = || Asking::start(&self.dir, PATIENT, BESIDE_LIMIT, self.log("asking.log"));
        // The process may have come to its limit since it was asked last.
        let answer = asking.get_or_insert_with(start).run(words, is_json);
        let answer = answer.or_else(|| asking.insert(start()).run(words, is_json));
        answer.unwrap_or_else(|| panic!("{words}: no answer\n{}", self.logs()))
    }

    /// Starts a command, whose output goes to a log, and goes on.
    pub fn spawn(&self, command: &str) -> Running {
        self.spawn_limited(command, BESIDE_LIMIT)
    }

    fn spawn_limited(&self, command: &str, limit: Duration) -> Running {
        let log = self.log("beside.log");
        let mut words =
            in_client_root(&self.dir, &limited(&limit.as_secs().to_string(), &["bash", "-c", command]));
        words.stdout(log.try_clone().unwrap()).stderr(log);
        Running::start(words)
    }

    /// A log in the cluster's folder, to append to.
    fn log(&self, name: &str) -> fs::File {
        fs::File::options().create(true).append(true).open(self.dir.join(name)).unwrap()
    }

    /// The JSON that a stock command prints. What `ceph` only asks is asked without its start.
    pub fn json(&self, command: &str) -> Value {
        let ran = match command.strip_prefix("ceph ").filter(|words| Asking::takes(words)) {
            Some(words) => self.ask(words, true),
            None => self.run_limited(&format!("{command} --format json"), COMMAND_LIMIT),
        };
        assert_eq!(ran.code, 0, "{command}\n{}\n{}\n{}", ran.out, ran.err, self.logs());
        serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{command}: {e}: {}", ran.out))
    }

    /// The process id of a daemon, `osd.0` or `mon.a`.
    pub fn pid(&self, name: &str) -> i32 {
        let path = self.dir.join("run").join(format!("{name}.pid"));
        fs::read_to_string(path).unwrap().trim().parse().unwrap()
    }

    /// Ends the process that asks: it may wait for a monitor that does not come back, or for one that is another.
    fn end_asking(&self) {
        if let Some(asking) = self.asking.lock().unwrap_or_else(PoisonError::into_inner).take() {
            asking.kill();
        }
    }

    /// Kills a daemon as a crash would.
    pub fn kill(&self, name: &str) {
        if name.starts_with("mon.") {
            self.end_asking();
        }
        let pid = self.pid(name);
        assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
        self.wait_end(pid);
    }

    /// Waits until a daemon's process is gone.
    pub fn wait_end(&self, pid: i32) {
        self.wait("end of the process", Duration::from_secs(60), |_| !is_running(pid));
    }

    /// Starts a daemon that was killed.
    pub fn restart(&mut self, name: &str) {
        self.restart_with(name, None);
    }

    /// Starts a daemon that was killed, with a `PATH` of its own.
    pub fn restart_with(&mut self, name: &str, path: Option<&str>) {
        let (kind, id) = name.split_once('.').unwrap();
        let log = self.log("up.log");
        let child = Command::new(LOLIGO)
            .args([kind, "--id", id, "--conf"])
            .arg(self.conf())
            .envs(path.map(|path| ("PATH", path)))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.restarted.push((name.to_owned(), child));
    }

    /// Runs `program`, which must end well after about `seconds`, while one OSD after the other is killed and
    /// started again: one at least.
    pub fn run_while_osds_come_and_go(&mut self, program: &str, seed: u64, seconds: u64) {
        let start = Instant::now();
        let limit = Duration::from_secs(seconds + 600);
        let running = self.spawn_limited(&format!("{program} > program.out 2>&1"), limit);
        for round in 0.. {
            // A life of some seconds each; the last one has time to come back before the program ends.
            thread::sleep(Duration::from_secs(3));
            if start.elapsed().as_secs() + 4 > seconds {
                assert!(round > 0, "{seconds} s are too few for an OSD to go");
                break;
            }
            let victim = format!("osd.{}", (seed + round) % 3);
            self.kill(&victim);
            self.wait_up_osds(2);
            self.restart(&victim);
            self.wait_healthy();
        }
        let is_good = running.ends_well();
        let said = fs::read_to_string(self.dir.join("program.out")).unwrap();
        assert!(is_good, "{said}\n{}", self.logs());
        self.wait_healthy();
    }

    /// The objects of a pool, in order: each is listed once, and `ceph df` comes to count as many.
    pub fn listed_once(&self, pool: &str) -> String {
        let listed = self.sh(&format!("rados -p {pool} ls --all | sort")).out;
        let mut unique: Vec<&str> = listed.lines().collect();
        let count = unique.len() as u64;
        unique.dedup();
        assert_eq!(unique.len() as u64, count);
        self.wait_told("totals that agree with what is there", Duration::from_secs(60), "df", |df| {
            let found = df["pools"].as_array().and_then(|pools| pools.iter().find(|p| p["name"] == pool));
            found.and_then(|p| p["stats"]["objects"].as_u64()) == Some(count)
        });
        listed
    }

    /// Kills every daemon, then starts all of them again.
    pub fn crash_all(&mut self) {
        for name in self.daemon_names() {
            self.kill(&name);
        }
        self.end_supervisor("-9");
        self.restarted.drain(..).for_each(|(_, mut child)| {
            child.wait().unwrap();
        });
        self.up();
    }

    /// Stops in order, as Ctrl-C does.
    pub fn stop(&mut self) {
        self.end_supervisor("-INT");
        for (name, mut child) in std::mem::take(&mut self.restarted) {
            if !end(&mut child, "-TERM", STOP_LIMIT) {
                self.fail_unless_failing(&format!("{name} does not stop"));
            }
        }
    }

    fn daemon_names(&self) -> Vec<String> {
        (0..self.osds).map(|n| format!("osd.{n}")).chain(["mon.a".to_owned()]).collect()
    }

    fn end_supervisor(&mut self, signal: &str) {
        self.end_asking();
        if let Some(mut child) = self.supervisor.take()
            && !end(&mut child, signal, STOP_LIMIT)
        {
            self.kill_daemons();
            self.fail_unless_failing("the daemons do not stop");
        }
    }

    /// Kills the daemons that a supervisor leaves behind when it is killed.
    fn kill_daemons(&self) {
        let pid_files = fs::read_dir(self.dir.join("run")).into_iter().flatten().flatten();
        for path in
            pid_files.map(|entry| entry.path()).filter(|path| path.extension() == Some("pid".as_ref()))
        {
            let pid = fs::read_to_string(path).unwrap_or_default();
            // The number may be another process's by now.
            let program = fs::canonicalize(format!("/proc/{}/exe", pid.trim()));
            if program.is_ok_and(|program| fs::canonicalize(LOLIGO).is_ok_and(|ours| ours == program)) {
                let _ = Command::new("kill").args(["-9", pid.trim()]).status();
            }
        }
    }

    fn fail_unless_failing(&self, why: &str) {
        assert!(thread::panicking(), "{why} within {STOP_LIMIT:?}\n{}", self.logs());
    }

    /// The ends of all logs.
    pub fn logs(&self) -> String {
        let mut out = String::new();
        let folders = [self.dir.clone(), self.dir.join("log")];
        for entry in folders.iter().flat_map(fs::read_dir).flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|e| e == "log") {
                let text = fs::read_to_string(&path).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                let tail = lines[lines.len().saturating_sub(40)..].join("\n");
                out.push_str(&format!("--- {}\n{tail}\n", path.display()));
            }
        }
        out
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
        if thread::panicking() && std::env::var_os("LOLIGO_KEEP").is_some() {
            eprintln!("kept: {}", self.dir.display());
        } else {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// A folder of the test's own.
pub fn temp_dir() -> PathBuf {
    let unique = format!("loligo-test-{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
    let dir = std::env::temp_dir().join(unique);
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// Runs shell commands in a cluster's folder until one fails, all of them together for so long at most.
pub fn run_in(dir: &Path, command: &str, limit: Duration) -> Ran {
    let seconds = limit.as_secs().to_string();
    ran(in_client_root(dir, &limited(&seconds, &["bash", "-ec", command])).output().unwrap())
}

/// `words` as a command that is ended, with all that it has started, after so many seconds.
fn limited<'a>(seconds: &'a str, words: &[&'a str]) -> Vec<&'a str> {
    [&["timeout", "-k", "10", seconds], words].concat()
}

/// Polls until `is_done` holds; false when it does not within `limit`. It rests as long as a look took: stock clients
/// take half a second of CPU time to start, which what is waited for may need.
pub fn is_done_within(limit: Duration, mut is_done: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        // Asked before the look: a machine that stood still until after the limit is looked at once more.
        let looked = Instant::now();
        let is_last = looked.duration_since(start) > limit;
        if is_done() {
            return true;
        }
        if is_last {
            return false;
        }
        thread::sleep(looked.elapsed().clamp(PAUSE_MIN, PAUSE_MAX));
    }
}

/// `words` as a command in a cluster's folder, with its CEPH_CONF; with `LOLIGO_CLIENT_ROOT` one inside of that root,
/// whose clients are of another release (`cargo xtask ceph-suites` makes such roots; `/proc`, `/dev` and `/tmp` are
/// bound there).
fn in_client_root(dir: &Path, words: &[&str]) -> Command {
    let mut command = match std::env::var_os("LOLIGO_CLIENT_ROOT") {
        None => Command::new("env"),
        Some(root) => {
            let mut chroot = Command::new("chroot");
            chroot.arg(root).args(["bash", "-c", r#"cd "$0" && exec "$@""#]).arg(dir);
            chroot
        }
    };
    command.args(words).current_dir(dir).env("CEPH_CONF", dir.join("ceph.conf")).stdin(Stdio::null());
    command
}

pub fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code().or_else(|| output.status.signal().map(|signal| -signal)).unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn is_running(pid: i32) -> bool {
    // A zombie waits for its parent only.
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// A port whose next ones are free, too, for a cluster's daemons.
///
/// It lies below those that the kernel gives to connections. The last port of each block stays taken until the process
/// ends, which keeps tests apart that run at the same time, in this program or in another.
pub fn free_port() -> u16 {
    const BLOCK: u16 = 16;
    static TAKEN: Mutex<Vec<TcpListener>> = Mutex::new(Vec::new());
    let blocks = (12_000..32_000).step_by(usize::from(BLOCK));
    let start = std::process::id() as usize % blocks.len();
    for port in blocks.clone().cycle().skip(start).take(blocks.len()) {
        let Ok(guard) = TcpListener::bind(("127.0.0.1", port + BLOCK - 1)) else { continue };
        if (port..port + BLOCK - 1).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            TAKEN.lock().unwrap().push(guard);
            return port;
        }
    }
    panic!("no free ports");
}
