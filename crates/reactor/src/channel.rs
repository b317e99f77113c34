//! A queue from one reactor to another, with one sender, one receiver and no lock. It wakes the receiver only when the
//! receiver sleeps, and once for all that a turn sent.
//!
//! The two share memory with room for a fixed number of values. A value that finds no room waits at the sender, in
//! order, and without a limit of the queue's own: a sender that is behind must take in nothing that makes it send more.
#![allow(unsafe_code, reason = "a slot's owner is known by the two positions only")]

use std::{collections::VecDeque, mem::MaybeUninit};

use crate::{
    Waker,
    sync::{Arc, AtomicBool, AtomicUsize, Ordering, UnsafeCell, fence},
};

/// Alone on its cache lines (two: they are fetched in pairs), so that sender and receiver do not take each
/// other's.
#[repr(align(128))]
struct Alone<T>(T);

/// The ring. Positions count all values ever; the ones in `head..tail` are initialised.
struct Ring<T> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    /// The next to be received; written by the receiver only.
    head: Alone<AtomicUsize>,
    /// Behind the last that was sent; written by the sender only.
    tail: Alone<AtomicUsize>,
    /// The sender waits for room.
    wants_room: AtomicBool,
}

// SAFETY: the sender touches slots outside `head..tail` only, the receiver those inside only, and each
// gives a slot over by a release store that the other acquires; so values only ever move between threads.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    fn slot(&self, position: usize) -> &UnsafeCell<MaybeUninit<T>> {
        &self.slots[position & (self.slots.len() - 1)]
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        for position in self.head.0.load(Ordering::Relaxed)..self.tail.0.load(Ordering::Relaxed) {
            // SAFETY: initialised, and with `&mut self` nobody else is there.
            self.slot(position).with_mut(|slot| unsafe { (*slot).assume_init_drop() });
        }
    }
}

/// The sending half.
pub struct Sender<T> {
    ring: Arc<Ring<T>>,
    tail: usize,
    /// The receiver's position as last seen.
    head: usize,
    /// What found no room, in order: at most what the sender makes of all that it took in before it was behind.
    behind: VecDeque<T>,
    receiver: Waker,
    is_wake_due: bool,
}

/// The receiving half: to be emptied in every turn.
pub struct Receiver<T> {
    ring: Arc<Ring<T>>,
    head: usize,
    /// The sender's position as last seen.
    tail: usize,
    sender: Waker,
}

/// A queue with room for `capacity` values (a power of two) between the reactors with these wakers.
pub fn channel<T: Send>(capacity: usize, sender: Waker, receiver: Waker) -> (Sender<T>, Receiver<T>) {
    assert!(capacity.is_power_of_two(), "positions are masked");
    let ring = Arc::new(Ring {
        slots: (0..capacity).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
        head: Alone(AtomicUsize::new(0)),
        tail: Alone(AtomicUsize::new(0)),
        wants_room: AtomicBool::new(false),
    });
    let behind = VecDeque::new();
    (
        Sender { ring: Arc::clone(&ring), tail: 0, head: 0, behind, receiver, is_wake_due: false },
        Receiver { ring, head: 0, tail: 0, sender },
    )
}

impl<T: Send> Sender<T> {
    /// Queues `value`. What finds no room waits here, and goes with a later [`flush`](Sender::flush).
    pub fn send(&mut self, value: T) {
        let left = if self.behind.is_empty() { self.push(value).err() } else { Some(value) };
        self.behind.extend(left);
    }

    /// Ends a turn: sends what waited for room, and wakes the receiver if there is anything new for it.
    pub fn flush(&mut self) {
        while let Some(value) = self.behind.pop_front() {
            if let Err(value) = self.push(value) {
                self.behind.push_front(value);
                break;
            }
        }
        if std::mem::take(&mut self.is_wake_due) {
            self.receiver.wake();
        }
    }

    /// True while values wait for room: the caller should make fewer. This reactor is woken when there is room. There
    /// is never going to be any once the receiver is gone, so that nothing waits for it then; no wake-up tells of that.
    pub fn is_behind(&self) -> bool {
        !self.behind.is_empty() && Arc::strong_count(&self.ring) > 1
    }

    fn push(&mut self, value: T) -> Result<(), T> {
        let capacity = self.ring.slots.len();
        if self.tail - self.head == capacity {
            self.head = self.ring.head.0.load(Ordering::Acquire);
        }
        if self.tail - self.head == capacity {
            // Either the receiver sees the wish after it made room, or the room is seen here.
            self.ring.wants_room.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            self.head = self.ring.head.0.load(Ordering::Acquire);
            if self.tail - self.head == capacity {
                return Err(value);
            }
        }
        // SAFETY: the slot is outside `head..tail`, so it is the sender's, and the receiver has moved out
        // what was in it before it let go of it.
        self.ring.slot(self.tail).with_mut(|slot| unsafe {
            (*slot).write(value);
        });
        self.tail += 1;
        self.ring.tail.0.store(self.tail, Ordering::Release);
        self.is_wake_due = true;
        Ok(())
    }
}

impl<T: Send> Receiver<T> {
    /// The oldest value, if there is one. After `None` the next value comes with a wake-up.
    pub fn receive(&mut self) -> Option<T> {
        if self.head == self.tail {
            self.tail = self.ring.tail.0.load(Ordering::Acquire);
            if self.head == self.tail {
                return None;
            }
        }
        // SAFETY: the slot is inside `head..tail`: initialised, and the receiver's until it moves the head.
        let value = self.ring.slot(self.head).with_mut(|slot| unsafe { (*slot).assume_init_read() });
        self.head += 1;
        self.ring.head.0.store(self.head, Ordering::Release);
        if self.head == self.tail {
            fence(Ordering::SeqCst);
            if self.ring.wants_room.load(Ordering::Relaxed)
                && self.ring.wants_room.swap(false, Ordering::Relaxed)
            {
                self.sender.wake();
            }
        }
        Some(value)
    }
}
