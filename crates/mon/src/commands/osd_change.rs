//! Flags, weights, blocklist and other settings of the OSD map.

use std::{collections::BTreeMap, time::Duration};

use types::{AddrType, EntityAddr, EntityType, Errno, Incremental, MapFlags, Release, UTime};

use super::{Reply, Request, Row, named::osd_arg};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "osd set name=key,type=CephChoices,strings=full|pause|noup|nodown|noout|noin|nobackfill|norebalance|norecover|noscrub|nodeep-scrub|notieragent|nosnaptrim|pglog_hardlimit|noautoscale name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "set <key>",
        module: "osd",
        perm: "rw",
        run: set_flag,
    },
    Row {
        sig: "osd unset name=key,type=CephChoices,strings=full|pause|noup|nodown|noout|noin|nobackfill|norebalance|norecover|noscrub|nodeep-scrub|notieragent|nosnaptrim|noautoscale",
        help: "unset <key>",
        module: "osd",
        perm: "rw",
        run: unset_flag,
    },
    Row { sig: "osd pause", help: "pause osd", module: "osd", perm: "rw", run: pause },
    Row { sig: "osd unpause", help: "unpause osd", module: "osd", perm: "rw", run: unpause },
    Row {
        sig: "osd reweight name=id,type=CephOsdName name=weight,type=CephFloat,range=0.0|1.0",
        help: "reweight osd to 0.0 < <weight> < 1.0",
        module: "osd",
        perm: "rw",
        run: |req| reweight(req).into(),
    },
    Row {
        sig: "osd primary-affinity name=id,type=CephOsdName name=weight,type=CephFloat,range=0.0|1.0",
        help: "adjust osd primary-affinity from 0.0 <= <weight> <= 1.0",
        module: "osd",
        perm: "rw",
        run: |req| primary_affinity(req).into(),
    },
    Row {
        sig: "osd blocklist name=range,type=CephString,goodchars=[range],req=false name=blocklistop,type=CephChoices,strings=add|rm name=addr,type=CephEntityAddr name=expire,type=CephFloat,range=0.0,req=false",
        help: "add (optionally until <expire> seconds from now) or remove <addr> from blocklist",
        module: "osd",
        perm: "rw",
        run: blocklist,
    },
    Row {
        sig: "osd blacklist name=range,type=CephString,goodchars=[range],req=false name=blacklistop,type=CephChoices,strings=add|rm name=addr,type=CephEntityAddr name=expire,type=CephFloat,range=0.0,req=false",
        help: "add (optionally until <expire> seconds from now) or remove <addr> from blacklist",
        module: "osd",
        perm: "rw",
        run: blacklist,
    },
    Row {
        sig: "osd blocklist clear",
        help: "clear all blocklisted clients",
        module: "osd",
        perm: "rw",
        run: blocklist_clear,
    },
    Row {
        sig: "osd blacklist clear",
        help: "clear all blacklisted clients",
        module: "osd",
        perm: "rw",
        run: blocklist_clear,
    },
    Row {
        sig: "osd setmaxosd name=newmax,type=CephInt,range=0",
        help: "set new maximum osd value",
        module: "osd",
        perm: "rw",
        run: setmaxosd,
    },
    Row {
        sig: "osd set-require-min-compat-client name=version,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "set the minimum client version we will maintain compatibility with",
        module: "osd",
        perm: "rw",
        run: min_compat_client,
    },
    Row {
        sig: "osd require-osd-release name=release,type=CephChoices,strings=octopus|pacific name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "set the minimum allowed OSD release to participate in the cluster",
        module: "osd",
        perm: "rw",
        run: require_release,
    },
    Row {
        sig: "osd set-full-ratio name=ratio,type=CephFloat,range=0.0|1.0",
        help: "set usage ratio at which OSDs are marked full",
        module: "osd",
        perm: "rw",
        run: full_ratio,
    },
    Row {
        sig: "osd set-backfillfull-ratio name=ratio,type=CephFloat,range=0.0|1.0",
        help: "set usage ratio at which OSDs are marked too full to backfill",
        module: "osd",
        perm: "rw",
        run: backfillfull_ratio,
    },
    Row {
        sig: "osd set-nearfull-ratio name=ratio,type=CephFloat,range=0.0|1.0",
        help: "set usage ratio at which OSDs are marked near-full",
        module: "osd",
        perm: "rw",
        run: nearfull_ratio,
    },
];

