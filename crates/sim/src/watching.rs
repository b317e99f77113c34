//! Clients watch objects and notify each other, while OSDs restart and PGs move.
//!
//! A notification that ends well was answered by all that watched before it began, but for those whose watch the OSD
//! has ended, which then must be over. One that ends late says which watches did not answer, and is not early. No
//! client is told of a notification again that has not connected its watch again.

mod watcher;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bytes::Bytes;
use codec::{Decode, Encode, Features};
use messages::MWatchNotify;
use types::{Errno, Instant};

pub(crate) use watcher::{InFlightOp, Step, Watcher};

/// Objects that are watched.
const OBJECTS: usize = 3;

/// A watch, as all clients know it together.
#[derive(Debug, Default)]
struct Watch {
    object: usize,
    /// From when it is acknowledged until it is to end.
    is_on: bool,
    /// Its client never answers.
    is_deaf: bool,
    /// An OSD has said that it is over, or has done without it.
    is_over: bool,
    /// Requests that connect it, begun and ended.
    begun: u32,
    ended: u32,
    /// Notifications that it was told of, and how many requests that connect it had ended by then.
    told: BTreeMap<u64, u32>,
    /// Those that were answered.
    answered: BTreeSet<u64>,
}

/// A notification under way.
#[derive(Debug)]
struct Notify {
    /// Watches that were there when it began.
    expected: BTreeSet<u64>,
    began: Instant,
    timeout: Duration,
    /// Nothing breaks meanwhile.
    is_calm: bool,
}

/// What is known of all watches and notifications, by cookie.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    watches: BTreeMap<u64, Watch>,
    notifies: BTreeMap<u64, Notify>,
    /// Objects that are there.
    made: BTreeSet<usize>,
}

/// Answers of watches and those that did not answer in time, by client and cookie.
type Replies = (BTreeMap<(u64, u64), Bytes>, Vec<(u64, u64)>);

impl Watched {
    /// True while a notification is not over that began when nothing broke any more.
    pub(crate) fn awaits_calm(&self) -> bool {
        self.notifies.values().any(|notify| notify.is_calm)
    }

    fn begin(&mut self, cookie: u64, object: usize, began: Instant, timeout: Duration, is_calm: bool) {
        let on = self.watches.iter().filter(|(_, watch)| watch.is_on && watch.object == object);
        let expected = on.map(|(cookie, _)| *cookie).collect();
        self.notifies.insert(cookie, Notify { expected, began, timeout, is_calm });
    }

    /// A client is told of a notification; false if it is to say nothing.
    fn tell(&mut self, message: &MWatchNotify) -> Result<bool, String> {
        let MWatchNotify { cookie, notify_id: id, payload, .. } = message;
        let watch = self.watches.get_mut(cookie).ok_or("a client is told of a watch that never was")?;
        let notify =
            u64::from_bytes(payload.clone()).ok().filter(|notify| object_of(*notify) == watch.object);
        if notify.is_none() {
            return Err(format!("watch {cookie:x} is told of what is none of its object's: {payload:?}"));
        }
        let before = watch.told.insert(*id, watch.ended);
        if before.is_some_and(|ended| watch.begun <= ended) {
            return Err(format!("watch {cookie:x} is told twice of notification {id:x}"));
        }
        if !watch.is_deaf {
            watch.answered.insert(*id);
        }
        Ok(!watch.is_deaf)
    }

    /// A notification has ended, if its client still waits for it. True if some did not answer in time.
    fn complete(&mut self, message: &MWatchNotify, now: Instant) -> Result<bool, String> {
        let MWatchNotify { cookie, notify_id: id, return_code, replies, .. } = message;
        let Some(notify) = self.notifies.remove(cookie) else { return Ok(false) };
        let wrong = |why: String| Err(format!("notification {id:x} {why}"));
        let Ok((answers, late)) = Replies::from_bytes(replies.clone()) else {
            return wrong("has answers that are not decodable".to_owned());
        };
        let expected = if late.is_empty() { 0 } else { Errno::ETIMEDOUT.negated() };
        if *return_code != expected {
            return wrong(format!("ends with {return_code}, {} did not answer", late.len()));
        }
        // Clocks may differ a little.
        if !late.is_empty() && now.since(notify.began) < notify.timeout.mul_f64(0.99) {
            return wrong(format!("is over after {:?}", now.since(notify.began)));
        }
        let answers: BTreeSet<u64> = answers.into_keys().map(|(_, cookie)| cookie).collect();
        let late: BTreeSet<u64> = late.into_iter().map(|(_, cookie)| cookie).collect();
        let answered = |watch: &u64| self.watches.get(watch).is_some_and(|watch| watch.answered.contains(id));
        if let Some(other) = answers.iter().find(|watch| !answered(watch)) {
            return wrong(format!("has an answer of watch {other:x}, which has given none"));
        }
        for watch in
            notify.expected.iter().filter(|watch| !answers.contains(*watch) && !late.contains(*watch))
        {
            if let Some(watch) = self.watches.get_mut(watch).filter(|watch| watch.is_on) {
                watch.is_over = true;
            }
        }
        let hears =
            |watch: &&u64| self.watches.get(*watch).is_some_and(|watch| watch.is_on && !watch.is_deaf);
        if let Some(watch) = late.iter().find(hears).filter(|_| notify.is_calm) {
            return wrong(format!("did not reach watch {watch:x} when nothing broke"));
        }
        Ok(!late.is_empty())
    }
}

