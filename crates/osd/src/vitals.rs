//! Whether this OSD can serve: its devices answer, and its shards' threads go on. One that cannot must not seem alive
//! to others, as what they wait for never comes; and one that cannot for long must end.
//!
//! The control shard judges, by what each shard says of itself once a second. Slow is not dead: a device that answers
//! anything goes on, however long each command takes. Discards do not count, as some devices take very long for them.
//! If the control shard has not looked for some time, the machine or its thread stood still, and the other threads may
//! have, too: waits count from the moment when it looks again.
//!
//! Authority: `osd_op_thread_timeout`, `osd_op_thread_suicide_timeout`.

use std::{collections::BTreeMap, fmt, time::Duration};

use store::{DeviceRole, DeviceWaits};
use types::Instant;

use crate::{Cross, Effect, Fault, Osd, osd::Cx, shard::CONTROL};

/// A device that has answered nothing, or a thread that has not gone on, for so long: the OSD plays dead.
const PATIENCE: Duration = Duration::from_secs(15);
/// A thread that has not gone on, or any command that has no answer, for so long: the OSD ends.
const PATIENCE_AT_MOST: Duration = Duration::from_secs(150);
/// If this thread has not looked for so long, this thread itself stood still.
const STALL: Duration = Duration::from_secs(5);

/// What of a shard does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Organ {
    Thread,
    Device(DeviceRole),
}

/// What does not go on, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ailment {
    pub(crate) shard: u16,
    pub(crate) organ: Organ,
    pub(crate) lasts: Duration,
}

impl fmt::Display for Ailment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ailment { shard, organ, lasts } = self;
        match organ {
            Organ::Thread => {
                write!(f, "the thread of shard {shard} has not gone on for {} s", lasts.as_secs())
            }
            Organ::Device(role) => {
                write!(f, "the {role} device of shard {shard} has not answered for {} s", lasts.as_secs())
            }
        }
    }
}

/// One of the waits of a shard's devices.
type Wait = fn(&DeviceWaits) -> Option<(DeviceRole, Instant)>;

/// What the control shard knows of all shards.
#[derive(Debug, Default)]
pub(crate) struct Vitals {
    /// When each said something last, and what its devices had not answered then.
    shards: BTreeMap<u16, (Instant, DeviceWaits)>,
    looked: Instant,
    /// When this thread went on after it stood still.
    resumed: Instant,
    /// What keeps the OSD from serving.
    ailment: Option<Ailment>,
}

impl Vitals {
    /// True while the OSD plays dead.
    pub(crate) fn is_ill(&self) -> bool {
        self.ailment.is_some()
    }

    fn heard(&mut self, now: Instant, shard: u16, waits: DeviceWaits) {
        self.shards.insert(shard, (now, waits));
    }

    /// Judges the shards. Returns what the OSD must end for, if it must. To be called more often than once in
    /// [`STALL`].
    fn look(&mut self, now: Instant) -> Option<Ailment> {
        if now.since(self.looked) >= STALL {
            self.resumed = now;
        }
        self.looked = now;
        let resumed = self.resumed;
        let found = |of: Wait| {
            self.shards.iter().flat_map(move |(&shard, &(heard, waits))| {
                let device = of(&waits).map(|(role, since)| (Organ::Device(role), since));
                [Some((Organ::Thread, heard)), device]
                    .into_iter()
                    .flatten()
                    .map(move |(organ, since)| Ailment { shard, organ, lasts: now.since(since.max(resumed)) })
            })
        };
        let worst = |of: Wait| found(of).max_by_key(|ailment| ailment.lasts);
        let ailment = worst(|waits| waits.silent).filter(|worst| worst.lasts >= PATIENCE);
        match (ailment, self.ailment) {
            (Some(now), None) => tracing::error!("{now}: until it does, this OSD answers no heartbeats"),
            (None, Some(_)) => tracing::info!("all devices and shards go on again"),
            _ => {}
        }
        self.ailment = ailment;
        worst(|waits| waits.oldest).filter(|worst| worst.lasts >= PATIENCE_AT_MOST)
    }
}

