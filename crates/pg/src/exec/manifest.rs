//! Objects that refer to another one instead of having anything themselves: requests for them are passed on, as a
//! whole, to the primary of the PG that has the other one (see `proxy`). Reference counts are the target's own
//! business: where a redirect asks for one, the class `cas` of the target is told.
//!
//! Authority: `PrimaryLogPG::maybe_handle_manifest_detail`, `do_osd_ops` (16.2), and what 16.2.15 was seen to do. Where
//! a redirect ends an OSD of Ceph (eviction, clones for snapshots), ours refuses, or has the clone refer to the same
//! object. Objects of which only parts are in other objects are in `chunks`.

use bytes::Bytes;
use classes::{ObjectView, Stop};
use codec::{Codec, Decode, Encode, Features, Reader};
use messages::{MOSDOp, ObjectLocator, OpCode, OpParams, OsdOp, op_flag, osd_flag};
use types::{Errno, HObject, ObjectManifest, SnapId, object_hash};

use super::{Blocked, CopySource, Output, Run, object_info::Manifest, op_kinds, request, view::View};

/// Ops of a request that may ask something of others, in bits, and how often each may. Both together leave a question's
/// number below 2^15, as `Pg::ask_for` wants it.
const ASKING_OPS_BITS: u32 = 6;
const QUESTIONS_MAX: u32 = 1 << 9;

/// What a reference is asked for with, and given back (`cls_cas_chunk_get_ref_op`, `cls_cas_chunk_put_ref_op`).
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct Reference {
    source: HObject,
}

/// The request of class `cas` that has `source` refer to an object, or not any more.
pub(crate) fn reference(source: &HObject, is_taken: bool) -> OsdOp {
    let (class, method) = ("cas", if is_taken { "chunk_get_ref" } else { "chunk_put_ref" });
    let input = Reference { source: source.head() }.to_bytes(Features::default());
    let lens = [class.len() as u8, method.len() as u8, 0];
    OsdOp {
        params: OpParams::from_parts(&[&lens, &(input.len() as u32).to_le_bytes()]),
        data: [class.as_bytes(), method.as_bytes(), &input].concat().into(),
        ..OsdOp::new(OpCode::CALL)
    }
}

/// True for what [`reference`] makes.
pub(crate) fn is_reference(op: &MOSDOp) -> bool {
    let [step] = &op.ops[..] else { return false };
    let names = [&b"caschunk_get_ref"[..], b"caschunk_put_ref"];
    step.code == OpCode::CALL && names.iter().any(|name| step.data.starts_with(name))
}

/// True for requests on the object itself, whatever it refers to.
fn is_of_manifest(op: &MOSDOp) -> bool {
    op.flags & osd_flag::IGNORE_REDIRECT != 0 || op.ops.iter().any(|step| op_kinds::is_of_manifest(step.code))
}

/// Why a request for an object with a manifest does not run here; none if it does.
pub(super) fn pass_on(manifest: &Manifest, view: &View<'_>, op: &MOSDOp) -> Option<Blocked> {
    let ObjectManifest::Redirect(target) = &manifest.manifest else { return None };
    if !view.exists() || is_of_manifest(op) || (view.size() != 0 && !request::is_ordered(op)) {
        return None;
    }
    // A watcher is notified by the PG that it sent its watch to: these ops are not passed on.
    let is_watch =
        |code| matches!(code, OpCode::WATCH | OpCode::NOTIFY | OpCode::NOTIFY_ACK | OpCode::LIST_WATCHERS);
    if op.ops.iter().any(|step| is_watch(step.code)) {
        return Some(Blocked::Refused(Errno::EOPNOTSUPP));
    }
    Some(Blocked::PassOn { target: target.clone() })
}

