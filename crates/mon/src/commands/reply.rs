//! What a command answers.

use bytes::Bytes;
use serde_json::Value;
use types::Errno;

use super::Args;
use crate::format;

/// Result, a line for the operator, and output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    /// 0 or a negative errno.
    pub(crate) result: i32,
    /// Goes to stderr.
    pub(crate) status: String,
    /// Goes to stdout.
    pub(crate) output: Bytes,
    /// This is not the answer yet: it comes when the work is done.
    pub(crate) is_later: bool,
}

/// What a command answers, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    /// Once all is committed that was changed so far, by this command or before.
    pub(crate) waits: bool,
}

/// What was not even begun, or changes nothing, is answered at once.
impl From<Reply> for Answer {
    fn from(reply: Reply) -> Answer {
        Answer { reply, waits: false }
    }
}

/// What answers a command that ends at its first refusal.
impl From<Result<Reply, Reply>> for Reply {
    fn from(result: Result<Reply, Reply>) -> Reply {
        result.unwrap_or_else(|refusal| refusal)
    }
}

impl Reply {
    /// A command that is done; `status` says what.
    pub(crate) fn done(status: impl Into<String>) -> Reply {
        Reply { status: status.into(), ..Reply::default() }
    }

    /// A command that is refused.
    pub(crate) fn fail(errno: Errno, status: impl Into<String>) -> Reply {
        Reply { result: errno.negated(), status: status.into(), ..Reply::default() }
    }

    /// The answer comes later.
    pub(crate) fn later() -> Reply {
        Reply { is_later: true, ..Reply::default() }
    }

    /// Output as it is.
    pub(crate) fn text(output: impl Into<Bytes>) -> Reply {
        Reply { output: output.into(), ..Reply::default() }
    }

    /// Output as JSON or XML when the caller asked for a format, else as text.
    pub(crate) fn show(args: &Args, json: impl FnOnce() -> Value, text: impl FnOnce() -> String) -> Reply {
        match args.text("format").as_deref() {
            Some("json") => Reply::text(format!("{}\n", json())),
            Some("json-pretty") => Reply::text(format!("{}\n", format::pretty(&json()))),
            Some("xml") => Reply::text(format::xml(args.prefix(), &json(), false) + "\n"),
            Some("xml-pretty") => Reply::text(format::xml(args.prefix(), &json(), true) + "\n"),
            Some(_) | None => Reply::text(text()),
        }
    }

    /// JSON in any case: commands that have no plain form print it indented.
    pub(crate) fn json(args: &Args, json: Value) -> Reply {
        let plain = format::pretty(&json) + "\n";
        Reply::show(args, || json, || plain)
    }

    /// This reply with a line for the operator.
    pub(crate) fn with_status(self, status: impl Into<String>) -> Reply {
        Reply { status: status.into(), ..self }
    }

    /// What a module of the manager prints: a line, or several.
    pub(crate) fn module(text: String) -> Reply {
        if text.is_empty() { Reply::default() } else { Reply::text(text + "\n") }
    }

    /// With an empty line behind: some listings of the stock monitor end so.
    pub(crate) fn padded(self) -> Reply {
        let mut output = self.output.to_vec();
        output.push(b'\n');
        Reply { output: output.into(), ..self }
    }
}
