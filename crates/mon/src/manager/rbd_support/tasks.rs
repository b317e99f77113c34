//! The tasks that exist, in the order in which they were added, and what comes of running them. One runs at a time; a
//! task that fails is tried again, later and later.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use types::{Errno, UTime};

use super::task::{Action, Refs, Task};

const RETRY_INTERVAL: Duration = Duration::from_secs(30);
const RETRY_INTERVAL_MAX: Duration = Duration::from_secs(300);
/// Ended tasks that are remembered, for clients that ask twice.
const COMPLETED_MAX: usize = 50;

type Key = (u64, String);

fn key_of(task: &Task) -> Key {
    (task.sequence, task.id.clone())
}

/// The tasks that exist, and those that ended lately.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// By number and id: tasks that different pools keep may have the same numbers.
    by_sequence: BTreeMap<Key, Task>,
    completed: VecDeque<Task>,
    /// The newest number given.
    sequence: u64,
    running: Option<Key>,
}

/// How a run of a task ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It is done, or cannot be done ever: with the reason.
    Gone(Option<&'static str>),
    /// It was cancelled meanwhile.
    Canceled,
    /// It is tried again.
    Again,
}

/// Why a task makes no sense any more, by what `rbd` exits with.
fn hopeless(action: Action, errno: Errno) -> Option<&'static str> {
    match (action, errno) {
        (_, Errno::ENOENT) => Some("Image does not exist"),
        (Action::Flatten, Errno::EINVAL) => Some("Image does not have parent"),
        (Action::MigrationExecute | Action::MigrationAbort, Errno::EINVAL) => Some("Image is not migrating"),
        (Action::MigrationCommit, Errno::EINVAL) => Some("Image is not migrating or migration not executed"),
        _ => None,
    }
}

/// An error as librbd's Python interface words it.
fn wording(errno: Errno, detail: &str) -> String {
    let what = match errno {
        Errno::EPERM => "RBD permission error",
        Errno::EBUSY => "RBD image is busy",
        Errno::ENOTEMPTY => "RBD image has snapshots",
        Errno::EROFS => "RBD read-only image",
        Errno::EINVAL => "RBD invalid argument",
        _ => "RBD error",
    };
    format!("[errno {}] {what} ({detail})", errno.0)
}

impl Tasks {
    pub(super) fn add(&mut self, task: Task) {
        self.sequence = self.sequence.max(task.sequence);
        self.by_sequence.insert(key_of(&task), task);
    }

