//! The daemons of `loligo up`: each a thread or a process. All that were started are ended in order, whatever happens.

use std::{
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, ExitStatus},
    thread::JoinHandle,
};

use anyhow::{Context, Result, anyhow, bail};

use crate::{mon_daemon, osd_daemon, stop::Stop};

/// A daemon to be started.
pub(super) struct Start {
    /// `mon` or `osd`.
    pub(super) kind: &'static str,
    pub(super) id: String,
    pub(super) cpus: Vec<usize>,
}

pub(super) enum Daemon {
    Process(Child),
    Thread(Stop, JoinHandle<Result<()>>),
}

/// Those that run, with their names, in the order of their start.
#[derive(Default)]
pub(super) struct Daemons(Vec<(String, Daemon)>);

/// Starts all, the monitor first, waits until `wait` returns, and ends all; so it does with those that were started
/// when one could not be.
pub(super) fn run(
    starts: Vec<Start>,
    start: impl Fn(&Start) -> Result<Daemon>,
    wait: impl FnOnce(&mut Daemons) -> Result<()>,
) -> Result<()> {
    let mut daemons = Daemons::default();
    let started = starts.iter().try_for_each(|each| {
        let Start { kind, id, .. } = each;
        let daemon = start(each).with_context(|| format!("starting {kind}.{id}"))?;
        daemons.0.push((format!("{kind}.{id}"), daemon));
        Ok(())
    });
    let waited = started.and_then(|()| wait(&mut daemons));
    waited.and(daemons.end())
}

impl Daemons {
    /// Forgets those that have ended; an error if the cluster cannot do without one of them.
    pub(super) fn take_finished(&mut self) -> Result<()> {
        let is_finished = |(_, daemon): &mut (String, Daemon)| daemon.is_finished();
        for (name, stopped) in self.0.extract_if(.., is_finished) {
            let is_needed = name.starts_with("mon.") || matches!(stopped, Daemon::Thread(..));
            match stopped.wait().with_context(|| format!("{name} ended: its log says why")) {
                Err(error) if is_needed => return Err(error),
                Err(error) => tracing::error!("{error:#}"),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Ends the OSDs, all at once, and then the monitor, which they tell that they go.
    fn end(self) -> Result<()> {
        let (mons, osds) = self.0.into_iter().partition(|(name, _)| name.starts_with("mon."));
        end_all(osds).and(end_all(mons))
    }
}

fn end_all(mut daemons: Vec<(String, Daemon)>) -> Result<()> {
    daemons.iter_mut().for_each(|(_, daemon)| daemon.ask());
    let mut result = Ok(());
    for (name, daemon) in daemons {
        if let Err(error) = daemon.wait() {
            tracing::error!(%error, "{name} did not stop in order");
            result = result.and(Err(error));
        }
    }
    result
}

impl Start {
    pub(super) fn daemon(&self, conf: &Path, is_separate: bool) -> Result<Daemon> {
        if is_separate { self.process(conf) } else { self.thread(conf) }
    }

    fn process(&self, conf: &Path) -> Result<Daemon> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([self.kind, "--id", &self.id, "--conf"]).arg(conf);
        if !self.cpus.is_empty() {
            let list: Vec<String> = self.cpus.iter().map(usize::to_string).collect();
            command.args(["--cpus", &list.join(",")]);
        }
        // A group of its own: Ctrl-C reaches this process, which stops the others in order.
        command.process_group(0);
        Ok(Daemon::Process(command.spawn()?))
    }

    fn thread(&self, conf: &Path) -> Result<Daemon> {
        let stop = Stop::new()?;
        let (id, conf, own, cpus) = (self.id.clone(), conf.to_owned(), stop.clone(), self.cpus.clone());
        let (is_mon, cpu) = (self.kind == "mon", cpus.first().copied());
        let handle = reactor::spawn(&format!("{}.{id}", self.kind), cpu, move || {
            if is_mon {
                mon_daemon::serve(&id, &conf, &own, false)
            } else {
                osd_daemon::serve(&id, &conf, &own, false, &cpus)
            }
        })?;
        Ok(Daemon::Thread(stop, handle))
    }
}

impl Daemon {
    /// A process may be stopped or killed, and started again by hand: one that failed has ended. A thread ends on an
    /// operator's order alone, or as it failed.
    fn is_finished(&mut self) -> bool {
        match self {
            Daemon::Process(child) => child.try_wait().is_ok_and(|status| status.is_some_and(has_failed)),
            Daemon::Thread(_, handle) => handle.is_finished(),
        }
    }

    /// Asks it to stop in order.
    fn ask(&mut self) {
        match self {
            Daemon::Process(child) => {
                let has_ended = child.try_wait().is_ok_and(|status| status.is_some());
                if !has_ended && let Err(error) = reactor::terminate(child) {
                    tracing::warn!(%error, "a daemon cannot be asked to stop, and is waited for all the same");
                }
            }
            Daemon::Thread(stop, _) => stop.ask(),
        }
    }

    /// Waits until it has stopped.
    fn wait(self) -> Result<()> {
        match self {
            // One that was killed by hand is no error of this process.
            Daemon::Process(mut child) => match child.wait()? {
                status if has_failed(status) => bail!("{status}"),
                _ => Ok(()),
            },
            Daemon::Thread(_, handle) => handle.join().map_err(|_| anyhow!("its thread panicked"))?,
        }
    }
}

/// True for a process that ended by itself with an error, not by somebody's signal.
fn has_failed(status: ExitStatus) -> bool {
    status.code().is_some_and(|code| code != 0) || reactor::has_crashed(status)
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, Mutex, mpsc},
        time::Duration,
    };

