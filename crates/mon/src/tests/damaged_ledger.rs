//! A damaged ledger: the monitor does not start, or serves what it says, however little sense that makes.

use std::{collections::BTreeMap, sync::LazyLock, time::Duration};

use ::damage::Damage;
use bytes::Bytes;
use codec::crc32c;
use messages::{MMonGetOSDMap, MMonSubscribe, SubscribeItem};
use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
};
use types::{Epoch, PoolId};

use super::cluster::{ADMIN, Cluster, addr};
use crate::{LedgerContents, ledger_keys};

/// Makes entries of every kind.
const MAKE: &[&str] = &[
    r#"{"prefix":"auth get-or-create","entity":"client.x","caps":["mon","allow r"]}"#,
    r#"{"prefix":"auth get-or-create-pending","entity":"client.x"}"#,
    r#"{"prefix":"config set","who":"client/host:vm","name":"rbd_cache","value":"false"}"#,
    r#"{"prefix":"config set","who":"mon","name":"mon_osd_down_out_interval","value":"600"}"#,
    r#"{"prefix":"config-key set","key":"a/b","val":"c"}"#,
    r#"{"prefix":"osd set","key":"noout"}"#,
    r#"{"prefix":"health mute","code":"OSDMAP_FLAGS","ttl":"1h"}"#,
    r#"{"prefix":"health mute","code":"OSD_DOWN","sticky":true}"#,
    r#"{"prefix":"mgr module enable","module":"dashboard","force":"--force"}"#,
    r#"{"prefix":"osd pool mksnap","pool":"rbd","snap":"s"}"#,
    r#"{"prefix":"osd pool mksnap","pool":"rbd","snap":"t"}"#,
    r#"{"prefix":"osd pool rmsnap","pool":"rbd","snap":"s"}"#,
    r#"{"prefix":"osd pool set","pool":"rbd","var":"target_size_ratio","val":"0.5"}"#,
    r#"{"prefix":"osd pool create","pool":"new","pg_num":4}"#,
    r#"{"prefix":"osd erasure-code-profile set","name":"p","profile":["k=2","m=1"]}"#,
    r#"{"prefix":"osd crush add-bucket","name":"rack1","type":"rack"}"#,
    r#"{"prefix":"osd crush weight-set create-compat"}"#,
    r#"{"prefix":"osd blocklist","blocklistop":"add","addr":"1.2.3.4:0/5"}"#,
    r#"{"prefix":"osd reweight","id":1,"weight":0.5}"#,
    r#"{"prefix":"osd pg-temp","pgid":"1.1","id":[1,2]}"#,
    r#"{"prefix":"osd down","ids":["2"]}"#,
    r#"{"prefix":"rbd trash purge schedule add","level_spec":"rbd/","interval":"10m"}"#,
];

const CRASH: &str = r#"{"crash_id":"2026-09-21T14:13:00.000000Z_x","timestamp":"2026-09-21T14:13:00.000000Z",
    "entity_name":"osd.0","backtrace":["f()"],"process_name":"osd","utsname_hostname":"vm"}"#;

/// What a monitor is asked whose ledger was damaged.
const ASK: &[&str] = &[
    r#"{"prefix":"status"}"#,
    r#"{"prefix":"health","detail":"detail"}"#,
    r#"{"prefix":"report"}"#,
    r#"{"prefix":"df","detail":"detail"}"#,
    r#"{"prefix":"osd dump","format":"json"}"#,
    r#"{"prefix":"osd dump"}"#,
    r#"{"prefix":"osd tree"}"#,
    r#"{"prefix":"osd df","output_method":"tree"}"#,
    r#"{"prefix":"osd crush dump"}"#,
    r#"{"prefix":"osd crush tree"}"#,
    r#"{"prefix":"osd crush weight-set dump"}"#,
    r#"{"prefix":"osd getcrushmap"}"#,
    r#"{"prefix":"osd map","pool":"rbd","object":"o"}"#,
    r#"{"prefix":"osd pool ls","detail":"detail"}"#,
    r#"{"prefix":"osd pool stats"}"#,
    r#"{"prefix":"osd pool autoscale-status"}"#,
    r#"{"prefix":"osd pool get","pool":"rbd","var":"all"}"#,
    r#"{"prefix":"osd metadata"}"#,
    r#"{"prefix":"osd ok-to-stop","ids":["0"]}"#,
    r#"{"prefix":"osd blocklist ls"}"#,
    r#"{"prefix":"osd erasure-code-profile get","name":"p"}"#,
    r#"{"prefix":"pg dump","format":"json"}"#,
    r#"{"prefix":"pg stat"}"#,
    r#"{"prefix":"pg getmap"}"#,
    r#"{"prefix":"mon dump"}"#,
    r#"{"prefix":"quorum_status"}"#,
    r#"{"prefix":"mgr dump"}"#,
    r#"{"prefix":"mgr module ls"}"#,
    r#"{"prefix":"auth ls"}"#,
    r#"{"prefix":"auth export"}"#,
    r#"{"prefix":"auth dump-keys"}"#,
    r#"{"prefix":"config dump"}"#,
    r#"{"prefix":"config log"}"#,
    r#"{"prefix":"config get","who":"client.x"}"#,
    r#"{"prefix":"config-key dump"}"#,
    r#"{"prefix":"log last","num":1000}"#,
    r#"{"prefix":"crash ls"}"#,
    r#"{"prefix":"crash stat"}"#,
    r#"{"prefix":"progress json"}"#,
    r#"{"prefix":"balancer eval"}"#,
    r#"{"prefix":"rbd trash purge schedule list"}"#,
    r#"{"prefix":"rbd task list"}"#,
    r#"{"prefix":"versions"}"#,
    r#"{"prefix":"features"}"#,
];