    /// The number of the next task. It is used once, even if that task cannot be kept.
    pub(super) fn take_sequence(&mut self) -> u64 {
        loop {
            // Only a task that a pool keeps can have the last number there is; behind it the numbers begin anew.
            self.sequence = self.sequence.wrapping_add(1);
            let mut from = self.by_sequence.range((self.sequence, String::new())..);
            if from.next().is_none_or(|((taken, _), _)| *taken != self.sequence) {
                return self.sequence;
            }
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Task> {
        self.by_sequence.values()
    }

    pub(super) fn by_id(&self, id: &str) -> Option<&Task> {
        self.all().find(|task| task.id == id)
    }

    /// A task that exists, or has ended, with the refs that were asked for.
    pub(super) fn find(&self, asked: &Refs) -> Option<&Task> {
        self.all()
            .find(|task| task.refs.answers(asked))
            .or_else(|| self.completed.iter().rev().find(|task| task.refs.answers(asked)))
    }

    /// The next task to run, which counts as running from now on.
    pub(super) fn start(&mut self, now: UTime) -> Option<Task> {
        if self.running.is_some() {
            return None;
        }
        let is_due = |task: &&mut Task| !task.is_canceled && task.retry_at.is_none_or(|at| at <= now);
        let task = self.by_sequence.values_mut().find(is_due)?;
        task.progress = Some(0.0);
        self.running = Some(key_of(task));
        Some(task.clone())
    }

    pub(super) fn running(&self) -> Option<&Task> {
        self.by_sequence.get(self.running.as_ref()?)
    }

    pub(super) fn set_progress(&mut self, fraction: f64) {
        if let Some(task) = self.running.as_ref().and_then(|key| self.by_sequence.get_mut(key)) {
            task.progress = Some(fraction);
        }
    }

    /// Forgets a task; one that runs stays until it has ended. True when the running task must be stopped.
    pub(super) fn cancel(&mut self, task: &Task) -> bool {
        let key = key_of(task);
        if self.running.as_ref() == Some(&key) {
            if let Some(task) = self.by_sequence.get_mut(&key) {
                task.is_canceled = true;
            }
            return true;
        }
        self.by_sequence.remove(&key);
        false
    }

    /// The run has ended: `errno` is none where it succeeded, and `detail` is what `rbd` said last.
    pub(super) fn end(&mut self, now: UTime, errno: Option<Errno>, detail: &str) -> Option<(Task, Ended)> {
        let key = self.running.take()?;
        let task = self.by_sequence.get_mut(&key)?;
        task.progress = None;
        task.retry_attempts += 1;
        task.retry_at = Some(now.plus((RETRY_INTERVAL * task.retry_attempts).min(RETRY_INTERVAL_MAX)));
        if task.is_canceled {
            return Some((self.by_sequence.remove(&key)?, Ended::Canceled));
        }
        let hopeless = errno.and_then(|errno| hopeless(task.refs.action, errno));
        match errno {
            Some(errno) if hopeless.is_none() => {
                task.retry_message = Some(wording(errno, detail));
                return Some((task.clone(), Ended::Again));
            }
            _ => {}
        }
        let task = self.by_sequence.remove(&key)?;
        if hopeless.is_none() {
            self.completed.push_back(task.clone());
            if self.completed.len() > COMPLETED_MAX {
                self.completed.pop_front();
            }
        }
        Some((task, Ended::Gone(hopeless)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(count: u64) -> Tasks {
        let mut tasks = Tasks::default();
        for sequence in 1..=count {
            let refs = Refs {
                action: Action::Flatten,
                pool: "p".into(),
                nspace: String::new(),
                image_name: Some(format!("i{sequence}")),
                image_id: Some("1".into()),
            };
            tasks.add(Task::new(sequence, format!("id{sequence}"), "m".into(), refs));
        }
        tasks
    }

    fn at(secs: u32) -> UTime {
        UTime::new(secs, 0)
    }

    #[test]
    fn one_runs_at_a_time_and_failures_come_again() {
        let mut all = tasks(2);
        assert_eq!(all.start(at(0)).map(|t| t.sequence), Some(1));
        assert_eq!(all.start(at(0)), None);
        let (task, ended) = all.end(at(10), Some(Errno::EBUSY), "error").unwrap();
        assert_eq!(ended, Ended::Again);
        assert_eq!(task.retry_message.as_deref(), Some("[errno 16] RBD image is busy (error)"));
        assert_eq!((task.retry_attempts, task.retry_at), (1, Some(at(40))));
        assert_eq!(all.start(at(10)).map(|t| t.sequence), Some(2), "others go on");
        assert_eq!(all.end(at(11), None, "").unwrap().1, Ended::Gone(None));
        assert_eq!(all.start(at(39)), None);
        assert_eq!(all.start(at(40)).map(|t| t.sequence), Some(1));
        assert_eq!(
            all.end(at(41), Some(Errno::EINVAL), "").unwrap().1,
            Ended::Gone(Some("Image does not have parent"))
        );
        // A client that asks twice finds a task that succeeded, but not one that failed.
        let asked = |image: &str| {
            let mut refs = tasks(1).by_id("id1").unwrap().refs.clone();
            (refs.image_name, refs.image_id) = (Some(image.to_owned()), None);
            refs
        };
        assert!(all.find(&asked("i2")).is_some() && all.find(&asked("i1")).is_none());
        assert_eq!(all.take_sequence(), 3);
    }

    #[test]
    fn behind_the_last_number_those_come_that_no_task_has() {
        let mut all = tasks(2);
        let last = Task { sequence: u64::MAX, id: "last".into(), ..all.by_id("id1").unwrap().clone() };
        all.add(last);
        assert_eq!([all.take_sequence(), all.take_sequence()], [0, 3]);
    }

    #[test]
    fn what_runs_is_forgotten_when_it_has_stopped() {
        let mut all = tasks(2);
        all.start(at(0)).unwrap();
        let [one, two] = [1, 2].map(|n| all.by_id(&format!("id{n}")).cloned().unwrap());
        assert!(all.cancel(&one) && !all.cancel(&two));
        assert_eq!(all.all().map(|t| t.sequence).collect::<Vec<_>>(), [1]);
        assert_eq!(all.end(at(1), Some(Errno::EIO), "").unwrap().1, Ended::Canceled);
        assert_eq!(all.all().count(), 0);
    }
}
