//! What health says, as text and as JSON.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::{Value, json};
use types::UTime;

use super::Mute;

/// How grave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    Ok,
    Warn,
    Err,
}

impl Severity {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Severity::Ok => "HEALTH_OK",
            Severity::Warn => "HEALTH_WARN",
            Severity::Err => "HEALTH_ERR",
        }
    }

    fn tag(self) -> &'static str {
        match self {
            Severity::Ok => "[INF]",
            Severity::Warn => "[WRN]",
            Severity::Err => "[ERR]",
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) severity: Severity,
    pub(crate) summary: String,
    /// How much is wrong, in the check's own unit: a mute that is not sticky ends when it rises. 0 where nothing is
    /// counted; there, another summary ends the mute.
    pub(crate) count: usize,
    pub(crate) detail: Vec<String>,
}

/// All that is wrong, by code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) checks: BTreeMap<Cow<'static, str>, Check>,
    /// Codes that are muted, raised or not.
    pub(crate) muted: BTreeMap<String, Mute>,
    /// The time of day.
    pub(super) at: UTime,
}

impl Health {
    pub(super) fn add(
        &mut self,
        code: impl Into<Cow<'static, str>>,
        severity: Severity,
        summary: String,
        count: usize,
        detail: Vec<String>,
    ) {
        self.checks.insert(code.into(), Check { severity, summary, count, detail });
    }

    fn active(&self) -> impl Iterator<Item = (&Cow<'static, str>, &Check)> {
        self.checks.iter().filter(|(code, _)| !self.muted.contains_key(code.as_ref()))
    }

    pub(crate) fn status(&self) -> Severity {
        self.active().map(|(_, check)| check.severity).max().unwrap_or(Severity::Ok)
    }

    pub(crate) fn json(&self, with_detail: bool) -> Value {
        let mut checks = serde_json::Map::new();
        for (code, check) in &self.checks {
            let mut entry = json!({
                "severity": check.severity.name(),
                "summary": {"message": check.summary, "count": check.count},
            });
            if with_detail {
                let detail: Vec<Value> = check.detail.iter().map(|line| json!({"message": line})).collect();
                entry["detail"] = detail.into();
            }
            entry["muted"] = self.muted.contains_key(code.as_ref()).into();
            checks.insert(code.to_string(), entry);
        }
        let mutes: Vec<Value> = self.muted.iter().map(|(code, mute)| mute.json(code)).collect();
        json!({"status": self.status().name(), "checks": checks, "mutes": mutes})
    }

    /// `HEALTH_WARN 1 osds down; …`, with details behind.
    pub(crate) fn text(&self, with_detail: bool) -> String {
        let mut out = self.status().name().to_owned();
        let mut summaries: Vec<String> = self.active().map(|(_, check)| check.summary.clone()).collect();
        summaries.extend(self.muted_line());
        if !summaries.is_empty() {
            out = format!("{out} {}", summaries.join("; "));
        }
        if with_detail {
            for (code, check) in &self.checks {
                let muted = self.muted.get(code.as_ref()).map(|mute| mute.tag(self.at)).unwrap_or_default();
                out.push_str(&format!("\n{muted}{} {code}: {}", check.severity.tag(), check.summary));
                out.extend(check.detail.iter().map(|line| format!("\n    {line}")));
            }
        }
        out + "\n"
    }

    /// The lines of `ceph -s`.
    pub(crate) fn summary_lines(&self) -> Vec<String> {
        let mut out = vec![self.status().name().to_owned()];
        out.extend(self.active().map(|(_, check)| check.summary.clone()));
        out.extend(self.muted_line());
        out
    }

    /// `(muted: OSD_DOWN POOL_FULL(5m))`.
    fn muted_line(&self) -> Option<String> {
        let codes: Vec<String> = self.muted.iter().map(|(code, mute)| mute.short(code, self.at)).collect();
        (!codes.is_empty()).then(|| format!("(muted: {})", codes.join(" ")))
    }
}

/// `7/30 objects degraded (23.333%)`.
pub(crate) fn ratio_text(part: u64, whole: u64, what: &str) -> String {
    let percent = if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 };
    format!("{part}/{whole} objects {what} ({percent:.3}%)")
}
