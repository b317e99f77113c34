"""One row of the table: a load for some seconds, and what it cost the OSDs."""
import contextlib
import json
import os
import resource
import socket
import subprocess
import threading
import time

# name, fio's rw, block, depth
RBD_ROWS = [
    ("w4k_qd1", "randwrite", "4k", 1),
    ("r4k_qd1", "randread", "4k", 1),
    ("w4k_qd32", "randwrite", "4k", 32),
    ("r4k_qd32", "randread", "4k", 32),
    ("w4m_qd16", "write", "4M", 16),
    ("r4m_qd16", "read", "4M", 16),
]
# Depths at which our own generator and the disk are measured.
DEPTHS = [1, 8, 32, 128, 256]
# All copies of a cluster's write are on the one disk: at a depth it may have three times as many writes under way there.
COPIES = 3
# The same disk without a cluster; each write is durable when it returns, as a commit is.
DISK_ROWS = [(f"{name}_qd{depth}", rw, block, depth)
             for name, rw, block, depths in (("w4k", "randwrite", "4k", DEPTHS), ("w4m", "write", "4M", [16]))
             for depth in sorted({*depths, *(depth * COPIES for depth in depths)})]
DISK_ROWS += [(name, rw, block, depth) for name, rw, block, depth in RBD_ROWS if rw == "randread"]
# What librbd answers by itself: reads of objects that are not there by the image's object map.
CLIENT_ROWS = [row for row in RBD_ROWS if row[1] == "randread"]
# What of the floor is in each request of a row of fio.
FLOOR_WITHIN = {"w4k_qd1": "w4k_in_place_qd1", "r4k_qd1": "r4k_qd1", "w4k_qd32": "w4k_in_place_qd32", "r4k_qd32": "r4k_qd32"}
# Many requests are under way at once: each is with librbd or with an OSD.
JOINT_ROWS = [row for row in RBD_ROWS if row[0] in FLOOR_WITHIN and row[3] > 1]
# rw of one run of `loligo bench`
OWN_ROWS = ["randwrite", "randread"]
# More than the floor's program has.
FLOOR_ROWS_MAX = 30
IMAGE = "matrix"
EMPTY_IMAGE = "empty"
# Work that is put off counts: CPU time is read this long after the last request.
SETTLE_SECONDS = 1.0
# Before a row that writes 4 KiB, so much is written unmeasured, with WARM_UP_DEPTH in flight; rows of `loligo bench` that
# follow each other need it once. Loligo begins to write in place what it put off when an OSD has more than 32 MiB of that:
# a row then begins as far from that as it ends, on average, and pays for as much as it writes.
WARM_UP = "48M"
WARM_UP_DEPTH = 32
# What a program may take beside the seconds that it was asked to measure: it connects, writes its files, erases them. One
# that takes longer hangs.
BESIDE_SECONDS_MAX = 300


class MachineClock:
    """CPU time of everything on this machine since it was made: kernel threads work for OSDs, too, and no process has
    their time (`/proc/PID/stat`). It is what CPUs are not idle, which Linux measures: what they do, it only samples."""

    def __init__(self):
        self.start, self.idle = time.monotonic(), self.idle_seconds()

    @staticmethod
    def idle_seconds():
        with open("/proc/stat") as file:
            # user, nice, system, idle, iowait, irq, softirq, steal
            fields = file.readline().split()[1:]
        return sum(int(fields[at]) for at in (3, 4, 7)) / os.sysconf("SC_CLK_TCK")

    def used(self):
        """CPU seconds, and the seconds of the clock in which they were used."""
        elapsed = time.monotonic() - self.start
        return elapsed * os.cpu_count() - (self.idle_seconds() - self.idle), elapsed


def idle_row(seconds):
    """How many CPUs are busy while no row is: the clusters at rest, and what else there is."""
    clock = MachineClock()
    time.sleep(seconds)
    used, elapsed = clock.used()
    return {"busy_cpus": used / elapsed}


def machine_cpu_us(used, elapsed, idle_cpus, client_used, requests):
    """What a request costs the machine, the client and what the clusters take at rest left out."""
    return (used - elapsed * idle_cpus - client_used) * 1e6 / requests


