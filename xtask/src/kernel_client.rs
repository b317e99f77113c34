//! `cargo xtask kernel-client`: the Linux kernel's `rbd` and `nbd` against a cluster of ours.
//!
//! A kernel of Debian's boots in a virtual machine whose root is this machine's own files, read-only, with changes in
//! memory. Cluster and clients run in there, so nothing needs a network. `xtask/data/kernel_client` has the scripts:
//! `init.sh` mounts, `guest.sh` starts the cluster and runs `checks.sh` and, if told, Ceph's own workunits for the
//! kernel.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::tidy;

/// What is needed besides the clients; `busybox` and `kmod` make the initramfs, `udev` names devices.
const PACKAGES: &[&str] =
    &["qemu-system-x86", "busybox-static", "kmod", "udev", "rbd-nbd", "e2fsprogs", "xfsprogs", "iproute2"];
/// What Ceph's workunits need besides.
const WORKUNIT_PACKAGES: &[&str] = &["python3-cram", "sudo", "jq"];
/// Modules that find root and disk, by the order in which they are loaded.
const BOOT_MODULES: &[&str] = &["virtio_pci", "virtio_blk", "virtio_rng", "9pnet_virtio", "9p", "overlay"];
/// Size of the disk for the cluster; a file with holes.
const DISK_BYTES: u64 = 40 << 30;
/// Memory of the machine, in MiB: three OSDs of a debug build, and what changes of the root.
const MEMORY_MIB: u32 = 3_072;
/// The longest that all checks may take. Without KVM ours need 12 to 14 minutes on two cores; Ceph's
/// own scripts take longer.
const LIMIT: Duration = Duration::from_secs(14_400);
/// Lines of a failed check that are shown.
const LINES_SHOWN: usize = 25;

/// How to call it.
pub(crate) const USAGE: &str =
    "cargo xtask kernel-client [--binary LOLIGO] [--kernel PACKAGE] [--workunits CEPH] [--keep] [CHECK…]";

/// Runs [`USAGE`].
pub(crate) fn run(args: &[String]) -> Result<()> {
    let (mut binary, mut kernel, mut ceph, mut keep, mut wanted) = (None, None, None, false, Vec::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--binary" => binary = args.next().map(PathBuf::from),
            "--kernel" => kernel = args.next().cloned(),
            "--workunits" => ceph = args.next().cloned(),
            "--keep" => keep = true,
            option if option.starts_with("--") => bail!("usage: {USAGE}"),
            _ => wanted.push(arg.clone()),
        }
    }
    let more = if ceph.is_some() { WORKUNIT_PACKAGES } else { &[] };
    crate::run(
        Command::new(tidy::workspace_root().join("scripts/setup")).arg("test").args(PACKAGES).args(more),
    )?;
    let built = tidy::workspace_root().join("target/debug/loligo");
    if binary.is_none() {
        crate::run(Command::new("cargo").args(["build", "-p", "loligo"]))?;
    }
    let dir = std::env::temp_dir().join(format!("kernel-client-{}", std::process::id()));
    let machine = Machine::prepare(&dir, binary.as_deref().unwrap_or(&built), kernel.as_deref(), &wanted)?;
    fs::write(dir.join("shared/ceph"), ceph.unwrap_or_default())?;
    let outcome = machine.run();
    if keep || outcome.is_err() {
        println!("logs: {}", dir.join("shared").display());
        fs::remove_file(dir.join("disk")).ok();
    } else {
        fs::remove_dir_all(&dir).ok();
    }
    outcome
}

/// What the machine starts from, in a folder of its own.
struct Machine {
    dir: PathBuf,
}

impl Machine {
    fn prepare(dir: &Path, binary: &Path, kernel: Option<&str>, wanted: &[String]) -> Result<Machine> {
        let machine = Machine { dir: dir.to_owned() };
        for folder in ["kernel", "shared/log"] {
            fs::create_dir_all(dir.join(folder))?;
        }
        machine.fetch_kernel(kernel)?;
        machine.make_initramfs()?;
        let shared = dir.join("shared");
        for script in ["guest.sh", "checks.sh"] {
            fs::copy(scripts().join(script), shared.join(script))?;
        }
        fs::copy(binary, shared.join("loligo")).with_context(|| binary.display().to_string())?;
        fs::write(shared.join("modules"), machine.modules()?.display().to_string())?;
        fs::write(shared.join("wanted"), wanted.join("\n"))?;
        fs::File::create(dir.join("disk"))?.set_len(DISK_BYTES)?;
        Ok(machine)
    }

    /// Unpacks a kernel's package, the newest of this Debian unless told; it is not installed.
    fn fetch_kernel(&self, package: Option<&str>) -> Result<()> {
        let newest = "apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: //p' | head -n 1";
        let fetch = format!(
            "apt-get download -q \"${{0:-$({newest})}}\" >/dev/null && dpkg -x linux-image-*.deb kernel && rm linux-image-*.deb"
        );
        let mut command = Command::new("sh");
        command.args(["-ec", &fetch, package.unwrap_or_default()]).current_dir(&self.dir);
        // It says that it runs as the user who calls it.
        crate::run(command.stderr(Stdio::null())).context("fetching a kernel")
    }

    /// The folder of its modules; its name is the version.
    fn modules(&self) -> Result<PathBuf> {
        let all = ["usr/lib/modules", "lib/modules"].map(|at| self.dir.join("kernel").join(at));
        let found = all.iter().filter_map(|at| fs::read_dir(at).ok()?.next()?.ok()).next();
        Ok(found.context("the package has no modules")?.path())
    }

