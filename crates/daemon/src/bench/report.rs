//! What a bench prints.

use std::time::Duration;

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
        "{} of {} bytes, {} objects of {} bytes in pool {}, {:?} a round\n\
         {:>6} {:>10} {:>9} {:>10} {:>10} {:>10} {:>10} {:>12} {:>12}\n",
        options.workload.name(),
        options.block_bytes,
        options.objects,
        options.object_bytes,
        options.pool,
        options.duration,
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

/// The same for programs, a document on one line.
pub(super) fn json(options: &BenchOptions, rounds: &[Round], is_cpu_of_all: bool) -> String {
    let number = |value: Option<f64>| value.map_or("null".to_owned(), |v| format!("{v:.3}"));
    let rounds: Vec<String> = rounds
        .iter()
        .map(|round| {
            format!(
                "{{\"depth\":{},\"requests\":{},\"elapsed_sec\":{:.3},\"iops\":{:.1},\"mib_per_sec\":{:.2},\"mean_us\":{:.1},\"p50_us\":{:.1},\
                 \"p99_us\":{:.1},\"p99_9_us\":{:.1},\"osd_cpu_us\":{},\"own_cpu_us\":{}}}",
                round.depth,
                round.requests,
                round.elapsed.as_secs_f64(),
                round.iops(),
                round.iops() * options.block_bytes as f64 / MIB,
                round.latency.mean() / 1e3,
                round.us_at(50.0),
                round.us_at(99.0),
                round.us_at(99.9),
                number(round.us_per_request(round.osd_cpu)),
                number(round.us_per_request(round.own_cpu)),
            )
        })
        .collect();
    format!(
        "{{\"workload\":\"{}\",\"block_bytes\":{},\"objects\":{},\"object_bytes\":{},\"is_cpu_of_all_daemons\":{is_cpu_of_all},\"rounds\":[{}]}}\n",
        options.workload.name(),
        options.block_bytes,
        options.objects,
        options.object_bytes,
        rounds.join(",")
    )
}
