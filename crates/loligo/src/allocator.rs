//! The allocator of this program, and how eager it is to give memory back.
#![allow(unsafe_code, reason = "options of the allocator have no safe wrapper")]

use std::ffi::{c_int, c_long};

/// Chosen by measurement, see docs/dependencies.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay`: for how many milliseconds free pages are kept.
const PURGE_DELAY: c_int = 15;
/// What mimalloc begins with.
const PURGE_DELAY_DEFAULT: c_long = 1000;
/// Long enough for what is allocated again at once, which is much: without any delay a third of the time goes to faults.
const PURGE_DELAY_EAGER: c_long = 40;

unsafe extern "C" {
    safe fn mi_option_set(option: c_int, value: c_long);
    safe fn mi_collect(force: bool);
}

/// With `is_eager` all that is free goes back to the kernel, and what is freed later soon.
pub(crate) fn give_back(is_eager: bool) {
    mi_option_set(PURGE_DELAY, if is_eager { PURGE_DELAY_EAGER } else { PURGE_DELAY_DEFAULT });
    if is_eager {
        mi_collect(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        safe fn mi_option_get(option: c_int) -> c_long;
    }

    #[test]
    fn the_option_is_the_one_that_is_meant() {
        assert_eq!(mi_option_get(PURGE_DELAY), PURGE_DELAY_DEFAULT, "what no other option begins with");
        give_back(true);
        assert_eq!(mi_option_get(PURGE_DELAY), PURGE_DELAY_EAGER);
        give_back(false);
        assert_eq!(mi_option_get(PURGE_DELAY), PURGE_DELAY_DEFAULT);
    }
}
