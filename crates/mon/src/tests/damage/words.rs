//! What arguments may be: what fits, what lies at the end of a range, and what does not fit.

use std::sync::OnceLock;

use bytes::Bytes;
use proptest::sample::Index;
use serde_json::{Value, json};
use types::{EntityType, is_observed, options};

use super::{
    commands::{Command, Param},
    ledger,
};

/// A report of a crash.
pub(super) const CRASH: &str = r#"{"crash_id": "c1", "timestamp": "2026-09-20T10:00:00.123456Z", "entity_name": "osd.1",
    "backtrace": ["(a()+0x1) [0x1]"], "assert_msg": "f.cc: In thread 7f time 2026 f.cc: 1: FAILED",
    "process_name": "osd"}"#;

const KEYRING: &str =
    "[client.b]\n\tkey = AQC5hLZnSPIpEhAA3C4M1VzUe8cNVjzmXWYZ3g==\n\tcaps mon = \"allow r\"\n";
const CONF: &str = "[global]\nmon_max_pg_per_osd = 300\n[osd]\ndebug ms = 1\n[client.x]\nfoo = bar\n";
const SECRETS: &str = r#"{"cephx_secret": "AQC5hLZnSPIpEhAA3C4M1VzUe8cNVjzmXWYZ3g==",
    "cephx_lockbox_secret": "AQC5hLZnSPIpEhAA3C4M1VzUe8cNVjzmXWYZ3g==", "dmcrypt_key": "x"}"#;
const UUID: &str = "11111111-2222-3333-4444-555555555555";

const POOLS: &[&str] = &["rbd", "data", "cache", "new", "nope"];
const OSDS: &[&str] = &["0", "osd.1", "2", "3", "all", "20", "-1"];
const ITEMS: &[&str] =
    &["osd.0", "vm", "default", "rack1", "lone", "new", "osd.2", "osd.3", "default~ssd", "a b"];
const RULES: &[&str] = &["other_rule", "replicated_rule", "new_rule", ""];
const KINDS: &[&str] = &["host", "rack", "root", "osd", "nope"];
const CLASSES: &[&str] = &["ssd", "hdd", "new", ""];
const ENTITIES: &[&str] = &[
    "client.a",
    "client.new",
    "osd.1",
    "osd.5",
    "mgr.x",
    "client",
    "client.",
    "mon.",
    "client.\u{e9}/ x",
    "x.y",
];
const TARGETS: &[&str] = &[
    "mon",
    "global",
    "osd",
    "osd.1",
    "mgr",
    "client",
    "client.a",
    "osd/class:ssd",
    "osd/host:vm",
    "mon.a",
    "x",
];
const NUMBERS: &[&str] = &[
    "1",
    "0",
    "2",
    "3",
    "true",
    "false",
    "-1",
    "1.5",
    "0.5",
    "8",
    "16",
    "100",
    "4Ki",
    "10M",
    "unset",
    "on",
    "off",
    "host",
    "1h",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "4294967295",
    "4294967296",
    "2147483648",
    "1e308",
    "-1e308",
    "1e-308",
    "nan",
    "inf",
    "",
    "none",
    "default",
    "16E",
    "17179869184G",
    "other_rule",
    "data",
    "aggressive",
    "crc32c",
    "10.0.0.1",
];
const LEVELS: &[&str] =
    &["", "rbd/", "rbd//", "rbd/i", "rbd/n/", "rbd/n/i", "data/", "/", "rbd", "rbd/-i", "a/b/c/d"];
const IMAGES: &[&str] =
    &["rbd/i", "i", "rbd/n/i", "rbd/", "nope/i", "rbd/i@s", "data/i", "a/b/c/d", "rbd/--i"];

