//! Where the log goes: a daemon's `log file` of ceph.conf, else standard error.

use std::{
    env,
    fs::{self, File},
    io::{self, IsTerminal, Write, stderr},
    os::unix::fs::MetadataExt,
    panic,
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use tracing_subscriber::{EnvFilter, fmt::writer::BoxMakeWriter};

/// How often it is looked whether the log's file is still where it was.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The variable that filters the log whatever the options of daemons say.
const FILTER: &str = "LOLIGO_LOG";

/// Starts logging to the end of `file`, or to standard error without one. `LOLIGO_LOG` filters, as in
/// `LOLIGO_LOG=debug` or `LOLIGO_LOG=info,osd=debug`; without it, the daemons' `debug_*` options do.
pub fn start(file: Option<&Path>) -> Result<()> {
    let wanted = env::var_os(FILTER).filter(|text| !text.is_empty());
    let wanted = wanted.map(|text| EnvFilter::try_new(text.to_string_lossy()));
    let (filter, complaint, is_fixed) = match wanted {
        Some(Ok(filter)) => (filter, None, true),
        Some(Err(error)) => (EnvFilter::new("info"), Some(error), false),
        None => (EnvFilter::new("info"), None, false),
    };
    let (writer, is_terminal) = match file {
        Some(path) => (BoxMakeWriter::new(Mutex::new(open_log(path)?)), false),
        None => (BoxMakeWriter::new(stderr), stderr().is_terminal()),
    };
    let log = tracing_subscriber::fmt()
        .with_target(false)
        // A line that cannot be written is lost. To complain of it on standard error ends a daemon by a panic where
        // that cannot be written either: a full file system may well hold both.
        .log_internal_errors(false)
        .with_writer(writer)
        .with_ansi(is_terminal)
        .with_env_filter(filter)
        .with_filter_reloading();
    if !is_fixed {
        let filter = log.reload_handle();
        daemon::set_log_filter(move |text| {
            // Neither fails: the text consists of our crates' names, and the log lives as long as the process.
            if let Ok(new) = EnvFilter::try_new(text) {
                let _ = filter.reload(new);
            }
        });
    }
    log.init();
    if let Some(error) = complaint {
        tracing::warn!(%error, "{FILTER} is no filter, such as `debug` or `info,osd=debug`, and is not heeded");
    }
    if file.is_some() {
        log_panics();
    }
    Ok(())
}

fn open_log(path: &Path) -> Result<LogFile> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    LogFile::open(path, LOOK_INTERVAL).with_context(|| format!("opening the log {}", path.display()))
}

/// Has the log's file say of a panic what standard error says of it anyway.
fn log_panics() {
    let say = panic::take_hook();
    panic::set_hook(Box::new(move |facts| {
        let name = thread::current().name().unwrap_or("a thread").to_owned();
        tracing::error!("{name} {}", facts.to_string().replace('\n', " "));
        say(facts);
    }));
}

/// The end of a file that may be moved away, as `logrotate` does, and is made anew then: no daemon needs to be told.
struct LogFile {
    path: PathBuf,
    file: File,
    look_interval: Duration,
    looked: Instant,
}

fn open(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(path)
}

impl LogFile {
    fn open(path: &Path, look_interval: Duration) -> io::Result<LogFile> {
        Ok(LogFile { path: path.to_owned(), file: open(path)?, look_interval, looked: Instant::now() })
    }

    /// True if the path names the file that is open.
    fn is_in_place(&self) -> bool {
        let id = |facts: fs::Metadata| (facts.dev(), facts.ino());
        let here = fs::metadata(&self.path).map(id);
        matches!((here, self.file.metadata().map(id)), (Ok(here), Ok(open)) if here == open)
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.looked.elapsed() >= self.look_interval {
            self.looked = Instant::now();
            // Where it cannot be made anew, the old one is better than none.
            if !self.is_in_place()
                && let Ok(file) = open(&self.path)
            {
                self.file = file;
            }
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails where it fails")]

    use super::*;

    #[test]
    fn a_panic_is_in_the_log() {
        const FILE: &str = "LOLIGO_TEST_LOG_FILE";
        // Log and hook are the process': the test is its own child.
        if let Some(path) = env::var_os(FILE) {
            start(Some(Path::new(&path))).unwrap();
            let thread = thread::Builder::new().name("osd.7".to_owned());
            thread.spawn(|| panic!("what must not be")).unwrap().join().unwrap_err();
            return;
        }
        let path = env::temp_dir().join(format!("loligo-panic-{}.log", std::process::id()));
        let mut child = std::process::Command::new(env::current_exe().unwrap());
        child.args(["--exact", "logging::tests::a_panic_is_in_the_log"]).env(FILE, &path);
        assert!(child.output().unwrap().status.success());
        let text = fs::read_to_string(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let found = ["ERROR osd.7 panicked at", file!(), "what must not be"].map(|part| text.contains(part));
        assert_eq!((found, text.lines().count()), ([true; 3], 1), "{text}");
    }

    #[test]
    fn a_log_that_was_moved_away_is_made_anew() {
        let folder = env::temp_dir().join(format!("loligo-log-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (path, moved) = (folder.join("log"), folder.join("log.1"));
        let mut log = LogFile::open(&path, Duration::ZERO).unwrap();
        log.write_all(b"before\n").unwrap();
        fs::rename(&path, &moved).unwrap();
        log.write_all(b"after\n").unwrap();
        let text = |path: &Path| fs::read_to_string(path).unwrap();
        assert_eq!((text(&moved), text(&path)), ("before\n".to_owned(), "after\n".to_owned()));
        fs::remove_dir_all(&folder).unwrap();
    }
}
