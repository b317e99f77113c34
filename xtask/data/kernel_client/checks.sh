# The checks of `cargo xtask kernel-client`: each function named check_* is one, run by guest.sh in a shell of its own
# with `set -ex`. Each makes an image of its own, as others leave theirs behind when they fail.
# shellcheck shell=bash disable=SC2016,SC2086

new_image() { # NAME [ARGUMENT…]
  rbd create --size 64M "$@"
}

# Maps and says which device it became.
map() {
  rbd device map "$@"
}

# Direct writes of random blocks, read back and verified.
verified_io() { # DEVICE [FIO ARGUMENT…]
  local dev=$1
  shift
  fio --name=verify --filename="$dev" --ioengine=libaio --direct=1 --iodepth=8 --rw=randwrite --bsrange=4k-64k \
    --size=4M --verify=crc32c --verify_fatal=1 --do_verify=1 --randseed=7 --output-format=terse "$@" >/dev/null
}

# Of the first 16 MiB, as an emulated CPU takes its time for all.
sum_of() { # DEVICE
  dd if="$1" bs=1M count=16 iflag=direct status=none | sha1sum
}

# The same as librbd sees it.
exported_sum() { # IMAGE
  rbd export --no-progress "$1" /tmp/exported
  head -c 16M /tmp/exported | sha1sum
  rm /tmp/exported
}

random_bytes() { # DEVICE MIB [OFFSET MIB]
  dd if=/dev/urandom of="$1" bs=1M count="$2" seek="${3:-0}" oflag=direct status=none
}

# What `rbd du` counts of an image, in bytes.
used_bytes() { # IMAGE
  rbd du --format json "$1" | jq '.images[0].used_size'
}

fails() {
  if "$@"; then return 1; fi
}

check_map_without_options() {
  [ "$(ceph config get client rbd_default_map_options)" = ms_mode=prefer-crc ]
  new_image plain
  local dev
  dev=$(map plain)
  [ "$(blockdev --getsize64 "$dev")" = $((64 << 20)) ]
  [ "$(rbd device list --format json | jq -r '.[0].name')" = plain ]
  readlink -f /dev/rbd/rbd/plain | grep -qx "$dev"
  verified_io "$dev"
  rbd unmap plain
}

check_options_of_the_operator_win() {
  new_image operator
  ceph config set global rbd_default_map_options ms_mode=secure
  local dev
  dev=$(map operator)
  grep -q ms_mode=secure "/sys/bus/rbd/devices/${dev#/dev/rbd}/config_info"
  rbd unmap operator
  ceph config rm global rbd_default_map_options
}

check_msgr1_fails_at_once() {
  new_image legacy
  local said
  said=$(fails timeout 20 rbd map -o ms_mode=legacy legacy 2>&1)
  grep -q 'possible ms_mode mismatch' <<<"$said"
}

# What the kernel sends goes to a port of msgr2: it gives up when it may, and others are served meanwhile.
check_msgr1_at_the_port_of_msgr2() {
  new_image banner
  local secret host
  secret=$(ceph auth get-key client.admin)
  host=$(ceph mon dump -f json | jq -r '.mons[0].public_addrs.addrvec[0].addr')
  echo "$host name=admin,secret=$secret,mount_timeout=5 rbd banner -" >/tmp/add
  (fails dd if=/tmp/add of=/sys/bus/rbd/add_single_major bs=4k status=none) &
  rbd info banner >/dev/null
  wait $!
  dmesg | tail -n 20 | grep -q 'socket closed'
}

check_ms_mode_crc() { one_mode crc; }
check_ms_mode_prefer_crc() { one_mode prefer-crc; }
check_ms_mode_secure() { one_mode secure; }
check_ms_mode_prefer_secure() { one_mode prefer-secure; }
one_mode() {
  new_image "mode-$1"
  local dev
  dev=$(map -o "ms_mode=$1" "mode-$1")
  verified_io "$dev"
  rbd unmap "$dev"
}

check_user_with_profile_rbd() {
  new_image limited
  ceph auth get-or-create client.kernel mon 'profile rbd' osd 'profile rbd pool=rbd' -o /tmp/kernel.keyring
  local dev
  dev=$(map --id kernel --keyring /tmp/kernel.keyring limited)
  verified_io "$dev"
  rbd unmap "$dev"
}

