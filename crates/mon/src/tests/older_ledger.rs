//! A monitor that goes on from an older copy of its ledger: OSDs have had maps that it does not know.

use messages::{MMonSubscribe, MPGStats, PoolOpCode, SubscribeItem};
use types::{Errno, OsdId};

use super::{
    cluster::{Cluster, boot_message},
    pools::pool_op,
};

/// The monitor's ledger is an older copy: the OSD would ignore its next maps, as it has had others of these epochs.
#[test]
fn an_osd_that_knows_newer_maps_than_the_monitor_is_refused() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"osd down","ids":["1"]}"#);
    let newest = cluster.map().epoch;
    cluster.say(Cluster::osd_conn(1), boot_message(1, newest.next()));
    assert!(cluster.map().is_down(OsdId(1)));
    assert!(cluster.text(r#"{"prefix":"log last","num":10}"#).contains("osd.1 boots with OSD map"));
    cluster.say(Cluster::osd_conn(1), boot_message(1, newest));
    assert!(cluster.map().is_up(OsdId(1)));
}

/// It has not booted anew, but the monitor has, from an older copy: what it acknowledged would not be heeded.
#[test]
fn a_monitor_whose_osds_have_newer_maps_changes_none() {
    let mut cluster = Cluster::with_rbd();
    let newest = cluster.map().epoch;
    let report = |epoch| MPGStats { osd: OsdId(1), epoch, ..MPGStats::default() };
    cluster.say(Cluster::osd_conn(1), report(newest.next()));
    let fence = r#"{"prefix":"osd blocklist","blocklistop":"add","addr":"10.1.2.3:0/5"}"#;
    assert_eq!(cluster.refused(fence).0, Errno::EIO.negated());
    assert_eq!(cluster.refused(r#"{"prefix":"osd pool set noautoscale"}"#).0, Errno::EIO.negated());
    // It may have been given before.
    let snap = pool_op(&mut cluster, PoolOpCode::CREATE_UNMANAGED_SNAP, 0, "");
    assert_eq!((snap.reply_code, snap.response), (Errno::EIO.negated(), None));
    assert_eq!(cluster.map().epoch, newest);
    assert!(cluster.text(r#"{"prefix":"health","detail":"detail"}"#).contains("MON_LEDGER_OLD"));
    assert!(cluster.text(r#"{"prefix":"log last","num":10}"#).contains("osd.1 has OSD map"));
    cluster.say(Cluster::osd_conn(1), report(newest));
    cluster.ok(fence);
}

/// The copy is of a time when the OSD was down, and the OSD asks for maps before it reports.
#[test]
fn an_osd_with_newer_maps_counts_though_it_is_down_in_an_older_one() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"osd down","ids":["1"]}"#);
    let newest = cluster.map().epoch;
    let start = u64::from(newest.0) + 2;
    let what = [("osdmap".to_owned(), SubscribeItem { start, flags: 0 })].into();
    cluster.say(Cluster::osd_conn(1), MMonSubscribe { what, ..MMonSubscribe::default() });
    let fence = r#"{"prefix":"osd blocklist","blocklistop":"add","addr":"10.1.2.3:0/5"}"#;
    assert_eq!(cluster.refused(fence).0, Errno::EIO.negated());
    cluster.say(Cluster::osd_conn(1), MPGStats { osd: OsdId(1), epoch: newest, ..MPGStats::default() });
    cluster.ok(fence);
    cluster.say(
        Cluster::osd_conn(1),
        MPGStats { osd: OsdId(1), epoch: newest.next().next(), ..MPGStats::default() },
    );
    assert_eq!(cluster.refused(fence).0, Errno::EIO.negated());
}
