//! A turn of a shard, as the daemon's loop has it: what came since the last one goes by the stages of crate `shard`.
//!
//! What goes in and out is never inlined: `bench/instructions` counts what these functions call.

use std::time::Duration;

use auth::{RotatingSecrets, TicketKeeper};
use bytes::Bytes;
use osd::{CONTROL, ShardMessage};
use rand::Rng;
use shard::Outcome;
use store::DeviceError;
use types::Token;

use super::{NET_TICK, OsdProcess};
use crate::{
    network::EndId,
    process::{Ctx, Process},
    schedule::Scheduled,
};

/// Of a device to its store.
type Answer = (Token, Result<Option<Bytes>, DeviceError>);

/// What a shard sends to another one of its OSD.
#[derive(Debug)]
pub(crate) enum ShardItem {
    Message(ShardMessage),
    /// Its tickets and secrets.
    Auth(TicketKeeper, Option<RotatingSecrets>),
    /// Services refuse the tickets.
    WantTickets,
}

#[derive(Clone, Copy)]
enum Timer {
    Machine(Token),
    Net,
}

/// What waits for a shard's next turn.
#[derive(Default)]
pub(super) struct Came {
    ends: Vec<EndId>,
    device: Vec<Answer>,
    shard_items: Vec<(u16, ShardItem)>,
    timers: Vec<Timer>,
    /// The turn is on the schedule.
    is_due: bool,
}

impl OsdProcess {
    /// The device executes one of its commands.
    pub(crate) fn on_device(&mut self, ctx: &mut Ctx<'_>) {
        let part = &mut self.parts[ctx.who.index()];
        part.came.device.extend(part.disk.step(&mut self.rng));
        self.wake(ctx);
    }

    /// Another shard's word arrives.
    pub(crate) fn on_shard_item(&mut self, from: u16, item: ShardItem, ctx: &mut Ctx<'_>) {
        self.parts[ctx.who.index()].came.shard_items.push((from, item));
        self.wake(ctx);
    }

    /// Something came: there is a turn for it, at once or, on a busy CPU, later.
    fn wake(&mut self, ctx: &mut Ctx<'_>) {
        let came = &mut self.parts[ctx.who.index()].came;
        if came.is_due {
            return;
        }
        if !self.is_busy || self.rng.random_bool(0.4) {
            return self.turn(ctx);
        }
        came.is_due = true;
        let us = match self.rng.random_range(0..200) {
            0 => self.rng.random_range(0..30_000),
            _ => self.rng.random_range(1..500),
        };
        ctx.schedule.after(Duration::from_micros(us), ctx.who, Scheduled::Turn);
    }

    /// A turn, for all that came.
    #[inline(never)]
    pub(crate) fn turn(&mut self, ctx: &mut Ctx<'_>) {
        if self.failure.is_some() {
            return;
        }
        let part = &mut self.parts[ctx.who.index()];
        part.came.is_due = false;
        for (token, result) in part.came.device.drain(..) {
            part.machine.store.device_done(token, result);
        }
        for end in part.came.ends.drain(..) {
            while let Some(event) = ctx.network.take(end) {
                part.machine.on_wire(event, &mut ctx.wire());
            }
        }
        for (from, item) in part.came.shard_items.drain(..) {
            match item {
                ShardItem::Message(message) => part.machine.on_shard_message(from, message, &ctx.wire()),
                ShardItem::Auth(keeper, secrets) => part.machine.set_auth(keeper, secrets),
                ShardItem::WantTickets => part.machine.net.want_tickets(),
            }
        }
        if let Some(canary) = self.canary {
            canary.spoil_messages(&mut part.machine, &mut part.heard, &mut self.rng);
        }
        part.machine.handle_messages(&mut ctx.wire());
        for timer in part.came.timers.drain(..) {
            match timer {
                Timer::Machine(token) => part.machine.on_timer(token, &ctx.wire()),
                Timer::Net => {
                    part.machine.on_net_tick(&mut ctx.wire());
                    ctx.schedule.after(NET_TICK, ctx.who, Scheduled::NetTick);
                }
            }
        }
        if let Some(canary) = self.canary {
            canary.spoil_effects(&mut part.machine, &part.heard);
        }
        part.machine.execute(&mut ctx.wire());
        while self.drain_store(ctx) {}
        self.carry_out(ctx);
        let machine = &mut self.parts[ctx.who.index()].machine;
        // What rots has a wrong checksum and comes into no books.
        machine.store.assert_consistent();
        let fault = machine.store.fault().map(|fault| format!("its store failed: {fault}"));
        self.failure = fault.or_else(|| Some(machine.take_fault()?.to_string()));
        machine.net.hold_clients(machine.osd.is_saturated(), &mut ctx.wire());
    }

