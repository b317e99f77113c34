//! `dump_pgstate_history`, `dump_pg_recovery_stats`: what PGs went through on the way to where they are.
//!
//! Authority: `PGStateHistory::dump`, `PGRecoveryStats::dump_formatted` (16.2).

use std::time::Duration;

use pg::{AllStateTimes, Instance, PastState, Pg, StateTimes, add_state_times};
use serde_json::{Map, Value, json};
use types::UTime;

use crate::Osd;

/// The state histories of this shard's PGs.
pub(super) fn history(osd: &Osd) -> Value {
    osd.pgs.all().map(of_pg).collect()
}

fn of_pg(pg: &Pg) -> Value {
    let state = |past: &PastState| json!({"state": past.name, "enter": past.enter.to_string(), "exit": past.exit.to_string()});
    let instance = |past: &Instance| json!({"epoch": past.epoch.0.to_string(), "states": past.states.iter().map(state).collect::<Vec<_>>()});
    let history: Vec<Value> = pg.past_states().map(instance).collect();
    json!({"pg": pg.pgid().to_string(), "currently": pg.peering_state(), "history": history})
}

/// The PGs of all shards.
pub(super) fn merge_history(parts: Vec<Value>) -> Value {
    let pgs: Vec<Value> = parts.into_iter().filter_map(|part| part.as_array().cloned()).flatten().collect();
    json!({"pgs": pgs})
}

/// How long this shard's PGs were in each state: numbers that can be added.
pub(super) fn times(osd: &Osd) -> Value {
    let mut all = AllStateTimes::new();
    osd.pgs.all().for_each(|pg| add_state_times(&mut all, pg.state_times()));
    let one = |(name, of): (&&str, &StateTimes)| {
        ((*name).to_owned(), json!([of.enter, of.exit, of.events, of.total, of.min, of.max]))
    };
    Value::Object(all.iter().map(one).collect())
}

/// The times of all shards, state by state. A PG's machine has no clock of its own: to it, an event takes no time.
pub(super) fn merge_times(parts: Vec<Value>) -> Value {
    let mut all = Map::<String, Value>::new();
    for (name, of) in parts.into_iter().filter_map(|part| part.as_object().cloned()).flatten() {
        let sum = match all.remove(&name) {
            Some(before) => plus(&before, &of),
            None => of,
        };
        all.insert(name, sum);
    }
    all.iter().map(|(name, of)| show(name, of)).collect()
}

fn number(of: &Value, at: usize) -> u64 {
    of[at].as_u64().unwrap_or(0)
}

fn plus(a: &Value, b: &Value) -> Value {
    let sum = |at| number(a, at) + number(b, at);
    let min = match (number(a, 1), number(b, 1)) {
        (0, _) => number(b, 4),
        (_, 0) => number(a, 4),
        _ => number(a, 4).min(number(b, 4)),
    };
    json!([sum(0), sum(1), sum(2), sum(3), min, number(a, 5).max(number(b, 5))])
}

fn show(name: &str, of: &Value) -> Value {
    let seconds = |at| UTime::default().plus(Duration::from_nanos(number(of, at))).to_string();
    json!({
        "enter": number(of, 0),
        "exit": number(of, 1),
        "events": number(of, 2),
        "event_time": UTime::default().to_string(),
        "total_time": seconds(3),
        "min_time": seconds(4),
        "max_time": seconds(5),
        "nested_states": name.split('/').collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_shards_become_one() {
        let part = |total: u64| json!({"Started/Primary": [2, 1, 3, total, total, total]});
        let all = merge_times(vec![part(3_000_000), part(5_000_000), json!({})]);
        let expect = json!([{
            "enter": 4,
            "exit": 2,
            "events": 6,
            "event_time": "0.000000",
            "total_time": "0.008000",
            "min_time": "0.003000",
            "max_time": "0.005000",
            "nested_states": ["Started", "Primary"],
        }]);
        assert_eq!(all, expect);
    }
}
