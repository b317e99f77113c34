//! What clients do with each RBD image, counted by the names of data objects, while the monitor asks for it
//! (`OSDPerfMetricQuery`). Nothing is counted, and nothing spent on it, otherwise.

use std::{collections::BTreeMap, time::Duration};

use messages::{ImageCounts, ImageKey, MOSDImageQuery, MOSDImageStats, MOSDOp, MOSDOpReply};
use types::{Instant, PoolId};

use crate::{ConnId, Effect, Osd, ShardMessage, osd::Ctx, shard::CONTROL};

/// Ops that are timed at once; others are not counted.
const OPS_MAX: usize = 4_096;
/// How long ops are waited for when there are more.
const OP_PATIENCE: Duration = Duration::from_secs(60);
/// Images between two reports; others are not counted.
const IMAGES_MAX: usize = 4_096;

/// An op on its way.
#[derive(Debug)]
struct Started {
    image: ImageKey,
    at: Instant,
    /// For writes, the bytes that came.
    written: Option<u64>,
}

/// The ops on RBD images that are under way, and what was counted since the last report.
#[derive(Debug, Default)]
pub(crate) struct ImagePerf {
    until: Instant,
    started: BTreeMap<(ConnId, u64), Started>,
    counts: BTreeMap<ImageKey, ImageCounts>,
}

/// The image of a data object: `rbd_data.ID.NUMBER`, or `rbd_data.POOL.ID.NUMBER` for one whose data lie in
/// another pool than its header.
fn image_of(pool: PoolId, nspace: &[u8], oid: &[u8]) -> Option<ImageKey> {
    let name = std::str::from_utf8(oid).ok()?;
    let rest = name.strip_prefix("rbd_data.").or_else(|| name.strip_prefix("journal_data."))?;
    let mut parts = rest.split('.');
    let (first, second, third) = (parts.next()?, parts.next()?, parts.next());
    let header_pool = third.and_then(|_| first.parse().ok()).map(PoolId);
    let id = if header_pool.is_some() { second } else { first };
    let nspace = std::str::from_utf8(nspace).ok()?.to_owned();
    (!id.is_empty()).then(|| ImageKey { pool: header_pool.unwrap_or(pool), nspace, id: id.to_owned() })
}

impl ImagePerf {
    fn start(&mut self, now: Instant, conn: ConnId, tid: u64, op: &MOSDOp) {
        if self.started.len() >= OPS_MAX {
            // Another OSD answers those whose PG it leads now.
            self.started.retain(|_, op| now.since(op.at) < OP_PATIENCE);
        }
        if self.started.len() >= OPS_MAX {
            return;
        }
        let Some(image) = image_of(op.pgid.pool, &op.locator.nspace, &op.oid) else { return };
        let is_write = op.ops.iter().any(|step| step.code.is_write());
        let bytes = op.ops.iter().map(|step| step.data.len() as u64).sum();
        self.started.insert((conn, tid), Started { image, at: now, written: is_write.then_some(bytes) });
    }

    fn drop_of(&mut self, conn: ConnId) {
        self.started.retain(|(of, _), _| *of != conn);
    }

    fn end(&mut self, now: Instant, conn: ConnId, tid: u64, reply: &MOSDOpReply) {
        let Some(op) = self.started.remove(&(conn, tid)) else { return };
        if self.counts.len() >= IMAGES_MAX && !self.counts.contains_key(&op.image) {
            return;
        }
        let counts = self.counts.entry(op.image).or_default();
        let nanos = u64::try_from(now.since(op.at).as_nanos()).unwrap_or(u64::MAX);
        match op.written {
            Some(bytes) => {
                counts.writes += 1;
                counts.write_bytes += bytes;
                counts.write_ns += nanos;
            }
            None => {
                counts.reads += 1;
                counts.read_bytes += reply.ops.iter().map(|step| step.data_bytes() as u64).sum::<u64>();
                counts.read_ns += nanos;
            }
        }
    }
}

