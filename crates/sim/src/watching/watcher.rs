//! What one client watches, and of what it notifies others.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use client::Response;
use codec::{Encode, Features};
use messages::{MWatchNotify, OpCode, OpParams, OsdOp, WatchOpcode, watch_op};
use rand::{Rng, rngs::StdRng, seq::IndexedRandom};
use types::{Errno, Instant};

use super::{OBJECTS, Watch, Watched, object_of};

/// How long watches last without a sign of life, and how long notifications wait for answers, in seconds.
const TIMEOUTS_SEC: [u32; 3] = [10, 20, 30];
/// Of a hundred watches, how many never answer.
const DEAF: u32 = 15;
/// A client waits for the end of a notification so much longer than for answers: the OSD may have forgotten it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request under way, and the watch that it is of.
#[derive(Debug)]
pub(crate) enum InFlightOp {
    /// A sign of life, or a connection of a watch that is there. True if that was over before.
    Ping(u64, bool),
    Reconnect(u64, bool),
    Watch(u64),
    Unwatch(u64),
    Notify,
    Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Off,
    On,
    /// It is there, and the OSD has no connection for it.
    Away,
}

#[derive(Debug)]
struct OwnWatch {
    cookie: u64,
    state: State,
    /// A request of it is in flight.
    is_busy: bool,
    timeout_sec: u32,
}

/// An answer that is to be given: the watch, and the notification.
type Answer = (u64, u64);

/// What one client watches, each object once, and of what it notifies others, one thing at a time.
#[derive(Debug)]
pub(crate) struct Watcher {
    client: u64,
    /// Of cookies.
    next: u64,
    watches: Vec<OwnWatch>,
    answers: VecDeque<Answer>,
    /// The notification that is not over, and how long it is waited for.
    notify: Option<(u64, Instant)>,
}

/// A request on an object.
pub(crate) type Step = (Bytes, Vec<OsdOp>, InFlightOp);

fn name(object: usize) -> Bytes {
    Bytes::from(format!("watched{object}"))
}

fn watch_step(cookie: u64, op: u8, timeout_sec: u32) -> OsdOp {
    // The version that is watched and the generation of the watch are of no account any more.
    let params =
        OpParams::from_parts(&[&cookie.to_le_bytes(), &[0; 8], &[op], &[0; 4], &timeout_sec.to_le_bytes()]);
    OsdOp { params, ..OsdOp::new(OpCode::WATCH) }
}

impl Watcher {
    pub(crate) fn new(client: u64) -> Watcher {
        let off = |_| OwnWatch { cookie: 0, state: State::Off, is_busy: false, timeout_sec: 0 };
        let watches = (0..OBJECTS).map(off).collect();
        Watcher { client, next: 0, watches, answers: VecDeque::new(), notify: None }
    }

    /// True when it watches nothing, and nothing of it is under way.
    pub(crate) fn is_idle(&self) -> bool {
        let is_off = |watch: &OwnWatch| watch.state == State::Off && !watch.is_busy;
        self.answers.is_empty() && self.watches.iter().all(is_off)
    }

    /// A cookie that names its client and its object.
    fn cookie(&mut self, object: usize) -> u64 {
        self.next += 1;
        (self.client << 20 | self.next) * OBJECTS as u64 + object as u64
    }

