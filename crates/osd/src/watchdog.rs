//! Whether this OSD can serve: its devices answer, and its shards' threads go on. One that cannot must not seem alive
//! to others, as what they wait for never comes; and one that cannot for long must end.
//!
//! The control shard judges, by what each shard says of itself once a second. Slow is not dead: a device that answers
//! anything goes on, however long each command takes. Discards do not count, as some devices take very long for them.
//! If the control shard has not looked for some time, the machine or its thread stood still, and the other threads may
//! have, too: waits count from the moment when it looks again.
//!
//! Once the OSD is stopped, no shard hears of another any more: each judges the devices that its own store is being
//! unmounted from.
//!
//! Authority: `osd_op_thread_timeout`, `osd_op_thread_suicide_timeout`.

use std::{collections::BTreeMap, fmt, time::Duration};

use store::{DeviceRole, DeviceWaits};
use types::Instant;

use crate::{Effect, Fault, Osd, ShardMessage, osd::Ctx, shard::CONTROL};

/// A device that has answered nothing, or a thread that has not gone on, for so long: the OSD withholds heartbeats.
const PATIENCE: Duration = Duration::from_secs(15);
/// A thread that has not gone on, or any command that has no answer, for so long: the OSD ends.
pub const PATIENCE_AT_MOST: Duration = Duration::from_secs(150);
/// If this thread has not looked for so long, this thread itself stood still.
const STALL: Duration = Duration::from_secs(5);

/// What of a shard does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StalledPart {
    Thread,
    Device(DeviceRole),
}

/// What does not go on, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stall {
    pub(crate) shard: u16,
    pub(crate) part: StalledPart,
    pub(crate) lasts: Duration,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stall { shard, part, lasts } = self;
        match part {
            StalledPart::Thread => {
                write!(f, "the thread of shard {shard} has not gone on for {} s", lasts.as_secs())
            }
            StalledPart::Device(role) => {
                write!(f, "the {role} device of shard {shard} has not answered for {} s", lasts.as_secs())
            }
        }
    }
}

/// One of the waits of a shard's devices.
type Wait = fn(&DeviceWaits) -> Option<(DeviceRole, Instant)>;

/// What the control shard knows of all shards.
#[derive(Debug, Default)]
pub(crate) struct Watchdog {
    /// When each said something last, and what its devices had not answered then.
    shards: BTreeMap<u16, (Instant, DeviceWaits)>,
    looked: Instant,
    /// When this thread went on after it stood still.
    resumed: Instant,
    /// What keeps the OSD from serving.
    stall: Option<Stall>,
}

impl Watchdog {
    /// True while the OSD withholds heartbeats.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stall.is_some()
    }

    fn heard(&mut self, now: Instant, shard: u16, waits: DeviceWaits) {
        self.shards.insert(shard, (now, waits));
    }

    /// Judges the shards. Returns what the OSD must end for, if it must. To be called more often than once in
    /// [`STALL`].
    fn look(&mut self, now: Instant) -> Option<Stall> {
        if now.since(self.looked) >= STALL {
            self.resumed = now;
        }
        self.looked = now;
        let resumed = self.resumed;
        let found = |of: Wait| {
            self.shards.iter().flat_map(move |(&shard, &(heard, waits))| {
                let device = of(&waits).map(|(role, since)| (StalledPart::Device(role), since));
                [Some((StalledPart::Thread, heard)), device]
                    .into_iter()
                    .flatten()
                    .map(move |(part, since)| Stall { shard, part, lasts: now.since(since.max(resumed)) })
            })
        };
        let worst = |of: Wait| found(of).max_by_key(|stall| stall.lasts);
        let stall = worst(|waits| waits.silent).filter(|worst| worst.lasts >= PATIENCE);
        match (stall, self.stall) {
            (Some(now), None) => tracing::error!("{now}: until it does, this OSD answers no heartbeats"),
            (None, Some(_)) => tracing::info!("all devices and shards go on again"),
            _ => {}
        }
        self.stall = stall;
        worst(|waits| waits.oldest).filter(|worst| worst.lasts >= PATIENCE_AT_MOST)
    }
}

impl Osd {
    /// Tells the control shard that this one goes on. The control shard looks whether all do; false if the OSD is to
    /// end.
    pub(crate) fn report_liveness(&mut self, ctx: &mut Ctx<'_>) -> bool {
        let waits = ctx.store.device_waits();
        if !self.config.shard.is_control() {
            ctx.send_shard(CONTROL, ShardMessage::Liveness(waits));
            return true;
        }
        self.on_liveness(CONTROL, waits, ctx);
        let Some(stall) = self.watchdog.look(ctx.now) else { return true };
        ctx.effects.push(Effect::Failed(Fault::Stalled(stall.to_string())));
        false
    }

