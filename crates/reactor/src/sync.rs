//! What code is made of that threads share without locks. The tests with loom (`tests/loom`) compile that code with
//! loom's kinds of these, which try all orders.
#![allow(unsafe_code, reason = "the cell's owner says who may use it")]

pub(crate) use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering, fence},
};

/// A cell that is only used by a function that gets its address, so that loom sees when that is.
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    /// For a function that writes.
    #[inline]
    pub(crate) fn with_mut<R>(&self, use_it: impl FnOnce(*mut T) -> R) -> R {
        use_it(self.0.get())
    }
}