check_features_and_object_map() {
  local features dev
  for features in layering layering,exclusive-lock layering,exclusive-lock,object-map,fast-diff,deep-flatten; do
    new_image "features-${features//,/-}" --image-feature "$features"
    dev=$(map "features-${features//,/-}")
    verified_io "$dev"
    rbd unmap "$dev"
  done
  rbd object-map check "features-${features//,/-}"
  [ "$(used_bytes "features-${features//,/-}")" = $((4 << 20)) ]
}

check_features_of_librbd_only() {
  new_image journal --image-feature layering,exclusive-lock,journaling
  local said
  said=$(fails rbd map journal 2>&1)
  grep -q 'RBD image feature set mismatch' <<<"$said"
  dmesg | tail -n 5 | grep -q 'image uses unsupported features: 0x40'
}

check_object_sizes_and_striping() {
  local dev
  new_image small-objects --object-size 64K
  new_image striped --object-size 1M --stripe-unit 64K --stripe-count 4
  for image in small-objects striped; do
    dev=$(map $image)
    verified_io "$dev"
    local sum
    sum=$(sum_of "$dev")
    rbd unmap "$dev"
    [ "$(exported_sum $image)" = "$sum" ]
  done
}

check_data_pool() {
  ceph osd pool create images-data 8
  ceph osd pool application enable images-data rbd
  new_image with-data-pool --data-pool images-data
  local dev
  dev=$(map with-data-pool)
  verified_io "$dev"
  rbd unmap "$dev"
  rados -p images-data ls | grep -q rbd_data
}

check_namespaces() {
  rbd namespace create rbd/ns1
  rbd namespace create rbd/ns2
  new_image rbd/ns1/img
  new_image rbd/ns2/img
  local one two sum
  one=$(map rbd/ns1/img)
  two=$(map rbd/ns2/img)
  random_bytes "$one" 4
  verified_io "$two"
  sum=$(sum_of "$one")
  rbd unmap rbd/ns1/img
  rbd unmap rbd/ns2/img
  [ "$(exported_sum rbd/ns1/img)" = "$sum" ]
}

check_ext4() { file_system ext4; }
check_xfs() { file_system xfs; }
file_system() {
  rbd create --size 512M "fs-$1"
  local dev
  dev=$(map "fs-$1")
  "mkfs.$1" -q "$dev"
  mkdir -p "/mnt-$1"
  mount "$dev" "/mnt-$1"
  cp -r /usr/include/linux "/mnt-$1/"
  dd if=/dev/urandom of="/mnt-$1/large" bs=1M count=16 conv=fsync status=none
  (cd "/mnt-$1" && find . -type f -print0 | sort -z | xargs -0 sha1sum) >"/tmp/$1.sums"
  umount "/mnt-$1"
  rbd unmap "fs-$1"
  # What librbd reads is a clean file system, too.
  dev=$(map --read-only "fs-$1")
  case $1 in ext4) e2fsck -fn "$dev" ;; xfs) xfs_repair -n "$dev" ;; esac
  mount -o ro "$dev" "/mnt-$1"
  (cd "/mnt-$1" && sha1sum --quiet -c "/tmp/$1.sums")
  umount "/mnt-$1"
  rbd unmap "fs-$1"
}

check_resize_is_seen() {
  new_image resized
  local dev
  dev=$(map resized)
  random_bytes "$dev" 4
  rbd resize --size 384M resized --no-progress
  until [ "$(blockdev --getsize64 "$dev")" = $((384 << 20)) ]; do sleep 1; done
  random_bytes "$dev" 4 380
  rbd resize --size 128M --allow-shrink resized --no-progress
  until [ "$(blockdev --getsize64 "$dev")" = $((128 << 20)) ]; do sleep 1; done
  fails random_bytes "$dev" 4 380
  rbd unmap "$dev"
}

check_snapshots() {
  new_image snapped
  local dev snap before
  dev=$(map snapped)
  random_bytes "$dev" 8
  before=$(sum_of "$dev")
  rbd snap create snapped@one --no-progress
  random_bytes "$dev" 8 2
  snap=$(map snapped@one)
  [ "$(blockdev --getro "$snap")" = 1 ]
  [ "$(sum_of "$snap")" = "$before" ]
  [ "$(sum_of "$dev")" != "$before" ]
  fails random_bytes "$snap" 1
  # A mapped snapshot has no watch that would keep it, as in Ceph.
  rbd unmap "$snap"
  rbd unmap "$dev"
  rbd snap rollback snapped@one --no-progress
  dev=$(map snapped)
  [ "$(sum_of "$dev")" = "$before" ]
  rbd unmap "$dev"
}

