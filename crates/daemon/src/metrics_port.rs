//! Where Prometheus scrapes the manager's part: as much of HTTP/1.1 as that takes. A connection serves one request.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use bytes::Bytes;
use mon::Mon;
use net::WireEvent;
use reactor::{ConnId, ListenerId, Reactor};
use types::Instant;

use crate::clock;

/// Bytes of a request's head; what is longer is refused.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// Connections at a time; more are closed.
const CONNECTIONS_MAX: usize = 64;

/// A request that is not whole by then is none, nor is one that is answered and whose answer is not taken: it would
/// hold one of the places.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// For so long a page serves all requests: it is made on the monitor's thread.
const PAGE_AGE_MAX: Duration = Duration::from_secs(1);
/// An address that could not be had is tried again after that.
const LISTEN_RETRY: Duration = Duration::from_secs(5);

/// What a browser shows.
const INDEX: &str = "<!DOCTYPE html>\n<html><head><title>Ceph Exporter</title></head><body><h1>Ceph Exporter</h1>\
                     <p><a href=\"/metrics\">Metrics</a></p></body></html>\n";

/// The listener and the connections for Prometheus.
#[derive(Default)]
pub(crate) struct MetricsPort {
    open: Option<Open>,
    requests: Requests<ConnId>,
    page: KeptPage,
}

/// The address that is asked for.
#[derive(Clone, Copy)]
struct Open {
    socket: SocketAddr,
    /// None if the address could not be had.
    listener: Option<ListenerId>,
    tried_at: Instant,
}

impl Open {
    /// True when there is nothing to do: this is wanted, and it is served or was tried lately.
    fn is_settled(&self, wanted: Option<SocketAddr>, now: Instant) -> bool {
        let is_tried = self.listener.is_some() || now.since(self.tried_at) < LISTEN_RETRY;
        wanted == Some(self.socket) && is_tried
    }
}

/// The page that was made last, and when.
#[derive(Default)]
struct KeptPage(Option<(Instant, String)>);

impl KeptPage {
    /// The page, made anew when it is too old.
    fn get(&mut self, now: Instant, make: impl FnOnce() -> String) -> &str {
        let is_fresh = self.0.as_ref().is_some_and(|(made, _)| now.since(*made) < PAGE_AGE_MAX);
        if !is_fresh {
            self.0 = Some((now, make()));
        }
        self.0.as_ref().map_or("", |(_, page)| page)
    }
}

/// How far a connection is.
enum Progress {
    /// What has come of its request.
    Asking(Vec<u8>),
    /// The answer is on its way.
    Answered,
}

/// All connections, and since when each is as far as it is.
struct Requests<C>(BTreeMap<C, (Instant, Progress)>);

impl<C> Default for Requests<C> {
    fn default() -> Self {
        Requests(BTreeMap::new())
    }
}

impl<C: Copy + Ord> Requests<C> {
    /// Somebody connected; false if there are too many already.
    fn begin(&mut self, conn: C, now: Instant) -> bool {
        let has_room = self.0.len() < CONNECTIONS_MAX;
        if has_room {
            self.0.insert(conn, (now, Progress::Asking(Vec::new())));
        }
        has_room
    }

    /// More of a request came: all that there is of it. What comes after the answer is of no interest.
    fn add(&mut self, conn: C, pieces: impl IntoIterator<Item = Bytes>) -> Option<&[u8]> {
        let (_, Progress::Asking(head)) = self.0.get_mut(&conn)? else { return None };
        pieces.into_iter().for_each(|piece| head.extend_from_slice(&piece));
        Some(head)
    }

    /// The answer is sent. It holds the connection's place until the connection is closed.
    fn answered(&mut self, conn: C, now: Instant) {
        self.0.insert(conn, (now, Progress::Answered));
    }

    fn end(&mut self, conn: C) {
        self.0.remove(&conn);
    }

    /// Takes out those that take too long.
    fn take_overdue(&mut self, now: Instant) -> Vec<C> {
        let mut overdue = Vec::new();
        self.0.retain(|conn, (since, _)| {
            let is_overdue = now.since(*since) >= REQUEST_TIMEOUT;
            if is_overdue {
                overdue.push(*conn);
            }
            !is_overdue
        });
        overdue
    }
}

impl MetricsPort {
    /// Several times a second: listens where the monitor wants it, and ends requests that take too long.
    pub(crate) fn tick(&mut self, mon: &mut Mon, reactor: &mut Reactor) {
        let now = clock::now();
        self.requests.take_overdue(now).into_iter().for_each(|conn| reactor.close(conn));
        let wanted = mon.metrics_socket();
        if self.open.map_or(wanted.is_none(), |open| open.is_settled(wanted, now)) {
            return;
        }
        let before = self.open.take();
        if let Some(listener) = before.and_then(|open| open.listener) {
            reactor.close_listener(listener);
        }
        self.open = wanted.map(|socket| {
            let listener = reactor.listen(socket);
            let is_again = before.is_some_and(|open| open.socket == socket);
            match &listener {
                Ok(_) => {}
                Err(error) if is_again => {
                    tracing::debug!(%error, %socket, "the module prometheus cannot listen")
                }
                Err(error) => tracing::error!(
                    %error, %socket, "the module prometheus cannot listen; it will be tried every few seconds"
                ),
            }
            Open { socket, listener: listener.ok(), tried_at: now }
        });
        mon.set_metrics_served(self.open.filter(|open| open.listener.is_some()).map(|open| open.socket));
    }

