//! Where the choice of the next objects to recover goes on, so that it does not look again and again at objects that it
//! cannot choose: a PG may have a hundred thousand that are unfound.

use std::ops::Bound;

use types::{EVersion, HObject, Missing};

/// All objects before it are on their way, or cannot be chosen until [`Cursor::go_back_to`] says otherwise.
#[derive(Debug)]
pub(super) struct Cursor(Bound<HObject>);

impl Default for Cursor {
    fn default() -> Self {
        Cursor(Bound::Unbounded)
    }
}

impl Cursor {
    /// Where what is left to choose from begins.
    pub(super) fn begin(&self) -> Bound<HObject> {
        self.0.clone()
    }

    /// What is left to choose from.
    pub(super) fn rest<'a>(
        &self,
        missing: &'a Missing,
    ) -> impl Iterator<Item = (&'a HObject, &'a EVersion)> + use<'a> {
        missing.range::<HObject, _>((self.0.as_ref(), Bound::Unbounded))
    }

    /// Passes the objects that are next and cannot be chosen.
    pub(super) fn pass(&mut self, missing: &Missing, is_passed: impl Fn(&HObject) -> bool) {
        let passed =
            self.rest(missing).map(|(object, _)| object).take_while(|object| is_passed(object)).last();
        if let Some(last) = passed.cloned() {
            self.0 = Bound::Excluded(last);
        }
    }

    /// The object may be chosen again.
    pub(super) fn go_back_to(&mut self, object: &HObject) {
        let is_passed = match &self.0 {
            Bound::Included(next) => object < next,
            Bound::Excluded(last) => object <= last,
            Bound::Unbounded => false,
        };
        if is_passed {
            self.0 = Bound::Included(object.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn what_is_passed_is_left_out_until_it_may_be_chosen_again() {
        let object = |at: u32| HObject { oid: Bytes::from(format!("o{at}")), hash: at, ..HObject::default() };
        let mut order: Vec<HObject> = (0..6).map(object).collect();
        order.sort();
        let missing: Missing = order.iter().map(|object| (object.clone(), EVersion::ZERO)).collect();
        let rest = |cursor: &Cursor| cursor.rest(&missing).count();
        let mut cursor = Cursor::default();
        cursor.go_back_to(&order[0]);
        cursor.pass(&missing, |_| false);
        assert_eq!(rest(&cursor), 6);
        cursor.pass(&missing, |object| *object != order[3]);
        assert_eq!(rest(&cursor), 3);
        cursor.go_back_to(&order[4]);
        assert_eq!(rest(&cursor), 3, "it is still to come");
        cursor.pass(&missing, |_| true);
        assert_eq!(rest(&cursor), 0);
        for (back, left) in [(5, 1), (2, 4), (3, 4), (0, 6)] {
            cursor.go_back_to(&order[back]);
            assert_eq!(rest(&cursor), left);
        }
    }
}
