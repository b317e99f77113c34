//! The table of class methods, found by class and method name.

use bytes::Bytes;

use crate::{ObjectView, Stop};

/// Flags of a method (`CLS_METHOD_*`).
pub mod method {
    use super::{Method, Run};

    /// It reads the object.
    pub const RD: u8 = 1;
    /// It changes the object.
    pub const WR: u8 = 2;
    /// A cache tier would promote the object first; without tiers it means nothing.
    pub const PROMOTE: u8 = 8;

    /// A row of a class's table.
    pub(crate) const fn row(class: &'static str, name: &'static str, flags: u8, run: Run) -> Method {
        Method { class, name, flags, result: 0, run }
    }
}

/// What runs: input to output, over one object.
pub type Run = fn(&mut dyn ObjectView, &Bytes) -> Result<Bytes, Stop>;

/// A class method.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    /// The class.
    pub class: &'static str,
    /// The method.
    pub name: &'static str,
    /// [`method`] flags.
    pub flags: u8,
    /// What it answers when it succeeds, besides its output.
    pub result: i32,
    /// Its code.
    pub run: Run,
}

impl Method {
    /// This method with another result than 0.
    pub(crate) const fn returning(self, result: i32) -> Method {
        Method { result, ..self }
    }

    /// True when it may change the object.
    pub fn is_write(&self) -> bool {
        self.flags & method::WR != 0
    }
}

const CLASSES: &[(&str, &[Method])] = &[
    ("2pc_queue", crate::two_phase_queue::METHODS),
    ("cas", crate::cas::METHODS),
    ("cmpomap", crate::cmpomap::METHODS),
    ("hello", crate::hello::METHODS),
    ("journal", crate::journal::METHODS),
    ("lock", crate::lock::METHODS),
    ("log", crate::log::METHODS),
    ("numops", crate::numops::METHODS),
    ("queue", crate::queue::METHODS),
    ("rbd", crate::rbd::METHODS),
    ("refcount", crate::refcount::METHODS),
    ("sem_set", crate::sem_set::METHODS),
    ("timeindex", crate::timeindex::METHODS),
    ("user", crate::user::METHODS),
    ("version", crate::version::METHODS),
];

/// The method of that name. `None` for one that does not exist: EOPNOTSUPP in an existing class, EPERM
/// in a class that does not ([`class_exists`]), as Ceph answers.
pub fn find(class: &[u8], name: &[u8]) -> Option<&'static Method> {
    let (_, methods) = CLASSES.iter().find(|(c, _)| c.as_bytes() == class)?;
    methods.iter().find(|m| m.name.as_bytes() == name)
}

/// True for a class that is here.
pub fn class_exists(class: &[u8]) -> bool {
    CLASSES.iter().any(|(c, _)| c.as_bytes() == class)
}

/// True for a filter of listings that lets those objects pass whose xattr has a value: the only kind
/// that stock classes have.
pub fn has_xattr_filter(class: &[u8], name: &[u8]) -> bool {
    (class, name) == (b"hello", b"hello")
}

/// All methods, for documentation and tests.
pub fn all() -> impl Iterator<Item = &'static Method> {
    CLASSES.iter().flat_map(|(_, methods)| methods.iter())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{all, class_exists, find};

    const ROWS: &str = include_str!("../../../xtask/data/surface/object-classes.tsv");

    #[test]
    fn the_page_of_methods_lists_what_is_registered() {
        let mut unlisted: BTreeSet<(&str, &str)> = all().map(|method| (method.class, method.name)).collect();
        for line in ROWS.lines().filter(|line| !line.starts_with('#')) {
            let cells: Vec<&str> = line.split('\t').collect();
            let [class, name, _, state, ..] = cells[..] else { panic!("{line}") };
            let is_here = find(class.as_bytes(), name.as_bytes()).is_some();
            assert_eq!(is_here, state != "refused", "{class}.{name} is {state}");
            assert!(name != "*" || !class_exists(class.as_bytes()), "{class} is here, and listed as missing");
            unlisted.remove(&(class, name));
        }
        assert!(unlisted.is_empty(), "not listed: {unlisted:?}");
    }
}
