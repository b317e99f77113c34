"""Tables in Markdown out of the raw results, and these as they are kept."""
import json
import statistics

from rows import COPIES, FLOOR_WITHIN

OPEN, CLOSE = "<!-- measured: bench/compare writes what follows -->", "<!-- end of what is measured -->"
UNITS = [
    ("p50_us", "p50 µs", 0), ("mean_us", "mean µs", 0), ("p99_us", "p99 µs", 0), ("p999_us", "p99.9 µs", 0),
    ("cpu_us", "OSD CPU µs/IO", 0), ("machine_cpu_us", "machine CPU µs/IO", 0),
    ("client_cpu_us", "fio CPU µs/IO", 0), ("rss_mib", "OSD RSS MiB", 0),
]
# How many times Ceph's IOPS or MiB/s Loligo wants to do.
AIMS = {"w4k_qd1": 8, "r4k_qd1": 3, "w4k_qd32": 10, "r4k_qd32": 4, "w4m_qd16": 3, "r4m_qd16": 1.2}


def median(rounds, key):
    return statistics.median(each[key] for each in rounds)


def with_spread(rounds, key, digits=0):
    values = [each[key] for each in rounds]
    low, mid, high = (f"{value:,.{digits}f}" for value in (min(values), statistics.median(values), max(values)))
    return f"{mid} ({low}–{high})"


def speed_key(name):
    return "mib_s" if "4m" in name else "iops"


def ratio(ours, theirs, key):
    """The median of the ratios of the rounds: both of a round met the same machine."""
    return statistics.median(a[key] / max(b[key], 1e-9) for a, b in zip(ours, theirs))


def ratio_table(rows, keys):
    """The ratios of the rows' values by these keys, each with its title; no key stands for what a row's speed is in."""
    out = ["| row | " + " | ".join(title for _, title in keys) + " |", "|---" * (1 + len(keys)) + "|"]
    for name, pair in rows.items():
        cells = [f"{ratio(pair['Loligo'], pair['Ceph'], key or speed_key(name)):.2f}×" for key, _ in keys]
        out.append(f"| {name} | " + " | ".join(cells) + " |")
    return out


def rbd_ratio_table(rows):
    return ratio_table(rows, [(None, "IOPS or MiB/s"), ("mean_us", "mean"), ("p99_us", "p99"), ("p999_us", "p99.9"),
                              ("cpu_us", "OSD CPU per IO"), ("machine_cpu_us", "machine CPU per IO"),
                              ("rss_mib", "OSD RSS")])


def own_ratio_table(rows):
    return ratio_table(rows, [("iops", "IOPS"), ("p50_us", "p50"), ("p99_us", "p99"), ("p99_9_us", "p99.9"),
                              ("osd_cpu_us", "OSD CPU per IO"), ("machine_cpu_us", "machine CPU per IO"),
                              ("own_cpu_us", "client CPU per IO")])


def value_table(rows):
    out = ["| row | cluster | IOPS or MiB/s | " + " | ".join(title for _, title, _ in UNITS) + " |",
           "|---" * (3 + len(UNITS)) + "|"]
    for name, pair in rows.items():
        unit = "MiB/s" if "4m" in name else "IOPS"
        for cluster, rounds in pair.items():
            cells = [with_spread(rounds, key, digits) for key, _, digits in UNITS]
            speed = with_spread(rounds, speed_key(name))
            out.append(f"| {name} | {cluster} | {speed} {unit} | " + " | ".join(cells) + " |")
    return out


def own_table(rows):
    keys = [("iops", "IOPS"), ("p50_us", "p50 µs"), ("p99_us", "p99 µs"), ("p99_9_us", "p99.9 µs"),
            ("osd_cpu_us", "OSD CPU µs/IO"), ("machine_cpu_us", "machine CPU µs/IO"), ("own_cpu_us", "client CPU µs/IO")]
    out = ["| row | cluster | " + " | ".join(title for _, title in keys) + " |", "|---" * (2 + len(keys)) + "|"]
    for name, pair in rows.items():
        for cluster, rounds in pair.items():
            out.append(f"| {name} | {cluster} | " + " | ".join(with_spread(rounds, key) for key, _ in keys) + " |")
    return out


