"""What two librbd clients with the same image open see of each other.

Run in a cluster's folder with a pool `rbd`; so it also runs beside a real Ceph.
"""
import subprocess
import time

import rados
import rbd

NAME, MIB = "seen", 1 << 20
# layering, exclusive-lock, object-map, fast-diff, deep-flatten
FEATURES = 61


def connect():
    cluster = rados.Rados(conffile="ceph.conf")
    cluster.connect()
    return cluster, cluster.open_ioctx("rbd")


def until(what, holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def run(*words):
    return subprocess.run(["rbd", "-c", "ceph.conf", *words], check=True, capture_output=True, text=True).stdout


def fails(error, call):
    try:
        call()
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


def snaps(image):
    return [snap["name"] for snap in image.list_snaps()]


def headers(a, b):
    """A change of the header by one is seen by the other without asking."""
    a.resize(16 * MIB)
    until("the other's size", lambda: b.size() == 16 * MIB)
    a.create_snap("s")
    until("the other's snapshot", lambda: snaps(b) == ["s"])
    a.protect_snap("s")
    assert b.is_protected_snap("s")
    b.unprotect_snap("s")
    assert not a.is_protected_snap("s")
    a.metadata_set("k", "v")
    assert b.metadata_get("k") == "v"
    b.metadata_remove("k")
    fails(KeyError, lambda: a.metadata_get("k"))


def ownership(a, b):
    """Who writes owns the lock; what only an owner may do is done by it for the other."""
    b.write(b"b" * 4096, 12 * MIB)
    assert b.is_exclusive_lock_owner() and not a.is_exclusive_lock_owner()
    a.create_snap("t")
    assert b.is_exclusive_lock_owner() and snaps(b) == ["s", "t"]
    a.resize(12 * MIB)
    assert b.is_exclusive_lock_owner() and b.size() == 12 * MIB
    a.write(b"a" * 4096, 0)
    assert a.is_exclusive_lock_owner() and not b.is_exclusive_lock_owner()
    b.rename_snap("t", "u")
    until("the new name", lambda: snaps(a) == ["s", "u"])
    b.remove_snap("u")
    until("the removal", lambda: snaps(a) == ["s"])
    # What the other wrote, and what a snapshot keeps of it.
    assert b.read(0, 4096) == b"a" * 4096
    b.set_snap("s")
    assert b.read(0, 4096) == bytes(4096)
    fails(rbd.ReadOnlyImage, lambda: b.write(b"x", 0))
    b.set_snap(None)


def names(io, a, b):
    """An image that is open is renamed, and not removed."""
    rbd.RBD().rename(io, NAME, "renamed")
    a.write(b"a" * 4096, 4096)
    with rbd.Image(io, "renamed", read_only=True) as image:
        assert image.read(4096, 4096) == b"a" * 4096
    fails((rbd.ImageBusy, rbd.ImageHasSnapshots), lambda: rbd.RBD().remove(io, "renamed"))
    a.remove_snap("s")
    fails(rbd.ImageBusy, lambda: rbd.RBD().remove(io, "renamed"))
    rbd.RBD().rename(io, "renamed", NAME)


def shared_lock(a, b, c):
    """A lock of the old kind, that several share, keeps out those with another tag and those who want it alone."""
    a.lock_shared("cookie", "tag")
    b.lock_shared("cookie", "tag")
    fails(rbd.ImageBusy, lambda: c.lock_shared("cookie", "other"))
    fails(rbd.ImageBusy, lambda: c.lock_exclusive("cookie"))
    fails(rbd.ImageExists, lambda: a.lock_shared("cookie", "tag"))
    held = c.list_lockers()
    assert (held["tag"], held["exclusive"], len(held["lockers"])) == ("tag", False, 2), held
    a.unlock("cookie")
    assert len(c.list_lockers()["lockers"]) == 1
    fails(rbd.ImageNotFound, lambda: a.unlock("cookie"))
    b.unlock("cookie")
    assert not c.list_lockers()


def object_maps(io):
    """A map of objects that is gone or wrong is told so, and made anew."""
    with rbd.Image(io, NAME) as image:
        image.write(b"x" * 4096, 4 * MIB)
        object_map = f"rbd_object_map.{image.id()}"
    run("object-map", "check", NAME)
    io.remove_object(object_map)
    with rbd.Image(io, NAME) as image:
        image.write(b"y" * 4096, 8 * MIB)
        until("the flag", lambda: image.flags() & rbd.RBD_FLAG_OBJECT_MAP_INVALID)
        assert image.read(4 * MIB, 4096) == b"x" * 4096
    assert "object map invalid" in run("info", NAME)
    run("object-map", "rebuild", NAME)
    assert "invalid" not in run("info", NAME)
    # An object that appears behind librbd's back.
    with rbd.Image(io, NAME) as image:
        prefix = image.block_name_prefix()
    io.write(f"{prefix}.{1:016x}", b"z")
    io.write(f"{prefix}.{0:016x}", b"z")
    run("object-map", "check", NAME)


(first, io_a), (second, io_b), (third, io_c) = connect(), connect(), connect()
rbd.RBD().create(io_a, NAME, 8 * MIB, order=22, old_format=False, features=FEATURES)
with rbd.Image(io_a, NAME) as a, rbd.Image(io_b, NAME) as b, rbd.Image(io_c, NAME) as c:
    headers(a, b)
    ownership(a, b)
    names(io_c, a, b)
    shared_lock(a, b, c)
object_maps(io_a)
rbd.RBD().remove(io_a, NAME)
for cluster in (first, second, third):
    cluster.shutdown()
print("ok")
