//! `ceph tell DAEMON config …` and `injectargs`: what every daemon answers in the same way.
//!
//! Authority: `CephContext::do_command` and `md_config_t` of 16.2.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::{OptionInfo, OptionKind, OptionSetError, Settings, find_option, options};
use crate::Errno;

/// The commands, as words and arguments (`name=N,type=T[,key=value…]`), and what they do.
pub const CONFIG_COMMANDS: &[(&str, &str)] = &[
    ("config show", "dump current config settings"),
    ("config help name=var,type=CephString,req=false", "get config setting schema and descriptions"),
    (
        "config set name=var,type=CephString name=val,type=CephString,n=N",
        "config set <field> <val> [<val> ...]: set a config variable",
    ),
    ("config unset name=var,type=CephString", "config unset <field>: unset a config variable"),
    ("config get name=var,type=CephString", "config get <field>: get the config value"),
    ("config diff", "dump diff of current config and default config"),
    (
        "config diff get name=var,type=CephString",
        "dump diff get <field>: dump diff of current and default config setting <field>",
    ),
    (
        "injectargs name=injected_args,type=CephString,n=N",
        "inject configuration arguments into running daemon",
    ),
];

/// What a command answers.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigReply {
    /// A line for the operator.
    pub status: String,
    /// The document.
    pub output: Value,
    /// Options were set: the daemon has to read again those that it uses.
    pub is_changed: bool,
}

/// A refusal: errno and the line for the operator.
type Refusal = (Errno, String);

/// An option's value in JSON, in the type of its option.
fn typed(info: Option<&OptionInfo>, text: &str) -> Value {
    let number = |parsed: Option<Value>| parsed.unwrap_or_else(|| text.into());
    match info.map(|info| info.kind) {
        Some(OptionKind::Bool) => (text == "true").into(),
        Some(OptionKind::Int | OptionKind::Uint) => number(text.parse::<i64>().ok().map(Value::from)),
        Some(OptionKind::Float) => number(text.parse::<f64>().ok().map(|n| match n.fract() {
            0.0 => Value::from(n as i64),
            _ => Value::from(n),
        })),
        _ => text.into(),
    }
}

/// The document of `config help`.
pub fn option_json(info: &OptionInfo) -> Value {
    let words = |words: &mut dyn Iterator<Item = &'static str>| words.collect::<Vec<_>>();
    let bound = |text: &str| if text.is_empty() { "".into() } else { typed(Some(info), text) };
    let mut out = json!({
        "name": info.name,
        "type": info.kind.as_str(),
        "level": info.level,
        "desc": "",
        "long_desc": "",
        "default": typed(Some(info), info.default),
        "daemon_default": bound(info.daemon_default),
        "tags": words(&mut info.tags()),
        "services": words(&mut info.services()),
        "see_also": words(&mut info.see_also()),
    });
    if info.kind == OptionKind::Str {
        out["enum_values"] = json!(words(&mut info.choices()));
    }
    out["min"] = bound(info.min);
    out["max"] = bound(info.max);
    out["can_update_at_runtime"] = info.can_update_at_runtime.into();
    out["flags"] = json!(words(&mut info.flags()));
    out
}

/// The daemon that goes by the settings.
pub struct ConfigOwner<'a> {
    /// `osd.0`.
    pub name: &'a str,
    /// The cluster, as text.
    pub fsid: &'a str,
    /// True for options that a running daemon looks at.
    pub is_observed: &'a dyn Fn(&str) -> bool,
}

