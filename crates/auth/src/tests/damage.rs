//! Texts of keyrings and capabilities, damaged: nothing panics, what is taken means what it says.

use std::{collections::BTreeMap, net::IpAddr};

use proptest::{
    collection::{btree_map, vec},
    prelude::*,
    sample::{Index, select},
    string::string_regex,
};
use types::EntityName;

use super::ADMIN;
use crate::*;

/// Words that mean something somewhere, with bars between them.
const WORDS: &str = "\
    ¦ ¦,¦;¦; allow *¦, allow *¦*¦all¦allow¦allow ¦r¦rwx¦class-read¦ class rbd¦profile rbd¦profile¦ pool=a¦ pool a b¦\
    \x20namespace=\"\"¦ object_prefix a¦ tag rbd *=*¦ network 10.0.0.0/8¦ network ::/0¦\
    /33¦\"¦'¦=¦[¦]¦#¦\\¦\\\\¦\n¦\t¦\r¦\\\n¦é¦\u{a0}¦(¦)¦a)|(?:b¦\
    \x20with key=a¦ key regex \"(a{9}){9}\"¦ uid=1 gids=1,2¦\
    key = ¦caps osd = ¦pending key = ¦[client.b]\n¦AQ==¦99999999999999999999";

type Edit = (Index, usize, &'static str);

/// A word for some characters.
fn edit() -> impl Strategy<Value = Edit> {
    (any::<Index>(), 0usize..4, select(WORDS.split('¦').collect::<Vec<_>>()))
}

fn edited(text: &str, edits: &[Edit]) -> String {
    edits.iter().fold(text.to_owned(), |text, (at, len, word)| {
        let chars: Vec<char> = text.chars().collect();
        let at = at.index(chars.len() + 1);
        let rest = chars.iter().skip(at + len);
        chars[..at].iter().copied().chain(word.chars()).chain(rest.copied()).collect()
    })
}

/// Capabilities of all services that are read, or nearly.
fn caps() -> impl Strategy<Value = String> {
    let lines = include_str!("../../testdata/caps.tsv").lines();
    let more = [
        "allow command \"auth get-or-create\" with entity prefix client. caps_mon=\"profile rbd\"",
        "profile rbd pool=a namespace=b",
        "allow module x with a=b c prefix d rw",
        "allow rw fsname=x path=/a root_squash uid=1 gids=1,2",
    ];
    let texts: Vec<&str> =
        lines.filter_map(|line| line.split_once("\tyes\t")).map(|(_, text)| text).chain(more).collect();
    (vec(select(texts), 1..3), vec(edit(), 0..4)).prop_map(|(texts, edits)| edited(&texts.join(", "), &edits))
}

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

/// All ways to need something.
fn needs() -> impl Iterator<Item = [bool; 3]> {
    (0..8).map(|bits| [bits & 1 != 0, bits & 2 != 0, bits & 4 != 0])
}

fn osd_grants(caps: &OsdCaps) -> Vec<bool> {
    let tags = BTreeMap::from([("rbd".to_owned(), BTreeMap::from([("a".to_owned(), "b".to_owned())]))]);
    let calls = [("rbd", "get_size"), ("rbd", "metadata_list"), ("lock", "lock")];
    let calls = calls.map(|(class, method)| ClassCall { class, method, read: true, write: class == "lock" });
    let mut out = vec![caps.allows_all(), !caps.are_none(), caps.may_snap_in("foo"), caps.may_snap_in("")];
    for (pool_name, namespace, key) in [("foo", "", "a"), ("a", "ns", "rbd_children"), ("", "", "")] {
        for [read, write, is_call] in needs() {
            let access = OsdAccess {
                pool_name,
                namespace: namespace.as_bytes(),
                application_metadata: &tags,
                key: key.as_bytes(),
                read,
                write,
                classes: if is_call { &calls[..] } else { &[] },
            };
            out.push(caps.allows(&access));
        }
    }
    out
}

fn arguments() -> BTreeMap<String, String> {
    let pairs =
        [("key", "a"), ("pool", "a"), ("entity", "client.x"), ("caps_mon", "profile rbd"), ("a", "b")];
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

fn mon_grants(caps: &MonCaps) -> Vec<bool> {
    let arguments = arguments();
    let commands = [
        ("osd", "osd blocklist"),
        ("config-key", "config-key get"),
        ("auth", "auth get-or-create"),
        ("", ""),
    ];
    let access = |((service, command), [read, write, execute]): ((&'static str, &'static str), [bool; 3])| {
        MonAccess { entity: "osd.3", service, command, arguments: &arguments, read, write, execute }
    };
    let all = commands.into_iter().flat_map(|command| needs().map(move |need| (command, need)));
    all.map(|wanted| caps.allows(&access(wanted))).collect()
}

fn mgr_grants(caps: &MgrCaps) -> Vec<bool> {
    let arguments = arguments();
    let commands = [("py", "x", "crash post"), ("py", "rbd_support", ""), ("pg", "", "pg dump")];
    let all = commands.into_iter().flat_map(|command| needs().map(move |need| (command, need)));
    all.map(|((service, module, command), [read, write, execute])| {
        caps.allows(&MgrAccess { service, module, command, arguments: &arguments, read, write, execute })
    })
    .collect()
}

/// True if everything that one or the other grants is granted by both together.
fn is_sum(one: &[bool], other: &[bool], both: &[bool]) -> bool {
    one.iter().zip(other).zip(both).all(|((one, other), both)| *both || !(*one || *other))
}

/// An error says where a text stops making sense.
fn assert_names_the_rest<T>(parsed: &Result<T, CapsError>, text: &str) {
    if let Err(CapsError::Syntax { at }) = parsed {
        assert!(text.ends_with(at.as_str()), "{at:?} of {text:?}");
    }
}

proptest! {
    #![proptest_config(::damage::cases(1_500))]

    #[test]
    fn capabilities_read_or_not_and_together_grant_what_each_does(one in caps(), other in caps()) {
        let both = format!("{one}, {other}");
        let parsed = [&one, &other, &both].map(|text| OsdCaps::parse(text));
        parsed.iter().zip([&one, &other, &both]).for_each(|(parsed, text)| assert_names_the_rest(parsed, text));
        if let [Ok(one), Ok(other), both] = parsed {
            let both = both.expect("two lists are a list");
            prop_assert!(is_sum(&osd_grants(&one), &osd_grants(&other), &osd_grants(&both)));
            let [one, other, both] = [one, other, both].map(|caps| osd_grants(&caps.at(HERE)));
            prop_assert!(is_sum(&one, &other, &both));
        }
        let parsed = [&one, &other, &both].map(|text| MonCaps::parse(text));
        parsed.iter().zip([&one, &other, &both]).for_each(|(parsed, text)| assert_names_the_rest(parsed, text));
        if let [Ok(one), Ok(other), both] = parsed {
            let [one, other, both] = [one, other, both.expect("two lists are a list")];
            prop_assert!(is_sum(&mon_grants(&one), &mon_grants(&other), &mon_grants(&both)));
            let [one, other, both] = [one, other, both].map(|caps| mon_grants(&caps.at(HERE)));
            prop_assert!(is_sum(&one, &other, &both));
        }
        let parsed = [&one, &other, &both].map(|text| MgrCaps::parse(text));
        parsed.iter().zip([&one, &other, &both]).for_each(|(parsed, text)| assert_names_the_rest(parsed, text));
        // What monitors keep can be used.
        prop_assert!(MgrCaps::check(&one).is_err() || parsed[0].is_ok());
        if let [Ok(one), Ok(other), both] = parsed {
            let [one, other, both] =
                [one, other, both.expect("two lists are a list")].map(|caps| mgr_grants(&caps.at(HERE)));
            prop_assert!(is_sum(&one, &other, &both));
        }
        assert_names_the_rest(&check_mds_caps(&one), &one);
    }

    #[test]
    fn a_bootstrap_key_for_images_gives_no_other_rights(
        edits in vec(edit(), 0..5),
        osd in select(vec!["profile rbd", "profile rbd pool=vms, profile rbd-read-only pool images", "profile='rbd' pool='a b'"]),
    ) {
        let osd = edited(osd, &edits);
        let given = [("entity", "client.x"), ("caps_mon", "profile rbd"), ("caps_osd", osd.as_str())];
        let access = MonAccess {
            entity: "client.bootstrap-rbd",
            service: "auth",
            command: "auth get-or-create",
            arguments: &given.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            read: true,
            write: true,
            execute: true,
        };
        let may = MonCaps::parse("profile bootstrap-rbd").unwrap().allows(&access);
        if may && let Ok(caps) = OsdCaps::parse(&osd) {
            prop_assert!(!caps.allows_all(), "{}", osd);
        }
    }

    #[test]
    fn a_damaged_keyring_is_refused_or_means_what_it_prints(edits in vec(edit(), 0..6), caps in caps()) {
        let caps = caps.replace(['\\', '"', '\n'], "");
        let text = format!(
            "[client.admin]\n\tkey = {ADMIN}\n\tcaps mon = \"allow \\\"*\\\"\"\n# a\n\n[osd.3]\ncaps osd='{caps}' ; b\nkey=\"{ADMIN}\"\n"
        );
        if let Ok(ring) = Keyring::parse(&edited(&text, &edits)) {
            prop_assert_eq!(&Keyring::parse(&ring.to_string()), &Ok(ring));
        }
    }

    #[test]
    fn a_keyring_keeps_any_capability_of_any_name_that_it_can_have(
        id in string_regex("[a\\[#;=\"' \\\\é-]{0,6}b").unwrap(),
        caps in btree_map("[a-z]{1,4}", string_regex("[a\"'\\\\ \n\t\r#;=\\[\\]é,*]{0,12}").unwrap(), 0..3),
    ) {
        let name = EntityName::parse(&format!("client.{id}")).unwrap();
        prop_assert!(Keyring::can_name(&name));
        let key = CryptoKey::from_base64(ADMIN).unwrap();
        let ring = |caps: BTreeMap<String, String>| Keyring([(name.clone(), KeyringEntry { key: key.clone(), caps })].into());
        let text = ring(caps.clone()).to_string();
        let caps = caps.into_iter().map(|(service, caps)| (service, caps.replace('\n', " ")));
        prop_assert_eq!(Keyring::parse(&text), Ok(ring(caps.collect())));
    }

    #[test]
    fn noise_never_panics(text: String) {
        let _ = (Keyring::parse(&text), CryptoKey::from_base64(&text));
        let _ = (OsdCaps::parse(&text), MonCaps::parse(&text), MgrCaps::parse(&text), check_mds_caps(&text));
    }
}
