//! The rungs of a sweep, its score, and the stages that wait for scores.

use std::collections::{BTreeMap, BTreeSet};

use stage_core::ExpressionForm;
use stage_core::course::UNTIL;
use stage_core::{FieldType, Kind, ParameterType, ParameterValue, PortType, Unit};
use stage_expression::{self as expression, Whole};

use super::{choice, text};
use crate::draft::{Axis, AxisValue, Dimension, Draft};
use crate::instance::Instances;
use crate::nearest::suggestion;
use crate::node::{Node, Value};
use crate::pipeline::{ScoreMeasure, StageSpec, Sweep, Trial, TrialPosition};
use crate::problem::{Collector, Problem, Span};
use crate::sweep::halving::Halving;
use crate::value::{Checks, plain};
use crate::written::WrittenSweep;

pub const BETTER: &[&str] = &["lower", "higher"];
pub const MOST_RUNGS: i64 = 10;
pub const MOST_REPEATS: i64 = 20;
pub const ETA: i64 = 3;
pub const MOST_ETA: i64 = 16;
const WHOLE: ParameterType = ParameterType::CountOrShare { min: 1, max: 1_000_000_000 };
/// A whole training, where rungs are shares of it.
const ALL: f64 = 1e6;
/// The output that the score of a training is read from.
const CHECKPOINTS: &str = "checkpoints";
const SEED: &str = "seed";
/// The name of the axis, as in `trained[trial=3,rung=1]`.
const RUNG: &str = "rung";

/// A sweep before there are stages.
pub struct SweepDraft {
    pub sweep: Sweep,
    /// The written stage of the trials, and that of the score.
    at: usize,
    of: usize,
    span: Span,
    score_span: Span,
}

/// The stages that scores are read from.
pub fn scored(sweeps: &[SweepDraft]) -> BTreeSet<usize> {
    sweeps.iter().map(|sweep| sweep.of).collect()
}

/// Rungs, score and repeats of a sweep with these trials; adds the axis of its rungs to the stage.
pub fn read(
    number: usize,
    written: &WrittenSweep,
    trials: Vec<Trial>,
    at: usize,
    (drafts, stages): (&mut [Option<Draft>], &BTreeMap<String, usize>),
    checks: &Checks,
    problems: &mut Collector,
) -> Option<SweepDraft> {
    let span = written.name.span;
    let integer =
        |node: Option<&Node>, name, (min, max), preset, problems: &mut Collector| match node {
            None => Some(preset),
            Some(node) => {
                let wanted = plain(name, ParameterType::Integer { min, max }, Unit::None);
                match checks.value(&wanted, node, problems)? {
                    ParameterValue::Integer(number) => Some(number as usize),
                    _ => None,
                }
            }
        };
    let eta = integer(written.eta.as_ref(), "eta", (2, MOST_ETA), ETA as usize, problems)?;
    let repeat = integer(written.repeat.as_ref(), "repeat", (1, MOST_REPEATS), 1, problems)?;
    let draft = drafts.get(at)?.as_ref()?;
    let (until, rungs) = rungs(written, eta, draft, checks, problems)?;
    let score = score(written, at, (drafts, stages), checks, problems)?;
    if score.is_none() && (until.len() > 1 || repeat > 1) {
        let what = if until.len() > 1 { "rungs" } else { "repeats" };
        let message = format!("sweep `{}` has {what} and no `score`", written.name.value);
        let help =
            "add the measure that ranks the trials: `score = \"mean(cer)\"` and `of = \"heard\"`";
        problems.add(Problem::new("missing_key", span, message).help(help));
        return None;
    }
    let (of, score_span, score) = match score {
        Some((of, span, score)) => (of, span, Some(score)),
        None => (at, span, None),
    };
    let draft = drafts.get(at)?.as_ref()?;
    let names = trials.first().into_iter().flat_map(|trial| &trial.values);
    let sweep = Sweep {
        name: written.name.value.clone(),
        stage: draft.name.value.clone(),
        written: names.map(|(name, _)| (*name, draft.values.get(name).clone())).collect(),
        halving: Halving { trials: trials.len(), rungs, eta },
        trials,
        until,
        repeats: repeat - 1,
        score,
    };
    let draft = drafts.get_mut(at)?.as_mut()?;
    if let Some(axis) = axis(number, &sweep, draft, (span, problems))? {
        draft.axes.push(axis);
    }
    Some(SweepDraft { sweep, at, of, span, score_span })
}

