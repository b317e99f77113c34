//! What `docs/compatibility/commands.md` says of every command, compared with what the monitor answers.

use std::collections::{BTreeMap, BTreeSet};

use messages::{MCommand, Message};
use serde_json::{Value, json};

use super::cluster::{ADMIN, Cluster};

const ROWS: &str = include_str!("../../../../xtask/data/surface/commands.tsv");

/// Commands that Ceph 16.2.15 describes, by place, and the describing itself: none may get lost.
const OF_CEPH: [(&str, usize); 4] = [("mon", 299), ("mgr", 286), ("tell mon", 44), ("tell mgr", 37)];

const ERRNOS: [(&str, i32); 6] =
    [("EPERM", 1), ("ENOENT", 2), ("EACCES", 13), ("EBUSY", 16), ("EINVAL", 22), ("EOPNOTSUPP", 95)];

/// A row of the data.
struct Row {
    place: &'static str,
    release: &'static str,
    sig: &'static str,
    is_served: bool,
    errno: &'static str,
}

fn rows(places: &[&str]) -> Vec<Row> {
    let row = |line: &'static str| {
        let cells: Vec<&str> = line.split('\t').collect();
        let [place, release, sig, state, errno, _] = cells[..] else { panic!("{line}") };
        Row { place, release, sig, is_served: state != "refused", errno }
    };
    let all = ROWS.lines().filter(|line| !line.starts_with('#')).map(row);
    all.filter(|row| places.contains(&row.place)).collect()
}

fn prefix(sig: &str) -> &str {
    sig.split(" name=").next().unwrap()
}

/// What its arguments are called.
fn names(sig: &str) -> impl Iterator<Item = &str> {
    sig.split(' ').filter_map(|word| word.strip_prefix("name=")).filter_map(|word| word.split(',').next())
}

/// The command with arguments of the right kind.
fn command(sig: &str) -> String {
    let mut args = serde_json::Map::from_iter([("prefix".to_owned(), Value::from(prefix(sig)))]);
    for param in sig.split(' ').filter(|word| word.starts_with("name=")) {
        let get = |key: &str| param.split(',').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
        if get("req") == Some("false") {
            continue;
        }
        let first = |key: &str| get(key).unwrap_or("1").split('|').next().unwrap().to_owned();
        let value = match get("type").unwrap() {
            "CephInt" => json!(first("range").parse::<i64>().unwrap_or(1)),
            "CephFloat" => json!(first("range").parse::<f64>().unwrap_or(1.0)),
            "CephBool" => json!(true),
            "CephChoices" => json!(first("strings")),
            "CephPoolname" => json!("rbd"),
            "CephPgid" => json!("1.0"),
            _ => json!("x"),
        };
        args.insert(get("name").unwrap().to_owned(), if get("n").is_some() { json!([value]) } else { value });
    }
    Value::Object(args).to_string()
}

/// What is wrong with the rows of `places`, where `ask` gives a command's result and output. What is served may be
/// listed in `others`.
fn faults(places: &[&str], others: &[&str], mut ask: impl FnMut(&str) -> (i32, String)) -> Vec<String> {
    let rows = rows(places);
    let descriptions: Value =
        serde_json::from_str(&ask(r#"{"prefix":"get_command_descriptions"}"#).1).unwrap();
    let words = |entry: &Value| {
        let words: Vec<&str> = entry["sig"].as_array().unwrap().iter().map_while(Value::as_str).collect();
        words.join(" ")
    };
    let arguments = |entry: &Value| {
        let names = entry["sig"].as_array().unwrap().iter().filter_map(|word| word["name"].as_str());
        names.map(str::to_owned).collect::<BTreeSet<String>>()
    };
    let known: BTreeMap<String, BTreeSet<String>> =
        descriptions.as_object().unwrap().values().map(|entry| (words(entry), arguments(entry))).collect();
    let mut served: BTreeSet<String> = known.keys().cloned().collect();
    served.insert("get_command_descriptions".to_owned());
    let listed: BTreeSet<String> =
        rows.iter().chain(&self::rows(others)).map(|row| prefix(row.sig).to_owned()).collect();
    let mut out: Vec<String> =
        served.difference(&listed).map(|prefix| format!("{prefix} is served and not listed")).collect();
    for row in &rows {
        let prefix = prefix(row.sig);
        if row.is_served && served.contains(prefix) {
            let missing =
                names(row.sig).filter(|name| known.get(prefix).is_some_and(|of| !of.contains(*name)));
            out.extend(missing.map(|name| format!("{}: {prefix} does not take {name}", row.place)));
            continue;
        }
        let result = ask(&command(row.sig)).0;
        if row.is_served {
            out.push(format!("{}: {prefix} is not served: {result}", row.place));
            continue;
        }
        let errno = ERRNOS.iter().find(|(name, _)| *name == row.errno).map(|(_, number)| -number);
        if Some(result) != errno {
            out.push(format!("{}: {prefix} answers {result}, not {}", row.place, row.errno));
        }
    }
    out
}

#[test]
fn no_command_of_ceph_is_left_out() {
    for (place, count) in OF_CEPH {
        assert_eq!(rows(&[place]).iter().filter(|row| row.release == "16.2").count(), count, "{place}");
    }
}

#[test]
fn commands_are_answered_as_listed() {
    let mut cluster = Cluster::with_rbd();
    // Both have one table here, and clients are told which to ask.
    let faults = faults(&["mon", "mgr"], &[], |json| {
        let ack = cluster.command(json);
        (ack.result, String::from_utf8(ack.output.to_vec()).unwrap())
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn commands_to_one_daemon_are_answered_as_listed() {
    let mut cluster = Cluster::with_rbd();
    let of_mon = faults(&["tell mon"], &[], |json| {
        let tid = cluster.say(ADMIN, MCommand { cmd: vec![json.to_owned()], ..MCommand::default() });
        let answer = cluster.sent.iter().find_map(|(_, t, message)| match message {
            Message::MCommandReply(reply) if *t == tid => Some(reply.clone()),
            _ => None,
        });
        let reply = answer.unwrap_or_else(|| panic!("no answer to {json}"));
        (reply.result, String::from_utf8(reply.output.to_vec()).unwrap())
    });
    assert!(of_mon.is_empty(), "{}", of_mon.join("\n"));
    let peer = cluster.peer(ADMIN);
    // The manager is told as it is asked.
    let of_mgr = faults(&["tell mgr"], &["mon", "mgr"], |json| {
        let command = MCommand { cmd: vec![json.to_owned()], ..MCommand::default() };
        match cluster.manage(&peer, command).pop() {
            Some(Message::MCommandReply(reply)) => {
                (reply.result, String::from_utf8(reply.output.to_vec()).unwrap())
            }
            other => panic!("{json}: {other:?}"),
        }
    });
    assert!(of_mgr.is_empty(), "{}", of_mgr.join("\n"));
}
