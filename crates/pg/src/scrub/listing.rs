//! What a scrub found, as clients list it (`Scrub::Store`, `PrimaryLogPG::do_scrub_ls`).

use std::collections::BTreeMap;

use bytes::Bytes;
use codec::{Decode, Encode, Features};
use messages::{MOSDOp, OpCode, OsdOp};
use types::{Errno, HObject, SnapId};

use super::{
    verdict::Verdict,
    wire::{ScrubLsArg, ScrubLsResult},
};
use crate::Pg;

/// Results in one answer, at most.
const RETURN_MAX: u64 = 1_024;
/// Results kept of each kind: an operator who has more does not go through them one by one.
const KEPT_MAX: usize = 16_384;
/// Bytes of results kept of each kind, which an answer has no more of than that: a result has the xattrs of every copy
/// and may be as long as a thousand usual ones. (Answers have no limit of their own in bytes: `rados` takes one with
/// fewer results than it asked for as the last.)
const KEPT_BYTES_MAX: usize = 16 << 20;

/// An object's place among the results: clones first, by the digits of their ids, then by name.
type Place = (String, Bytes, Bytes);

fn place(name: &Bytes, nspace: &Bytes, snap: SnapId) -> Place {
    (snap.to_string(), name.clone(), nspace.clone())
}

fn place_of(object: &HObject) -> Place {
    place(&object.oid, &object.nspace, object.snap)
}

/// Results of one scrub, encoded.
#[derive(Debug, Default)]
pub(super) struct Results {
    objects: Kept,
    snapsets: Kept,
}

/// Results of one kind.
#[derive(Debug, Default)]
struct Kept {
    by_place: BTreeMap<Place, Bytes>,
    bytes: usize,
}

impl Kept {
    fn take(&mut self, object: &HObject, result: Bytes) {
        if self.by_place.len() < KEPT_MAX && self.bytes + result.len() <= KEPT_BYTES_MAX {
            self.bytes += result.len();
            let before = self.by_place.insert(place_of(object), result);
            self.bytes -= before.map_or(0, |before| before.len());
        }
    }
}

impl Results {
    /// Takes over what was found in a chunk.
    pub(super) fn take(&mut self, verdict: &mut Verdict) {
        let f = Features::PACIFIC;
        for found in verdict.objects.drain(..) {
            self.objects.take(&found.object, found.to_bytes(f));
        }
        for found in verdict.snapsets.drain(..) {
            self.snapsets.take(&found.object, found.to_bytes(f));
        }
    }

    pub(super) fn list(&self, arg: &ScrubLsArg) -> Vec<Bytes> {
        let all = if arg.wants_snapsets == 0 { &self.objects } else { &self.snapsets };
        let after = place(&arg.after_name, &arg.after_nspace, arg.after_snap);
        let is_behind = |at: &Place| arg.after_name.is_empty() || *at > after;
        let behind = all.by_place.iter().filter(|(at, _)| is_behind(at)).map(|(_, value)| value.clone());
        behind.take(arg.max_return.min(RETURN_MAX) as usize).collect()
    }
}

/// True for a request that lists results.
pub(crate) fn is_listing(op: &MOSDOp) -> bool {
    op.ops.first().is_some_and(|step| step.code == OpCode::SCRUBLS)
}

impl Pg {
    /// The answer to such a request: a result, and the op with its output.
    pub(crate) fn list_scrub_results(&self, op: &MOSDOp) -> (i32, Vec<OsdOp>) {
        let mut ops = op.echoed_ops();
        let input = op.ops.first().map(|step| step.data.clone()).unwrap_or_default();
        let result = match self.scrub_results(input) {
            Ok(output) => {
                ops.first_mut().into_iter().for_each(|step| step.data = output.clone());
                0
            }
            Err(errno) => errno.negated(),
        };
        (result, ops)
    }

    fn scrub_results(&self, input: Bytes) -> Result<Bytes, Errno> {
        let arg = ScrubLsArg::from_bytes(input).map_err(|_| Errno::EINVAL)?;
        let interval = self.info.since.0;
        if arg.interval != 0 && arg.interval != interval {
            return Err(Errno::EAGAIN);
        }
        let results = self.scrubs.results.as_ref().ok_or(Errno::ENOENT)?;
        Ok(ScrubLsResult { interval, values: results.list(&arg) }.to_bytes(Features::PACIFIC))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_kept_as_far_as_there_is_room_for_them() {
        let object = |at: usize| HObject { oid: format!("o{at}").into(), ..HObject::min() };
        for (bytes, count) in [(KEPT_BYTES_MAX / 3, 3), (1, KEPT_MAX)] {
            let (mut kept, result) = (Kept::default(), Bytes::from(vec![7; bytes]));
            (0..=count).for_each(|at| kept.take(&object(at), result.clone()));
            assert_eq!(kept.by_place.len(), count);
        }
    }
}
