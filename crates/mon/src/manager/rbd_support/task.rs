//! A task: what is to be done with an image in the background. It is kept as JSON in the object `rbd_task` of its
//! pool and namespace until it is done, under Ceph's keys.

use serde_json::{Map, Value, json};
use types::UTime;

use super::{TEXT_BYTES_MAX, spec::is_plain};
use crate::format::python_line;

/// The object that keeps the tasks of a namespace.
pub(super) const OID: &str = "rbd_task";

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Flatten,
    Remove,
    TrashRemove,
    MigrationExecute,
    MigrationCommit,
    MigrationAbort,
}

const ACTIONS: [(Action, &str); 6] = [
    (Action::Flatten, "flatten"),
    (Action::Remove, "remove"),
    (Action::TrashRemove, "trash remove"),
    (Action::MigrationExecute, "migrate execute"),
    (Action::MigrationCommit, "migrate commit"),
    (Action::MigrationAbort, "migrate abort"),
];

impl Action {
    pub(super) fn as_str(self) -> &'static str {
        ACTIONS.iter().find(|(action, _)| *action == self).map_or("", |(_, name)| name)
    }

    fn parse(text: &str) -> Option<Action> {
        ACTIONS.iter().find(|(_, name)| *name == text).map(|(action, _)| *action)
    }
}

/// What a task is about: two tasks with the same refs are one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refs {
    pub(super) action: Action,
    pub(super) pool: String,
    pub(super) nspace: String,
    pub(super) image_name: Option<String>,
    pub(super) image_id: Option<String>,
}

impl Refs {
    pub(super) fn to_value(&self) -> Value {
        let mut out = json!({
            "action": self.action.as_str(),
            "pool_name": self.pool,
            "pool_namespace": self.nspace,
        });
        if let Some(name) = &self.image_name {
            out["image_name"] = name.as_str().into();
        }
        if let Some(id) = &self.image_id {
            out["image_id"] = id.as_str().into();
        }
        out
    }

    fn from_value(value: &Value) -> Option<Refs> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        Some(Refs {
            action: Action::parse(&text("action")?)?,
            pool: text("pool_name")?,
            nspace: text("pool_namespace")?,
            image_name: text("image_name"),
            image_id: text("image_id"),
        })
    }

    /// True when a task with these refs is what `asked` asks for. The client that asks may not know the image's id: the
    /// image may be gone by now.
    pub(super) fn answers(&self, asked: &Refs) -> bool {
        let mut own = self.clone();
        if asked.image_id.is_none() {
            own.image_id = None;
        }
        own == *asked
    }
}

/// A task, with its state.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Task {
    pub(super) sequence: u64,
    pub(super) id: String,
    pub(super) message: String,
    pub(super) refs: Refs,
    /// Why the task is tried again.
    pub(super) retry_message: Option<String>,
    pub(super) retry_attempts: u32,
    /// The task is not tried again before this time.
    pub(super) retry_at: Option<UTime>,
    /// From 0 to 1 while it runs.
    pub(super) progress: Option<f64>,
    pub(super) is_canceled: bool,
}

impl Task {
    pub(super) fn new(sequence: u64, id: String, message: String, refs: Refs) -> Task {
        Task {
            sequence,
            id,
            message,
            refs,
            retry_message: None,
            retry_attempts: 0,
            retry_at: None,
            progress: None,
            is_canceled: false,
        }
    }

    /// Its key in the object.
    pub(super) fn key(&self) -> String {
        format!("{:016X}", self.sequence)
    }

    pub(super) fn to_value(&self) -> Value {
        let mut out = Map::new();
        let mut put = |key: &str, value: Value| out.insert(key.to_owned(), value);
        put("sequence", self.sequence.into());
        put("id", self.id.as_str().into());
        put("message", self.message.as_str().into());
        put("refs", self.refs.to_value());
        if let Some(message) = &self.retry_message {
            put("retry_message", message.as_str().into());
        }
        if self.retry_attempts > 0 {
            put("retry_attempts", self.retry_attempts.into());
        }
        if let Some(at) = self.retry_at {
            // Without a zone, as Python shows its times.
            put("retry_time", at.to_string().trim_end_matches("+0000").into());
        }
        if let Some(progress) = self.progress {
            put("in_progress", true.into());
            put("progress", progress.into());
        }
        if self.is_canceled {
            put("canceled", true.into());
        }
        out.into()
    }

