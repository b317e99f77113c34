//! Objects of one client in a pool that an operator makes and deletes while clients use it.
//!
//! As long as nobody has ordered the pool to be deleted, all is as in any pool. From then on a request may find the
//! pool gone; it ends all the same.

use bytes::Bytes;
use client::{Request, Response};
use messages::{OpCode, OpParams, OsdOp};
use rand::{Rng, rngs::StdRng};
use types::{Errno, PoolId, Token};

use super::{InFlightOp as AnyInFlightOp, Workload};
use crate::shared::SharedObjects;

const OBJECTS: usize = 12;
/// The most data of a write, in bytes.
const WRITE_BYTES_MAX: usize = 12 << 10;
/// Requests in flight, at most.
const DEPTH: usize = 3;
/// How often a client that may begin a request begins one here.
pub(super) const CHANCE: f64 = 0.5;

/// By its data; none if there is no object.
type Content = Option<Bytes>;

/// A request under way, of the pool that it is for.
#[derive(Debug)]
pub(crate) struct InFlightOp {
    pool: PoolId,
    at: usize,
    does: Does,
}

#[derive(Debug)]
enum Does {
    Change(Content),
    Read,
}

/// The objects of one client in such a pool.
#[derive(Debug, Default)]
pub(super) struct OtherPool {
    pool: Option<PoolId>,
    objects: Vec<Content>,
    /// Those that requests in flight are for.
    busy: Vec<usize>,
    stamps: u64,
}

impl OtherPool {
    /// The next random request, if the pool is there and one more may be in flight.
    fn next(&mut self, rng: &mut StdRng, now: Option<PoolId>) -> Option<(Vec<OsdOp>, InFlightOp)> {
        if self.pool != now && self.busy.is_empty() {
            (self.pool, self.objects) = (now, vec![None; OBJECTS]);
        }
        let pool = self.pool.filter(|pool| now == Some(*pool) && self.busy.len() < DEPTH)?;
        let at = rng.random_range(0..OBJECTS);
        if self.busy.contains(&at) {
            return None;
        }
        self.busy.push(at);
        let (op, does) = match rng.random_range(0..6) {
            0 if self.objects[at].is_some() => (OsdOp::new(OpCode::DELETE), Does::Change(None)),
            0..2 => (read_op(), Does::Read),
            _ => {
                self.stamps += 1;
                let mut data = vec![(self.stamps % 251) as u8; rng.random_range(8..WRITE_BYTES_MAX)];
                data[..8].copy_from_slice(&self.stamps.to_be_bytes());
                let data = Bytes::from(data);
                let params = OpParams::extent(0, data.len() as u64);
                let op = OsdOp { params, data: data.clone(), ..OsdOp::new(OpCode::WRITEFULL) };
                (op, Does::Change(Some(data)))
            }
        };
        Some((vec![op], InFlightOp { pool, at, does }))
    }

    /// What is to be read in the end, in the pool that there is then.
    fn read(&mut self, at: usize, now: Option<PoolId>) -> Option<(Vec<OsdOp>, InFlightOp)> {
        let pool = self.pool.filter(|pool| now == Some(*pool))?;
        self.busy.push(at);
        Some((vec![read_op()], InFlightOp { pool, at, does: Does::Read }))
    }

    /// Compares what came, and takes it as done. `is_deleted`: an operator has ordered that the pool be deleted. True
    /// if the request found it gone.
    fn done(&mut self, in_flight: InFlightOp, response: &Response, is_deleted: bool) -> Result<bool, String> {
        let InFlightOp { pool, at, does } = in_flight;
        self.busy.retain(|busy| *busy != at);
        let (content, result) = (&mut self.objects[at], Errno(-response.result));
        if is_deleted && result == Errno::ENOENT {
            return Ok(true);
        }
        let is_right = match (does, result) {
            (Does::Change(to), Errno(0)) => {
                *content = to;
                true
            }
            (Does::Change(_), _) => false,
            (Does::Read, Errno::ENOENT) => content.is_none(),
            (Does::Read, _) => {
                let found = response.ops.first().filter(|_| response.result >= 0).map(|read| &read.data);
                found.is_some() && found == content.as_ref()
            }
        };
        match is_right {
            true => Ok(false),
            false => {
                let bytes = content.as_ref().map(Bytes::len);
                Err(format!(
                    "a request for object {at} of pool {} ended with {}, expected {bytes:?} bytes",
                    pool.0, response.result
                ))
            }
        }
    }
}

fn read_op() -> OsdOp {
    OsdOp { params: OpParams::extent(0, 0), ..OsdOp::new(OpCode::READ) }
}

