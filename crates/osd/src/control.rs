//! What the control shard does for the others: it keeps what they report, hands maps on, and stops them.

use std::collections::BTreeMap;

use messages::MOSDPGCreate;
use serde_json::Value;
use store::StoreUsage;
use types::{Epoch, PoolId, PoolStatfs};

use crate::{
    Osd, ShardMessage,
    boot::Boot,
    osd::Ctx,
    shard_message::Report,
    tell::{self, Answer, Call},
};

/// What the control shard keeps for the other shards. Empty on all shards but the control shard.
#[derive(Default)]
pub(crate) struct Control {
    /// The last report of each other shard.
    reports: BTreeMap<u16, Report>,
    /// Shards that still answer clients, while the OSD stops.
    pub(crate) unquiet: u16,
    /// Callers that wait for the reports of so many shards, by number.
    flushes: BTreeMap<u64, (Call, u16)>,
    next_flush: u64,
    /// Callers that wait for every shard's part of their answer, by number, with the parts that are there.
    gathers: BTreeMap<u64, (Call, Vec<Value>)>,
}

impl Control {
    pub(crate) fn reports(&self) -> impl Iterator<Item = &Report> {
        self.reports.values()
    }
}

impl Osd {
    /// True when every other shard has reported: before that, sums would be too small.
    pub(crate) fn has_all_reports(&self) -> bool {
        self.control.reports.len() + 1 == usize::from(self.config.shard.count)
    }

    /// Space of the OSD. It is as full as its fullest shard, for that is where a write may find no room.
    pub(crate) fn usage(&self, ctx: &Ctx<'_>) -> StoreUsage {
        let mut sum = ctx.store.usage();
        for usage in self.control.reports().map(|report| report.usage) {
            sum.total_bytes += usage.total_bytes;
            sum.available_bytes = sum.available_bytes.min(usage.available_bytes);
            sum.data_bytes += usage.data_bytes;
            sum.omap_bytes += usage.omap_bytes;
            sum.meta_bytes += usage.meta_bytes;
        }
        sum.available_bytes *= self.control.reports.len() as u64 + 1;
        sum
    }

    /// What pools take of all shards' space.
    pub(crate) fn pool_usage(&self, ctx: &Ctx<'_>) -> Vec<(PoolId, PoolStatfs)> {
        let mut sums = BTreeMap::<PoolId, PoolStatfs>::new();
        let others = self.control.reports().flat_map(|report| report.pool_usage.iter().copied());
        for (pool, usage) in ctx.store.pool_usage().into_iter().chain(others) {
            let sum = sums.entry(pool).or_default();
            *sum = sum.plus(usage);
        }
        sums.into_iter().collect()
    }

    pub(crate) fn on_report(&mut self, from: u16, report: Report, ctx: &mut Ctx<'_>) {
        let is_new_peer = self.control.reports.get(&from).is_none_or(|known| known.peers != report.peers);
        let pgs = report.pgs.clone();
        self.control.reports.insert(from, report);
        if is_new_peer {
            self.set_heartbeat_peers();
        }
        self.tell_room(ctx);
        // The monitor is told at once what the shard reports; all of it is sent again with our own report.
        self.send_stats(pgs, ctx);
    }

    /// A shard wants newer maps: its maps end before ours, or a message that it got names an epoch that it does not
    /// have.
    pub(crate) fn on_want_maps(&mut self, from: u16, have: Epoch, ctx: &mut Ctx<'_>) {
        if have < self.map.epoch {
            let maps = self.maps_since(have, ctx);
            ctx.send_shard(from, ShardMessage::Maps(Box::new(maps)));
        } else {
            self.want_maps(ctx);
        }
    }

    /// Hands PGs that never existed to the shards that make them.
    pub(crate) fn distribute_pg_create(&mut self, create: &MOSDPGCreate, ctx: &mut Ctx<'_>) {
        let shard = self.config.shard;
        let map = &self.map;
        let is_of = |place: u16, pgid| shard.owner(pgid, map) == place;
        let of = |place: u16| -> Vec<_> {
            create.pgs.iter().filter(|creation| is_of(place, creation.pgid)).cloned().collect()
        };
        for other in shard.others() {
            let pgs = of(other);
            if !pgs.is_empty() {
                ctx.send_shard(
                    other,
                    ShardMessage::PgCreate(Box::new(MOSDPGCreate { pgs, epoch: create.epoch })),
                );
            }
        }
        let pgs = of(shard.index);
        self.on_pg_create(MOSDPGCreate { pgs, epoch: create.epoch }, ctx);
    }

    /// Answers `call` when every shard has reported anew.
    pub(crate) fn flush_shards(&mut self, call: Call, ctx: &mut Ctx<'_>) {
        self.control.next_flush += 1;
        let number = self.control.next_flush;
        self.control.flushes.insert(number, (call, self.config.shard.count - 1));
        self.send_other_shards(|| ShardMessage::Flush(number), ctx);
    }

    pub(crate) fn on_flushed(&mut self, number: u64, ctx: &mut Ctx<'_>) {
        let Some((_, left)) = self.control.flushes.get_mut(&number) else { return };
        *left -= 1;
        if *left == 0
            && let Some((call, _)) = self.control.flushes.remove(&number)
        {
            self.finish_flush(&call, ctx);
        }
    }

    /// Answers `call` with what all shards have to say to it.
    pub(crate) fn gather(&mut self, call: &Call, ctx: &mut Ctx<'_>) -> Answer {
        let own = self.part_of(call, ctx);
        if self.config.shard.count == 1 {
            return Ok(Some(tell::merge(call, vec![own])));
        }
        self.control.next_flush += 1;
        let number = self.control.next_flush;
        self.control.gathers.insert(number, (call.clone(), vec![own]));
        self.send_other_shards(|| ShardMessage::Gather(number, Box::new(call.args().clone())), ctx);
        Ok(None)
    }

    pub(crate) fn on_gathered(&mut self, number: u64, part: Value, ctx: &mut Ctx<'_>) {
        let Some((_, parts)) = self.control.gathers.get_mut(&number) else { return };
        parts.push(part);
        if parts.len() == usize::from(self.config.shard.count)
            && let Some((call, parts)) = self.control.gathers.remove(&number)
        {
            let answer = tell::merge(&call, parts);
            self.answer_tell(&call, Ok(Some(answer)), ctx);
        }
    }

    pub(crate) fn on_quiesced(&mut self, ctx: &mut Ctx<'_>) {
        self.control.unquiet = self.control.unquiet.saturating_sub(1);
        if self.control.unquiet == 0 && matches!(self.boot, Boot::Stopping { .. }) {
            self.mark_me_down(ctx);
        }
    }
}
