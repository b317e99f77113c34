//! Commands to an OSD with any arguments: an answer, or a piece of work that ends.

use auth::OsdCaps;
use bytes::Bytes;
use codec::{Decode, Features};
use messages::{MOSDMap, MOSDPGCreate, Message, PgCreation};
use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
};
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, Epoch, GlobalId};

use super::*;
use crate::{Effect, Event, Peer, osd::TICK};

const OPERATOR: ConnId = ConnId(1);
/// Bytes of an answer, whatever is asked: most is in the description of all options.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Rounds of completions until all work has ended.
const ROUNDS_MAX: usize = 1_000;

/// An OSD that leads a PG alone.
struct Running {
    osd: Osd,
    store: MemStore,
    pgid: PgId,
    now: Instant,
    tid: u64,
}

impl Running {
    fn new() -> Running {
        const MAPS: &[u8] = include_bytes!("../../../../messages/testdata/osd_map_41_s2c_005.front.bin");
        let maps = MOSDMap::from_bytes(Bytes::from_static(MAPS)).unwrap();
        let mut map = Osd::decode_full(maps.fulls.values().next_back().unwrap().clone()).unwrap();
        let pool = *map.pools.keys().next().unwrap();
        map.pools.get_mut(&pool).unwrap().size = 1;
        let pgid = PgId::new(pool, 0);
        let mut it =
            Running { osd: Osd::alone(), store: MemStore::new(), pgid, now: Instant(1 << 40), tid: 0 };
        let (public_addrs, cluster_addrs) = (EntityAddrVec::default(), EntityAddrVec::default());
        it.handle(Event::Started { public_addrs, cluster_addrs });
        it.osd.config.whoami = map.pg_to_up_acting(pgid).acting_primary;
        let pgs = vec![PgCreation { pgid, created: Epoch(1), intervals: Vec::new() }];
        let create = MOSDPGCreate { epoch: map.epoch, pgs };
        (it.osd.map, it.osd.has_mon) = (map, true);
        let (now, mut effects) = (it.now, Vec::new());
        let mut ctx = Ctx { now, wall: wall(), store: &mut it.store, effects: &mut effects };
        it.osd.on_pg_create(create, &mut ctx);
        let peer = Peer {
            name: EntityName::new(EntityType::CLIENT, "admin".to_owned()),
            entity_type: EntityType::CLIENT,
            global_id: GlobalId(4),
            addr: EntityAddr::default(),
            caps: OsdCaps::allow_all(),
            features: Features::PACIFIC.0,
        };
        it.handle(Event::ConnOpened(OPERATOR, Box::new(peer)));
        it.settle();
        it
    }

    fn handle(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.osd.handle(self.now, wall(), event, &mut self.store, &mut effects);
        effects
    }

    /// Completes what is under way.
    fn settle(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        for _ in 0..ROUNDS_MAX {
            let done = self.store.complete();
            if done.is_empty() {
                return effects;
            }
            for completion in done {
                effects.extend(self.handle(Event::Store(completion)));
            }
        }
        panic!("there is no end of it");
    }

    /// Runs a command; gives result and bytes of its answers.
    fn tell(&mut self, json: &str) -> Vec<(i32, usize)> {
        self.tid += 1;
        let tid = self.tid;
        let command = MCommand { cmd: vec![json.to_owned()], ..MCommand::default() };
        let mut effects = self.handle(Event::Received(OPERATOR, tid, command.into()));
        effects.extend(self.settle());
        let answers = effects.iter().filter_map(|effect| match effect {
            Effect::Send(OPERATOR, of, message) if *of == tid => {
                let Message::MCommandReply(reply) = message else { panic!("{message:?}") };
                Some((reply.result, reply.status.len() + reply.output.len()))
            }
            _ => None,
        });
        answers.collect()
    }
}

fn wall() -> UTime {
    UTime::new(1_790_000_000, 0)
}