    /// Busybox, the modules that the root needs, and `init.sh`.
    fn make_initramfs(&self) -> Result<()> {
        let modules = self.modules()?;
        let version = modules.file_name().and_then(|name| name.to_str()).context("a version")?.to_owned();
        let root = self.dir.join("initramfs");
        for folder in ["bin", "modules", "proc", "sys", "dev", "lower", "changes", "newroot"] {
            fs::create_dir_all(root.join(folder))?;
        }
        fs::copy("/bin/busybox", root.join("bin/busybox"))?;
        fs::copy(scripts().join("init.sh"), root.join("init"))?;
        fs::set_permissions(root.join("init"), fs::Permissions::from_mode(0o755))?;
        // Newer kernels' packages have them below /usr, where only merged systems look.
        let base = modules.ancestors().nth(3).context("three folders up")?;
        crate::run(Command::new("/sbin/depmod").arg("-b").arg(base).arg(&version))?;
        let mut order: Vec<String> = Vec::new();
        for module in BOOT_MODULES {
            let output = Command::new("/sbin/modprobe")
                .arg("-d")
                .arg(base)
                .args(["-S", &version, "--show-depends", module])
                .output()?;
            for line in String::from_utf8(output.stdout)?.lines() {
                let Some(path) = line.strip_prefix("insmod ").map(|rest| Path::new(rest.trim())) else {
                    continue;
                };
                let name = path.file_name().and_then(|name| name.to_str()).context("a module")?.to_owned();
                if !order.contains(&name) {
                    fs::copy(path, root.join("modules").join(&name))?;
                    order.push(name);
                }
            }
        }
        fs::write(root.join("order"), order.join("\n") + "\n")?;
        let pack = "find . | busybox cpio -o -H newc 2>/dev/null | gzip -1 >../initramfs.gz";
        crate::run(Command::new("sh").args(["-ec", pack]).current_dir(root))
    }

    /// Boots, and shows results as they come.
    fn run(&self) -> Result<()> {
        let boot = self.dir.join("kernel/boot");
        let image = fs::read_dir(&boot)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz")))
            .context("the package has no kernel")?;
        let has_kvm = Path::new("/dev/kvm").exists()
            && fs::read_to_string("/proc/cpuinfo")?
                .split_whitespace()
                .any(|flag| flag == "vmx" || flag == "svm");
        if !has_kvm {
            println!("no virtualization by the CPU: it is emulated, which takes many times as long");
        }
        let accel: [&str; 4] = if has_kvm {
            ["-accel", "kvm", "-cpu", "host"]
        } else {
            ["-accel", "tcg,thread=multi", "-cpu", "max,la57=off"]
        };
        let share = |id: &str, path: &Path, mode: &str| {
            let path = path.display();
            [
                "-fsdev".to_owned(),
                format!("local,id={id},path={path},security_model=none,multidevs=remap{mode}"),
                "-device".to_owned(),
                format!("virtio-9p-pci,fsdev={id},mount_tag={id}"),
            ]
        };
        let mut child = Command::new("qemu-system-x86_64")
            .args(accel)
            .args(["-smp", "2", "-m", &MEMORY_MIB.to_string(), "-display", "none", "-monitor", "none"])
            .args(["-nic", "none", "-no-reboot", "-device", "virtio-rng-pci", "-serial"])
            .arg(format!("file:{}", self.dir.join("shared/console.log").display()))
            .arg("-drive")
            .arg(format!("file={},if=virtio,format=raw,cache=unsafe", self.dir.join("disk").display()))
            .args(share("root", Path::new("/"), ",readonly=on"))
            .args(share("shared", &self.dir.join("shared"), ""))
            .arg("-kernel")
            .arg(image)
            .arg("-initrd")
            .arg(self.dir.join("initramfs.gz"))
            .args(["-append", "console=ttyS0 mitigations=off tsc=reliable panic=-1 quiet"])
            .stdin(Stdio::null())
            .spawn()
            .context("starting qemu-system-x86_64")?;
        let outcome = self.follow(&mut child);
        // It has ended, or is to.
        child.kill().ok();
        child.wait()?;
        outcome
    }

    /// Prints what the machine says of its checks until it ends.
    fn follow(&self, child: &mut Child) -> Result<()> {
        let path = self.dir.join("shared/results");
        fs::File::create(&path)?;
        let mut lines = BufReader::new(fs::File::open(&path)?);
        let (begin, mut line) = (Instant::now(), String::new());
        let (mut passed, mut failed) = (0, Vec::new());
        loop {
            if lines.read_line(&mut line)? == 0 || !line.ends_with('\n') {
                if child.try_wait()?.is_some() {
                    bail!("the machine ended before its checks");
                }
                if begin.elapsed() > LIMIT {
                    bail!("the machine took too long");
                }
                thread::sleep(Duration::from_millis(300));
                continue;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["passed", name, seconds] => {
                    println!("{name}: passed, {seconds} s");
                    passed += 1;
                }
                ["FAILED", name, seconds] => {
                    println!("{name}: FAILED, {seconds} s");
                    self.show_log(name);
                    failed.push(name.to_owned());
                }
                ["end"] => break,
                _ => print!("{line}"),
            }
            line.clear();
        }
        println!("{passed} checks passed, {} s", begin.elapsed().as_secs());
        if failed.is_empty() && passed > 0 { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
    }

    fn show_log(&self, name: &str) {
        let log = fs::read(self.dir.join("shared/log").join(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&log).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES_SHOWN)..].iter().for_each(|line| println!("    {line}"));
    }
}

fn scripts() -> PathBuf {
    tidy::workspace_root().join("xtask/data/kernel_client")
}