check_clones() {
  new_image parent
  local dev before after
  dev=$(map parent)
  random_bytes "$dev" 12
  before=$(sum_of "$dev")
  rbd unmap "$dev"
  rbd snap create parent@s --no-progress
  rbd clone --rbd-default-clone-format 2 parent@s child
  dev=$(map child)
  [ "$(sum_of "$dev")" = "$before" ]
  # Copy-ups of parts of objects, of one that the parent lacks, and discards.
  dd if=/dev/urandom of="$dev" bs=4k count=3 seek=1500 oflag=direct status=none
  random_bytes "$dev" 1 14
  blkdiscard -o $((4 << 20)) -l $((4 << 20)) "$dev"
  after=$(sum_of "$dev")
  [ "$(exported_sum child)" = "$after" ]
  rbd flatten child --no-progress
  [ "$(sum_of "$dev")" = "$after" ]
  random_bytes "$dev" 1 50
  rbd unmap "$dev"
  rbd object-map check child
}

check_discard_and_zeroes() {
  new_image holes
  local dev
  dev=$(map holes)
  random_bytes "$dev" 32
  [ "$(used_bytes holes)" = $((32 << 20)) ]
  blkdiscard -o 0 -l $((16 << 20)) "$dev"
  [ "$(used_bytes holes)" = $((16 << 20)) ]
  cmp -n $((16 << 20)) "$dev" /dev/zero
  blkdiscard -z -o $(((16 << 20) + 4096)) -l $((8 << 20)) "$dev"
  cmp -n $((8 << 20)) --ignore-initial=$(((16 << 20) + 4096)):0 "$dev" /dev/zero
  fallocate -p -o $((25 << 20)) -l $((1 << 20)) "$dev"
  cmp -n $((1 << 20)) --ignore-initial=$((25 << 20)):0 "$dev" /dev/zero
  blkdiscard "$dev"
  [ "$(used_bytes holes)" = 0 ]
  rbd unmap "$dev"
}

check_the_lock_goes_to_librbd_and_back() {
  new_image handed
  local dev
  dev=$(map handed)
  random_bytes "$dev" 1
  rbd lock ls handed | grep -q auto
  rbd bench --io-type write --io-size 4K --io-total 64K handed >/dev/null
  random_bytes "$dev" 1
  rbd bench --io-type write --io-size 4K --io-total 64K handed >/dev/null
  # While both write, each in its half: each thread of rbd begins elsewhere.
  verified_io "$dev" --offset=32M &
  rbd bench --io-type write --io-size 4K --io-total 256K --io-threads 1 handed >/dev/null
  wait $!
  rbd unmap "$dev"
  [ -z "$(rbd lock ls handed)" ]
}

check_exclusive() {
  new_image exclusive
  local dev said
  dev=$(map -o exclusive exclusive)
  rbd lock ls exclusive | grep -q auto
  random_bytes "$dev" 1
  said=$(fails timeout 60 rbd map -o exclusive,noshare exclusive 2>&1)
  grep -q 'Read-only file system' <<<"$said"
  fails timeout 60 rbd bench --io-type write --io-size 4K --io-total 4K exclusive
  rbd unmap "$dev"
}

check_lock_on_read() {
  # With an object map the kernel locks for reads anyway. Mapping locks; librbd takes that away.
  new_image readlock --image-feature layering,exclusive-lock
  local dev
  dev=$(map readlock)
  rbd bench --io-type write --io-size 4K --io-total 4K readlock >/dev/null
  dd if="$dev" of=/dev/null bs=4k count=1 iflag=direct status=none
  [ -z "$(rbd lock ls readlock)" ]
  rbd unmap "$dev"
  dev=$(map -o lock_on_read readlock)
  rbd bench --io-type write --io-size 4K --io-total 4K readlock >/dev/null
  dd if="$dev" of=/dev/null bs=4k count=1 iflag=direct status=none
  rbd lock ls readlock | grep -q auto
  rbd unmap "$dev"
}

check_a_dead_owner_is_blocklisted() {
  new_image orphan
  rbd bench --io-type write --io-size 4K --io-total 1G --io-threads 1 orphan >/dev/null &
  local bench=$! dev
  until rbd lock ls orphan | grep -q auto; do sleep 1; done
  kill -9 $bench
  dev=$(map orphan)
  # The kernel breaks the lock, and blocklists its owner, when the owner's watch has ended.
  timeout 120 dd if=/dev/urandom of="$dev" bs=4k count=1 oflag=direct status=none
  [ "$(ceph osd blocklist ls -f json 2>/dev/null | jq length)" -ge 1 ]
  rbd unmap "$dev"
}

