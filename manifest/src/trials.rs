//! `[sweep.NAME]`: a stage in trials, each with other values of some of its parameters. Trial 0 has
//! the values of the stage, or those that `initial` keeps after another trial was promoted.
//!
//! A sweep is one axis of a matrix, along which several parameters change together: what does not
//! depend on the stage exists once, and the stages that read it follow each trial.

mod rungs;

use std::collections::BTreeMap;

use stage_core::{Parameter, ParameterType, ParameterValue, Unit};

use super::draft::{Axis, AxisValue, Dimension, Draft};
use super::nearest::suggestion;
use super::node::{Entry, Node, Table, Value};
use super::problem::{Collector, Problem};
use super::value::{Checks, plain};
use super::written::{WrittenSweep, unknown_key};
use crate::pipeline::Trial;
use crate::sweep::space::{self, Draw, MOST_AXES, Range, Scale};

pub use self::rungs::{
    BETTER, ETA, MOST_ETA, MOST_REPEATS, MOST_RUNGS, SweepDraft, finish, scored,
};

const RANGE_KEYS: &[&str] = &["from", "to", "scale"];
pub const SCALES: &[&str] = &["linear", "log"];
pub const DRAWS: &[&str] = &["sobol", "random", "grid"];
/// A sweep with more trials is a mistake.
pub const MOST_TRIALS: i64 = 1_000;
const TRIALS: i64 = 8;
/// The draws for each trial, until lists have given values that no other trial has.
const REDRAWS: usize = 32;
/// The name of the axis, as in `trained[trial=3]`.
const TRIAL: &str = "trial";

/// Adds the trials and rungs of each sweep to the stage that it names.
pub fn apply(
    sweeps: Vec<WrittenSweep>,
    drafts: &mut [Option<Draft>],
    stages: &BTreeMap<String, usize>,
    checks: &Checks,
    problems: &mut Collector,
) -> Vec<SweepDraft> {
    let mut drafted = Vec::new();
    for sweep in sweeps {
        let place = sweep.name.span;
        let Some(node) = &sweep.stage else {
            let message = format!("sweep `{}` has no `stage`", sweep.name.value);
            let help = "name the stage whose parameters change: `stage = \"trained\"`";
            problems.add(Problem::new("missing_key", place, message).help(help));
            continue;
        };
        let name = text(node, "stage", checks, problems);
        let Some(name) = name else { continue };
        let Some(at) = stages.get(&name).copied() else {
            let message = format!("there is no stage `{}`", name.escape_debug());
            let known = stages.keys().map(String::as_str);
            problems.add(
                Problem::new("unknown_reference", node.span, message)
                    .help_if(suggestion(&name, "stages", known)),
            );
            continue;
        };
        // A stage that could not be read has been reported.
        let Some(draft) = drafts.get_mut(at).and_then(Option::as_mut) else { continue };
        if draft.axes.iter().any(|axis| axis.parameter == TRIAL) {
            let message = format!("two sweeps change the parameters of stage `{name}`");
            problems.add(
                Problem::new("duplicate_value", node.span, message)
                    .help("put all of its parameters into one"),
            );
            continue;
        }
        let number = drafted.len();
        let Some(axis) = axis(number, &sweep, draft, checks, problems) else { continue };
        let trial =
            |value: &AxisValue| Trial { number: value.label.clone(), values: value.values.clone() };
        let trials = axis.values.iter().map(trial).collect();
        draft.axes.push(axis);
        drafted.extend(rungs::read(
            number,
            &sweep,
            trials,
            at,
            (&mut *drafts, stages),
            checks,
            problems,
        ));
    }
    drafted
}

