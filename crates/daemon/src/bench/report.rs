//! What a bench prints.

use std::time::Duration;

use serde_json::json;

use super::{BenchOptions, Round};

impl Round {
    fn iops(&self) -> f64 {
        self.requests as f64 / self.elapsed.as_secs_f64()
    }

    fn us_at(&self, percentile: f64) -> f64 {
        self.latency.value_at_percentile(percentile) as f64 / 1e3
    }

    fn us_per_request(&self, cpu: Option<Duration>) -> Option<f64> {
        (self.requests > 0).then(|| cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / self.requests as f64))?
    }
}

const MIB: f64 = (1 << 20) as f64;

/// A table for people: latencies and CPU times in microseconds.
pub(super) fn table(options: &BenchOptions, rounds: &[Round], is_cpu_of_all: bool) -> String {
    let mut out = format!(
        "{} of {} bytes, {} objects of {} bytes in pool {}, {:?} a round{}\n\
         {:>6} {:>10} {:>9} {:>10} {:>10} {:>10} {:>10} {:>12} {:>12}\n",
        options.workload.name(),
        options.block_bytes,
        options.objects,
        options.object_bytes,
        options.pool,
        options.duration,
        options.rate.map_or(String::new(), |rate| format!(", {rate} requests a second")),
        "depth",
        "IOPS",
        "MiB/s",
        "mean us",
        "p50 us",
        "p99 us",
        "p99.9 us",
        // One process has all daemons: the monitor's part cannot be told apart.
        if is_cpu_of_all { "all cpu us" } else { "OSD cpu us" },
        "own cpu us",
    );
    for round in rounds {
        let cpu = |used: Option<Duration>| {
            round.us_per_request(used).map_or("-".to_owned(), |us| format!("{us:.1}"))
        };
        out.push_str(&format!(
            "{:>6} {:>10.0} {:>9.1} {:>10.1} {:>10.1} {:>10.1} {:>10.1} {:>12} {:>12}\n",
            round.depth,
            round.iops(),
            round.iops() * options.block_bytes as f64 / MIB,
            round.latency.mean() / 1e3,
            round.us_at(50.0),
            round.us_at(99.0),
            round.us_at(99.9),
            cpu(round.osd_cpu),
            cpu(round.own_cpu),
        ));
    }
    out
}

/// The rounds for programs: a JSON document on one line.
pub(super) fn json(options: &BenchOptions, rounds: &[Round], is_cpu_of_all: bool) -> String {
    let of_round = |round: &Round| {
        json!({
            "depth": round.depth,
            "requests": round.requests,
            "requests_in_time": round.requests_in_time,
            "elapsed_sec": round.elapsed.as_secs_f64(),
            "iops": round.iops(),
            "mib_per_sec": round.iops() * options.block_bytes as f64 / MIB,
            "mean_us": round.latency.mean() / 1e3,
            "p50_us": round.us_at(50.0),
            "p99_us": round.us_at(99.0),
            "p99_9_us": round.us_at(99.9),
            "osd_cpu_us": round.us_per_request(round.osd_cpu),
            "own_cpu_us": round.us_per_request(round.own_cpu),
            "machine_cpu_sec": round.machine.map(|machine| machine.busy.as_secs_f64()),
            "machine_sec": round.machine.map(|machine| machine.elapsed.as_secs_f64()),
        })
    };
    let document = json!({
        "workload": options.workload.name(),
        "block_bytes": options.block_bytes,
        "objects": options.objects,
        "object_bytes": options.object_bytes,
        "rate": options.rate,
        "is_cpu_of_all_daemons": is_cpu_of_all,
        "rounds": rounds.iter().map(of_round).collect::<Vec<_>>(),
    });
    format!("{document}\n")
}
