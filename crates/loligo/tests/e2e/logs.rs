//! Logs of daemons that cannot start: what their files say, how much, and that one which cannot be written changes
//! nothing.

use std::{fs, path::PathBuf, process::Command};

use crate::cluster::{LOLIGO, temp_dir};

/// An OSD that has no store, with a folder of its own.
struct Daemon {
    dir: PathBuf,
    /// Standard error goes there.
    stderr: PathBuf,
}

impl Daemon {
    fn new() -> Daemon {
        let dir = temp_dir();
        Daemon { stderr: dir.join("stderr"), dir }
    }

    /// Runs it with these lines in its ceph.conf, and with `LOLIGO_LOG` if it is not empty: the exit status.
    fn run(&self, lines: &str, filter: &str) -> Option<i32> {
        let conf = self.dir.join("ceph.conf");
        fs::write(&conf, format!("[global]\nosd data = {}/none\n{lines}\n", self.dir.display())).unwrap();
        let stderr = fs::File::options().append(true).create(true).open(&self.stderr).unwrap();
        let mut osd = Command::new(LOLIGO);
        osd.args(["osd", "--id", "0", "--conf"]).arg(conf).env("LOLIGO_LOG", filter).stderr(stderr);
        osd.status().unwrap().code()
    }

    /// What it said on standard error since the last time.
    fn said(&self) -> String {
        let text = fs::read_to_string(&self.stderr).unwrap();
        fs::remove_file(&self.stderr).unwrap();
        text
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn a_log_that_cannot_be_written_changes_nothing() {
    let mut osd = Daemon::new();
    osd.stderr = "/dev/full".into();
    for log in ["", "log file = /dev/full"] {
        assert_eq!(osd.run(log, ""), Some(1), "{log}");
    }
}

#[test]
fn what_ends_a_daemon_is_in_its_log_and_on_standard_error() {
    let osd = Daemon::new();
    let log = osd.dir.join("log");
    let count = |text: &str| text.matches("none/block does not exist").count();
    assert_eq!(osd.run(&format!("log file = {}", log.display()), ""), Some(1));
    let written = fs::read_to_string(log).unwrap();
    assert_eq!((count(&written), count(&osd.said())), (1, 1), "{written}");
    osd.run("", "");
    assert_eq!(count(&osd.said()), 1, "standard error is the log");
}

#[test]
fn options_say_how_much_is_logged_unless_the_environment_does() {
    let osd = Daemon::new();
    let found = |lines, filter| {
        osd.run(lines, filter);
        let said = osd.said();
        ["the log's filter is info,", "LOLIGO_LOG is no filter"].map(|text| said.contains(text))
    };
    assert_eq!(found("", ""), [false, false]);
    assert_eq!(found("debug osd = 20", ""), [true, false]);
    assert_eq!(found("debug osd = 20", "info"), [false, false]);
    assert_eq!(found("debug osd = 20", "osd=loud"), [true, true]);
}
