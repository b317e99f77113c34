//! Commands to one PG; its primary answers.

use types::{Errno, PgId};

use super::{Answer, Call, Refusal};
use crate::{Osd, osd::Cx};

/// The PG that the call names, which this OSD must lead.
fn pg_of(osd: &Osd, call: &Call) -> Result<PgId, Refusal> {
    let Some(text) = call.text("pgid") else {
        return Err((Errno::EINVAL, "no pgid specified".to_owned()));
    };
    let Some(pgid) = PgId::parse(&text) else {
        return Err((Errno::EINVAL, format!("couldn't parse pgid '{text}'")));
    };
    match osd.pgs.get(pgid) {
        None => Err((Errno::ENOENT, format!("i don't have pgid {pgid}"))),
        // Clients ask the next primary for themselves when they get this.
        Some(pg) if !pg.is_primary() => Err((Errno::EAGAIN, format!("not primary for pgid {pgid}"))),
        Some(_) => Ok(pgid),
    }
}

pub(super) fn query(osd: &mut Osd, call: &Call, cx: &mut Cx<'_>) -> Answer {
    let pgid = pg_of(osd, call)?;
    let map = &osd.map;
    Ok(osd.pgs.get_mut(pgid).map(|pg| pg.query(map, cx.wall)))
}

pub(super) fn list_unfound(osd: &mut Osd, call: &Call, _: &mut Cx<'_>) -> Answer {
    let pgid = pg_of(osd, call)?;
    Ok(osd.pgs.get(pgid).map(|pg| pg.list_unfound(&osd.map)))
}

/// `pg ID query`, with the command's word in `cmd`.
pub(super) fn by_word(osd: &mut Osd, call: &Call, cx: &mut Cx<'_>) -> Answer {
    match call.text("cmd").as_deref() {
        Some("query") => query(osd, call, cx),
        Some("list_unfound") => list_unfound(osd, call, cx),
        word => Err((Errno::EINVAL, format!("unknown command prefix {}", word.unwrap_or_default()))),
    }
}
