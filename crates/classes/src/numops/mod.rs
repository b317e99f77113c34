//! The `numops` class: arithmetic on decimal numbers kept as text in omap values.
//!
//! Authority: `cls/numops` of Ceph 16.2; numbers are read as C's `strtod` and written as C++ streams do.

mod number;

use bytes::Bytes;
use codec::Reader;
use types::Errno;

use crate::{
    Method, ObjectView, Stop,
    keys::{next, write_raw},
    method::{self, row},
};

const RW: u8 = method::RD | method::WR;

/// The methods with their Ceph flags.
pub(crate) const METHODS: &[Method] = &[row("numops", "add", RW, add), row("numops", "mul", RW, multiply)];

fn add(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    change(view, bytes, |value, by| value + by)
}

fn multiply(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    change(view, bytes, |value, by| value * by)
}

/// Changes the number of a key; one that is not there is 0.
fn change(view: &mut dyn ObjectView, bytes: &Bytes, compute: fn(f64, f64) -> f64) -> Result<Bytes, Stop> {
    let mut reader = Reader::new(bytes.clone());
    let key: Bytes = next(&mut reader)?;
    let by: Bytes = next(&mut reader)?;
    let by = number::parse(&by).ok_or(Errno::EINVAL)?;
    let stored = view.omap_get(&key)?.unwrap_or_default();
    let value = if stored.is_empty() { 0.0 } else { number::parse(&stored).ok_or(Errno::EBADMSG)? };
    write_raw(view, &key, Bytes::from(number::print(compute(value, by))))?;
    Ok(Bytes::new())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use codec::{Encode, Features};
    use types::Errno;

    use crate::test_view::TestView;

    fn call(view: &mut TestView, name: &str, by: &str) -> Result<Bytes, Errno> {
        view.call("numops", name, ("k".to_owned(), by.to_owned()).to_bytes(Features::PACIFIC))
    }

    #[test]
    fn numbers_are_added_and_multiplied() {
        let mut view = TestView::default();
        for (name, by, value) in
            [("add", "1.5", "1.5"), ("add", "2", "3.5"), ("mul", "3", "10.5"), ("add", "1e20", "1e+20")]
        {
            call(&mut view, name, by).unwrap();
            assert_eq!(view.omap[&b"k"[..]], value);
        }
        assert_eq!(call(&mut view, "add", "5 ").unwrap_err(), Errno::EINVAL);
        view.omap.insert(Bytes::from_static(b"k"), Bytes::from_static(b"zz"));
        assert_eq!(call(&mut view, "add", "5").unwrap_err(), Errno::EBADMSG);
    }
}