    /// True if it is to be done again.
    fn drain_store(&mut self, ctx: &mut Ctx<'_>) -> bool {
        let part = &mut self.parts[ctx.who.index()];
        let has_more = match self.canary {
            None => part.machine.drain_store(&mut self.commands, &mut ctx.wire()),
            Some(canary) => {
                canary.drain_store(&mut part.machine, &part.heard, &mut self.commands, &mut ctx.wire())
            }
        };
        for _ in &self.commands {
            let us = match self.rng.random_range(0..200) {
                0 => self.rng.random_range(0..50_000),
                _ => self.rng.random_range(10..300),
            };
            ctx.schedule.after(Duration::from_micros(us), ctx.who, Scheduled::Device);
        }
        part.disk.submit(self.commands.drain(..));
        has_more
    }

    fn carry_out(&mut self, ctx: &mut Ctx<'_>) {
        self.parts[ctx.who.index()].machine.swap_outcomes(&mut self.outcomes);
        let mut outcomes = std::mem::take(&mut self.outcomes);
        for outcome in outcomes.drain(..) {
            match outcome {
                // No operator waits for it.
                Outcome::Answer(..) => {}
                Outcome::ShardMessage(to, message) => self.send_shard(to, ShardItem::Message(message), ctx),
                Outcome::ShareAuth => self.share_auth(ctx),
                Outcome::WantTickets => self.send_shard(CONTROL, ShardItem::WantTickets, ctx),
                Outcome::SetTimer(token, at) => ctx.set_timer(token, at),
                // What runs here has no memory to save, and no log of its own.
                Outcome::OptionsChanged => {}
            }
        }
        self.outcomes = outcomes;
    }

    /// The other shards get the tickets and secrets that this one has.
    fn share_auth(&mut self, ctx: &mut Ctx<'_>) {
        let from = ctx.who.index();
        let Some((keeper, secrets)) = self.parts[from].machine.own_auth() else { return };
        let (keeper, secrets) = (keeper.clone(), secrets.cloned());
        for to in (0..self.parts.len()).filter(|to| *to != from) {
            self.send_shard(to as u16, ShardItem::Auth(keeper.clone(), secrets.clone()), ctx);
        }
    }

    fn send_shard(&mut self, to: u16, item: ShardItem, ctx: &mut Ctx<'_>) {
        let from = ctx.who.index() as u16;
        let us = match self.rng.random_range(0..200) {
            0 => self.rng.random_range(0..20_000),
            _ => self.rng.random_range(1..30),
        };
        let last = self.last_shard_message.entry((from, to)).or_default();
        // Things of one time happen in the order in which they were scheduled.
        *last = (ctx.schedule.now() + Duration::from_micros(us)).max(*last);
        ctx.schedule.at(*last, ctx.who.part(to), Scheduled::ShardItem(from, Box::new(item)));
    }
}

impl Process for OsdProcess {
    fn on_arrival(&mut self, end: EndId, ctx: &mut Ctx<'_>) {
        self.parts[ctx.who.index()].came.ends.push(end);
        self.wake(ctx);
    }

    fn on_net_tick(&mut self, ctx: &mut Ctx<'_>) {
        self.parts[ctx.who.index()].came.timers.push(Timer::Net);
        self.wake(ctx);
    }

    fn on_timer(&mut self, token: Token, ctx: &mut Ctx<'_>) {
        self.parts[ctx.who.index()].came.timers.push(Timer::Machine(token));
        self.wake(ctx);
    }
}
