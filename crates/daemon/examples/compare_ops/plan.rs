//! What an episode consists of, without the names, pools and numbers that each cluster fills in for itself.

use bytes::Bytes;
use client::Request;
use messages::OpCode;

/// What an episode tries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Ops of every kind, with the clients' own snapshots.
    Ops,
    /// Methods of a class.
    Class(String),
    /// Ops in a pool that has its snapshots itself.
    PoolSnaps,
    /// Listings of what ops have made.
    Lists,
    /// Watches and notifications.
    Watches,
    /// Ops in a pool that is over its quota.
    Full,
}

impl Kind {
    /// The kind of that name, `class` aside.
    pub(crate) fn parse(name: &str) -> Option<Kind> {
        Some(match name {
            "ops" => Kind::Ops,
            "pool-snaps" => Kind::PoolSnaps,
            "lists" => Kind::Lists,
            "watches" => Kind::Watches,
            "full" => Kind::Full,
            _ => return None,
        })
    }

    /// The pool that it is tried in.
    pub(crate) fn pool(&self) -> &'static str {
        match self {
            Kind::Ops | Kind::Class(_) | Kind::Watches => "compare",
            Kind::PoolSnaps => "compare-snaps",
            Kind::Lists => "compare-lists",
            Kind::Full => "compare-full",
        }
    }
}

/// One step of an episode.
#[derive(Clone)]
pub(crate) enum Step {
    Request(Planned),
    /// The pool gets the snapshot of that number.
    MakeSnap(u64),
    /// It loses it.
    RemoveSnap(u64),
    List(Listing),
    /// Long enough for a notification of a second to end.
    Pause,
}

/// A request, and what of it each cluster fills in.
#[derive(Clone)]
pub(crate) struct Planned {
    /// Its pool is that of the cluster; in front of the object's name comes that of the episode.
    pub(crate) request: Request,
    /// Ops that name a version of the object as a distance from its last one: index, distance.
    pub(crate) versions: Vec<(usize, i64)>,
    /// The length that the object's name is filled up to.
    pub(crate) name_len: usize,
}

impl Planned {
    pub(crate) fn new(request: Request) -> Planned {
        Planned { request, versions: Vec::new(), name_len: 0 }
    }
}

/// A listing of a PG from a cursor on to its end, in pages.
#[derive(Clone, Debug)]
pub(crate) struct Listing {
    pub(crate) code: OpCode,
    pub(crate) nspace: &'static [u8],
    /// In front of the cursor.
    pub(crate) filter: Bytes,
    pub(crate) start: Start,
    /// Entries wanted of a page.
    pub(crate) count: u64,
    pub(crate) snapid: u64,
}

/// Where a listing begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start {
    First,
    Last,
    /// At a hash. In another pool would end a real OSD.
    Hash(u32),
    /// Nowhere: the cursor is cut off.
    Broken,
}
