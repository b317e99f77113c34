//! Profiles for erasure-coded pools, and rules made from them. There are no such pools yet: what is recorded here is
//! checked as Ceph checks it, so that tools which prepare profiles and rules can go on.
//!
//! Authority: `OSDMonitor::parse_erasure_code_profile`, `normalize_profile`, `ErasureCode::sanity_check_k_m` (16.2).

use std::collections::BTreeMap;

use crush::RuleForm;
use types::Errno;

use super::{
    Reply, Request, Row,
    crush_map::{pending, refused, text},
};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "osd erasure-code-profile set name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=profile,type=CephString,n=N,req=false name=force,type=CephBool,req=false name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "create erasure code profile <name> with [<key[=value]> ...] pairs. Add a --force at the end to override an existing profile (VERY DANGEROUS)",
        module: "osd",
        perm: "rw",
        run: |req| set(req).into(),
    },
    Row {
        sig: "osd erasure-code-profile rm name=name,type=CephString,goodchars=[A-Za-z0-9-_.]",
        help: "remove erasure code profile <name>",
        module: "osd",
        perm: "rw",
        run: rm,
    },
    Row {
        sig: "osd crush rule create-erasure name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=profile,type=CephString,req=false,goodchars=[A-Za-z0-9-_.=]",
        help: "create crush rule <name> for erasure coded pool created with <profile> (default default)",
        module: "osd",
        perm: "rw",
        run: |req| create_rule(req).into(),
    },
];

type Profile = BTreeMap<String, String>;

/// `osd_pool_default_erasure_code_profile`.
const DEFAULT: [(&str, &str); 4] =
    [("plugin", "jerasure"), ("technique", "reed_sol_van"), ("k", "2"), ("m", "2")];

fn refuse(text: String) -> Reply {
    Reply::fail(Errno::EINVAL, text)
}

fn number(profile: &Profile, key: &str) -> Result<i64, Reply> {
    let value = profile.get(key).map_or("", String::as_str);
    value.parse().map_err(|_| {
        refuse(format!(
            "could not convert {key}={value} to int because Expected option value to be integer, got '{value}'"
        ))
    })
}

/// The profile with what its plugin adds to it.
fn normalized(req: &Request<'_>, mut profile: Profile) -> Result<Profile, Reply> {
    let plugin = profile.get("plugin").cloned().unwrap_or_default();
    let own: &[(&str, &str)] = match plugin.as_str() {
        "jerasure" => &[("jerasure-per-chunk-alignment", "false"), ("w", "8")],
        "isa" => &[],
        other => {
            let why = format!("load dlopen(libec_{other}.so): no such erasure code plugin");
            return Err(Reply::fail(Errno::EIO, why));
        }
    };
    let domain = profile.get("crush-failure-domain").cloned().unwrap_or_else(|| "host".to_owned());
    if req.next_map().crush.map().type_of(&domain).is_none() {
        let shown = shown(&profile);
        return Err(refuse(format!(
            "erasure-code-profile {shown} contains an invalid failure-domain \"{domain}\""
        )));
    }
    let usual = [("crush-device-class", ""), ("crush-failure-domain", "host"), ("crush-root", "default")];
    for (key, value) in own.iter().chain(&usual).chain(&DEFAULT) {
        profile.entry((*key).to_owned()).or_insert_with(|| (*value).to_owned());
    }
    for (key, least) in [("k", 2), ("m", 1)] {
        let value = number(&profile, key)?;
        if value < least {
            return Err(refuse(format!("{key}={value} must be >= {least}")));
        }
    }
    Ok(profile)
}

/// `{k=2,m=1}`.
fn shown(profile: &Profile) -> String {
    let pairs: Vec<String> = profile.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{{{}}}", pairs.join(","))
}

fn profile_arg(req: &Request<'_>) -> Result<Profile, Reply> {
    let mut profile: Profile = DEFAULT.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let given: Vec<(String, String)> = (req.args.list("profile").iter())
        .flat_map(|arg| arg.split_whitespace())
        .map(|word| word.split_once('=').unwrap_or((word, "")))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    for (key, value) in given {
        if let Some(rest) = key.strip_prefix("ruleset-") {
            let why = format!("property '{key}' is no longer supported; try 'crush-{rest}' instead");
            return Err(refuse(why));
        }
        profile.insert(key, value);
    }
    normalized(req, profile)
}

fn set(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let name = text(req, "name");
    let profile = profile_arg(req)?;
    let is_forced = req.args.flag("force");
    if let Some(known) = req.next_map().erasure_code_profiles.get(&name) {
        if normalized(req, known.clone()).as_ref() == Ok(&profile) {
            return Ok(Reply::done(""));
        }
        if !is_forced {
            let why = format!(
                "will not override erasure code profile {name} because the existing profile {} is different from the proposed profile {}",
                shown(known),
                shown(&profile)
            );
            return Err(Reply::fail(Errno::EPERM, why));
        }
        if !req.args.flag("yes_i_really_mean_it") {
            let why = "overriding erasure code profile can be DANGEROUS; add --yes-i-really-mean-it to do it anyway";
            return Err(Reply::fail(Errno::EPERM, why));
        }
    }
    req.mon.change_osdmap(req.wall, |_, inc| {
        inc.new_erasure_code_profiles.insert(name, profile);
    });
    Ok(Reply::done(""))
}

fn rm(req: &mut Request<'_>) -> Reply {
    let name = text(req, "name");
    let map = req.next_map();
    if let Some((id, _)) = map.pools.iter().find(|(_, pool)| pool.erasure_code_profile == name) {
        let pool = map.pool_name(*id).unwrap_or_default();
        return Reply::fail(
            Errno::EBUSY,
            format!("{pool} pool(s) are using the erasure code profile '{name}'"),
        );
    }
    if !map.erasure_code_profiles.contains_key(&name) {
        return Reply::done(format!("erasure-code-profile {name} does not exist"));
    }
    req.mon.change_osdmap(req.wall, |_, inc| inc.old_erasure_code_profiles.push(name));
    Reply::done("")
}

fn create_rule(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let name = text(req, "name");
    let named =
        req.args.text("profile").filter(|name| !name.is_empty()).unwrap_or_else(|| "default".to_owned());
    let mut crush = pending(req);
    if crush.rule_of(&name).is_some() {
        return Ok(Reply::done(format!("rule {name} already exists")));
    }
    let known = req.next_map().erasure_code_profiles.get(&named).cloned();
    let known = match (known, named.as_str()) {
        (Some(profile), _) => profile,
        (None, "default") => DEFAULT.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        (None, _) => {
            let why = "cannot determine the erasure code plugin because there is no 'plugin' entry in the erasure_code_profile {}";
            return Err(refuse(why.to_owned()));
        }
    };
    let profile = normalized(req, known)?;
    let part = |key: &str| profile.get(key).map_or("", String::as_str);
    let class = Some(part("crush-device-class")).filter(|class| !class.is_empty());
    if let Some(class) = class.filter(|class| crush.class_of(class).is_none()) {
        return Err(refuse(format!("device class {class} does not exist")));
    }
    let chunks = ["k", "m"].iter().filter_map(|key| part(key).parse::<u8>().ok());
    let size = chunks.fold(0u8, u8::saturating_add);
    let form = RuleForm { is_indep: true, pool_kind: 3, sizes: (3, size) };
    let (root, domain) = (part("crush-root"), part("crush-failure-domain"));
    let id = crush.add_simple_rule(&name, root, domain, class, form).map_err(|error| refused(&error))?;
    req.mon.change_crush(req.wall, crush);
    Ok(Reply::done(format!("created rule {name} at {id}")))
}
