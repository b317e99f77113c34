//! Commands on file systems and metadata servers, of which there are none: what 16.2.15 answers where there are none.

use messages::{MMgrCommand, Message};
use serde_json::json;

use super::cluster::{ADMIN, Cluster};

#[test]
fn what_only_looks_finds_nothing() {
    let mut cluster = Cluster::new();
    let mut check = |command: &str, text: &str| {
        assert_eq!(cluster.text(&format!(r#"{{"prefix":{command}}}"#)), text, "{command}");
    };
    check(r#""fs ls""#, "No filesystems enabled\n");
    check(r#""fs ls","format":"json""#, "[]\n");
    check(r#""fs status""#, "");
    check(r#""fs status","format":"json""#, "{}\n");
    check(r#""fs volume ls""#, "[]\n");
    check(r#""mds stat""#, "");
    check(r#""mds metadata""#, "[]\n");
    check(r#""mds versions""#, "{}\n");
    check(r#""mds count-metadata","property":"ceph_version""#, "{}\n");
    let compat = cluster.text(r#"{"prefix":"mds compat show"}"#);
    assert!(compat.starts_with("compat={},rocompat={},incompat={1=base v0.20,2="), "{compat}");
    assert!(
        cluster
            .text(r#"{"prefix":"fs dump","epoch":1}"#)
            .contains("\ndefault compat: compat={},rocompat={},")
    );
    let compat = cluster.json(r#"{"prefix":"mds compat show"}"#);
    assert_eq!(compat["incompat"]["feature_10"], "snaprealm v2");
    assert_eq!(cluster.json(r#"{"prefix":"fs dump"}"#)["compat"], compat);
    assert!(
        cluster.text(r#"{"prefix":"fs feature ls"}"#).ends_with("17 op_getvxattr\n18 32bits_retry_fwd\n")
    );
    let features = cluster.json(r#"{"prefix":"fs feature ls"}"#);
    assert_eq!(features[5], json!({"index": 5, "name": "jewel"}));
}

#[test]
fn what_is_not_there_is_gone_already() {
    let mut cluster = Cluster::new();
    let mut check = |command: &str, status: &str| {
        assert_eq!(cluster.ok(&format!(r#"{{"prefix":{command}}}"#)), status, "{command}");
    };
    check(r#""fs rm","fs_name":"x""#, "filesystem 'x' does not exist");
    check(r#""mds ok-to-stop","ids":["x","y"]"#, "should be safe to stop [x,y]");
    check(r#""mds rm","gid":7"#, "mds gid 7 does not exist");
    check(r#""fs flag set","flag_name":"enable_multiple","val":"true""#, "");
    let failed = cluster.ok(r#"{"prefix":"mds fail","role_or_gid":"x"}"#);
    assert!(failed.starts_with("MDS named 'x' does not exist"), "{failed}");
    let absent = cluster.ok(r#"{"prefix":"mds compat rm_incompat","feature":77}"#);
    assert!(absent.starts_with("incompat feature 77 not present in compat={}"), "{absent}");
}

#[test]
fn what_names_a_file_system_or_makes_one_is_refused() {
    let mut cluster = Cluster::with_rbd();
    for (command, errno, status) in [
        (r#""fs get","fs_name":"x""#, -2, "filesystem 'x' not found"),
        (r#""fs set","fs_name":"x","var":"max_mds","val":"2""#, -2, "Filesystem not found: 'x'"),
        (r#""fs dump","epoch":77"#, -2, ""),
        (r#""fs new","fs_name":"x","metadata":"rbd","data":"rbd""#, -95, "there are no file systems here"),
        (r#""fs volume create","name":"x""#, -95, "there are no file systems here"),
        (r#""fs flag set","flag_name":"enable_multiple","val":"no""#, -95, "there are no file systems here"),
        (r#""fs flag set","flag_name":"enable_multiple","val":"q""#, -22, "Invalid boolean value 'q'"),
        (r#""mds compat rm_incompat","feature":10"#, -95, "there are no file systems here"),
        (
            r#""fs authorize","filesystem":"x","entity":"client.a","caps":["/","r"]"#,
            -22,
            "filesystem x does not exist.",
        ),
        (
            r#""fs authorize","filesystem":"*","entity":"client.a","caps":["/","r"]"#,
            -95,
            "there are no file systems here",
        ),
        (r#""mds repaired","role":"0""#, -2, "No filesystem selected"),
        (
            r#""mds rmfailed","role":"x:0","yes_i_really_mean_it":true"#,
            -22,
            "Invalid filesystem, invalid role 'x:0'",
        ),
        (r#""fs subvolume ls","vol_name":"x""#, -2, "FS 'x' not found"),
    ] {
        assert_eq!(
            cluster.refused(&format!(r#"{{"prefix":{command}}}"#)),
            (errno, status.to_owned()),
            "{command}"
        );
    }
    let nobody = cluster.try_command(ADMIN, r#"{"prefix":"mds metadata","who":"x"}"#, b"").unwrap();
    assert_eq!((nobody.result, &nobody.output[..]), (-22, &b"{}\n"[..]));
    assert!(!cluster.text(r#"{"prefix":"auth ls"}"#).contains("client.a\n"));
}

/// A volume is not lost by accident: deletion of pools must be allowed, and the operator must confirm it.
#[test]
fn removal_of_a_volume_is_guarded_as_that_of_its_pools() {
    let mut cluster = Cluster::new();
    let peer = cluster.peer(ADMIN);
    let rm = |cluster: &mut Cluster, more: &str| {
        let command = format!(r#"{{"prefix":"fs volume rm","vol_name":"x"{more}}}"#);
        let ask = MMgrCommand { cmd: vec![command], ..MMgrCommand::default() };
        match cluster.manage(&peer, ask).pop() {
            Some(Message::MMgrCommandReply(reply)) => reply.result,
            other => panic!("{other:?}"),
        }
    };
    let meant = r#","yes-i-really-mean-it":"--yes-i-really-mean-it""#;
    let allow = |value| {
        format!(r#"{{"prefix":"config set","who":"mon","name":"mon_allow_pool_delete","value":"{value}"}}"#)
    };
    cluster.ok(&allow("true"));
    assert_eq!(rm(&mut cluster, ""), -1);
    assert_eq!(rm(&mut cluster, meant), -2);
    cluster.ok(&allow("false"));
    assert_eq!(rm(&mut cluster, meant), -1);
}
