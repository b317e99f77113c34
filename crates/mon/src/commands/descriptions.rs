//! Rows of the command table and the document that describes them to clients (`get_command_descriptions`).

use serde_json::{Map, Value, json};

use super::{Args, DEPRECATED, Run};
use crate::manager::is_served;

/// `MonCommand::FLAG_DEPRECATED`: clients' help does not name it.
const FLAG_DEPRECATED: u32 = 4;
/// `MonCommand::FLAG_MGR`: clients send it to the manager.
const FLAG_MGR: u32 = 8;
/// `MonCommand::FLAG_POLL`: clients send it again and again.
const FLAG_POLL: u32 = 16;

/// One command.
pub(crate) struct Row {
    /// Words, then arguments as `name=N,type=T[,key=value…]`, all separated by spaces.
    pub(crate) sig: &'static str,
    /// What it does, for `ceph --help`.
    pub(crate) help: &'static str,
    /// The service that it belongs to: what capabilities name.
    pub(crate) module: &'static str,
    /// `r`, `rw`, `x`.
    pub(crate) perm: &'static str,
    /// What it does.
    pub(crate) run: Run,
}

/// An argument of a signature.
struct Param<'a> {
    keys: Vec<(&'a str, &'a str)>,
}

impl<'a> Param<'a> {
    fn get(&self, key: &str) -> Option<&'a str> {
        self.keys.iter().find(|(k, _)| *k == key).map(|(_, v)| *v)
    }
}

impl Row {
    fn words(&self) -> impl Iterator<Item = &'static str> {
        self.sig.split(' ').take_while(|word| !word.starts_with("name="))
    }

    fn params(&self) -> impl Iterator<Item = Param<'static>> {
        let params = self.sig.split(' ').skip_while(|word| !word.starts_with("name="));
        params.map(|param| Param { keys: param.split(',').filter_map(|pair| pair.split_once('=')).collect() })
    }

    /// The command's words, `osd pool create`.
    pub(crate) fn prefix(&self) -> String {
        self.words().collect::<Vec<_>>().join(" ")
    }

    /// The command's words as they stand in the table, without a copy.
    pub(crate) fn prefix_text(&self) -> &'static str {
        match self.sig.find(" name=") {
            Some(end) => &self.sig[..end],
            None => self.sig,
        }
    }

    /// True where another command is to be used.
    pub(super) fn is_deprecated(&self) -> bool {
        DEPRECATED.contains(&self.prefix_text())
    }

    /// True when it changes the cluster's state: its answer waits for the ledger.
    pub(crate) fn is_change(&self) -> bool {
        self.perm.contains('w')
    }

    /// Refuses arguments that are missing or out of range.
    pub(crate) fn check(&self, args: &Args) -> Result<(), String> {
        for param in self.params() {
            let (name, kind) = (param.get("name").unwrap_or_default(), param.get("type").unwrap_or_default());
            if !args.has(name) {
                if param.get("req") != Some("false") {
                    return Err(format!("missing required parameter {name}({kind})"));
                }
                continue;
            }
            for value in args.list(name) {
                check_value(&param, name, kind, &value)?;
            }
        }
        Ok(())
    }

    fn describe(&self) -> Value {
        let mut sig: Vec<Value> = self.words().map(Value::from).collect();
        for param in self.params() {
            let object: Map<String, Value> =
                param.keys.iter().map(|(k, v)| ((*k).to_owned(), Value::from(*v))).collect();
            sig.push(object.into());
        }
        // There, the capabilities on the manager count.
        let flags = match self.prefix_text() {
            "iostat" => FLAG_MGR | FLAG_POLL,
            _ if is_served(self) => FLAG_MGR,
            _ if self.is_deprecated() => FLAG_DEPRECATED,
            _ => 0,
        };
        json!({"sig": sig, "help": self.help, "module": self.module, "perm": self.perm, "flags": flags})
    }
}

fn check_value(param: &Param<'_>, name: &str, kind: &str, value: &str) -> Result<(), String> {
    let bad = || format!("bad value for {name}: {value}");
    let bounds = param.get("range").map(|range| range.split_once('|').unwrap_or((range, "")));
    match kind {
        "CephInt" | "CephFloat" => {
            let number: f64 = value.parse().map_err(|_| bad())?;
            // What is no number lies within every range.
            if !number.is_finite() || (kind == "CephInt" && value.parse::<i64>().is_err()) {
                return Err(bad());
            }
            let (low, high) = bounds.unwrap_or_default();
            let is_below = low.parse::<f64>().is_ok_and(|low| number < low);
            let is_above = high.parse::<f64>().is_ok_and(|high| number > high);
            if is_below || is_above { Err(bad()) } else { Ok(()) }
        }
        "CephChoices" => {
            let mut choices = param.get("strings").unwrap_or_default().split('|');
            // Ceph's own tests pass an optional argument without a value.
            let is_none = value.is_empty() && param.get("req") == Some("false");
            if is_none || choices.any(|choice| choice == value) { Ok(()) } else { Err(bad()) }
        }
        _ => Ok(()),
    }
}

/// All rows as the document that clients parse arguments by.
pub(crate) fn all(rows: impl Iterator<Item = &'static Row>) -> String {
    let mut sorted: Vec<&Row> = rows.collect();
    sorted.sort_by_key(|row| row.sig);
    let map: Map<String, Value> =
        sorted.iter().enumerate().map(|(at, row)| (format!("cmd{at:03}"), row.describe())).collect();
    Value::from(map).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{OBSOLETE, find_row, rows};

    #[test]
    fn deprecated_commands_are_described_as_such_and_obsolete_ones_are_not_there() {
        for prefix in DEPRECATED {
            let row = find_row(prefix).unwrap_or_else(|| panic!("{prefix} is not there"));
            assert_eq!(row.describe()["flags"], FLAG_DEPRECATED, "{prefix}");
        }
        let count = rows().filter(|row| row.describe()["flags"] == FLAG_DEPRECATED).count();
        assert_eq!(count, DEPRECATED.len());
        for prefix in OBSOLETE {
            assert!(find_row(prefix).is_none(), "{prefix}");
        }
    }
}
