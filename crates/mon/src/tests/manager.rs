//! What clients say to the manager.

use std::time::Duration;

use messages::{
    MMgrClose, MMgrCommand, MMgrCommandReply, MMgrOpen, MMgrReport, MMonSubscribe, Message, SubscribeItem,
};

use super::cluster::{ADMIN, Cluster, addr};
use crate::{ConnId, Event, Peer};

fn ask(cluster: &mut Cluster, peer: &Peer, command: &str) -> MMgrCommandReply {
    let command = MMgrCommand { cmd: vec![command.to_owned()], ..MMgrCommand::default() };
    match cluster.manage(peer, command).pop() {
        Some(Message::MMgrCommandReply(reply)) => *reply,
        other => panic!("{other:?}"),
    }
}

#[test]
fn commands_of_the_manager_are_answered_and_others_are_not() {
    let mut cluster = Cluster::with_rbd();
    let admin = cluster.peer(ADMIN);
    let reply = ask(&mut cluster, &admin, r#"{"prefix":"pg stat"}"#);
    assert!(reply.result == 0 && reply.output.starts_with(b"8 pgs"), "{reply:?}");
    // One quotation mark too many, as `rbd perf image` sends it.
    assert_eq!(ask(&mut cluster, &admin, "{\"prefix\":\"osd df\"}\"").result, 0);
    let reply = ask(&mut cluster, &admin, r#"{"prefix":"osd nonsense"}"#);
    assert_eq!((reply.result, &*reply.status), (-22, "No handler found for 'osd nonsense'"));
    let reply = ask(&mut cluster, &admin, r#"{"prefix":"prometheus file_sd_config"}"#);
    assert!(reply.result == -95 && reply.status.starts_with("Module 'prometheus' is not enabled/loaded"));
    assert_eq!(ask(&mut cluster, &admin, r#"{"prefix":"osd down","ids":["0"]}"#).result, -22);
    let reply = ask(&mut cluster, &admin, r#"{"prefix":"get_command_descriptions"}"#);
    assert!(String::from_utf8_lossy(&reply.output).contains("pg"));
    // `-f plain` is no format.
    let reply =
        ask(&mut cluster, &admin, r#"{"prefix":"osd safe-to-destroy","ids":["all"],"format":"plain"}"#);
    assert!(reply.result != 0 && reply.output.is_empty(), "{reply:?}");
    let own = [
        "pg deep-scrub\",\"pgid\":\"1.0",
        "osd scrub\",\"who\":\"0",
        "osd pool set noautoscale",
        "pg force-recovery\",\"pgid\":[\"1.0\"],\"format\":\"json",
    ];
    for command in own {
        let reply = ask(&mut cluster, &admin, &format!("{{\"prefix\":\"{command}\"}}"));
        assert_eq!(reply.result, 0, "{command}: {reply:?}");
    }
    let nobody = Peer { name: types::EntityName::parse("client.nobody").unwrap(), ..admin };
    for command in [r#"{"prefix":"pg stat"}"#, r#"{"prefix":"rbd task list"}"#] {
        let reply = ask(&mut cluster, &nobody, command);
        assert!(reply.result == -13 && reply.status.starts_with("access denied:"), "{reply:?}");
    }
}

#[test]
fn the_key_of_the_manager_is_made_anew_when_it_was_removed() {
    let mut cluster = Cluster::new();
    cluster.mon.set_manager(addr(6800));
    cluster.pass(Duration::from_secs(1));
    let first = cluster.mon.manager_key().expect("a key");
    cluster.ok(r#"{"prefix":"auth rm","entity":"client.mgr.a"}"#);
    assert_eq!(cluster.mon.manager_key(), None);
    cluster.pass(Duration::from_secs(1));
    assert!(cluster.mon.manager_key().is_some_and(|key| key != first));
}

/// A subscription to the manager map, from an epoch on.
fn subscribe(start: u64) -> Event {
    let what = [("mgrmap".to_owned(), SubscribeItem { start, flags: 0 })].into();
    let message = MMonSubscribe { what, ..MMonSubscribe::default() }.into();
    Event::Received { conn: ADMIN, tid: 0, message }
}

/// The manager maps that were sent since the last call.
fn maps(cluster: &mut Cluster) -> Vec<messages::MgrMap> {
    let sent = std::mem::take(&mut cluster.sent).into_iter();
    let maps = sent.filter_map(|(conn, _, message)| match message {
        Message::MMgrMap(map) if conn == ConnId(1) => Some(map.mgrmap),
        _ => None,
    });
    maps.collect()
}

#[test]
fn subscribers_hear_of_each_change_of_the_manager_map() {
    let mut cluster = Cluster::new();
    cluster.mon.set_manager(addr(6800));
    cluster.event(subscribe(0));
    let first = maps(&mut cluster).remove(0);
    cluster.ok(r#"{"prefix":"mgr module enable","module":"prometheus"}"#);
    let [enabled] = &maps(&mut cluster)[..] else { panic!("one map") };
    assert!(enabled.epoch > first.epoch && enabled.modules.contains("prometheus"));
    let served = Some("127.0.0.1:9283".parse().unwrap());
    cluster.mon.set_metrics_served(served);
    cluster.pass(Duration::from_secs(1));
    let shown = cluster.json(r#"{"prefix":"status"}"#)["mgrmap"].clone();
    assert_eq!(shown["modules"], serde_json::json!(enabled.modules));
    assert_eq!(shown["services"], serde_json::json!({"prometheus": "http://127.0.0.1:9283/"}));
    let [told] = &maps(&mut cluster)[..] else { panic!("one map") };
    assert!(told.epoch > enabled.epoch && told.services["prometheus"] == "http://127.0.0.1:9283/");
    cluster.mon.set_metrics_served(served);
    cluster.ok(r#"{"prefix":"mgr module enable","module":"prometheus"}"#);
    cluster.pass(Duration::from_secs(1));
    assert_eq!(maps(&mut cluster), []);
    // The clock goes back to where it was when the cluster was made, and further.
    cluster.now = types::Instant(0);
    cluster.restart();
    cluster.mon.set_manager(addr(6801));
    cluster.event(subscribe(u64::from(told.epoch.0) + 1));
    assert_eq!(maps(&mut cluster)[0].active_addrs, addr(6801), "a later life is newer");
}

#[test]
fn subscribers_learn_where_the_manager_is_once() {
    let mut cluster = Cluster::new();
    cluster.event(subscribe(0));
    assert_eq!(maps(&mut cluster), [], "nobody listens");
    cluster.mon.set_manager(addr(6800));
    cluster.event(subscribe(0));
    let map = maps(&mut cluster).remove(0);
    assert!(map.available && map.active_addrs == addr(6800) && map.active_gid > 0);
    cluster.event(subscribe(u64::from(map.epoch.0) + 1));
    assert_eq!(maps(&mut cluster), []);
}

/// Clients send commands to where the flags of their description say.
#[test]
fn clients_are_told_which_commands_are_the_managers() {
    let mut cluster = Cluster::new();
    let all: serde_json::Value =
        serde_json::from_str(&cluster.text(r#"{"prefix":"get_command_descriptions"}"#)).unwrap();
    let flags = |words: &[&str]| {
        let is_it = |entry: &&serde_json::Value| {
            entry["sig"].as_array().unwrap().iter().map_while(|word| word.as_str()).eq(words.iter().copied())
        };
        all.as_object().unwrap().values().find(is_it).unwrap()["flags"].as_u64().unwrap()
    };
    for words in [&["pg", "dump"][..], &["pg", "repair"], &["osd", "df"], &["osd", "purge"], &["crash", "ls"]]
    {
        assert_eq!(flags(words), 8, "{words:?}");
    }
    assert_eq!(flags(&["iostat"]), 24);
    for words in [&["osd", "dump"][..], &["status"], &["auth", "ls"], &["mgr", "dump"], &["pg", "map"]] {
        assert_eq!(flags(words), 0, "{words:?}");
    }
}

#[test]
fn service_daemons_are_listed_while_they_report() {
    let mut cluster = Cluster::with_rbd();
    let daemon = cluster.peer(ADMIN);
    let json = |cluster: &mut Cluster, command: &str| -> serde_json::Value {
        let text = cluster.text(&format!(r#"{{"prefix":"{command}","format":"json"}}"#));
        serde_json::from_str(&text).unwrap()
    };
    assert_eq!(json(&mut cluster, "service dump")["services"], serde_json::json!({}));
    let (daemon_name, service_name) = ("4107".to_owned(), "rbd-mirror".to_owned());
    let facts = |key: &str, value: &str| [(key.to_owned(), value.to_owned())].into();
    let open = MMgrOpen {
        daemon_name: daemon_name.clone(),
        service_name: service_name.clone(),
        service: Some((facts("hostname", "h"), facts("json", "{}"))),
        ..MMgrOpen::default()
    };
    let answer = cluster.manage(&daemon, open.clone());
    assert!(matches!(answer.first(), Some(Message::MMgrConfigure(how)) if how.stats_period_sec > 0));
    let dump = json(&mut cluster, "service dump");
    assert_eq!(dump["services"]["rbd-mirror"]["daemons"]["4107"]["metadata"]["hostname"], "h");
    assert!(cluster.text(r#"{"prefix":"status"}"#).contains("rbd-mirror: 1 daemon active (1 hosts)"));
    let versions = json(&mut cluster, "versions");
    let kinds: Vec<&String> = versions.as_object().unwrap().keys().collect();
    assert_eq!(kinds, ["mon", "mgr", "osd", "mds", "rbd-mirror", "overall"]);
    let unknown = ["rbd-mirror", "osd", "overall"].map(|of| versions[of]["unknown"].clone());
    assert_eq!(unknown, [1, 3, 4]);
    let report = MMgrReport {
        daemon_name: daemon_name.clone(),
        service_name: service_name.clone(),
        status: Some(facts("json", "{1}")),
        ..MMgrReport::default()
    };
    assert!(cluster.manage(&daemon, report).is_empty());
    assert_eq!(json(&mut cluster, "service status")["rbd-mirror"]["4107"]["status"]["json"], "{1}");
    assert_eq!(cluster.manage(&daemon, MMgrClose { daemon_name, service_name }).len(), 1);
    assert_eq!(json(&mut cluster, "service status"), serde_json::json!({}));
    // One that falls silent is forgotten.
    cluster.manage(&daemon, open);
    cluster.pass(std::time::Duration::from_secs(70));
    assert_eq!(json(&mut cluster, "service dump")["services"], serde_json::json!({}));
}

#[test]
fn modules_are_enabled_and_their_commands_refused_while_they_are_not() {
    let mut cluster = Cluster::with_rbd();
    let module = |verb: &str, name: &str| format!(r#"{{"prefix":"mgr module {verb}","module":"{name}"}}"#);
    assert_eq!(cluster.ok(&module("enable", "iostat")), "module 'iostat' is already enabled");
    assert_eq!(
        cluster.refused(&module("disable", "crash")).1,
        "module 'crash' cannot be disabled (always-on)"
    );
    assert_eq!(cluster.refused(&module("enable", "zabbix")).0, -2);
    let (code, text) = cluster.refused(r#"{"prefix":"zabbix config-show"}"#);
    assert!(code == -95 && text.ends_with("'zabbix config-show'): it is not part of Loligo"), "{text}");
    cluster.ok(&module("disable", "iostat"));
    cluster.restart();
    let (code, text) = cluster.refused(r#"{"prefix":"iostat"}"#);
    assert!(
        code == -95
            && text.starts_with("Module 'iostat' is not enabled/loaded (required by command 'iostat')")
    );
    cluster.ok(&module("enable", "iostat"));
    assert!(cluster.text(r#"{"prefix":"iostat","print_header":true}"#).contains("Total IOPS"));
}

#[test]
fn crashes_are_kept_and_a_warning_until_they_are_acknowledged() {
    let mut cluster = Cluster::with_rbd();
    let stamp = cluster.wall().to_string().replace("+0000", "Z");
    let report = format!(
        r#"{{"crash_id":"c1","timestamp":"{stamp}","entity_name":"osd.1","backtrace":["(f()+0x1) [0x2]"]}}"#
    );
    let post = r#"{"prefix":"crash post"}"#;
    assert_eq!(cluster.try_command(ADMIN, post, report.as_bytes()).unwrap().result, 0);
    assert_eq!(cluster.try_command(ADMIN, post, b"{}").unwrap().result, 22);
    let nothing = cluster.try_command(ADMIN, post, b"").unwrap();
    assert!(nothing.status.ends_with("Expecting value: line 1 column 1 (char 0)"), "{}", nothing.status);
    cluster.restart();
    let health = cluster.text(r#"{"prefix":"health"}"#);
    assert!(health.contains("1 daemons have recently crashed"), "{health}");
    assert_eq!(cluster.text(r#"{"prefix":"crash ls-new"}"#), "ID  ENTITY  NEW  \nc1  osd.1    *   \n");
    assert!(cluster.text(r#"{"prefix":"crash info","id":"c1"}"#).contains("\"stack_sig\": "));
    cluster.ok(r#"{"prefix":"crash archive","id":"c1"}"#);
    assert_eq!(cluster.text(r#"{"prefix":"crash ls-new"}"#), "");
    assert!(!cluster.text(r#"{"prefix":"health"}"#).contains("crashed"));
    assert!(cluster.text(r#"{"prefix":"crash stat"}"#).starts_with("1 crashes recorded"));
    for days in ["5000000000", "-5000000000"] {
        let never = cluster.command(&format!(r#"{{"prefix":"crash prune","keep":"{days}"}}"#));
        assert_eq!((never.result, never.status.as_str()), (22, "date value out of range"));
    }
    assert!(cluster.text(r#"{"prefix":"crash stat"}"#).starts_with("1 crashes recorded"));
    cluster.ok(r#"{"prefix":"crash rm","id":"c1"}"#);
    assert_eq!(cluster.text(r#"{"prefix":"crash ls"}"#), "");
    // What is a year old is removed.
    let old = |year: u32| {
        format!(
            r#"{{"crash_id":"{year}","timestamp":"{year}-12-01T00:00:00.000000Z","entity_name":"osd.1","backtrace":[]}}"#
        )
    };
    for year in [2020, 2025] {
        assert_eq!(cluster.try_command(ADMIN, post, old(year).as_bytes()).unwrap().result, 0);
    }
    cluster.pass(std::time::Duration::from_secs(61));
    assert!(cluster.text(r#"{"prefix":"crash stat"}"#).starts_with("1 crashes recorded"));
}

#[test]
fn only_the_newest_crashes_are_kept() {
    let mut cluster = Cluster::with_rbd();
    let post = |cluster: &mut Cluster, at: u32| {
        let (minute, second) = (at / 60, at % 60);
        // Ids are in no order.
        let report = format!(
            r#"{{"crash_id":"{}","timestamp":"2026-09-20T00:{minute:02}:{second:02}.0Z","entity_name":"{}"}}"#,
            at * 7_919 % 100_003,
            "e".repeat(300),
        );
        let ack = cluster.try_command(ADMIN, r#"{"prefix":"crash post"}"#, report.as_bytes()).unwrap();
        assert_eq!(ack.result, 0, "{}", ack.status);
    };
    let has = |cluster: &Cluster, at: u32| {
        let id = (at * 7_919 % 100_003).to_string();
        let key = format!("mgr/crash/crash/{id}");
        let state = &cluster.mon.committed;
        assert_eq!(state.crashes.contains_key(&id), state.config_keys.contains_key(&key));
        state.config_keys.contains_key(&key)
    };
    (1..=1_000).for_each(|at| post(&mut cluster, at));
    assert!(has(&cluster, 1));
    post(&mut cluster, 1_001);
    assert!(!has(&cluster, 1) && has(&cluster, 2) && has(&cluster, 1_001));
    // One that is older than all that are kept is not.
    post(&mut cluster, 0);
    assert!(!has(&cluster, 0) && has(&cluster, 2));
    assert!(cluster.text(r#"{"prefix":"crash stat"}"#).starts_with("1000 crashes recorded"));
    cluster.restart();
    let lines = cluster.mon.recent_crashes(cluster.wall());
    assert_eq!(lines.len(), 1_000);
    assert!(lines[0].starts_with(&format!("{} crashed on host (unknown) at 2026-09-20T", "e".repeat(255))));
}

#[test]
fn what_somebody_else_has_kept_for_a_module_is_no_report() {
    let mut cluster = Cluster::with_rbd();
    for (key, val) in [
        ("mgr/crash/crash/x", "[]"),
        ("mgr/crash/crash/y", "7"),
        ("mgr/progress/completed", r#"{\"events\":[{\"message\":\"m\",\"started_at\":-1e300},[]]}"#),
    ] {
        cluster.ok(&format!(r#"{{"prefix":"config-key set","key":"{key}","val":"{val}"}}"#));
    }
    let archive = cluster.command(r#"{"prefix":"crash archive","id":"x"}"#);
    assert_eq!((archive.result, archive.status.as_str()), (22, "crash info: x not found"));
    cluster.ok(r#"{"prefix":"crash archive-all"}"#);
    assert!(cluster.text(r#"{"prefix":"crash stat"}"#).starts_with("0 crashes recorded"));
    cluster.restart();
    assert!(cluster.text(r#"{"prefix":"progress"}"#).starts_with("\n[Complete]: m (584942417355y)\n"));
}