impl Osd {
    /// Tells the control shard that this one goes on. The control shard looks whether all do; false if the OSD is to
    /// end.
    pub(crate) fn show_vitals(&mut self, cx: &mut Cx<'_>) -> bool {
        let waits = cx.store.device_waits();
        if !self.config.shard.is_control() {
            cx.cross(CONTROL, Cross::Vitals(waits));
            return true;
        }
        self.on_vitals(CONTROL, waits, cx);
        let Some(ailment) = self.vitals.look(cx.now) else { return true };
        cx.effects.push(Effect::Failed(Fault::Stalled(ailment.to_string())));
        false
    }

    pub(crate) fn on_vitals(&mut self, from: u16, waits: DeviceWaits, cx: &Cx<'_>) {
        self.vitals.heard(cx.now, from, waits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sec(n: u64) -> Instant {
        Instant(n * 1_000_000_000)
    }

    fn silent(since: u64) -> DeviceWaits {
        let since = Some((DeviceRole::Main, sec(since)));
        DeviceWaits { oldest: since, silent: since }
    }

    /// Looks each second from one to another; when the OSD was ill, and what it ended for.
    fn watch(
        vitals: &mut Vitals,
        seconds: std::ops::Range<u64>,
        says: impl Fn(u64, u16) -> Option<DeviceWaits>,
    ) -> (Vec<u64>, Option<String>) {
        let mut ill = Vec::new();
        for now in seconds {
            for shard in 0..2 {
                if let Some(waits) = says(now, shard) {
                    vitals.heard(sec(now), shard, waits);
                }
            }
            if let Some(end) = vitals.look(sec(now)) {
                return (ill, Some(end.to_string()));
            }
            ill.extend(vitals.is_ill().then_some(now));
        }
        (ill, None)
    }

    #[test]
    fn a_device_that_answers_nothing_makes_ill_and_then_ends() {
        let mut vitals = Vitals::default();
        let says =
            |now, shard| Some(if shard == 1 && now >= 110 { silent(110) } else { DeviceWaits::default() });
        let (ill, end) = watch(&mut vitals, 100..1_000, says);
        assert_eq!(ill, (125..260).collect::<Vec<_>>());
        assert_eq!(end.unwrap(), "the main device of shard 1 has not answered for 150 s");
    }

    #[test]
    fn a_thread_that_stands_still_makes_ill_and_then_ends() {
        let mut vitals = Vitals::default();
        let says = |now, shard| (shard == 0 || now <= 110).then(DeviceWaits::default);
        let (ill, end) = watch(&mut vitals, 100..1_000, says);
        assert_eq!(ill, (125..260).collect::<Vec<_>>());
        assert_eq!(end.unwrap(), "the thread of shard 1 has not gone on for 150 s");
    }

    #[test]
    fn a_slow_device_is_well_until_one_command_takes_all_too_long() {
        let mut vitals = Vitals::default();
        let says = |now, _| {
            let slow = Some((DeviceRole::Main, sec(110)));
            Some(DeviceWaits { oldest: slow, silent: Some((DeviceRole::Main, sec(now - 10))) })
        };
        let (ill, end) = watch(&mut vitals, 110..1_000, says);
        assert!(ill.is_empty() && end.is_some());
        assert_eq!(vitals.looked, sec(260));
    }

    #[test]
    fn what_goes_on_again_is_well() {
        let mut vitals = Vitals::default();
        let says = |now, _| Some(if now < 130 { silent(110) } else { DeviceWaits::default() });
        assert_eq!(watch(&mut vitals, 110..200, says), ((125..130).collect(), None));
    }

    #[test]
    fn a_machine_that_stood_still_is_well() {
        let mut vitals = Vitals::default();
        assert_eq!(watch(&mut vitals, 100..110, |_, _| Some(silent(105))), (vec![], None));
        // What had been written before is answered soon.
        let says = |now, _| Some(if now < 1_010 { silent(105) } else { DeviceWaits::default() });
        assert_eq!(watch(&mut vitals, 1_000..1_100, says), (vec![], None));
    }
}