/// `mon_osd_blocklist_default_expire`.
const BLOCKLIST_SECS: f64 = 3_600.0;

/// One: a weight or an affinity in 16.16 fixed point.
const ONE: f64 = 65_536.0;

fn flag_of(key: &str) -> Option<MapFlags> {
    match key {
        "pause" => Some(MapFlags::PAUSERD | MapFlags::PAUSEWR),
        other => MapFlags::parse(other),
    }
}

fn change_flag(req: &mut Request<'_>, key: &str, is_set: bool) -> Reply {
    // `full` is among the choices, but follows from the OSDs alone.
    let Some(flag) = flag_of(key).filter(|_| key != "full") else {
        return Reply::fail(Errno::EINVAL, format!("unrecognized flag '{key}'"));
    };
    let flags = req.next_map().flags.with(flag, is_set);
    if flags != req.next_map().flags {
        req.mon.change_osdmap(req.wall, |_, inc| inc.new_flags = Some(flags));
    }
    let names = if key == "pause" { "pauserd,pausewr" } else { key };
    Reply::done(format!("{names} is {}", if is_set { "set" } else { "unset" }))
}

fn set_flag(req: &mut Request<'_>) -> Reply {
    let key = req.args.text("key").unwrap_or_default();
    change_flag(req, &key, true)
}

fn unset_flag(req: &mut Request<'_>) -> Reply {
    let key = req.args.text("key").unwrap_or_default();
    change_flag(req, &key, false)
}

fn pause(req: &mut Request<'_>) -> Reply {
    change_flag(req, "pause", true)
}

fn unpause(req: &mut Request<'_>) -> Reply {
    change_flag(req, "pause", false)
}

fn reweight(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let osd = osd_arg(req, req.next_map())?;
    let weight = req.args.float("weight").unwrap_or(1.0);
    let fixed = (weight * ONE) as u32;
    req.mon.change_osdmap(req.wall, |_, inc| {
        inc.new_weight.insert(osd, fixed);
    });
    Ok(Reply::done(format!("reweighted osd.{osd} to {weight} ({fixed:x})")))
}

fn primary_affinity(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let osd = osd_arg(req, req.next_map())?;
    let weight = req.args.float("weight").unwrap_or(1.0);
    // Ceph prints the names of the stream's flags (8, 2) around the number.
    let text = format!("set osd.{osd} primary-affinity to {weight} (8{}2)", (weight * ONE) as u32);
    req.mon.change_osdmap(req.wall, |_, inc| {
        inc.new_primary_affinity.insert(osd, (weight * ONE) as u32);
    });
    Ok(Reply::done(text))
}

/// `10.0.0.0/24`, as an entry of the blocklist for networks.
fn range_arg(text: &str) -> Result<EntityAddr, Reply> {
    let refuse = |text: String| Reply::fail(Errno::EINVAL, text);
    let parts = text.split_once('/').and_then(|(ip, bits)| {
        let addr = EntityAddr::parse(ip)?.socket?;
        Some((addr.ip(), bits.parse::<u32>().ok()?))
    });
    match (parts, EntityAddr::parse(text)) {
        (Some((ip, bits)), _) => EntityAddr::cidr(ip, bits)
            .ok_or_else(|| refuse("Too many bits in range for that protocol!".to_owned())),
        (None, Some(addr)) => {
            let addr = EntityAddr { kind: AddrType::MSGR2, ..addr };
            Err(refuse(format!("You specified a range command, but {addr} does not parse as a CIDR range")))
        }
        (None, None) => Err(refuse(format!("unable to parse address {text}"))),
    }
}

