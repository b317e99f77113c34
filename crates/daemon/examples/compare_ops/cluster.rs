//! One of the two clusters: fills in a step what is its own, and tells what comes of it.

use std::{
    cmp::Ordering,
    collections::BTreeMap,
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use client::{Request, Response};
use codec::{Codec, Decode, Encode, Features, Reader};
use daemon::{CephConf, ClientRunner};
use messages::{MWatchNotify, OpCode, OpParams, OsdOp, osd_flag};
use types::{EntityName, EntityType, HObject, PgPool, PoolFlags, PoolId, SnapId, UTime};

use crate::plan::{Kind, Listing, Planned, Start, Step};

/// Without an answer for so long, there is none.
const PATIENCE: Duration = Duration::from_secs(10);
/// A map or a full pool comes within that, or never.
const MAP_PATIENCE: Duration = Duration::from_secs(60);
/// Pages of a listing.
const PAGES_MAX: usize = 5_000;
/// Cookies of one run.
const COOKIES: u64 = 1_000;
/// After that long nothing more comes of a request.
const QUIET: Duration = Duration::from_millis(25);
/// How long what is to come may take.
const LATE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(1_300);

/// An object of a listing: namespace, name, key.
pub(crate) type Entry = (Bytes, Bytes, Bytes);

/// What came of a step.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// What a cluster says, and how the version in it compares with the one before: PGs number failures, too, so
    /// that no more than that is the same in two clusters.
    Answer(Response, Option<Ordering>),
    /// The result of a command.
    Commanded(i32),
    /// The last result, and the objects.
    Listed(i32, Vec<Entry>),
    Nothing,
}

/// One of the two clusters.
pub(crate) struct Cluster {
    runner: ClientRunner,
    kind: Kind,
    pool: PoolId,
    /// User versions of objects, as last answered.
    versions: BTreeMap<Bytes, u64>,
    /// The one at the begin of the run.
    base: u64,
    /// The pool's newest snapshot then.
    base_snap: u64,
    /// What this run's cookies begin with.
    base_cookie: u64,
    /// The notification that came last.
    notify_id: u64,
    /// When this run's requests were sent.
    sent: Vec<UTime>,
}

