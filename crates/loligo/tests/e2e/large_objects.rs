//! Objects that fit no message: what makes them so large in one request, and copies of them that were away meanwhile.

use std::time::Duration;

use crate::cluster::Cluster;

/// Sets an omap of 40 MiB in one request, one of 64 MiB in many, an xattr of 33 MiB, and 20 MiB of data; more than is
/// taken in one request is refused.
const FILL: &str = r#"
import errno, rados
c = rados.Rados(conffile='ceph.conf'); c.connect(); i = c.open_ioctx('p')
def put(name, keys, value):
    with rados.WriteOpCtx() as op:
        i.set_omap(op, tuple(keys), tuple(value for _ in keys))
        i.operate_write_op(op, name)
put('one', ['k%05d' % at for at in range(640)], b'1' * (64 << 10))
for part in range(64):
    put('many', ['k%02d-%05d' % (part, at) for at in range(1024)], b'2' * 1024)
i.set_xattr('attr', 'x', b'3' * (33 << 20))
i.write('data', b'4' * (20 << 20))
# Is refused, and holds up nothing: its connection would be made again, and it would be sent again, for ever.
for data in [b'8' * (129 << 20), b'8' * (300 << 20)]:
    refused = i.aio_write_full('refused', data)
    behind = i.aio_write_full('behind', b'9')
    for wait in [behind, refused]:
        wait.wait_for_complete()
    assert (refused.get_return_value(), behind.get_return_value()) == (-errno.EMSGSIZE, 0)
i.close(); c.shutdown()
print('filled')
"#;

/// Changes some of each.
const CHANGE: &str = r#"
import rados
c = rados.Rados(conffile='ceph.conf'); c.connect(); i = c.open_ioctx('p')
for name in ['one', 'many']:
    with rados.WriteOpCtx() as op:
        i.set_omap(op, ('new',), (b'5' * 100,))
        i.operate_write_op(op, name)
i.set_xattr('attr', 'y', b'6')
i.write('data', b'7', 5 << 20)
i.close(); c.shutdown()
print('changed')
"#;

#[test]
fn they_reach_all_copies_and_those_that_were_away() {
    let mut c = Cluster::start();
    c.sh("ceph osd pool create p 1; ceph osd pool application enable p rados; ceph osd pool set p pg_autoscale_mode off");
    std::fs::write(c.dir().join("fill.py"), FILL).unwrap();
    std::fs::write(c.dir().join("change.py"), CHANGE).unwrap();
    assert_eq!(c.sh("/usr/bin/python3 fill.py").out, "filled\n");
    for victim in ["osd.0", "osd.1", "osd.2"] {
        c.kill(victim);
        c.wait_up_osds(2);
        assert_eq!(c.sh("/usr/bin/python3 change.py").out, "changed\n");
        c.restart(victim);
        c.wait_healthy();
    }
    let pgid = c.json("ceph pg ls-by-pool p")["pg_stats"][0]["pgid"].as_str().unwrap().to_owned();
    c.sh(&format!("ceph pg deep-scrub {pgid}"));
    c.wait("a deep scrub that finds nothing", Duration::from_secs(180), |c| {
        c.sh("ceph log last 1000 debug cluster").out.contains(&format!("{pgid} deep-scrub ok"))
    });
    assert_eq!(c.sh("rados -p p listomapkeys many").out.lines().count(), 64 * 1024 + 1);
    assert_eq!(c.sh("rados -p p listomapkeys one").out.lines().count(), 641);
}
