//! What the manager's part does as a client of its own cluster: objects through the `client` machine, images
//! through the stock `rbd`.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Result;
use auth::{CryptoKey, Keyring, KeyringEntry};
use client::{Outcome, Request, Response};
use mon::{Event, ObjectRequest, RunId};
use net::WireEvent;
use reactor::{ConnId, Reactor};
use types::{EntityAddrVec, EntityName, Errno, Instant, Token};

use crate::{client_io::ClientIo, clock, private::write_secret, rbd_runs::RbdRuns};

/// Between two clients: the monitor may refuse the next one, too.
const ANEW_INTERVAL: Duration = Duration::from_secs(10);

/// The manager's part as a client of its own cluster.
pub(crate) struct ManagerIo {
    client: ClientIo,
    runs: RbdRuns,
    who: EntityName,
    /// None where the cluster asks for no key.
    secret: Option<Secret>,
    /// The monitor's.
    addrs: EntityAddrVec,
    /// The client's timer.
    timer: u64,
    /// What has no answer yet.
    in_flight: BTreeSet<Token>,
    /// What was in flight when the client before this one ended.
    given_up: BTreeSet<Token>,
    /// No sooner is there another client.
    anew_at: Instant,
}

/// The manager's key, and the file in which `rbd` finds it.
struct Secret {
    key: CryptoKey,
    path: PathBuf,
}

impl Secret {
    fn write(&self, who: &EntityName) -> Result<()> {
        let entry = KeyringEntry { key: self.key.clone(), caps: Default::default() };
        write_secret(&self.path, Keyring([(who.clone(), entry)].into()).to_string())
    }
}

fn new_client(who: &EntityName, secret: Option<&Secret>, addrs: &EntityAddrVec, timer: u64) -> ClientIo {
    ClientIo::new(vec![addrs.clone()], who.clone(), secret.map(|secret| secret.key.clone()), timer)
}

impl ManagerIo {
    /// As `who`, for a monitor that has booted at `addrs`. The key, where the cluster asks for one, is written to its
    /// data folder, for `rbd`.
    pub(crate) fn open(
        who: EntityName,
        key: Option<CryptoKey>,
        addrs: EntityAddrVec,
        conf: &Path,
        data: &Path,
        timer: u64,
    ) -> Result<ManagerIo> {
        let secret = key.map(|key| Secret { key, path: data.join("mgr.keyring") });
        secret.as_ref().map(|secret| secret.write(&who)).transpose()?;
        let path = secret.as_ref().map(|secret| secret.path.clone());
        Ok(ManagerIo {
            client: new_client(&who, secret.as_ref(), &addrs, timer),
            runs: RbdRuns::new(who.clone(), conf, path),
            who,
            secret,
            addrs,
            timer,
            in_flight: BTreeSet::new(),
            given_up: BTreeSet::new(),
            anew_at: clock::now(),
        })
    }

    pub(crate) fn owns(&self, conn: ConnId) -> bool {
        self.client.owns(conn)
    }

    pub(crate) fn on_event(&mut self, event: WireEvent<ConnId>, reactor: &mut Reactor) {
        self.client.on_event(event, reactor);
    }

    pub(crate) fn on_timer(&mut self, reactor: &mut Reactor) {
        self.client.on_timer(reactor);
    }

    /// Several times a second. `key` is the manager's, as the monitor has it now.
    pub(crate) fn tick(&mut self, key: Option<CryptoKey>, reactor: &mut Reactor) {
        self.client.tick(reactor);
        let new = match (key, &self.secret) {
            (Some(key), Some(own)) if key != own.key => Some(Secret { key, path: own.path.clone() }),
            _ => None,
        };
        // The monitor's clock may have leapt, so that it does not open the ticket that proves the client's global id.
        if (new.is_none() && !self.client.is_refused()) || clock::now() < self.anew_at {
            return;
        }
        self.anew_at = clock::now() + ANEW_INTERVAL;
        if let Some(new) = new {
            if let Err(error) = new.write(&self.who) {
                tracing::error!("the manager's new key: {error:#}");
                return;
            }
            self.secret = Some(new);
        }
        self.begin_anew(reactor);
    }

