//! The configuration database; expectations are what 16.2.15 says.

use serde_json::Value;

use super::cluster::{ADMIN, Cluster};

fn set(who: &str, name: &str, value: &str) -> String {
    format!(r#"{{"prefix":"config set","who":"{who}","name":"{name}","value":"{value}"}}"#)
}

fn dump(cluster: &mut Cluster) -> Vec<String> {
    let doc: Value =
        serde_json::from_str(&cluster.text(r#"{"prefix":"config dump","format":"json"}"#)).unwrap();
    let line = |entry: &Value| {
        let text = |key: &str| entry[key].as_str().unwrap().to_owned();
        format!("{}|{}|{}={}", text("section"), text("mask"), text("name"), text("value"))
    };
    doc.as_array().unwrap().iter().map(line).collect()
}

#[test]
fn options_are_checked() {
    let mut cluster = Cluster::new();
    for (who, name, value, text) in [
        ("foo", "rbd_cache", "true", "unrecognized config target 'foo'"),
        ("client", "nosuch", "1", "unrecognized config option 'nosuch'"),
        ("client", "rbd-cache", "1", "unrecognized config option 'rbd-cache'"),
        ("client", "mon_host", "x", "mon_host is special and cannot be stored by the mon"),
        ("osd", "osd_memory_target", "1", "error parsing value: Value '1' is below minimum 939524096"),
    ] {
        assert_eq!(cluster.refused(&set(who, name, value)), (-22, text.to_owned()));
    }
    cluster.ok(&set("client", "rbd cache", "1"));
    cluster.ok(r#"{"prefix":"config set","who":"client","name":"nosuch","value":"1","force":true}"#);
    assert_eq!(dump(&mut cluster), ["client||nosuch=1", "client||rbd_cache=true"]);
}

#[test]
fn changes_are_remembered_and_undone() {
    let mut cluster = Cluster::new();
    cluster.ok(&set("osd", "osd_max_backfills", "2"));
    cluster.ok(&set("osd/host:h", "osd_max_backfills", "3"));
    cluster.ok(&set("osd", "osd_max_backfills", "4"));
    cluster.ok(&set("osd", "osd_max_backfills", "4"));
    cluster.ok(r#"{"prefix":"config-key set","key":"config/osd.1/osd_max_scrubs","val":"7"}"#);
    let all = ["osd|host:h|osd_max_backfills=3", "osd||osd_max_backfills=4", "osd.1||osd_max_scrubs=7"];
    assert_eq!(dump(&mut cluster), all);
    let log = cluster.text(r#"{"prefix":"config log"}"#);
    let changes: Vec<&str> = log.lines().filter(|line| !line.starts_with("---")).collect();
    let expected = [
        "- osd/osd_max_backfills = 2",
        "+ osd/osd_max_backfills = 4",
        "+ osd/host:h/osd_max_backfills = 3",
        "+ osd/osd_max_backfills = 2",
    ];
    assert_eq!(changes, expected);
    assert_eq!(cluster.refused(r#"{"prefix":"config reset","num":9}"#).0, -22);
    cluster.ok(r#"{"prefix":"config reset","num":2}"#);
    assert_eq!(dump(&mut cluster), ["osd||osd_max_backfills=2", "osd.1||osd_max_scrubs=7"]);
    assert!(cluster.text(r#"{"prefix":"config log","num":1}"#).contains("--- reset to 2 ---\n- osd/host:h/"));
    cluster.ok(r#"{"prefix":"config reset","num":4}"#);
    assert_eq!(dump(&mut cluster), all);
    // What modules change is in the history, too.
    cluster.ok(r#"{"prefix":"balancer mode","mode":"none"}"#);
    assert_eq!(dump(&mut cluster).len(), all.len() + 1);
    cluster.ok(r#"{"prefix":"config reset","num":4}"#);
    assert_eq!(dump(&mut cluster), all);
}

#[test]
fn a_file_is_taken_in() {
    let mut cluster = Cluster::new();
    cluster.ok(&set("osd", "osd_max_backfills", "2"));
    let conf = b"[global]\nmon host = 1.2.3.4\ndebug osd = 3\nnosuch = 5\n[osd]\nosd max backfills = 4\n\
                 osd max scrubs = bad\n[osd/host:x]\nosd-max-backfills = 9\n[foo]\nrbd cache = true\n";
    let reply = cluster.try_command(ADMIN, r#"{"prefix":"config assimilate-conf"}"#, conf).unwrap();
    assert_eq!(
        std::str::from_utf8(&reply.output).unwrap(),
        "\n[foo]\n\trbd_cache = true\n\n[global]\n\tmon_host = 1.2.3.4\n\tnosuch = 5\n\n[osd]\n\
         \tosd_max_backfills = 4\n\tosd_max_scrubs = bad\n"
    );
    let all = ["global||debug_osd=3/3", "osd|host:x|osd_max_backfills=9", "osd||osd_max_backfills=2"];
    assert_eq!(dump(&mut cluster), all);
    let bad = cluster.try_command(ADMIN, r#"{"prefix":"config assimilate-conf"}"#, b"[x").unwrap();
    assert_eq!(bad.result, -22);
}

/// Keys of the history are keys like others: a client that may write them must not make work for the monitor.
#[test]
fn a_forged_version_is_one_version() {
    let mut cluster = Cluster::new();
    cluster.ok(&set("osd", "osd_max_backfills", "2"));
    cluster.ok(&set("osd", "osd_max_backfills", "3"));
    let forge = |version: u64| {
        format!(r#"{{"prefix":"config-key set","key":"config-history/{version}/","val":"x"}}"#)
    };
    cluster.ok(&forge(1_000_000_000_000));
    assert!(cluster.text(r#"{"prefix":"config log","num":1000000000000}"#).contains("--- 1000000000000 ---"));
    cluster.ok(r#"{"prefix":"config reset","num":2}"#);
    assert_eq!(dump(&mut cluster), ["osd||osd_max_backfills=2"]);
    cluster.ok(&forge(u64::MAX));
    cluster.ok(&set("osd", "osd_max_backfills", "4"));
    assert_eq!(dump(&mut cluster), ["osd||osd_max_backfills=4"]);
}
