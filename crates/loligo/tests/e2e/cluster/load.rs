//! What stock clients do to a cluster beside a test: writes that go on through faults, which the test makes sure of.

use std::{fs, time::Duration};

use super::{Cluster, running::Running};

/// As long as writes may take to go on after a fault, the grace of a mark-down included.
const WRITES_LIMIT: Duration = Duration::from_secs(120);

/// Writes an object into each PG, all at once: of so many objects one at least is in each of 32 PGs.
const WRITE_EVERYWHERE: &str = "
import rados, sys
c = rados.Rados(conffile='ceph.conf'); c.connect(); i = c.open_ioctx(sys.argv[1])
puts = [i.aio_write_full(f'everywhere{n}', b'written') for n in range(256)]
for put in puts:
    put.wait_for_complete()
    assert put.get_return_value() == 0, put.get_return_value()
i.close(); c.shutdown()
";

/// fio's random writes of 4 KiB over an image of the size, or with other options, their verification. The seed is a
/// number, or `$seed` in a load's pass. librbd has no cache: what fio has written is with the OSDs. Fio forks no
/// process: one would have a session of its own, and outlive a fio that is killed.
pub fn fio_verify(pool: &str, size: &str, seed: &str, options: &str) -> String {
    format!(
        "CEPH_ARGS=--rbd_cache=false fio --thread --name=v --ioengine=rbd --clientname=admin --pool={pool} \
         --rbdname=img --bs=4k --iodepth=16 --size={size} --verify=crc32c --verify_fatal=1 --verify_state_save=0 \
         --randrepeat=1 --randseed={seed} --rw=randwrite {options}"
    )
}

/// A program that writes to a pool beside the test, again and again until the test ends it: however slow the machine
/// is, a fault meets requests.
pub struct Load {
    program: Running,
    pool: String,
}

impl Load {
    /// Starts `pass`, a command of some seconds that writes to `pool`, with `first_seed` as its `$seed`, and with the
    /// next number after each. What one pass wrote, the next may overwrite; with other bytes, if it uses the seed.
    pub fn start(c: &Cluster, pool: &str, first_seed: usize, pass: &str) -> Load {
        let _ = fs::remove_file(c.dir().join("stop"));
        let passes = format!(
            "seed={first_seed}; while {pass}; do echo $seed > last; [ -e stop ] && exit 0; seed=$((seed + 1)); \
             done; exit 1"
        );
        Load { program: c.spawn(&passes), pool: pool.to_owned() }
    }

    /// Fails the test if the load has ended: a write has failed, as it ends only when it is told to.
    pub fn assert_running(&mut self, c: &Cluster) {
        let ended = self.program.ended();
        assert!(ended.is_none(), "the load failed: {ended:?}\n{}", c.logs());
    }

    /// Waits until so many more writes are done by the pool's statistics, and the load still runs.
    pub fn wait_for_writes(&mut self, c: &Cluster, count: u64) {
        let before = writes(c, &self.pool);
        c.wait("more writes", WRITES_LIMIT, |c| writes(c, &self.pool) >= before + count);
        self.assert_running(c);
    }

    /// Ends the load with the pass that is under way, which must end well, as all before it. That one's seed.
    pub fn finish(self, c: &Cluster) -> String {
        fs::write(c.dir().join("stop"), "").unwrap();
        assert!(self.program.ends_well(), "the load failed\n{}", c.logs());
        fs::read_to_string(c.dir().join("last")).unwrap().trim().to_owned()
    }
}

/// Writes that a pool has done.
fn writes(c: &Cluster, pool: &str) -> u64 {
    c.json(&format!("rados -p {pool} df"))["pools"][0]["write_ops"].as_u64().expect("pools count writes")
}

/// Fails the test unless each PG of a pool of 32 PGs at most takes a write within a minute.
pub fn write_everywhere(c: &Cluster, pool: &str) {
    c.sh(&format!("timeout 60 /usr/bin/python3 - {pool} <<'END'{WRITE_EVERYWHERE}END"));
}
