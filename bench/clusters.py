"""The two clusters that are compared, each of a monitor and OSDs as separate processes on loopback.

Both get the same folder, OSD sizes, pool and replica count, cephx and the crc mode of msgr2. Ceph gets a
manager as well, which it needs for its statistics, and daemons without debug logs. Clients have the same settings.
"""
import glob
import json
import mmap
import os
import random
import shutil
import signal
import socket
import subprocess
import time
import uuid

PG_COUNT = 32
START_SECONDS_MAX = 120
# Of a write to a file that is written ahead.
CHUNK_BYTES = 4 << 20


def free_ports(count):
    """The first of `count` free consecutive ports."""
    while True:
        first = random.randrange(20000, 32000)
        sockets = []
        try:
            for port in range(first, first + count):
                sockets.append(socket.socket())
                sockets[-1].bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
        finally:
            for each in sockets:
                each.close()


def write_ahead(path, size):
    """A file whose every block is written and durable: the first write of a block costs a file system more."""
    # Memory of its own is aligned as O_DIRECT wants it.
    with mmap.mmap(-1, CHUNK_BYTES) as chunk:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_DIRECT, 0o600)
        try:
            for offset in range(0, size, CHUNK_BYTES):
                os.pwrite(file, chunk, offset)
                # The first chunk stays zero, as nothing is to be found there; the rest may not be taken for a hole.
                if offset == 0:
                    chunk[:] = os.urandom(CHUNK_BYTES)
            os.fsync(file)
        finally:
            os.close(file)


class Cluster:
    """What both have in common; a subclass starts the daemons."""

    def __init__(self, folder, osds, size_gib):
        self.folder = folder
        self.osds = osds
        self.size_gib = size_gib
        self.conf = os.path.join(folder, "ceph.conf")
        self.env = {**os.environ, "CEPH_CONF": self.conf}
        self.processes = []
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)

    def block_path(self, osd):
        return os.path.join(self.folder, f"osd.{osd}/block")

    def write_files_ahead(self):
        """Makes the OSDs' files before the start, each block written. Without it both find files full of holes."""
        for osd in range(self.osds):
            os.makedirs(os.path.dirname(self.block_path(osd)))
            write_ahead(self.block_path(osd), self.size_gib << 30)

    def remove_files(self):
        """The OSDs' files, which are all but a little of the folder."""
        for osd in range(self.osds):
            if os.path.exists(self.block_path(osd)):
                os.remove(self.block_path(osd))

    def run(self, *command, seconds_max=300):
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=seconds_max)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()[-1000:]}")
        return done.stdout

    def spawn(self, *command):
        out = open(os.path.join(self.folder, "output"), "a")
        # A group of its own: Ctrl-C reaches this script, which stops the daemons in order.
        process = subprocess.Popen(command, env=self.env, stdout=out, stderr=out, process_group=0)
        self.processes.append(process)

    def wait(self, what, is_there):
        end = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < end:
            try:
                if is_there():
                    return
            except (RuntimeError, OSError, ValueError, subprocess.TimeoutExpired):
                pass
            time.sleep(0.3)
        raise RuntimeError(f"{self.name}: {what} took more than {START_SECONDS_MAX} s; see {self.folder}")

    def make_pool(self):
        self.run("ceph", "osd", "pool", "create", "rbd", str(PG_COUNT), str(PG_COUNT))
        self.run("rbd", "pool", "init", "rbd")
        self.wait("clean PGs", self.is_clean)

    def is_clean(self):
        summary = json.loads(self.run("ceph", "pg", "stat", "-f", "json"))["pg_summary"]
        states = {state["name"]: state["num"] for state in summary["num_pg_by_state"]}
        return set(states) == {"active+clean"} and states["active+clean"] >= PG_COUNT

    def osd_pids(self):
        def read(osd):
            with open(os.path.join(self.folder, f"run/osd.{osd}.pid")) as file:
                return int(file.read())

        return [read(osd) for osd in range(self.osds)]

    def stop(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGINT)
        for process in reversed(self.processes):
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
        self.kill_what_is_left()

    def kill_what_is_left(self):
        """Daemons that their parent did not end: they would go on beside what is measured next."""
        for path in glob.glob(os.path.join(self.folder, "run", "*.pid")):
            with open(path) as file:
                pid = file.read().strip()
            # A daemon that ended may have left its file, and its number to another process.
            if pid.isdigit() and os.path.basename(os.path.realpath(f"/proc/{pid}/exe")) in self.programs:
                os.kill(int(pid), signal.SIGKILL)


class Loligo(Cluster):
    name = "Loligo"

    def __init__(self, folder, osds, size_gib, binary):
        super().__init__(folder, osds, size_gib)
        self.binary = binary
        self.programs = [os.path.basename(os.path.realpath(binary))]

    def start(self):
        self.start_daemons()
        self.make_pool()

    def start_daemons(self):
        port = free_ports(self.osds * 2 + 2)
        self.spawn(self.binary, "up", "--separate", "--data", self.folder, "--osds", str(self.osds),
                   "--size", f"{self.size_gib}G", "--port", str(port))
        self.wait("the start", lambda: os.path.exists(self.conf)
                  and self.run("ceph", "--connect-timeout", "5", "health").strip() == "HEALTH_OK")

    def version(self):
        return self.run(self.binary, "--version").strip()

    def commit(self):
        """The one that the binary was built from, as its build was told (`scripts/release` tells it); `-dirty` if more
        had changed."""
        commit, *dirty = json.loads(self.run("ceph", "tell", "osd.0", "git_version"))["git_version"].split("-")
        return "-".join([commit[:12], *dirty])


