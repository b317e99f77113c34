//! What all processes have in common: they own connections and are told what happens.

use types::{Instant, Token, UTime};

use crate::{
    network::{EndId, Network, SimWire},
    schedule::{ProcessId, Schedule},
};

/// What a process may use during a call.
pub(crate) struct Ctx<'a> {
    pub(crate) who: ProcessId,
    pub(crate) schedule: &'a mut Schedule,
    pub(crate) network: &'a mut Network,
}

impl Ctx<'_> {
    pub(crate) fn wire(&mut self) -> SimWire<'_> {
        SimWire { who: self.who, schedule: self.schedule, network: self.network }
    }

    /// What the process' clock shows.
    pub(crate) fn now(&self) -> Instant {
        self.schedule.now_of(self.who)
    }

    /// What its wall clock shows.
    pub(crate) fn wall(&self) -> UTime {
        self.schedule.wall_of(self.who)
    }

    pub(crate) fn set_timer(&mut self, token: Token, at: Instant) {
        self.schedule.set_timer(self.who, token, at);
    }
}

/// A daemon or a client that runs.
pub(crate) trait Process {
    /// Something reached one of its ends: [`Network::take`] has what.
    fn on_arrival(&mut self, end: EndId, ctx: &mut Ctx<'_>);

    /// Several times a second.
    fn on_net_tick(&mut self, ctx: &mut Ctx<'_>);

    /// A timer of its machine.
    fn on_timer(&mut self, token: Token, ctx: &mut Ctx<'_>);
}
