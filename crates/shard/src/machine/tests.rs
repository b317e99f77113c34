use std::net::SocketAddr;

use bytes::Bytes;
use msgr::{Config, PartialFrame};
use osd::{OsdConfig, Shard};
use rand::{SeedableRng, rngs::StdRng};
use store::{Config as StoreConfig, JournalKey, StoreIdentity, virtual_disk::VirtualDisk};
use types::{EntityAddrVec, OsdId, UTime, Uuid};

use super::*;

/// A network that nobody is in, and a clock.
struct Nowhere(Instant);

impl Wire for Nowhere {
    type Conn = u32;

    fn now(&self) -> Instant {
        self.0
    }

    fn wall(&self) -> UTime {
        UTime::default()
    }

    fn connect(&mut self, _: SocketAddr) -> Option<u32> {
        None
    }

    fn send(&mut self, _: u32, _: Vec<Bytes>) {}

    fn queued_bytes(&self, _: u32) -> usize {
        0
    }

    fn expect(&mut self, _: u32, _: usize) {}

    fn expect_frame(&mut self, _: u32, _: PartialFrame) {}

    fn pause_receive(&mut self, _: u32, _: bool) {}

    fn close(&mut self, _: u32) {}

    fn close_when_sent(&mut self, _: u32) {}

    fn is_gone(&self, _: u32) -> bool {
        true
    }
}

/// A new store.
fn store(disk: &mut VirtualDisk) -> Store {
    let identity = StoreIdentity { fsid: Uuid::NIL, store_uuid: Uuid([1; 16]), osd: 0, shard: 0, shards: 1 };
    let key = JournalKey::new([2; 16]);
    let commands = Store::format(disk.sizes(), identity, key, &StoreConfig::default()).unwrap();
    for command in commands {
        disk.execute(command).1.unwrap();
    }
    disk.mount(StoreConfig::default(), &mut StdRng::seed_from_u64(1)).unwrap()
}

/// An OSD with nothing on it.
fn machine(store: Store) -> ShardMachine<u32> {
    let osd = Osd::new(OsdConfig {
        whoami: OsdId(0),
        fsid: Uuid::NIL,
        uuid: Uuid([1; 16]),
        device_bytes: 64 << 20,
        metadata: [].into(),
        options: [].into(),
        hostname: String::new(),
        features: 0,
        git_version: "",
        shard: Shard::ONLY,
        seed: 0,
    });
    let config = Config {
        entity_type: EntityType::OSD,
        addrs: EntityAddrVec::default(),
        more_addrs: EntityAddrVec::default(),
        gid: 0,
        methods: Vec::new(),
        modes: Vec::new(),
    };
    ShardMachine::new(osd, store, Net::new(config, None, [0; 32]), true)
}

#[test]
fn a_stopped_osd_whose_device_does_not_answer_ends() {
    let mut machine = machine(store(&mut VirtualDisk::new(64 << 20)));
    let at = |second: u64| Nowhere(Instant(second * 1_000_000_000));
    machine.handle(
        Event::Started { public_addrs: EntityAddrVec::default(), cluster_addrs: EntityAddrVec::default() },
        &at(100),
    );
    machine.handle(Event::Stop, &at(100));
    machine.execute(&mut at(100));
    assert!(machine.is_stopped());
    let mut commands = Vec::new();
    let fault = (100..1_000).find_map(|second| {
        commands.clear();
        machine.drain_store(&mut commands, &mut at(second));
        machine.on_net_tick(&mut at(second));
        Some((second, machine.take_fault()?.to_string()))
    });
    assert!(!machine.store.is_unmounted());
    let words = "the main device of shard 0 has not answered for 150 s";
    assert_eq!(fault, Some((250, words.to_owned())));
}