impl ConfigOwner<'_> {
    /// Runs a command of [`CONFIG_COMMANDS`]; None for another one. `args` gives an argument's values.
    pub fn run(
        &self,
        settings: &mut Settings,
        prefix: &str,
        args: &dyn Fn(&str) -> Vec<String>,
    ) -> Option<Result<ConfigReply, Refusal>> {
        let show = |output| Ok(ConfigReply { status: String::new(), output, is_changed: false });
        let var = || args("var").into_iter().next().unwrap_or_default();
        Some(match prefix {
            "config show" => show(self.show(settings)),
            "config get" => self.get(settings, &var()).and_then(show),
            "config help" => help(args("var").first().map(String::as_str)).and_then(show),
            // In Ceph, too, the form for one option shows all.
            "config diff" | "config diff get" => show(diff(settings)),
            "config set" => self.set(settings, &var(), &args("val").join(" ")),
            "config unset" => self.unset(settings, &var()),
            "injectargs" => self.inject(settings, &args("injected_args").join(" ")),
            _ => return None,
        })
    }

    /// What is known without a table.
    fn identity(&self, name: &str) -> Option<String> {
        match name {
            "name" => Some(self.name.to_owned()),
            "cluster" => Some("ceph".to_owned()),
            "fsid" => Some(self.fsid.to_owned()),
            _ => None,
        }
    }

    fn show(&self, settings: &Settings) -> Value {
        let mut out = json!({"name": self.name, "cluster": "ceph"});
        for shown in settings.all() {
            let value = self.identity(shown.name);
            let value = value.or_else(|| Some(shown.values.first()?.1.clone()));
            out[shown.name] = value.unwrap_or_default().into();
        }
        out
    }

    fn get(&self, settings: &Settings, name: &str) -> Result<Value, Refusal> {
        match self.identity(name).or_else(|| settings.get(name)) {
            Some(value) => Ok(json!({name: value})),
            None => Err((Errno::ENOENT, format!("error getting '{name}': (2) No such file or directory"))),
        }
    }

    /// `NAME = 'VALUE' `, and a note if no code of the daemon observes the option.
    fn report(&self, name: &str, value: &str) -> String {
        let tail = if (self.is_observed)(name) { "" } else { "(not observed, change may require restart) " };
        format!("{name} = '{value}' {tail}")
    }

    fn set(&self, settings: &mut Settings, name: &str, text: &str) -> Result<ConfigReply, Refusal> {
        let value = settings.inject(name, text).map_err(|error| {
            let errno = match error {
                // What is needed to find the monitors cannot be parsed as another value in Ceph either.
                OptionSetError::NotAtRuntime(_) if find_option(name).is_some_and(OptionInfo::is_local) => {
                    Errno::EINVAL
                }
                other => other.errno(),
            };
            let code = -errno.negated();
            (errno, format!("error setting '{name}' to '{text}': ({code}) {errno}"))
        })?;
        let output = json!({"success": self.report(name, &value)});
        Ok(ConfigReply { status: String::new(), output, is_changed: true })
    }

    fn unset(&self, settings: &mut Settings, name: &str) -> Result<ConfigReply, Refusal> {
        if find_option(name).is_none() {
            return Err((Errno::EINVAL, format!("error unsetting '{name}': (22) Invalid argument")));
        }
        let value = settings.uninject(name).or_else(|| settings.get(name)).unwrap_or_default();
        Ok(ConfigReply { status: self.report(name, &value), output: json!({}), is_changed: true })
    }

    /// `--name value --other=value --no-switch`.
    fn inject(&self, settings: &mut Settings, text: &str) -> Result<ConfigReply, Refusal> {
        let mut words = text.split_whitespace().peekable();
        let mut status = String::new();
        while let Some(word) = words.next() {
            let parsed = word.strip_prefix("--").map(|word| match word.split_once('=') {
                Some((name, value)) => (name.replace('-', "_"), Some(value.to_owned())),
                None => (word.replace('-', "_"), None),
            });
            let switched_off = parsed.as_ref().and_then(|(name, _)| find_option(name.strip_prefix("no_")?));
            let known = parsed.as_ref().and_then(|(name, _)| find_option(name));
            let (info, value) = match (known, switched_off, parsed) {
                (Some(info), _, Some((_, Some(value)))) => (info, value),
                (Some(info), _, Some((_, None))) => {
                    let value = words.next_if(|next| !next.starts_with("--")).map(str::to_owned);
                    let value = value.or((info.kind == OptionKind::Bool).then(|| "true".to_owned()));
                    let Some(value) = value else {
                        let why = format!("Option --{} requires an argument.\n", info.name);
                        let text =
                            format!("Parse error setting {} to '' using injectargs ({why}).\n", info.name);
                        return Err((Errno::EINVAL, text));
                    };
                    (info, value)
                }
                (None, Some(info), _) if info.kind == OptionKind::Bool => (info, "false".to_owned()),
                _ => {
                    let rest = [word].into_iter().chain(words).collect::<Vec<_>>().join(",");
                    return Err((Errno::EINVAL, format!("{status} failed to parse arguments: {rest}\n")));
                }
            };
            let value = settings.inject(info.name, &value).map_err(|error| {
                let text =
                    format!("Parse error setting {} to '{value}' using injectargs ({error}).\n", info.name);
                (error.errno(), text)
            })?;
            // Writing to a text cannot fail.
            let _ = write!(status, "{}", self.report(info.name, &value));
        }
        Ok(ConfigReply { status, output: json!({}), is_changed: true })
    }
}

fn help(name: Option<&str>) -> Result<Value, Refusal> {
    match name {
        None => Ok(json!({"options": options().map(option_json).collect::<Vec<_>>()})),
        Some(name) => match find_option(name) {
            Some(info) => Ok(json!({"option": option_json(info)})),
            None => Err((Errno::ENOENT, format!("Setting not found: '{name}'"))),
        },
    }
}

fn diff(settings: &Settings) -> Value {
    let mut out = Map::new();
    for shown in settings.changed() {
        let info = find_option(shown.name);
        let mut values: Map<String, Value> = Map::new();
        for (level, value) in shown.values.iter().rev() {
            values.insert(level.as_str().to_owned(), typed(info, value));
        }
        if let Some((_, value)) = shown.values.first() {
            values.insert("final".to_owned(), typed(info, value));
        }
        out.insert(shown.name.to_owned(), values.into());
    }
    json!({"diff": out})
}