    /// The next request, if there is one.
    pub(crate) fn next(
        &mut self,
        rng: &mut StdRng,
        now: Instant,
        is_calm: bool,
        watched: &mut Watched,
    ) -> Option<Step> {
        if let Some(step) = self.next_answer() {
            return Some(step);
        }
        if let Some((cookie, _)) = self.notify.filter(|(_, until)| *until < now) {
            // Where nothing breaks, it is awaited until it comes.
            if watched.notifies.get(&cookie).is_none_or(|notify| !notify.is_calm) {
                watched.notifies.remove(&cookie);
                self.notify = None;
            }
        }
        let object = rng.random_range(0..OBJECTS);
        if rng.random_bool(0.7) || self.watches[object].is_busy {
            return None;
        }
        if rng.random_ratio(1, 5) && self.notify.is_none() && watched.made.contains(&object) {
            return Some(self.begin_notify(object, rng, now, is_calm, watched));
        }
        match self.watches[object].state {
            State::Off => Some(self.begin_watch(object, rng, watched)),
            State::On if rng.random_ratio(1, 15) => Some(self.end_watch(object, watched)),
            State::On => Some(self.keep_watch(object, watch_op::PING, watched)),
            State::Away => Some(self.keep_watch(object, watch_op::RECONNECT, watched)),
        }
    }

    /// The next request of a client that ends all its watches.
    pub(crate) fn next_end(&mut self, watched: &mut Watched) -> Option<Step> {
        if let Some(step) = self.next_answer() {
            return Some(step);
        }
        let is_there = |watch: &OwnWatch| watch.state != State::Off && !watch.is_busy;
        let object = self.watches.iter().position(is_there)?;
        Some(self.end_watch(object, watched))
    }

    fn next_answer(&mut self) -> Option<Step> {
        let (cookie, id) = self.answers.pop_front()?;
        let data = (id, cookie, Bytes::new()).to_bytes(Features::default());
        let op = OsdOp { data, ..OsdOp::new(OpCode::NOTIFY_ACK) };
        Some((name(object_of(cookie)), vec![op], InFlightOp::Answer))
    }

    fn begin_notify(
        &mut self,
        object: usize,
        rng: &mut StdRng,
        now: Instant,
        is_calm: bool,
        watched: &mut Watched,
    ) -> Step {
        let cookie = self.cookie(object);
        let timeout_sec = *TIMEOUTS_SEC.choose(rng).unwrap_or(&10);
        let timeout = Duration::from_secs(u64::from(timeout_sec));
        watched.begin(cookie, object, now, timeout, is_calm);
        self.notify = Some((cookie, now + timeout + PATIENCE));
        let payload = cookie.to_bytes(Features::default());
        let op = OsdOp {
            params: OpParams::from_parts(&[&cookie.to_le_bytes()]),
            data: (1u32, timeout_sec, payload).to_bytes(Features::default()),
            ..OsdOp::new(OpCode::NOTIFY)
        };
        (name(object), vec![op], InFlightOp::Notify)
    }

    /// Watches an object, which it makes if it is not there.
    fn begin_watch(&mut self, object: usize, rng: &mut StdRng, watched: &mut Watched) -> Step {
        let cookie = self.cookie(object);
        let timeout_sec = *TIMEOUTS_SEC.choose(rng).unwrap_or(&10);
        self.watches[object] = OwnWatch { cookie, state: State::Off, is_busy: true, timeout_sec };
        let is_deaf = rng.random_ratio(DEAF, 100);
        watched.watches.insert(cookie, Watch { object, is_deaf, begun: 1, ..Watch::default() });
        let ops = vec![OsdOp::new(OpCode::CREATE), watch_step(cookie, watch_op::WATCH, timeout_sec)];
        (name(object), ops, InFlightOp::Watch(cookie))
    }

    fn end_watch(&mut self, object: usize, watched: &mut Watched) -> Step {
        let watch = &mut self.watches[object];
        watch.is_busy = true;
        if let Some(watch) = watched.watches.get_mut(&watch.cookie) {
            watch.is_on = false;
        }
        let ops = vec![watch_step(watch.cookie, watch_op::UNWATCH, watch.timeout_sec)];
        (name(object), ops, InFlightOp::Unwatch(watch.cookie))
    }

