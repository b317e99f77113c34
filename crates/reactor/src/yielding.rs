//! Whether a reactor that was woken lets others run first.
//!
//! Where CPUs are scarce, the first of several events wakes a reactor, which takes the CPU from the threads that were
//! about to cause the others: it goes to sleep again after little work, and so do they. A reactor that yields first
//! finds more to do. Where a CPU is idle nothing is won, and where other processes compute on all of them much is lost,
//! so this keeps accounts of what yielding took and brought.

/// What an event that comes meanwhile may take, in nanoseconds.
const WORTH_NS: i64 = 100_000;
/// What is saved for attempts that bring nothing or too little: under load some do, and one or two in a thousand take
/// milliseconds.
const SAVED_NS_MAX: i64 = 20_000_000;
/// After attempts that took more than they were worth, as many wake-ups pass as make up for it at this rate.
const WAKE_NS: i64 = 100;
/// More is not made up for.
const DEBT_NS_MAX: i64 = 2_000_000;

/// An account of what yielding took and brought.
#[derive(Debug, Default)]
pub(crate) struct YieldBudget {
    /// Nanoseconds: what events were worth, without what waiting for them took.
    balance_ns: i64,
}

impl YieldBudget {
    /// To be asked once for each poll that may have slept: true if others are to run first.
    pub(crate) fn is_due(&mut self) -> bool {
        let is_due = self.balance_ns >= 0;
        if !is_due {
            self.balance_ns += WAKE_NS;
        }
        is_due
    }

    /// An attempt took `waited_ns` nanoseconds and brought so many completions.
    pub(crate) fn learn(&mut self, waited_ns: u64, gained: usize) {
        let waited_ns = i64::try_from(waited_ns).unwrap_or(i64::MAX);
        let change = WORTH_NS.saturating_mul(gained as i64).saturating_sub(waited_ns);
        self.balance_ns = self.balance_ns.saturating_add(change).clamp(-DEBT_NS_MAX, SAVED_NS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `wakes` wake-ups wait, if each that does takes so long and brings so much.
    fn attempts(yield_budget: &mut YieldBudget, wakes: u32, waited_ns: u64, gained: usize) -> u32 {
        let mut count = 0;
        for _ in 0..wakes {
            if yield_budget.is_due() {
                yield_budget.learn(waited_ns, gained);
                count += 1;
            }
        }
        count
    }

    #[test]
    fn who_gains_waits_each_time_even_if_some_attempts_bring_nothing() {
        let mut yield_budget = YieldBudget::default();
        for _ in 0..1_000 {
            assert_eq!(attempts(&mut yield_budget, 2, 300_000, 8), 2);
            assert_eq!(attempts(&mut yield_budget, 1, 2_000, 0), 1);
        }
        assert_eq!(attempts(&mut yield_budget, 1, 3_000_000, 1), 1);
        assert_eq!(attempts(&mut yield_budget, 1, 300_000, 8), 1, "after one that took long");
    }

    #[test]
    fn on_an_idle_cpu_a_tenth_of_the_wake_ups_tries() {
        let mut yield_budget = YieldBudget::default();
        attempts(&mut yield_budget, 10_000, 1_000, 0);
        let later = attempts(&mut yield_budget, 10_000, 1_000, 0);
        assert!((900..=1_000).contains(&later), "{later}");
    }

    #[test]
    fn beside_who_computes_hardly_any_does() {
        let mut yield_budget = YieldBudget::default();
        attempts(&mut yield_budget, 1_000, 300_000, 8);
        assert!(attempts(&mut yield_budget, 1_000, 1_400_000, 1) < 20, "what was saved is soon gone");
        assert!(attempts(&mut yield_budget, 100_000, 1_400_000, 1) < 10);
        assert!(attempts(&mut yield_budget, 100_000, u64::MAX, usize::MAX) < 10);
    }

    #[test]
    fn what_was_lost_is_made_up_for() {
        let mut yield_budget = YieldBudget::default();
        yield_budget.learn(u64::MAX, 0);
        let wakes = (0..).find(|_| yield_budget.is_due());
        assert_eq!(wakes, Some((DEBT_NS_MAX / WAKE_NS) as i32));
        assert_eq!(attempts(&mut yield_budget, 100, 50_000, 1), 100);
    }
}
