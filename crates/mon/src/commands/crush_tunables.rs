//! Tunables of the CRUSH map: which clients understand it, and how much a change moves.

use types::Errno;

use super::{
    Reply, Request, Row,
    crush_map::{check_clients, pending, text},
};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "osd crush tunables name=profile,type=CephChoices,strings=legacy|argonaut|bobtail|firefly|hammer|jewel|optimal|default",
        help: "set crush tunables values to <profile>",
        module: "osd",
        perm: "rw",
        run: |req| profile(req).into(),
    },
    Row {
        sig: "osd crush set-tunable name=tunable,type=CephChoices,strings=straw_calc_version name=value,type=CephInt",
        help: "set crush tunable <tunable> to <value>",
        module: "osd",
        perm: "rw",
        run: |req| set_tunable(req).into(),
    },
    Row {
        sig: "osd crush set-all-straw-buckets-to-straw2",
        help: "convert all CRUSH current straw buckets to use the straw2 algorithm",
        module: "osd",
        perm: "rw",
        run: |req| to_straw2(req).into(),
    },
];

fn profile(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let profile = text(req, "profile");
    let mut crush = pending(req);
    let Some(tunables) = crush.tunables.of_profile(&profile) else {
        return Err(Reply::fail(Errno::EINVAL, format!("unrecognized profile '{profile}'")));
    };
    crush.tunables = tunables;
    check_clients(req.next_map(), &crush)?;
    req.mon.change_crush(req.wall, crush);
    Ok(Reply::done(format!("adjusted tunables profile to {profile}")))
}

/// Sets the one tunable that may be set by itself.
fn set_tunable(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let tunable = text(req, "tunable");
    let Some(version) = req.args.int("value").and_then(|value| u8::try_from(value).ok()).filter(|v| *v <= 2)
    else {
        let why = format!("value must be 0 or 1; got {}", text(req, "value"));
        return Err(Reply::fail(Errno::EINVAL, why));
    };
    let mut crush = pending(req);
    crush.tunables.straw_calc_version = version;
    check_clients(req.next_map(), &crush)?;
    req.mon.change_crush(req.wall, crush);
    Ok(Reply::done(format!("adjusted tunable {tunable} to {version}")))
}

fn to_straw2(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let mut crush = pending(req);
    if crush.straw_to_straw2() {
        check_clients(req.next_map(), &crush)?;
        req.mon.change_crush(req.wall, crush);
    }
    Ok(Reply::done(""))
}
