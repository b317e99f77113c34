//! Clients that an operator fences off while another one takes over what they worked on, as after a client's host has
//! failed, or seems to have. The old one does not know, and goes on for as long as no OSD tells it.
//!
//! The new one begins when it has the map that fences the old one off. From then on, what it has read of an object
//! stays as it is, whatever the old one had sent before or sends now.

use std::time::Duration;

use rand::seq::IndexedRandom;
use types::{EntityAddr, EntityAddrVec};

use crate::{
    schedule::{ProcessId, Scheduled},
    world::World,
};

/// How often the operator looks whether the client is fenced off.
const LOOK: Duration = Duration::from_millis(500);
/// Clients that are fenced off in a world, at most.
const FENCED_MAX: usize = 4;

/// Where a client is, which tells it apart from all others.
pub(crate) fn addr_of(client: usize) -> EntityAddr {
    EntityAddr::msgr2(([127, 0, 0, 1], 0).into(), 1_000 + client as u32)
}

impl World {
    /// An operator fences a client off.
    pub(crate) fn fence(&mut self) {
        // Other clients know what only they have done: they fill devices, and watch.
        if self.options.is_full || self.options.has_watchers || self.fenced >= FENCED_MAX {
            return;
        }
        // The first one gives the operator's orders.
        let may_be = |client: &usize| self.workloads[*client].may_be_fenced(&self.shared);
        let clients: Vec<usize> = (1..self.workloads.len()).filter(may_be).collect();
        let Some(client) = clients.choose(&mut self.rng).copied() else { return };
        self.workloads[client].fence();
        self.fenced += 1;
        self.taking_over += 1;
        let addr = addr_of(client);
        self.note(format!("client {} is fenced off", client + 1));
        self.command(format!(
            r#"{{"prefix":"osd blocklist","blocklistop":"add","addr":"{}"}}"#,
            addr.legacy_str()
        ));
        self.schedule.after(LOOK, self.client_process(client), Scheduled::TakeOver);
    }

    /// Another client takes over, once the old one is fenced off.
    pub(crate) fn take_over(&mut self, who: ProcessId) {
        let client = who.0 - 1 - self.osds.len();
        let addr = addr_of(client);
        if !self.osdmap().is_some_and(|map| map.is_blocklisted(&addr)) {
            self.schedule.after(LOOK, who, Scheduled::TakeOver);
            return;
        }
        self.taking_over -= 1;
        let successor = self.workloads[client].succeed(addr);
        self.workloads.push(successor);
        let key = self.clients[client].key().clone();
        self.start_client(key);
        let new = self.clients.len() - 1;
        self.note(format!("client {} takes over from client {}", new + 1, client + 1));
        self.schedule.after(Duration::ZERO, self.client_process(new), Scheduled::Work);
        self.saw(["a client took over from another"]);
    }

    /// Where the next client is.
    pub(crate) fn next_client_addrs(&self) -> EntityAddrVec {
        EntityAddrVec(vec![addr_of(self.clients.len())])
    }
}