/// Words by how the command begins and by the argument's name, the more special ones first; a list is one of a list of
/// lists.
const WORDS: &[(&str, &str, &[&str])] = &[
    ("osd crush rule", "name", RULES),
    ("osd crush rule", "srcname", RULES),
    ("osd crush rule", "dstname", RULES),
    ("osd crush class", "", CLASSES),
    ("osd crush", "class", CLASSES),
    ("osd crush", "type", KINDS),
    ("osd crush", "profile", &["p1", "default", ""]),
    ("osd crush", "ids", OSDS),
    ("osd crush", "name", ITEMS),
    ("osd crush", "item", ITEMS),
    ("osd crush", "source", ITEMS),
    ("osd crush", "dest", ITEMS),
    ("osd crush", "srcname", ITEMS),
    ("osd crush", "dstname", ITEMS),
    ("osd crush", "root", ITEMS),
    ("osd crush", "node", ITEMS),
    ("osd crush", "ancestor", ITEMS),
    ("osd", "bucket", ITEMS),
    ("osd erasure", "name", &["p1", "default", "new"]),
    ("osd pool application", "app", &["rbd", "rgw", "new", ""]),
    ("osd pool application", "", &["k", "v", "", "a=b"]),
    ("osd pool", "snap", &["s1", "s2", ""]),
    ("osd pool", "rule", RULES),
    (
        "osd pool set-quota",
        "val",
        &["1", "0", "10Ki", "16E", "15E", "18446744073709551615", "-1", "1.5", "x", "1KiB"],
    ),
    ("osd pool", "val", NUMBERS),
    ("osd", "flags", &["noup", "noup,noout", "nodown noin", "", "x", "noup=noin"]),
    ("osd set-require", "version", &["luminous", "jewel", "pacific", "argonaut", "x"]),
    ("osd", "who", &["osd.0", "vm", "ssd", "default", "all", "1", "99999999999", "*"]),
    ("osd", "uuid", &[UUID, "00000000-0000-0000-0000-000000000000", "x"]),
    ("osd", "filter", &["ssd", "rbd", "vm", "x"]),
    ("osd", "property", &["hostname", "", "x"]),
    (
        "config-key",
        "key",
        &["k", "config/global/debug_ms", "config/mon/x", "config/", "mgr/crash/crash/c2", "a/b", ""],
    ),
    ("config-key", "val", &["v", "{}", "1", ""]),
    ("config", "who", TARGETS),
    ("config", "name", &[]),
    ("config", "key", &[]),
    ("config", "var", &[]),
    ("config", "value", NUMBERS),
    ("config", "val", NUMBERS),
    ("injectargs", "", &["--mon_max_pg_per_osd=1", "--debug_mon 5", "--no-x", "--", "x"]),
    ("mgr module", "module", &["prometheus", "iostat", "balancer", "snap_schedule", "nope", ""]),
    ("health", "code", &["OSD_DOWN", "POOL_NO_REDUNDANCY", "X", ""]),
    (
        "health",
        "ttl",
        &["1h", "10s", "0", "-1s", "3.5h", "99999999999999999999w", "18446744073709551615s", "9y", "x"],
    ),
    ("balancer", "plan", &["p", "q", ""]),
    ("balancer", "option", &["p", "rbd", "data", "nope"]),
    ("balancer", "pools", POOLS),
    ("crash", "id", &["c1", "c2", ""]),
    ("crash", "keep", &["1", "0", "-1", "9223372036854775807", "-9223372036854775808", "3000000", "x"]),
    ("crash", "hours", &["1", "-1", "9223372036854775807", "x"]),
    ("device", "devid", &["d", "", "x"]),
    ("device", "", &["2026-01-01", "1-1-1", "osd.1", "mon.a", "vm", "mgr.a", "99999999999-1-1", "-1", "x"]),
    ("auth", "entity", ENTITIES),
    ("fs authorize", "entity", ENTITIES),
    ("auth", "key_type", &["aes", "aes256k", "", "x"]),
    ("mon set ", "value", &["aes", "aes256k", "aes,aes256k", "", "x"]),
    ("mon set e", "strategy", &["classic", "disallow", "connectivity", "x"]),
    ("mon", "name", &["a", "b", ""]),
    ("mon", "id", &["a", "b"]),
    ("mon", "ids", &["a", "b"]),
    ("log", "logtext", &["a line", "", "\n"]),
    ("pg", "states", &["active", "clean", "all", "undersized", "x"]),
    ("pg", "poolstr", POOLS),
    ("rbd", "level_spec", LEVELS),
    ("rbd", "image_spec", IMAGES),
    ("rbd", "image_id_spec", IMAGES),
    ("rbd", "pool_spec", &["rbd", "rbd/n", "", "/", "a/b/c"]),
    (
        "rbd",
        "interval",
        &["1h", "10m", "1d", "36500d", "0", "-1m", "18446744073709551615", "307445734561825860h", "\u{663}m"],
    ),
    (
        "rbd",
        "start_time",
        &["14:00", "00:00:00+02:00", "2024-01-31T14:00Z", "23:59:59.9-23:59", "10:00+-1", "24:00", "x"],
    ),
    ("rbd", "task_id", &["", "x"]),
    ("progress", "", &["x"]),
    ("perf", "", &["mon", "cluster", "all", "num_osd", "x", ""]),
    ("heap", "value", NUMBERS),
];

