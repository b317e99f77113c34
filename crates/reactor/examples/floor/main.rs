//! Measures the floor: what a request of 4 KiB costs three servers that do nothing with it but what every replicated
//! store has to do on this machine and this reactor. They receive it, pass it on, make it durable with one write to a
//! journal (or read it from the disk) and answer. There are no names, checksums, transactions, logs or indexes, and
//! nothing is ever written in place unless a row says so.
//!
//! `cargo run --profile count -p reactor --example floor -- FOLDER [SECONDS [ROW]]`, FOLDER on the disk to measure,
//! ROW one alone, as `r4k_qd12`; prints how many servers there are once they are ready, and then a line of JSON for
//! each row as it ends: `bench/compare` takes what the machine did meanwhile, and sets the rows beside Loligo and Ceph.

mod frames;
mod load;
mod server;

use std::{
    env, fs,
    io::{self, BufRead, BufReader, Write},
    num::ParseIntError,
    path::Path,
    process::{Child, Command, Stdio},
    str::FromStr,
    time::Duration,
};

use load::{Kind, Round};

/// As many as there are replicas of everything.
const SERVERS: usize = 3;
const KINDS: [Kind; 4] = [Kind::Write, Kind::WriteInPlace, Kind::Read, Kind::ReadFromMemory];
const DEPTHS: [usize; 3] = [1, 32, 256];
const SECONDS_DEFAULT: u64 = 2;

fn main() -> io::Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", file] => server::serve(Path::new(file)),
        [folder] => measure(Path::new(folder), SECONDS_DEFAULT, &all_rows()),
        [folder, seconds] => measure(Path::new(folder), number(seconds)?, &all_rows()),
        [folder, seconds, row] => measure(Path::new(folder), number(seconds)?, &[row_of(row)?]),
        _ => Err(io::Error::other("floor FOLDER [SECONDS [ROW]]")),
    }
}

fn number<T: FromStr<Err = ParseIntError>>(text: &str) -> io::Result<T> {
    text.parse().map_err(io::Error::other)
}

fn all_rows() -> Vec<(Kind, usize)> {
    KINDS.into_iter().flat_map(|kind| DEPTHS.map(|depth| (kind, depth))).collect()
}

/// A row by its name.
fn row_of(name: &str) -> io::Result<(Kind, usize)> {
    let parts = name.rsplit_once("_qd");
    let found =
        parts.and_then(|(kind, depth)| Some((KINDS.into_iter().find(|of| of.name() == kind)?, depth)));
    let (kind, depth) = found.ok_or_else(|| io::Error::other(format!("no row {name:?}")))?;
    Ok((kind, number(depth)?))
}

/// A server process, ended when dropped.
struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that is gone already needs no end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn measure(folder: &Path, seconds: u64, rows: &[(Kind, usize)]) -> io::Result<()> {
    let paths: Vec<_> = (0..SERVERS).map(|n| folder.join(format!("floor.{n}"))).collect();
    let measured = paths.iter().try_for_each(|path| server::make_file(path)).and_then(|()| {
        let servers = start(&paths)?;
        let ports: Vec<u16> = servers.iter().map(|server| server.port).collect();
        println!(r#"{{"servers":{SERVERS}}}"#);
        for (kind, depth) in rows {
            let before = cpu_us(&servers)?;
            let round = load::run(&ports, *kind, *depth, Duration::from_secs(seconds))?;
            print(*kind, *depth, &round, cpu_us(&servers)? - before);
        }
        Ok(())
    });
    for path in paths {
        // What could not be made is not there.
        let _ = fs::remove_file(path);
    }
    measured
}

/// Starts the servers, which learn of each other through their standard input.
fn start(paths: &[impl AsRef<Path>]) -> io::Result<Vec<Server>> {
    let mut servers = Vec::new();
    for path in paths {
        let mut command = Command::new(env::current_exe()?);
        command.arg("serve").arg(path.as_ref()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = Server { child: command.spawn()?, port: 0 };
        let out = server.child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        server.port = line.trim().parse().map_err(io::Error::other)?;
        servers.push(server);
    }
    let ports: Vec<u16> = servers.iter().map(|server| server.port).collect();
    for server in &mut servers {
        let others: Vec<String> =
            ports.iter().filter(|port| **port != server.port).map(u16::to_string).collect();
        writeln!(server.child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?, "{}", others.join(" "))?;
    }
    Ok(servers)
}

/// CPU time of all servers together until now, in microseconds.
fn cpu_us(servers: &[Server]) -> io::Result<u64> {
    /// Linux counts in these for user space on every machine that we know.
    const TICK_US: u64 = 10_000;
    let mut ticks = 0;
    for server in servers {
        let stat = fs::read_to_string(format!("/proc/{}/stat", server.child.id()))?;
        // Behind the name in parentheses, which may hold anything, come the third field and the others.
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
        ticks += fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>();
    }
    Ok(ticks * TICK_US)
}

fn print(kind: Kind, depth: usize, round: &Round, cpu_us: u64) {
    let requests = round.latencies.len().max(1);
    let at = |share: f64| {
        round.latencies.get((requests as f64 * share) as usize).copied().unwrap_or(0) as f64 / 1e3
    };
    println!(
        r#"{{"row":"{}_qd{depth}","requests":{requests},"iops":{:.0},"cpu_us":{:.1},"p50_us":{:.0},"p99_us":{:.0},"p999_us":{:.0}}}"#,
        kind.name(),
        requests as f64 / round.elapsed.as_secs_f64(),
        cpu_us as f64 / requests as f64,
        at(0.5),
        at(0.99),
        at(0.999),
    );
}