/// The values of `until`, and the same as rising numbers.
fn rungs(
    written: &WrittenSweep,
    eta: usize,
    draft: &Draft,
    checks: &Checks,
    problems: &mut Collector,
) -> Option<(Vec<ParameterValue>, Vec<u64>)> {
    let Some(node) = &written.rungs else {
        return Some((vec![ParameterValue::Absent], vec![ALL as u64]));
    };
    if draft.kind.parameter(UNTIL).is_none() {
        let message = format!("`{}` is not a training, so it cannot have rungs", draft.kind.name);
        problems.add(Problem::new("wrong_value", node.span, message).help("remove `rungs`"));
        return None;
    }
    let mut until = written_rungs(node, eta, checks, problems)?;
    let mut wrong = |message: &str, help: &str| {
        problems.add(Problem::new("wrong_value", node.span, message.to_owned()).help(help));
        None
    };
    let are_shares = until.iter().all(|value| matches!(value, ParameterValue::Share(_)));
    let steps = draft.values.integer("steps").ok().filter(|_| draft.values.is_set("steps"));
    let whole = match (are_shares, steps) {
        (true, _) => ALL as u64,
        (false, Some(steps)) => steps.max(1) as u64,
        (false, None) => {
            let help = "write shares of the training: `rungs = [\"10%\", \"30%\"]`";
            return wrong("rungs in steps need a training with `steps`", help);
        }
    };
    let mut numbers = Vec::new();
    for value in &until {
        numbers.push(match value {
            ParameterValue::Share(share) if are_shares => (share * ALL).round() as u64,
            ParameterValue::Integer(steps) => (*steps).max(1) as u64,
            _ => {
                let help = "write either steps or shares of all steps";
                return wrong("`rungs` has both steps and shares", help);
            }
        });
    }
    numbers.push(whole);
    until.push(ParameterValue::Absent);
    if numbers.windows(2).all(|pair| pair[0] < pair[1]) {
        Some((until, numbers))
    } else {
        wrong(
            "`rungs` must rise and stay below the whole training",
            "leave out the last rung: it is always the whole training",
        )
    }
}

/// The ends of all rungs but the last one: a list as it is written, or the shares of a number of
/// rungs.
fn written_rungs(
    node: &Node,
    eta: usize,
    checks: &Checks,
    problems: &mut Collector,
) -> Option<Vec<ParameterValue>> {
    if let Value::List(nodes) = &node.value
        && nodes.len() < MOST_RUNGS as usize
    {
        let rung = plain("rungs", WHOLE, Unit::Count);
        return nodes.iter().map(|node| checks.value(&rung, node, problems)).collect();
    }
    let count = ParameterType::Integer { min: 1, max: MOST_RUNGS };
    match checks.value(&plain("rungs", count, Unit::None), node, problems)? {
        ParameterValue::Integer(count) => {
            let share = |below| ParameterValue::Share((eta as f64).powi(-(below as i32)));
            Some((1..count).rev().map(share).collect())
        }
        _ => None,
    }
}

type ScoreSource = Option<(usize, Span, ScoreMeasure)>;

/// The measure of the trials, and the stage that it is read from.
fn score(
    written: &WrittenSweep,
    at: usize,
    (drafts, stages): (&[Option<Draft>], &BTreeMap<String, usize>),
    checks: &Checks,
    problems: &mut Collector,
) -> Option<ScoreSource> {
    let better = choice(written.better.as_ref(), "better", BETTER, checks, problems)?;
    let Some(node) = &written.score else { return Some(None) };
    let wanted = plain("score", ParameterType::Expression(ExpressionForm::Measure), Unit::None);
    let ParameterValue::Text(measure) = checks.value(&wanted, node, problems)? else { return None };
    let (of, port) = match &written.of {
        None => (at, None),
        Some(node) => {
            let reference = text(node, "of", checks, problems)?;
            let (name, port) = match reference.split_once('.') {
                Some((name, port)) => (name, Some(port)),
                None => (reference.as_str(), None),
            };
            let Some(of) = stages.get(name).copied() else {
                let message = format!("there is no stage `{}`", name.escape_debug());
                let known = stages.keys().map(String::as_str);
                let help = suggestion(name, "stages", known);
                let problem = Problem::new("unknown_reference", node.span, message);
                problems.add(problem.help_if(help));
                return None;
            };
            (of, port.map(|port| (port.to_owned(), node.span)))
        }
    };
    let draft = drafts.get(of)?.as_ref()?;
    let port = output(draft.kind, port, problems)?;
    let score = ScoreMeasure {
        stage: draft.name.value.clone(),
        port,
        measure: expression::measure(&measure).unwrap_or(Whole::Number(0.0)),
        text: measure,
        is_higher_better: better == "higher",
        stages: BTreeMap::new(),
    };
    Some(Some((of, node.span, score)))
}

