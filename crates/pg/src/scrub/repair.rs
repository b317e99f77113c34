//! Bad copies are declared missing; recovery brings good ones (`force_object_missing`).

use std::collections::BTreeMap;

use messages::MPgBadCopy;
use types::{EVersion, HObject, OsdId};

use super::verdict::BadCopies;
use crate::{Ctx, Effect, Pg, pg::Phase};

impl Pg {
    pub(super) fn replace_bad_copies(&mut self, bad: BTreeMap<HObject, BadCopies>, ctx: &mut Ctx<'_>) {
        for (object, bad) in bad {
            let version = bad.version;
            self.stats.sum.objects_repaired += bad.count();
            let me = self.me;
            for osd in bad.all().filter(|osd| *osd != me) {
                self.replace_copy(osd, object.clone(), version, ctx);
            }
            if bad.all().any(|osd| osd == self.me) {
                self.declare_missing(object, version, ctx);
            }
        }
        self.scrubs.is_repairing = true;
        self.is_clean = false;
        self.recover(ctx);
    }

    /// Has a replica's bad copy replaced by a good one.
    pub(crate) fn replace_copy(&mut self, osd: OsdId, object: HObject, version: EVersion, ctx: &mut Ctx<'_>) {
        self.peer_missing.entry(osd).or_default().insert(object.clone(), version);
        self.recovery.look_again(&object);
        let message = MPgBadCopy { pgid: self.pgid, epoch: ctx.map.epoch, object, version };
        ctx.effects.push(Effect::SendOsd(osd, message.into()));
    }

    /// A replica's copy is bad, as the primary has found, or the replica itself.
    pub(crate) fn on_bad_copy(&mut self, from: OsdId, message: MPgBadCopy, ctx: &mut Ctx<'_>) {
        if from == self.members.primary && self.phase == Phase::Replica {
            self.declare_missing(message.object, message.version, ctx);
        } else if self.is_primary() && self.members.acting.contains(&from) {
            self.on_copy_unreadable(from, message.object, ctx);
        }
    }

    /// Every copy has everything again.
    pub(crate) fn end_repair(&mut self) {
        self.scrubs.is_repairing = false;
    }
}
