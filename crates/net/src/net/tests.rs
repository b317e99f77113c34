//! A peer that is there and takes nothing.

use std::net::SocketAddr;

use messages::{MPing, Pong};
use msgr::PartialFrame;
use types::{EntityAddr, Instant, UTime};

use super::*;

/// Connections that are never made.
#[derive(Default)]
struct DeadWire {
    dialed: u32,
    closed: Vec<u32>,
}

impl Wire for DeadWire {
    type Conn = u32;

    fn now(&self) -> Instant {
        Instant(1_000_000_000_000)
    }
    fn wall(&self) -> UTime {
        UTime::default()
    }
    fn connect(&mut self, _: SocketAddr) -> Option<u32> {
        self.dialed += 1;
        Some(self.dialed)
    }
    fn send(&mut self, _: u32, _: Vec<Bytes>) {}
    fn queued_bytes(&self, _: u32) -> usize {
        0
    }
    fn expect(&mut self, _: u32, _: usize) {}
    fn expect_frame(&mut self, _: u32, _: PartialFrame) {}
    fn pause_receive(&mut self, _: u32, _: bool) {}
    fn close(&mut self, conn: u32) {
        self.closed.push(conn);
    }
    fn close_when_sent(&mut self, _: u32) {}
}

/// Where a message to it had to be dropped, an OSD is given up until the map says something new of it, so that
/// nobody waits for an answer that cannot come.
#[test]
fn an_osd_that_takes_nothing_is_reported_until_it_is_forgotten() {
    let config = Config {
        entity_type: EntityType::OSD,
        addrs: EntityAddrVec::default(),
        more_addrs: EntityAddrVec::default(),
        gid: 1,
        methods: vec![auth::method::NONE],
        modes: vec![auth::con_mode::CRC],
    };
    let mut net: Net<u32> = Net::new(config, None, [1; 32]);
    let mut wire = DeadWire::default();
    let addrs = Arc::new(EntityAddrVec(vec![EntityAddr::parse("v2:127.0.0.1:6800/7").unwrap()]));
    let ping = Arc::new(Message::from(MPing { pong: Pong(None) }).encode(0));
    let reports = |net: &mut Net<u32>, wire: &mut DeadWire| {
        let mut out = Vec::new();
        net.tick(wire, &mut out);
        out.iter().filter(|event| matches!(event, NetEvent::OsdRefused(OsdId(3)))).count()
    };
    for _ in 0..100_000 {
        net.send_osd(OsdId(3), addrs.clone(), ping.clone(), &mut wire);
    }
    assert_eq!((reports(&mut net, &mut wire), wire.dialed), (0, 1));
    net.send_osd(OsdId(3), addrs.clone(), ping.clone(), &mut wire);
    assert_eq!((reports(&mut net, &mut wire), &wire.closed[..]), (1, &[1][..]));
    net.send_osd(OsdId(3), addrs.clone(), ping.clone(), &mut wire);
    assert_eq!((reports(&mut net, &mut wire), wire.dialed), (1, 1), "nothing more waits for it");
    net.forget_osd(OsdId(3), &mut wire);
    net.send_osd(OsdId(3), addrs, ping.clone(), &mut wire);
    assert_eq!((reports(&mut net, &mut wire), wire.dialed), (0, 2));
}
