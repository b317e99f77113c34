//! What the copies of a PG say to each other about scrubs, and the request for one. Names follow the Ceph
//! messages of the same part, encodings are ours.

use codec::Codec;
use types::{EVersion, Epoch, HObject, PgId, ScrubObject};

use crate::table::front_only;

/// Monitor to OSD: scrub these PGs, which it leads (`MOSDScrub2`).
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct MOSDScrub {
    /// Map epoch in which the receiver leads them.
    pub epoch: Epoch,
    /// Which.
    pub pgs: Vec<PgId>,
    /// Contents, too.
    pub is_deep: bool,
    /// And have bad copies replaced.
    pub is_repair: bool,
}
front_only!(MOSDScrub);

/// Primary to replica: say what you have of the objects in a range (`MOSDRepScrub`).
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct MOSDRepScrub {
    /// The PG.
    pub pgid: PgId,
    /// The sender's map.
    pub epoch: Epoch,
    /// The sender's name for the request; a newer one ends those before.
    pub id: u64,
    /// The first object.
    pub start: HObject,
    /// Behind the last one.
    pub end: HObject,
    /// Contents, too.
    pub is_deep: bool,
}
front_only!(MOSDRepScrub);

/// Replica to primary: this is what I have (`MOSDRepScrubMap`).
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 2, compat = 1)]
pub struct MOSDRepScrubMap {
    /// The PG.
    pub pgid: PgId,
    /// The sender's map.
    pub epoch: Epoch,
    /// The request.
    pub id: u64,
    /// The objects, ascending.
    pub objects: Vec<ScrubObject>,
    /// What there is to tell is too much: the objects are left out.
    #[codec(since = 2)]
    pub is_too_much: bool,
}
front_only!(MOSDRepScrubMap);

/// A step of a reservation, by Ceph's numbers.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubReserveStep(pub u8);

impl ScrubReserveStep {
    /// Primary to replica: have you a slot for a scrub?
    pub const REQUEST: ScrubReserveStep = ScrubReserveStep(0);
    /// Replica to primary: yes, and it is yours.
    pub const GRANT: ScrubReserveStep = ScrubReserveStep(1);
    /// Primary to replica: not needed any more.
    pub const RELEASE: ScrubReserveStep = ScrubReserveStep(2);
    /// Replica to primary: none is free.
    pub const REJECT: ScrubReserveStep = ScrubReserveStep(3);
}

/// Slots for a scrub (`MOSDScrubReserve`).
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct MOSDScrubReserve {
    /// The PG.
    pub pgid: PgId,
    /// The sender's map.
    pub epoch: Epoch,
    /// The primary's name for the request.
    pub id: u64,
    /// What is said of it.
    pub step: ScrubReserveStep,
}
front_only!(MOSDScrubReserve);

/// Primary to replica: your copy of this object is bad; a good one comes. Replica to primary: mine cannot be read.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct MPgBadCopy {
    /// The PG.
    pub pgid: PgId,
    /// The sender's map.
    pub epoch: Epoch,
    /// Which.
    pub object: HObject,
    /// The version of the good copy; what a replica says of it does not count.
    pub version: EVersion,
}
front_only!(MPgBadCopy);