/// What changes the maps and the rest of a state.
const CHANGE: &[&str] = &[
    r#"{"prefix":"osd pool create","pool":"more","pg_num":4}"#,
    r#"{"prefix":"osd pool mksnap","pool":"rbd","snap":"u"}"#,
    r#"{"prefix":"osd pool rmsnap","pool":"rbd","snap":"t"}"#,
    r#"{"prefix":"osd pool set","pool":"rbd","var":"pg_num","val":"16"}"#,
    r#"{"prefix":"osd pool set","pool":"new","var":"size","val":"2"}"#,
    r#"{"prefix":"osd crush add-bucket","name":"rack2","type":"rack"}"#,
    r#"{"prefix":"osd crush reweight","name":"osd.0","weight":2.0}"#,
    r#"{"prefix":"osd crush rule create-replicated","name":"r","root":"default","type":"osd"}"#,
    r#"{"prefix":"osd create"}"#,
    r#"{"prefix":"osd out","ids":["1"]}"#,
    r#"{"prefix":"osd unset","key":"noout"}"#,
    r#"{"prefix":"osd purge","id":2,"yes_i_really_mean_it":true}"#,
    r#"{"prefix":"auth get-or-create","entity":"client.y"}"#,
    r#"{"prefix":"auth commit-pending","entity":"client.x"}"#,
    r#"{"prefix":"auth wipe-rotating-service-keys"}"#,
    r#"{"prefix":"config rm","who":"client/host:vm","name":"rbd_cache"}"#,
    r#"{"prefix":"config reset","num":1}"#,
    r#"{"prefix":"health unmute"}"#,
    r#"{"prefix":"crash archive-all"}"#,
    r#"{"prefix":"log","logtext":["x"]}"#,
];

static SAMPLE: LazyLock<LedgerContents> = LazyLock::new(|| {
    let mut cluster = Cluster::with_rbd();
    cluster.mon.set_manager(addr(6800));
    for command in MAKE {
        cluster.try_command(ADMIN, command, b"");
    }
    cluster.try_command(ADMIN, r#"{"prefix":"crash post"}"#, CRASH.as_bytes());
    cluster.pass(Duration::from_secs(10));
    let mut contents = cluster.ledger.0.clone();
    // As after many changes: the newest map is there as a whole.
    let map = cluster.map();
    let (full, _) = map.to_bytes_and_crc();
    contents.entries.insert(ledger_keys::osdmap_full(map.epoch), full);
    contents
});

/// The keys by their folders.
fn folders() -> Vec<Vec<&'static String>> {
    let mut out = BTreeMap::<&str, Vec<&String>>::new();
    for key in SAMPLE.entries.keys() {
        out.entry(key.split('/').next().unwrap_or(key)).or_default().push(key);
    }
    out.into_values().collect()
}

