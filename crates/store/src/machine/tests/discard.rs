//! When freed space is discarded, and what of it.

use types::Instant;

use super::*;
use crate::{DeviceCommand, DeviceError, space::Run};

const OBJECT_BYTES: u64 = 1 << 20;

struct Bench {
    store: Store,
    disk: VirtualDisk,
    rng: StdRng,
    /// In milliseconds.
    now: u64,
    /// It refuses to discard.
    is_unable: bool,
}

impl Bench {
    fn new() -> Bench {
        let mut rng = StdRng::seed_from_u64(1);
        let mut disk = formatted(DISK_BYTES, &config());
        let store = mount(&mut disk, &mut rng).unwrap();
        Bench { store, disk, rng, now: 0, is_unable: false }
    }

    /// So many milliseconds later. What is discarded at last, in bytes, all of which is executed.
    fn turn_after(&mut self, ms: u64) -> Vec<u64> {
        self.now += ms;
        self.store.set_time(Instant(self.now * 1_000_000));
        self.store.kick();
        let mut out = Vec::new();
        loop {
            for command in self.store.take_commands() {
                match command {
                    DeviceCommand::Discard { token, len, .. } if self.is_unable => {
                        out.push(len);
                        self.store.device_done(token, Err(DeviceError::Unsupported));
                    }
                    command => {
                        if let DeviceCommand::Discard { len, .. } = &command {
                            out.push(*len);
                        }
                        self.disk.submit([command]);
                    }
                }
            }
            self.store.take_completions();
            let Some((token, result)) = self.disk.step(&mut self.rng) else { return out };
            self.store.device_done(token, result);
        }
    }

    fn change(&mut self, number: u32, mutation: Mutation) {
        let mut txn = Transaction::new(coll(0));
        txn.push(&object(number), mutation);
        self.store.submit(Token(0), txn);
    }

    fn write(&mut self, number: u32) {
        let data = Bytes::from(vec![number as u8; OBJECT_BYTES as usize]).into();
        self.change(number, Mutation::Write { offset: 0, data });
    }

    /// An object is made and removed, and a checkpoint without it is durable.
    fn free_an_object(&mut self) {
        let mut made = Transaction::new(coll(0));
        made.ops.push(TxnOp::CreateCollection);
        self.store.submit(Token(0), made);
        self.write(1);
        assert_eq!(self.turn_after(1), [0; 0]);
        self.change(1, Mutation::Remove);
        assert_eq!(self.turn_after(1), [0; 0]);
        self.store.start_checkpoint();
        assert_eq!(self.turn_after(1), [0; 0]);
        self.store.check_invariants();
    }
}

#[test]
fn a_device_with_nothing_else_to_do_discards_what_is_free() {
    let mut bench = Bench::new();
    bench.free_an_object();
    assert_eq!(bench.turn_after(50), [0; 0], "it may go on soon");
    let discarded: u64 = bench.turn_after(200).iter().sum();
    assert!(discarded >= OBJECT_BYTES, "{discarded} bytes");
    assert_eq!(bench.turn_after(100_000), [0; 0], "once is enough");
    bench.store.check_invariants();
}

#[test]
fn what_is_used_again_is_not_discarded() {
    let mut bench = Bench::new();
    bench.free_an_object();
    bench.write(2);
    assert_eq!(bench.turn_after(1), [0; 0]);
    let discarded: u64 = bench.turn_after(200).iter().sum();
    assert!(discarded < OBJECT_BYTES, "{discarded} bytes");
    bench.store.check_invariants();
}

#[test]
fn a_busy_device_discards_what_has_been_free_for_a_minute() {
    let mut bench = Bench::new();
    bench.free_an_object();
    let mut discarded = Vec::new();
    for second in 0..70 {
        bench.change(3, Mutation::SetXattrs([(Bytes::from("k"), Bytes::from(vec![second]))].into()));
        // As if the device were given something just before the next turn.
        bench.store.discards.note_busy(Instant((bench.now + 1_000) * 1_000_000));
        discarded.push(bench.turn_after(1_000).iter().sum::<u64>());
    }
    let first = discarded.iter().position(|bytes| *bytes > 0);
    assert!(first.is_some_and(|second| (58..=61).contains(&second)), "{discarded:?}");
    assert!(discarded.iter().sum::<u64>() >= OBJECT_BYTES);
}

#[test]
fn a_device_that_cannot_is_not_asked_again() {
    let mut bench = Bench::new();
    bench.is_unable = true;
    bench.free_an_object();
    assert!(!bench.turn_after(200).is_empty());
    bench.store.check_invariants();
    bench.is_unable = false;
    assert_eq!(bench.turn_after(200_000), [0; 0]);
    bench.write(2);
    bench.turn_after(1);
    bench.store.check_invariants();
}

#[test]
fn nothing_is_discarded_where_that_is_switched_off() {
    let mut bench = Bench::new();
    bench.store.config.discard = false;
    bench.free_an_object();
    assert_eq!(bench.turn_after(200_000), [0; 0]);
}

#[test]
fn what_waits_to_be_discarded_is_bounded_and_forgotten_where_space_is_short() {
    let mut bench = Bench::new();
    let store = &mut bench.store;
    let Run { start, count } = store.space.free_runs().max_by_key(|run| run.count).unwrap();
    for at in 0..70_000 {
        store.queue_discard(Run { start: start + at % 2 * (count - 16), count: 16 });
    }
    assert_eq!(store.discards.waiting_count(), 64 << 10);
    while !store.space.is_short() {
        let Run { start, count } = store.space.free_runs().max_by_key(|run| run.count).unwrap();
        assert!(store.space.reserve(Run { start, count: count.min(64) }));
    }
    assert_eq!(bench.turn_after(200_000), [0; 0]);
    assert_eq!(bench.store.discards.waiting_count(), 0);
}
