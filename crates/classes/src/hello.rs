//! The `hello` class: Ceph's example of a class, which client test suites call.
//!
//! Authority: `cls/hello` of Ceph 16.2.

use bytes::Bytes;
use types::{AddrType, Errno};

use crate::{
    Method, ObjectView, Stop,
    method::{self, row},
};

const RD: u8 = method::RD;
const WR: u8 = method::WR;

/// The methods with their Ceph flags.
pub(crate) const METHODS: &[Method] = &[
    row("hello", "say_hello", RD, say_hello),
    row("hello", "record_hello", WR | method::PROMOTE, record_hello),
    row("hello", "write_return_data", WR, write_return_data).returning(ANSWER),
    row("hello", "writes_dont_return_data", WR, writes_dont_return_data).returning(ANSWER),
    row("hello", "write_too_much_return_data", WR, write_too_much_return_data).returning(ANSWER),
    row("hello", "replay", RD, replay),
    row("hello", "turn_it_to_11", RD | WR | method::PROMOTE, turn_it_to_11),
    row("hello", "bad_reader", WR, break_the_rules),
    row("hello", "bad_writer", RD, break_the_rules),
];

/// Result of the methods that show what becomes of results.
const ANSWER: i32 = 42;
/// Longest name to be greeted.
const NAME_BYTES_MAX: usize = 100;
/// How much of a recorded greeting is looked at.
const GREETING_BYTES_MAX: u64 = 1100;

fn greeting(name: &Bytes) -> Result<Bytes, Stop> {
    match name.len() {
        0 => Ok(Bytes::from_static(b"Hello, world!")),
        1..=NAME_BYTES_MAX => Ok(Bytes::from([b"Hello, ", name.as_ref(), b"!"].concat())),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// The caller, as Ceph prints an `entity_inst_t`.
fn caller(view: &dyn ObjectView) -> Bytes {
    let context = view.context();
    let mut addr = context.origin_addr;
    addr.kind = AddrType::ANY;
    Bytes::from(format!("{} {addr}", context.origin))
}

fn say_hello(_: &mut dyn ObjectView, name: &Bytes) -> Result<Bytes, Stop> {
    greeting(name)
}

fn record_hello(view: &mut dyn ObjectView, name: &Bytes) -> Result<Bytes, Stop> {
    let greeting = greeting(name)?;
    if view.stat()?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    view.write_full(greeting)?;
    let caller = caller(view);
    view.set_xattr(b"said_by", caller)?;
    Ok(Bytes::new())
}

/// Changes something, and answers.
fn change(view: &mut dyn ObjectView, bytes: &Bytes, answer: Bytes) -> Result<Bytes, Stop> {
    if !bytes.is_empty() {
        return Err(Stop::Explained(Errno::EINVAL, "too much input data!"));
    }
    view.set_xattr(b"foo", Bytes::from_static(b"bar"))?;
    Ok(answer)
}

/// Only clients that ask for the results of each op get the answer of a change.
fn write_return_data(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    change(view, bytes, Bytes::from_static(b"you might see this"))
}

fn writes_dont_return_data(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    change(view, bytes, Bytes::from_static(b"not for you"))
}

/// More than an OSD keeps for repeated requests.
fn write_too_much_return_data(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    change(view, bytes, Bytes::from_static(&[b'.'; 1024]))
}

fn replay(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    view.read(0, GREETING_BYTES_MAX)
}

fn turn_it_to_11(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    if !bytes.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    let loud = view.read(0, GREETING_BYTES_MAX)?.to_ascii_uppercase();
    view.write_full(Bytes::from(loud))?;
    let caller = caller(view);
    view.set_xattr(b"amplified_by", caller)?;
    Ok(Bytes::new())
}

/// Ceph's examples of a method that reads without RD, and of one that writes without WR: an OSD answers
/// either access with EIO.
fn break_the_rules(_: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    Err(Errno::EIO.into())
}

#[cfg(test)]
mod tests {
    use types::Errno;

    use crate::test_view::TestView;

    #[test]
    fn a_greeting_is_recorded_once_and_can_be_amplified() {
        let mut view = TestView::default();
        assert_eq!(view.call("hello", "say_hello", "").unwrap(), "Hello, world!");
        assert_eq!(view.call("hello", "say_hello", vec![b'x'; 101]).unwrap_err(), Errno::EINVAL);
        view.call("hello", "record_hello", "you").unwrap();
        assert_eq!(view.call("hello", "record_hello", "").unwrap_err(), Errno::EEXIST);
        assert_eq!(view.call("hello", "replay", "").unwrap(), "Hello, you!");
        view.call("hello", "turn_it_to_11", "").unwrap();
        assert_eq!(view.call("hello", "replay", "").unwrap(), "HELLO, YOU!");
        assert!(view.xattrs.contains_key(&b"said_by"[..]) && view.xattrs.contains_key(&b"amplified_by"[..]));
    }
}
