//! The machine's clocks and its randomness: where time and seeds enter the pure crates.

use rustix::{
    rand::{GetRandomFlags, getrandom},
    time::{ClockId, clock_gettime},
};

/// Nanoseconds on a clock that never steps, since some start that is the same for all threads. It goes on while the
/// machine is suspended, unlike CLOCK_MONOTONIC: others go on meanwhile, so what was promised for some seconds, such as
/// a read lease, must have ended on return.
///
/// The kernel counts a poll's timeout on CLOCK_MONOTONIC, so timers may be late after a suspension: by what was left of
/// a single wait, which is no more than the time to the earliest timer.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    (time.tv_sec as u64) * 1_000_000_000 + time.tv_nsec as u64
}

/// Wall clock: seconds and nanoseconds since 1970.
pub fn wall() -> (u64, u32) {
    let time = clock_gettime(ClockId::Realtime);
    (time.tv_sec.max(0) as u64, time.tv_nsec as u32)
}

/// 32 bytes of the kernel's randomness, to seed a generator or to make a key.
pub fn random_seed() -> [u8; 32] {
    let mut seed = [0; 32];
    let count = getrandom(&mut seed, GetRandomFlags::empty()).expect("getrandom of 32 bytes never fails");
    assert_eq!(count, seed.len(), "getrandom is whole for up to 256 bytes");
    seed
}

#[cfg(test)]
mod tests {
    use std::{env, io::Write, process::Command};

    use super::*;

    /// Set for a process whose test prints its time and does nothing else.
    const PRINTS: &str = "REACTOR_CLOCK_TEST_PRINTS";
    /// So long seems the machine to have been suspended in that process.
    const SUSPENDED_SEC: u64 = 1_000_000;

    /// No test can suspend the machine, but a time namespace differs as if it had been: by the clock that counts
    /// suspensions alone.
    #[test]
    fn time_passes_while_the_machine_is_suspended() {
        if env::var_os(PRINTS).is_some() {
            return println!("now={}.", now());
        }
        let offset = SUSPENDED_SEC.to_string();
        let output = Command::new("unshare")
            .args(["--user", "--time", "--boottime", &offset])
            .arg(env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "clock::tests::time_passes_while_the_machine_is_suspended"])
            .env(PRINTS, "1")
            .output();
        let printed = output.ok().and_then(|output| {
            let text = String::from_utf8(output.stdout).unwrap();
            let (_, rest) = text.split_once("now=")?;
            Some(rest.split_once('.')?.0.parse::<u64>().unwrap())
        });
        let Some(printed) = printed else {
            let why = b"SKIPPED: time_passes_while_the_machine_is_suspended: no time namespace can be made\n";
            return std::io::stderr().write_all(why).unwrap();
        };
        assert!(printed >= now() + (SUSPENDED_SEC - 1_000) * 1_000_000_000, "{printed}");
    }
}
