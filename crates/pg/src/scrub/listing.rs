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
    objects: BTreeMap<Place, Bytes>,
    snapsets: BTreeMap<Place, Bytes>,
}

impl Results {
    /// Takes over what was found in a chunk.
    pub(super) fn take(&mut self, verdict: &mut Verdict) {
        let f = Features::PACIFIC;
        for found in verdict.objects.drain(..) {
            if self.objects.len() < KEPT_MAX {
                self.objects.insert(place_of(&found.object), found.to_bytes(f));
            }
        }
        for found in verdict.snapsets.drain(..) {
            if self.snapsets.len() < KEPT_MAX {
                self.snapsets.insert(place_of(&found.object), found.to_bytes(f));
            }
        }
    }

    fn list(&self, arg: &ScrubLsArg) -> Vec<Bytes> {
        let all = if arg.wants_snapsets == 0 { &self.objects } else { &self.snapsets };
        let after = place(&arg.after_name, &arg.after_nspace, arg.after_snap);
        let is_behind = |at: &Place| arg.after_name.is_empty() || *at > after;
        let behind = all.iter().filter(|(at, _)| is_behind(at)).map(|(_, value)| value.clone());
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
