"""The calls of Nova's rbd image backend: an instance's disks from Glance's image to their end.

Run in a cluster's folder, with images/i@snap protected, a pool `vms` and nova.keyring.
"""
import json
import subprocess

import rados
import rbd

WHO = ["--id", "nova", "--keyring", "nova.keyring"]
UUID = "5d0c8a4e-0d0f-4b4e-9c39-6f1f9d6c2f10"
DISK, SWAP = f"{UUID}_disk", f"{UUID}_disk.swap"


def run(*words):
    return subprocess.run([words[0], *WHO, *words[1:]], check=True, capture_output=True, text=True).stdout


def fails(error, call, *args):
    try:
        call(*args)
    except error:
        return
    raise AssertionError(f"{call} did not say {error}")


# Where the hypervisor is told to connect to, and what the scheduler hears of.
monitors = json.loads(run("ceph", "mon", "dump", "--format=json"))["mons"]
assert all(":" in mon["addr"] for mon in monitors)
stats = {pool["name"]: pool["stats"] for pool in json.loads(run("ceph", "df", "--format=json"))["pools"]}
assert stats["vms"]["max_avail"] > 0 and stats["vms"]["bytes_used"] >= 0

with rados.Rados(conffile="ceph.conf", rados_id="nova", conf={"keyring": "nova.keyring"}) as cluster:
    assert len(cluster.get_fsid()) == 36
    rbd_api = rbd.RBD()
    with cluster.open_ioctx("images") as images, cluster.open_ioctx("vms") as vms:
        # A disk that is a clone of Glance's image, larger than that; it may not change the image itself.
        with rbd.Image(images, "i", snapshot="snap", read_only=True) as image:
            assert image.is_protected_snap("snap")
            features, size = image.features(), image.size()
        rbd_api.clone(images, "i", "snap", vms, DISK, features=features)
        with rbd.Image(vms, DISK) as disk:
            assert disk.parent_info() == ("images", "i", "snap")
            disk.resize(2 * size)
            assert disk.size() == 2 * size
        fails(rbd.PermissionError, rbd_api.remove, images, "i")
        # A swap disk comes as a file.
        with open("swap.raw", "wb") as file:
            file.truncate(4 << 20)
        run("rbd", "import", "--pool", "vms", "swap.raw", SWAP, "--image-format=2")
        assert sorted(name for name in rbd_api.list(vms) if name.startswith(UUID)) == [DISK, SWAP]
        # A snapshot of the instance becomes an image of its own; then the disk stands alone.
        with rbd.Image(vms, DISK) as disk:
            disk.write(b"nova", 0)
            disk.create_snap("shot")
            disk.protect_snap("shot")
            disk.write(b"gone", 0)
            rbd_api.clone(vms, DISK, "shot", vms, "shot-disk", features=features)
            with rbd.Image(vms, "shot-disk") as copy:
                copy.flatten()
                assert copy.read(0, 4) == b"nova"
                fails(rbd.ImageNotFound, copy.parent_info)
            disk.unprotect_snap("shot")
            # A resize that failed goes back.
            disk.rollback_to_snap("shot")
            assert disk.read(0, 4) == b"nova"
            # Who has an image open keeps it.
            fails((rbd.ImageBusy, rbd.ImageHasSnapshots), rbd_api.remove, vms, DISK)
            disk.remove_snap("shot")
            disk.flatten()
        # QEMU opens it as libvirt has it do.
        url = f"rbd:vms/{DISK}:id=nova:conf=ceph.conf:keyring=nova.keyring"
        info = json.loads(subprocess.run(["qemu-img", "info", "--output=json", url], check=True, capture_output=True).stdout)
        assert info["virtual-size"] == 2 * size
        for name in (DISK, SWAP, "shot-disk"):
            rbd_api.remove(vms, name)
        fails(rbd.ImageNotFound, rbd.Image, vms, DISK)
        assert rbd_api.list(vms) == []
