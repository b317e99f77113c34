//! The manager's modules: which ones there are, the commands of each, and which ones an operator has enabled.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use types::Errno;

use crate::{
    Mon,
    commands::{Reply, Request, Row},
    ledger_keys,
    state::value,
};

use Kind::{Absent, AlwaysOn, Optional};

/// Whether a module works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Always.
    AlwaysOn,
    /// When it is enabled.
    Optional,
    /// Ceph has it and its commands are known; it is not here and cannot be enabled.
    Absent,
}

struct Module {
    name: &'static str,
    kind: Kind,
    /// How its commands begin.
    commands: &'static [&'static str],
}

const fn module(name: &'static str, kind: Kind, commands: &'static [&'static str]) -> Module {
    Module { name, kind, commands }
}

const MODULES: &[Module] = &[
    module("alerts", Absent, &["alerts"]),
    module("balancer", AlwaysOn, &["balancer"]),
    module("crash", AlwaysOn, &["crash"]),
    module("devicehealth", AlwaysOn, &["device"]),
    module("influx", Absent, &["influx"]),
    module("insights", Absent, &["insights"]),
    module("iostat", Optional, &["iostat"]),
    module("mirroring", Absent, &["fs snapshot mirror"]),
    module("nfs", Absent, &["nfs"]),
    module("orchestrator", AlwaysOn, &["orch"]),
    module("osd_perf_query", Absent, &["osd perf query", "osd perf counters"]),
    module("osd_support", Absent, &["osd drain"]),
    module("pg_autoscaler", AlwaysOn, &["osd pool autoscale-status"]),
    module("progress", AlwaysOn, &["progress"]),
    module("prometheus", Optional, &["prometheus", "healthcheck history"]),
    module("rbd_support", AlwaysOn, &["rbd"]),
    module("restful", Absent, &["restful"]),
    module("selftest", Absent, &["mgr self-test"]),
    module("snap_schedule", Absent, &["fs snap-schedule"]),
    module("stats", Absent, &["fs perf stats"]),
    module("status", AlwaysOn, &["fs status", "osd status"]),
    module("telegraf", Absent, &["telegraf"]),
    module("telemetry", AlwaysOn, &["telemetry"]),
    module("test_orchestrator", Absent, &["test_orchestrator"]),
    module("volumes", AlwaysOn, &["fs volume", "fs subvolume", "fs subvolumegroup", "fs clone"]),
    module("zabbix", Absent, &["zabbix"]),
];

/// The release by whose number the map names modules that are always on (`CEPH_RELEASE_PACIFIC`).
const RELEASE: u32 = 16;

macro_rules! absent {
    ($($sig:literal)*) => {
        [$(Row {
            sig: $sig,
            help: "answered with what module this needs",
            module: "mgr",
            perm: "r",
            run: not_here,
        }),*]
    };
}

const CHANGES: &[Row] = &[
    Row { sig: "mgr module ls", help: "list active mgr modules", module: "mgr", perm: "r", run: ls },
    Row {
        sig: "mgr module enable name=module,type=CephString name=force,type=CephBool,req=false",
        help: "enable mgr module",
        module: "mgr",
        perm: "rw",
        run: enable,
    },
    Row {
        sig: "mgr module disable name=module,type=CephString",
        help: "disable mgr module",
        module: "mgr",
        perm: "rw",
        run: disable,
    },
];

/// Commands of modules that are not here: the stock clients send only what they are told of.
const ABSENT: &[Row] = &absent! {
    "alerts send"
    "influx config-show"
    "influx send"
    "insights"
    "insights prune-health name=hours,type=CephInt,req=false"
    "mgr self-test run"
    "nfs cluster ls"
    "restful list-keys"
    "telegraf config-show"
    "zabbix config-show"
};

pub(crate) fn rows() -> impl Iterator<Item = &'static Row> {
    CHANGES.iter().chain(ABSENT)
}

fn find(prefix: &str) -> Option<&'static Module> {
    let begins = |start: &&str| {
        prefix.strip_prefix(*start).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    MODULES.iter().find(|module| module.commands.iter().any(&begins))
}

/// The module whose command this is.
pub(crate) fn module_of(prefix: &str) -> Option<&'static str> {
    find(prefix).map(|module| module.name)
}

/// The answer to a command of a module that is off. Clients look for its first words.
fn disabled(module: &Module, prefix: &str) -> Reply {
    let name = module.name;
    let remedy = match module.kind {
        Absent => "it is not part of Loligo".to_owned(),
        AlwaysOn | Optional => format!("use `ceph mgr module enable {name}` to enable it"),
    };
    let text = format!("Module '{name}' is not enabled/loaded (required by command '{prefix}'): {remedy}");
    Reply::fail(Errno::EOPNOTSUPP, text)
}