impl Run<'_, '_> {
    /// Data and omap go, users' xattrs stay, as with Ceph.
    pub(super) fn set_redirect(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        self.view.check_exists()?;
        let mut input = Reader::new(step.data.clone());
        let oid = Bytes::decode(&mut input).map_err(|_| Errno::EINVAL)?;
        let locator = ObjectLocator::decode(&mut input).map_err(|_| Errno::EINVAL)?;
        let target = CopySource { locator: locator.of(&oid), oid, snap: step.params.snap() };
        if self.view.is_head_of(&target)
            || self.view.info.manifest.as_ref().is_some_and(|manifest| manifest.has_reference)
        {
            return Err(Errno::EINVAL.into());
        }
        let target = target.into_object();
        let has_reference = step.flags & op_flag::WITH_REFERENCE != 0;
        if has_reference {
            let result = self.ask(0, &target)?;
            if result < 0 {
                return Err(self.view.refuse(Errno::of_result(result)));
            }
        }
        self.view.become_empty()?;
        let manifest = ObjectManifest::Redirect(target);
        self.view.info.manifest = Some(Box::new(Manifest { manifest, has_reference }));
        self.view.info.user_version = step.params.u64_at(8);
        Ok(Output::default())
    }

    /// The result of having this object refer to `target`, the op's question of this number.
    pub(super) fn ask(&mut self, number: u32, target: &HObject) -> Result<i32, Stop> {
        let subop = self.view.subop();
        if number >= QUESTIONS_MAX || subop >= 1 << ASKING_OPS_BITS {
            return Err(self.view.refuse(Errno::EOPNOTSUPP));
        }
        let question = number << ASKING_OPS_BITS | subop;
        match self.ctx.asked.get(&question) {
            Some(result) => Ok(*result),
            None => {
                let step = reference(self.view.head(), true);
                Err(self.view.want_answer(question, target.clone(), step))
            }
        }
    }

    /// What was evicted is taken in first, where Ceph leaves holes.
    pub(super) fn unset_manifest(&mut self) -> Result<Output, Stop> {
        self.view.check_exists()?;
        if self.view.info.manifest.is_none() {
            return Err(Errno::EOPNOTSUPP.into());
        }
        if let Some(mut chunks) = self.view.info.chunks().cloned() {
            chunks.retain(|_, chunk| chunk.is_missing);
            self.promote_chunks(chunks)?;
        }
        self.view.forget_manifest();
        self.view.touch();
        Ok(Output::default())
    }

    /// The object becomes what it refers to, and refers to it no more; its own xattrs stay beside the others.
    pub(super) fn tier_promote(&mut self) -> Result<Output, Stop> {
        self.view.check_exists()?;
        let Some(manifest) = &self.view.info.manifest else { return Ok(Output::default()) };
        let source = match &manifest.manifest {
            ObjectManifest::Redirect(target) => CopySource::of(target),
            ObjectManifest::Chunked(chunks) => return self.promote_chunks(chunks.clone()),
        };
        let own = self.view.xattrs()?;
        let subop = self.view.subop();
        let Some(copied) = self.ctx.copied.get(&subop) else {
            return Err(self.view.want_copy(subop, source));
        };
        if copied.result < 0 {
            return Err(self.view.refuse(Errno::of_result(copied.result)));
        }
        self.view.become_copy(copied)?;
        for (name, value) in own {
            if self.view.xattr(&name)?.is_none() {
                self.view.put_xattr(&name, value);
            }
        }
        self.view.forget_manifest();
        Ok(Output::default())
    }

    /// Nothing is split into chunks here: as in Ceph, where no pool is set for them.
    pub(super) fn tier_flush(&mut self) -> Result<Output, Stop> {
        self.view.check_exists()?;
        match self.view.info.manifest.as_ref().map(|manifest| &manifest.manifest) {
            Some(ObjectManifest::Redirect(_)) => Err(Errno::EBUSY.into()),
            Some(ObjectManifest::Chunked(_)) => Err(Errno::EINVAL.into()),
            None => Ok(Output::default()),
        }
    }
}

impl CopySource {
    /// The object that a manifest refers to, in whatever state it is when it is read.
    pub(super) fn of(object: &HObject) -> CopySource {
        let HObject { oid, key, nspace, pool, .. } = object.clone();
        let locator = ObjectLocator { pool, key, nspace, ..ObjectLocator::default() };
        CopySource { locator, oid, snap: SnapId::HEAD }
    }

    pub(crate) fn into_object(self) -> HObject {
        let CopySource { locator: ObjectLocator { pool, key, nspace, .. }, oid, snap } = self;
        let hash = object_hash(&nspace, &key, &oid);
        HObject { oid, key, nspace, pool, hash, snap, is_max: false }
    }
}