fn axis(
    number: usize,
    sweep: &WrittenSweep,
    draft: &Draft,
    checks: &Checks,
    problems: &mut Collector,
) -> Option<Axis> {
    let over = over(sweep, problems)?;
    let mut parameters: Vec<&'static Parameter> = Vec::new();
    let mut ranges = Vec::new();
    for entry in &over.0 {
        let parameter = parameter(entry, draft, problems)?;
        ranges.push(range(parameter, &entry.node, checks, problems)?);
        parameters.push(parameter);
    }
    let draw = match choice(sweep.draw.as_ref(), "draw", DRAWS, checks, problems)?.as_str() {
        "grid" => Draw::Grid,
        "random" => Draw::Random,
        _ => Draw::Sobol,
    };
    let mut count = |node: Option<&Node>, name, min, max, preset| match node {
        None => Some(preset),
        Some(node) => {
            let wanted = plain(name, ParameterType::Integer { min, max }, Unit::None);
            match checks.value(&wanted, node, problems)? {
                ParameterValue::Integer(number) => Some(number),
                _ => None,
            }
        }
    };
    let trials = count(sweep.trials.as_ref(), "trials", 2, MOST_TRIALS, TRIALS)?;
    let seed = count(sweep.seed.as_ref(), "seed", 0, i64::MAX, checks.seed)?;
    let points = space::count(&ranges, draw, trials as usize);
    if points as i64 > MOST_TRIALS {
        let message = format!("the grid has {points} trials, at most {MOST_TRIALS}");
        problems.add(Problem::new("too_large", sweep.name.span, message));
        return None;
    }
    let initial = initial(sweep, &parameters, checks, problems)?;
    let written = |parameter: &&'static Parameter| {
        let initial = initial.get(parameter.name);
        (parameter.name, initial.unwrap_or_else(|| draft.values.get(parameter.name)).clone())
    };
    let mut values =
        vec![AxisValue { label: "0".to_owned(), values: parameters.iter().map(written).collect() }];
    let draws = match draw {
        Draw::Grid => points,
        Draw::Random | Draw::Sobol => points.saturating_mul(REDRAWS),
    };
    for number in 0..draws {
        if values.len() > points {
            break;
        }
        let drawn = space::point(&ranges, draw, seed as u64, number);
        let named: Vec<_> = parameters.iter().map(|parameter| parameter.name).zip(drawn).collect();
        // The same values are the same trial; the numbers of the others stay.
        if values.iter().all(|known| known.values != named) {
            values.push(AxisValue { label: (number + 1).to_string(), values: named });
        }
    }
    Some(Axis { parameter: TRIAL, values, dimension: Some(Dimension::Trial(number)) })
}

/// The values of trial 0 where they are not those of the stage.
fn initial(
    sweep: &WrittenSweep,
    parameters: &[&'static Parameter],
    checks: &Checks,
    problems: &mut Collector,
) -> Option<BTreeMap<&'static str, ParameterValue>> {
    let Some(node) = &sweep.initial else { return Some(BTreeMap::new()) };
    let Value::Table(table) = &node.value else {
        let message = format!("`initial` should be a table but is {}", node.describe());
        let help = "write `initial = { learning_rate = 5e-6 }`";
        problems.add(Problem::new("wrong_type", node.span, message).help(help));
        return None;
    };
    let mut values = BTreeMap::new();
    for entry in &table.0 {
        let is_it = |parameter: &&&'static Parameter| parameter.name == entry.key.value;
        let Some(parameter) = parameters.iter().find(is_it) else {
            let known: Vec<&str> = parameters.iter().map(|parameter| parameter.name).collect();
            problems.add(unknown_key(&entry.key, "`initial`", &known));
            return None;
        };
        values.insert(parameter.name, checks.value(parameter, &entry.node, problems)?);
    }
    Some(values)
}

fn over<'a>(sweep: &'a WrittenSweep, problems: &mut Collector) -> Option<&'a Table> {
    const HELP: &str =
        "write `over = { learning_rate = { from = 1e-5, to = 1e-3, scale = \"log\" } }`";
    let (place, message) = match &sweep.over {
        Some(Node { value: Value::Table(table), span, .. }) => match table.0.len() {
            0 => (*span, "`over` has no parameters".to_owned()),
            1..=MOST_AXES => return Some(table),
            _ => (*span, format!("`over` has more than {MOST_AXES} parameters")),
        },
        Some(node) => (node.span, format!("`over` should be a table but is {}", node.describe())),
        None => (sweep.name.span, format!("sweep `{}` has no `over`", sweep.name.value)),
    };
    problems.add(Problem::new("wrong_type", place, message).help(HELP));
    None
}

