//! Where Prometheus scrapes the manager's part: as much of HTTP/1.1 as that takes. A connection serves one request.

use std::{collections::BTreeMap, net::SocketAddr};

use bytes::Bytes;
use mon::Mon;
use net::WireEvent;
use reactor::{ConnId, ListenerId, Reactor};

/// Bytes of a request's head; what is longer is refused.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// Connections at a time; more are closed.
const CONNECTIONS_MAX: usize = 64;

/// What a browser shows.
const INDEX: &str = "<!DOCTYPE html>\n<html><head><title>Ceph Exporter</title></head><body><h1>Ceph Exporter</h1>\
                     <p><a href=\"/metrics\">Metrics</a></p></body></html>\n";

/// See the module's page.
#[derive(Default)]
pub(crate) struct MetricsPort {
    /// What is asked for, with the listener if the address could be had.
    open: Option<(SocketAddr, Option<ListenerId>)>,
    /// What has come of each request.
    heads: BTreeMap<ConnId, Vec<u8>>,
}

impl MetricsPort {
    /// Several times a second: listens where the monitor wants it.
    pub(crate) fn tick(&mut self, mon: &mut Mon, reactor: &mut Reactor) {
        let wanted = mon.metrics_socket();
        if wanted == self.open.map(|(socket, _)| socket) {
            return;
        }
        if let Some((_, Some(listener))) = self.open.take() {
            reactor.close_listener(listener);
        }
        self.open = wanted.map(|socket| {
            let listener = reactor.listen(socket);
            if let Err(error) = &listener {
                tracing::error!(%error, %socket, "the module prometheus cannot listen");
            }
            (socket, listener.ok())
        });
        mon.set_metrics_served(self.open.and_then(|(socket, listener)| listener.map(|_| socket)));
    }

    /// True for what concerns a connection of this port; `accepted_by` is the listener of a new one.
    pub(crate) fn owns(&self, event: &WireEvent<ConnId>, accepted_by: Option<ListenerId>) -> bool {
        match accepted_by {
            Some(_) => self.open.is_some_and(|(_, listener)| listener == accepted_by),
            None => self.heads.contains_key(&event.conn()),
        }
    }

    /// Handles what concerns a connection of this port.
    pub(crate) fn on_event(&mut self, event: WireEvent<ConnId>, mon: &Mon, reactor: &mut Reactor) {
        match event {
            WireEvent::Accepted(conn, _) if self.heads.len() >= CONNECTIONS_MAX => reactor.close(conn),
            WireEvent::Accepted(conn, _) => {
                self.heads.insert(conn, Vec::new());
            }
            WireEvent::Received(conn, bytes, _) => {
                let Some(head) = self.heads.get_mut(&conn) else { return };
                head.extend_from_slice(&bytes);
                if let Some(answer) = answer(head, || mon.metrics()) {
                    self.heads.remove(&conn);
                    reactor.send(conn, answer);
                    reactor.close_when_sent(conn);
                }
            }
            WireEvent::Closed(conn) | WireEvent::Connected(conn) | WireEvent::Failed(conn, _) => {
                self.heads.remove(&conn);
            }
        }
    }
}

/// The answer to a request, once its head is there.
fn answer(head: &[u8], metrics: impl FnOnce() -> String) -> Option<Bytes> {
    if !head.windows(4).any(|end| end == b"\r\n\r\n") {
        return (head.len() > HEAD_BYTES_MAX)
            .then(|| response("431 Request Header Fields Too Large", "", ""));
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let is_head = match method {
        "GET" => false,
        "HEAD" => true,
        _ => return Some(response("405 Method Not Allowed", "", "")),
    };
    let (kind, body) = match target.split('?').next().unwrap_or_default() {
        "/metrics" => ("text/plain; version=0.0.4; charset=utf-8", metrics()),
        "/" => ("text/html; charset=utf-8", INDEX.to_owned()),
        _ => return Some(response("404 Not Found", "", "")),
    };
    let whole = response("200 OK", kind, &body);
    Some(if is_head { whole.slice(..whole.len() - body.len()) } else { whole })
}

fn response(status: &str, kind: &str, body: &str) -> Bytes {
    let kind = if kind.is_empty() { String::new() } else { format!("Content-Type: {kind}\r\n") };
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nServer: Ceph-Prometheus\r\n{kind}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .into()
}

#[cfg(test)]
mod tests {
    use super::{HEAD_BYTES_MAX, answer};

    fn check(request: &str, begins: &str, ends: &str) {
        let text = answer(request.as_bytes(), || "ceph_x 1.0\n".to_owned()).expect("a whole request");
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(text.starts_with(begins) && text.ends_with(ends), "{request:?}: {text}");
    }

    #[test]
    fn requests_are_answered_when_their_heads_are_there() {
        check("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\n", "\r\n\r\nceph_x 1.0\n");
        check("GET /metrics?a=b HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n", "\r\n\r\nceph_x 1.0\n");
        check(
            "HEAD /metrics HTTP/1.1\r\n\r\n",
            "HTTP/1.1 200 OK\r\n",
            "Content-Length: 11\r\nConnection: close\r\n\r\n",
        );
        check("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n", "</html>\n");
        check("GET /other HTTP/1.1\r\n\r\n", "HTTP/1.1 404 ", "\r\n\r\n");
        check("POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 ", "\r\n\r\n");
        check("\r\n\r\n", "HTTP/1.1 405 ", "\r\n\r\n");
        assert!(answer(b"GET /metrics HTTP/1.1\r\nHost:", String::new).is_none());
        check(&"x".repeat(HEAD_BYTES_MAX + 1), "HTTP/1.1 431 ", "\r\n\r\n");
    }
}