/// What an argument may be, whatever it is called.
const VALUES: &[&str] = &[
    "",
    "x",
    "0",
    "1",
    "-1",
    "5",
    "4096",
    "osd",
    "op",
    "all",
    "bluestore",
    "error",
    "info",
    "status",
    "query",
    "scrub",
    "deep-scrub",
    "mark_unfound_lost",
    "list_unfound",
    "revert",
    "delete",
    "none",
    "full",
    "nearfull",
    "backfillfull",
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775807",
    "-9223372036854775808",
    "4294967296",
    "1e308",
    "NaN",
    "inf",
    "\0",
    "\u{e9}\u{1f600}",
    "1.0",
    "9.ffffffff",
    "client.4",
    "127.0.0.1",
    "debug_osd",
    "osd_max_scrubs",
    "osd_bench_max_block_size",
    "osd_op_history_size",
    "osd_enable_op_tracker",
    "osd_scrub_min_interval",
    "osd_heartbeat_grace",
    "osd_scrub_interval_randomize_ratio",
    "--debug_osd=5",
    "--osd_max_scrubs 3",
    "--no-x",
    "true",
    "false",
    "10/10",
    "16E",
    "7E",
];

/// A value: where it is taken from, and the form in which it is given.
fn value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        12 => select(VALUES).prop_map(str::to_owned),
        1 => any::<u64>().prop_map(|n| n.to_string()),
        1 => any::<String>(),
        1 => Just("x".repeat(70_000)),
    ];
    (text, 0u8..16).prop_map(|(text, form)| match form {
        0..8 => text.into(),
        8..11 => text.parse::<u64>().map_or(text.into(), Value::from),
        11 | 12 => json!([text]),
        13 => json!([text.clone(), text, 1, null]),
        14 => json!({"x": text}),
        _ => Value::Null,
    })
}

/// A command of the table with arguments of its own, most of the PG's among them, and its format.
fn command() -> impl Strategy<Value = String> {
    let all: Vec<&'static str> = rows().map(|row| row.sig).collect();
    let formats = select(&["", "json", "xml", "xml-pretty", "json-pretty", "x"][..]);
    (any::<Index>(), vec(proptest::option::weighted(0.8, value()), 5), formats, 0u8..10).prop_map(
        move |(at, values, format, pg)| {
            let sig = all[at.index(all.len())];
            let names = sig.split(' ').filter_map(|word| word.strip_prefix("name="));
            let names = names.filter_map(|word| word.split(',').next());
            let mut args =
                Map::from_iter([("prefix".to_owned(), sig.split(" name=").next().unwrap().into())]);
            let given = names.zip(values).filter_map(|(name, value)| Some((name.to_owned(), value?)));
            args.extend(given);
            if pg < 8 && (args.contains_key("pgid") || pg < 3 || sig.contains("scrub") || sig == "query") {
                args.insert("pgid".to_owned(), "PG".into());
            }
            if sig.starts_with("bench ") {
                // What is written by default is more than a test has time for.
                args.entry("count").or_insert((8 << 20).into());
            }
            if !format.is_empty() {
                args.insert("format".to_owned(), format.into());
            }
            Value::Object(args).to_string()
        },
    )
}

/// Several of them, or what is no command.
fn commands() -> impl Strategy<Value = Vec<String>> {
    vec(prop_oneof![20 => command(), 1 => any::<String>(), 1 => Just("{}".to_owned())], 1..10)
}

proptest! {
    #![proptest_config(::damage::cases(100))]

    #[test]
    fn commands_end_whatever_they_are_given(commands in commands()) {
        let mut it = Running::new();
        for command in commands {
            let command = command.replace("\"PG\"", &format!("\"{}\"", it.pgid));
            let answers = it.tell(&command);
            // The monitor answers the question for the newest map first.
            if !command.contains("\"get_latest_osdmap\"") {
                let [(result, bytes)] = answers[..] else { panic!("{} answers to {command}", answers.len()) };
                prop_assert!(result == 0 || Errno(result.saturating_abs()).name() != "EUNKNOWN", "{}", result);
                prop_assert!(bytes <= ANSWER_BYTES_MAX + 8 * command.len(), "{} bytes", bytes);
            }
            it.now = it.now + std::time::Duration::from_secs(2);
            it.handle(Event::Timer(TICK));
            it.settle();
        }
    }
}