def cpu_seconds(pids):
    ticks = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat") as file:
            # Behind the name, which may hold anything, come the third field and the others.
            fields = file.read().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def children_cpu_seconds():
    """CPU time of the programs that were run and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def rss_mib_max(pids):
    """Memory that the largest of the processes holds."""
    def pages(pid):
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1])

    return max(map(pages, pids)) * os.sysconf("SC_PAGESIZE") / 2**20


def fio(job, env):
    command = ["fio", "--output-format=json", "--randrepeat=0", "--direct=1", "--lat_percentiles=1",
               "--clat_percentiles=0", "--name=row",
               *(f"--{key}={value}" for key, value in job.items())]
    limit = job.get("runtime", 0) + BESIDE_SECONDS_MAX
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=limit)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-1000:]}{done.stdout[-1000:]}")
    result = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
    side = result["write" if "write" in job["rw"] else "read"]
    percentile = {key: ns / 1e3 for key, ns in side["lat_ns"]["percentile"].items()}
    return {
        "requests": side["total_ios"], "iops": side["iops"], "mib_s": side["bw_bytes"] / 2**20,
        "mean_us": side["lat_ns"]["mean"] / 1e3, "p50_us": percentile["50.000000"],
        "p99_us": percentile["99.000000"], "p999_us": percentile["99.900000"],
    }


def rbd_job(rw, block, depth):
    return {"ioengine": "rbd", "clientname": "admin", "pool": "rbd", "rbdname": IMAGE,
            "rw": rw, "bs": block, "iodepth": depth}


def make_image(cluster, size_gib):
    """An image whose every block is written."""
    cluster.run("rbd", "create", f"rbd/{IMAGE}", "--size", f"{size_gib}G", "--image-feature", "layering")
    fio(rbd_job("write", "4M", 8), cluster.env)


def make_empty_image(cluster, size_gib):
    """An image without objects, and with a map that says so."""
    cluster.run("rbd", "create", f"rbd/{EMPTY_IMAGE}", "--size", f"{size_gib}G",
                "--image-feature", "layering,exclusive-lock,object-map")


def client_row(cluster, row, seconds):
    """fio and librbd by themselves: no request leaves the process."""
    _, rw, block, depth = row
    job = {"rbdname": EMPTY_IMAGE, "time_based": 1, "runtime": seconds}
    return fio({**rbd_job(rw, block, depth), **job}, cluster.env)


def warm_up(cluster, row):
    """Writes before a row of small writes: see WARM_UP."""
    _, rw, block, _ = row
    if rw == "randwrite":
        fio({**rbd_job(rw, block, WARM_UP_DEPTH), "io_size": WARM_UP}, cluster.env)


def rbd_row(cluster, row, seconds, idle_cpus=0.0):
    _, rw, block, depth = row
    pids = cluster.osd_pids()
    before, client_before, clock = cpu_seconds(pids), children_cpu_seconds(), MachineClock()
    result = fio({**rbd_job(rw, block, depth), "time_based": 1, "runtime": seconds}, cluster.env)
    client_used = children_cpu_seconds() - client_before
    rss = rss_mib_max(pids)
    time.sleep(SETTLE_SECONDS)
    used, machine = cpu_seconds(pids) - before, clock.used()
    requests = max(result.pop("requests"), 1)
    return {**result, "cpu_us": used * 1e6 / requests, "client_cpu_us": client_used * 1e6 / requests,
            "machine_cpu_us": machine_cpu_us(*machine, idle_cpus, client_used, requests), "rss_mib": rss}


def disk_job(folder):
    return {"ioengine": "libaio", "filename": os.path.join(folder, "disk"), "size": "1G"}


def make_disk_file(folder):
    """A file whose every block is written: the first write of a block costs the file system more."""
    fio({**disk_job(folder), "rw": "write", "bs": "4M", "iodepth": 8, "end_fsync": 1}, os.environ)


def disk_row(folder, row, seconds):
    _, rw, block, depth = row
    job = {"sync": "dsync", "rw": rw, "bs": block, "iodepth": depth, "time_based": 1, "runtime": seconds}
    return fio({**disk_job(folder), **job}, os.environ)


def own_rows(cluster, binary, rw, seconds, idle_cpus=0.0, block="4K", depths=tuple(DEPTHS), warm_up_bytes=WARM_UP):
    """Rounds of our own generator, by name."""
    is_write = "write" in rw
    out = cluster.run(binary, "bench", "--json", "--rw", rw, "--bs", block, "--depth", ",".join(map(str, depths)),
                      "--objects", "32", "--seconds", str(seconds), "--pool", "rbd",
                      "--warm-up", warm_up_bytes if is_write else "0",
                      seconds_max=len(depths) * seconds + BESIDE_SECONDS_MAX)
    rounds = {}
    for each in json.loads(out)["rounds"]:
        used, elapsed = each.pop("machine_cpu_sec"), each.pop("machine_sec")
        client_used = each["own_cpu_us"] * each["requests"] / 1e6
        each["machine_cpu_us"] = machine_cpu_us(used, elapsed, idle_cpus, client_used, each["requests"])
        rounds[f"{'w' if is_write else 'r'}{block.lower()}_qd{each['depth']}"] = each
    return rounds


@contextlib.contextmanager
def floor_program(command, seconds_max):
    """The floor's program while it measures: what it prints of each row as that ends. The load is its own."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        watchdog = threading.Timer(seconds_max + BESIDE_SECONDS_MAX, program.kill)
        # An error here must not wait for it.
        watchdog.daemon = True
        watchdog.start()
        # The first line says that it begins.
        program.stdout.readline()
        yield program
        watchdog.cancel()
    if program.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {program.returncode}")