def disk_table(rows):
    out = ["| row | IOPS | MiB/s | p50 µs | p99 µs | p99.9 µs |", "|---|---|---|---|---|---|"]
    for name, rounds in rows.items():
        cells = [with_spread(rounds, key) for key in ("iops", "mib_s", "p50_us", "p99_us", "p999_us")]
        out.append(f"| {name} | " + " | ".join(cells) + " |")
    return out


# Of a limit of the machine: what Loligo aims at.
SHARE_AIM = 0.5


def disk_limits(disk, floor, name):
    """What this one disk would do of a row's writes if all copies went to it, by a round's rows without a cluster: the
    aim's definition, which is the disk's own rate at the row's depth divided by the copies, and a stricter one. At a
    depth a cluster may have that many writes of each copy under way, and it may put many writes into one, as the floor
    does with its journal."""
    kind, depth = name.rsplit("_qd", 1)
    key = speed_key(name)
    same = disk[name][key] / COPIES
    deeper = disk[f"{kind}_qd{int(depth) * COPIES}"][key] / COPIES
    return same, max(same, deeper, floor.get(name, {}).get(key, 0))


def of_round(rows, number):
    return {name: rounds[number] for name, rounds in rows.items()}


def named(depths, all_depths):
    """Depths in words."""
    if len(depths) in (0, len(all_depths)):
        return "at all depths" if depths else "at no depth"
    return f"at depth {' and '.join(depths)}" if len(depths) <= 2 else f"at depths {', '.join(depths)}"


def limits_table(result):
    """What the cluster does of what the disk and the network would allow, by the medians of each round's share."""
    own, disk, floor, loopback = result["own"], result["disk"], result["floor"], result["loopback"]
    out = ["| depth | Loligo IOPS | disk at the depth / 3 | share | Ceph's share | disk at three times the depth / 3, or the floor "
           "| share | Ceph's share |", "|---" * 8 + "|"]
    reached, depths = ([], []), []
    for name in (name for name in own if name.startswith("w4k")):
        ours, theirs, depth = own[name]["Loligo"], own[name]["Ceph"], name.removeprefix("w4k_qd")
        limits = [disk_limits(of_round(disk, number), of_round(floor, number), name) for number in range(len(ours))]
        cells = [f"{median(ours, 'iops'):,.0f}"]
        depths.append(depth)
        for limit, good in zip(([{"iops": each[kind]} for each in limits] for kind in (0, 1)), reached):
            share = ratio(ours, limit, "iops")
            cells += [f"{median(limit, 'iops'):,.0f}", f"{share:.2f}", f"{ratio(theirs, limit, 'iops'):.2f}"]
            if share >= SHARE_AIM:
                good.append(depth)
        out.append(f"| {depth} | " + " | ".join(cells) + " |")
    floors = [{"mean_us": write["mean_us"] + 2 * trip["mean_us"]} for write, trip in zip(disk["w4k_qd1"], loopback)]
    single = own["w4k_qd1"]
    return out + ["", f"Of the first limit Loligo reaches {SHARE_AIM}, the aim, {named(reached[0], depths)}; of the second, stricter one "
                  f"it reaches that {named(reached[1], depths)}.",
                  "", f"A round trip over loopback takes {with_spread(loopback, 'mean_us')} µs when both ends sleep. Two of them and the "
                  f"disk's own write of 4 KiB take {with_spread(floors, 'mean_us')} µs; a single write of Loligo takes "
                  f"{ratio(single['Loligo'], floors, 'mean_us'):.2f} times as long, one of Ceph "
                  f"{ratio(single['Ceph'], floors, 'mean_us'):.2f} times."]


