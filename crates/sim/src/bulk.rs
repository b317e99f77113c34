//! Large objects of one client, with which devices become full: the client goes on until there is no room, and then
//! makes some now and then.
//!
//! A write waits while there is no room for it, or is refused, as its client wants: also one that makes no object
//! larger, as it takes new blocks before it gives the old ones back. One that is refused leaves the object as it was.
//! Nothing that only gives room back may be refused.

use bytes::Bytes;
use client::Response;
use messages::{OpCode, OpParams, OsdOp, osd_flag};
use rand::{Rng, rngs::StdRng};
use types::Errno;

/// Objects of all clients together.
const OBJECTS: usize = 48;
/// The most data of an object, and the least of a write, in bytes.
const OBJECT_BYTES_MAX: usize = 256 << 10;
const WRITE_BYTES_MIN: usize = 8 << 10;
/// Requests in flight at most; and those among them that may have to wait for room.
const DEPTH: usize = 4;
const WAITING_MAX: usize = 2;

/// A stamp, with which the data begins, and how many bytes there are; none if there is no object.
type Content = Option<(u64, usize)>;

#[derive(Clone, Debug, Default)]
struct Object {
    content: Content,
    is_busy: bool,
}

/// What a request does, and what must come of it.
#[derive(Debug)]
pub(crate) enum InFlightOp {
    Change { at: usize, to: Content, may_be_refused: bool, may_wait: bool },
    Read { at: usize },
}

/// A request: its object, its ops and its flags.
pub(crate) type Step = (usize, Vec<OsdOp>, u32, InFlightOp);

/// The objects of one client.
pub(crate) struct Bulk {
    client: u64,
    objects: Vec<Object>,
    stamps: u64,
    /// Changes in flight that may have to wait for room.
    waiting: usize,
}

impl Bulk {
    /// A client's share of all objects.
    pub(crate) fn new(client: u64, clients: usize) -> Bulk {
        Bulk { client, objects: vec![Object::default(); OBJECTS / clients], stamps: 0, waiting: 0 }
    }

    pub(crate) fn name(&self, at: usize) -> Bytes {
        Bytes::from(format!("bulk{}.{at}", self.client))
    }

    /// Those that there are to be read in the end.
    pub(crate) fn count(&self) -> usize {
        self.objects.len()
    }

    /// True while changes are in flight that wait if the pool is full.
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    fn free(&self, rng: &mut StdRng, is_wanted: impl Fn(&Object) -> bool) -> Option<usize> {
        let free = |at: &usize| !self.objects[*at].is_busy && is_wanted(&self.objects[*at]);
        let free: Vec<usize> = (0..self.objects.len()).filter(free).collect();
        free.get(rng.random_range(0..free.len().max(1))).copied()
    }

    /// The next random request, if one more may be in flight.
    pub(crate) fn next(&mut self, rng: &mut StdRng, is_full: bool) -> Option<Step> {
        if self.objects.iter().filter(|object| object.is_busy).count() >= DEPTH {
            return None;
        }
        match rng.random_range(0..20) {
            0..2 => self.free(rng, |_| true).map(|at| self.read(at)),
            2 => self.next_removal(rng),
            3 if is_full => self.next_removal(rng),
            3 | 4 => {
                let at = self.free(rng, |object| object.content.is_some())?;
                let content = self.objects[at].content.map(|(stamp, len)| (stamp, len / 2));
                let params = OpParams::extent(content.map_or(0, |(_, len)| len as u64), 0);
                let op = OsdOp { params, ..OsdOp::new(OpCode::TRUNCATE) };
                Some(self.change(at, content, op, osd_flag::FULL_TRY))
            }
            _ => {
                let at = self.free(rng, |_| true)?;
                self.stamps += 1;
                let len = rng.random_range(WRITE_BYTES_MIN..OBJECT_BYTES_MAX);
                let content = Some((self.client << 32 | self.stamps, len));
                let data = data_of(content);
                let params = OpParams::extent(0, data.len() as u64);
                let op = OsdOp { params, data, ..OsdOp::new(OpCode::WRITEFULL) };
                let flags = match rng.random_range(0..20) {
                    0 => osd_flag::FULL_FORCE,
                    1..10 if self.waiting < WAITING_MAX => 0,
                    _ => osd_flag::FULL_TRY,
                };
                Some(self.change(at, content, op, flags))
            }
        }
    }

    /// True if there is an object to remove.
    pub(crate) fn can_remove(&self) -> bool {
        self.objects.iter().any(|object| object.content.is_some() && !object.is_busy)
    }

    /// Removes an object, if there is one.
    pub(crate) fn next_removal(&mut self, rng: &mut StdRng) -> Option<Step> {
        let at = self.free(rng, |object| object.content.is_some())?;
        Some(self.change(at, None, OsdOp::new(OpCode::DELETE), osd_flag::FULL_TRY))
    }