check_blocklisted_kernel() {
  new_image fenced
  local dev client
  dev=$(map fenced)
  random_bytes "$dev" 1
  client=$(cat "/sys/bus/rbd/devices/${dev#/dev/rbd}/client_addr")
  ceph osd blocklist add "$client"
  fails timeout 60 dd if=/dev/urandom of="$dev" bs=4k count=1 oflag=direct status=none
  rbd unmap -o force "$dev"
  ceph osd blocklist rm "$client"
  dev=$(map fenced)
  random_bytes "$dev" 1
  rbd unmap "$dev"
}

check_unmap_by_force() {
  new_image forced
  local dev
  dev=$(map forced)
  random_bytes "$dev" 1
  sleep 1000 <"$dev" &
  fails rbd unmap "$dev"
  rbd unmap -o force "$dev"
  kill $!
  [ "$(rbd device list --format json | jq 'any(.name == "forced")')" = false ]
}

check_pauses_and_full_flags() {
  new_image paused
  local dev
  dev=$(map paused)
  random_bytes "$dev" 1
  ceph osd pause
  verified_io "$dev" &
  sleep 5
  kill -0 $!
  ceph osd unpause
  wait $!
  # Without the option the kernel waits for space.
  new_image failing
  local other
  other=$(map -o abort_on_full failing)
  random_bytes "$other" 1
  ceph osd pool set-quota rbd max_bytes 1
  until ceph health detail | grep -q POOL_FULL; do sleep 1; done
  fails random_bytes "$other" 1 40
  random_bytes "$dev" 1 60 &
  sleep 5
  kill -0 $!
  ceph osd pool set-quota rbd max_bytes 0
  wait $!
  rbd unmap "$dev"
  rbd unmap "$other"
}

check_pool_that_grows() {
  new_image split
  local dev
  dev=$(map split)
  verified_io "$dev" --time_based --runtime=20 &
  ceph osd pool set rbd pg_num 16
  ceph osd pool set rbd pgp_num 16
  wait $!
  rbd unmap "$dev"
}

check_osd_killed_under_io() {
  new_image killed
  local dev
  dev=$(map killed)
  verified_io "$dev" --time_based --runtime=25 &
  local load=$!
  sleep 3
  kill -9 "$(cat "$DIR/run/osd.0.pid")"
  sleep 12
  start_daemon osd 0
  wait $load
  await_health
  rbd unmap "$dev"
}

check_mon_restarted_under_io() {
  new_image monless
  local dev
  dev=$(map monless)
  verified_io "$dev" --time_based --runtime=25 &
  local load=$!
  sleep 3
  kill -9 "$(cat "$DIR/run/mon.a.pid")"
  sleep 5
  start_daemon mon a
  wait $load
  # The kernel finds it again.
  rbd resize --size 300M monless --no-progress
  until [ "$(blockdev --getsize64 "$dev")" = $((300 << 20)) ]; do sleep 1; done
  await_health
  rbd unmap "$dev"
}

check_a_minute_of_flapping_osds() {
  rbd create --size 512M flapped
  local dev round
  dev=$(map flapped)
  mkfs.ext4 -q "$dev"
  mkdir -p /mnt-flapped
  mount "$dev" /mnt-flapped
  fio --name=flaps --directory=/mnt-flapped --ioengine=libaio --direct=1 --iodepth=8 --rw=randrw --bs=8k --size=64M \
    --verify=crc32c --verify_fatal=1 --time_based --runtime=80 --output-format=terse >/dev/null &
  local load=$!
  for round in 0 1 2 0 1 2; do
    ceph osd down "$round"
    sleep 5
    kill -9 "$(cat "$DIR/run/osd.$round.pid")"
    sleep 2
    start_daemon osd "$round"
    sleep 4
  done
  wait $load
  umount /mnt-flapped
  rbd unmap "$dev"
  await_health
  dev=$(map flapped)
  e2fsck -fn "$dev"
  rbd unmap "$dev"
}

check_map_and_unmap_while_others_do() {
  local n
  for n in 1 2 3; do
    new_image "many-$n"
    (for _ in 1 2 3; do dev=$(map "many-$n") && random_bytes "$dev" 1 && rbd unmap "$dev" || exit 1; done) &
  done
  for n in $(jobs -p); do wait "$n"; done
  [ "$(rbd device list --format json | jq length)" = 0 ]
}

nbd_map() {
  rbd device map -t nbd "$@"
}
nbd_unmap() {
  rbd device unmap -t nbd "$@"
}