    pub(crate) fn on_liveness(&mut self, from: u16, waits: DeviceWaits, ctx: &Ctx<'_>) {
        self.watchdog.heard(ctx.now, from, waits);
    }

    /// Looks whether this shard's devices answer while its store is being unmounted; why the OSD is to end, if they do
    /// not. To be called several times a second once the OSD is stopped.
    pub fn watch_unmount(&mut self, now: Instant, waits: DeviceWaits) -> Option<Fault> {
        let own = self.config.shard.index;
        self.watchdog.shards.retain(|shard, _| *shard == own);
        self.watchdog.heard(now, own, waits);
        self.watchdog.look(now).map(|stall| Fault::Stalled(stall.to_string()))
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

    /// Looks each second from one to another; when the OSD was stalled, and what it ended for.
    fn watch(
        watchdog: &mut Watchdog,
        seconds: std::ops::Range<u64>,
        says: impl Fn(u64, u16) -> Option<DeviceWaits>,
    ) -> (Vec<u64>, Option<String>) {
        let mut stalled = Vec::new();
        for now in seconds {
            for shard in 0..2 {
                if let Some(waits) = says(now, shard) {
                    watchdog.heard(sec(now), shard, waits);
                }
            }
            if let Some(end) = watchdog.look(sec(now)) {
                return (stalled, Some(end.to_string()));
            }
            stalled.extend(watchdog.is_stalled().then_some(now));
        }
        (stalled, None)
    }

    #[test]
    fn a_device_that_answers_nothing_makes_ill_and_then_ends() {
        let mut watchdog = Watchdog::default();
        let says =
            |now, shard| Some(if shard == 1 && now >= 110 { silent(110) } else { DeviceWaits::default() });
        let (stalled, end) = watch(&mut watchdog, 100..1_000, says);
        assert_eq!(stalled, (125..260).collect::<Vec<_>>());
        assert_eq!(end.unwrap(), "the main device of shard 1 has not answered for 150 s");
    }

    #[test]
    fn a_thread_that_stands_still_makes_ill_and_then_ends() {
        let mut watchdog = Watchdog::default();
        let says = |now, shard| (shard == 0 || now <= 110).then(DeviceWaits::default);
        let (stalled, end) = watch(&mut watchdog, 100..1_000, says);
        assert_eq!(stalled, (125..260).collect::<Vec<_>>());
        assert_eq!(end.unwrap(), "the thread of shard 1 has not gone on for 150 s");
    }

    #[test]
    fn a_slow_device_is_well_until_one_command_takes_all_too_long() {
        let mut watchdog = Watchdog::default();
        let says = |now, _| {
            let slow = Some((DeviceRole::Main, sec(110)));
            Some(DeviceWaits { oldest: slow, silent: Some((DeviceRole::Main, sec(now - 10))) })
        };
        let (stalled, end) = watch(&mut watchdog, 110..1_000, says);
        assert!(stalled.is_empty() && end.is_some());
        assert_eq!(watchdog.looked, sec(260));
    }

    #[test]
    fn what_goes_on_again_is_well() {
        let mut watchdog = Watchdog::default();
        let says = |now, _| Some(if now < 130 { silent(110) } else { DeviceWaits::default() });
        assert_eq!(watch(&mut watchdog, 110..200, says), ((125..130).collect(), None));
    }

    #[test]
    fn a_shard_that_unmounts_looks_at_its_own_devices_alone() {
        let mut osd = Osd::alone();
        osd.watchdog.heard(sec(99), 1, silent(99));
        let mut ended = (100..1_000).filter_map(|now| {
            let waits = if now < 110 { DeviceWaits::default() } else { silent(110) };
            Some((now, osd.watch_unmount(sec(now), waits)?.to_string()))
        });
        let words = "the main device of shard 0 has not answered for 150 s";
        assert_eq!(ended.next(), Some((260, words.to_owned())));
    }

    #[test]
    fn a_machine_that_stood_still_is_well() {
        let mut watchdog = Watchdog::default();
        assert_eq!(watch(&mut watchdog, 100..110, |_, _| Some(silent(105))), (vec![], None));
        // What had been written before is answered soon.
        let says = |now, _| Some(if now < 1_010 { silent(105) } else { DeviceWaits::default() });
        assert_eq!(watch(&mut watchdog, 1_000..1_100, says), (vec![], None));
    }
}
