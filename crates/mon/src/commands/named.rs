//! OSDs and pools that commands name, and the refusals of those that are not there. Commands with which Ceph has words
//! of its own for these have them where they are.

use types::{Errno, OsdId, OsdMap, PoolId};

use super::{Reply, Request};

/// The name and number of an OSD that a command means: `3` or `osd.3`.
pub(super) fn parse_osd(text: &str) -> Option<OsdId> {
    let id = text.strip_prefix("osd.").unwrap_or(text);
    id.parse::<i32>().ok().filter(|id| *id >= 0).map(OsdId)
}

/// The refusal of what is no id of an OSD.
pub(super) fn invalid_osd_id(text: &str) -> Reply {
    Reply::fail(Errno::EINVAL, format!("osd id {text} is invalid"))
}

/// The id that the argument `id` is, whether or not there is such an OSD.
pub(super) fn osd_id_arg(req: &Request<'_>) -> Result<OsdId, Reply> {
    let text = req.args.text("id").unwrap_or_default();
    parse_osd(&text).ok_or_else(|| invalid_osd_id(&text))
}

/// The OSD that the argument `id` names, which exists.
pub(super) fn osd_arg(req: &Request<'_>, map: &OsdMap) -> Result<OsdId, Reply> {
    existing(map, osd_id_arg(req)?)
}

/// An OSD of a list of places, which exists: there, Ceph words the refusal of what is no id in another way.
pub(super) fn placed_osd(map: &OsdMap, text: &str) -> Result<OsdId, Reply> {
    let invalid = || Reply::fail(Errno::EINVAL, format!("invalid osd id {text}"));
    existing(map, parse_osd(text).ok_or_else(invalid)?)
}

fn existing(map: &OsdMap, osd: OsdId) -> Result<OsdId, Reply> {
    match map.exists(osd) {
        true => Ok(osd),
        false => Err(Reply::fail(Errno::ENOENT, format!("osd.{osd} does not exist"))),
    }
}

/// The text on a pool that is not there.
pub(super) fn no_pool(name: &str) -> String {
    format!("unrecognized pool '{name}'")
}

/// The pool of a name.
pub(super) fn pool_named(map: &OsdMap, name: &str) -> Result<PoolId, Reply> {
    let pool = map.pool_by_name(name).map(|(id, _)| id);
    pool.ok_or_else(|| Reply::fail(Errno::ENOENT, no_pool(name)))
}

/// The pool that the argument `pool` names, by name.
pub(super) fn pool_arg(req: &Request<'_>, map: &OsdMap) -> Result<(PoolId, String), Reply> {
    let name = req.args.text("pool").unwrap_or_default();
    Ok((pool_named(map, &name)?, name))
}
