//! Lines of the cluster log on commands that change something.

use std::time::Duration;

use messages::MMgrCommand;

use super::cluster::{ADMIN, Cluster};
use crate::Ledger;

fn lines(cluster: &Cluster) -> Vec<String> {
    let log = cluster.mon.committed.log.iter();
    log.filter(|line| line.channel == "audit").map(|line| line.message.clone()).collect()
}

fn newest(cluster: &Cluster) -> String {
    lines(cluster).pop().unwrap()
}

#[test]
fn a_command_that_changes_something_is_in_the_log_with_its_sender() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"osd set","key":"noout"}"#);
    let addr = cluster.peer(ADMIN).addr;
    let from = format!("from='client.4001 {addr}' entity='client.admin'");
    let line = format!(r#"{from} cmd=[{{"prefix":"osd set","key":"noout"}}]: dispatch"#);
    assert_eq!(newest(&cluster), line);
    let last = |cluster: &mut Cluster, channel: &str| {
        cluster.text(&format!(r#"{{"prefix":"log last","num":50,"level":"info","channel":"{channel}"}}"#))
    };
    assert!(last(&mut cluster, "audit").ends_with(&format!(" : audit [INF] {line}\n")));
    assert!(!last(&mut cluster, "cluster").contains("dispatch"));

    // By the manager's address it is the same.
    let peer = cluster.peer(ADMIN);
    let cmd = vec![r#"{"prefix":"balancer off"}"#.to_owned()];
    cluster.manage(&peer, MMgrCommand { cmd, ..MMgrCommand::default() });
    assert_eq!(newest(&cluster), format!(r#"{from} cmd=[{{"prefix":"balancer off"}}]: dispatch"#));

    // Daemons have names of their own.
    let (peer, wall) = (cluster.peer(Cluster::osd_conn(0)), cluster.wall());
    cluster.mon.log_command(wall, &peer, &["{}".to_owned()]);
    cluster.pass(Duration::from_secs(1));
    assert!(newest(&cluster).starts_with("from='osd.0 "), "{}", newest(&cluster));
}

#[test]
fn what_changes_nothing_leaves_no_line() {
    let mut cluster = Cluster::with_rbd();
    let before = lines(&cluster);
    cluster.ok(r#"{"prefix":"osd crush rule rm","name":"nosuch"}"#);
    cluster.ok(r#"{"prefix":"osd tree"}"#);
    cluster.refused(r#"{"prefix":"osd pool set","pool":"rbd","var":"size","val":"0"}"#);
    assert_eq!(lines(&cluster), before);
}

#[test]
fn values_of_keys_and_options_are_not_in_the_log() {
    let mut cluster = Cluster::new();
    cluster.ok(r#"{"prefix":"config-key set","key":"a/password","val":"secret"}"#);
    assert!(newest(&cluster).ends_with(" cmd=[{prefix=config-key set, key=a/password}]: dispatch"));
    cluster.ok(r#"{"prefix":"config set","who":"client","name":"rbd_cache_size","value":"4242"}"#);
    assert!(newest(&cluster).ends_with(" cmd=[{prefix=config set, name=rbd_cache_size}]: dispatch"));
}

#[test]
fn many_commands_leave_other_lines_and_do_not_grow_the_ledger() {
    let mut cluster = Cluster::with_rbd();
    let others = |cluster: &Cluster| cluster.mon.committed.log.len() - lines(cluster).len();
    let before = others(&cluster);
    for number in 0..510 {
        cluster.ok(&format!(r#"{{"prefix":"config-key set","key":"k","val":"{number}"}}"#));
    }
    assert_eq!((lines(&cluster).len(), others(&cluster)), (500, before));
    let contents = cluster.ledger.load().unwrap();
    let kept = contents.entries.iter().filter(|(key, _)| key.starts_with("log/")).count();
    assert_eq!(kept, 500 + before);
    cluster.restart();
    assert_eq!(lines(&cluster).len(), 500);
}