/// The port with the score: that of kept states for a training, unless another is named.
fn output(
    kind: &'static Kind,
    named: Option<(String, Span)>,
    problems: &mut Collector,
) -> Option<&'static str> {
    let Some((name, span)) = named else {
        let port = kind.output(CHECKPOINTS).or_else(|| kind.outputs.first());
        return port.map(|port| port.name);
    };
    let port = kind.output(&name);
    if port.is_none() {
        let message = format!("`{}` has no output `{}`", kind.name, name.escape_debug());
        let known = kind.outputs.iter().map(|output| output.name);
        let problem = Problem::new("unknown_port", span, message);
        problems.add(problem.help_if(suggestion(&name, "known outputs", known)));
    }
    port.map(|port| port.name)
}

/// The rungs of each trial, and its repeats with other seeds.
fn axis(
    number: usize,
    sweep: &Sweep,
    draft: &Draft,
    (span, problems): (Span, &mut Collector),
) -> Option<Option<Axis>> {
    let mut needed = Vec::new();
    needed.extend((sweep.rungs() > 1).then_some((UNTIL, "`rungs` sets it")));
    needed.extend((sweep.repeats > 0).then_some((SEED, "`repeat` sets it")));
    if needed.is_empty() {
        return Some(None);
    }
    for (name, why) in &needed {
        let is_swept = |axis: &Axis| {
            axis.values.iter().any(|value| value.values.iter().any(|(own, _)| own == name))
        };
        let is_written = *name == UNTIL && draft.values.is_set(UNTIL);
        if is_written || draft.axes.iter().any(is_swept) {
            let message = format!("`{name}` of `{}` is set twice", draft.name.value);
            let help = format!("{why}: remove the others");
            problems.add(Problem::new("duplicate_key", span, message).help(help));
            return None;
        }
    }
    let Ok(seed) = draft.values.integer(SEED).or(if sweep.repeats == 0 { Ok(0) } else { Err(()) })
    else {
        let message = format!("`{}` has no `seed` to repeat it with", draft.kind.name);
        problems.add(Problem::new("wrong_value", span, message).help("remove `repeat`"));
        return None;
    };
    let rungs = sweep.until.iter().map(|until| match until {
        ParameterValue::Absent => Vec::new(),
        until => vec![(UNTIL, until.clone())],
    });
    let seeds = (1..=sweep.repeats as i64).map(|further| {
        // Seeds have no order, so that the last one is followed by the first.
        vec![(SEED, ParameterValue::Integer(seed.checked_add(further).unwrap_or(further)))]
    });
    let values = rungs.chain(seeds).enumerate();
    let value = |(at, values)| AxisValue { label: sweep.label(at), values };
    let dimension = Some(Dimension::Rung(number));
    Some(Some(Axis { parameter: RUNG, values: values.map(value).collect(), dimension }))
}

