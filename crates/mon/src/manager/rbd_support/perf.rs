//! What images do: `rbd perf image stats` and `counters`, which `rbd perf image iotop` and `iostat` ask for, and the
//! metrics of chosen pools (`manager/prometheus/images.rs`). OSDs count only while there are such pools, or if a client
//! has asked within the last minute.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use messages::{ImageCounts, ImageKey, MOSDImageQuery, MOSDImageStats};
use serde_json::{Map, Value, json};
use types::{Instant, OsdMap, PoolId, UTime};

use super::{Work, image};
use crate::{
    Effect, Effects, Mon,
    manager::objects::{Place, Stop, View},
};

/// Counters in the order in which they are shown.
pub(super) const COUNTERS: [&str; 6] =
    ["write_ops", "read_ops", "write_bytes", "read_bytes", "write_latency", "read_latency"];
/// How long OSDs go on counting after the last question.
const EXPIRY: Duration = Duration::from_secs(60);
/// `mgr_stats_period`: counts are taken together that often.
const PERIOD: Duration = Duration::from_secs(5);
/// What OSDs are told: some periods, so that a lost session does not matter.
const QUERY_SECONDS: u32 = 15;
/// The longest time between counts of which a rate is shown.
const RATE_WINDOW_SECONDS: u64 = 60;
/// Images in an answer.
const SHOWN_MAX: usize = 64;
/// Images that are followed.
const IMAGES_MAX: usize = 16_384;

/// An image's counters.
pub(crate) type Numbers = [u64; 6];

fn numbers(counts: &ImageCounts) -> Numbers {
    [counts.writes, counts.reads, counts.write_bytes, counts.read_bytes, counts.write_ns, counts.read_ns]
}

fn add(sum: &mut Numbers, more: &Numbers) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
}

/// An image while it is followed.
#[derive(Debug, Default)]
struct Followed {
    /// Of the last period, and when that ended (seconds).
    last: Option<(u64, Numbers)>,
    /// When the period before ended.
    before: Option<u64>,
    sum: Numbers,
}

/// The images that are followed, and their counters.
#[derive(Debug, Default)]
pub(super) struct Perf {
    asked_at: Option<Instant>,
    period_at: Instant,
    /// Of the period that goes on.
    pending: BTreeMap<ImageKey, Numbers>,
    images: BTreeMap<ImageKey, Followed>,
    /// Names by ids, of the places that were looked through.
    names: BTreeMap<Place, BTreeMap<String, String>>,
    names_at: Instant,
    wanted: BTreeSet<Place>,
}

fn place_of(key: &ImageKey) -> Place {
    Place::new(key.pool, &key.nspace)
}

impl Followed {
    /// The rate of a counter; of a latency, the mean.
    fn rate(&self, at: usize) -> f64 {
        let (Some((last_at, last)), Some(before)) = (&self.last, self.before) else { return 0.0 };
        let window = last_at.saturating_sub(before);
        if window == 0 || window > RATE_WINDOW_SECONDS {
            return 0.0;
        }
        let rate = last[at] as f64 / window as f64;
        match at {
            4 | 5 => rate / self.rate(at - 4).max(1.0),
            _ => rate,
        }
    }
}

impl Perf {
    /// A client asks: true if OSDs do not count yet.
    pub(super) fn ask(&mut self, now: Instant) -> bool {
        self.asked_at.replace(now).is_none()
    }

    fn take(&mut self, report: MOSDImageStats) {
        for (key, counts) in report.images {
            if self.pending.len() < IMAGES_MAX || self.pending.contains_key(&key) {
                add(self.pending.entry(key).or_default(), &numbers(&counts));
            }
        }
    }

    /// A period ends.
    fn end_period(&mut self, wall: UTime) {
        let now = wall.since(UTime::default()).as_secs();
        for (key, numbers) in std::mem::take(&mut self.pending) {
            if self.images.len() >= IMAGES_MAX && !self.images.contains_key(&key) {
                continue;
            }
            if self.name(&key).is_none() {
                self.wanted.insert(place_of(&key));
            }
            let followed = self.images.entry(key).or_default();
            followed.before = followed.last.take().map(|(at, _)| at);
            followed.last = Some((now, numbers));
            add(&mut followed.sum, &numbers);
        }
        // Images that did nothing: their rates are zero.
        for followed in self.images.values_mut().filter(|f| f.last.is_some_and(|(at, _)| at < now)) {
            followed.before = followed.last.take().map(|(at, _)| at);
            followed.last = Some((now, Numbers::default()));
        }
    }

    /// Reads all names again: images may have others, or be gone.
    fn look_again(&mut self) {
        let places: BTreeSet<Place> = self.images.keys().map(place_of).collect();
        self.names.retain(|place, _| places.contains(place));
        self.wanted.extend(places);
    }

    fn name(&self, key: &ImageKey) -> Option<&String> {
        self.names.get(&place_of(key))?.get(&key.id)
    }

    /// Takes in the names of a place: images that have no name there are gone.
    pub(super) fn set_names(&mut self, place: Place, names: BTreeMap<String, String>) {
        self.images.retain(|key, _| place_of(key) != place || names.contains_key(&key.id));
        self.names.insert(place, names);
    }