/// What happens to a ledger.
#[derive(Clone, Debug)]
enum Change {
    Value(Vec<Damage>),
    /// Under another key of the same folder.
    Key(&'static str),
    /// With the value of another key.
    Swap([Index; 2]),
    Remove,
}

fn damage() -> impl Strategy<Value = Damage> {
    let index = any::<Index>;
    let number = prop_oneof![
        Just(u64::MAX),
        Just(u64::from(u32::MAX)),
        Just(1 << 63),
        Just(1 << 31),
        0u64..20,
        any::<u64>()
    ];
    let text = select(vec!["-1", "9999999999", "1e999", "null", "[]", "{}", "\"\"", "0", " ", "\u{7fff}"]);
    prop_oneof![
        3 => (index(), any::<u8>()).prop_map(|(at, value)| Damage::Byte(at, value)),
        3 => (index(), any::<u8>()).prop_map(|(at, bit)| Damage::Bit(at, bit)),
        4 => (index(), number).prop_map(|(at, value)| Damage::Number(at, value, 8)),
        2 => (index(), text).prop_map(|(at, text)| Damage::Text(at, text)),
        1 => index().prop_map(Damage::Cut),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    let names = vec!["0", "4294967295", "18446744073709551615", "-1", "", "x", "osd.9", "client.", "a/b/c"];
    prop_oneof![
        8 => vec(damage(), 1..3).prop_map(Change::Value),
        1 => select(names).prop_map(Change::Key),
        1 => any::<[Index; 2]>().prop_map(Change::Swap),
        1 => Just(Change::Remove),
    ]
}

fn one_of(at: &[Index; 2]) -> &'static String {
    let folders = folders();
    let folder = &folders[at[0].index(folders.len())];
    folder[at[1].index(folder.len())]
}

/// Makes the checksums of OSD maps right again, so that what lies behind the check is reached.
fn seal(key: &str, bytes: &mut [u8]) {
    let tail = match key.split('/').next() {
        Some(ledger_keys::OSDMAP_FULL) => 0,
        Some(ledger_keys::OSDMAP_INC) => 4,
        _ => return,
    };
    let Some(at) = bytes.len().checked_sub(tail + 4) else { return };
    let crc = crc32c(crc32c(u32::MAX, &bytes[..at]), &bytes[at + 4..]);
    bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
}

fn apply(contents: &mut LedgerContents, at: &[Index; 2], change: &Change) {
    let key = one_of(at);
    let Some(value) = contents.entries.remove(key) else { return };
    let (key, value) = match change {
        Change::Remove => return,
        Change::Value(damages) => {
            let mut bytes = value.to_vec();
            damages.iter().for_each(|damage| damage.apply(&mut bytes));
            seal(key, &mut bytes);
            (key.clone(), Bytes::from(bytes))
        }
        Change::Key(name) => (format!("{}/{name}", key.split('/').next().unwrap_or(key)), value),
        Change::Swap(other) => (key.clone(), SAMPLE.entries[one_of(other)].clone()),
    };
    contents.entries.insert(key, value);
}

/// A monitor on this ledger.
fn started(contents: LedgerContents) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.ledger.0 = contents;
    cluster.restart();
    cluster
}

/// Has a monitor show, serve and change everything.
fn use_all(cluster: &mut Cluster) {
    cluster.mon.set_manager(addr(6800));
    let what = ["monmap", "osdmap", "config", "mgrmap", "log-info", "osd_pg_creates", "kv:config/"];
    let what = what.map(|name| (name.to_owned(), SubscribeItem { start: 0, flags: 0 })).into();
    cluster.say(ADMIN, MMonSubscribe { what, ..MMonSubscribe::default() });
    let all = MMonGetOSDMap {
        full_first: Epoch(1),
        full_last: Epoch(9),
        inc_first: Epoch(1),
        inc_last: Epoch(9),
        ..MMonGetOSDMap::default()
    };
    cluster.say(ADMIN, all);
    cluster.boot_osd(0);
    for command in ASK.iter().chain(CHANGE).chain(ASK) {
        cluster.try_command(ADMIN, command, b"");
    }
    cluster.pass(Duration::from_secs(6));
}

#[test]
fn what_is_damaged_is_sound_before() {
    let mut cluster = started(SAMPLE.clone());
    assert!(cluster.mon.is_booted());
    assert!(cluster.map().pools.contains_key(&PoolId(2)));
    // Every folder of the ledger is there.
    assert_eq!(folders().len(), 16, "{:?}", SAMPLE.entries.keys());
    // Some wait for reports of OSDs.
    let mut ask =
        |command: &&&str| cluster.try_command(ADMIN, command, b"").is_none_or(|ack| ack.result != 0);
    let refused: Vec<&&str> = ASK.iter().filter(&mut ask).collect();
    assert!(refused.len() <= 4, "{refused:?}");
    use_all(&mut cluster);
}

proptest! {
    #![proptest_config(::damage::cases(60))]

    #[test]
    fn a_damaged_ledger_is_refused_or_served(changes in vec((any::<[Index; 2]>(), change()), 1..3)) {
        let mut contents = SAMPLE.clone();
        changes.iter().for_each(|(at, change)| apply(&mut contents, at, change));
        let mut cluster = started(contents);
        if cluster.mon.is_booted() {
            use_all(&mut cluster);
            // What it has written makes sense to the next one.
            cluster.restart();
            prop_assert!(cluster.mon.is_booted());
        }
    }

    #[test]
    fn noise_in_a_ledger_is_refused_or_served(at: [Index; 2], noise in vec(any::<u8>(), 0..100)) {
        let mut contents = SAMPLE.clone();
        let key = one_of(&at);
        let mut bytes = noise;
        seal(key, &mut bytes);
        contents.entries.insert(key.clone(), bytes.into());
        let mut cluster = started(contents);
        if cluster.mon.is_booted() {
            use_all(&mut cluster);
        }
    }
}
