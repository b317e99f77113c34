# What the machine of `cargo xtask kernel-client` runs after its initramfs (init.sh): a cluster, the checks, the end.
# The host's files are `/`, its changes are lost; /mnt is the folder that it shares.
# shellcheck shell=bash disable=SC1091
export PATH=/mnt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
export DIR=/data/cluster
export CEPH_CONF=$DIR/ceph.conf
# The longest that a check may take, in seconds.
LIMIT=900

say() {
  echo "$*" >>/mnt/results
}

start_daemon() { # KIND ID
  setsid loligo "$1" --id "$2" --conf "$CEPH_CONF" >>/mnt/daemons.log 2>&1 </dev/null &
  disown
}

await_health() {
  until ceph --connect-timeout 30 health | grep -q HEALTH_OK; do sleep 1; done
}
export -f start_daemon await_health

prepare() {
  mount -t tmpfs tmp /run
  mkdir -p /dev/pts /dev/shm /run/udev /data /lib/modules
  mount -t devpts pts /dev/pts
  mount -t tmpfs tmp /dev/shm
  mount -t debugfs debug /sys/kernel/debug
  ln -sf /proc/self/fd /dev/fd
  ln -sf fd/0 /dev/stdin
  ln -sf fd/1 /dev/stdout
  ln -sf fd/2 /dev/stderr
  ip link set lo up
  ln -sfn "$(cat /mnt/modules)" "/lib/modules/$(uname -r)"
  depmod
  /lib/systemd/systemd-udevd --daemon
  for module in rbd nbd ext4 xfs; do modprobe "$module"; done
  mkfs.xfs -qf /dev/vda
  mount /dev/vda /data
  # The cache of the shared folder may not be as new as the file.
  install /mnt/loligo /usr/local/bin/loligo
}

# What all daemons say and where their threads are, for the reader of a failure.
diagnose() {
  local pid
  mkdir -p /mnt/daemons
  cp "$DIR"/log/*.log /mnt/daemons/
  {
    date
    timeout 60 ceph --connect-timeout 20 -s
    timeout 60 ceph --connect-timeout 20 pg dump pgs_brief
    for pid in $(pgrep loligo); do
      tr '\0' ' ' <"/proc/$pid/cmdline" && echo
      for task in /proc/"$pid"/task/*; do
        echo "$task $(cat "$task/comm" "$task/wchan")"
        cat "$task/stack"
      done
    done
  } >/mnt/daemons/diagnosis 2>&1
}

# A check in a shell and a group of its own; what it leaves mapped goes. Not if it is not wanted.
run_check() { # NAME COMMAND
  local begin=$SECONDS log=/mnt/log/$1 is_wanted='' wanted
  for wanted in $(cat /mnt/wanted); do
    [[ $1 == "$wanted"* ]] && is_wanted=yes
  done
  [ -s /mnt/wanted ] && [ -z "$is_wanted" ] && return
  if timeout -k 10 "$LIMIT" bash -c "$2" >"$log" 2>&1 </dev/null; then
    say "passed $1 $((SECONDS - begin))"
    return
  fi
  dmesg | tail -n 30 >>"$log"
  ceph --connect-timeout 20 osd unpause 2>/dev/null
  ceph --connect-timeout 20 osd pool set-quota rbd max_bytes 0 2>/dev/null
  umount /mnt-* 2>/dev/null
  for device in /dev/rbd[0-9] /dev/rbd[0-9][0-9]; do
    [ -b "$device" ] && timeout 60 rbd unmap -o force "$device" >>"$log" 2>&1
  done
  for device in $(rbd-nbd list-mapped 2>/dev/null | grep -o '/dev/nbd[0-9]*'); do
    timeout 60 rbd-nbd unmap --force "$device" >>"$log" 2>&1
  done
  say "FAILED $1 $((SECONDS - begin))"
}

# Ceph's own scripts for the kernel's rbd and nbd, in a folder of their own each.
run_workunits() { # CEPH
  local unit
  # sudo does not hand down where the cluster is.
  mkdir -p /etc/ceph /data/units
  cp "$CEPH_CONF" /etc/ceph/ceph.conf
  cd /data/units || return
  for unit in "$1"/qa/workunits/rbd/{krbd_*,kernel,map-*,rbd-nbd,concurrent,huge-tickets}.sh; do
    run_check "$(basename "$unit")" "bash -x $unit"
  done
  for unit in "$1"/qa/rbd/krbd_*.t; do
    run_check "$(basename "$unit")" "python3 -m cram -v $unit"
  done
  cd / || return
}

main() {
  prepare
  say "kernel $(uname -r)"
  setsid loligo up --separate --data "$DIR" --osds 3 --size 8G >/mnt/up.log 2>&1 </dev/null &
  until [ -f "$CEPH_CONF" ]; do sleep 1; done
  timeout 120 bash -c await_health || say "FAILED cluster 120"
  if ! timeout 180 bash -xc 'ceph osd pool create rbd 8 && rbd pool init rbd' >/mnt/log/pool 2>&1; then
    diagnose
    say "FAILED pool 180"
  fi
  local name
  # In the order in which they are written.
  for name in $(grep -o '^check_[a-z0-9_]*' /mnt/checks.sh); do
    run_check "${name#check_}" "source /mnt/checks.sh; set -eEx -o pipefail; $name"
  done
  [ -s /mnt/ceph ] && run_workunits "$(cat /mnt/ceph)"
  diagnose
  dmesg >/mnt/dmesg.log
}

main >/mnt/guest.log 2>&1
say end
sync
echo o >/proc/sysrq-trigger
sleep 60