/// Makes the end of a notification one without watches that did not answer.
pub(crate) fn hide_timeout(message: &mut MWatchNotify) {
    if let Ok((answers, _)) = Replies::from_bytes(message.replies.clone()) {
        message.return_code = 0;
        message.replies = (answers, Vec::<(u64, u64)>::new()).to_bytes(Features::default());
    }
}

/// The object of a notification, or of a watch, as its cookie has it.
fn object_of(cookie: u64) -> usize {
    (cookie % OBJECTS as u64) as usize
}

#[cfg(test)]
mod tests {
    use messages::WatchOpcode;

    use super::*;

    const ID: u64 = 9;
    const NOTIFY: u64 = 30;

    /// Two watches, 3 and 6, of an object, and a notification that has begun.
    fn watched() -> Watched {
        let mut watched = Watched::default();
        for cookie in [3, 6] {
            let watch = Watch { is_on: true, begun: 1, ended: 1, ..Watch::default() };
            watched.watches.insert(cookie, watch);
        }
        watched.begin(NOTIFY, 0, Instant(0), Duration::from_secs(10), false);
        watched
    }

    fn told(cookie: u64) -> MWatchNotify {
        let payload = NOTIFY.to_bytes(Features::default());
        MWatchNotify {
            opcode: WatchOpcode::NOTIFY,
            cookie,
            notify_id: ID,
            payload,
            ..MWatchNotify::default()
        }
    }

    fn over(return_code: i32, answers: &[u64], late: &[u64]) -> MWatchNotify {
        let answers: BTreeMap<(u64, u64), Bytes> =
            answers.iter().map(|cookie| ((1, *cookie), Bytes::new())).collect();
        let late: Vec<(u64, u64)> = late.iter().map(|cookie| (1, *cookie)).collect();
        let replies = (answers, late).to_bytes(Features::default());
        MWatchNotify { cookie: NOTIFY, notify_id: ID, return_code, replies, ..MWatchNotify::default() }
    }

    #[test]
    fn a_watch_is_told_again_only_after_it_was_connected_again() {
        let mut watched = watched();
        assert_eq!(watched.tell(&told(3)), Ok(true));
        assert!(watched.tell(&told(3)).is_err_and(|why| why.contains("twice")));
        watched.watches.get_mut(&3).unwrap().begun += 1;
        assert_eq!(watched.tell(&told(3)), Ok(true));
        assert!(watched.tell(&told(4)).is_err(), "there is no such watch");
        watched.watches.insert(4, Watch { object: 1, ..Watch::default() });
        assert!(watched.tell(&told(4)).is_err(), "of another object");
    }

    #[test]
    fn a_notification_that_ends_well_has_an_answer_of_each_watch_or_that_watch_is_over() {
        let late = Instant(10_000_000_000);
        let ends = |message: MWatchNotify, now: Instant| {
            let mut watched = watched();
            assert_eq!(watched.tell(&told(3)), Ok(true));
            let outcome = watched.complete(&message, now);
            (outcome, watched.watches[&3].is_over, watched.watches[&6].is_over)
        };
        assert_eq!(ends(over(0, &[3], &[]), Instant(1)), (Ok(false), false, true));
        assert_eq!(ends(over(-Errno::ETIMEDOUT.0, &[3], &[6]), late), (Ok(true), false, false));
        assert!(ends(over(-Errno::ETIMEDOUT.0, &[3], &[6]), Instant(1)).0.is_err(), "too early");
        assert!(ends(over(0, &[3], &[6]), late).0.is_err(), "it was late");
        assert!(ends(over(-Errno::ETIMEDOUT.0, &[3], &[]), late).0.is_err(), "nothing was late");
        assert!(ends(over(0, &[3, 6], &[]), Instant(1)).0.is_err(), "it was not told");
    }

    #[test]
    fn where_nothing_breaks_all_watches_are_reached() {
        let mut watched = watched();
        watched.begin(NOTIFY, 0, Instant(0), Duration::from_secs(10), true);
        assert!(watched.awaits_calm());
        let late = over(-Errno::ETIMEDOUT.0, &[], &[3]);
        assert!(watched.complete(&late, Instant(10_000_000_000)).is_err());
        watched.begin(NOTIFY, 0, Instant(0), Duration::from_secs(10), true);
        watched.watches.get_mut(&3).unwrap().is_deaf = true;
        assert_eq!(watched.complete(&late, Instant(10_000_000_000)), Ok(true));
        assert!(!watched.awaits_calm());
    }
}
