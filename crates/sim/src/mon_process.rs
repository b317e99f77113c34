//! The monitor with a ledger that takes its time.

use std::time::Duration;

use auth::{con_mode, method};
use mon::{ConnId, Effect, Event, Ledger, LedgerTxn, MemLedger, Mon, MonOptions, Peer};
use msgr::Config;
use net::{Net, NetEvent, PeerEvent};
use rand::{Rng, SeedableRng, rngs::StdRng};
use types::{EntityAddrVec, EntityType, GlobalId, Token};

use crate::{
    network::EndId,
    process::{Ctx, Process},
    schedule::Scheduled,
};

const TIMER: Token = Token(1);
const NET_TICK: Duration = Duration::from_millis(250);

/// The monitor, with a ledger that takes its time.
pub(crate) struct MonProcess {
    pub(crate) mon: Mon,
    net: Net<EndId>,
    ledger: MemLedger,
    /// Proposed, not committed.
    proposed: Option<LedgerTxn>,
    rng: StdRng,
}

impl MonProcess {
    /// Starts on what the ledger holds.
    pub(crate) fn start(
        ledger: MemLedger,
        addrs: EntityAddrVec,
        options: MonOptions,
        rng: &mut StdRng,
        ctx: &mut Ctx<'_>,
    ) -> MonProcess {
        let config = Config {
            entity_type: EntityType::MON,
            addrs: addrs.clone(),
            more_addrs: EntityAddrVec::default(),
            gid: 0,
            methods: vec![method::CEPHX],
            modes: vec![con_mode::CRC],
        };
        let contents = ledger.load().expect("a ledger in memory can be read");
        let mut process = MonProcess {
            mon: Mon::new(options, rng.random()),
            net: Net::new(config, None, rng.random()),
            ledger,
            proposed: None,
            rng: StdRng::from_rng(rng),
        };
        if let Some(socket) = addrs.msgr2_addr().and_then(|addr| addr.socket) {
            ctx.network.listen(ctx.who, socket, 1);
        }
        process.handle(Event::Boot(Box::new(contents)), ctx);
        process.handle(Event::Timer, ctx);
        ctx.schedule.after(NET_TICK, ctx.who, Scheduled::NetTick);
        process
    }

    /// The process is killed: what it proposed last is in the ledger or not.
    pub(crate) fn crash(mut self) -> MemLedger {
        if self.rng.random_bool(0.5)
            && let Some(txn) = self.proposed.take()
        {
            self.ledger.commit(&txn).expect("nobody else writes the ledger");
        }
        self.ledger
    }

    /// The ledger has committed.
    pub(crate) fn on_ledger(&mut self, ctx: &mut Ctx<'_>) {
        let Some(txn) = self.proposed.take() else { return };
        let revision = self.ledger.commit(&txn).expect("nobody else writes the ledger");
        self.handle(Event::LedgerCommitted(revision), ctx);
    }

    fn on_net(&mut self, events: Vec<NetEvent>, ctx: &mut Ctx<'_>) {
        for event in events.into_iter().filter_map(NetEvent::from_peer) {
            match event {
                PeerEvent::Opened(id, end) => {
                    let peer = Peer {
                        name: end.identity.name,
                        global_id: GlobalId(end.identity.global_id),
                        addr: end.addr,
                        ip: end.socket.ip(),
                        features: end.features,
                    };
                    self.handle(Event::ConnOpened(ConnId(id), Box::new(peer)), ctx);
                }
                PeerEvent::Closed(id) => self.handle(Event::ConnClosed(ConnId(id)), ctx),
                PeerEvent::Received(id, tid, message) => {
                    self.handle(Event::Received { conn: ConnId(id), tid, message }, ctx);
                }
            }
        }
    }

    fn handle(&mut self, event: Event, ctx: &mut Ctx<'_>) {
        let mut effects = Vec::new();
        self.mon.handle(ctx.now(), ctx.wall(), event, &mut effects);
        for effect in effects {
            match effect {
                Effect::Send { conn, tid, message } => {
                    self.net.send(conn.0, tid, &message, &mut ctx.wire());
                }
                // There is no manager here, and no operator gives the monitor commands.
                Effect::SendManager { .. }
                | Effect::Objects(..)
                | Effect::Run(..)
                | Effect::Kill(_)
                | Effect::Compact => panic!("there is no manager"),
                // The log is the simulator's.
                Effect::OptionsChanged => {}
                Effect::Close(conn) => self.net.close(conn.0, &mut ctx.wire()),
                Effect::SetTimer(at) => ctx.set_timer(TIMER, at),
                Effect::Propose(txn) => {
                    assert!(self.proposed.replace(txn).is_none(), "one proposal at a time");
                    let delay = Duration::from_micros(self.rng.random_range(100..20_000));
                    ctx.schedule.after(delay, ctx.who, Scheduled::Ledger);
                }
            }
        }
    }
}

impl Process for MonProcess {
    fn on_arrival(&mut self, end: EndId, ctx: &mut Ctx<'_>) {
        while let Some(event) = ctx.network.take(end) {
            let mut out = Vec::new();
            self.net.on_event(event, &mut ctx.wire(), &mut self.mon, &mut out);
            self.on_net(out, ctx);
        }
    }

    fn on_net_tick(&mut self, ctx: &mut Ctx<'_>) {
        let mut out = Vec::new();
        self.net.tick(&mut ctx.wire(), &mut out);
        self.on_net(out, ctx);
        ctx.schedule.after(NET_TICK, ctx.who, Scheduled::NetTick);
    }

    fn on_timer(&mut self, _: Token, ctx: &mut Ctx<'_>) {
        self.handle(Event::Timer, ctx);
    }
}
