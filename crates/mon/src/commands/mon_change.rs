//! Changes to the monitor map that one monitor alone can make.
//!
//! Authority: `MonmapMonitor::prepare_command` (16.2).

use types::{Errno, MonMap};

use super::{Reply, Request, Row, mon_info::MON_FEATURES};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "mon feature set name=feature_name,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "set provided feature on mon map",
        module: "mon",
        perm: "rw",
        run: feature_set,
    },
    Row {
        sig: "mon set election_strategy name=strategy,type=CephString",
        help: "set the election strategy to use; choices classic, disallow, connectivity",
        module: "mon",
        perm: "rw",
        run: set_strategy,
    },
    Row {
        sig: "mon add disallowed_leader name=name,type=CephString",
        help: "prevent the named mon from being a leader",
        module: "mon",
        perm: "rw",
        run: |req| disallow_leader(req).into(),
    },
    Row {
        sig: "mon rm disallowed_leader name=name,type=CephString",
        help: "allow the named mon to be a leader again",
        module: "mon",
        perm: "rw",
        run: |req| allow_leader(req).into(),
    },
    Row {
        sig: "mon set-weight name=name,type=CephString name=weight,type=CephInt,range=0|65535",
        help: "set the weight for the specified mon",
        module: "mon",
        perm: "rw",
        run: set_weight,
    },
    Row {
        sig: "mon enable-msgr2",
        help: "enable the msgr2 protocol on all monitors",
        module: "mon",
        perm: "rw",
        run: enable_msgr2,
    },
    Row {
        sig: "mon add name=name,type=CephString name=addr,type=CephIPAddr name=location,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=],req=false",
        help: "add new monitor named <name> at <addr>, possibly with CRUSH location <location>",
        module: "mon",
        perm: "rw",
        run: add,
    },
    Row {
        sig: "mon rm name=name,type=CephString",
        help: "remove monitor named <name>",
        module: "mon",
        perm: "rw",
        run: rm,
    },
    Row {
        sig: "mon remove name=name,type=CephString",
        help: "remove monitor named <name>",
        module: "mon",
        perm: "rw",
        run: rm,
    },
];

/// Election strategies by name, and their numbers.
const STRATEGIES: [(&str, u8); 3] = [
    ("classic", MonMap::STRATEGY_CLASSIC),
    ("disallow", MonMap::STRATEGY_DISALLOW),
    ("connectivity", MonMap::STRATEGY_CONNECTIVITY),
];

fn name_arg(req: &Request<'_>) -> String {
    req.args.text("name").unwrap_or_default()
}

/// Every known feature is on, and none can be turned off.
fn feature_set(req: &mut Request<'_>) -> Reply {
    let name = req.args.text("feature_name").unwrap_or_default();
    if !MON_FEATURES.contains(&name.as_str()) {
        return Reply::fail(Errno::ENOENT, format!("unknown feature '{name}'"));
    }
    let shown = format!("'mon_feature_t([{name}])'");
    if !req.args.flag("yes_i_really_mean_it") {
        let why = format!(
            "please specify '--yes-i-really-mean-it' if you really, **really** want to set feature {shown} in the monmap."
        );
        return Reply::fail(Errno::EPERM, why);
    }
    Reply::done(format!("setting feature {shown} feature {shown} already set on monmap"))
}

fn set_strategy(req: &mut Request<'_>) -> Reply {
    let text = req.args.text("strategy").unwrap_or_default();
    let Some((_, strategy)) = STRATEGIES.iter().find(|(name, _)| *name == text) else {
        return Reply::fail(Errno::EINVAL, "(22) Invalid argument");
    };
    let mut monmap = MonMap::clone(&req.mon.next.monmap);
    if monmap.strategy != *strategy {
        monmap.strategy = *strategy;
        req.mon.put_monmap(monmap, req.wall);
    }
    Reply::done("")
}

/// The monitor that is named, if the cluster's election strategy knows disallowed leaders.
fn leader_arg(req: &Request<'_>) -> Result<String, Reply> {
    let monmap = &req.mon.next.monmap;
    if monmap.strategy == MonMap::STRATEGY_CLASSIC {
        let why = "You cannot disallow monitors in your current election mode";
        return Err(Reply::fail(Errno::EINVAL, why));
    }
    let name = name_arg(req);
    match monmap.mon_info.contains_key(&name) {
        true => Ok(name),
        false => Err(Reply::fail(Errno::ENOENT, format!("mon.{name} does not exist"))),
    }
}

fn disallow_leader(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let name = leader_arg(req)?;
    let mut monmap = MonMap::clone(&req.mon.next.monmap);
    if monmap.disallowed_leaders.contains(&name) {
        return Ok(Reply::done(format!("mon.{name} is already disallowed")));
    }
    if monmap.disallowed_leaders.len() + 1 == monmap.mon_info.len() {
        return Err(Reply::fail(Errno::EINVAL, format!("mon.{name} is the only remaining allowed leader!")));
    }
    monmap.disallowed_leaders.insert(name);
    req.mon.put_monmap(monmap, req.wall);
    Ok(Reply::done(""))
}

fn allow_leader(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let name = leader_arg(req)?;
    let mut monmap = MonMap::clone(&req.mon.next.monmap);
    if !monmap.disallowed_leaders.remove(&name) {
        return Ok(Reply::done(format!("mon.{name} is already allowed")));
    }
    req.mon.put_monmap(monmap, req.wall);
    Ok(Reply::done(""))
}

fn set_weight(req: &mut Request<'_>) -> Reply {
    let name = name_arg(req);
    let weight = req.args.int("weight").and_then(|weight| u16::try_from(weight).ok()).unwrap_or(0);
    let mut monmap = MonMap::clone(&req.mon.next.monmap);
    let Some(info) = monmap.mon_info.get_mut(&name) else {
        return Reply::fail(Errno::ENOENT, format!("mon.{name} does not exist"));
    };
    if info.weight != weight {
        info.weight = weight;
        req.mon.put_monmap(monmap, req.wall);
    }
    Reply::done("")
}

fn enable_msgr2(_: &mut Request<'_>) -> Reply {
    Reply::done("all monitors have already enabled msrg2")
}

fn add(_: &mut Request<'_>) -> Reply {
    Reply::fail(Errno::EOPNOTSUPP, "a cluster of several monitors is not supported yet")
}

fn rm(req: &mut Request<'_>) -> Reply {
    let name = name_arg(req);
    match req.mon.next.monmap.mon_info.contains_key(&name) {
        true => Reply::fail(Errno::EINVAL, format!("error: refusing removal of last monitor {name}")),
        false => Reply::done(format!("mon.{name} does not exist or has already been removed")),
    }
}