/// Finds the stages of each sweep, and lets rungs wait for the scores of those below.
pub fn finish(
    drafted: Vec<SweepDraft>,
    drafts: &[Option<Draft>],
    instances: &Instances,
    stages: &mut [StageSpec],
    problems: &mut Collector,
) -> Vec<Sweep> {
    let mut sweeps: Vec<Sweep> = Vec::new();
    let scored: Vec<bool> = drafted.iter().map(|own| own.sweep.score.is_some()).collect();
    for (instance, stage) in instances.all.iter().zip(stages.iter_mut()) {
        // A sweep with mistakes has been reported.
        let mut places = instance.places(drafts);
        places.retain(|place| place.sweep < scored.len());
        stage.place = places.iter().find(|place| scored[place.sweep]).or(places.first()).copied();
        if let [_, second, ..] = places.iter().filter(|p| scored[p.sweep]).collect::<Vec<_>>()[..] {
            let own = &drafted[second.sweep];
            let message = format!("stage `{}` follows two sweeps with a score", stage.name);
            let problem = Problem::new("wrong_value", own.span, message);
            problems.add(problem.help("put the parameters of both into one sweep"));
            break;
        }
    }
    for (number, SweepDraft { mut sweep, at, of, span, score_span }) in
        drafted.into_iter().enumerate()
    {
        let expected = (sweep.rungs() + sweep.repeats) * sweep.trials.len();
        if let Some(score) = &mut sweep.score {
            let own = instances.all.iter().zip(stages.iter()).filter(|(own, _)| own.stage == of);
            let (mut places, mut has_others) = (BTreeMap::new(), false);
            for (instance, stage) in own {
                let place = instance.places(drafts).into_iter().find(|p| p.sweep == number);
                let Some(TrialPosition { rung, trial, .. }) = place else { continue };
                has_others |= places.insert((rung, trial), stage.id).is_some();
            }
            score.stages = places;
            let wrong = match (score.stages.len() == expected, has_others) {
                (true, false) => None,
                (_, true) => Some("has a `matrix` or another sweep besides this one"),
                (false, false) => Some("does not follow the trials"),
            };
            if let Some(wrong) = wrong {
                let message = format!("stage `{}` {wrong}", score.stage);
                let help = "the score needs one stage for each trial and rung";
                problems.add(Problem::new("wrong_value", score_span, message).help(help));
            }
            check_fields(score, stages, score_span, problems);
        }
        gate(number, &sweep, at, instances, stages, (span, problems));
        sweeps.push(sweep);
    }
    sweeps
}

/// Reports fields that the measured data set does not have.
fn check_fields(score: &ScoreMeasure, stages: &[StageSpec], span: Span, problems: &mut Collector) {
    let Some(stage) = score.stages.values().next().and_then(|id| stages.get(id.0)) else { return };
    let Some(known) = stage.fields.get(score.port) else { return };
    let is_artifact = |port: &stage_core::OutputPort| port.port_type == PortType::Artifact;
    // The numbers of an artifact are those of its file, which no kind declares.
    if known.open || stage.kind.output(score.port).is_some_and(is_artifact) {
        return;
    }
    for (field, wanted) in expression::fields(&score.text) {
        if known.fields.get(&field) != Some(&wanted) {
            let what = if wanted == FieldType::Text { "text" } else { "number" };
            let message = format!("`{}` has no {what} `{field}`", score.stage);
            let known = known.fields.keys().map(String::as_str);
            let problem = Problem::new("unknown_field", span, message);
            problems.add(problem.help_if(suggestion(&field, "known fields", known)));
        }
    }
}

/// A rung waits for the scores of the rung below, and a repeat for that of its own trial.
fn gate(
    number: usize,
    sweep: &Sweep,
    at: usize,
    instances: &Instances,
    stages: &mut [StageSpec],
    (span, problems): (Span, &mut Collector),
) {
    let Some(score) = &sweep.score else { return };
    for (instance, stage) in instances.all.iter().zip(stages.iter_mut()) {
        let Some(TrialPosition { sweep: own, rung, trial }) = stage.place else { continue };
        if instance.stage != at || own != number || rung == 0 {
            continue;
        }
        let below = if rung < sweep.rungs() {
            (0..sweep.trials.len()).map(|trial| (rung - 1, trial)).collect()
        } else {
            vec![(sweep.last_rung(), trial)]
        };
        let scores = below.iter().filter_map(|place| score.stages.get(place)).copied();
        stage.gate = scores.collect();
        if stage.gate.iter().any(|above| above.0 >= stage.id.0) {
            let message = format!("the score of sweep `{}` depends on all its rungs", sweep.name);
            let help =
                format!("let `{}` read only the trial and rung that it belongs to", score.stage);
            problems.add(Problem::new("wrong_value", span, message).help(help));
            return;
        }
    }
}