    /// True for what concerns a connection of this port; `accepted_by` is the listener of a new one.
    pub(crate) fn owns(&self, event: &WireEvent<ConnId>, accepted_by: Option<ListenerId>) -> bool {
        match accepted_by {
            Some(_) => self.open.is_some_and(|open| open.listener == accepted_by),
            None => self.requests.0.contains_key(&event.conn()),
        }
    }

    /// Handles what concerns a connection of this port.
    pub(crate) fn on_event(&mut self, event: WireEvent<ConnId>, mon: &Mon, reactor: &mut Reactor) {
        match event {
            WireEvent::Accepted(conn, _) => {
                if !self.requests.begin(conn, clock::now()) {
                    reactor.close(conn);
                }
            }
            WireEvent::Received(conn, bytes, more) => {
                let now = clock::now();
                let head = self.requests.add(conn, std::iter::once(bytes).chain(more));
                let page = &mut self.page;
                if let Some(answer) = head.and_then(|head| answer(head, || page.get(now, || mon.metrics()))) {
                    self.requests.answered(conn, now);
                    reactor.send(conn, answer);
                    reactor.close_when_sent(conn);
                }
            }
            WireEvent::Drained(_) => {}
            WireEvent::Closed(conn) | WireEvent::Connected(conn) | WireEvent::Failed(conn, _) => {
                self.requests.end(conn);
            }
        }
    }
}

/// The answer to a request, once its head is there.
fn answer<'a>(head: &[u8], metrics: impl FnOnce() -> &'a str) -> Option<Bytes> {
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
        "/" => ("text/html; charset=utf-8", INDEX),
        _ => return Some(response("404 Not Found", "", "")),
    };
    let whole = response("200 OK", kind, body);
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
    use super::*;

    fn check(request: &str, begins: &str, ends: &str) {
        let text = answer(request.as_bytes(), || "ceph_x 1.0\n").expect("a whole request");
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
        assert!(answer(b"GET /metrics HTTP/1.1\r\nHost:", || "").is_none());
        check(&"x".repeat(HEAD_BYTES_MAX + 1), "HTTP/1.1 431 ", "\r\n\r\n");
    }

    #[test]
    fn a_request_may_come_in_pieces_and_not_for_ever() {
        let mut requests = Requests::default();
        let start = Instant(7);
        assert!(
            (0..CONNECTIONS_MAX).all(|conn| requests.begin(conn, start + Duration::from_secs(conn as u64)))
        );
        assert!(!requests.begin(CONNECTIONS_MAX, start));
        requests.add(1, [Bytes::from_static(b"GET / HT"), Bytes::from_static(b"TP/1.1\r\n")]);
        let head = requests.add(1, [Bytes::from_static(b"\r\n")]);
        assert_eq!(head, Some(&b"GET / HTTP/1.1\r\n\r\n"[..]));
        requests.answered(1, start + Duration::from_secs(60));
        assert_eq!(requests.add(1, [Bytes::from_static(b"GET")]), None, "one request");
        assert!(!requests.begin(CONNECTIONS_MAX, start), "the answer is on its way");
        assert!(requests.take_overdue(start + (REQUEST_TIMEOUT - Duration::from_nanos(1))).is_empty());
        assert_eq!(requests.take_overdue(start + (REQUEST_TIMEOUT + Duration::from_secs(2))), [0, 2]);
        requests.end(1);
        assert!(requests.begin(1, start));
        requests.answered(1, start);
        assert_eq!(
            requests.take_overdue(start + REQUEST_TIMEOUT),
            [1],
            "the client does not take the answer"
        );
    }

    #[test]
    fn a_page_serves_all_requests_within_a_second() {
        let (mut page, start) = (KeptPage::default(), Instant(7));
        assert_eq!(page.get(start, || "a".to_owned()), "a");
        assert_eq!(page.get(start + (PAGE_AGE_MAX - Duration::from_nanos(1)), || "b".to_owned()), "a");
        assert_eq!(page.get(start + PAGE_AGE_MAX, || "c".to_owned()), "c");
    }

    #[test]
    fn an_address_that_cannot_be_had_is_tried_again() {
        let socket = |port| Some(SocketAddr::from(([127, 0, 0, 1], port)));
        let open = Open { socket: socket(1).unwrap(), listener: None, tried_at: Instant(7) };
        assert!(open.is_settled(socket(1), Instant(7) + (LISTEN_RETRY - Duration::from_nanos(1))));
        assert!(!open.is_settled(socket(1), Instant(7) + LISTEN_RETRY));
        assert!(!open.is_settled(socket(2), Instant(7)) && !open.is_settled(None, Instant(7)));
    }
}