    /// The answer to a question: `kind` is `stat` or `counter`.
    pub(super) fn report(
        &self,
        map: &OsdMap,
        wall: UTime,
        kind: &str,
        within: &(Option<PoolId>, Option<String>),
        sort_by: usize,
    ) -> Value {
        let (pool, nspace) = within;
        let fits = |key: &ImageKey| {
            pool.is_none_or(|pool| pool == key.pool)
                && nspace.as_ref().is_none_or(|nspace| *nspace == key.nspace)
        };
        let mut shown: Vec<(&ImageKey, &Followed, &String)> = self
            .images
            .iter()
            .filter(|(key, _)| fits(key))
            .filter_map(|(key, followed)| Some((key, followed, self.name(key)?)))
            .collect();
        shown.sort_by(|a, b| b.1.rate(sort_by).total_cmp(&a.1.rate(sort_by)));
        shown.truncate(SHOWN_MAX);
        let mut places: Vec<String> = Vec::new();
        let mut rows = Vec::new();
        for (key, followed, name) in shown {
            let mut place = map.pool_name(key.pool).unwrap_or_default().to_owned();
            if !key.nspace.is_empty() {
                place = format!("{place}/{}", key.nspace);
            }
            let at = places.iter().position(|known| *known == place).unwrap_or_else(|| {
                places.push(place);
                places.len() - 1
            });
            let data: Vec<Value> = match kind {
                "stat" => (0..COUNTERS.len()).map(|at| followed.rate(at).into()).collect(),
                _ => followed.sum.iter().map(|sum| (*sum).into()).collect(),
            };
            if data.iter().any(|value| value.as_f64() != Some(0.0)) {
                rows.push(json!({format!("{at}/{name}"): data}));
            }
        }
        let places: Map<String, Value> =
            places.into_iter().enumerate().map(|(at, place)| (at.to_string(), place.into())).collect();
        json!({
            "timestamp": wall.since(UTime::default()).as_secs() as f64,
            format!("{kind}_descriptors"): COUNTERS,
            "pool_descriptors": places,
            format!("{kind}s"): rows,
        })
    }
}

/// Names of the images of a place.
pub(super) fn look_up(view: View<'_>, place: &Place) -> Result<BTreeMap<String, String>, Stop> {
    image::names(view, place)
}

impl Mon {
    /// Takes in what an OSD has counted.
    pub(crate) fn on_image_stats(&mut self, report: MOSDImageStats) {
        self.rbd_support.perf.take(report);
    }

    /// Asks every OSD to count.
    pub(super) fn ask_for_images(&self, effects: &mut Effects) {
        let osds: Vec<_> =
            self.sessions.keys().copied().filter(|conn| self.osd_of(*conn).is_some()).collect();
        for conn in osds {
            let message = MOSDImageQuery { seconds: QUERY_SECONDS }.into();
            effects.push(Effect::Send { conn, tid: 0, message });
        }
    }

    /// The images whose names are known, with their names, and what was done with each since OSDs count, in the order
    /// of [`COUNTERS`].
    pub(crate) fn image_counters(&self) -> impl Iterator<Item = (&ImageKey, &str, Numbers)> {
        let perf = &self.rbd_support.perf;
        perf.images.iter().filter_map(|(key, image)| Some((key, perf.name(key)?.as_str(), image.sum)))
    }

    /// Every second: ends a period when it is over, and forgets everything when it was not asked for for a while.
    pub(super) fn tick_perf(&mut self, now: Instant, wall: UTime, effects: &mut Effects) {
        if self.tells_of_images() {
            self.rbd_support.perf.ask(now);
        }
        let names_interval = self.image_names_interval();
        let perf = &mut self.rbd_support.perf;
        let Some(asked_at) = perf.asked_at else { return };
        if now.since(asked_at) > EXPIRY {
            *perf = Perf::default();
            return;
        }
        if now.since(perf.period_at) < PERIOD {
            return;
        }
        perf.period_at = now;
        if now.since(perf.names_at) > names_interval {
            perf.names_at = now;
            perf.look_again();
        }
        perf.end_period(wall);
        for place in std::mem::take(&mut perf.wanted) {
            self.rbd_support.queues.enqueue_once(Work::Names(place));
        }
        self.ask_for_images(effects);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_last_period_and_sums_of_all() {
        let mut perf = Perf::default();
        let key = ImageKey { pool: PoolId(1), nspace: String::new(), id: "10".to_owned() };
        let counts =
            ImageCounts { writes: 50, write_bytes: 5_000, write_ns: 100_000, ..ImageCounts::default() };
        let report =
            || MOSDImageStats { images: [(key.clone(), counts)].into(), ..MOSDImageStats::default() };
        for at in [100, 105] {
            perf.take(report());
            perf.end_period(UTime::new(at, 0));
        }
        assert_eq!(perf.wanted.len(), 1);
        perf.set_names(Place::new(PoolId(1), ""), [("10".to_owned(), "i".to_owned())].into());
        let map = OsdMap::clone(&crate::state::State::default().osdmap);
        let all = (None, None);
        let stats = perf.report(&map, UTime::new(105, 0), "stat", &all, 0);
        assert_eq!(stats["stats"][0]["0/i"], json!([10.0, 0.0, 1000.0, 0.0, 2000.0, 0.0]));
        let counters = perf.report(&map, UTime::new(105, 0), "counter", &all, 0);
        assert_eq!(counters["counters"][0]["0/i"], json!([100, 0, 10_000, 0, 200_000, 0]));
        assert_eq!(counters["counter_descriptors"][4], "write_latency");
        // Idle for a period: no rates. Not there any more: nothing at all.
        perf.end_period(UTime::new(110, 0));
        assert_eq!(perf.report(&map, UTime::new(110, 0), "stat", &all, 0)["stats"], json!([]));
        let other = (Some(PoolId(2)), None);
        assert_eq!(perf.report(&map, UTime::new(110, 0), "counter", &other, 0)["counters"], json!([]));
        perf.set_names(Place::new(PoolId(1), ""), BTreeMap::new());
        assert_eq!(perf.report(&map, UTime::new(110, 0), "counter", &all, 0)["counters"], json!([]));
    }
}
