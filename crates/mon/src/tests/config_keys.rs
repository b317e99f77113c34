//! Configuration keys that are options.

use super::cluster::Cluster;
use crate::{Ledger, LedgerTxn};

fn get(cluster: &mut Cluster, key: &str) -> String {
    cluster.text(&format!(r#"{{"prefix":"config-key get","key":"{key}"}}"#))
}

fn level(cluster: &Cluster) -> Option<String> {
    cluster.mon.option("debug_mon")
}

const SET: &str = r#"{"prefix":"config set","who":"global","name":"debug_mon","value":"10"}"#;

#[test]
fn an_option_without_a_section_is_one_of_global() {
    let mut cluster = Cluster::new();
    cluster.ok(SET);
    cluster.ok(r#"{"prefix":"config-key set","key":"config/debug_mon","val":"5/5"}"#);
    for _ in 0..2 {
        assert_eq!(level(&cluster).as_deref(), Some("5/5"));
        assert_eq!(get(&mut cluster, "config/debug_mon"), "5/5");
        assert_eq!(get(&mut cluster, "config/global/debug_mon"), "5/5");
        assert!(!cluster.text(r#"{"prefix":"config-key ls"}"#).contains("config/debug_mon"));
        cluster.restart();
    }
    cluster.ok(r#"{"prefix":"config-key rm","key":"config/debug_mon"}"#);
    for _ in 0..2 {
        assert_eq!(level(&cluster).as_deref(), Some("1/5"));
        assert_eq!(cluster.refused(r#"{"prefix":"config-key exists","key":"config/debug_mon"}"#).0, -2);
        cluster.restart();
    }
}

#[test]
fn both_keys_of_an_option_in_an_older_ledger_go_with_the_next_change() {
    for change in [SET, r#"{"prefix":"config rm","who":"global","name":"debug_mon"}"#] {
        let mut cluster = Cluster::new();
        let contents = cluster.ledger.load().unwrap();
        let text = |text: &str| crate::state::value(&text.to_owned());
        let ops = ["config/debug_mon", "config/global/debug_mon"].map(|key| (key.to_owned(), text("5/5")));
        cluster.ledger.commit(&LedgerTxn { expected: contents.revision, ops: ops.into() }).unwrap();
        cluster.restart();
        assert_eq!(get(&mut cluster, "config/debug_mon"), "5/5");
        cluster.ok(change);
        let now = level(&cluster);
        assert_ne!(now.as_deref(), Some("5/5"));
        cluster.restart();
        assert_eq!(level(&cluster), now);
    }
}
