//! Objects that refer to another one instead of having anything themselves: requests for them are passed on, as a whole,
//! to the primary of the PG that has the other one (see `proxy`). Reference counts are the target's own business: where a
//! redirect asks for one, the class `cas` of the target is told.
//!
//! Authority: `PrimaryLogPG::maybe_handle_manifest_detail`, `do_osd_ops` (16.2), and what 16.2.15 was seen to do. Redirects
//! only: where the source of these ends an OSD of Ceph (eviction, clones for snapshots), ours refuses, or has the clone
//! refer to the same object.

use bytes::Bytes;
use classes::{ObjectView, Stop};
use codec::{Codec, Decode, Encode, Features, Reader};
use messages::{MOSDOp, ObjectLocator, OpCode, OpParams, OsdOp, op_flag, osd_flag};
use types::{Errno, HObject, ObjectManifest, SnapId, object_hash};

use super::{Blocked, CopySource, Output, Run, object_info::Manifest, request, view::View};

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

/// True for requests on the object itself, whatever it refers to.
fn is_of_manifest(op: &MOSDOp) -> bool {
    let is_of_it = |code| {
        matches!(
            code,
            OpCode::SET_REDIRECT
                | OpCode::SET_CHUNK
                | OpCode::UNSET_MANIFEST
                | OpCode::TIER_PROMOTE
                | OpCode::TIER_FLUSH
                | OpCode::TIER_EVICT
        )
    };
    op.flags & osd_flag::IGNORE_REDIRECT != 0 || op.ops.iter().any(|step| is_of_it(step.code))
}

/// Why a request for an object with a manifest does not run here; none if it does.
pub(super) fn pass_on(manifest: &Manifest, view: &View<'_>, op: &MOSDOp) -> Option<Blocked> {
    let ObjectManifest::Redirect(target) = &manifest.manifest;
    if !view.exists() || is_of_manifest(op) || (view.size() != 0 && !request::is_ordered(op)) {
        return None;
    }
    // Whoever watches is told by the PG that it spoke to.
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
        let target = CopySource { locator, oid, snap: step.params.snap() };
        if self.view.is_head_of(&target)
            || self.view.info.manifest.as_ref().is_some_and(|manifest| manifest.has_reference)
        {
            return Err(Errno::EINVAL.into());
        }
        let target = target.into_object();
        let has_reference = step.flags & op_flag::WITH_REFERENCE != 0;
        if has_reference {
            let result = self.ask(&target, true)?;
            if result < 0 {
                return Err(self.view.refuse(Errno(-result)));
            }
        }
        self.view.become_empty()?;
        let manifest = ObjectManifest::Redirect(target);
        self.view.info.manifest = Some(Box::new(Manifest { manifest, has_reference }));
        self.view.info.user_version = step.params.u64_at(8);
        Ok(Output::default())
    }

    /// The result of having this object refer to `target`, or not any more.
    fn ask(&mut self, target: &HObject, is_taken: bool) -> Result<i32, Stop> {
        let subop = self.view.subop();
        match self.cx.asked.get(&subop) {
            Some(result) => Ok(*result),
            None => {
                let step = reference(self.view.head(), is_taken);
                Err(self.view.want_answer(subop, target.clone(), step))
            }
        }
    }

    pub(super) fn unset_manifest(&mut self) -> Result<Output, Stop> {
        self.view.check_exists()?;
        if self.view.info.manifest.is_none() {
            return Err(Errno::EOPNOTSUPP.into());
        }
        self.view.forget_manifest();
        self.view.touch();
        Ok(Output::default())
    }

    /// The object becomes what it refers to, and refers to it no more; its own xattrs stay beside the others.
    pub(super) fn tier_promote(&mut self) -> Result<Output, Stop> {
        self.view.check_exists()?;
        let Some(manifest) = &self.view.info.manifest else { return Ok(Output::default()) };
        let ObjectManifest::Redirect(target) = &manifest.manifest;
        let source = CopySource::of(target);
        let own = self.view.xattrs()?;
        let subop = self.view.subop();
        let Some(copied) = self.cx.copied.get(&subop) else {
            return Err(self.view.want_copy(subop, source));
        };
        if copied.result < 0 {
            return Err(self.view.refuse(Errno(-copied.result)));
        }
        self.view.become_copy(copied)?;
        for (name, value) in own {
            if self.view.xattr(&name)?.is_none() {
                self.view.set_xattr(&name, value)?;
            }
        }
        self.view.forget_manifest();
        Ok(Output::default())
    }

    pub(super) fn tier_flush(&mut self) -> Result<Output, Stop> {
        self.view.check_exists()?;
        if self.view.info.manifest.is_some() {
            return Err(Errno::EBUSY.into());
        }
        Ok(Output::default())
    }

    pub(super) fn tier_evict(&mut self) -> Result<Output, Stop> {
        self.view.check_exists()?;
        Err(Errno::EINVAL.into())
    }
}

impl CopySource {
    /// An object of a manifest: whatever it is when it is read.
    fn of(object: &HObject) -> CopySource {
        let HObject { oid, key, nspace, pool, .. } = object.clone();
        let locator = ObjectLocator { pool, key, nspace, ..ObjectLocator::default() };
        CopySource { locator, oid, snap: SnapId::HEAD }
    }

    fn into_object(self) -> HObject {
        let CopySource { locator: ObjectLocator { pool, key, nspace, .. }, oid, snap } = self;
        let hash = object_hash(&nspace, &key, &oid);
        HObject { oid, key, nspace, pool, hash, snap, is_max: false }
    }
}