def floor_rows(folder, binary, seconds, idle_cpus=0.0):
    """What servers that only pass blocks on and store them take, by name."""
    rows = {}
    with floor_program([binary, folder, str(seconds)], FLOOR_ROWS_MAX * seconds) as program:
        client_before, clock = cpu_seconds([program.pid]), MachineClock()
        for row in map(json.loads, program.stdout):
            client, machine = cpu_seconds([program.pid]), clock.used()
            row["machine_cpu_us"] = machine_cpu_us(*machine, idle_cpus, client - client_before, row["requests"])
            rows[row.pop("row")] = row
            client_before, clock = client, MachineClock()
    return rows


def joint_at(cluster, folder, binary, row, at_floor, seconds):
    """librbd by itself, and the floor with `at_floor` of the requests, at once. librbd answers reads by itself, not writes,
    which cost it more: its reads stand for these."""
    name, _, block, depth = row
    kind = FLOOR_WITHIN[name].rsplit("_", 1)[0]
    # fio takes a moment to begin.
    command = [binary, folder, str(seconds + 1), f"{kind}_qd{at_floor}"]
    with floor_program(command, seconds) as program:
        client = client_row(cluster, (name, "randread", block, depth - at_floor), seconds)
        floor = json.loads(program.stdout.readline())
    values = {"at_floor": at_floor, "iops": min(client["iops"], floor["iops"]), "floor_cpu_us": floor["cpu_us"]}
    for part, of in (("client", client), ("floor", floor)):
        values.update({f"{part}_{key}": of[key] for key in ("iops", "p50_us", "p99_us", "p999_us")})
    return {**values, **{key: max(client[key], floor[key]) for key in ("p99_us", "p999_us")}}


def joint_row(cluster, folder, binary, row, seconds):
    """What librbd and the floor do at once on these CPUs, when both do as many requests a second, as they would if each
    request were with the one and then with the other: the requests in flight are shared between them accordingly."""
    least, most, tried = 1, row[3] - 1, []
    while least <= most:
        at_floor = (least + most) // 2
        values = joint_at(cluster, folder, binary, row, at_floor, seconds)
        tried.append(values)
        if values["floor_iops"] < values["client_iops"]:
            least = at_floor + 1
        else:
            most = at_floor - 1
    return max(tried, key=lambda values: values["iops"])


# What is shorter, a thread's own interrupts and switches cause.
PAUSE_SECONDS_MIN = 0.0005


def pauses_of(cpu, seconds):
    """How long each time a thread was not run for that only looks at the clock, on one CPU."""
    os.sched_setaffinity(0, {cpu})
    pauses, now = [], time.monotonic()
    end = now + seconds
    while now < end:
        last, now = now, time.monotonic()
        if now - last >= PAUSE_SECONDS_MIN:
            pauses.append(now - last)
    return pauses


def pauses_row(seconds):
    """What this machine takes from threads that want to run, one on each CPU and nothing else: a hypervisor runs others."""
    children = []
    for cpu in sorted(os.sched_getaffinity(0)):
        out, into = os.pipe()
        child = os.fork()
        if child == 0:
            with open(into, "w") as file:
                json.dump(pauses_of(cpu, seconds), file)
            os._exit(0)
        os.close(into)
        children.append((child, out))
    pauses = []
    for child, out in children:
        with open(out) as file:
            pauses += json.load(file)
        os.waitpid(child, 0)
    pauses.sort()
    return {"per_sec": len(pauses) / seconds, "p50_us": pauses[len(pauses) // 2] * 1e6 if pauses else 0,
            "most_us": pauses[-1] * 1e6 if pauses else 0}


def loopback_row(seconds):
    """Round trips of a byte over TCP between two processes that sleep while they wait."""
    listener = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    if child == 0:
        with socket.create_connection(listener.getsockname()) as peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while byte := peer.recv(1):
                peer.send(byte)
        os._exit(0)
    with listener.accept()[0] as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        trips, start = 0, time.monotonic()
        while (elapsed := time.monotonic() - start) < seconds:
            peer.send(b".")
            peer.recv(1)
            trips += 1
    listener.close()
    os.waitpid(child, 0)
    return {"mean_us": elapsed * 1e6 / trips}
