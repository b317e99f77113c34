//! The arguments of a command: one JSON document.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Arguments by name. Clients differ: some send values as text, some in their own JSON type.
#[derive(Clone, Debug)]
pub(crate) struct Args(Map<String, Value>);

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Array(_) | Value::Object(_) | Value::Null => None,
    }
}

/// A command as logs and lists of requests may show it. What an option or a key is set to may be a secret: then only
/// the name is shown, in Ceph's form (`MMonCommand::print`).
pub(crate) fn words_for_logs(cmd: &[String]) -> String {
    let args = Args::parse(cmd);
    let named = args.as_ref().and_then(|args| match args.prefix() {
        // A command to a daemon to set an option calls the option's name `var`.
        "config set" => Some((args, if args.has("name") { "name" } else { "var" })),
        "config-key set" | "config-key put" => Some((args, "key")),
        _ => None,
    });
    match named {
        Some((args, what)) => {
            format!("[{{prefix={}, {what}={}}}]", args.prefix(), args.text(what).unwrap_or_default())
        }
        None => cmd.join(" "),
    }
}

impl Args {
    /// Reads a command: JSON, in one or several strings. What follows it is ignored: some clients close one
    /// quotation mark too many.
    pub(crate) fn parse(cmd: &[String]) -> Option<Args> {
        let text = cmd.concat();
        match serde_json::Deserializer::from_str(&text).into_iter().next()?.ok()? {
            Value::Object(map) if map.get("prefix").is_some_and(Value::is_string) => Some(Args(map)),
            _ => None,
        }
    }

    /// How long all of it is as JSON.
    pub(crate) fn json_len(&self) -> usize {
        serde_json::to_string(&self.0).map_or(usize::MAX, |text| text.len())
    }

    /// The command's words.
    pub(crate) fn prefix(&self) -> &str {
        self.0.get("prefix").and_then(Value::as_str).unwrap_or_default()
    }

