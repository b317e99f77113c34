use std::collections::BTreeMap;

use types::EntityName;

use super::*;

fn config(entries: &[(&str, &str, &str)]) -> Config {
    let mut out = Config::new();
    for (who, name, value) in entries {
        out.entry((*who).to_owned()).or_default().insert((*name).to_owned(), (*value).to_owned());
    }
    out
}

fn value_for(config: &Config, name: &str, place: &Place) -> Option<String> {
    let crush = CrushMap::initial();
    let name = EntityName::parse(name).unwrap();
    applied(config, &name, place, &crush).get("x").map(|applied| applied.value.to_owned())
}

#[test]
fn targets_are_read_and_written() {
    let check = |text: &str, expected: Option<&str>| {
        assert_eq!(Target::parse(text).map(|t| t.to_string()).as_deref(), expected, "{text}");
    };
    check("osd", Some("osd"));
    check("global", Some("global"));
    check("client.rbd.x", Some("client.rbd.x"));
    check("class:ssd", Some("global/class:ssd"));
    check("osd/class:hdd/rack:r", Some("osd/rack:r/class:hdd"));
    check("osd/class:a/class:b", Some("osd/class:b"));
    check("foo", None);
    check("osd/foo", None);
}

#[test]
fn the_nearest_section_and_the_most_precise_mask_win() {
    let place = Place {
        location: BTreeMap::from([("host".to_owned(), "h".to_owned()), ("rack".to_owned(), "r".to_owned())]),
        class: Some("ssd".to_owned()),
    };
    let all = [
        ("global", "x", "1"),
        ("osd", "x", "2"),
        ("osd/class:ssd", "x", "3"),
        ("osd/rack:r", "x", "4"),
        ("osd/host:h", "x", "5"),
        ("osd/host:other", "x", "6"),
        ("osd.1", "x", "7"),
    ];
    assert_eq!(value_for(&config(&all), "osd.1", &place).as_deref(), Some("7"));
    for count in (2..=6).rev() {
        let expected = count.min(5).to_string();
        assert_eq!(value_for(&config(&all[..count]), "osd.1", &place), Some(expected));
    }
    assert_eq!(value_for(&config(&all), "osd.2", &Place::default()).as_deref(), Some("2"));
    assert_eq!(value_for(&config(&all), "mon.a", &place).as_deref(), Some("1"));
    let prefixes = config(&[("client.rbd", "x", "1"), ("client.rbd.x", "x", "2")]);
    assert_eq!(value_for(&prefixes, "client.rbd.x.y", &place).as_deref(), Some("2"));
    assert_eq!(value_for(&prefixes, "client.rbdx", &place), None);
}

#[test]
fn keys_are_split_as_in_ceph() {
    assert_eq!(split_key("osd/host:a/x"), ("osd/host:a", "x"));
    assert_eq!(split_key("mgr/mgr/rbd_support/log_level"), ("mgr", "mgr/rbd_support/log_level"));
    assert_eq!(split_key("x"), ("global", "x"));
}