check_nbd_file_system() {
  new_image nbd-fs
  local dev
  dev=$(nbd_map nbd-fs)
  rbd device list -t nbd --format json | jq -e 'any(.image == "nbd-fs")'
  mkfs.ext4 -q "$dev"
  mkdir -p /mnt-nbd
  mount "$dev" /mnt-nbd
  dd if=/dev/urandom of=/mnt-nbd/large bs=1M count=16 conv=fsync status=none
  sha1sum /mnt-nbd/large >/tmp/nbd.sum
  umount /mnt-nbd
  nbd_unmap "$dev"
  # By the kernel's rbd it is the same.
  dev=$(map nbd-fs)
  mount -o ro "$dev" /mnt-nbd
  sha1sum --quiet -c /tmp/nbd.sum
  umount /mnt-nbd
  rbd unmap "$dev"
}

check_nbd_direct_io() {
  new_image nbd-io
  local dev
  dev=$(rbd-nbd map nbd-io)
  verified_io "$dev"
  random_bytes "$dev" 8 32
  blkdiscard -o $((32 << 20)) -l $((8 << 20)) "$dev"
  cmp -n $((8 << 20)) --ignore-initial=$((32 << 20)):0 "$dev" /dev/zero
  rbd-nbd unmap "$dev"
}

check_nbd_resize() {
  new_image nbd-resized
  local dev
  dev=$(nbd_map nbd-resized)
  rbd resize --size 384M nbd-resized --no-progress
  until [ "$(blockdev --getsize64 "$dev")" = $((384 << 20)) ]; do sleep 1; done
  random_bytes "$dev" 4 380
  nbd_unmap "$dev"
}

check_nbd_snapshot_and_exclusive() {
  new_image nbd-snapped
  local dev snap before
  dev=$(nbd_map --exclusive nbd-snapped)
  random_bytes "$dev" 4
  before=$(sum_of "$dev")
  rbd snap create nbd-snapped@one --no-progress
  random_bytes "$dev" 4
  snap=$(nbd_map nbd-snapped@one)
  [ "$(blockdev --getro "$snap")" = 1 ]
  [ "$(sum_of "$snap")" = "$before" ]
  fails timeout 60 rbd map -o exclusive nbd-snapped
  nbd_unmap "$snap"
  nbd_unmap "$dev"
}

check_nbd_osd_killed_under_io() {
  new_image nbd-killed
  local dev
  dev=$(nbd_map nbd-killed)
  verified_io "$dev" --time_based --runtime=20 &
  local load=$!
  sleep 3
  kill -9 "$(cat "$DIR/run/osd.1.pid")"
  sleep 8
  start_daemon osd 1
  wait $load
  await_health
  nbd_unmap "$dev"
}

# Such a device refuses holes that read as zeros: an OSD discards there without them.
check_osd_on_a_device_that_cannot_write_zeroes() {
  modprobe null_blk nr_devices=1 gb=1 bs=4096 memory_backed=1 discard=1
  [ "$(cat /sys/block/nullb0/queue/write_zeroes_max_bytes)" = 0 ]
  local other=/data/discards discarded
  loligo up --data $other --osds 1 --device /dev/nullb0 --port 7300 >/data/discards.log 2>&1 &
  local up=$!
  export CEPH_CONF=$other/ceph.conf
  until [ -f "$CEPH_CONF" ]; do sleep 1; done
  ceph config set mon mon_allow_pool_size_one true
  ceph osd pool create rbd 8
  ceph osd pool set rbd size 1 --yes-i-really-mean-it
  rbd pool init rbd
  head -c 64M /dev/urandom >/tmp/data
  rbd import --no-progress /tmp/data img
  rbd create --size 8M small
  discards_of() { awk '{print $12}' /sys/block/nullb0/stat; }
  discarded=$(discards_of)
  rbd rm --no-progress img
  # What is freed is discarded once a checkpoint says so, for which half the journal is to be full.
  rbd bench --io-type write --io-size 16K --io-threads 8 --io-total 96M --io-pattern rand small
  until [ "$(discards_of)" -gt "$discarded" ]; do sleep 1; done
  rbd import --no-progress /tmp/data img
  rbd export --no-progress img - | cmp - /tmp/data
  kill -INT $up
  wait $up
  rmmod null_blk
}

# What the kernel or the daemons did not understand.
check_no_complaints() {
  if dmesg | grep -E 'libceph: (corrupt|.*decode)|bad (crc|header)|Call Trace|BUG|WARNING'; then return 1; fi
  if grep -h 'does not decode' "$DIR"/log/*.log; then return 1; fi
}