# What of the floor bounds a row of fio: reads may all come from memory.
FLOOR_OF = {"w4k_qd1": "w4k_qd1", "r4k_qd1": "r4k_memory_qd1", "w4k_qd32": "w4k_qd32", "r4k_qd32": "r4k_memory_qd32"}


def floor_table(result):
    """The floor beside what `loligo bench` measured of both."""
    out = ["| row | floor's IOPS | / Ceph's | floor's CPU µs/IO | / Ceph's | Loligo's / floor's | machine CPU µs/IO | / Ceph's "
           "| floor's p99 µs | p99.9 µs |", "|---" * 10 + "|"]
    for name, rounds in result["floor"].items():
        kind, depth = name.rsplit("_", 1)
        own = result["own"][f"{kind[:3]}_{depth}"]
        ours, theirs = ([{"iops": each["iops"], "cpu_us": each["osd_cpu_us"],
                         "machine_cpu_us": each["machine_cpu_us"]} for each in own[cluster]]
                        for cluster in ("Loligo", "Ceph"))
        cells = [with_spread(rounds, "iops"), f"{ratio(rounds, theirs, 'iops'):.1f}×", with_spread(rounds, "cpu_us", 1),
                 f"{ratio(rounds, theirs, 'cpu_us'):.2f}×", f"{ratio(ours, rounds, 'cpu_us'):.1f}×",
                 with_spread(rounds, "machine_cpu_us", 1), f"{ratio(rounds, theirs, 'machine_cpu_us'):.2f}×",
                 with_spread(rounds, "p99_us"), with_spread(rounds, "p999_us")]
        out.append(f"| {name} | " + " | ".join(cells) + " |")
    return out


# At depth 1 a p99 may not be below that of what is in each request.
TAIL_AIM = 0.2


def tail_table(result):
    """The tails of fio's rows, and those of their parts alone, all in terms of Ceph's."""
    out = ["| row | | aim | Loligo | the floor | librbd alone | these two at once | the disk alone |", "|---" * 8 + "|"]
    for name, floor in FLOOR_WITHIN.items():
        ours, theirs = result["rbd"][name]["Loligo"], result["rbd"][name]["Ceph"]
        parts = (ours, result["floor"][floor], result["client"].get(name), result["joint"].get(name), result["disk"][name])
        for key, title in (("p99_us", "p99"), ("p999_us", "p99.9")):
            cells = [f"{ratio(part, theirs, key):.2f}×" if part else "–" for part in parts]
            out.append(f"| {name} | {title} | {TAIL_AIM}× | " + " | ".join(cells) + " |")
    return out


def client_table(rows):
    keys = [("iops", "IOPS"), ("p50_us", "p50 µs"), ("mean_us", "mean µs"), ("p99_us", "p99 µs"), ("p999_us", "p99.9 µs")]
    out = ["| row | " + " | ".join(title for _, title in keys) + " |", "|---" * (1 + len(keys)) + "|"]
    for name, rounds in rows.items():
        out.append(f"| {name} | " + " | ".join(with_spread(rounds, key) for key, _ in keys) + " |")
    return out


def joint_table(rows, rbd):
    keys = [("iops", "both IOPS"), ("at_floor", "of them with the floor")]
    keys += [(f"{part}_{key}_us", f"{name} {title} µs") for part, name in (("client", "librbd"), ("floor", "the floor"))
             for key, title in (("p50", "p50"), ("p99", "p99"), ("p999", "p99.9"))]
    out = ["| row | " + " | ".join(title for _, title in keys) + " | the floor's CPU µs/IO | / Ceph's | Loligo / Ceph |",
           "|---" * (4 + len(keys)) + "|"]
    for name, rounds in rows.items():
        ours, theirs, cells = rbd[name]["Loligo"], rbd[name]["Ceph"], [with_spread(rounds, key) for key, _ in keys]
        # Older raw results do not have it.
        floor = [{"cpu_us": each["floor_cpu_us"]} for each in rounds if "floor_cpu_us" in each]
        cells += [with_spread(floor, "cpu_us", 1), f"{ratio(floor, theirs, 'cpu_us'):.2f}×"] if floor else ["–", "–"]
        cells += [f"{ratio(ours, theirs, 'cpu_us'):.2f}×"]
        out.append(f"| {name} | " + " | ".join(cells) + " |")
    return out


