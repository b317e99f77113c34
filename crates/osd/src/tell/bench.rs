//! `ceph tell osd.N bench`: what the store of this OSD writes, without network and replicas.
//!
//! Objects of the OSD's own collection are written one transaction each, a bounded number at a time, and
//! removed in the end; the time counts until the last write is durable.

use std::time::Duration;

use bytes::Bytes;
use messages::MCommandReply;
use serde_json::json;
use types::{CollId, Errno, HObject, Instant, Mutation, PoolId, SnapId, Token, Transaction};

use super::{Answer, Call, Refusal, render};
use crate::{ConnId, Osd, osd::Ctx, pgs::MAP_TOKEN};

/// Blocks below this are small.
const SMALL_BYTES: u64 = 1 << 20;
/// Bytes and transactions under way, at most: the store's queue stays short for clients.
const IN_FLIGHT_BYTES: u64 = 64 << 20;
const IN_FLIGHT_MAX: u64 = 32;
/// Bytes of a block, whatever the option allows: it is held in memory, and is one change, which 1 GiB is the limit of.
const BLOCK_BYTES_MAX: u64 = 1 << 30;
/// Bench objects; more writes than that go over the same ones again.
const OBJECTS_MAX: u64 = 4096;

/// A run under way.
#[derive(Debug)]
pub(crate) struct Bench {
    conn: ConnId,
    tid: u64,
    args: serde_json::Map<String, serde_json::Value>,
    count: u64,
    block: Bytes,
    /// Objects to write over, and the size of each.
    object_num: u64,
    object_size: u64,
    started: Instant,
    submitted: u64,
    committed: u64,
    /// The token of the removal, once all is written.
    last: Option<u64>,
    seconds: f64,
}

/// Tokens of PGs have the PG's number in their high half, and it is never 0.
pub(crate) fn is_bench_token(token: Token) -> bool {
    token != MAP_TOKEN && token.0 >> 32 == 0
}

/// Refuses what would keep the device busy for too long, by the options `osd_bench_*`.
fn check(osd: &Osd, count: u64, size: u64) -> Result<(), Refusal> {
    let option = |name: &str| osd.option(name).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
    let unit = |bytes: u64| match bytes {
        n if n >= 1 << 20 && n.is_multiple_of(1 << 20) => format!("{} MiB", n >> 20),
        n if n >= 1 << 10 && n.is_multiple_of(1 << 10) => format!("{} KiB", n >> 10),
        n => format!("{n} B"),
    };
    let size_max = option("osd_bench_max_block_size").min(BLOCK_BYTES_MAX);
    if size > size_max {
        let why = format!(
            "block 'size' values are capped at {}. If you wish to use a higher value, please adjust 'osd_bench_max_block_size'",
            unit(size_max)
        );
        return Err((Errno::EINVAL, why));
    }
    let secs = option("osd_bench_duration");
    let (limit, rate, name) = if size < SMALL_BYTES {
        let iops = option("osd_bench_small_size_max_iops");
        let limit = size.saturating_mul(secs).saturating_mul(iops);
        (limit, format!("{iops} IOPS"), "osd_bench_small_size_max_iops")
    } else {
        let throughput = option("osd_bench_large_size_max_throughput");
        let rate = format!("{}/s", unit(throughput));
        (throughput.saturating_mul(secs), rate, "osd_bench_large_size_max_throughput")
    };
    if count <= limit {
        return Ok(());
    }
    let why = format!(
        "'count' values greater than {limit} for a block size of {}, assuming {rate}, for {secs} seconds, can cause ill effects on osd.  Please adjust '{name}' with a higher value if you wish to use a higher 'count'.",
        unit(size)
    );
    Err((Errno::EINVAL, why))
}