impl Workload {
    /// The next request for the other pool, if there is one.
    pub(super) fn next_of_other(&mut self, pool: Option<PoolId>) -> Option<(Token, Request)> {
        let (ops, in_flight) = self.other.next(&mut self.rng, pool)?;
        Some(self.begin_other(ops, in_flight))
    }

    /// Objects of the other pool that are to be read in the end.
    pub(super) fn others(&self) -> std::ops::Range<usize> {
        0..self.other.objects.len()
    }

    pub(super) fn read_other(&mut self, at: usize, pool: Option<PoolId>) -> Option<(Token, Request)> {
        let (ops, in_flight) = self.other.read(at, pool)?;
        Some(self.begin_other(ops, in_flight))
    }

    fn begin_other(&mut self, ops: Vec<OsdOp>, in_flight: InFlightOp) -> (Token, Request) {
        // Clients that take over from each other have objects of their own.
        let name = format!("other{}.{}.{}", self.client, self.first_token, in_flight.at);
        let request = Request::new(in_flight.pool, Bytes::from(name), ops);
        self.begin_aside(request, AnyInFlightOp::Other(in_flight))
    }

    pub(super) fn other_done(
        &mut self,
        in_flight: InFlightOp,
        response: &Response,
        shared: &mut SharedObjects,
    ) -> Result<(), String> {
        let is_deleted = shared.deleted.contains(&in_flight.pool);
        if self.other.done(in_flight, response, is_deleted)? {
            shared.seen.insert("a request found its pool deleted");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    const POOL: PoolId = PoolId(7);

    fn ended(result: i32, data: &Content) -> Response {
        let data = data.clone().unwrap_or_default();
        Response { result, ops: vec![OsdOp { data, ..read_op() }], ..Response::default() }
    }

    /// What comes of requests that end in this way, for an object that has `content`.
    fn outcome(does: Does, content: &Content, response: &Response, is_deleted: bool) -> Result<bool, String> {
        let objects = vec![content.clone()];
        let mut other = OtherPool { pool: Some(POOL), objects, ..OtherPool::default() };
        other.done(InFlightOp { pool: POOL, at: 0, does }, response, is_deleted)
    }

    #[test]
    fn only_a_pool_that_is_deleted_may_be_gone() {
        let (gone, one) = (ended(-Errno::ENOENT.0, &None), Some(Bytes::from_static(b"one")));
        let change = || Does::Change(Some(Bytes::from_static(b"two")));
        assert_eq!(outcome(change(), &one, &gone, true), Ok(true));
        assert!(outcome(change(), &one, &gone, false).is_err());
        assert_eq!(outcome(Does::Read, &one, &gone, true), Ok(true));
        assert!(outcome(Does::Read, &one, &gone, false).is_err(), "the object is there");
        assert_eq!(outcome(Does::Read, &None, &gone, false), Ok(false));
    }

    #[test]
    fn what_is_read_is_what_was_written_even_while_the_pool_is_deleted() {
        let contents = [b"one", b"two"].map(|data| Some(Bytes::from_static(data)));
        for is_deleted in [false, true] {
            let found = |content: &Content| outcome(Does::Read, content, &ended(0, &contents[0]), is_deleted);
            assert_eq!(found(&contents[0]), Ok(false));
            assert!(found(&contents[1]).is_err());
            assert!(found(&None).is_err());
            assert!(outcome(Does::Change(None), &None, &ended(-5, &None), is_deleted).is_err());
        }
    }

    #[test]
    fn a_pool_that_is_made_again_is_empty() {
        let (mut other, mut rng) = (OtherPool::default(), StdRng::seed_from_u64(1));
        assert!(other.next(&mut rng, None).is_none());
        let written = |other: &OtherPool| other.objects.iter().flatten().count();
        while written(&other) == 0 {
            let Some((_, in_flight)) = other.next(&mut rng, Some(POOL)) else { continue };
            other.done(in_flight, &ended(0, &None), false).ok();
        }
        let (_, in_flight) =
            std::iter::repeat_with(|| other.next(&mut rng, Some(POOL))).flatten().next().unwrap();
        assert!(
            other.next(&mut rng, Some(PoolId(8))).is_none(),
            "a request for the earlier one has not ended"
        );
        assert_eq!(other.done(in_flight, &ended(-Errno::ENOENT.0, &None), true), Ok(true));
        while other.next(&mut rng, Some(PoolId(8))).is_none() {}
        assert_eq!((other.pool, written(&other)), (Some(PoolId(8)), 0));
    }
}
