//! The pool that a bench loads.

use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::{Value, json};
use types::PoolId;

use crate::{client_runner::ClientRunner, clock};

/// From a pool's creation until its map comes, which the monitor sends at once.
const MAP_PATIENCE: Duration = Duration::from_secs(30);

/// The pool's id; one that is not there is made, for benchmarks by its application, and stays.
pub(super) fn find_or_make(runner: &mut ClientRunner, name: &str) -> Result<PoolId> {
    let id_in = |runner: &ClientRunner| Some(runner.client().map()?.pool_by_name(name)?.0);
    if id_in(runner).is_none() {
        for command in commands(name) {
            run(runner, &command)?;
        }
    }
    let since = clock::now();
    loop {
        if let Some(id) = id_in(runner) {
            return Ok(id);
        }
        if clock::now().since(since) > MAP_PATIENCE {
            bail!("pool {name} was made, and no map that has it came in {MAP_PATIENCE:?}");
        }
        runner.turn()?;
        if runner.take_signal() {
            bail!("interrupted");
        }
    }
}

/// That make it.
fn commands(name: &str) -> [Value; 2] {
    [
        json!({"prefix": "osd pool create", "pool": name, "pg_num": 32}),
        json!({"prefix": "osd pool application enable", "pool": name, "app": "loligo-bench"}),
    ]
}

fn run(runner: &mut ClientRunner, command: &Value) -> Result<()> {
    let reply = runner.command(command.to_string())?;
    if reply.result < 0 {
        bail!("{command}: error {}: {}", -reply.result, reply.status);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_made_by_whatever_name_it_has() {
        for name in ["rbd", "a \"b\" \\c", "tab\there", "zero\u{200b}width", "e\u{301}"] {
            for command in commands(name) {
                let read: Value = serde_json::from_str(&command.to_string()).unwrap();
                assert_eq!(read["pool"], name);
            }
        }
    }
}