fn parameter(entry: &Entry, draft: &Draft, problems: &mut Collector) -> Option<&'static Parameter> {
    let (name, kind) = (entry.key.value.as_str(), draft.kind);
    let Some(parameter) = kind.parameter(name) else {
        let message = format!("`{}` has no parameter `{}`", kind.name, name.escape_debug());
        let known = kind.parameters.iter().map(|parameter| parameter.name);
        problems.add(
            Problem::new("unknown_key", entry.key.span, message)
                .label("not a parameter")
                .help_if(suggestion(name, "parameters", known)),
        );
        return None;
    };
    if draft.axes.iter().any(|axis| axis.parameter == name) {
        let message = format!("`{name}` is set here and in the matrix of `{}`", draft.name.value);
        problems.add(Problem::new("duplicate_key", entry.key.span, message));
        return None;
    }
    Some(parameter)
}

/// A list of values, or a table of the ends of a range.
fn range(
    parameter: &'static Parameter,
    node: &Node,
    checks: &Checks,
    problems: &mut Collector,
) -> Option<Range> {
    match &node.value {
        Value::List(nodes) if !nodes.is_empty() => {
            let values = nodes.iter().map(|node| checks.value(parameter, node, problems));
            values.collect::<Option<Vec<_>>>().map(Range::List)
        }
        Value::Table(table) => between(parameter, node, table, checks, problems),
        _ => {
            let message = format!("the values of `{}` should be a list or a range", parameter.name);
            problems.add(
                Problem::new("wrong_type", node.span, message)
                    .help("write `[8, 16]`, or `{ from = 1e-5, to = 1e-3, scale = \"log\" }`"),
            );
            None
        }
    }
}

fn between(
    parameter: &'static Parameter,
    node: &Node,
    table: &Table,
    checks: &Checks,
    problems: &mut Collector,
) -> Option<Range> {
    let place = format!("the range of `{}`", parameter.name);
    let unknown = table.0.iter().find(|entry| !RANGE_KEYS.contains(&entry.key.value.as_str()));
    if let Some(entry) = unknown {
        problems.add(unknown_key(&entry.key, &place, RANGE_KEYS));
        return None;
    }
    let wrong = |message: String, problems: &mut Collector| {
        problems.add(
            Problem::new("wrong_value", node.span, message)
                .help("write `{ from = 1e-5, to = 1e-3, scale = \"log\" }`"),
        );
        None
    };
    let (Some(from), Some(to)) = (table.get("from"), table.get("to")) else {
        return wrong(format!("{place} needs `from` and `to`"), problems);
    };
    let from = checks.value(parameter, &from.node, problems)?;
    let to = checks.value(parameter, &to.node, problems)?;
    let scale = table.get("scale").map(|entry| &entry.node);
    let scale = match choice(scale, "scale", SCALES, checks, problems)?.as_str() {
        "log" => Scale::Log,
        _ => Scale::Linear,
    };
    match (from, to, scale) {
        (ParameterValue::Integer(from), ParameterValue::Integer(to), Scale::Linear)
            if from < to =>
        {
            Some(Range::Integers { from, to })
        }
        (ParameterValue::Integer(_), ParameterValue::Integer(_), Scale::Log) => wrong(
            format!("{place} has integers, for which `log` is not supported: write a list"),
            problems,
        ),
        (ParameterValue::Number(from), ParameterValue::Number(to), scale) if from < to => {
            if scale == Scale::Log && from <= 0.0 {
                wrong(format!("{place} begins at {from}, but `log` needs values above 0"), problems)
            } else {
                Some(Range::Numbers { from, to, scale })
            }
        }
        (ParameterValue::Integer(_), ParameterValue::Integer(_), _)
        | (ParameterValue::Number(_), ParameterValue::Number(_), _) => {
            wrong(format!("in {place}, `from` must be less than `to`"), problems)
        }
        _ => wrong(
            format!("the parameter `{}` is not a number: write a list of values", parameter.name),
            problems,
        ),
    }
}

/// One of these words; the first one if nothing is written.
fn choice(
    node: Option<&Node>,
    name: &'static str,
    words: &'static [&'static str],
    checks: &Checks,
    problems: &mut Collector,
) -> Option<String> {
    let Some(node) = node else { return Some(words[0].to_owned()) };
    match checks.value(&plain(name, ParameterType::Choice(words), Unit::None), node, problems)? {
        ParameterValue::Text(text) => Some(text),
        _ => None,
    }
}

fn text(
    node: &Node,
    name: &'static str,
    checks: &Checks,
    problems: &mut Collector,
) -> Option<String> {
    match checks.value(&plain(name, ParameterType::Text, Unit::None), node, problems)? {
        ParameterValue::Text(text) => Some(text),
        _ => None,
    }
}
