//! Sequences of commands, made from what each command says of its own arguments.

use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
    strategy::ValueTree,
    test_runner::TestRunner,
};
use serde_json::{Map, Value};

use super::{
    words::{self, fitting, input_of, odd},
    *,
};

/// An argument as the command's description has it.
#[derive(Debug)]
pub(super) struct Param {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) choices: Vec<String>,
    /// The least and the largest value.
    pub(super) range: (Option<f64>, Option<f64>),
    is_required: bool,
    pub(super) is_list: bool,
}

/// A command.
#[derive(Debug)]
pub(super) struct Command {
    to: To,
    pub(super) prefix: String,
    params: Vec<Param>,
}

impl Param {
    fn new(described: &Value) -> Param {
        let text = |key: &str| described[key].as_str().unwrap_or_default();
        let (low, high) = text("range").split_once('|').unwrap_or((text("range"), ""));
        Param {
            name: text("name").to_owned(),
            kind: text("type").to_owned(),
            choices: text("strings").split('|').map(str::to_owned).collect(),
            range: (low.parse().ok(), high.parse().ok()),
            is_required: text("req") != "false",
            is_list: !text("n").is_empty(),
        }
    }
}

/// The commands that one way leads to.
fn described(to: To) -> Vec<Command> {
    let mut world = World::new();
    world.ask(&Ask { to, json: r#"{"prefix":"get_command_descriptions"}"#.to_owned(), input: Bytes::new() });
    let output = match (world.cluster.sent.pop(), world.cluster.managed.pop()) {
        (_, Some((_, Message::MMgrCommandReply(reply)))) => reply.output,
        (_, Some((_, Message::MCommandReply(reply)))) => reply.output,
        (Some((_, _, Message::MMonCommandAck(ack))), _) => ack.output,
        (Some((_, _, Message::MCommandReply(reply))), _) => reply.output,
        other => panic!("{other:?}"),
    };
    let all: Map<String, Value> = serde_json::from_slice(&output).unwrap();
    let command = |entry: &Value| {
        let sig = entry["sig"].as_array().unwrap();
        let words: Vec<&str> = sig.iter().map_while(Value::as_str).collect();
        let params = sig.iter().filter(|part| part.is_object()).map(Param::new).collect();
        Command { to, prefix: words.join(" "), params }
    };
    all.values().map(command).collect()
}

/// All commands.
pub(super) fn all() -> &'static [Command] {
    static ALL: OnceLock<Vec<Command>> = OnceLock::new();
    ALL.get_or_init(|| [To::Mon, To::Mgr, To::TellMon, To::TellMgr].into_iter().flat_map(described).collect())
}

/// Commands but those of file systems and of volumes, which are all refused here.
fn usual() -> &'static [&'static Command] {
    static USUAL: OnceLock<Vec<&Command>> = OnceLock::new();
    USUAL.get_or_init(|| all().iter().filter(|command| !command.prefix.starts_with("fs ")).collect())
}

/// Commands that only look, at everything.
pub(super) const LOOKS: &[&str] = &[
    "status",
    "health",
    "df",
    "report",
    "osd dump",
    "osd df",
    "osd tree",
    "osd crush dump",
    "osd crush tree",
    "osd crush weight-set dump",
    "osd pool ls",
    "osd pool stats",
    "osd pool autoscale-status",
    "osd perf",
    "osd status",
    "osd utilization",
    "osd blocked-by",
    "osd test-reweight-by-pg",
    "osd test-reweight-by-utilization",
    "pg dump",
    "pg getmap",
    "pg stat",
    "balancer status",
    "balancer eval",
    "config dump",
    "config log",
    "auth ls",
    "crash stat",
    "device ls",
    "iostat",
    "log last",
    "mon dump",
    "mgr dump",
    "service dump",
    "service status",
];

/// A command that only looks.
pub(super) fn look() -> impl Strategy<Value = Step> {
    let formats = select(&["", r#","format":"json""#, r#","format":"xml""#, r#","detail":"detail""#][..]);
    (select(LOOKS), formats).prop_map(|(prefix, format)| {
        let json = format!(r#"{{"prefix":"{prefix}"{format}}}"#);
        Step::Ask(Ask { to: To::Mon, json, input: Bytes::new() })
    })
}

/// How an argument is chosen, and which of those that there are.
#[derive(Clone, Debug)]
struct Choice {
    percent: u8,
    at: Index,
}

fn choice() -> impl Strategy<Value = Choice> {
    (0u8..100, any::<Index>()).prop_map(|(percent, at)| Choice { percent, at })
}

/// The argument that a choice makes; none is left out.
fn argument(command: &Command, param: &Param, choice: &Choice) -> Option<Value> {
    let (fits_below, odd_below) = if param.is_required { (90, 98) } else { (45, 50) };
    let of = |values: Vec<Value>| values.get(choice.at.index(values.len().max(1))).cloned();
    let value = match choice.percent {
        percent if percent < fits_below => of(fitting(command, param)),
        percent if percent < odd_below => of(odd()),
        _ => None,
    };
    value.map(|value| if param.is_list && !value.is_array() { Value::Array(vec![value]) } else { value })
}

fn ask(command: &Command, choices: &[Choice], damages: &[Damage]) -> Ask {
    let mut args = Map::new();
    args.insert("prefix".to_owned(), command.prefix.as_str().into());
    for (param, choice) in command.params.iter().zip(choices) {
        args.extend(argument(command, param, choice).map(|value| (param.name.clone(), value)));
    }
    // The one that is left over: an argument that the command may not know.
    if let Some(Choice { percent: 80.., at }) = choices.get(command.params.len()) {
        let (name, value) = words::extra(*at);
        args.insert(name.to_owned(), value);
    }
    let mut input = input_of(&command.prefix, choices.last().map_or(0, |choice| choice.percent)).to_vec();
    damages.iter().for_each(|damage| damage.apply(&mut input));
    Ask { to: command.to, json: Value::Object(args).to_string(), input: input.into() }
}

fn command() -> impl Strategy<Value = Step> {
    let place = prop_oneof![
        30 => any::<Index>().prop_map(|at| usual()[at.index(usual().len())]),
        1 => any::<Index>().prop_map(|at| &all()[at.index(all().len())]),
    ];
    let damages = prop_oneof![2 => Just(Vec::new()), 1 => vec(damage(), 1..4)];
    (place, vec(choice(), 14), damages)
        .prop_map(|(command, choices, damages)| Step::Ask(ask(command, &choices, &damages)))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![10 => command(), 2 => other_step(), 2 => look()]
}

#[test]
fn what_looks_at_everything_is_answered() {
    let mut world = World::new();
    for prefix in LOOKS {
        let ack = world.cluster.command(&format!(r#"{{"prefix":"{prefix}"}}"#));
        assert_eq!(ack.result, 0, "{prefix}: {}", ack.status);
    }
}

/// What is refused at once shows little.
#[test]
fn many_commands_are_carried_out() {
    let mut runner = TestRunner::deterministic();
    let (mut world, strategy) = (World::with(objects::answers()), command());
    for _ in 0..300 {
        world.step(&strategy.new_tree(&mut runner).unwrap().current());
    }
    assert!(world.done > 60, "{}", world.done);
}

proptest! {
    #![proptest_config(::damage::cases(40))]

    #[test]
    fn commands_leave_a_sound_cluster(steps in vec(step(), 1..24)) {
        let mut world = World::with(objects::answers());
        steps.iter().for_each(|step| world.step(step));
        world.end();
    }
}
