//! Objects by number, which have what one of their writes gave them: for worlds whose story is told step by step, each
//! request after the one before.

use bytes::Bytes;
use client::{Request, Response};
use messages::{OpCode, OpParams, OsdOp};
use types::{Errno, PoolId, SnapContext, SnapId, Token};

use crate::{World, world::PATIENCE};

const OBJECT_BYTES: usize = 6_000;

/// By the number of the write that it is of; none if there is no object.
pub(crate) type Content = Option<u8>;

impl World {
    /// What an object has.
    pub(crate) fn content(&mut self, pool: PoolId, at: usize, snapid: SnapId) -> Result<Content, String> {
        let op = OsdOp { params: OpParams::extent(0, 0), ..OsdOp::new(OpCode::READ) };
        let response = self.ask(Request { snapid, ..Request::new(pool, name(at), vec![op]) })?;
        found(at, &response)
    }

    /// Changes an object from one content to another.
    pub(crate) fn put(
        &mut self,
        pool: PoolId,
        at: usize,
        from: Content,
        to: Content,
        snapc: SnapContext,
    ) -> Result<(), String> {
        let op = match to {
            Some(number) => {
                let data = data(at, number);
                let params = OpParams::extent(0, data.len() as u64);
                OsdOp { params, data, ..OsdOp::new(OpCode::WRITEFULL) }
            }
            None if from.is_none() => return Ok(()),
            None => OsdOp::new(OpCode::DELETE),
        };
        match self.ask(Request { snapc, ..Request::new(pool, name(at), vec![op]) })?.result {
            0 => Ok(()),
            result => Err(format!("a change of object {at} ended with {result}")),
        }
    }

    /// What comes of a request.
    fn ask(&mut self, request: Request) -> Result<Response, String> {
        let limit = self.schedule.now() + PATIENCE;
        self.submit(0, Token(1), request);
        while self.schedule.now() < limit {
            self.step();
            if let Some((_, response)) = self.take_ended(0).next() {
                return Ok(response);
            }
        }
        Err(format!("waited for an answer in vain: {}", self.state()))
    }
}

/// Its name.
pub(crate) fn name(at: usize) -> Bytes {
    Bytes::from(format!("object {at}"))
}

fn data(at: usize, number: u8) -> Bytes {
    let mut data = vec![number; OBJECT_BYTES];
    data[0] = at as u8;
    Bytes::from(data)
}

/// Which content was read.
fn found(at: usize, response: &Response) -> Result<Content, String> {
    match (Errno(-response.result), response.ops.first()) {
        (Errno::ENOENT, _) => Ok(None),
        (_, Some(read)) if response.result >= 0 => {
            let known = [1, 2].into_iter().find(|number| read.data == data(at, *number));
            known.map(Some).ok_or_else(|| format!("object {at} has data that was never written"))
        }
        _ => Err(format!("a read of object {at} ended with {}", response.result)),
    }
}
