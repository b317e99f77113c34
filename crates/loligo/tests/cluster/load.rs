//! What stock clients do to a cluster beside a test: writes that go on through faults, which the test makes sure of.

use std::{process::Child, time::Duration};

use super::Cluster;

/// As long as writes may take to go on after a fault, the grace of a mark-down included.
const WRITES_LIMIT: Duration = Duration::from_secs(60);

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

/// fio's random writes of 4 KiB over an image of the size, or with other options, their verification. librbd has no
/// cache: what fio has written is with the OSDs.
pub fn fio_verify(pool: &str, size: &str, seed: usize, options: &str) -> String {
    format!(
        "timeout 170 env CEPH_ARGS=--rbd_cache=false fio --name=v --ioengine=rbd --clientname=admin --pool={pool} \
         --rbdname=img --bs=4k --iodepth=16 --size={size} --verify=crc32c --verify_fatal=1 --verify_state_save=0 \
         --randrepeat=1 --randseed={seed} --rw=randwrite {options}"
    )
}

/// A program that writes to a pool beside the test.
pub struct Load {
    program: Child,
    pool: String,
}

impl Load {
    /// Starts `command`, which writes to `pool`.
    pub fn start(c: &Cluster, pool: &str, command: &str) -> Load {
        Load { program: c.spawn(command), pool: pool.to_owned() }
    }

    /// Fails the test if the load has ended: a fault would then meet no request.
    pub fn assert_running(&mut self) {
        let ended = self.program.try_wait().unwrap();
        assert!(ended.is_none(), "the load ended before the fault: {ended:?}");
    }

    /// Waits until so many more writes are done by the pool's statistics, and the load still runs.
    pub fn wait_for_writes(&mut self, c: &Cluster, count: u64) {
        let before = writes(c, &self.pool);
        c.wait("more writes", WRITES_LIMIT, |c| writes(c, &self.pool) >= before + count);
        self.assert_running();
    }

    /// Waits for the end, which must be a good one.
    pub fn finish(mut self, c: &Cluster) {
        let status = self.program.wait().unwrap();
        assert!(status.success(), "the load failed: {status}\n{}", c.logs());
    }
}

/// Writes that a pool has done.
fn writes(c: &Cluster, pool: &str) -> u64 {
    c.json(&format!("rados -p {pool} df"))["pools"][0]["write_ops"].as_u64().expect("pools count writes")
}

/// Fails the test unless each PG of a pool of 32 PGs at most takes a write within some seconds.
pub fn write_everywhere(c: &Cluster, pool: &str) {
    c.sh(&format!("timeout 30 /usr/bin/python3 - {pool} <<'END'{WRITE_EVERYWHERE}END"));
}