fn range_blocklist(req: &mut Request<'_>, is_add: bool) -> Result<Reply, Reply> {
    let range = range_arg(&req.args.text("addr").unwrap_or_default())?;
    if is_add {
        let (until, secs) = expiry(req);
        req.mon.change_osdmap(req.wall, |map, inc| {
            if map.range_blocklist.0.get(&range).is_none_or(|known| *known < until) {
                inc.ranges.new.insert(range, until);
            }
        });
        return Ok(Reply::done(format!("blocklisting {range} until {until} ({secs} sec)")));
    }
    if !req.next_map().range_blocklist.0.contains_key(&range) {
        return Ok(Reply::done(format!("{range} isn't blocklisted")));
    }
    req.mon.change_osdmap(req.wall, |_, inc| inc.ranges.old.push(range));
    Ok(Reply::done(format!("un-blocklisting {range}")))
}

/// Until when, and in how many seconds.
fn expiry(req: &Request<'_>) -> (UTime, f64) {
    let secs = req.args.float("expire").unwrap_or(BLOCKLIST_SECS);
    // The table refuses what is below 0. Ten years are for ever.
    (req.wall.plus(Duration::from_secs_f64(secs.min(315_360_000.0))), secs)
}

fn blocklist(req: &mut Request<'_>) -> Reply {
    change_blocklist(req, "blocklistop")
}

fn blacklist(req: &mut Request<'_>) -> Reply {
    change_blocklist(req, "blacklistop")
}

/// Adds or removes an entry, as the argument `op` of the command says: a capability may limit that very argument.
fn change_blocklist(req: &mut Request<'_>, op: &str) -> Reply {
    let op = req.args.text(op).unwrap_or_default();
    match req.args.text("range").as_deref() {
        None => {}
        Some("range") => return range_blocklist(req, op == "add").into(),
        Some(other) => return Reply::fail(Errno::EINVAL, format!("{other} is not a range command")),
    }
    let text = req.args.text("addr").unwrap_or_default();
    let Some(parsed) = EntityAddr::parse(&text) else {
        return Reply::fail(Errno::EINVAL, format!("unable to parse address {text}"));
    };
    // Entries are of any protocol: a client's nonce is what tells it apart.
    let addr = EntityAddr { kind: AddrType::ANY, ..parsed };
    if op == "add" {
        let (until, secs) = expiry(req);
        req.mon.change_osdmap(req.wall, |map, inc| {
            // An entry that is there keeps its expiry unless it is taken out first.
            if map.blocklist.get(&addr).is_none_or(|known| *known < until) {
                inc.new_blocklist.insert(addr, until);
            }
        });
        return Reply::done(format!("blocklisting {} until {until} ({secs} sec)", addr.legacy_str()));
    }
    if !req.next_map().blocklist.contains_key(&addr) {
        return Reply::done(format!("{} isn't blocklisted", addr.legacy_str()));
    }
    req.mon.change_osdmap(req.wall, |_, inc| inc.old_blocklist.push(addr));
    Reply::done(format!("un-blocklisting {}", addr.legacy_str()))
}

fn blocklist_clear(req: &mut Request<'_>) -> Reply {
    req.mon.change_osdmap(req.wall, |map, inc| {
        inc.old_blocklist = map.blocklist.keys().copied().collect();
        inc.ranges.old = map.range_blocklist.0.keys().copied().collect();
    });
    Reply::done(" removed all blocklist entries")
}