/// The answer to a command that is in no table.
pub(crate) fn refusal(mon: &Mon, prefix: &str, unknown: &str) -> Reply {
    match find(prefix) {
        Some(module) if !is_on(mon, module) => disabled(module, prefix),
        _ => Reply::fail(Errno::EINVAL, unknown),
    }
}

/// Refuses commands of modules that are off, or that cannot work at the moment.
pub(crate) fn check(mon: &Mon, prefix: &str) -> Option<Reply> {
    let module = find(prefix)?;
    if !is_on(mon, module) {
        return Some(disabled(module, prefix));
    }
    let is_cut_off = module.name == "rbd_support" && mon.is_manager_fenced();
    is_cut_off.then(|| Reply::fail(Errno::EAGAIN, "rbd_support module is not ready, try again"))
}

/// True when an operator has enabled the module.
pub(crate) fn is_enabled(mon: &Mon, name: &str) -> bool {
    mon.committed.mgr_modules.contains(name)
}

/// Whether a module runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Running {
    /// It does not.
    Off,
    /// It is enabled.
    On,
    /// It always does.
    Always,
}

/// All modules that Ceph has.
pub(crate) fn all(mon: &Mon) -> impl Iterator<Item = (&'static str, Running)> {
    let running = |module: &Module| match module.kind {
        AlwaysOn => Running::Always,
        Optional | Absent if is_enabled(mon, module.name) => Running::On,
        Optional | Absent => Running::Off,
    };
    MODULES.iter().map(move |module| (module.name, running(module)))
}

fn is_on(mon: &Mon, module: &Module) -> bool {
    module.kind == AlwaysOn || is_enabled(mon, module.name)
}

/// Modules that are always on.
pub(crate) fn always_on() -> Vec<&'static str> {
    MODULES.iter().filter(|module| module.kind == AlwaysOn).map(|module| module.name).collect()
}

/// The modules that are always on, by release, as the manager map has them.
pub(crate) fn always_on_by_release() -> BTreeMap<u32, BTreeSet<String>> {
    [(RELEASE, always_on().into_iter().map(str::to_owned).collect())].into()
}

/// All that are here.
pub(crate) fn available() -> impl Iterator<Item = &'static str> {
    MODULES.iter().filter(|module| module.kind != Absent).map(|module| module.name)
}

/// A module as listings show it.
pub(crate) fn shown(name: &str) -> Value {
    json!({"name": name, "can_run": true, "error_string": "", "module_options": {}})
}

fn not_here(req: &mut Request<'_>) -> Reply {
    let prefix = req.args.prefix();
    disabled(find(prefix).expect("the rows that lead here are commands of modules"), prefix)
}

fn ls(req: &mut Request<'_>) -> Reply {
    let enabled = req.mon.committed.mgr_modules.as_ref();
    let is_disabled = |module: &&Module| module.kind == Optional && !enabled.contains(module.name);
    let disabled: Vec<Value> = MODULES.iter().filter(is_disabled).map(|module| shown(module.name)).collect();
    let out = json!({
        "always_on_modules": always_on(),
        "enabled_modules": enabled,
        "disabled_modules": disabled,
    });
    Reply::json(req.args, out)
}

fn named(req: &Request<'_>) -> (String, Option<&'static Module>) {
    let name = req.args.text("module").unwrap_or_default();
    let found = MODULES.iter().find(|module| module.name == name);
    (name, found)
}

fn put_modules(mon: &mut Mon, modules: &BTreeSet<String>) {
    mon.put(ledger_keys::MGR_MODULES.to_owned(), value(modules));
    mon.change_mgrmap();
}

fn enable(req: &mut Request<'_>) -> Reply {
    let (name, module) = named(req);
    match module.map(|module| module.kind) {
        Some(AlwaysOn) => return Reply::done(format!("module '{name}' is already enabled (always-on)")),
        Some(Optional) => {}
        // As in Ceph, a module that cannot run may be enabled all the same, and does nothing.
        Some(Absent) | None if req.args.flag("force") => {}
        Some(Absent) | None => {
            let text =
                format!("all mgr daemons do not support module '{name}', pass --force to force enablement");
            return Reply::fail(Errno::ENOENT, text);
        }
    }
    let mut modules = req.mon.next.mgr_modules.as_ref().clone();
    if !modules.insert(name.clone()) {
        return Reply::done(format!("module '{name}' is already enabled"));
    }
    put_modules(req.mon, &modules);
    Reply::default()
}

fn disable(req: &mut Request<'_>) -> Reply {
    let (name, module) = named(req);
    if module.is_some_and(|module| module.kind == AlwaysOn) {
        return Reply::fail(Errno::EINVAL, format!("module '{name}' cannot be disabled (always-on)"));
    }
    let mut modules = req.mon.next.mgr_modules.as_ref().clone();
    if !modules.remove(&name) {
        return Reply::done(format!("module '{name}' is already disabled"));
    }
    put_modules(req.mon, &modules);
    Reply::default()
}
