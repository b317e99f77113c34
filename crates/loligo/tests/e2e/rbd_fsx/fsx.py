"""Random changes of an RBD image, and of the same bytes in memory, compared all the time (as fsx does with files).

fsx.py POOL SEED SECONDS. The image is written, discarded, zeroed, resized, snapshotted, rolled back, cloned
(and then the clone is what is changed), flattened and deeply copied. Every parent and every snapshot must keep
what it had. Prints the step at which something differs, and ends with 1.
"""

import contextlib
import random
import subprocess
import sys
import time

import rados
import rbd

MIB = 1 << 20
SIZE_MAX = 12 * MIB
IO_MAX = 256 << 10
SNAPS_MAX = 4
CHAIN_MAX = 5
BLOCK = 512
# An image that was opened a moment ago is not closed yet: librbd (ImageState::complete_action_unlock, 16.2) takes
# a lock of the image once more after it has told that the image is open, and closing frees it.
OPEN_SECONDS_MIN = 0.03


@contextlib.contextmanager
def opened(ioctx, name, **how):
    image = rbd.Image(ioctx, name, **how)
    try:
        yield image
    finally:
        close(image)


def close(image):
    time.sleep(OPEN_SECONDS_MIN)
    image.close()


class Fsx:
    def __init__(self, ioctx, pool, seed):
        self.ioctx, self.pool, self.rng = ioctx, pool, random.Random(seed)
        self.features = self.rng.choice([1, 61, 61, 125])
        self.striping = self.rng.choice([(0, 0), (0, 0), (64 << 10, 4)])
        self.order = self.rng.choice([18, 20, 22])
        self.step, self.made, self.parents = 0, 0, []
        self.name, self.data, self.snaps = self.new_name(), bytearray(SIZE_MAX // 2), {}
        unit, count = self.striping
        rbd.RBD().create(ioctx, self.name, len(self.data), self.order, old_format=False,
                         features=self.all_features(), stripe_unit=unit, stripe_count=count)
        self.image = rbd.Image(ioctx, self.name)

    def all_features(self):
        return self.features | (rbd.RBD_FEATURE_STRIPINGV2 if self.striping[0] else 0)

    def new_name(self):
        self.made += 1
        return f"fsx{self.made}"

    def extent(self, align=1):
        """An extent of the image that is not empty, or None."""
        if len(self.data) < align:
            return None
        length = self.rng.choice([BLOCK, 4096, self.rng.randrange(1, IO_MAX)])
        offset = self.rng.randrange(0, len(self.data)) // align * align
        length = min(-(-length // align) * align, (len(self.data) - offset) // align * align)
        return (offset, length) if length else None

    # What can happen to an image.

    def write(self):
        extent = self.extent()
        if extent:
            offset, length = extent
            # Mostly zeros now and then: sparse writes must read back, too.
            fill = bytes([self.rng.randrange(256)]) * length if self.rng.random() < 0.3 else self.rng.randbytes(length)
            self.image.write(fill, offset)
            self.data[offset:offset + length] = fill

    def discard(self):
        extent = self.extent(BLOCK)
        if extent:
            offset, length = extent
            self.image.discard(offset, length)
            self.check_discarded(offset, length)

    def check_discarded(self, offset, length):
        """A discard may leave what is smaller than rbd_discard_granularity_bytes: zeros, or as it was."""
        now = self.image.read(offset, length)
        for at in range(0, length, BLOCK):
            block, old = now[at:at + BLOCK], self.data[offset + at:offset + at + BLOCK]
            if block != old and any(block):
                self.fail(f"discard {offset}~{length}: neither zeros nor the old bytes at {offset + at}")
        self.data[offset:offset + length] = now

    def write_zeroes(self):
        extent = self.extent()
        if extent:
            offset, length = extent
            self.image.write_zeroes(offset, length)
            self.data[offset:offset + length] = bytes(length)

    def read(self):
        extent = self.extent()
        if extent:
            offset, length = extent
            if self.image.read(offset, length) != self.data[offset:offset + length]:
                self.fail(f"read {offset}~{length}")

    def resize(self):
        size = self.rng.randrange(0, SIZE_MAX)
        self.image.resize(size)
        self.data = self.data[:size] + bytes(max(0, size - len(self.data)))

    def snapshot(self):
        if len(self.snaps) < SNAPS_MAX:
            name = f"s{self.step}"
            self.image.create_snap(name)
            self.snaps[name] = bytes(self.data)

    def rollback(self):
        if self.snaps:
            name = self.rng.choice(sorted(self.snaps))
            self.image.rollback_to_snap(name)
            self.data = bytearray(self.snaps[name])

    def remove_snapshot(self):
        if self.snaps:
            name = self.rng.choice(sorted(self.snaps))
            self.image.remove_snap(name)
            del self.snaps[name]

    def clone(self):
        if len(self.parents) >= CHAIN_MAX:
            return
        snap, child = f"c{self.step}", self.new_name()
        self.image.create_snap(snap)
        self.snaps[snap] = bytes(self.data)
        unit, count = self.striping
        rbd.RBD().clone(self.ioctx, self.name, snap, self.ioctx, child, features=self.all_features(),
                        order=self.order, stripe_unit=unit, stripe_count=count)
        close(self.image)
        self.parents.append((self.name, self.snaps))
        self.name, self.snaps = child, {}
        self.image = rbd.Image(self.ioctx, child)

    def flatten(self):
        try:
            self.image.parent_info()
        except rbd.ImageNotFound:
            return
        self.image.flatten()

    def reopen(self):
        close(self.image)
        self.image = rbd.Image(self.ioctx, self.name)

    def diff(self):
        """Every byte that differs from a snapshot lies in what the diff names."""
        if not self.snaps:
            return
        name = self.rng.choice(sorted(self.snaps))
        old, named = self.snaps[name], []
        self.image.diff_iterate(0, len(self.data), name, lambda *extent: named.append(extent),
                                whole_object=self.rng.random() < 0.3)
        old = old[:len(self.data)] + bytes(max(0, len(self.data) - len(old)))
        unnamed, end = [], 0
        for offset, length, _ in sorted(named):
            unnamed.append((end, offset))
            end = max(end, offset + length)
        unnamed.append((end, len(self.data)))
        for start, end in unnamed:
            if start < end and old[start:end] != self.data[start:end]:
                self.fail(f"the diff to {name} does not name a change in {start}..{end}")

    def deep_copy(self):
        copy = self.new_name()
        self.image.flush()
        subprocess.run(["rbd", "--rbd-default-clone-format", "2", "deep", "cp", "--no-progress",
                        f"{self.pool}/{self.name}", f"{self.pool}/{copy}"], check=True)
        for snap, data in [*self.snaps.items(), (None, self.data)]:
            with opened(self.ioctx, copy, snapshot=snap, read_only=True) as image:
                self.compare(image, data, f"{copy}@{snap}")
        with opened(self.ioctx, copy) as image:
            for snap in list(image.list_snaps()):
                image.remove_snap(snap["name"])
        rbd.RBD().remove(self.ioctx, copy)

    # What must hold.

    def fail(self, what):
        print(f"step {self.step}, image {self.name}: {what}")
        sys.exit(1)

    def compare(self, image, data, what):
        if image.size() != len(data):
            self.fail(f"{what}: {image.size()} bytes, not {len(data)}")
        now = image.read(0, len(data)) if data else b""
        if now != data:
            at = next(n for n, (a, b) in enumerate(zip(now, data)) if a != b)
            self.fail(f"{what}: differs at {at}")

    def check_all(self):
        self.image.flush()
        self.compare(self.image, self.data, "head")
        for name, snaps in [*self.parents, (self.name, self.snaps)]:
            for snap, data in snaps.items():
                with opened(self.ioctx, name, snapshot=snap, read_only=True) as image:
                    self.compare(image, data, f"{name}@{snap}")
        exported = subprocess.run(["rbd", "export", "--no-progress", f"{self.pool}/{self.name}", "-"],
                                  stdout=subprocess.PIPE, check=True).stdout
        if exported != self.data:
            self.fail("rbd export differs")

    def run(self, seconds):
        often = [self.write] * 12 + [self.read] * 6 + [self.discard] * 3 + [self.write_zeroes] * 3
        seldom = [self.resize, self.snapshot, self.rollback, self.remove_snapshot, self.clone, self.flatten,
                  self.reopen, self.diff, self.deep_copy]
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.step += 1
            self.rng.choice(often if self.rng.random() < 0.9 else seldom)()
            if self.step % 100 == 0:
                self.compare(self.image, self.data, "head")
        self.check_all()
        close(self.image)


def main():
    pool, seed, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    cluster = rados.Rados(conffile="ceph.conf", conf={"rbd_default_clone_format": "2"})
    cluster.connect()
    fsx = Fsx(cluster.open_ioctx(pool), pool, seed)
    fsx.run(seconds)
    print(f"{fsx.step} steps, {fsx.made} images, features {fsx.features}, striping {fsx.striping}, order {fsx.order}")
    cluster.shutdown()


main()