/// Arguments that are lists of words which belong together.
const LISTS: &[(&str, &str, &[&[&str]])] = &[
    (
        "osd crush",
        "args",
        &[
            &["root=default"],
            &["host=vm", "root=default"],
            &["rack=rack1"],
            &["host=lone"],
            &["host=new", "rack=rack1", "root=default"],
            &["host=osd.0"],
            &["osd=vm"],
            &["root=default root=default"],
            &["rack=vm"],
            &["x=y"],
            &["=", "a=b=c"],
            &[],
        ],
    ),
    (
        "",
        "caps",
        &[
            &["mon", "allow r"],
            &["osd", "allow rwx pool=rbd"],
            &["mon", "profile rbd", "osd", "profile rbd"],
            &["mds", "allow *"],
            &["mon", "allow command \"x\" with a=b"],
            &["mon"],
            &["mon", "nonsense"],
            &["", ""],
            &[],
        ],
    ),
    (
        "osd",
        "profile",
        &[
            &["k=2", "m=1", "crush-failure-domain=osd"],
            &["k=4294967295", "m=-1"],
            &["plugin=x"],
            &["k=0", "m=0"],
            &["k"],
            &[],
        ],
    ),
    ("osd crush weight-set", "weight", &[&["1.0"], &["1.0", "0.5", "2"], &["0", "0", "0"], &["1e308"], &[]]),
    (
        "osd",
        "id",
        &[&["0", "1"], &["1", "2"], &["0", "1", "2"], &["1", "0", "2", "0"], &["-1"], &["0"], &["20", "0"]],
    ),
    ("", "pools", &[&["rbd"], &["rbd", "data"], &["nope"], &[]]),
    ("", "injected_args", &[&["--mon_max_pg_per_osd", "1"], &["--debug_mon=5"], &["--", "x"]]),
];

/// What is no value of any argument, or the last one of its kind.
const ODD: &[&str] = &[
    "",
    "\0",
    "a\0b",
    " ",
    "\n",
    "=",
    "-",
    "--",
    "*",
    "..",
    "/",
    "//",
    "\u{e9}\u{1f600}",
    "\u{feff}",
    "\"",
    "\\",
    "'",
    "NaN",
    "inf",
    "-inf",
    "1e308",
    "-1e308",
    "1e309",
    "1e-320",
    "-0",
    "-1",
    "0x10",
    "+1",
    "1.",
    ".5",
    "osd.-1",
    "osd.2147483647",
    "osd.9999",
    "osd.10000",
    "2147483647",
    "2147483648",
    "-2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999",
    "1.ffffffff",
    "-1.0",
    "9223372036854775807.0",
    "0.0",
    "::/0",
    "0.0.0.0/0",
    "1.2.3.4/33",
    "1.2.3.4:0/4294967296",
    "[::]:99999/1",
    "v1:",
    "v2:[::1]:3300/0",
    "client.admin.",
    ".",
    "a.b.c",
];

/// Arguments that have these names mean something wherever they are given.
const EXTRAS: &[(&str, &str)] = &[
    ("format", "json"),
    ("format", "xml"),
    ("format", "json-pretty"),
    ("format", "xml-pretty"),
    ("format", "plain"),
    ("format", "x"),
    ("yes_i_really_mean_it", "true"),
    ("force", "true"),
    ("caps_mon", "allow *"),
    ("pgid", "1.0"),
    ("", ""),
];

/// An argument that the command may not know.
pub(super) fn extra(at: Index) -> (&'static str, Value) {
    let (name, value) = at.get(EXTRAS);
    (name, (*value).into())
}

/// Values that fit no argument, or few.
pub(super) fn odd() -> Vec<Value> {
    let mut out: Vec<Value> = ODD.iter().map(|text| (*text).into()).collect();
    out.extend([
        Value::Null,
        json!(true),
        json!({}),
        json!([]),
        json!([[]]),
        json!([null, 1, "a"]),
        json!(-1),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1e308),
        json!(-1e308),
        json!(5e-324),
        json!("x".repeat(70_000)),
        json!(vec!["0"; 300]),
    ]);
    out
}

/// Options that the monitor goes by.
fn option_names() -> &'static [&'static str] {
    static NAMES: OnceLock<Vec<&str>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let of_mon = options().map(|info| info.name).filter(|name| is_observed(EntityType::MON, name));
        let of_modules = [
            "mgr/balancer/mode",
            "mgr/balancer/upmap_max_optimizations",
            "mgr/balancer/upmap_max_deviation",
            "mgr/balancer/sleep_interval",
            "mgr/balancer/begin_time",
            "mgr/balancer/pool_ids",
            "mgr/prometheus/server_port",
            "mgr/rbd_support/trash_purge_schedule",
            "target_max_misplaced_ratio",
            "mon_reweight_max_change",
            "osd_max_backfills",
            "debug_ms",
            "nonsense",
        ];
        of_mon.chain(of_modules).collect()
    })
}

