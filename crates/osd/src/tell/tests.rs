mod damage;

use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*, sample::select};
use store::MemStore;
use types::{Instant, UTime};

use super::*;

#[path = "../../../../xtask/src/shown.rs"]
mod shown;
use shown::shown;

/// What `docs/compatibility/commands.md` is made of.
const LISTED: &str = include_str!("../../../../xtask/data/surface/commands.tsv");
/// Commands to an OSD that Ceph 16.2.15 describes: none may get lost.
const OF_CEPH: usize = 96;

#[test]
fn commands_are_answered_as_listed() {
    let mut osd = Osd::alone();
    let (mut store, mut effects) = (MemStore::new(), Vec::new());
    let mut served: BTreeSet<String> = rows().map(|row| shown(row.sig)).collect();
    served.insert("get_command_descriptions".to_owned());
    let (mut unlisted, mut count) = (served.clone(), 0);
    for line in LISTED.lines().filter(|line| line.starts_with("tell osd\t")) {
        let cells: Vec<&str> = line.split('\t').collect();
        let [_, release, sig, state, errno, _] = cells[..] else { panic!("{line}") };
        let prefix = sig.split(" name=").next().unwrap();
        count += usize::from(release == "16.2");
        unlisted.remove(&shown(sig));
        if state != "refused" {
            assert!(served.contains(&shown(sig)), "{sig} is listed and not served");
            continue;
        }
        let mut ctx =
            Ctx { now: Instant(1), wall: UTime::default(), store: &mut store, effects: &mut effects };
        let call = Call::of([("prefix".to_owned(), prefix.into())].into_iter().collect());
        let refused = osd.tell(&call, &mut ctx).expect_err(prefix).0;
        let listed = match errno {
            "EINVAL" => Errno::EINVAL,
            "EPERM" => Errno::EPERM,
            "EOPNOTSUPP" => Errno::EOPNOTSUPP,
            _ => panic!("{line}"),
        };
        assert_eq!(refused, listed, "{prefix}");
    }
    assert_eq!(
        (count, unlisted),
        (OF_CEPH, BTreeSet::new()),
        "rows of Ceph's, and what is served and not listed"
    );
}

#[test]
fn the_table_describes_itself_as_the_stock_tool_parses_it() {
    let all = descriptions();
    let all = all.as_object().unwrap();
    assert_eq!(all.len(), rows().count());
    for entry in all.values() {
        let words = entry["sig"].as_array().unwrap();
        assert!(words[0].is_string(), "{entry}");
        for param in words.iter().filter(|word| word.is_object()) {
            assert!(param["name"].is_string() && param["type"].is_string(), "{entry}");
        }
    }
}

#[test]
fn lists_of_shards_become_one() {
    let parts = vec![json!([3, 1]), json!([2, 3]), json!(null)];
    assert_eq!(lists::merge_pools(parts.clone()), json!([1, 2, 3]));
    assert_eq!(lists::joined(parts), [3, 1, 2, 3].map(Value::from));
}

#[test]
fn a_scrub_is_scheduled_from_any_number_of_seconds() {
    let age = pg_commands::age;
    assert_eq!(age(Some(5), std::time::Duration::MAX).as_secs(), 105);
    assert_eq!(age(Some(u64::MAX), std::time::Duration::ZERO), std::time::Duration::MAX);
    assert_eq!(age(None, std::time::Duration::MAX), std::time::Duration::MAX);
}

/// Its block is held in memory.
#[test]
fn a_benchmark_has_blocks_of_a_size_that_memory_has_room_for() {
    let (mut osd, mut store, mut effects) = (Osd::alone(), MemStore::new(), Vec::new());
    let mut ctx = Ctx { now: Instant(1), wall: UTime::default(), store: &mut store, effects: &mut effects };
    osd.settings.inject("osd_bench_max_block_size", "7E").unwrap();
    for size in [1u64 << 60, 1 << 40, (1 << 30) + 1] {
        let Value::Object(args) = json!({"prefix": "bench", "count": 1, "size": size}) else {
            unreachable!()
        };
        let (errno, why) = osd.tell(&Call::of(args), &mut ctx).unwrap_err();
        assert_eq!(errno, Errno::EINVAL);
        assert!(why.contains("capped at 1024 MiB"), "{why}");
    }
}

#[test]
fn answers_have_the_format_that_was_asked_for() {
    let pools = json!([1, 2]);
    for (format, expected) in [
        (Some("json"), "[1,2]\n"),
        (Some("xml"), "<mapped_pools><pool_id>1</pool_id><pool_id>2</pool_id></mapped_pools>\n"),
        (
            Some("xml-pretty"),
            "<mapped_pools>\n <pool_id>1</pool_id>\n <pool_id>2</pool_id>\n</mapped_pools>\n\n",
        ),
        (None, "[\n    1,\n    2\n]\n"),
    ] {
        let mut args = Map::from_iter([("prefix".to_owned(), "get_mapped_pools".into())]);
        args.extend(format.map(|format| ("format".to_owned(), format.into())));
        assert_eq!(render(&args, &pools), expected);
    }
}

#[test]
fn ops_of_shards_become_one_answer() {
    let op = |at: &str, duration: f64| json!({"initiated_at": at, "duration": duration});
    let call = |prefix: &str| Call::of([("prefix".to_owned(), prefix.into())].into_iter().collect());
    let parts =
        || vec![json!({"ops": [op("b", 2.0)], "num_ops": 1}), json!({"ops": [op("a", 1.0)], "num_ops": 1})];
    let all = json!({"ops": [op("a", 1.0), op("b", 2.0)], "num_ops": 2});
    assert_eq!(merge(&call("ops"), parts()), all);
    let part = |ops: Value| json!({"size": 2, "duration": 600, "ops": ops});
    let parts = vec![part(json!([op("c", 3.0), op("a", 1.0)])), part(json!([op("b", 2.0)]))];
    let all = |ops: Value| part(ops);
    let kept = json!([op("b", 2.0), op("c", 3.0)]);
    assert_eq!(merge(&call("dump_historic_ops"), parts.clone()), all(kept));
    let kept = json!([op("c", 3.0), op("b", 2.0)]);
    assert_eq!(merge(&call("dump_historic_ops_by_duration"), parts), all(kept));
}

#[test]
fn arguments_come_as_text_or_as_numbers() {
    let Value::Object(args) = json!({"var": "fsid", "count": 5, "size": "6", "val": ["x"], "n": null}) else {
        unreachable!("it is written as an object")
    };
    let call = Call { args, conn: ConnId(1), tid: 1 };
    assert_eq!(call.text("var").as_deref(), Some("fsid"));
    assert_eq!((call.int("count"), call.int("size"), call.int("n")), (Some(5), Some(6), None));
    assert_eq!(call.text("val").as_deref(), Some("x"));
}

proptest! {
    #[test]
    fn commands_of_any_words_are_read_or_have_no_arguments(
        words in vec(prop_oneof![
            select(vec!["{", "}", "\"prefix\":", "\"pg\"", ",", "\"pgid\":\"1.2f\"", "[", "1e999", "\\ud800", "null"]).prop_map(str::to_owned),
            any::<String>(),
        ], 0..12),
        depth in 0usize..100_000,
    ) {
        let command = |cmd| MCommand { cmd, ..MCommand::default() };
        let _ = pg_of(&command(words));
        let deep = format!("{{\"pgid\":{}", "[".repeat(depth));
        prop_assert_eq!(args_of(&command(vec![deep])), Map::new());
    }
}