    use super::*;

    fn ended(script: &str) -> Daemon {
        let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        child.wait().unwrap();
        Daemon::Process(child)
    }

    #[test]
    fn a_process_has_ended_when_it_failed_but_not_when_it_was_stopped_or_killed() {
        let scripts = ["exit 1", "ulimit -c 0; kill -ABRT $$", "exit 0", "kill -KILL $$", "kill -TERM $$"];
        assert_eq!(scripts.map(|script| ended(script).is_finished()), [true, true, false, false, false]);
        assert!(ended("exit 1").wait().is_err());
        assert!(ended("kill -KILL $$").wait().is_ok());
    }

    fn starts() -> Vec<Start> {
        let start = |kind, id: &str| Start { kind, id: id.to_owned(), cpus: Vec::new() };
        vec![start("mon", "a"), start("osd", "0"), start("osd", "1")]
    }

    /// A daemon that tells when it was asked to stop.
    fn thread(name: &str, told: &mpsc::Sender<String>) -> Daemon {
        let (stop, told, name) = (Stop::new().unwrap(), told.clone(), name.to_owned());
        let own = stop.clone();
        let handle = std::thread::spawn(move || {
            while !own.is_asked() {
                std::thread::yield_now();
            }
            Ok(told.send(name)?)
        });
        Daemon::Thread(stop, handle)
    }

    #[test]
    fn daemons_end_when_another_one_cannot_be_started() {
        let (told, tells) = mpsc::channel();
        let start = |start: &Start| match start.id.as_str() {
            "1" => bail!("no memory"),
            id => Ok(thread(id, &told)),
        };
        let error = run(starts(), start, |_| panic!("not all were started")).unwrap_err();
        assert_eq!(format!("{error:#}"), "starting osd.1: no memory");
        assert_eq!(tells.try_iter().collect::<Vec<_>>(), ["0", "a"]);
    }

    #[test]
    fn osds_are_asked_to_stop_before_any_is_waited_for() {
        let (told, _tells) = mpsc::channel();
        let (asked, is_asked) = mpsc::channel();
        // The one that was started last ends only once the first one was asked; or else, after a while, with an error.
        let is_asked = Arc::new(Mutex::new(is_asked));
        let start = |start: &Start| {
            if start.kind == "mon" {
                return Ok(thread("a", &told));
            }
            let (stop, asked, is_asked) = (Stop::new()?, asked.clone(), is_asked.clone());
            let (own, id) = (stop.clone(), start.id.clone());
            let handle = std::thread::spawn(move || {
                while !own.is_asked() {
                    std::thread::yield_now();
                }
                match id.as_str() {
                    "0" => Ok(asked.send(())?),
                    _ => Ok(is_asked.lock().unwrap().recv_timeout(Duration::from_secs(10))?),
                }
            });
            Ok(Daemon::Thread(stop, handle))
        };
        run(starts(), start, |_| Ok(())).unwrap();
    }
}
