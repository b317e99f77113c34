//! The options of this OSD: from its file, from the monitors, and injected; reported to the manager's part.

use messages::{MMgrOpen, MMonSubscribe, SubscribeItem};
use serde_json::Value;
use types::{CONFIG_COMMANDS, ConfigOwner, EntityType, is_observed};

use super::{Call, Refusal, Row};
use crate::{Effect, Osd, ShardMessage, osd::Ctx};

const fn row(at: usize) -> Row {
    Row { sig: CONFIG_COMMANDS[at].0, help: CONFIG_COMMANDS[at].1, run }
}

pub(super) const ROWS: [Row; 8] = [row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7)];

/// One of the commands that every daemon has.
fn run(osd: &mut Osd, call: &Call, ctx: &mut Ctx<'_>) -> Result<Option<Value>, Refusal> {
    let (name, fsid) = (format!("osd.{}", osd.config.whoami), osd.config.fsid.to_string());
    let owner =
        ConfigOwner { name: &name, fsid: &fsid, is_observed: &|name| is_observed(EntityType::OSD, name) };
    let prefix = call.text("prefix").unwrap_or_default();
    let Some(answer) = owner.run(&mut osd.settings, &prefix, &|name| call.list(name)) else {
        return Ok(None);
    };
    let reply = answer?;
    if reply.is_changed {
        osd.on_settings_changed(ctx);
    }
    osd.answer_with(call, reply.status, &reply.output, ctx);
    Ok(None)
}

impl Osd {
    /// The value of an option in force.
    pub fn option(&self, name: &str) -> Option<String> {
        self.settings.get(name)
    }

    /// Asks the monitors for the options that they keep for this OSD, now and whenever they change.
    pub(crate) fn subscribe_config(&self, ctx: &mut Ctx<'_>) {
        let message = MMonSubscribe {
            what: [("config".to_owned(), SubscribeItem { start: 0, flags: 0 })].into(),
            hostname: self.config.hostname.clone(),
        };
        ctx.effects.push(Effect::SendMon(message.into()));
    }

    /// Follows other options from now on, and says so.
    pub(crate) fn on_settings_changed(&mut self, ctx: &mut Ctx<'_>) {
        self.follow_options();
        ctx.effects.push(Effect::OptionsChanged);
        self.send_other_shards(|| ShardMessage::Settings(Box::new(self.settings.clone())), ctx);
        let (config, ignored_config) = self.settings.to_wire();
        let daemon_name = self.config.whoami.to_string();
        let report = MMgrOpen { daemon_name, config, ignored_config, ..MMgrOpen::default() };
        ctx.effects.push(Effect::SendMon(report.into()));
    }
}
