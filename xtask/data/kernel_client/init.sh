#!/bin/busybox sh
# The initramfs of `cargo xtask kernel-client`: the host's files, with changes in memory, become the root.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r module; do insmod "/modules/$module"; done </order
options=trans=virtio,version=9p2000.L,msize=524288
mount -t 9p -o $options,ro,cache=loose root /lower
mount -t tmpfs changes /changes
mkdir /changes/upper /changes/work
mount -t overlay -o lowerdir=/lower,upperdir=/changes/upper,workdir=/changes/work root /newroot
mount -t 9p -o $options,cache=none shared /newroot/mnt
for dir in proc sys dev; do mount --move /$dir /newroot/$dir; done
exec switch_root /newroot /bin/bash /mnt/guest.sh