def ceiling(name, disk, floor, joint, client_cpu_us, own_cpu_us, cpus):
    """IOPS or MiB/s at most on this machine with OSDs that took no more time than the floor; and why."""
    limits = []
    if name in joint:
        limits.append((joint[name]["iops"], "librbd and the floor at once"))
    if name in disk and name.startswith("w") and name != "w4k_qd1":
        _, limit = disk_limits(disk, floor, name)
        limits.append((limit, "the disk, which writes all three times"))
    if name in FLOOR_OF:
        least = floor[FLOOR_OF[name]]
        if name.endswith("qd1"):
            # Nothing overlaps: what stock clients take beyond ours, which is like the floor's, comes on top of its latency.
            alone_us = 1e6 / least["iops"] + client_cpu_us - own_cpu_us
            limits.append((1e6 / alone_us, "the floor and the time of fio and librbd, one after the other"))
        limits.append((least["iops"], "the floor"))
        # What kernel threads do for the floor takes these CPUs, too.
        limits.append((cpus * 1e6 / (client_cpu_us + least["machine_cpu_us"]), "the time of fio, librbd and the floor on all CPUs"))
    return min(limits, default=(None, None))


def ceiling_table(result):
    """The aims, and what no OSD could surpass."""
    out = ["| row | aim | Loligo / Ceph | at most | by |", "|---|---|---|---|---|"]
    cpus = result["about"]["cpus"]
    for name, pair in result["rbd"].items():
        key, ours, theirs = speed_key(name), pair["Loligo"], pair["Ceph"]
        limits = []
        for number, each in enumerate(ours):
            disk, floor, joint = (of_round(result[part], number) for part in ("disk", "floor", "joint"))
            own_cpu_us = result["own"][name]["Loligo"][number]["own_cpu_us"] if name in result["own"] else 0
            limits.append(ceiling(name, disk, floor, joint, each["client_cpu_us"], own_cpu_us, cpus))
        known = "– |"
        if limits[0][1]:
            most = ratio([{key: value} for value, _ in limits], theirs, key)
            known = f"{most:.1f}× | {statistics.mode(reason for _, reason in limits)}"
        out.append(f"| {name} | {AIMS[name]}× | {ratio(ours, theirs, key):.2f}× | {known} |")
    return out


def raw(result):
    """The raw results as JSON: a line for each row, so that a change of one is seen as such."""
    def part(rows):
        if not isinstance(rows, dict):
            return json.dumps(rows)
        return "{\n" + ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items()) + "\n }"
    return "{\n" + ",\n".join(f" {json.dumps(name)}: {part(rows)}" for name, rows in result.items()) + "\n}\n"


