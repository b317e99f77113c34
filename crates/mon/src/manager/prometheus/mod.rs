//! The manager's module `prometheus`: what the cluster measures, as Prometheus scrapes it, and where. The socket and
//! the HTTP exchange are the daemon's part.
//!
//! Authority: `pybind/mgr/prometheus/module.py` (16.2), whose names of metrics, labels and options these are.

mod daemons;
mod history;
mod images;
mod metrics;
mod page;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde_json::json;

use crate::{
    Mon,
    commands::{Reply, Request},
};

use super::modules;
use history::{clear as clear_history, list as list_history};

module_rows! {
    "prometheus file_sd_config" "r" "Return file_sd compatible prometheus config for mgr cluster" file_sd_config
    "healthcheck history ls name=format,type=CephChoices,req=false,strings=plain|json|json-pretty|yaml" "r"
        "List all the healthchecks being tracked" list_history
    "healthcheck history clear" "w" "Clear the healthcheck history" clear_history
}

/// The module's options, as the configuration database has them.
const ADDRESS: &str = "mgr/prometheus/server_addr";
const PORT: &str = "mgr/prometheus/server_port";
/// Where Ceph's exporters listen.
const DEFAULT_PORT: u16 = 9283;

/// False for what no option of this module can be set to, though the table of options has such values.
pub(crate) fn may_be(name: &str, value: &str) -> bool {
    match name {
        ADDRESS => value.is_empty() || value.parse::<IpAddr>().is_ok(),
        PORT => value.parse::<u16>().is_ok_and(|port| port > 0),
        _ => true,
    }
}

impl Mon {
    /// Where metrics are to be served; none while the module is off.
    pub fn metrics_socket(&self) -> Option<SocketAddr> {
        if !modules::is_enabled(self, "prometheus") {
            return None;
        }
        let everywhere = match self.manager_ip() {
            Some(IpAddr::V6(_)) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            Some(IpAddr::V4(_)) | None => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        };
        let address = self.module_option(ADDRESS).and_then(|text| text.parse().ok()).unwrap_or(everywhere);
        let port = self.module_option(PORT).and_then(|text| text.parse().ok()).unwrap_or(DEFAULT_PORT);
        Some(SocketAddr::new(address, port))
    }

    /// Notes the address at which metrics are served; none where they are not served.
    pub fn set_metrics_served(&mut self, at: Option<SocketAddr>) {
        if std::mem::replace(&mut self.metrics_served, at) != at && self.is_booted() {
            self.change_mgrmap();
        }
    }

    /// `http://10.0.0.1:9283/`: what the manager map calls the service.
    pub(crate) fn metrics_url(&self) -> Option<String> {
        let at = self.metrics_served?;
        let ip = if at.ip().is_unspecified() { self.manager_ip()? } else { at.ip() };
        Some(format!("http://{}/", SocketAddr::new(ip, at.port())))
    }

    /// The page that Prometheus reads.
    pub fn metrics(&self) -> String {
        metrics::page(self)
    }

    fn manager_ip(&self) -> Option<IpAddr> {
        self.manager.msgr2_addr().and_then(|addr| addr.socket).map(|socket| socket.ip())
    }
}

/// Targets for Prometheus' own configuration.
fn file_sd_config(req: &mut Request<'_>) -> Reply {
    let mon = &*req.mon;
    let port = mon.metrics_socket().map_or(DEFAULT_PORT, |socket| socket.port());
    let targets = [format!("{}:{port}", mon.options.hostname)];
    Reply::module(json!([{"targets": targets, "labels": {}}]).to_string())
}
