//! Texts of commands and of objects, whatever they are: refused, or understood in one way.

use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
};
use serde_json::{Value, json};

use super::{
    schedule::{Interval, Minute, Schedule, StartTime},
    spec::{ImageSpec, LevelSpec, Levels, is_plain},
    task::Task,
};

const DAY_MIN: u64 = 24 * 60;

/// Parts of which texts are made, so that some of them are right.
const PARTS: &[&str] = &[
    "0",
    "1",
    "9",
    "10",
    "14",
    "23",
    "24",
    "59",
    "60",
    "00",
    "02",
    "36500",
    "18446744073709551615",
    "m",
    "h",
    "d",
    "w",
    ":",
    ":",
    ":",
    "+",
    "-",
    "Z",
    "T",
    " ",
    ".",
    "1e308",
    "NaN",
    "inf",
    "2024-01-31T",
    "\u{663}",
    "\u{e9}",
    "\0",
    "",
    "/",
    "/",
    "@",
    "rbd",
    "n",
    "i",
    "--",
    "\n",
    "+01:00",
    "-0230",
    ":00",
];

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => vec(select(PARTS), 0..7).prop_map(|parts| parts.concat()),
        1 => any::<String>(),
        1 => Just("1".repeat(70_000)),
    ]
}

/// Start times that are right, or nearly.
fn start_time() -> impl Strategy<Value = String> {
    let zone = prop_oneof![
        Just(String::new()),
        Just("Z".to_owned()),
        (-30i32..30, 0u32..70, any::<bool>()).prop_map(|(hours, minutes, colon)| format!(
            "{hours:+03}{}{minutes:02}",
            if colon { ":" } else { "" }
        ))
    ];
    (0u32..26, 0u32..62, proptest::option::of(0u32..62), zone).prop_map(|(hour, minute, second, zone)| {
        let second = second.map(|second| format!(":{second:02}")).unwrap_or_default();
        format!("{hour:02}:{minute:02}{second}{zone}")
    })
}

/// Intervals that are right, or nearly.
fn interval() -> impl Strategy<Value = String> {
    let number = prop_oneof![0u64..200, Just(36_500), Just(52_560_000), Just(u64::MAX), any::<u64>()];
    (number, select(&["", "m", "h", "d", "w", "M"][..])).prop_map(|(number, unit)| format!("{number}{unit}"))
}

/// What is kept of a schedule: right, or with some damage.
fn kept_schedule() -> impl Strategy<Value = String> {
    let item = (interval(), prop_oneof![Just(Value::Null), start_time().prop_map(Value::from)])
        .prop_map(|(interval, start)| json!({"interval": interval, "start_time": start}));
    vec(item, 0..4).prop_map(|items| Value::from(items).to_string())
}

/// What is kept of a task: right, or with other values in it.
fn kept_task() -> impl Strategy<Value = String> {
    let action = select(
        &["flatten", "remove", "trash remove", "migrate execute", "migrate commit", "migrate abort", "x"][..],
    );
    let word = || prop_oneof![3 => Just("i".to_owned()), 1 => text()];
    let odd = select(vec![json!(u64::MAX), json!(-1), json!(1e308)]);
    let number = prop_oneof![4 => (0u64..9).prop_map(Value::from), 1 => odd];
    (number, action, word(), word(), proptest::option::of(word()), proptest::option::of(word())).prop_map(
        |(sequence, action, pool, nspace, name, id)| {
            let refs = json!({
                "action": action,
                "pool_name": pool,
                "pool_namespace": nspace,
                "image_name": name,
                "image_id": id,
            });
            json!({"sequence": sequence, "id": "t", "message": "m", "refs": refs}).to_string()
        },
    )
}

/// A text with some characters changed.
fn spoiled(text: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    (text, vec((any::<Index>(), any::<char>()), 0..3)).prop_map(|(text, changes)| {
        let mut chars: Vec<char> = text.chars().collect();
        for (at, new) in changes.into_iter().filter(|_| !text.is_empty()) {
            let at = at.index(chars.len());
            chars[at] = new;
        }
        chars.into_iter().collect()
    })
}

proptest! {
    #![proptest_config(::damage::cases(600))]

    #[test]
    fn an_interval_is_shown_as_it_is_read(text in prop_oneof![interval(), text()]) {
        if let Ok(interval) = Interval::parse(&text) {
            prop_assert_eq!(Interval::parse(&interval.to_string()), Ok(interval));
        }
    }

    #[test]
    fn a_start_time_is_shown_as_it_is_read(text in prop_oneof![start_time(), spoiled(start_time()), text()]) {
        if let Ok(Some(start)) = StartTime::parse(&text) {
            let mut schedule = Schedule::default();
            schedule.add(Interval::parse("1d").unwrap(), Some(start.clone()));
            let shown = schedule.to_value()[0]["start_time"].as_str().unwrap().to_owned();
            let is_shown = |c: char| c.is_ascii_digit() || ":+-".contains(c);
            prop_assert!(shown.chars().all(is_shown) && [8, 14].contains(&shown.len()), "{}", shown);
            prop_assert_eq!(StartTime::parse(&shown), Ok(Some(start)));
        }
    }

    #[test]
    fn a_kept_schedule_is_kept_as_it_is_read(text in spoiled(kept_schedule()), now in any::<u32>()) {
        let Some(schedule) = Schedule::from_text(&text) else { return Ok(()) };
        prop_assert_eq!(Schedule::from_text(&schedule.to_value().to_string()), Some(schedule.clone()));
        let now = Minute(u64::from(now));
        let next = schedule.next_run(now);
        prop_assert_eq!(next.is_none(), schedule.is_empty());
        // The first time may be a day away, and the zone's offset, if an interval is not longer.
        prop_assert!(next.is_none_or(|next| next > now && next.0 <= now.0 + 2 * DAY_MIN + 36_500 * DAY_MIN));
        prop_assert!(!next.unwrap_or(now).to_string().is_empty());
    }

    #[test]
    fn names_of_images_and_levels_are_names_for_rbd(text in text()) {
        if let Ok(spec) = ImageSpec::parse(&text) {
            prop_assert!(is_plain(&spec.image) && (spec.nspace.is_empty() || is_plain(&spec.nspace)));
            prop_assert_eq!(ImageSpec::parse(&spec.to_string()), Ok(spec));
        }
        for levels in [Levels::Namespaces, Levels::MirroredImages] {
            let Ok(spec) = LevelSpec::parse(&text, levels) else { continue };
            prop_assert_eq!(spec.pool.is_none(), text.is_empty());
            let parts = [spec.pool, spec.nspace].into_iter().flatten();
            prop_assert!(parts.clone().all(|part| text.contains(part) && !part.contains('/')));
        }
    }

    #[test]
    fn a_task_leads_nowhere_but_to_its_image(text in spoiled(kept_task())) {
        let Some(task) = Task::from_text(&text) else { return Ok(()) };
        prop_assert_eq!(Task::from_text(&task.to_text()), Some(task.clone()));
        if !task.belongs("i", "i", &task.key()) {
            return Ok(());
        }
        let command = task.command();
        let options: Vec<&String> = command.iter().filter(|word| word.starts_with('-')).collect();
        prop_assert!(command.contains(&"--pool=i".to_owned()) && command.contains(&"--namespace=i".to_owned()));
        prop_assert!(options.len() <= 3 && command.iter().all(|word| !word.is_empty()), "{:?}", command);
        let is_one_name = |option: &&String| option.split_once('=').is_some_and(|(_, name)| is_plain(name));
        prop_assert!(options.iter().all(is_one_name), "{:?}", command);
    }
}