    /// Goes on as another client. What the one before it has sent may still be done: it ends as if nobody answered.
    fn begin_anew(&mut self, reactor: &mut Reactor) {
        tracing::warn!("{} connects anew: its key is another one, or the monitor refuses it", self.who);
        let client = new_client(&self.who, self.secret.as_ref(), &self.addrs, self.timer);
        std::mem::replace(&mut self.client, client).close(reactor);
        self.given_up.append(&mut self.in_flight);
    }

    /// OSDs refuse the client's address for good: it takes another one.
    pub(crate) fn change_client_addrs(&mut self, reactor: &mut Reactor) {
        self.client.change_addrs(reactor);
    }

    /// As what OSDs know the client.
    pub(crate) fn client_addrs(&self) -> &EntityAddrVec {
        self.client.addrs()
    }

    pub(crate) fn submit(&mut self, token: Token, request: ObjectRequest, reactor: &mut Reactor) {
        let ObjectRequest { pool, nspace, oid, ops } = request;
        let request = Request { nspace: nspace.into(), ..Request::new(pool, oid, ops) };
        self.in_flight.insert(token);
        self.client.submit(token, request, reactor);
    }

    pub(crate) fn run(&mut self, id: RunId, args: &[String]) {
        self.runs.start(id, args);
    }

    pub(crate) fn kill(&mut self, id: RunId) {
        self.runs.kill(id);
    }

    /// Objects that were read or written.
    pub(crate) fn take_finished(&mut self) -> Vec<Event> {
        let given_up = std::mem::take(&mut self.given_up).into_iter();
        let mut events: Vec<Event> =
            given_up.map(|token| Event::ObjectsDone(token, Err(Errno::ETIMEDOUT))).collect();
        for outcome in self.client.take_outcomes() {
            if let Outcome::Done(token, response) = outcome {
                self.in_flight.remove(&token);
                events.push(Event::ObjectsDone(token, read(response)));
            }
        }
        events
    }

    /// What runs say, and which have ended.
    pub(crate) fn poll_runs(&mut self) -> Vec<Event> {
        self.runs.poll()
    }
}

fn read(mut response: Response) -> Result<bytes::Bytes, Errno> {
    if response.result < 0 {
        return Err(Errno(-response.result));
    }
    Ok(response.ops.pop().map(|op| op.data).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use auth::Keyring;
    use rand::{SeedableRng, rngs::StdRng};
    use types::{KeyType, PoolId, UTime};

    use super::*;

    #[test]
    fn with_another_key_the_client_begins_anew() {
        let dir = std::env::temp_dir().join(format!("loligo-manager-{}", std::process::id()));
        let mut rng = StdRng::seed_from_u64(1);
        let [first, second] = [(); 2].map(|()| CryptoKey::generate(KeyType::Aes, UTime::default(), &mut rng));
        let who = EntityName::parse("client.mgr.a").unwrap();
        let mut reactor = Reactor::new(reactor::Config::default()).unwrap();
        let monitor = EntityAddrVec::msgr2(([127, 0, 0, 1], 1).into(), 0);
        let mut io = ManagerIo::open(who.clone(), Some(first.clone()), monitor, &dir, &dir, 1).unwrap();
        let request =
            ObjectRequest { pool: PoolId(1), nspace: String::new(), oid: "x".to_owned(), ops: Vec::new() };
        io.submit(Token(3), request, &mut reactor);
        let addrs = io.client_addrs().clone();
        io.tick(Some(first), &mut reactor);
        assert!(io.take_finished().is_empty() && *io.client_addrs() == addrs);
        io.tick(Some(second.clone()), &mut reactor);
        let finished = io.take_finished();
        let [Event::ObjectsDone(Token(3), Err(Errno::ETIMEDOUT))] = finished[..] else {
            panic!("{finished:?}")
        };
        assert!(*io.client_addrs() != addrs);
        let keyring = std::fs::read_to_string(dir.join("mgr.keyring")).unwrap();
        assert_eq!(Keyring::parse(&keyring).unwrap().0[&who].key, second);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
