//! Bytes that checksums, copies and clearings go over, counted in builds with debug assertions: what is
//! counted is what moves or sums payload and buffers, not the fields of structs. Release builds count nothing.

use std::ops::{Add, Sub};

/// Bytes gone over so far by this thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// By checksums.
    pub summed: u64,
    /// By copies, each byte once.
    pub copied: u64,
    /// By filling with zeros.
    pub cleared: u64,
}

impl Traffic {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.summed + self.copied + self.cleared
    }
}

impl Add for Traffic {
    type Output = Traffic;

    fn add(self, other: Traffic) -> Traffic {
        Traffic {
            summed: self.summed + other.summed,
            copied: self.copied + other.copied,
            cleared: self.cleared + other.cleared,
        }
    }
}

impl Sub for Traffic {
    type Output = Traffic;

    fn sub(self, before: Traffic) -> Traffic {
        Traffic {
            summed: self.summed - before.summed,
            copied: self.copied - before.copied,
            cleared: self.cleared - before.cleared,
        }
    }
}

#[cfg(debug_assertions)]
mod counter {
    use std::cell::Cell;

    use super::Traffic;

    thread_local! {
        static COUNT: Cell<Traffic> = const { Cell::new(Traffic { summed: 0, copied: 0, cleared: 0 }) };
    }

    pub(super) fn get() -> Traffic {
        COUNT.get()
    }

    pub(super) fn add(change: impl FnOnce(&mut Traffic)) {
        let mut count = COUNT.get();
        change(&mut count);
        COUNT.set(count);
    }
}

#[cfg(not(debug_assertions))]
mod counter {
    use super::Traffic;

    pub(super) fn get() -> Traffic {
        Traffic::default()
    }

    #[inline(always)]
    pub(super) fn add(_: impl FnOnce(&mut Traffic)) {}
}

/// What this thread has counted; nothing in a release build.
pub fn so_far() -> Traffic {
    counter::get()
}

/// Notes a checksum of so many bytes.
#[inline]
pub fn summed(bytes: usize) {
    counter::add(|count| count.summed += bytes as u64);
}

/// Notes a copy of so many bytes.
#[inline]
pub fn copied(bytes: usize) {
    counter::add(|count| count.copied += bytes as u64);
}

/// Notes that so many bytes were made zeros.
#[inline]
pub fn cleared(bytes: usize) {
    counter::add(|count| count.cleared += bytes as u64);
}