pub(super) fn start(osd: &mut Osd, call: &Call, ctx: &mut Ctx<'_>) -> Answer {
    let count = call.int("count").unwrap_or(1 << 30);
    let object_size = call.int("object_size").unwrap_or(0);
    let object_num = call.int("object_num").unwrap_or(0);
    let mut size = call.int("size").unwrap_or(4 << 20).max(1);
    if object_size > 0 {
        size = size.min(object_size);
    }
    check(osd, count, size)?;
    if osd.bench.is_some() {
        return Err((Errno::EBUSY, "a benchmark is running".to_owned()));
    }
    if ctx.store.usage().available_bytes / 2 < count.min(OBJECTS_MAX * size) {
        return Err((Errno::ENOSPC, "not enough space for the benchmark".to_owned()));
    }
    // Not zeros: a device may be quicker with them.
    let mut block = vec![0u8; size as usize];
    rand::RngCore::fill_bytes(&mut osd.rng, &mut block);
    let objects = if object_num > 0 { object_num } else { count.div_ceil(size) };
    osd.bench = Some(Bench {
        conn: call.conn,
        tid: call.tid,
        args: call.args.clone(),
        count: count / size * size,
        block: block.into(),
        object_num: objects.clamp(1, OBJECTS_MAX),
        object_size: object_size.max(size),
        started: ctx.now,
        submitted: 0,
        committed: 0,
        last: None,
        seconds: 0.0,
    });
    osd.bench_step(ctx);
    Ok(None)
}

fn object(number: u64) -> HObject {
    let oid = Bytes::from(format!("disk_bw_test_{number}"));
    HObject { oid, pool: PoolId(-1), snap: SnapId::HEAD, ..HObject::default() }
}

impl Bench {
    fn block_bytes(&self) -> u64 {
        self.block.len() as u64
    }

    /// The next write, with a token that tells nothing: commits come in the order of submission.
    fn next_write(&mut self) -> Transaction {
        let index = self.submitted / self.block_bytes();
        let slots = (self.object_size / self.block_bytes()).max(1);
        let offset = index / self.object_num % slots * self.block_bytes();
        let mut txn = Transaction::new(CollId::META);
        txn.push(
            &object(index % self.object_num),
            Mutation::Write { offset, data: self.block.clone().into() },
        );
        self.submitted += self.block_bytes();
        txn
    }

    fn cleanup(&self) -> Transaction {
        let mut txn = Transaction::new(CollId::META);
        let used = (self.submitted / self.block_bytes()).min(self.object_num);
        (0..used).for_each(|number| txn.push(&object(number), Mutation::Remove));
        txn
    }
}

impl Osd {
    /// One of the benchmark's transactions is durable.
    pub(crate) fn on_bench_committed(&mut self, token: Token, ctx: &mut Ctx<'_>) {
        let Some(bench) = &mut self.bench else { return };
        if bench.last == Some(token.0) {
            return self.finish_bench(ctx);
        }
        bench.committed += bench.block_bytes();
        if bench.committed >= bench.count {
            let elapsed: Duration = ctx.now.since(bench.started);
            bench.seconds = elapsed.as_secs_f64().max(1e-9);
        }
        self.bench_step(ctx);
    }

    fn bench_step(&mut self, ctx: &mut Ctx<'_>) {
        let Some(bench) = &mut self.bench else { return };
        let window = IN_FLIGHT_BYTES.min(IN_FLIGHT_MAX * bench.block_bytes()).max(bench.block_bytes());
        while bench.submitted < bench.count && bench.submitted - bench.committed < window {
            let txn = bench.next_write();
            ctx.store.submit(Token(1), txn);
        }
        if bench.committed >= bench.count && bench.last.is_none() {
            bench.last = Some(2);
            let txn = bench.cleanup();
            ctx.store.submit(Token(2), txn);
        }
    }

    fn finish_bench(&mut self, ctx: &mut Ctx<'_>) {
        let Some(bench) = self.bench.take() else { return };
        let rate = bench.count as f64 / bench.seconds.max(1e-9);
        let out = json!({
            "bytes_written": bench.count,
            "blocksize": bench.block_bytes(),
            "elapsed_sec": bench.seconds,
            "bytes_per_sec": rate,
            "iops": rate / bench.block_bytes() as f64,
        });
        let reply = MCommandReply { output: render(&bench.args, &out).into(), ..MCommandReply::default() };
        self.send_conn(bench.conn, bench.tid, reply.into(), ctx);
    }
}
