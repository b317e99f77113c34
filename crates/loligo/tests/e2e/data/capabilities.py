"""Tries each operation with each capability, and prints what is refused: a line for each capability and error.

Usage: capabilities.py CEPH_CONF. The cluster is to be new, with an OSD 0. capabilities.txt is what 16.2.15 answers.
"""
import collections
import errno
import json
import sys

import rados

CAPS = [
    "allow *", "allow r", "allow w", "allow rw", "allow x", "allow rwx", "allow class-read",
    "allow class-write", "allow r class-read", "allow rw class-read", "allow w class-write", "allow rw pool=one",
    "allow rwx pool=two", "allow rw namespace=n", "allow rw namespace=n*", 'allow rw namespace=""',
    "allow rw pool=one namespace=nn", "allow rwx object_prefix a", "allow rwx pool=one object_prefix a",
    "allow rwx tag cephfs data=x", "allow rwx tag cephfs data=*", "allow rwx tag cephfs *=x",
    "allow rwx tag cephfs data=y", "allow rwx tag rbd *=*", "allow rw namespace=n tag cephfs data=x",
    "allow r, allow w", "allow class lock", "allow class lock get_info", "allow rw, allow class lock",
    "allow r, allow class lock get_info", "profile rbd", "profile rbd pool=one", "profile rbd pool=one namespace=n",
    "profile rbd-read-only", "profile rbd-read-only pool=one", "profile read-only", "profile read-write",
    "profile nobody", "allow rw network 127.0.0.0/8", "allow rw network 10.0.0.0/8", "allow rwx network 127.0.0.1/32",
]
MON_CAPS = [
    "allow *", "allow r", "allow rw", "allow rx", "allow w", "allow x", "allow service osd rw", "allow service osd r",
    "allow service auth rx", "profile osd", "profile mon", "profile mgr", "profile mds", "profile bootstrap-osd",
    "profile bootstrap-mds", "profile bootstrap-mgr", "profile bootstrap-rbd", "profile bootstrap-rbd-mirror",
    "profile bootstrap-rgw", "profile rbd", "profile rbd-read-only", "profile rbd-mirror", "profile rbd-mirror-peer",
    "profile simple-rados-client", "profile simple-rados-client-with-blocklist", "profile fs-client", "profile crash",
    "profile role-definer", "profile read-only", "profile read-write", "profile nobody",
    'allow r, allow command "config-key set" with key=a', 'allow r, allow command "config-key set" with key prefix a',
    'allow r, allow command "config-key set" with key regex "a+"',
    'allow r, allow command "config-key set" with key=a val=1', 'allow r, allow command "config-key set"',
    "allow r network 127.0.0.0/8", "allow r network 10.0.0.0/8", "allow * network 10.0.0.0/8, allow r",
]
COMMANDS = [
    dict(prefix="status"), dict(prefix="df"), dict(prefix="mon dump"), dict(prefix="mon getmap"),
    dict(prefix="osd dump"), dict(prefix="osd getmap"), dict(prefix="osd pool ls"), dict(prefix="log", logtext=["x"]),
    dict(prefix="config dump"), dict(prefix="config get", who="osd.0"),
    dict(prefix="config set", who="client.zz", name="debug_ms", value="0"),
    dict(prefix="config-key ls"), dict(prefix="config-key set", key="a", val="1"),
    dict(prefix="config-key set", key="aa", val="1"), dict(prefix="config-key set", key="b", val="1"),
    dict(prefix="config-key get", key="a"), dict(prefix="config-key set", key="daemon-private/client.t/x", val="1"),
    dict(prefix="config-key set", key="rbd/mirror/site_name", val="s"),
    dict(prefix="config-key set", key="rbd/mirror/peer/1/k", val="s"),
    dict(prefix="config-key get", key="rbd/mirror/site_name"), dict(prefix="config-key get", key="rbd/mirror/peer/1/k"),
    dict(prefix="auth ls"), dict(prefix="auth get", entity="client.admin"),
    dict(prefix="auth get-or-create", entity="mgr.n", caps=["mon", "allow profile mgr"]),
    dict(prefix="auth get-or-create", entity="client.n", caps=["mon", "allow r"]),
    dict(prefix="auth get-or-create", entity="client.rgw.n", caps=["mon", "allow rw", "osd", "allow rwx"]),
    dict(prefix="auth rm", entity="client.nobody"),
    dict(prefix="osd blocklist", blocklistop="add", addr="10.9.9.9:0/7"),
    dict(prefix="osd blocklist", blocklistop="add", addr="10.9.9.8"),
    dict(prefix="osd blocklist", blocklistop="rm", addr="10.9.9.9:0/7"),
    dict(prefix="osd set", key="noout"), dict(prefix="osd new", uuid="not"), dict(prefix="osd crush rule ls"),
    dict(prefix="osd pool set", pool="one", var="nodelete", val="0"),
    dict(prefix="osd pool mksnap", pool="none", snap="s"), dict(prefix="osd pool rmsnap", pool="none", snap="s"),
    dict(prefix="osd pool application enable", pool="one", app="cephfs"),
    dict(prefix="mgr dump"), dict(prefix="fs ls"), dict(prefix="fs dump"), dict(prefix="pg dump"),
    dict(prefix="pg stat"), dict(prefix="health"), dict(prefix="osd unset", key="noout"), dict(prefix="fsid"),
    dict(prefix="versions"), dict(prefix="quorum_status"), dict(prefix="time-sync-status"),
]
conf = sys.argv[1]
admin = rados.Rados(conffile=conf, name="client.admin")
admin.connect()


