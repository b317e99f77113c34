//! What capabilities on monitors and on managers share: rights on targets, some only for peers of a network.

use std::net::IpAddr;

use super::grammar::{Network, right};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Grant<T> {
    target: T,
    rights: u8,
    network: Option<Network>,
}

/// What a capability on monitors or managers grants: rights on targets, some only for peers of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grants<T>(Vec<Grant<T>>);

impl<T> Default for Grants<T> {
    fn default() -> Self {
        Grants(Vec::new())
    }
}

impl<T> Grants<T> {
    pub(super) fn add(&mut self, target: T, rights: u8, network: Option<Network>) {
        self.0.push(Grant { target, rights, network });
    }

    /// The grants that hold for a peer at `ip`. Grants for networks hold in no other way.
    pub(super) fn at(mut self, ip: IpAddr) -> Self {
        self.0.retain(|grant| grant.network.is_none_or(|network| network.contains(ip)));
        self.0.iter_mut().for_each(|grant| grant.network = None);
        self
    }

    /// True when what is needed of reading, writing and executing is granted, by one grant or by several together,
    /// on targets that `covers` says are meant; it is asked with the grant's rights, too.
    pub(super) fn allow(&self, needs: [bool; 3], covers: impl Fn(&T, u8) -> bool) -> bool {
        let meant = self.0.iter().filter(|g| g.network.is_none() && covers(&g.target, g.rights));
        let granted = meant.fold(0, |bits, grant| bits | grant.rights);
        let each = needs.into_iter().zip([right::R, right::W, right::X]);
        granted == right::ANY
            || granted != 0 && each.into_iter().all(|(is_needed, bits)| !is_needed || granted & bits == bits)
    }
}
