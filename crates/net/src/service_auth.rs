//! What a service other than a monitor knows to authenticate others: its rotating secrets, which it has
//! from the monitors, and its own tickets to other services.

use std::{fmt::Debug, time::Duration};

use auth::{Authority, EntityAuth, RotatingSecrets, mauth_request_rotating, mauth_request_tickets, method};
use bytes::Bytes;
use messages::MAuth;
use types::{EntityName, EntityType, Instant};

use crate::{Net, Wire};

/// Secrets are fetched again this often; they rotate once an hour.
const SECRETS_INTERVAL: Duration = Duration::from_secs(600);

/// See the module's page.
#[derive(Debug)]
pub struct ServiceAuth {
    service: EntityType,
    is_none: bool,
    secrets: Option<RotatingSecrets>,
    is_mon_open: bool,
    secrets_at: Instant,
}

impl Authority for ServiceAuth {
    fn service(&self) -> EntityType {
        self.service
    }
    fn allows_none(&self) -> bool {
        self.is_none
    }
    fn entity(&self, _: &EntityName) -> Option<EntityAuth> {
        None
    }
    fn next_global_id(&mut self) -> u64 {
        0
    }
    fn secrets(&self, service: EntityType) -> Option<&RotatingSecrets> {
        self.secrets.as_ref().filter(|_| service == self.service)
    }
}

impl ServiceAuth {
    /// Without secrets yet; with `is_none` everybody is believed and none are needed.
    pub fn new(service: EntityType, is_none: bool) -> ServiceAuth {
        ServiceAuth { service, is_none, secrets: None, is_mon_open: false, secrets_at: Instant(0) }
    }

    /// The monitor session is there. True if the service may use it now; else it may when
    /// [`ServiceAuth::on_auth_reply`] says so, since others can only prove who they are once it has its
    /// secrets.
    pub fn on_mon_opened<C: Copy + Ord + Debug>(
        &mut self,
        net: &mut Net<C>,
        wire: &mut impl Wire<Conn = C>,
    ) -> bool {
        if self.is_none {
            self.is_mon_open = true;
        } else {
            ask(mauth_request_rotating(), net, wire);
        }
        self.is_none
    }

    /// The secrets, for the other parts of the daemon.
    pub fn own_secrets(&self) -> Option<&RotatingSecrets> {
        self.secrets.as_ref()
    }

    /// Takes the secrets that another part of the daemon has got.
    pub fn set_secrets(&mut self, secrets: RotatingSecrets) {
        self.secrets = Some(secrets);
    }

    /// The monitor session is gone.
    pub fn on_mon_closed(&mut self) {
        self.is_mon_open = false;
    }

    /// The monitor answers. True if the service may use the session from now on.
    pub fn on_auth_reply<C: Copy + Ord + Debug>(
        &mut self,
        payload: Bytes,
        net: &mut Net<C>,
        wire: &mut impl Wire<Conn = C>,
    ) -> bool {
        let Some(keeper) = net.keeper.as_mut() else { return false };
        match keeper.take_mauth_reply(payload, wire.wall()) {
            Ok(Some(secrets)) => {
                self.secrets = Some(secrets);
                self.secrets_at = wire.now() + SECRETS_INTERVAL;
                !std::mem::replace(&mut self.is_mon_open, true)
            }
            Ok(None) => false,
            Err(error) => {
                tracing::error!(%error, "the monitor's authentication answer is not usable");
                false
            }
        }
    }

    /// Several times a second: fetches secrets and tickets again before they expire.
    pub fn renew<C: Copy + Ord + Debug>(&mut self, net: &mut Net<C>, wire: &mut impl Wire<Conn = C>) {
        if self.is_none || !self.is_mon_open || wire.now() < self.secrets_at {
            return;
        }
        self.secrets_at = wire.now() + SECRETS_INTERVAL;
        ask(mauth_request_rotating(), net, wire);
        let needs = net.keeper.as_ref().filter(|k| k.needs_renewal(self.service, wire.wall())).cloned();
        if let Some(request) = needs.and_then(|keeper| mauth_request_tickets(&keeper, net.rng())) {
            ask(request, net, wire);
        }
    }
}

fn ask<C: Copy + Ord + Debug>(payload: Bytes, net: &mut Net<C>, wire: &mut impl Wire<Conn = C>) {
    let message = MAuth { protocol: method::CEPHX, payload, ..MAuth::default() };
    net.send_mon(0, &message.into(), wire);
}
