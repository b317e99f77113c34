use std::collections::BTreeSet;

use super::*;

mod damage;

#[test]
fn the_table_is_whole() {
    let lines = include_str!("generated/options.tsv").lines().count();
    assert_eq!(options().count(), lines);
    assert_eq!(BY_NAME.len(), lines);
    for info in options() {
        if info.kind == OptionKind::Str && !info.name.starts_with("debug_") {
            continue;
        }
        let default = info.default_for(false);
        let is_none = default.is_empty() || default == "-";
        assert!(is_none || info.normalize(&default).as_deref() == Ok(&*default), "{} {default}", info.name);
    }
}

/// What 16.2.15 made of each value.
#[test]
fn values_are_read_as_in_ceph() {
    let cases: &[(&str, &str, Result<&str, &str>)] = &[
        ("osd_max_backfills", "5K", Ok("5000")),
        ("osd_max_backfills", "5k", Err("strict_si_cast: unit prefix not recognized")),
        ("osd_max_backfills", "-1", Err("strict_sistrtoll: value should not be negative")),
        ("osd_max_backfills", "", Err("strict_sistrtoll: value not specified")),
        (
            "osd_max_backfills",
            "99999999999999999999",
            Err("The option value '99999999999999999999' seems to be invalid"),
        ),
        ("log_max_new", "-5", Ok("-5")),
        ("ms_tcp_rcvbuf", "5Ki", Ok("5120")),
        ("ms_tcp_rcvbuf", "5KB", Ok("5120")),
        ("ms_tcp_rcvbuf", "5KiB", Err("strict_iecstrtoll: illegal prefix (length > 2)")),
        ("ms_tcp_rcvbuf", "1X", Err("strict_iecstrtoll: unit prefix not recognized")),
        ("ms_tcp_rcvbuf", "999E", Err("strict_iecstrtoll: value seems to be too large")),
        ("osd_memory_target", "1", Err("Value '1' is below minimum 939524096")),
        ("ms_async_op_threads", "25", Err("Value '25' exceeds maximum 24")),
        ("log_stop_at_utilization", "1.5", Err("Value '1.500000' exceeds maximum 1.000000")),
        ("mon_lease", "5", Ok("5.000000")),
        ("mon_lease_renew_interval_factor", "0.9999999", Ok("0.9999999")),
        ("mon_lease", "x", Err("strict_strtod: expected double, got: 'x'")),
        ("mon_lease", "1K", Err("strict_strtod: garbage at end of string. got: '1K'")),
        ("rbd_cache", "TRUE", Ok("true")),
        ("rbd_cache", "2", Ok("true")),
        ("rbd_cache", "yes", Err("Expected option value to be integer, got 'yes'")),
        ("mon_op_complaint_time", "1h 30m", Ok("5400")),
        ("mon_op_complaint_time", "5mo", Ok("12960000")),
        ("mon_op_complaint_time", "", Ok("0")),
        ("mon_op_complaint_time", "1.5", Err("unexpected trailing '.5'")),
        ("mon_op_complaint_time", "x", Err("expected digit")),
        ("public_addr", "1.2.3.4", Ok("v2:1.2.3.4:0/0")),
        ("public_addr", "x", Err("")),
        ("public_addrv", "[v2:1.2.3.4:5/6,v1:1.2.3.4:7/8]", Ok("[v2:1.2.3.4:5/6,v1:1.2.3.4:7/8]")),
        ("osd_uuid", "x", Err("")),
        ("osd_uuid", "D115B587-6118-415a-af14-47309b5357db", Ok("d115b587-6118-415a-af14-47309b5357db")),
        ("debug_osd", "5", Ok("5/5")),
        ("debug_osd", "5/", Ok("5/5")),
        ("debug_osd", "1/2/3", Ok("1/2/3")),
        ("debug_osd", "5/100", Err("value must be in range [0, 99]")),
        ("debug_osd", "/5", Err("value must take the form N or N/M, where N and M are integers")),
        ("rbd_default_features", "journaling,layering", Ok("65")),
        ("rbd_default_features", "", Ok("61")),
        ("rbd_default_features", "1024", Err("")),
        (
            "rbd_cache_policy",
            "foo",
            Err("'foo' is not one of the permitted values: writethrough, writeback, writearound"),
        ),
    ];
    for (name, text, expected) in cases {
        let got = find_option(name).unwrap().normalize(text);
        assert_eq!(got.as_deref().map_err(|e| e.text.as_str()), *expected, "{name} {text}");
    }
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

#[test]
fn the_strongest_source_wins() {
    let mut settings = Settings::from_file(&map(&[("osd_max_backfills", "2"), ("our_own", "x")]));
    settings.set_mon(&map(&[("osd_max_backfills", "3"), ("osd_max_scrubs", "4"), ("fsid", "no")]));
    assert_eq!(settings.get("osd_max_backfills").as_deref(), Some("2"));
    assert_eq!(settings.get("osd_max_scrubs").as_deref(), Some("4"));
    assert_eq!(settings.get("our_own").as_deref(), Some("x"));
    assert_eq!(settings.inject("osd_max_backfills", "1K").as_deref(), Ok("1000"));
    assert_eq!(settings.get("osd_max_backfills").as_deref(), Some("1000"));
    assert_eq!(settings.uninject("osd_max_backfills").as_deref(), Some("2"));
    assert_eq!(settings.uninject("osd_max_backfills"), None);
    assert_eq!(settings.inject("nosuch", "1"), Err(OptionSetError::Unknown));
    assert!(matches!(settings.inject("bluestore_bluefs", "false"), Err(OptionSetError::NotAtRuntime(_))));
    // Later on, what needs a restart waits for one.
    settings.set_mon(&map(&[("bluestore_bluefs", "false")]));
    let shown = settings.changed();
    let bluefs = shown.iter().find(|s| s.name == "bluestore_bluefs").unwrap();
    assert!(bluefs.is_mon_ignored && bluefs.values == [(OptionLevel::Default, "true".to_owned())]);
    assert_eq!(settings.get("osd_max_scrubs").as_deref(), Some("1"));
    assert_eq!(settings.all().len(), options().count() + 1);
}

/// The part of the page on compatibility that is under this heading.
fn documented(heading: &str) -> impl Iterator<Item = &'static str> {
    let page = include_str!("../../../../docs/compatibility.md");
    let heading = format!("### {heading}");
    page.lines().skip_while(move |line| *line != heading).skip(1).take_while(|line| !line.starts_with('#'))
}

#[test]
fn the_options_that_daemons_go_by_are_documented() {
    for (heading, observed) in [("OSDs", &observed::OSD[..]), ("Monitors", &observed::MON[..])] {
        let words = documented(heading).flat_map(|line| line.split('`').skip(1).step_by(2));
        let found: BTreeSet<&str> = words.filter(|word| find_option(word).is_some()).collect();
        assert_eq!(found, observed.iter().copied().collect(), "{heading}");
    }
}

#[test]
fn changed_defaults_are_documented_with_those_of_ceph() {
    let rows = documented("Changed defaults").filter_map(|line| line.strip_prefix("| `"));
    let found: Vec<(String, String)> = rows
        .map(|row| {
            let mut cells = row.split(" | ").map(|cell| cell.trim_matches('`').to_owned());
            (cells.next().unwrap(), cells.next().unwrap())
        })
        .collect();
    let changed: Vec<(String, String)> =
        CHANGED_DEFAULTS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    assert_eq!(found, changed);
    for (name, default) in CHANGED_DEFAULTS {
        assert_eq!(find_option(name).map(|info| info.default), Some(default), "{name}");
    }
}
