//! What a service other than a monitor knows to authenticate others: its rotating secrets, which it has
//! from the monitors.

use std::{fmt::Debug, time::Duration};

use auth::{Authority, EntityAuth, RotatingSecrets, mauth_request_rotating, method};
use messages::MAuth;
use types::{EntityName, EntityType, Instant};

use crate::{Net, Wire};

/// Secrets are fetched again this often; they rotate once an hour.
const SECRETS_INTERVAL: Duration = Duration::from_secs(600);

/// The rotating secrets of a service other than a monitor, by which it authenticates others.
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
    /// A service without secrets yet. With `is_none` every peer is believed, and no secrets are needed.
    pub fn new(service: EntityType, is_none: bool) -> ServiceAuth {
        ServiceAuth { service, is_none, secrets: None, is_mon_open: false, secrets_at: Instant(0) }
    }

    /// The monitor session is there. True if the service may use it now; else it may when
    /// [`ServiceAuth::on_secrets`] says so, since others can only prove who they are once it has its
    /// secrets.
    pub fn on_mon_opened<C: Copy + Ord + Debug>(
        &mut self,
        net: &mut Net<C>,
        wire: &mut impl Wire<Conn = C>,
    ) -> bool {
        if self.is_none {
            self.is_mon_open = true;
        } else {
            ask_secrets(net, wire);
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

    /// The monitor says which secrets there are. True if the service may use the session from now on.
    pub fn on_secrets<C: Copy + Ord + Debug>(
        &mut self,
        secrets: RotatingSecrets,
        net: &mut Net<C>,
        wire: &impl Wire<Conn = C>,
    ) -> bool {
        let own = net.keeper.as_ref().and_then(|keeper| keeper.secret_id(self.service));
        if own.is_some_and(|id| secrets.get(id).is_none()) {
            // All secrets were replaced: other services of this kind can no longer open our own ticket either.
            net.want_tickets();
        }
        self.secrets = Some(secrets);
        self.secrets_at = wire.now() + SECRETS_INTERVAL;
        !std::mem::replace(&mut self.is_mon_open, true)
    }

    /// Several times a second: fetches secrets again before tickets come that are sealed with newer ones.
    pub fn renew<C: Copy + Ord + Debug>(&mut self, net: &mut Net<C>, wire: &mut impl Wire<Conn = C>) {
        if !self.is_none && self.is_mon_open && wire.now() >= self.secrets_at {
            self.secrets_at = wire.now() + SECRETS_INTERVAL;
            ask_secrets(net, wire);
        }
    }
}

fn ask_secrets<C: Copy + Ord + Debug>(net: &mut Net<C>, wire: &mut impl Wire<Conn = C>) {
    let payload = mauth_request_rotating();
    let message = MAuth { protocol: method::CEPHX, payload, ..MAuth::default() };
    net.send_mon(0, &message.into(), wire);
}