impl Cluster {
    pub(crate) fn connect(conf: &str, kind: &Kind) -> Result<Cluster> {
        let conf = CephConf::read(Path::new(conf))?;
        let mut runner = ClientRunner::connect(&conf, &EntityName::new(EntityType::CLIENT, "admin"))?;
        let name = kind.pool();
        for command in [
            format!(r#"{{"prefix":"osd pool create","pool":{name:?},"pg_num":1,"pgp_num":1,"size":1}}"#),
            format!(r#"{{"prefix":"osd pool application enable","pool":{name:?},"app":"rbd"}}"#),
        ] {
            let reply = runner.command(command.clone())?;
            if reply.result < 0 {
                bail!("{command}: {} {}", reply.result, reply.status);
            }
        }
        let pool = loop {
            if let Some((pool, _)) = runner.client().map().and_then(|map| map.pool_by_name(name)) {
                break pool;
            }
            runner.wait()?;
        };
        let (kind, versions, sent) = (kind.clone(), BTreeMap::new(), Vec::new());
        let (base, base_snap, base_cookie, notify_id) = (0, 0, 0, 0);
        let mut cluster =
            Cluster { runner, kind, pool, versions, base, base_snap, base_cookie, notify_id, sent };
        if cluster.kind == Kind::Full {
            cluster.fill()?;
        }
        Ok(cluster)
    }

    /// Takes the pool over a quota.
    fn fill(&mut self) -> Result<()> {
        for name in ["one", "two"] {
            self.mark(name)?;
        }
        let quota = r#""prefix":"osd pool set-quota","field":"max_objects","val":"1""#;
        let reply = self.runner.command(format!(r#"{{{quota},"pool":{:?}}}"#, self.kind.pool()))?;
        if reply.result < 0 {
            bail!("{}", reply.status);
        }
        self.wait_for(|pool| pool.flags.has(PoolFlags::FULL_QUOTA))
    }

    /// Waits until the map has the pool as `is_so` wants it.
    fn wait_for(&mut self, is_so: impl Fn(&PgPool) -> bool) -> Result<()> {
        let start = Instant::now();
        while !self.with_pool(&is_so)? {
            if start.elapsed() > MAP_PATIENCE {
                bail!("the map does not tell of what was done to the pool");
            }
            self.runner.wait()?;
        }
        Ok(())
    }

    fn with_pool<T>(&self, get: impl Fn(&PgPool) -> T) -> Result<T> {
        let map = self.runner.client().map().context("no map")?;
        map.pools.get(&self.pool).map(get).context("the pool is gone")
    }

    /// Writes an object of no run; its version.
    fn mark(&mut self, name: &str) -> Result<u64> {
        let marker = OsdOp {
            params: OpParams::extent(0, 1),
            data: Bytes::from_static(b"1"),
            ..OsdOp::new(OpCode::WRITEFULL)
        };
        let mut request = Request::new(self.pool, Bytes::copy_from_slice(name.as_bytes()), vec![marker]);
        request.flags = osd_flag::FULL_FORCE;
        let answer = self.runner.request(request, PATIENCE)?;
        Ok(answer.context("the cluster does not answer")?.user_version)
    }

    /// A run begins.
    pub(crate) fn begin(&mut self, run: u64) -> Result<()> {
        self.base = self.mark("marker")?;
        self.base_snap = self.with_pool(|pool| pool.snap_seq.0)?;
        self.base_cookie = run * COOKIES;
        self.notify_id = 0;
        self.sent.clear();
        self.runner.take_notified();
        Ok(())
    }

    /// The pool loses the snapshots of a run.
    pub(crate) fn end(&mut self, steps: &[Step], prefix: &str) -> Result<()> {
        for step in steps {
            if let Step::MakeSnap(number) = step {
                self.change_snap("rmsnap", *number, prefix)?;
            }
        }
        Ok(())
    }

    /// Does a step; none if there is no answer.
    pub(crate) fn perform(&mut self, step: &Step, prefix: &str) -> Result<Option<Outcome>> {
        Ok(match step {
            Step::Request(planned) => self.answer(planned.clone(), prefix)?,
            Step::MakeSnap(number) => Some(self.change_snap("mksnap", *number, prefix)?),
            Step::RemoveSnap(number) => Some(self.change_snap("rmsnap", *number, prefix)?),
            Step::List(listing) => self.list(listing, prefix)?,
            Step::Pause => {
                sleep(PAUSE);
                Some(Outcome::Nothing)
            }
        })
    }

    fn change_snap(&mut self, how: &str, number: u64, prefix: &str) -> Result<Outcome> {
        let name = format!("{prefix}{number}");
        let before = self.with_pool(|pool| pool.snap_by_name(&name).is_some())?;
        let pool = self.kind.pool();
        let command = format!(r#"{{"prefix":"osd pool {how}","pool":{pool:?},"snap":{name:?}}}"#);
        let result = self.runner.command(command)?.result;
        let is_wanted = how == "mksnap";
        if result == 0 && before != is_wanted {
            self.wait_for(|pool| pool.snap_by_name(&name).is_some() == is_wanted)?;
        }
        Ok(Outcome::Commanded(result))
    }

    fn answer(&mut self, mut planned: Planned, prefix: &str) -> Result<Option<Outcome>> {
        let mut name = [prefix.as_bytes(), &planned.request.oid].concat();
        name.resize(name.len().max(planned.name_len), b'x');
        let name = Bytes::from(name);
        let last = self.versions.get(&name).copied().unwrap_or(self.base);
        self.fill_in(&mut planned, &name, last, prefix);
        let (sec, nsec) = reactor::clock::wall();
        self.sent.push(UTime::new(u32::try_from(sec).unwrap_or(u32::MAX), nsec));
        let Some(mut answer) = self.runner.request(planned.request, PATIENCE)? else { return Ok(None) };
        self.number_mtimes(&mut answer);
        let version = Some(answer.user_version).filter(|version| *version > 0 && answer.result >= 0);
        if let Some(version) = version {
            self.versions.insert(name, version);
        }
        Ok(Some(Outcome::Answer(answer, version.map(|version| version.cmp(&last)))))
    }

    /// Puts in the place of an mtime, which is the cluster's own, the number of the request that it came with.
    fn number_mtimes(&self, answer: &mut Response) {
        for op in answer.ops.iter_mut().filter(|op| op.code == OpCode::STAT) {
            if let Ok((size, mtime)) = <(u64, UTime)>::from_bytes(op.data.clone()) {
                let number = self.sent.partition_point(|sent| *sent <= mtime);
                op.data = (size, number as u64).to_bytes(Features::default());
            }
        }
    }

    fn fill_in(&self, planned: &mut Planned, name: &Bytes, last: u64, prefix: &str) {
        let request = &mut planned.request;
        (request.pool, request.oid) = (self.pool, name.clone());
        for (at, distance) in &planned.versions {
            if let Some(op) = request.ops.get_mut(*at) {
                op.params.0[8..16].copy_from_slice(&last.saturating_add_signed(*distance).to_le_bytes());
            }
        }
        request.snapid = self.snap(request.snapid);
        for op in &mut request.ops {
            match op.code {
                OpCode::COPY_FROM | OpCode::COPY_FROM2 => {
                    op.data = with_prefix(&op.data, prefix, self.pool);
                    self.fill_in_snap(op);
                }
                OpCode::ROLLBACK => self.fill_in_snap(op),
                OpCode::WATCH | OpCode::NOTIFY => self.fill_in_cookie(op),
                OpCode::NOTIFY_ACK => self.fill_in_notification(op),
                _ => {}
            }
        }
    }

    /// Snapshots of pools are numbered by the pool, those of clients by them.
    fn snap(&self, snap: SnapId) -> SnapId {
        let is_numbered = self.kind == Kind::PoolSnaps && snap < SnapId::HEAD;
        if is_numbered { SnapId(self.base_snap + snap.0) } else { snap }
    }

    fn fill_in_snap(&self, op: &mut OsdOp) {
        let snap = self.snap(SnapId(op.params.u64_at(0)));
        op.params.0[0..8].copy_from_slice(&snap.0.to_le_bytes());
    }

    fn fill_in_cookie(&self, op: &mut OsdOp) {
        let cookie = self.base_cookie + op.params.u64_at(0);
        op.params.0[0..8].copy_from_slice(&cookie.to_le_bytes());
    }

    /// An answer to the notification that came last.
    fn fill_in_notification(&self, op: &mut OsdOp) {
        if op.data.len() >= 16 && self.notify_id != 0 {
            let cookie = u64::from_le_bytes(std::array::from_fn(|at| op.data[8 + at]));
            let head = [self.notify_id.to_le_bytes(), (self.base_cookie + cookie).to_le_bytes()].concat();
            op.data = Bytes::from([&head[..], &op.data[16..]].concat());
        }
    }

    /// What came to this run's watchers and notifiers, without what is the cluster's own; waits for as many as
    /// `wanted`, or until nothing comes any more.
    pub(crate) fn notified(&mut self, wanted: Option<usize>) -> Result<Vec<MWatchNotify>> {
        if self.kind != Kind::Watches {
            return Ok(Vec::new());
        }
        let (mut out, mut since) = (Vec::new(), Instant::now());
        loop {
            let patience = if wanted.is_some_and(|wanted| out.len() < wanted) { LATE } else { QUIET };
            if since.elapsed() > patience {
                return Ok(out);
            }
            self.runner.wait()?;
            for mut message in self.runner.take_notified() {
                if !(self.base_cookie..self.base_cookie + COOKIES).contains(&message.cookie) {
                    continue;
                }
                since = Instant::now();
                self.notify_id = message.notify_id;
                message.cookie -= self.base_cookie;
                (message.notify_id, message.notifier_gid, message.version) = (0, 0, 0);
                message.replies = self.without_own(&message.replies);
                out.push(message);
            }
        }
    }

    /// The answers to a notification, without global ids.
    fn without_own(&self, replies: &Bytes) -> Bytes {
        type Watcher = (u64, u64);
        let Ok((given, missed)) = <(BTreeMap<Watcher, Bytes>, Vec<Watcher>)>::from_prefix(replies.clone())
        else {
            return replies.clone();
        };
        let own = |cookie: u64| cookie.wrapping_sub(self.base_cookie);
        let given: Vec<(u64, Bytes)> =
            given.into_iter().map(|((_, cookie), text)| (own(cookie), text)).collect();
        let missed: Vec<u64> = missed.into_iter().map(|(_, cookie)| own(cookie)).collect();
        (given, missed).to_bytes(Features::default())
    }

    fn list(&mut self, listing: &Listing, prefix: &str) -> Result<Option<Outcome>> {
        let is_old = matches!(listing.code, OpCode::PGLS | OpCode::PGLS_FILTER);
        let mut cursor = self.cursor(listing.start);
        let mut entries = Vec::new();
        for _ in 0..PAGES_MAX {
            let mut data = listing.filter.to_vec();
            data.extend_from_slice(&cursor);
            let op = OsdOp {
                params: OpParams::from_parts(&[&listing.count.to_le_bytes()]),
                data: Bytes::from(data),
                ..OsdOp::new(listing.code)
            };
            let mut request = Request::new(self.pool, Bytes::new(), vec![op]);
            request.nspace = Bytes::from_static(listing.nspace);
            request.snapid = SnapId(listing.snapid);
            let Some(answer) = self.runner.request(request, PATIENCE)? else { return Ok(None) };
            if answer.result < 0 {
                return Ok(Some(Outcome::Listed(answer.result, entries)));
            }
            let data = answer.ops.first().context("an answer without ops")?.data.clone();
            let (handle, page) = page(data, is_old)?;
            entries.extend(page.into_iter().filter(|(_, oid, _)| oid.starts_with(prefix.as_bytes())));
            if answer.result == 1 {
                return Ok(Some(Outcome::Listed(1, entries)));
            }
            cursor = handle.to_bytes(Features::default());
        }
        bail!("a listing without an end: {listing:?}");
    }

    fn cursor(&self, start: Start) -> Bytes {
        let whole = match start {
            Start::First | Start::Broken => HObject::min(),
            Start::Last => HObject::max(),
            Start::Hash(hash) => HObject { pool: self.pool, hash, ..HObject::default() },
        };
        let bytes = whole.to_bytes(Features::default());
        if matches!(start, Start::Broken) { bytes.slice(..bytes.len() - 1) } else { bytes }
    }
}

/// `pg_nls_response_t`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct Page {
    handle: HObject,
    entries: Vec<Entry>,
}

fn page(data: Bytes, is_old: bool) -> Result<(HObject, Vec<Entry>)> {
    let broken = "a page of a listing that cannot be read";
    if !is_old {
        let Page { handle, entries } = Page::from_prefix(data).ok().context(broken)?;
        return Ok((handle, entries));
    }
    // `pg_ls_response_t`: a version byte and no namespaces.
    type OldPage = (u8, HObject, Vec<(Bytes, Bytes)>);
    let (_, handle, entries) = OldPage::decode(&mut Reader::new(data)).ok().context(broken)?;
    Ok((handle, entries.into_iter().map(|(oid, key)| (Bytes::new(), oid, key)).collect()))
}

/// The source of a copy, named with the episode's prefix, in the cluster's pool.
fn with_prefix(data: &Bytes, prefix: &str, pool: PoolId) -> Bytes {
    let Some(name_len) = data.get(..4).map(|len| u32::from_le_bytes([len[0], len[1], len[2], len[3]])) else {
        return data.clone();
    };
    let (name, rest) = data[4..].split_at(name_len as usize);
    let len = (prefix.len() as u32 + name_len).to_le_bytes();
    let mut rest = rest.to_vec();
    // Behind the envelope.
    rest[6..14].copy_from_slice(&pool.0.to_le_bytes());
    Bytes::from([&len[..], prefix.as_bytes(), name, &rest].concat())
}