# What an OSD chooses by itself on an SSD. Virtual disks often say that they rotate: then BlueStore admits less at once,
# journals small overwrites, and fewer threads serve ops. 16.2 does not heed the last two, newer releases do.
SSD_SETTINGS = """
bluestore debug enforce settings = ssd
osd op num shards = 8
osd op num threads per shard = 2
osd mclock max capacity iops hdd = 21500
osd mclock max sequential bandwidth hdd = 1258291200
"""


class Ceph(Cluster):
    name = "Ceph"
    programs = ["ceph-mon", "ceph-mgr", "ceph-osd"]

    def __init__(self, folder, osds, size_gib, root="", media="auto"):
        """`media`: `ssd` for the settings of OSDs on SSDs, `auto` for those that they choose by the disk."""
        super().__init__(folder, osds, size_gib)
        self.settings = SSD_SETTINGS if media == "ssd" else ""
        # Of the daemons; the tools are the system's.
        self.prefix = ["chroot", root] if root else []

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def start(self):
        port, fsid = free_ports(2), str(uuid.uuid4())
        self.write_conf(port, fsid)
        for folder in ["mon.a", "mgr.x", "run"] + [f"osd.{osd}" for osd in range(self.osds)]:
            os.makedirs(self.path(folder), exist_ok=True)
        keys, monmap = self.path("keyring"), self.path("monmap")
        everything = [word for service in ("mon", "osd", "mgr", "mds") for word in ("--cap", service, "allow *")]
        self.run("ceph-authtool", "--create-keyring", keys, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
        self.run("ceph-authtool", keys, "--gen-key", "-n", "client.admin", *everything)
        self.run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", f"[v2:127.0.0.1:{port},v1:127.0.0.1:{port + 1}]",
                 monmap)
        self.run(*self.prefix, "ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap, "--keyring", keys)
        self.spawn(*self.prefix, "ceph-mon", "-f", "-i", "a")
        self.wait("the monitor", lambda: self.run("ceph", "--connect-timeout", "5", "mon", "stat"))
        self.run("ceph", "auth", "get-or-create", "mgr.x", "mon", "allow profile mgr", "osd", "allow *",
                 "-o", self.path("mgr.x/keyring"))
        self.spawn(*self.prefix, "ceph-mgr", "-f", "-i", "x", "--keyring", self.path("mgr.x/keyring"))
        for osd in range(self.osds):
            self.start_osd(str(osd))
        self.make_pool()

    def start_osd(self, osd):
        keys, own = self.path(f"osd.{osd}/keyring"), str(uuid.uuid4())
        self.run("ceph", "osd", "new", own, osd)
        self.run("ceph-authtool", "--create-keyring", keys, "--gen-key", "-n", f"osd.{osd}")
        self.run("ceph", "auth", "add", f"osd.{osd}", "osd", "allow *", "mon", "allow profile osd",
                 "mgr", "allow profile osd", "-i", keys)
        self.run(*self.prefix, "ceph-osd", "-i", osd, "--mkfs", "--osd-uuid", own, "--keyring", keys)
        self.spawn(*self.prefix, "ceph-osd", "-f", "-i", osd, "--keyring", keys)

    def write_conf(self, port, fsid):
        # A nearly full disk has room for the benchmark, which looks for that itself.
        # Of the daemons alone: what a client does with its defaults is the same with both clusters.
        quiet = "\n".join(f"debug {part} = 0/0" for part in
                          "ms mon paxos auth osd bluestore bluefs bdev rocksdb mgr client rbd".split())
        of_daemons = f"""run dir = {self.path("run")}
admin socket = {self.path("run")}/$name.$pid.asok
log file = {self.folder}/$name.log
{quiet}"""
        with open(self.conf, "w") as file:
            file.write(f"""[global]
fsid = {fsid}
mon initial members = a
mon host = [v2:127.0.0.1:{port},v1:127.0.0.1:{port + 1}]
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
keyring = {self.path("keyring")}
pid file = {self.path("run")}/$name.pid
osd crush chooseleaf type = 0
osd pool default size = 3
osd pool default min size = 2
osd pool default pg autoscale mode = off
auth allow insecure global id reclaim = false
[mon]
{of_daemons}
mon data avail crit = 0
[mon.a]
mon data = {self.path("mon.a")}
[mgr]
{of_daemons}
[mgr.x]
mgr data = {self.path("mgr.x")}
[osd]
{of_daemons}
osd data = {self.folder}/osd.$id
bluestore block size = {self.size_gib << 30}
public addr = 127.0.0.1
cluster addr = 127.0.0.1
{self.settings}""")

    def version(self):
        return " ".join(self.run(*self.prefix, "ceph-osd", "--version").split()[:3])