def command(cluster, **what):
    # A daemon's own retries are no part of the answer.
    ret, out, _ = cluster.mon_command(json.dumps(dict(what, format="json")), b"", timeout=20)
    return ret, out


def name(ret):
    return "ok" if ret >= 0 else errno.errorcode.get(-ret, str(ret))


def tried(call):
    try:
        call()
        return "ok"
    except rados.Error as e:
        return name(-(e.errno or 0)) if e.errno else type(e).__name__


def client(mon, osd, mgr=None):
    caps = ["mon", mon] + (["osd", osd] if osd else []) + (["mgr", mgr] if mgr else [])
    command(admin, prefix="auth rm", entity="client.t")
    ret, out = command(admin, prefix="auth get-or-create", entity="client.t", caps=caps)
    if ret:
        return name(ret)
    c = rados.Rados(conffile=conf, name="client.t", conf=dict(key=json.loads(out)[0]["key"], keyring="/dev/null",
                    client_mount_timeout="15", rados_osd_op_timeout="15", rados_mon_op_timeout="15"))
    try:
        c.connect(timeout=15)
    except rados.Error as e:
        return "connect " + type(e).__name__
    return c


def write_op(io, fill, o="a"):
    with rados.WriteOpCtx() as op:
        fill(op)
        io.operate_write_op(op, o)


def read_omap(io):
    with rados.ReadOpCtx() as op:
        it, _ = io.get_omap_vals(op, "", "", 5)
        io.operate_read_op(op, "a")


def watch(io):
    io.watch("a", lambda *a: None).close()


def at(io, namespace="", o="a"):
    io.set_namespace(namespace)
    return io