fn texts(words: &[&str]) -> Vec<Value> {
    words.iter().map(|word| (*word).into()).collect()
}

fn integers(param: &Param) -> Vec<Value> {
    let all = [1, 0, 2, 3, 4, 8, 16, 100, 120, -1, 65_535, 1 << 31, u32::MAX.into(), i64::MAX, i64::MIN];
    let (low, high) = param.range;
    let bounds = [low, high].into_iter().flatten().map(|bound| bound as i64);
    let fits = |n: &i64| low.is_none_or(|low| *n as f64 >= low) && high.is_none_or(|high| *n as f64 <= high);
    let numbers = all.into_iter().chain(bounds).filter(fits);
    // Clients send numbers, or texts.
    numbers.flat_map(|n| [json!(n), json!(n.to_string())]).collect()
}

fn floats(param: &Param) -> Vec<Value> {
    let all = [
        1.0, 0.0, 0.5, 0.1, 2.0, 100.0, 1e-9, 5e-324, 32_767.9, 32_768.0, 65_535.0, 65_536.0, 4e9, 1e19,
        1e308,
    ];
    let (low, high) = param.range;
    let fits = |n: &f64| low.is_none_or(|low| *n >= low) && high.is_none_or(|high| *n <= high);
    all.into_iter().filter(fits).map(|n| json!(n)).collect()
}

/// Values that fit the argument, so that the command gets as far as it can.
pub(super) fn fitting(command: &Command, param: &Param) -> Vec<Value> {
    let is_of = |prefix: &str, name: &str| {
        command.prefix.starts_with(prefix) && (name.is_empty() || name == param.name)
    };
    match param.kind.as_str() {
        "CephInt" => return integers(param),
        "CephBool" => return vec![json!(true), json!("true"), json!(false)],
        "CephChoices" => return param.choices.iter().map(|choice| choice.as_str().into()).collect(),
        "CephPoolname" => return texts(POOLS),
        "CephPgid" => return texts(&["1.0", "1.7", "2.3", "3.0", "1.8", "9.0", "1.ffffffff"]),
        "CephUUID" => return texts(&[UUID, "00000000-0000-0000-0000-000000000000"]),
        "CephObjectname" => return texts(&["o", "\u{e9}", ""]),
        "CephIPAddr" | "CephEntityAddr" => {
            let addrs =
                ["10.0.0.1:0/7", "10.0.0.9:0/3", "10.0.0.0/8", "0.0.0.0/0", "::/0", "[::1]:1/4294967295"];
            return texts(&addrs);
        }
        _ => {}
    }
    let mut lists = LISTS.iter().filter(|_| param.is_list);
    if let Some((.., lists)) = lists.find(|(prefix, name, _)| is_of(prefix, name)) {
        return lists.iter().map(|words| json!(words)).collect();
    }
    match param.kind.as_str() {
        "CephFloat" => return floats(param),
        "CephOsdName" => return texts(OSDS),
        _ => {}
    }
    match WORDS.iter().find(|(prefix, name, _)| is_of(prefix, name)) {
        Some((.., [])) => texts(option_names()),
        Some((.., words)) => texts(words),
        None if param.name == "ids" => texts(OSDS),
        None => texts(&["x", "a", "1", "rbd", ""]),
    }
}

/// What a command reads besides its arguments; nothing for most.
pub(super) fn input_of(prefix: &str, percent: u8) -> Bytes {
    match prefix {
        "osd setcrushmap" | "osd crush set" => crush_map(),
        "auth import" | "auth add" => Bytes::from_static(KEYRING.as_bytes()),
        "config assimilate-conf" => Bytes::from_static(CONF.as_bytes()),
        "crash post" => Bytes::from(CRASH.replace("c1", if percent < 50 { "c2" } else { "c3" })),
        "osd new" if percent < 50 => Bytes::from_static(SECRETS.as_bytes()),
        "config-key set" | "config-key put" if percent < 30 => Bytes::from_static(b"\xff\0"),
        _ => Bytes::new(),
    }
}

/// The cluster's CRUSH map.
fn crush_map() -> Bytes {
    static MAP: OnceLock<Bytes> = OnceLock::new();
    let read = || super::Cluster::on(ledger().clone()).map().crush.bytes().clone();
    MAP.get_or_init(read).clone()
}
