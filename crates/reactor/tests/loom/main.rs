//! The code that reactors share without locks, in all orders in which two threads may run and with all that each may
//! see of the other's memory, as loom tries them. It is compiled in here with loom's atomics instead of the standard
//! library's; loom also notices what is lost, used by two at a time, or waited for by all.

#[path = "../../src/channel.rs"]
mod channel;
#[path = "../../src/sleep.rs"]
mod sleep;

/// What `src/sync.rs` has for the library.
mod sync {
    pub(crate) use loom::{
        cell::UnsafeCell,
        sync::{
            Arc,
            atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering, fence},
        },
    };
}

use loom::{model, model::Builder, sync::Notify, thread};

use crate::{
    channel::{Receiver, channel},
    sleep::Sleep,
    sync::{Arc, AtomicUsize, Ordering},
};

struct Shared {
    sleep: Sleep,
    eventfd: Notify,
}

/// A reactor that does nothing but sleep, and its waker.
#[derive(Clone)]
struct Waker(Arc<Shared>);

impl Waker {
    fn new() -> Waker {
        Waker(Arc::new(Shared { sleep: Sleep::new(), eventfd: Notify::new() }))
    }

    fn wake(&self) {
        if self.0.sleep.wake() {
            self.0.eventfd.notify();
        }
    }

    /// A turn of the reactor; true if it was woken.
    fn poll(&self) -> bool {
        if !self.0.sleep.is_notified() && self.0.sleep.prepare() {
            self.0.eventfd.wait();
        }
        self.0.sleep.take()
    }
}

#[test]
fn a_wake_up_is_never_lost_and_shows_what_was_written_before() {
    model(|| {
        let (waker, written) = (Waker::new(), Arc::new(AtomicUsize::new(0)));
        let other = {
            let (waker, written) = (waker.clone(), Arc::clone(&written));
            thread::spawn(move || {
                for value in 1..=2 {
                    written.store(value, Ordering::Relaxed);
                    waker.wake();
                }
            })
        };
        let mut seen = 0;
        while seen < 2 {
            if waker.poll() {
                let last = seen;
                seen = written.load(Ordering::Relaxed);
                assert!(seen > last, "there is something new");
            }
        }
        other.join().unwrap();
    });
}

/// Receives so many values, asleep while there are none.
fn receive_all(receiver: &mut Receiver<Arc<usize>>, waker: &Waker, count: usize) {
    let mut next = 0;
    while next < count {
        match receiver.receive() {
            Some(value) => {
                assert_eq!(*value, next);
                next += 1;
            }
            None => {
                waker.poll();
            }
        }
    }
}

#[test]
fn all_values_arrive_once_and_in_order_and_who_waits_is_woken() {
    for (capacity, count) in [(1, 2), (2, 3)] {
        let mut builder = Builder::new();
        // All orders would take hours; faults mostly show with two switches at bad moments.
        builder.preemption_bound = Some(2);
        builder.check(move || {
            let (ours, theirs) = (Waker::new(), Waker::new());
            let (mut sender, mut receiver) = channel(capacity, ours.clone(), theirs.clone());
            let other = thread::spawn(move || receive_all(&mut receiver, &theirs, count));
            (0..count).for_each(|value| sender.send(Arc::new(value)));
            sender.flush();
            while sender.is_behind() {
                ours.poll();
                sender.flush();
            }
            other.join().unwrap();
        });
    }
}

#[test]
fn what_nobody_receives_is_dropped_whoever_goes_first() {
    model(|| {
        let waker = Waker::new();
        let (mut sender, mut receiver) = channel(2, Waker::new(), waker);
        let value = Arc::new(());
        let sent = Arc::clone(&value);
        let other = thread::spawn(move || {
            (0..3).for_each(|_| sender.send(Arc::clone(&sent)));
            sender.flush();
        });
        receiver.receive();
        drop(receiver);
        other.join().unwrap();
        assert_eq!(Arc::strong_count(&value), 1);
    });
}

#[test]
fn what_finds_no_room_keeps_its_place() {
    model(|| {
        let (mut sender, mut receiver) = channel(4, Waker::new(), Waker::new());
        (0..10).for_each(|n| sender.send(n));
        assert!(sender.is_behind());
        for n in 0..7 {
            assert_eq!(receiver.receive(), Some(n));
            sender.flush();
        }
        assert!(!sender.is_behind());
    });
}

#[test]
fn nothing_waits_for_a_receiver_that_is_gone() {
    model(|| {
        let (mut sender, receiver) = channel(4, Waker::new(), Waker::new());
        (0..5).for_each(|n| sender.send(n));
        assert!(sender.is_behind());
        drop(receiver);
        assert!(!sender.is_behind());
    });
}