def render(result):
    about = result["about"]
    out = [
        OPEN, "",
        f"Measured {about['date']}, commit {about['commit']}: {about['rounds']} rounds, {about['seconds']} s a row.",
        f"{about['loligo']} against {about['ceph']}, fio {about['fio']}.",
        f"Machine: {about['cpus']} CPUs ({about['cpu']}), {about['memory_gib']:.0f} GiB, Linux {about['kernel']}, {about['disk']}.",
        "Everything shares these CPUs: six OSDs, two monitors and the client. While no row runs,",
        f"{with_spread(result['idle'], 'busy_cpus', 2)} CPUs are busy, which *machine CPU* does not count.", "",
        "Values are the median of the rounds, with the least and the largest.", "",
        "### Loligo / Ceph", "",
        "Medians of the ratios of each round. More is better in the first column, less in the others.", "",
        *rbd_ratio_table(result["rbd"]), "",
        "### fio through librbd", "", *value_table(result["rbd"]), "",
    ]
    if result["own"]:
        out += ["### `loligo bench`, the same client for both", "",
                "Without librbd's own time: 4 KiB at random over 32 objects of 4 MiB.", "",
                "Loligo / Ceph, medians of the ratios of each round:", "",
                *own_ratio_table(result["own"]), "",
                *own_table(result["own"]), "",
                "### The limits of the machine", "",
                "Writes of 4 KiB with `loligo bench`, beside what the disk would do if it did each three times and nothing else cost",
                "anything. Two limits: the disk's own durable writes at the same depth, divided by three, by which the aim is defined; and",
                "the larger of the same at three times the depth, as the cluster may have as many writes of each copy under way, and of the",
                "floor's writes to a journal alone (measured at depths 1, 32 and 256), which go to the disk many at once.",
                "", *limits_table(result), "",
                "fio's rows: what is aimed at, what is reached, and what disk, floor and the client's own CPU time would allow on this machine.",
                "The client's time is what it takes beside Loligo, fio's start included. Nothing is taken to overlap at depth 1, so that the ceilings",
                "there are a little too low.", "",
                *ceiling_table(result), "",
                "The tails of fio's rows in terms of Ceph's, and those of what is in each request, measured alone: the floor (`in_place` and",
                "from the disk), librbd's own time (its answers to reads that its image's object map spares it), the disk. At depth 1 these come",
                "one after the other, and a sum's percentiles are not below those of its parts. At depth 32 the floor does more at once than Loligo;",
                "so librbd and the floor (reads from the disk, or writes in place) also run at once, with the 32 requests shared between them so",
                "that both do as many a second, as they would if each request were with the one and then with the other: a request's p99 is then",
                "not below either's. librbd answers reads alone here: it answers no write by itself, which takes it longer.",
                "", *tail_table(result), "",
                "Threads that only look at the clock, one on each CPU and nothing else, were not run for half a millisecond or longer",
                f"{with_spread(result['pauses'], 'per_sec', 1)} times a second: half of these times for "
                f"{with_spread(result['pauses'], 'p50_us')} µs or longer, at most for {with_spread(result['pauses'], 'most_us')} µs.",
                "A hypervisor runs something else then. At depth 1 each pause of a CPU in use meets a request.", "",
                "librbd alone:", "", *client_table(result["client"]), "",
                "librbd and the floor at once:", "", *joint_table(result["joint"], result["rbd"]), "",
                "### The floor", "",
                "Three servers on Loligo's reactor that do nothing but what every replicated store has to do here: receive a block,",
                "pass it on to two others, append it to a journal with one durable write at a time, and answer; or read it and answer",
                "(`crates/reactor/examples/floor`, a client of its own for each row, all three as primaries). They know no objects, no",
                "transactions and no checksums. `in_place`: blocks are written to their places, too, as Loligo does. `memory`: reads",
                "of a block that is in memory. Beside `loligo bench` of the same depth.", "",
                *floor_table(result), ""]
    out += ["### The disk alone", "",
            "fio with libaio on a file beside the OSDs', every write durable (`--sync=dsync`), reads with O_DIRECT. A cluster writes",
            "each byte three times to this one disk.", "", *disk_table(result["disk"]), "", CLOSE]
    return "\n".join(out)


def replace_in(path, text):
    """Puts the tables in their place in the document; what people wrote around them stays."""
    with open(path) as file:
        old = file.read()
    before, rest = old.split(OPEN, 1)
    after = rest.split(CLOSE, 1)[1]
    with open(path, "w") as file:
        file.write(before + text + after)
