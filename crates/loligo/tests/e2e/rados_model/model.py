"""Random ops of every kind on a few hundred objects, compared with a model in memory.

In the manner of ceph_test_rados: one writer over librados, self-managed snapshots, deletions, rollbacks,
copies, and reads of heads and snapshots in between. The daemons may be killed meanwhile: an op that was
answered has happened, whatever happens to them. Usage: model.py POOL SEED SECONDS. It prints the seed, what it
did, and fails at the first difference.
"""

import os
import random
import sys
import time

import rados

NAMES = 200
BYTES_MAX = 1 << 18
SNAPS_MAX = 12
ENOENT = 2


class State:
    """What one object is: data, xattrs, omap. None in its place is no object."""

    def __init__(self):
        self.data, self.xattrs, self.omap, self.header = bytearray(), {}, {}, b""

    def copy(self):
        new = State()
        new.data, new.header = bytearray(self.data), self.header
        new.xattrs, new.omap = dict(self.xattrs), dict(self.omap)
        return new


def grow(data, size):
    if size > len(data):
        data.extend(bytes(size - len(data)))


class Test:
    def __init__(self, pool, seed):
        self.random = random.Random(seed)
        self.cluster = rados.Rados(conffile=os.environ["CEPH_CONF"])
        self.cluster.connect()
        self.io = self.cluster.open_ioctx(pool)
        self.heads = {}
        # Snapshot id to what every object was then.
        self.snaps = {}
        self.counts = {}
        # What was done to each object, for the report of a difference.
        self.history = {}

    def name(self):
        number = self.random.randrange(NAMES)
        # Some names are long, some are not text.
        return f"object {number} " + "long " * (100 if number % 17 == 0 else 0) + ("\u00e4/%\\" if number % 5 == 0 else "")

    def note(self, name, what):
        self.history.setdefault(name, []).append(what)

    def bytes(self, limit=BYTES_MAX):
        size = self.random.choice([0, 1, 511, 4096, self.random.randrange(limit)])
        return self.random.randbytes(size)

    # Changes. Each stages ops on `op` and applies the same to `state`, which exists.

    def write(self, op, state):
        data, offset = self.bytes() or b"x", self.random.randrange(BYTES_MAX)
        op.write(data, offset)
        grow(state.data, offset + len(data))
        state.data[offset:offset + len(data)] = data

    def write_full(self, op, state):
        data = self.bytes()
        op.write_full(data)
        state.data[:] = data

    def append(self, op, state):
        data = self.bytes(4096)
        op.append(data)
        state.data.extend(data)

    def write_same(self, op, state):
        unit, times = self.random.randbytes(512), self.random.randrange(1, 20)
        offset = self.random.randrange(BYTES_MAX)
        op.writesame(unit, len(unit) * times, offset)
        grow(state.data, offset + len(unit) * times)
        state.data[offset:offset + len(unit) * times] = unit * times

    def truncate(self, op, state):
        size = self.random.randrange(BYTES_MAX)
        op.truncate(size)
        del state.data[size:]
        grow(state.data, size)

    def zero(self, op, state):
        offset, length = self.random.randrange(BYTES_MAX), self.random.randrange(1, BYTES_MAX)
        # The binding of 16.2 has its arguments in this order, whatever it calls them.
        op.zero(length, offset)
        if offset + length >= len(state.data):
            del state.data[offset:]
        else:
            state.data[offset:offset + length] = bytes(length)

    def set_xattr(self, op, state):
        name, value = f"x{self.random.randrange(5)}", self.bytes(2000)
        op.set_xattr(name, value)
        state.xattrs[name] = value

    def remove_xattr(self, op, state):
        name = f"x{self.random.randrange(5)}"
        if name in state.xattrs:
            op.rm_xattr(name)
            del state.xattrs[name]

    def set_omap(self, op, state):
        pairs = {f"k{self.random.randrange(40):03}": self.bytes(500) for _ in range(self.random.randrange(1, 9))}
        self.io.set_omap(op, tuple(pairs), tuple(pairs.values()))
        state.omap.update(pairs)

    def remove_omap(self, op, state):
        keys = tuple({f"k{self.random.randrange(40):03}" for _ in range(4)})
        self.io.remove_omap_keys(op, keys)
        for key in keys:
            state.omap.pop(key, None)

    def remove_omap_range(self, op, state):
        first, last = sorted(f"k{self.random.randrange(40):03}" for _ in range(2))
        self.io.remove_omap_range2(op, first, last)
        state.omap = {k: v for k, v in state.omap.items() if not first <= k < last}

    def clear_omap(self, op, state):
        self.io.clear_omap(op)
        state.omap, state.header = {}, b""

    CHANGES = [write, write, write_full, append, write_same, truncate, zero, set_xattr, remove_xattr, set_omap,
               remove_omap, remove_omap_range, clear_omap]

    # Steps.

    def step_change(self):
        """One to three changes at once, of one object that the first of them may make."""
        name = self.name()
        old = self.heads.get(name)
        with rados.WriteOpCtx() as op:
            state = State() if old is None else old.copy()
            op.new(rados.LIBRADOS_CREATE_IDEMPOTENT)
            # What a change reads of the object is what was stored before the op: ranges are never cut twice.
            for change in self.random.sample(self.CHANGES, self.random.randrange(1, 4)):
                change(self, op, state)
                self.note(name, (change.__name__, len(state.data), sorted(state.omap)))
            self.io.operate_write_op(op, name)
        self.heads[name] = state

    def step_create(self):
        name = self.name()
        with rados.WriteOpCtx() as op:
            op.new(rados.LIBRADOS_CREATE_EXCLUSIVE)
            try:
                self.io.operate_write_op(op, name)
                was_there = False
            except rados.ObjectExists:
                was_there = True
        # Sent again after a failure it finds its own object: then it is there and empty.
        if was_there:
            assert name in self.heads or self.io.stat(name)[0] == 0, name
        self.heads.setdefault(name, State())
        self.note(name, "create")

    def step_remove(self):
        name = self.name()
        try:
            self.io.remove_object(name)
        except rados.ObjectNotFound:
            assert name not in self.heads or self.is_gone(name), f"{name} is there"
        self.heads.pop(name, None)
        self.note(name, "remove")

    def is_gone(self, name):
        """A removal that was sent again may find nothing left."""
        try:
            self.io.stat(name)
        except rados.ObjectNotFound:
            return True
        return False

    def step_snap(self):
        if len(self.snaps) >= SNAPS_MAX:
            return self.step_remove_snap()
        snap = self.io.create_self_managed_snap()
        self.snaps[snap] = {name: state.copy() for name, state in self.heads.items()}
        self.set_context()

    def step_remove_snap(self):
        if self.snaps:
            snap = self.random.choice(sorted(self.snaps))
            self.io.remove_self_managed_snap(snap)
            del self.snaps[snap]
            self.set_context()

    def set_context(self):
        self.io.set_self_managed_snap_write(sorted(self.snaps, reverse=True) or [])

    def step_rollback(self):
        if self.snaps:
            snap, name = self.random.choice(sorted(self.snaps)), self.name()
            try:
                self.io.rollback_self_managed_snap(name, snap)
            except rados.ObjectNotFound:
                assert name not in self.heads and name not in self.snaps[snap], name
            self.note(name, f"roll back to {snap} of {sorted(self.snaps)}")
            then = self.snaps[snap].get(name)
            self.heads.pop(name, None)
            if then is not None:
                self.heads[name] = then.copy()

    def step_read(self):
        self.check(self.name(), self.heads, "head")

    def step_read_snap(self):
        if self.snaps:
            snap, name = self.random.choice(sorted(self.snaps)), self.name()
            self.io.set_read(snap)
            try:
                self.check(name, self.snaps[snap], f"snapshot {snap}")
            finally:
                self.io.set_read(rados.LIBRADOS_SNAP_HEAD)

    def step_list(self):
        """Every object is listed once; what else is listed is in some snapshot."""
        listed = [o.key for o in self.io.list_objects()]
        assert len(listed) == len(set(listed)), "listed twice"
        missing = set(self.heads) - set(listed)
        assert not missing, f"not listed: {missing}"

    STEPS = [(step_change, 40), (step_create, 3), (step_remove, 8), (step_snap, 3), (step_remove_snap, 1),
             (step_rollback, 4), (step_read, 25), (step_read_snap, 15), (step_list, 1)]

    # Comparisons.

    def fetch(self, name):
        try:
            size, _ = self.io.stat(name)
        except rados.ObjectNotFound:
            return None
        state = State()
        state.data = bytearray(self.io.read(name, BYTES_MAX * 3))
        assert len(state.data) == size, f"{name}: {len(state.data)} bytes read, {size} said"
        state.xattrs = {key: value or b"" for key, value in self.io.get_xattrs(name)}
        with rados.ReadOpCtx() as op:
            pairs, _ = self.io.get_omap_vals(op, "", "", 1000)
            self.io.operate_read_op(op, name)
            # The binding has None for an empty value.
            state.omap = {key: value or b"" for key, value in pairs}
        return state

    def check(self, name, states, where):
        try:
            self.compare(name, states, where)
        except AssertionError:
            print(*self.history.get(name, [])[-20:], sep="\n")
            raise

    def compare(self, name, states, where):
        found, wanted = self.fetch(name), states.get(name)
        assert (found is None) == (wanted is None), f"{name} in {where}: is there {found is not None}"
        if found is None:
            return
        if found.data != wanted.data:
            both = zip(found.data, wanted.data)
            at = next((i for i, (a, b) in enumerate(both) if a != b), min(len(found.data), len(wanted.data)))
            raise AssertionError(f"{name} in {where}: {len(found.data)} and {len(wanted.data)} bytes, at {at}")
        assert found.xattrs == wanted.xattrs, f"{name} in {where}: xattrs {sorted(found.xattrs)}"
        assert found.omap == wanted.omap, f"{name} in {where}: omap {sorted(found.omap)}, not {sorted(wanted.omap)}"

    def run(self, seconds):
        steps, weights = zip(*self.STEPS)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            step = self.random.choices(steps, weights)[0]
            step(self)
            self.counts[step.__name__] = self.counts.get(step.__name__, 0) + 1

    def check_all(self):
        for name in sorted(self.heads):
            self.check(name, self.heads, "head")
        for snap, states in sorted(self.snaps.items()):
            self.io.set_read(snap)
            for name in sorted(set(states) | set(self.heads)):
                self.check(name, states, f"snapshot {snap}")
        self.io.set_read(rados.LIBRADOS_SNAP_HEAD)

    def remove_all(self):
        """In the end nothing is left, snapshots' clones included."""
        for snap in list(self.snaps):
            self.io.remove_self_managed_snap(snap)
        self.io.set_self_managed_snap_write([])
        for name in self.heads:
            self.io.remove_object(name)
        end = time.monotonic() + 60
        while left := [o.key for o in self.io.list_objects()]:
            assert time.monotonic() < end, f"never trimmed: {len(left)} objects, {left[0]}"
            time.sleep(0.5)


def main():
    pool, seed, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    test = Test(pool, seed)
    print("seed", seed, flush=True)
    try:
        test.run(seconds)
        test.check_all()
        test.remove_all()
    finally:
        print(test.counts, flush=True)
    test.cluster.shutdown()


main()
