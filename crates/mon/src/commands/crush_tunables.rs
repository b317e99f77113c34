//! Tunables of the CRUSH map: which clients understand it, and how much a change moves.

use types::Errno;

use super::{
    Reply, Request, Row,
    crush_map::{pending, text},
};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "osd crush tunables name=profile,type=CephChoices,strings=legacy|argonaut|bobtail|firefly|hammer|jewel|optimal|default",
        help: "set crush tunables values to <profile>",
        module: "osd",
        perm: "rw",
        run: profile,
    },
    Row {
        sig: "osd crush set-tunable name=tunable,type=CephChoices,strings=straw_calc_version name=value,type=CephInt",
        help: "set crush tunable <tunable> to <value>",
        module: "osd",
        perm: "rw",
        run: set_tunable,
    },
    Row {
        sig: "osd crush set-all-straw-buckets-to-straw2",
        help: "convert all CRUSH current straw buckets to use the straw2 algorithm",
        module: "osd",
        perm: "rw",
        run: to_straw2,
    },
];

fn profile(req: &mut Request<'_>) -> Reply {
    let profile = text(req, "profile");
    let mut crush = pending(req);
    let Some(tunables) = crush.tunables.of_profile(&profile) else {
        return Reply::fail(Errno::EINVAL, format!("unrecognized profile '{profile}'"));
    };
    crush.tunables = tunables;
    req.mon.change_crush(req.wall, crush);
    Reply::done(format!("adjusted tunables profile to {profile}"))
}

/// Sets the one tunable that may be set by itself.
fn set_tunable(req: &mut Request<'_>) -> Reply {
    let tunable = text(req, "tunable");
    let Some(version) = req.args.int("value").and_then(|value| u8::try_from(value).ok()).filter(|v| *v <= 2)
    else {
        return Reply::fail(Errno::EINVAL, format!("value must be 0 or 1; got {}", text(req, "value")));
    };
    let mut crush = pending(req);
    crush.tunables.straw_calc_version = version;
    req.mon.change_crush(req.wall, crush);
    Reply::done(format!("adjusted tunable {tunable} to {version}"))
}

fn to_straw2(req: &mut Request<'_>) -> Reply {
    let mut crush = pending(req);
    if crush.straw_to_straw2() {
        req.mon.change_crush(req.wall, crush);
    }
    Reply::done("")
}
