//! The options that running daemons go by. Ceph's manager answers these from what daemons report to it.

use serde_json::{Value, json};
use types::{EntityName, EntityType, Errno, OptionShown, OsdId, Settings};

use super::{Reply, Request, Row};
use crate::format::{Align, TextTable};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "config show name=who,type=CephString name=key,type=CephString,req=false",
        help: "Show running configuration",
        module: "mgr",
        perm: "r",
        run: |req| show(req).into(),
    },
    Row {
        sig: "config show-with-defaults name=who,type=CephString",
        help: "Show running configuration (including compiled-in defaults)",
        module: "mgr",
        perm: "r",
        run: |req| show_with_defaults(req).into(),
    },
];

/// The settings of a running daemon.
fn settings(req: &Request<'_>) -> Result<Settings, Reply> {
    let who = req.args.text("who").unwrap_or_default();
    let bad_name = || Reply::fail(Errno::EINVAL, "invalid daemon name: use <type>.<id>");
    let name = EntityName::parse(&who).ok_or_else(bad_name)?;
    let own = &req.mon.base_options.name;
    let found = match name.kind {
        EntityType::MON if name.id == *own => Some(req.mon.settings.clone()),
        EntityType::MGR if name.id == *own => {
            let mut settings = Settings::default();
            settings.set_mon(&req.mon.mgr_config);
            Some(settings)
        }
        EntityType::OSD => name.id.parse().ok().and_then(|id| req.mon.osd_settings.get(&OsdId(id)).cloned()),
        _ => None,
    };
    found.ok_or_else(|| Reply::fail(Errno::ENOENT, format!("no config state for daemon {who}")))
}

fn show(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let settings = settings(req)?;
    match req.args.text("key") {
        // One value, without a document around it in any format.
        Some(key) => match settings.get(&key) {
            Some(value) => Ok(Reply::text(format!("{value}\n"))),
            None => Err(Reply::fail(Errno::ENOENT, "")),
        },
        None => Ok(list(req, &settings.changed())),
    }
}

fn show_with_defaults(req: &mut Request<'_>) -> Result<Reply, Reply> {
    Ok(list(req, &settings(req)?.all()))
}

fn list(req: &Request<'_>, all: &[OptionShown<'_>]) -> Reply {
    let json = |shown: &OptionShown<'_>| {
        let mut out = json!({"name": shown.name});
        if let Some((level, value)) = shown.values.first() {
            out["value"] = json!(value);
            out["source"] = json!(level.as_str());
        }
        // Every source overrides defaults, so an overridden default is not shown.
        let overridden = shown.overridden().map(|(l, v)| json!({"source": l.as_str(), "value": v}));
        let overridden: Vec<Value> = overridden.collect();
        if !overridden.is_empty() {
            out["overrides"] = overridden.into();
        }
        if shown.is_mon_ignored {
            out["ignores"] = json!("mon");
        }
        out
    };
    let text = || {
        let headings = ["NAME", "VALUE", "SOURCE", "OVERRIDES", "IGNORES"].map(|h| (h, Align::Left));
        let mut table = TextTable::default().columns(&headings);
        for shown in all {
            let (level, value) = shown.values.first().map_or(("", ""), |(l, v)| (l.as_str(), v.as_str()));
            let overridden: Vec<String> =
                shown.overridden().map(|(l, v)| format!("{}[{v}]", l.as_str())).collect();
            let ignores = if shown.is_mon_ignored { "mon" } else { "" };
            let cells = [shown.name, value, level, &overridden.join(","), ignores];
            table.row(cells.map(str::to_owned).to_vec());
        }
        table.render()
    };
    Reply::show(req.args, || all.iter().map(json).collect(), text)
}