OPS = {
    "read": lambda i: at(i).read("a"), "stat": lambda i: at(i).stat("a"), "write": lambda i: at(i).write("a", b"x"),
    "write b": lambda i: at(i).write("b", b"x"), "read b": lambda i: at(i).read("b"),
    "write n": lambda i: at(i, "n").write("a", b"x"), "write nn": lambda i: at(i, "nn").write("a", b"x"),
    "read n": lambda i: at(i, "n").read("a"), "append": lambda i: at(i).append("a", b"x"),
    "getxattr": lambda i: at(i).get_xattr("a", "k"), "setxattr": lambda i: at(i).set_xattr("a", "k", b"v"),
    "omap get": lambda i: read_omap(at(i)),
    "omap set": lambda i: write_op(at(i), lambda op: i.set_omap(op, ("k",), (b"v",))),
    "list": lambda i: next(at(i).list_objects(), None), "list n": lambda i: next(at(i, "n").list_objects(), None),
    "list all": lambda i: next(at(i, rados.LIBRADOS_ALL_NSPACES).list_objects(), None),
    "watch": lambda i: watch(at(i)), "notify": lambda i: at(i).notify("a", "m", 500),
    "lock": lambda i: (at(i).lock_exclusive("a", "l", "c"), i.unlock("a", "l", "c")),
    "class read": lambda i: at(i).execute("a", "lock", "get_info", b"\1\1\5\0\0\0\1\0\0\0l"),
    "class rbd": lambda i: at(i).execute("rbd_children", "rbd", "get_features", b""),
    "class info": lambda i: at(i).execute("rbd_info", "rbd", "metadata_list", b"\0" * 12),
    "read info": lambda i: at(i).read("rbd_info"), "write info": lambda i: at(i).write("rbd_info", b"x"),
    "snap": lambda i: i.remove_self_managed_snap(i.create_self_managed_snap()),
    "pool stat": lambda i: i.get_stats(), "remove": lambda i: at(i).remove_object("c"),
}


def tell(daemon, caps, results):
    """Prints which operations met with which error."""
    by_error = collections.defaultdict(list)
    for what, error in results:
        by_error[error].append(what)
    for error in sorted(by_error.keys() - {"ok"}) or ["nothing"]:
        print(f"{daemon}: {caps}: {error}: {'; '.join(by_error[error])}", flush=True)


def prepare():
    for pool in ("one", "two"):
        command(admin, prefix="osd pool create", pool=pool, pg_num=4, size=1, yes_i_really_mean_it=True)
    command(admin, prefix="osd pool application enable", pool="one", app="cephfs")
    command(admin, prefix="osd pool application set", pool="one", app="cephfs", key="data", value="x")
    command(admin, prefix="osd pool application enable", pool="two", app="rbd")
    for pool in ("one", "two"):
        io = admin.open_ioctx(pool)
        for namespace in ("", "n", "nn"):
            io.set_namespace(namespace)
            for o in ("a", "b", "rbd_info", "rbd_children"):
                io.write_full(o, b"x")
                io.set_xattr(o, "k", b"v")
    command(admin, prefix="config-key set", key="rbd/mirror/peer/1/k", val="s")
    command(admin, prefix="config-key set", key="rbd/mirror/site_name", val="s")
    command(admin, prefix="config-key set", key="a", val="s")


def osd_results(caps):
    c = client("allow r", caps)
    if isinstance(c, str):
        return [("connect", c)]
    results = []
    for pool in ("one", "two"):
        io = c.open_ioctx(pool)
        # Of snapshots, Ceph's monitor does not look at the network.
        ops = {op: call for op, call in OPS.items() if op != "snap" or "network 10" not in caps}
        results += [(f"{pool} {op}", tried(lambda: call(io))) for op, call in ops.items()]
    ret, _, _ = c.osd_command(0, json.dumps({"prefix": "version"}), b"", timeout=20)
    c.shutdown()
    return results + [("tell", name(ret))]


def mon_results(caps):
    c = client(caps, None)
    if isinstance(c, str):
        return [("connect", c)]
    results = [(" ".join(map(str, what.values())), name(command(c, **what)[0])) for what in COMMANDS]
    c.shutdown()
    return results


prepare()
for caps in CAPS:
    tell("osd", caps, osd_results(caps))
for caps in MON_CAPS:
    tell("mon", caps, mon_results(caps))
admin.shutdown()