    /// Gives a sign of life, or connects a watch again.
    fn keep_watch(&mut self, object: usize, op: u8, watched: &mut Watched) -> Step {
        let OwnWatch { cookie, timeout_sec, .. } = self.watches[object];
        self.watches[object].is_busy = true;
        let is_reconnect = op == watch_op::RECONNECT;
        let mut is_over = false;
        if let Some(watch) = watched.watches.get_mut(&cookie) {
            watch.begun += u32::from(is_reconnect);
            is_over = watch.is_over;
        }
        let in_flight = match is_reconnect {
            true => InFlightOp::Reconnect(cookie, is_over),
            false => InFlightOp::Ping(cookie, is_over),
        };
        (name(object), vec![watch_step(cookie, op, timeout_sec)], in_flight)
    }

    /// A request has ended. What happened that does not happen often, if anything did.
    pub(crate) fn done(
        &mut self,
        in_flight: InFlightOp,
        response: &Response,
        watched: &mut Watched,
    ) -> Result<Option<&'static str>, String> {
        let result = Errno(-response.result);
        let (cookie, next) = match in_flight {
            InFlightOp::Answer | InFlightOp::Notify if result == Errno(0) => return Ok(None),
            InFlightOp::Ping(cookie, true) | InFlightOp::Reconnect(cookie, true) if result == Errno(0) => {
                return Err(format!("watch {cookie:x} goes on, which an OSD has said is over"));
            }
            InFlightOp::Watch(cookie) | InFlightOp::Ping(cookie, _) | InFlightOp::Reconnect(cookie, _)
                if result == Errno(0) =>
            {
                (cookie, State::On)
            }
            InFlightOp::Unwatch(cookie) if result == Errno(0) => (cookie, State::Off),
            InFlightOp::Ping(cookie, _) if result == Errno::ETIMEDOUT => (cookie, State::Away),
            InFlightOp::Ping(cookie, _) | InFlightOp::Reconnect(cookie, _) if result == Errno::ENOTCONN => {
                (cookie, State::Off)
            }
            _ => return Err(format!("{in_flight:?} ended with {}", response.result)),
        };
        let object = object_of(cookie);
        let own = &mut self.watches[object];
        own.is_busy = false;
        let was = std::mem::replace(&mut own.state, next);
        let watch = watched.watches.entry(cookie).or_default();
        watch.is_on = next != State::Off && !watch.is_over;
        match in_flight {
            InFlightOp::Watch(_) => {
                watch.ended += 1;
                watched.made.insert(object);
            }
            InFlightOp::Reconnect(..) => watch.ended += 1,
            InFlightOp::Unwatch(_) => return Ok(None),
            InFlightOp::Ping(..) | InFlightOp::Notify | InFlightOp::Answer => {}
        }
        Ok(match (was, next) {
            (State::On | State::Away, State::Off) => Some("a watch expired"),
            (State::Away, State::On) => Some("a watch was connected again"),
            _ => None,
        })
    }

    /// An OSD tells of a notification or of a watch. What happened that does not happen often, if anything did.
    pub(crate) fn on_notified(
        &mut self,
        message: &MWatchNotify,
        now: Instant,
        watched: &mut Watched,
    ) -> Result<Option<&'static str>, String> {
        if (message.cookie / OBJECTS as u64) >> 20 != self.client {
            return Err(format!("a client is told of the watch {:x} of another", message.cookie));
        }
        match message.opcode {
            WatchOpcode::NOTIFY => {
                if watched.tell(message)? {
                    self.answers.push_back((message.cookie, message.notify_id));
                }
                Ok(None)
            }
            WatchOpcode::NOTIFY_COMPLETE => {
                if self.notify.is_some_and(|(cookie, _)| cookie == message.cookie) {
                    self.notify = None;
                }
                Ok(watched.complete(message, now)?.then_some("a notification ended late"))
            }
            WatchOpcode::DISCONNECT => {
                if let Some(watch) = watched.watches.get_mut(&message.cookie) {
                    (watch.is_over, watch.is_on) = (true, false);
                }
                Ok(Some("a client was told of the end of its watch"))
            }
            WatchOpcode(other) => Err(format!("a client is told what has no meaning: {other}")),
        }
    }
}