impl Osd {
    /// The monitor asks for counts for some time.
    pub(crate) fn on_image_query(&mut self, query: MOSDImageQuery, ctx: &mut Ctx<'_>) {
        self.count_images(query.seconds, ctx);
        self.send_other_shards(|| ShardMessage::CountImages(query.seconds), ctx);
    }

    /// Counts for so many seconds from now on.
    pub(crate) fn count_images(&mut self, seconds: u32, ctx: &Ctx<'_>) {
        let until = ctx.now + Duration::from_secs(seconds.into());
        self.image_perf.get_or_insert_default().until = until;
    }

    pub(crate) fn image_op_started(&mut self, conn: ConnId, tid: u64, op: &MOSDOp, ctx: &Ctx<'_>) {
        if let Some(image_perf) = &mut self.image_perf {
            image_perf.start(ctx.now, conn, tid, op);
        }
    }

    pub(crate) fn image_op_ended(&mut self, conn: ConnId, tid: u64, reply: &MOSDOpReply, ctx: &Ctx<'_>) {
        if let Some(image_perf) = &mut self.image_perf {
            image_perf.end(ctx.now, conn, tid, reply);
        }
    }

    /// Forgets the ops of a connection on which nothing is answered any more.
    pub(crate) fn image_ops_dropped(&mut self, conn: ConnId) {
        if let Some(image_perf) = &mut self.image_perf {
            image_perf.drop_of(conn);
        }
    }

    /// Reports what was counted since the last time; stops counting when the monitor no longer asks for it.
    pub(crate) fn report_images(&mut self, ctx: &mut Ctx<'_>) {
        let Some(image_perf) = &mut self.image_perf else { return };
        let images = std::mem::take(&mut image_perf.counts);
        if image_perf.until < ctx.now {
            self.image_perf = None;
        }
        match self.config.shard.is_control() {
            true => self.send_image_stats(images, ctx),
            false => ctx.send_shard(CONTROL, ShardMessage::Images(images)),
        }
    }

    /// Tells the monitor what this shard or another one counted.
    pub(crate) fn send_image_stats(&self, images: BTreeMap<ImageKey, ImageCounts>, ctx: &mut Ctx<'_>) {
        if self.has_mon && !images.is_empty() {
            ctx.effects.push(Effect::SendMon(MOSDImageStats { osd: self.config.whoami, images }.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_never_answered_is_not_kept() {
        let mut image_perf = ImagePerf::default();
        let op = MOSDOp { oid: "rbd_data.104.0".into(), ..MOSDOp::default() };
        for conn in [ConnId(1), ConnId(2)] {
            image_perf.start(Instant::default(), conn, 7, &op);
        }
        image_perf.drop_of(ConnId(1));
        assert_eq!(image_perf.started.keys().copied().collect::<Vec<_>>(), [(ConnId(2), 7)]);
    }

    #[test]
    fn ops_that_are_answered_elsewhere_do_not_end_the_count() {
        let mut image_perf = ImagePerf::default();
        let op = MOSDOp { oid: "rbd_data.104.0".into(), ..MOSDOp::default() };
        let count = OPS_MAX as u64;
        (0..count).for_each(|tid| image_perf.start(Instant::default(), ConnId(1), tid, &op));
        let later = Instant::default() + OP_PATIENCE;
        for (now, tid) in [(Instant::default(), count), (later, count + 1)] {
            image_perf.start(now, ConnId(1), tid, &op);
        }
        assert_eq!(image_perf.started.keys().copied().collect::<Vec<_>>(), [(ConnId(1), count + 1)]);
    }

    #[test]
    fn images_are_known_by_their_objects() {
        let of = |oid: &str| image_of(PoolId(5), b"", oid.as_bytes()).map(|key| (key.pool.0, key.id));
        assert_eq!(of("rbd_data.104.0000000000000001"), Some((5, "104".to_owned())));
        assert_eq!(of("rbd_data.7.1041894ecd12.0000000000000001"), Some((7, "1041894ecd12".to_owned())));
        assert_eq!(of("journal_data.2.10ab.3"), Some((2, "10ab".to_owned())));
        assert_eq!([of("rbd_header.10"), of("rbd_data.10"), of("x")], [None, None, None]);
    }
}
