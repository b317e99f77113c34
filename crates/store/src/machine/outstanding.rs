//! Device commands that are not answered, by token.

use std::collections::{BTreeMap, VecDeque};

use types::Instant;

use super::Purpose;
use crate::{DeviceRole, DeviceWaits};

/// A command that is not answered.
#[derive(Debug)]
struct Command {
    purpose: Purpose,
    role: DeviceRole,
    /// When it was given out.
    since: Instant,
}

/// The commands that devices have not answered, in the order of their tokens, which grow; a binary search finds one. An
/// answered command keeps its place until all before it are answered. A discard, which may take much longer than all
/// others, is not among them.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    commands: VecDeque<(u64, Option<Command>)>,
    discards: BTreeMap<u64, Command>,
    /// When each device answered last.
    answered: [Instant; DeviceRole::ALL.len()],
}

impl Outstanding {
    pub(super) fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.discards.is_empty()
    }

    /// A command is given out, with a larger token than all before it.
    pub(super) fn insert(&mut self, token: u64, purpose: Purpose, role: DeviceRole, now: Instant) {
        debug_assert!(self.commands.back().is_none_or(|(last, _)| *last < token), "tokens grow");
        let command = Command { purpose, role, since: now };
        if matches!(command.purpose, Purpose::Discard(_)) {
            self.discards.insert(token, command);
        } else {
            self.commands.push_back((token, Some(command)));
        }
    }

    /// Notes that a command is answered, and says what it was for; `None` if it was answered before.
    pub(super) fn remove(&mut self, token: u64, now: Instant) -> Option<Purpose> {
        let command = match self.commands.binary_search_by_key(&token, |(token, _)| *token) {
            Ok(at) => self.commands[at].1.take(),
            Err(_) => self.discards.remove(&token),
        };
        while matches!(self.commands.front(), Some((_, None))) {
            self.commands.pop_front();
        }
        let command = command?;
        self.answered[command.role as usize] = now;
        Some(command.purpose)
    }

    /// What devices have not answered. A discard may take its time.
    pub(super) fn waits(&self) -> DeviceWaits {
        let mut oldest = [None; DeviceRole::ALL.len()];
        for command in self.commands.iter().filter_map(|(_, command)| command.as_ref()) {
            oldest[command.role as usize].get_or_insert(command.since);
        }
        let all = || DeviceRole::ALL.into_iter().filter_map(|role| Some((role, oldest[role as usize]?)));
        let silent = all().map(|(role, since)| (role, since.max(self.answered[role as usize])));
        DeviceWaits {
            oldest: all().min_by_key(|(_, since)| *since),
            silent: silent.min_by_key(|(_, since)| *since),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::Run;

    #[test]
    fn each_is_answered_once_in_any_order() {
        let mut outstanding = Outstanding::default();
        for token in [3, 4, 9] {
            outstanding.insert(token, Purpose::JournalZeros, DeviceRole::Main, Instant(token));
        }
        for token in [4, 3, 9] {
            assert!(outstanding.remove(5, Instant(10)).is_none() && !outstanding.is_empty());
            assert!(outstanding.remove(token, Instant(10)).is_some());
            assert!(outstanding.remove(token, Instant(10)).is_none());
        }
        assert!(outstanding.is_empty());
        assert_eq!(outstanding.waits(), DeviceWaits::default());
    }

    #[test]
    fn a_discard_that_is_not_answered_keeps_no_places() {
        let mut outstanding = Outstanding::default();
        let discard = Purpose::Discard(Run { start: 0, count: 1 });
        outstanding.insert(1, discard, DeviceRole::Main, Instant(1));
        for token in 2..100 {
            outstanding.insert(token, Purpose::JournalZeros, DeviceRole::Main, Instant(2));
            assert!(outstanding.remove(token, Instant(3)).is_some());
            assert!(outstanding.commands.is_empty() && !outstanding.is_empty());
        }
        assert!(matches!(outstanding.remove(1, Instant(4)), Some(Purpose::Discard(_))));
        assert!(outstanding.remove(1, Instant(4)).is_none() && outstanding.is_empty());
    }

    #[test]
    fn a_device_is_silent_since_its_last_answer_and_discards_do_not_count() {
        let mut outstanding = Outstanding::default();
        let discard = Purpose::Discard(Run { start: 0, count: 1 });
        outstanding.insert(1, discard, DeviceRole::Main, Instant(1));
        assert_eq!(outstanding.waits(), DeviceWaits::default());
        outstanding.insert(2, Purpose::CheckpointWrite, DeviceRole::Index, Instant(5));
        outstanding.insert(3, Purpose::CheckpointWrite, DeviceRole::Main, Instant(7));
        outstanding.insert(4, Purpose::CheckpointWrite, DeviceRole::Index, Instant(8));
        let index = |at| Some((DeviceRole::Index, Instant(at)));
        assert_eq!(outstanding.waits(), DeviceWaits { oldest: index(5), silent: index(5) });
        outstanding.remove(4, Instant(9));
        let main = Some((DeviceRole::Main, Instant(7)));
        assert_eq!(outstanding.waits(), DeviceWaits { oldest: index(5), silent: main });
        outstanding.remove(1, Instant(10));
        assert_eq!(outstanding.waits(), DeviceWaits { oldest: index(5), silent: index(9) });
    }
}