    pub(super) fn to_text(&self) -> String {
        python_line(&self.to_value())
    }

    /// Reads what is kept.
    pub(super) fn from_text(text: &str) -> Option<Task> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let value: Value = serde_json::from_str(text).ok()?;
        let string = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let refs = Refs::from_value(value.get("refs")?)?;
        Some(Task::new(value.get("sequence")?.as_u64()?, string("id")?, string("message")?, refs))
    }

    /// True for a task that was found where it belongs, under its own key. A client that may write to that object can
    /// leave any task there, and the manager, which runs it, may do more than that client: the task must not lead out
    /// of the pool and namespace.
    pub(super) fn belongs(&self, pool: &str, nspace: &str, key: &str) -> bool {
        let is_whole = |name: &Option<String>| name.as_ref().is_none_or(|name| is_plain(name));
        self.refs.pool == pool
            && self.refs.nspace == nspace
            && is_whole(&self.refs.image_name)
            && is_whole(&self.refs.image_id)
            && self.key() == key
    }

    /// The arguments with which `rbd` does the task. Names are given separately, so that none is taken for a part of
    /// another, and each as one word with its option: a word of its own may be taken for an option of Ceph's, wherever
    /// it stands.
    pub(super) fn command(&self) -> Vec<String> {
        let words: &[&str] = match self.refs.action {
            Action::Flatten => &["flatten"],
            Action::Remove => &["rm"],
            Action::TrashRemove => &["trash", "rm"],
            Action::MigrationExecute => &["migration", "execute"],
            Action::MigrationCommit => &["migration", "commit"],
            Action::MigrationAbort => &["migration", "abort"],
        };
        let mut out: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let mut option = |name: &str, value: &str| out.push(format!("{name}={value}"));
        option("--pool", &self.refs.pool);
        if !self.refs.nspace.is_empty() {
            option("--namespace", &self.refs.nspace);
        }
        match (self.refs.action, &self.refs.image_name, &self.refs.image_id) {
            (Action::TrashRemove, _, Some(id)) => option("--image-id", id),
            (_, Some(name), _) => option("--image", name),
            _ => {}
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: &str = r#"{"sequence": 10, "id": "a", "message": "Flattening image rbd/n/b", "refs": {"action": "flatten", "pool_name": "rbd", "pool_namespace": "n", "image_name": "b", "image_id": "104"}}"#;

    #[test]
    fn tasks_are_kept_as_ceph_keeps_them() {
        let mut task = Task::from_text(KEPT).unwrap();
        assert_eq!((task.key().as_str(), task.to_text().as_str()), ("000000000000000A", KEPT));
        assert_eq!(task.command().join(" "), "flatten --pool=rbd --namespace=n --image=b");
        task.retry_attempts = 1;
        task.retry_at = Some(UTime::new(1_795_326_875, 847_179_000));
        task.progress = Some(0.25);
        let more = r#""retry_attempts": 1, "retry_time": "2026-11-22T05:54:35.847179", "in_progress": true, "progress": 0.25}"#;
        assert!(task.to_text().ends_with(more), "{}", task.to_text());
        assert!(Task::from_text("{}").is_none() && Task::from_text(&KEPT.replace("flatten", "x")).is_none());
        let belongs = |task: &Task| task.belongs("rbd", "n", "000000000000000A");
        assert!(belongs(&task));
        for odd in ["--log-file=/x", "-i", "a/b", "a@s", "", "a\0"] {
            let mut other = task.clone();
            other.refs.image_name = Some(odd.to_owned());
            assert!(!belongs(&other), "{odd:?}");
            (other.refs.image_name, other.refs.image_id) = (None, Some(odd.to_owned()));
            assert!(!belongs(&other), "{odd:?}");
        }
        assert!(Task::from_text(&KEPT.replace("Flattening", &"x".repeat(TEXT_BYTES_MAX))).is_none());
        let mut asked = task.refs.clone();
        asked.image_id = None;
        assert!(task.refs.answers(&asked) && !asked.answers(&task.refs));
    }
}