    /// Reads all of an object.
    pub(crate) fn read(&mut self, at: usize) -> Step {
        self.objects[at].is_busy = true;
        let op = OsdOp { params: OpParams::extent(0, 0), ..OsdOp::new(OpCode::READ) };
        (at, vec![op], 0, InFlightOp::Read { at })
    }

    fn change(&mut self, at: usize, to: Content, op: OsdOp, flags: u32) -> Step {
        let object = &mut self.objects[at];
        object.is_busy = true;
        let (may_be_refused, may_wait) = (flags != 0 && op.code == OpCode::WRITEFULL, flags == 0);
        self.waiting += usize::from(may_wait);
        (at, vec![op], flags, InFlightOp::Change { at, to, may_be_refused, may_wait })
    }

    /// Compares what came, and takes it as done. True if a change was refused.
    pub(crate) fn done(&mut self, in_flight: InFlightOp, response: &Response) -> Result<bool, String> {
        match in_flight {
            InFlightOp::Change { at, to, may_be_refused, may_wait } => {
                self.waiting -= usize::from(may_wait);
                let object = &mut self.objects[at];
                object.is_busy = false;
                match Errno(-response.result) {
                    Errno(0) => object.content = to,
                    Errno::ENOSPC if may_be_refused => return Ok(true),
                    _ => {
                        let (was, result) = (object.content, response.result);
                        return Err(format!(
                            "a change of bulk {at} from {was:?} to {to:?} ended with {result}"
                        ));
                    }
                }
                Ok(false)
            }
            InFlightOp::Read { at } => {
                self.objects[at].is_busy = false;
                let content = self.objects[at].content;
                let is_right = match (content, &response.ops[..]) {
                    (None, _) => response.result == -Errno::ENOENT.0,
                    (Some(_), [read]) => response.result >= 0 && read.data == data_of(content),
                    (Some(_), _) => false,
                };
                match is_right {
                    true => Ok(false),
                    false => {
                        let bytes = response.ops.first().map_or(0, |read| read.data.len());
                        let result = response.result;
                        Err(format!("read {bytes} bytes of bulk {at} with {result}, expected {content:?}"))
                    }
                }
            }
        }
    }
}

fn data_of(content: Content) -> Bytes {
    let Some((stamp, len)) = content else { return Bytes::new() };
    let mut data = vec![(stamp % 251) as u8; len];
    data.iter_mut().zip(stamp.to_be_bytes()).for_each(|(to, from)| *to = from);
    Bytes::from(data)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn response(result: i32, data: Bytes) -> Response {
        let ops = vec![OsdOp { data, ..OsdOp::new(OpCode::READ) }];
        Response { result, ops, ..Response::default() }
    }

    #[test]
    fn only_writes_that_do_not_wait_may_be_refused() {
        let mut bulk = Bulk::new(1, 1);
        let mut refused = |to: Content, code: OpCode, flags: u32| {
            bulk.objects[0].content = Some((1, 9));
            let (.., in_flight) = bulk.change(0, to, OsdOp::new(code), flags);
            bulk.done(in_flight, &response(-Errno::ENOSPC.0, Bytes::new()))
        };
        for flags in [osd_flag::FULL_TRY, osd_flag::FULL_FORCE] {
            assert_eq!(refused(Some((2, 9)), OpCode::WRITEFULL, flags), Ok(true));
            assert!(refused(None, OpCode::DELETE, flags).is_err());
            assert!(refused(Some((1, 4)), OpCode::TRUNCATE, flags).is_err());
        }
        assert!(refused(Some((2, 9)), OpCode::WRITEFULL, 0).is_err(), "its client waits");
    }

    #[test]
    fn what_was_refused_must_not_be_found() {
        let mut bulk = Bulk::new(1, 1);
        let mut rng = StdRng::seed_from_u64(1);
        assert!(bulk.next_removal(&mut rng).is_none(), "there is nothing");
        for result in [0, -Errno::ENOSPC.0] {
            let to = Some(((7 - result) as u64, 100));
            let (.., in_flight) = bulk.change(0, to, OsdOp::new(OpCode::WRITEFULL), osd_flag::FULL_TRY);
            assert_eq!(bulk.done(in_flight, &response(result, Bytes::new())), Ok(result != 0));
        }
        let mut found = |content: Content| {
            let (.., in_flight) = bulk.read(0);
            bulk.done(in_flight, &response(0, data_of(content)))
        };
        assert_eq!(found(Some((7, 100))), Ok(false));
        assert!(found(Some((7 + Errno::ENOSPC.0 as u64, 100))).is_err());
        assert!(found(Some((7, 99))).is_err());
    }
}
