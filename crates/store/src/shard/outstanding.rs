//! Device commands that are not answered, by token.

use std::collections::VecDeque;

use super::Purpose;

/// Tokens grow, and most commands are answered soon: the few between the oldest and the newest that are not are found by
/// halving. An answered one keeps its place until those before it are.
#[derive(Debug, Default)]
pub(super) struct Outstanding(VecDeque<(u64, Option<Purpose>)>);

impl Outstanding {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A command is given out, with a larger token than all before it.
    pub(super) fn insert(&mut self, token: u64, purpose: Purpose) {
        debug_assert!(self.0.back().is_none_or(|(last, _)| *last < token), "tokens grow");
        self.0.push_back((token, Some(purpose)));
    }

    /// It is answered; what it was for, if it was not answered before.
    pub(super) fn remove(&mut self, token: u64) -> Option<Purpose> {
        let at = self.0.binary_search_by_key(&token, |(token, _)| *token).ok()?;
        let purpose = self.0[at].1.take();
        while matches!(self.0.front(), Some((_, None))) {
            self.0.pop_front();
        }
        purpose
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_answered_once_in_any_order() {
        let mut outstanding = Outstanding::default();
        [3, 4, 9].into_iter().for_each(|token| outstanding.insert(token, Purpose::JournalZeros));
        for token in [4, 3, 9] {
            assert!(outstanding.remove(5).is_none() && !outstanding.is_empty());
            assert!(outstanding.remove(token).is_some() && outstanding.remove(token).is_none());
        }
        assert!(outstanding.is_empty());
    }
}
