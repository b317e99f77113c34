//! A turn of a shard, as the daemon's loop has it: what came since the last one goes by the stages of crate `shard`.
//!
//! What goes in and out is never inlined: `bench/instructions` counts what these functions call.

use std::time::Duration;

use bytes::Bytes;
use osd::Cross;
use rand::Rng;
use shard::Outcome;
use store::DeviceError;
use types::Token;

use super::{NET_TICK, OsdProcess};
use crate::{
    network::EndId,
    process::{Cx, Process},
    schedule::What,
};

/// Of a device to its store.
type Answer = (Token, Result<Option<Bytes>, DeviceError>);

/// What waits for a shard's next turn.
#[derive(Default)]
pub(super) struct Came {
    ends: Vec<EndId>,
    device: Vec<Answer>,
    crossed: Vec<(u16, Cross)>,
    timers: Vec<Token>,
    is_net_tick: bool,
    /// The turn is on the schedule.
    is_due: bool,
}

impl Came {
    /// An answer of the device that the store does not know of.
    pub(super) fn pop_device(&mut self) -> Option<Answer> {
        self.device.pop()
    }
}

impl OsdProcess {
    /// The device executes one of its commands.
    pub(crate) fn on_device(&mut self, cx: &mut Cx<'_>) {
        let part = &mut self.parts[cx.who.index()];
        part.came.device.extend(part.disk.step(&mut self.rng));
        self.wake(cx);
    }

    /// Another shard's word arrives.
    pub(crate) fn on_cross(&mut self, from: u16, cross: Cross, cx: &mut Cx<'_>) {
        self.parts[cx.who.index()].came.crossed.push((from, cross));
        self.wake(cx);
    }

    /// Something came: there is a turn for it, at once or, on a busy CPU, later.
    fn wake(&mut self, cx: &mut Cx<'_>) {
        let came = &mut self.parts[cx.who.index()].came;
        if came.is_due {
            return;
        }
        if !self.is_busy || self.rng.random_bool(0.4) {
            return self.turn(cx);
        }
        came.is_due = true;
        let us = match self.rng.random_range(0..200) {
            0 => self.rng.random_range(0..30_000),
            _ => self.rng.random_range(1..500),
        };
        cx.schedule.after(Duration::from_micros(us), cx.who, What::Turn);
    }

    /// A turn, for all that came.
    #[inline(never)]
    pub(crate) fn turn(&mut self, cx: &mut Cx<'_>) {
        if self.failure.is_some() {
            return;
        }
        let part = &mut self.parts[cx.who.index()];
        part.came.is_due = false;
        for (token, result) in part.came.device.drain(..) {
            part.machine.store.device_done(token, result);
        }
        for end in part.came.ends.drain(..) {
            while let Some(event) = cx.network.take(end) {
                part.machine.on_wire(event, &mut cx.wire());
            }
        }
        for (from, cross) in part.came.crossed.drain(..) {
            part.machine.on_cross(from, cross, &cx.wire());
        }
        if let Some(canary) = self.canary {
            canary.spoil_messages(&mut part.machine, &mut part.heard, &mut self.rng);
        }
        part.machine.handle_messages(&mut cx.wire());
        for token in part.came.timers.drain(..) {
            part.machine.on_timer(token, &cx.wire());
        }
        if std::mem::take(&mut part.came.is_net_tick) {
            part.machine.on_net_tick(&mut cx.wire());
            cx.schedule.after(NET_TICK, cx.who, What::NetTick);
        }
        if let Some(canary) = self.canary {
            canary.spoil_effects(&mut part.machine, &part.heard);
        }
        part.machine.execute(&mut cx.wire());
        while self.drain_store(cx) {}
        self.carry_out(cx);
        let machine = &mut self.parts[cx.who.index()].machine;
        let fault = machine.store.fault().map(|fault| format!("its store failed: {fault}"));
        self.failure = fault.or_else(|| Some(machine.take_fault()?.to_string()));
        machine.net.hold_clients(machine.osd.is_saturated(), &mut cx.wire());
    }

    /// True if it is to be done again.
    fn drain_store(&mut self, cx: &mut Cx<'_>) -> bool {
        let part = &mut self.parts[cx.who.index()];
        let has_more = match self.canary {
            None => part.machine.drain_store(&mut self.commands, &mut cx.wire()),
            Some(canary) => {
                canary.drain_store(&mut part.machine, &part.heard, &mut self.commands, &mut cx.wire())
            }
        };
        for _ in &self.commands {
            let us = match self.rng.random_range(0..200) {
                0 => self.rng.random_range(0..50_000),
                _ => self.rng.random_range(10..300),
            };
            cx.schedule.after(Duration::from_micros(us), cx.who, What::Device);
        }
        part.disk.submit(self.commands.drain(..));
        has_more
    }

    fn carry_out(&mut self, cx: &mut Cx<'_>) {
        self.parts[cx.who.index()].machine.swap_outcomes(&mut self.outcomes);
        let mut outcomes = std::mem::take(&mut self.outcomes);
        for outcome in outcomes.drain(..) {
            match outcome {
                // No operator waits for it.
                Outcome::Answer(..) => {}
                Outcome::Cross(to, cross) => self.cross(to, cross, cx),
                Outcome::ShareAuth => self.share_auth(cx.who.index()),
                Outcome::SetTimer(token, at) => cx.set_timer(token, at),
                // What runs here has no memory to save, and no log of its own.
                Outcome::OptionsChanged => {}
            }
        }
        self.outcomes = outcomes;
    }

    /// The other shards get the tickets and secrets that this one has.
    fn share_auth(&mut self, from: usize) {
        let Some((keeper, secrets)) = self.parts[from].machine.own_auth() else { return };
        let (keeper, secrets) = (keeper.clone(), secrets.cloned());
        for (_, other) in self.parts.iter_mut().enumerate().filter(|(index, _)| *index != from) {
            other.machine.set_auth(keeper.clone(), secrets.clone());
        }
    }

    fn cross(&mut self, to: u16, cross: Cross, cx: &mut Cx<'_>) {
        let from = cx.who.index() as u16;
        let us = match self.rng.random_range(0..200) {
            0 => self.rng.random_range(0..20_000),
            _ => self.rng.random_range(1..30),
        };
        let last = self.last_cross.entry((from, to)).or_default();
        // Things of one time happen in the order in which they were scheduled.
        *last = (cx.schedule.now() + Duration::from_micros(us)).max(*last);
        cx.schedule.at(*last, cx.who.part(to), What::Cross(from, Box::new(cross)));
    }
}

impl Process for OsdProcess {
    fn on_arrival(&mut self, end: EndId, cx: &mut Cx<'_>) {
        self.parts[cx.who.index()].came.ends.push(end);
        self.wake(cx);
    }

    fn on_net_tick(&mut self, cx: &mut Cx<'_>) {
        self.parts[cx.who.index()].came.is_net_tick = true;
        self.wake(cx);
    }

    fn on_timer(&mut self, token: Token, cx: &mut Cx<'_>) {
        self.parts[cx.who.index()].came.timers.push(token);
        self.wake(cx);
    }
}
