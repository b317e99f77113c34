//! How much the parts of the program log: Ceph's `debug_*` options, of all daemons of the process, as one filter.

use std::{
    collections::BTreeMap,
    sync::{Mutex, OnceLock, PoisonError},
};

use types::EntityName;

/// Parts of the program, which are its crates, by the option that stands for them.
const PARTS: [(&str, &[&str]); 3] = [
    ("debug_mon", &["daemon", "mon"]),
    ("debug_ms", &["auth", "msgr", "net", "reactor"]),
    ("debug_osd", &["classes", "daemon", "osd", "pg", "shard", "store"]),
];

/// What a part logs, from the least on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verbosity {
    Info,
    Debug,
    Trace,
}

impl Verbosity {
    /// Of an option's value: `N`, or `N/M` where Ceph keeps more in memory than it writes, which nothing here does.
    fn of(value: &str) -> Verbosity {
        match value.split('/').next().unwrap_or_default().parse::<u32>() {
            Ok(11..) => Verbosity::Trace,
            Ok(2..=10) => Verbosity::Debug,
            _ => Verbosity::Info,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Verbosity::Info => "info",
            Verbosity::Debug => "debug",
            Verbosity::Trace => "trace",
        }
    }
}

/// What each daemon of the process wants of each part. The one that wants most of a part gets it: there is one log.
#[derive(Debug, Default)]
struct LogLevels(BTreeMap<EntityName, BTreeMap<&'static str, Verbosity>>);

impl LogLevels {
    /// Takes the options of one daemon, which `option` gives.
    fn set(&mut self, who: &EntityName, option: &dyn Fn(&str) -> Option<String>) {
        let mut wanted = BTreeMap::new();
        for (name, parts) in PARTS {
            let verbosity = Verbosity::of(&option(name).unwrap_or_default());
            for part in parts {
                let most = wanted.entry(*part).or_insert(verbosity);
                *most = verbosity.max(*most);
            }
        }
        self.0.insert(who.clone(), wanted);
    }

    /// As the filter of the log says it: `info,osd=debug`.
    fn filter(&self) -> String {
        let mut most: BTreeMap<&str, Verbosity> = BTreeMap::new();
        for (part, verbosity) in self.0.values().flatten() {
            let of_part = most.entry(part).or_insert(*verbosity);
            *of_part = (*verbosity).max(*of_part);
        }
        let more = most.into_iter().filter(|(_, verbosity)| *verbosity != Verbosity::Info);
        let more = more.map(|(part, verbosity)| format!(",{part}={}", verbosity.as_str()));
        std::iter::once("info".to_owned()).chain(more).collect()
    }
}

/// The log of this program.
struct Log {
    levels: Mutex<LogLevels>,
    set_filter: Box<dyn Fn(&str) + Send + Sync>,
}

static LOG: OnceLock<Log> = OnceLock::new();

/// Says how the log of this program gets another filter, as in `info,osd=debug`: from now on it follows the options of
/// the daemons. The first word counts.
pub fn set_log_filter(set_filter: impl Fn(&str) + Send + Sync + 'static) {
    LOG.get_or_init(|| Log { levels: Mutex::default(), set_filter: Box::new(set_filter) });
}

/// Has the log follow the options of one daemon, which `option` gives.
pub(crate) fn follow(who: &EntityName, option: impl Fn(&str) -> Option<String>) {
    let Some(log) = LOG.get() else { return };
    // Held until the filter is set, so that the last word is the newest.
    let mut levels = log.levels.lock().unwrap_or_else(PoisonError::into_inner);
    let before = levels.filter();
    levels.set(who, &option);
    let filter = levels.filter();
    if filter != before {
        (log.set_filter)(&filter);
        tracing::info!(%who, "the log's filter is {filter}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(levels: &mut LogLevels, who: &str, options: &[(&str, &str)]) {
        let find = |name: &str| Some(options.iter().find(|(known, _)| *known == name)?.1.to_owned());
        levels.set(&EntityName::parse(who).unwrap(), &find);
    }

    #[test]
    fn options_become_levels_of_the_crates_that_they_stand_for() {
        let of = |name, value| {
            let mut levels = LogLevels::default();
            set(&mut levels, "osd.0", &[(name, value)]);
            levels.filter()
        };
        for quiet in ["0/0", "1/5", "1/20", "", "x"] {
            assert_eq!(of("debug_osd", quiet), "info", "{quiet}");
        }
        assert_eq!(of("debug_mon", "10/10"), "info,daemon=debug,mon=debug");
        assert_eq!(of("debug_ms", "2"), "info,auth=debug,msgr=debug,net=debug,reactor=debug");
        let osd = "info,classes=trace,daemon=trace,osd=trace,pg=trace,shard=trace,store=trace";
        assert_eq!(of("debug_osd", "11/5"), osd);
    }

    #[test]
    fn the_daemon_that_wants_most_gets_it() {
        let mut levels = LogLevels::default();
        assert_eq!(levels.filter(), "info");
        set(&mut levels, "mon.a", &[("debug_mon", "20/20"), ("debug_ms", "1/5")]);
        set(&mut levels, "osd.0", &[("debug_ms", "5/5")]);
        let loud = "info,auth=debug,daemon=trace,mon=trace,msgr=debug,net=debug,reactor=debug";
        assert_eq!(levels.filter(), loud);
        set(&mut levels, "osd.0", &[]);
        assert_eq!(levels.filter(), "info,daemon=trace,mon=trace");
    }

    /// The one test of the process' log, which is shared.
    #[test]
    fn the_log_is_told_of_another_filter_only() {
        let told = std::sync::Arc::new(Mutex::new(Vec::new()));
        let hears = told.clone();
        set_log_filter(move |filter| hears.lock().unwrap().push(filter.to_owned()));
        let who = EntityName::parse("osd.999").unwrap();
        for value in ["1/5", "5/5", "5/5", "0/0"] {
            follow(&who, |name| (name == "debug_ms").then(|| value.to_owned()));
        }
        let net = "info,auth=debug,msgr=debug,net=debug,reactor=debug";
        assert_eq!(*told.lock().unwrap(), [net, "info"]);
    }
}