fn setmaxosd(req: &mut Request<'_>) -> Reply {
    let wanted = req.args.int("newmax").unwrap_or(0);
    let limit = req.mon.options.osd_ids().end;
    let Some(max) = i32::try_from(wanted).ok().filter(|max| *max <= limit) else {
        let text = format!("cannot set max_osd to {wanted} which is > conf.mon_max_osd ({limit})");
        return Reply::fail(Errno::ERANGE, text);
    };
    if let Some(osd) = req.next_map().osds().find(|osd| osd.0 >= max) {
        let text =
            format!("cannot shrink max_osd to {max} because osd.{osd} (and possibly others) still in use");
        return Reply::fail(Errno::EBUSY, text);
    }
    req.mon.change_osdmap(req.wall, |_, inc| inc.new_max_osd = Some(max));
    Reply::done(format!("set new max_osd = {max}"))
}

/// The connected peers that lack features of a release, by kind and features.
fn older_peers(req: &Request<'_>, release: Release) -> Vec<String> {
    let peers = || req.mon.sessions.values().map(|session| &session.peer);
    let mut lines = Vec::new();
    for kind in [EntityType::CLIENT, EntityType::MDS, EntityType::MGR] {
        let mut groups: BTreeMap<u64, usize> = BTreeMap::new();
        peers()
            .filter(|peer| peer.name.kind == kind)
            .for_each(|peer| *groups.entry(peer.features).or_default() += 1);
        for (features, count) in groups {
            let missing = release.features() & !features;
            if missing != 0 {
                let like = Release::of_features(features);
                lines.push(format!(
                    "{count} connected {}(s) look like {like} (missing {missing:#x})",
                    kind.as_str()
                ));
            }
        }
    }
    lines
}

fn min_compat_client(req: &mut Request<'_>) -> Reply {
    let name = req.args.text("version").unwrap_or_default();
    let Some(release) = Release::parse(&name) else {
        return Reply::fail(Errno::EINVAL, format!("version {name} is not recognized"));
    };
    let needed = super::osd_dump::min_compat_client(req.next_map());
    if release < needed {
        let why = format!(
            "osdmap current utilizes features that require {needed}; cannot set require_min_compat_client below that to {release}"
        );
        return Reply::fail(Errno::EPERM, why);
    }
    let older = older_peers(req, release);
    if !older.is_empty() && !req.args.flag("yes_i_really_mean_it") {
        let why = format!(
            "cannot set require_min_compat_client to {name}: {}; add --yes-i-really-mean-it to do it anyway",
            older.join("; ")
        );
        return Reply::fail(Errno::EPERM, why);
    }
    req.mon.change_osdmap(req.wall, |_, inc| inc.new_require_min_compat_client = Some(release));
    Reply::done(format!("set require_min_compat_client to {release}"))
}

fn require_release(req: &mut Request<'_>) -> Reply {
    let name = req.args.text("release").unwrap_or_default();
    let Some(release) = Release::parse(&name) else {
        return Reply::fail(Errno::EINVAL, format!("unrecognized release {name}"));
    };
    if release < req.next_map().require_osd_release {
        return Reply::fail(Errno::EPERM, "require_osd_release cannot be lowered once it has been set");
    }
    req.mon.change_osdmap(req.wall, |_, inc| inc.new_require_osd_release = Some(release));
    Reply::done("")
}

fn change_ratio(req: &mut Request<'_>, what: &str, set: impl FnOnce(&mut Incremental, f32)) -> Reply {
    let ratio = req.args.float("ratio").unwrap_or(0.0);
    req.mon.change_osdmap(req.wall, |_, inc| set(inc, ratio as f32));
    Reply::done(format!("osd set-{what}-ratio {ratio}"))
}

fn full_ratio(req: &mut Request<'_>) -> Reply {
    change_ratio(req, "full", |inc, ratio| inc.new_full_ratio = Some(ratio))
}

fn backfillfull_ratio(req: &mut Request<'_>) -> Reply {
    change_ratio(req, "backfillfull", |inc, ratio| inc.new_backfillfull_ratio = Some(ratio))
}

fn nearfull_ratio(req: &mut Request<'_>) -> Reply {
    change_ratio(req, "nearfull", |inc, ratio| inc.new_nearfull_ratio = Some(ratio))
}
