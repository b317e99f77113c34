//! Options with values of any kind, and damaged texts of ceph.conf: what is taken is taken in the same way again.

use proptest::{
    collection::{btree_map, vec},
    prelude::*,
    sample::Index,
    string::string_regex,
};

use super::*;
use crate::tests::damaged_words::{edited, edits, one_of};

const VALUES: &str = "\
    ¦0¦5K¦5Ki¦5KB¦-5¦999E¦9223372036854775807¦9223372036854775808¦-9223372036854775808¦\
    18446744073709551615¦1.5¦-0.0¦1e308¦1e309¦1e-320¦nan¦-nan¦inf¦-inf¦infinity¦true¦FALSE¦2¦1h 30m¦\
    5 mo¦584942417355 y¦18446744073709551615 s¦1.2.3.4¦v1:1.2.3.4:5/6¦[::1]¦\
    [v2:1.2.3.4:5/6,v1:1.2.3.4:7/8]¦[v2:[::1]:5/6]¦D115B587-6118-415a-af14-47309b5357db¦\
    journaling, layering¦61¦5/20¦5/¦1/2/3¦99/100¦a b¦$name/${id}";

const WORDS: &str = "\
    ¦ ¦-¦+¦.¦/¦,¦:¦e¦i¦B¦K¦E¦Ki¦s¦year¦0¦9¦99999999999999999999¦[¦]¦v2:¦é¦\u{a0}¦\u{0}¦\n¦\t";

/// Names and values of `injectargs`.
const INJECTED: &str = "\
    --osd_max_scrubs¦--osd-max-scrubs=2¦2¦--mon-lease=1e308¦--no-rbd-cache¦--rbd_cache¦\
    --debug_osd 5/é¦--¦--=¦--no_¦--nosuch¦--osd_uuid x¦--bluestore_bluefs¦false¦é¦\
    --osd_scrub_sleep -1¦-¦=";

const CONF_WORDS: &str = "\
    ¦ ¦\t¦\n¦\r\n¦=¦#¦;¦\"¦'¦\\¦\\\n¦[¦]¦[osd]¦[ osd.1 ] # a¦-¦_¦é¦\u{a0}¦key = ¦$name";

const CONF: &str = "fsid = a # b\n[global]\nmon host = [v2:1.2.3.4:5]\n\tlog-file=\"/a \\\" b\" ; c\n\n[osd.1]\nosd \\\n\
                    data = '/x;y' # z\nkey__b=a\\#b\n";

/// A conf with these contents, in which each name and value reads as itself.
fn written(conf: &ConfSections) -> String {
    let value = |text: &str| format!("\"{}\"", text.replace('\\', r"\\").replace('"', r#"\""#));
    // What begins with a space, or what looks like one, does not begin the line.
    let lines = |options: &BTreeMap<String, String>| {
        options.iter().map(|(name, text)| format!("_{name} = {}\n", value(text))).collect::<String>()
    };
    conf.iter().map(|(section, options)| format!("[{section}]\n{}", lines(options))).collect()
}

proptest! {
    #![proptest_config(::damage::cases(50))]

    #[test]
    fn options_take_a_value_in_one_form_or_not_at_all(text in one_of(VALUES), edits in edits(WORDS)) {
        let text = edited(text, &edits);
        let mut settings = Settings::default();
        for info in options() {
            match (info.normalize(&text), settings.inject(info.name, &text)) {
                (Ok(value), injected) => {
                    prop_assert_eq!(info.normalize(&value), Ok(value), "{} = {:?}", info.name, &text);
                    prop_assert!(!matches!(injected, Err(OptionSetError::Value(_))));
                }
                (Err(error), injected) => prop_assert_eq!(injected, Err(OptionSetError::Value(error))),
            }
        }
        let (values, ignored) = settings.to_wire();
        let back = Settings::from_wire(values, ignored);
        prop_assert_eq!(back.changed(), settings.changed());
        let of_file = settings.changed().iter().map(|shown| (shown.name.to_owned(), text.clone())).collect();
        settings.set_mon(&of_file);
        let owner = ConfigOwner { name: "osd.0", fsid: &text, is_observed: &|name| is_observed(crate::EntityType::OSD, name) };
        for command in ["config show", "config diff"] {
            prop_assert!(matches!(owner.run(&mut settings, command, &|_| Vec::new()), Some(Ok(_))));
        }
    }

    /// Any value of a default, a limit or a choice is one.
    #[test]
    fn values_near_those_of_the_table_are_taken_in_one_form(edits in edits(WORDS), skip in 0usize..40) {
        for info in options().skip(skip).step_by(40) {
            for text in [info.default, info.daemon_default, info.min, info.max, info.choices().next().unwrap_or_default()] {
                let text = edited(text, &edits);
                if let Ok(value) = info.normalize(&text) {
                    prop_assert_eq!(info.normalize(&value), Ok(value), "{} = {:?}", info.name, &text);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(::damage::cases(1_000))]

    #[test]
    fn commands_to_set_options_take_any_words(
        words in vec(one_of(INJECTED), 0..6),
        edits in edits(WORDS),
        which: Index,
        has_var: bool,
    ) {
        let text = edited(&words.join(" "), &edits);
        let owner = ConfigOwner { name: "osd.0", fsid: "f", is_observed: &|_| false };
        let mut settings = Settings::default();
        let var = words.first().map_or(text.as_str(), |word| word.trim_start_matches('-'));
        let args = |name: &str| match name {
            "var" => has_var.then(|| var.to_owned()).into_iter().collect(),
            _ => vec![text.clone()],
        };
        let (command, _) = CONFIG_COMMANDS[which.index(CONFIG_COMMANDS.len())];
        let prefix = command.split(" name=").next().unwrap();
        prop_assert!(owner.run(&mut settings, prefix, &args).is_some());
        prop_assert!(owner.run(&mut settings, "injectargs", &args).is_some());
        for shown in settings.changed() {
            let (_, value) = &shown.values[0];
            let again = find_option(shown.name).map(|info| info.normalize(value));
            prop_assert_eq!(again, Some(Ok(value.clone())));
        }
    }

    #[test]
    fn a_damaged_conf_is_refused_or_read(edits in edits(CONF_WORDS)) {
        let text = edited(CONF, &edits);
        match parse_conf(&text) {
            Ok(conf) => prop_assert_eq!(parse_conf(&written(&conf)), Ok(conf)),
            Err(error) => prop_assert!(error.line <= text.lines().count() && error.column <= text.len() + 1),
        }
    }

    #[test]
    fn a_conf_is_read_as_it_was_written(
        sections in btree_map(
            string_regex("[a-z.#;=é]{1,8}").unwrap(),
            btree_map(
                string_regex("[a-zé\"'\\\\$]([a-z_é]{0,5}[a-zé])?").unwrap(),
                string_regex("[a \t#;=\"'\\\\\\[\\]$é]{0,12}").unwrap(),
                1..4,
            ),
            0..4,
        ),
    ) {
        let named = |options: &BTreeMap<String, String>| -> BTreeMap<String, String> {
            options.iter().map(|(name, text)| (option_name(name), text.clone())).collect()
        };
        let conf: ConfSections = sections.iter().map(|(section, options)| (section.clone(), named(options))).collect();
        prop_assert_eq!(parse_conf(&written(&conf)), Ok(conf));
    }

    #[test]
    fn noise_never_panics(text: String) {
        let _ = parse_conf(&text);
        prop_assert_eq!(option_name(&option_name(&text)), option_name(&text));
    }
}
