//! `get_latest_osdmap`: answered when this OSD has the map that is the newest at the monitor's.
//!
//! Authority: `OSD::get_latest_osdmap` (16.2).

use messages::{MMonGetVersion, MMonGetVersionReply};
use serde_json::Value;
use types::{Epoch, Errno};

use super::{Answer, Call};
use crate::{Effect, Osd, osd::Ctx};

/// Callers that wait, at most: each is an operator's command.
const WAITING_MAX: usize = 1_000;

/// Callers that wait for a map, each with the map's epoch once the monitor has named it.
#[derive(Default)]
pub(crate) struct LatestMaps {
    waiting: Vec<(u64, Option<Epoch>, Call)>,
    last_handle: u64,
}

/// The handle of the question that is asked at the start (`Osd::on_mon_opened`); these have higher ones.
pub(crate) const BOOT_HANDLE: u64 = 1;

pub(super) fn wait(osd: &mut Osd, call: &Call, ctx: &mut Ctx<'_>) -> Answer {
    let latest = &mut osd.latest_maps;
    if latest.waiting.len() >= WAITING_MAX {
        return Err((Errno::EAGAIN, "too many wait for a map".to_owned()));
    }
    latest.last_handle = latest.last_handle.max(BOOT_HANDLE) + 1;
    latest.waiting.push((latest.last_handle, None, call.clone()));
    osd.ask_latest_maps(ctx);
    Ok(None)
}

impl Osd {
    /// Asks the monitor for the epochs that callers wait to hear of: where there is no monitor, once there is one.
    pub(crate) fn ask_latest_maps(&self, ctx: &mut Ctx<'_>) {
        let unknown = self.latest_maps.waiting.iter().filter(|(_, epoch, _)| epoch.is_none());
        for (handle, ..) in unknown.filter(|_| self.has_mon) {
            let question = MMonGetVersion { handle: *handle, what: "osdmap".to_owned() };
            ctx.effects.push(Effect::SendMon(question.into()));
        }
    }

    /// The monitor names its newest map.
    pub(crate) fn on_latest_map(&mut self, reply: &MMonGetVersionReply, ctx: &mut Ctx<'_>) {
        if reply.handle == BOOT_HANDLE {
            return;
        }
        let newest = Epoch(u32::try_from(reply.version).unwrap_or(u32::MAX));
        for (_, epoch, _) in
            self.latest_maps.waiting.iter_mut().filter(|(handle, ..)| *handle == reply.handle)
        {
            *epoch = Some(newest);
        }
        if newest > self.map.epoch {
            self.subscribe(ctx);
        }
        self.answer_latest_maps(ctx);
    }

    /// Answers those whose map is here.
    pub(crate) fn answer_latest_maps(&mut self, ctx: &mut Ctx<'_>) {
        let have = self.map.epoch;
        let is_here = |epoch: &Option<Epoch>| epoch.is_some_and(|epoch| epoch <= have);
        let ready: Vec<_> = self.latest_maps.waiting.extract_if(.., |(_, epoch, _)| is_here(epoch)).collect();
        for (_, _, call) in ready {
            self.answer_tell(&call, Ok(Some(Value::Null)), ctx);
        }
    }
}
