//! The options of this OSD: from its file, from the monitors, and injected; reported to the manager's part.

use messages::{MMgrOpen, MMonSubscribe, SubscribeItem};
use serde_json::Value;
use types::{CONFIG_COMMANDS, ConfigOwner};

use super::{Call, Refusal, Row, show::uuid};
use crate::{Cross, Effect, Osd, osd::Cx};

/// Options that a running OSD looks at.
const OBSERVED: [&str; 31] = [
    "bluestore_cache_size",
    "osd_aggregated_slow_ops_logging",
    "osd_async_recovery_min_cost",
    "osd_deep_scrub_interval",
    "osd_deep_scrub_large_omap_object_key_threshold",
    "osd_deep_scrub_large_omap_object_value_sum_threshold",
    "osd_deep_scrub_randomize_ratio",
    "osd_deep_scrub_stride",
    "osd_enable_op_tracker",
    "osd_max_scrubs",
    "osd_memory_target",
    "osd_op_complaint_time",
    "osd_op_history_duration",
    "osd_op_history_size",
    "osd_op_history_slow_op_size",
    "osd_op_history_slow_op_threshold",
    "osd_op_log_threshold",
    "osd_recovery_max_active",
    "osd_recovery_max_active_ssd",
    "osd_scrub_auto_repair",
    "osd_scrub_auto_repair_num_errors",
    "osd_scrub_begin_hour",
    "osd_scrub_begin_week_day",
    "osd_scrub_chunk_max",
    "osd_scrub_chunk_min",
    "osd_scrub_end_hour",
    "osd_scrub_end_week_day",
    "osd_scrub_interval_randomize_ratio",
    "osd_scrub_max_interval",
    "osd_scrub_max_preemptions",
    "osd_scrub_min_interval",
];

const fn row(at: usize) -> Row {
    Row { sig: CONFIG_COMMANDS[at].0, help: CONFIG_COMMANDS[at].1, run }
}

pub(super) const ROWS: [Row; 8] = [row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7)];

/// One of the commands that every daemon has.
fn run(osd: &mut Osd, call: &Call, cx: &mut Cx<'_>) -> Result<Option<Value>, Refusal> {
    let (name, fsid) = (format!("osd.{}", osd.config.whoami), uuid(&osd.config.fsid));
    let owner = ConfigOwner { name: &name, fsid: &fsid, is_observed: &|name| OBSERVED.contains(&name) };
    let prefix = call.text("prefix").unwrap_or_default();
    let Some(answer) = owner.run(&mut osd.settings, &prefix, &|name| call.list(name)) else {
        return Ok(None);
    };
    let reply = answer?;
    if reply.is_changed {
        osd.on_settings_changed(cx);
    }
    osd.answer_with(call, reply.status, &reply.output, cx);
    Ok(None)
}

impl Osd {
    /// The value of an option in force.
    pub fn option(&self, name: &str) -> Option<String> {
        self.settings.get(name)
    }

    /// Asks the monitors for the options that they keep for this OSD, now and whenever they change.
    pub(crate) fn subscribe_config(&self, cx: &mut Cx<'_>) {
        let message = MMonSubscribe {
            what: [("config".to_owned(), SubscribeItem { start: 0, flags: 0 })].into(),
            hostname: self.config.hostname.clone(),
        };
        cx.effects.push(Effect::SendMon(message.into()));
    }

    /// Goes by other options from now on, and says so.
    pub(crate) fn on_settings_changed(&mut self, cx: &mut Cx<'_>) {
        self.follow_options();
        cx.effects.push(Effect::OptionsChanged);
        self.cross_all(|| Cross::Settings(Box::new(self.settings.clone())), cx);
        let (config, ignored_config) = self.settings.to_wire();
        let daemon_name = self.config.whoami.to_string();
        let report = MMgrOpen { daemon_name, config, ignored_config, ..MMgrOpen::default() };
        cx.effects.push(Effect::SendMon(report.into()));
    }
}
