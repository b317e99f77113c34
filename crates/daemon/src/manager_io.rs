//! What the manager's part does as a client of its own cluster: objects through the `client` machine, images
//! through the stock `rbd`.

use std::path::Path;

use anyhow::Result;
use auth::{Keyring, KeyringEntry, TicketKeeper};
use client::{Outcome, Request, Response};
use mon::{Event, Mon, ObjectRequest, RunId};
use net::WireEvent;
use reactor::{ConnId, Reactor};
use types::{EntityAddrVec, EntityType, Errno, Token};

use crate::{client_io::ClientIo, private::write_secret, rbd_runs::RbdRuns};

/// The manager's part as a client of its own cluster.
pub(crate) struct ManagerIo {
    client: ClientIo,
    runs: RbdRuns,
}

impl ManagerIo {
    /// For a monitor that has booted at `addrs`. The key is written to its data folder, for `rbd`.
    pub(crate) fn open(
        mon: &Mon,
        addrs: EntityAddrVec,
        conf: &Path,
        data: &Path,
        is_auth_none: bool,
        timer: u64,
    ) -> Result<ManagerIo> {
        let who = mon.manager_name();
        let key = mon.manager_key().filter(|_| !is_auth_none);
        let keyring = key.is_some().then(|| data.join("mgr.keyring"));
        if let (Some(key), Some(path)) = (&key, &keyring) {
            let entry = KeyringEntry { key: key.clone(), caps: Default::default() };
            write_secret(path, &Keyring([(who.clone(), entry)].into()).to_string())?;
        }
        let keeper = key.map(|key| TicketKeeper::new(who.clone(), key));
        let client = ClientIo::new(vec![addrs], EntityType::CLIENT, keeper, timer);
        Ok(ManagerIo { client, runs: RbdRuns::new(who, conf, keyring) })
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

    /// Several times a second.
    pub(crate) fn tick(&mut self, reactor: &mut Reactor) {
        self.client.tick(reactor);
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
        let done = |outcome| match outcome {
            Outcome::Done(token, response) => Some(Event::ObjectsDone(token, read(response))),
            Outcome::CommandDone(_) | Outcome::Notified(_) => None,
        };
        self.client.take_outcomes().into_iter().filter_map(done).collect()
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