    /// True when the argument was given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|v| !v.is_null())
    }

    /// True when another format than plain text is asked for.
    pub(crate) fn has_format(&self) -> bool {
        self.text("format").is_some_and(|format| format != "plain")
    }

    /// A single value as text.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        match self.0.get(name)? {
            Value::Array(items) => items.first().and_then(text_of),
            other => text_of(other),
        }
    }

    /// All values of an argument that may be repeated.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        match self.0.get(name) {
            Some(Value::Array(items)) => items.iter().filter_map(text_of).collect(),
            Some(other) => text_of(other).into_iter().collect(),
            None => Vec::new(),
        }
    }

    /// A whole number.
    pub(crate) fn int(&self, name: &str) -> Option<i64> {
        self.text(name)?.parse().ok()
    }

    /// A number.
    pub(crate) fn float(&self, name: &str) -> Option<f64> {
        self.text(name)?.parse().ok()
    }

    /// A switch: absent is false. Older clients send the option's own text.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.text(name).is_some_and(|text| text != "false" && text != "0" && !text.is_empty())
    }

    /// Every argument as text, for capabilities; several values as `[A,B]`. Where a command gives capabilities, each of
    /// these is an argument of its own, `caps_mon` and so on (`Monitor::_generate_command_map`). These names come from
    /// `caps` alone: a client that could give them itself would meet a profile's conditions with words that the command
    /// never looks at.
    pub(crate) fn texts(&self) -> BTreeMap<String, String> {
        const CAPS: &str = "caps_";
        let given = self.list("caps");
        let caps = given.chunks_exact(2).map(|pair| (format!("{CAPS}{}", pair[0]), pair[1].clone()));
        let text = |value: &Value| match value {
            Value::Array(items) => {
                Some(format!("[{}]", items.iter().filter_map(text_of).collect::<Vec<_>>().join(",")))
            }
            one => text_of(one),
        };
        let given = self.0.iter().filter(|(name, _)| !name.starts_with(CAPS));
        let given = given.filter_map(|(name, value)| Some((name.clone(), text(value)?)));
        given.chain(caps).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::{
        collection::vec,
        prelude::*,
        sample::{Index, select},
    };

    use super::*;

    #[test]
    fn capabilities_that_a_command_gives_are_arguments_of_their_own() {
        let command = r#"{"prefix":"auth get-or-create","entity":"mgr.x","caps":["mon","allow profile mgr","osd","allow *"]}"#;
        let texts = Args::parse(&[command.to_owned()]).expect("a command").texts();
        assert_eq!(texts["entity"], "mgr.x");
        assert_eq!(
            (texts["caps_mon"].as_str(), texts["caps_osd"].as_str()),
            ("allow profile mgr", "allow *")
        );
        let odd = r#"{"prefix":"auth get-or-create","caps":["mon"],"entity":"mgr.x"}"#;
        let texts = Args::parse(&[odd.to_owned()]).expect("a command").texts();
        assert!(!texts.contains_key("caps_mon"), "{texts:?}");
        let forged = r#"{"prefix":"auth get-or-create","entity":"mgr.x","caps_mon":"allow profile mgr"}"#;
        let texts = Args::parse(&[forged.to_owned()]).expect("a command").texts();
        assert!(!texts.contains_key("caps_mon"), "{texts:?}");
    }

    #[test]
    fn logs_do_not_tell_what_is_set() {
        let words = |json: &str| words_for_logs(&[json.to_owned()]);
        let set = r#"{"prefix":"config-key set","key":"mgr/k","val":"secret"}"#;
        assert_eq!(words(set), "[{prefix=config-key set, key=mgr/k}]");
        assert_eq!(words(&set.replace("set", "put")), "[{prefix=config-key put, key=mgr/k}]");
        let split: Vec<String> = set.split_inclusive(',').map(str::to_owned).collect();
        assert_eq!(words_for_logs(&split), "[{prefix=config-key set, key=mgr/k}]");
        let option = r#"{"prefix":"config set","who":"mgr","name":"password","value":"secret"}"#;
        assert_eq!(words(option), "[{prefix=config set, name=password}]");
        let told = r#"{"prefix":"config set","var":"password","val":["secret"]}"#;
        assert_eq!(words(told), "[{prefix=config set, var=password}]");
        let other = r#"{"prefix":"osd set","key":"noout"}"#;
        assert_eq!(words(other), other);
    }

    #[test]
    fn a_value_in_a_list_is_seen_by_capabilities() {
        let command = r#"{"prefix":"osd blocklist","range":["range"],"addr":"10.0.0.0/8"}"#;
        let args = Args::parse(&[command.to_owned()]).expect("a command");
        assert_eq!(args.text("range").as_deref(), Some("range"));
        assert_eq!(args.texts()["range"], "[range]");
    }

    const FRAGMENTS: [&str; 18] = [
        "{",
        "}",
        "\"prefix\":",
        "\"pg\"",
        "\"config set\"",
        "\"caps\":",
        "\"format\":",
        ":",
        ",",
        "[",
        "]",
        "[\"a\",[1]]",
        "1e999",
        "-1e308",
        "18446744073709551616",
        "\"\\ud800\"",
        "null",
        "true",
    ];

    proptest! {
        #[test]
        fn any_words_are_a_command_or_none(
            words in vec(prop_oneof![3 => select(&FRAGMENTS[..]).prop_map(str::to_owned), 1 => any::<String>()], 0..12),
            argument in vec(select(&FRAGMENTS[..]), 0..6),
            depth in 0usize..50_000,
        ) {
            let odd = format!("{{\"prefix\":\"pg\",\"a\":{}", argument.concat());
            for words in [words, vec![odd.clone()], vec![odd + "}"]] {
                let _ = words_for_logs(&words);
                let Some(args) = Args::parse(&words) else { continue };
                for name in ["prefix", "caps", "format", "a", ""] {
                    let _ = (args.text(name), args.int(name), args.float(name), args.flag(name));
                    prop_assert!(args.has(name) || args.list(name).is_empty());
                }
                prop_assert!(args.json_len() < usize::MAX);
                let _ = args.texts();
            }
            let deep = format!("{{\"prefix\":\"pg\",\"a\":{}", "[".repeat(depth));
            prop_assert!(Args::parse(&[deep]).is_none());
        }

        #[test]
        fn logs_do_not_tell_what_is_set_however_it_is_said(
            prefix in select(vec!["config set", "config-key set", "config-key put"]),
            value in select(vec!["\"secret\"", "[\"secret\"]", "{\"secret\":1}"]),
            cuts in vec(any::<Index>(), 0..5),
            tail in select(vec!["", "}", "\"", " é"]),
            is_first: bool,
        ) {
            let (named, valued) = (format!("\"prefix\":\"{prefix}\""), format!("\"val\":{value},\"value\":{value}"));
            let text = match is_first {
                true => format!("{{{valued},{named}}}{tail}"),
                false => format!("{{ {named}, {valued} }}{tail}"),
            };
            let mut cuts: Vec<usize> = cuts.iter().map(|at| text.floor_char_boundary(at.index(text.len()))).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let words: Vec<String> = cuts.windows(2).map(|ends| text[ends[0]..ends[1]].to_owned()).collect();
            let shown = words_for_logs(&words);
            prop_assert!(!shown.contains("secret") && shown.contains(prefix), "{}", shown);
        }
    }
}
