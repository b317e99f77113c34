"""One row of the table: a load for some seconds, and what it cost the OSDs."""
import json
import os
import subprocess
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
# The same disk without a cluster; each write is durable when it returns, as a commit is.
DISK_ROWS = [("w4k_qd1", "randwrite", "4k", 1), ("w4k_qd32", "randwrite", "4k", 32), ("w4m_qd16", "write", "4M", 16)]
# name, rw, depths of one run of `loligo bench`
OWN_ROWS = [("randwrite", "1,32,128"), ("randread", "1,32,128")]
IMAGE = "matrix"
# Work that is put off counts: CPU time is read this long after the last request.
SETTLE_SECONDS = 1.0


def cpu_seconds(pids):
    ticks = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat") as file:
            # Behind the name, which may hold anything, come the third field and the others.
            fields = file.read().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def rss_mib_max(pids):
    """Memory that the largest of the processes holds."""
    def pages(pid):
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1])

    return max(map(pages, pids)) * os.sysconf("SC_PAGESIZE") / 2**20


def fio(job, env):
    command = ["fio", "--output-format=json", "--randrepeat=0", "--direct=1", "--name=row",
               *(f"--{key}={value}" for key, value in job.items())]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-1000:]}{done.stdout[-1000:]}")
    result = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
    side = result["write" if "write" in job["rw"] else "read"]
    percentile = {key: ns / 1e3 for key, ns in side["clat_ns"]["percentile"].items()}
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


def rbd_row(cluster, row, seconds):
    _, rw, block, depth = row
    pids = cluster.osd_pids()
    before = cpu_seconds(pids)
    result = fio({**rbd_job(rw, block, depth), "time_based": 1, "runtime": seconds}, cluster.env)
    rss = rss_mib_max(pids)
    time.sleep(SETTLE_SECONDS)
    used = cpu_seconds(pids) - before
    return {**result, "cpu_us": used * 1e6 / max(result.pop("requests"), 1), "rss_mib": rss}


def disk_row(folder, row, seconds):
    _, rw, block, depth = row
    job = {"ioengine": "libaio", "filename": os.path.join(folder, "disk"), "size": "2G", "sync": "dsync",
           "rw": rw, "bs": block, "iodepth": depth, "time_based": 1, "runtime": seconds}
    return fio(job, os.environ)


def own_rows(cluster, binary, row, seconds):
    """Rounds of our own generator, by name."""
    rw, depths = row
    out = cluster.run(binary, "bench", "--json", "--rw", rw, "--bs", "4K", "--depth", depths, "--objects", "32",
                      "--seconds", str(seconds), "--pool", "rbd")
    return {f"{'w' if 'write' in rw else 'r'}4k_qd{each['depth']}": each for each in json.loads(out)["rounds"]}
