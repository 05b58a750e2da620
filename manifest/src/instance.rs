//! Matrices: one written stage becomes several instances, and so do its downstream stages.

use std::collections::HashMap;

use super::draft::{Axis, Dimension, Draft};
use super::problem::{Collector, Problem, Span};
use super::reference::Target;
use super::written::MOST_STAGES;
use crate::pipeline::TrialPosition;
use stage_core::{ParameterValue, Parameters};

/// One axis of the matrix of one written stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct AxisId {
    stage: usize,
    axis: usize,
}

/// A future stage of the pipeline: a written stage with a value for every axis that reaches it.
pub struct Instance {
    pub stage: usize,
    /// `rate=16000,codec=b`; empty without a matrix.
    pub suffix: String,
    pub parameters: Parameters,
    choice: Vec<(AxisId, usize)>,
}

pub struct Instances {
    /// In the order of the written stages given, those of lower rungs of sweeps first.
    pub all: Vec<Instance>,
    /// Positions in `all` of the instances of a written stage.
    of_stage: HashMap<usize, Vec<usize>>,
    of_choice: HashMap<(usize, Vec<usize>), usize>,
    axes: HashMap<usize, Vec<AxisId>>,
    levels: Levels,
}

/// The rungs of sweeps that instances need: a rung waits for the scores of those below, so that
/// these come before it in the pipeline.
#[derive(Default)]
struct Levels {
    /// By instance.
    own: Vec<usize>,
    /// Of a written stage: what all of its instances need, and the most that one needs.
    of_stage: HashMap<usize, (usize, usize)>,
}

/// `order` is a topological order of the stages.
pub fn expand(drafts: &[Option<Draft>], order: &[usize], problems: &mut Collector) -> Instances {
    let mut instances = Instances {
        all: Vec::new(),
        of_stage: HashMap::new(),
        of_choice: HashMap::new(),
        axes: HashMap::new(),
        levels: Levels::default(),
    };
    for &stage in order {
        let Some(draft) = &drafts[stage] else { continue };
        let axes = instances.axes_of(stage, draft);
        let product = axes.iter().map(|id| axis(drafts, *id).values.len());
        let count = product.fold(1usize, usize::saturating_mul);
        if instances.all.len().saturating_add(count) > MOST_STAGES {
            let message = format!("the matrix makes more than {MOST_STAGES} stages");
            let problem = Problem::new("too_large", draft.name.span, message);
            problems.add(problem.help("use fewer values"));
            return instances;
        }
        for number in 0..count {
            instances.add(stage, draft, drafts, &axes, number);
        }
        instances.note_levels(stage, draft, drafts);
        instances.axes.insert(stage, axes);
    }
    instances.sort();
    instances
}

fn axis(drafts: &[Option<Draft>], id: AxisId) -> &Axis {
    static NONE: Axis = Axis { parameter: "", values: Vec::new(), dimension: None };
    drafts[id.stage].as_ref().map_or(&NONE, |draft| &draft.axes[id.axis])
}

impl Instance {
    /// The sweeps that the instance follows, with its trial and rung.
    pub fn places(&self, drafts: &[Option<Draft>]) -> Vec<TrialPosition> {
        let mut places: Vec<TrialPosition> = Vec::new();
        for (id, value) in &self.choice {
            let (sweep, trial, rung) = match axis(drafts, *id).dimension {
                Some(Dimension::Trial(sweep)) => (sweep, *value, 0),
                Some(Dimension::Rung(sweep)) => (sweep, 0, *value),
                None => continue,
            };
            match places.iter_mut().find(|place| place.sweep == sweep) {
                Some(place) => (place.trial, place.rung) = (place.trial + trial, place.rung + rung),
                None => places.push(TrialPosition { sweep, trial, rung }),
            }
        }
        places
    }
}

impl Instances {
    /// The rungs that the instances of a stage need, from those that its inputs need.
    fn note_levels(&mut self, stage: usize, draft: &Draft, drafts: &[Option<Draft>]) {
        let mut base = 0;
        for (port, targets) in &draft.inputs {
            let is_many = draft.kind.input(port).is_some_and(|port| port.many);
            for (target, _) in targets {
                let Target::Stage { stage, instance, .. } = target else { continue };
                let (all, most) = self.levels.of_stage.get(stage).copied().unwrap_or_default();
                base = base.max(if is_many || instance.is_some() { most } else { all });
            }
        }
        let mut most = base;
        for instance in &self.all[self.levels.own.len()..] {
            let rungs = instance.places(drafts).into_iter().map(|place| place.rung);
            let level = rungs.fold(base, usize::max);
            most = most.max(level);
            self.levels.own.push(level);
        }
        self.levels.of_stage.insert(stage, (base, most));
    }

    /// Instances of higher rungs come after all those of lower ones.
    fn sort(&mut self) {
        if self.levels.own.iter().all(|level| *level == 0) {
            return;
        }
        let mut order: Vec<usize> = (0..self.all.len()).collect();
        order.sort_by_key(|at| self.levels.own[*at]);
        let mut new = vec![0; order.len()];
        order.iter().enumerate().for_each(|(to, from)| new[*from] = to);
        let mut all: Vec<(usize, Instance)> =
            std::mem::take(&mut self.all).into_iter().enumerate().collect();
        all.sort_by_key(|(from, _)| new[*from]);
        self.all = all.into_iter().map(|(_, instance)| instance).collect();
        self.of_stage.values_mut().flatten().for_each(|at| *at = new[*at]);
        self.of_choice.values_mut().for_each(|at| *at = new[*at]);
    }

    /// The axes of the inputs, unless a port collects them all or names one, and the stage's own.
    fn axes_of(&self, stage: usize, draft: &Draft) -> Vec<AxisId> {
        let mut axes: Vec<AxisId> =
            (0..draft.axes.len()).map(|axis| AxisId { stage, axis }).collect();
        for (port, targets) in &draft.inputs {
            if draft.kind.input(port).is_some_and(|port| port.many) {
                continue;
            }
            for (target, _) in targets {
                if let Target::Stage { stage, instance: None, .. } = target {
                    axes.extend(self.axes.get(stage).into_iter().flatten());
                }
            }
        }
        axes.sort_unstable();
        axes.dedup();
        axes
    }

    fn add(
        &mut self,
        stage: usize,
        draft: &Draft,
        drafts: &[Option<Draft>],
        axes: &[AxisId],
        number: usize,
    ) {
        let mut rest = number;
        let mut choice: Vec<(AxisId, usize)> = Vec::with_capacity(axes.len());
        // The last axis varies fastest.
        for id in axes.iter().rev() {
            let values = axis(drafts, *id).values.len();
            choice.push((*id, rest % values));
            rest /= values;
        }
        choice.reverse();
        let mut parameters = draft.values.clone();
        for (id, value) in choice.iter().filter(|(id, _)| id.stage == stage) {
            let values = axis(drafts, *id).values[*value].values.iter();
            let set = values.filter(|(_, value)| *value != ParameterValue::Absent);
            parameters.0.extend(set.map(|(name, value)| ((*name).to_owned(), value.clone())));
        }
        let values = choice.iter().map(|(_, value)| *value).collect();
        let suffix = suffix(drafts, &choice);
        let at = self.all.len();
        self.of_stage.entry(stage).or_default().push(at);
        self.of_choice.insert((stage, values), at);
        self.all.push(Instance { stage, suffix, parameters, choice });
    }

    /// The instances that a reference means, seen from an instance; several only if the port takes
    /// many.
    pub fn of_reference(
        &self,
        reader: &Instance,
        target: usize,
        named: Option<&str>,
        many: bool,
    ) -> Vec<usize> {
        let all = self.of_stage.get(&target).map(Vec::as_slice).unwrap_or_default();
        if let Some(name) = named {
            let same = |at: &usize| self.all[*at].suffix == name;
            return all.iter().copied().filter(same).collect();
        }
        if many {
            return all.to_vec();
        }
        let axes = self.axes.get(&target).map(Vec::as_slice).unwrap_or_default();
        let chosen =
            |id: &AxisId| reader.choice.iter().find(|(own, _)| own == id).map(|(_, value)| *value);
        let values: Option<Vec<usize>> = axes.iter().map(chosen).collect();
        let found = values.and_then(|values| self.of_choice.get(&(target, values)).copied());
        found.into_iter().collect()
    }

    /// The suffixes of a stage's instances, for messages.
    pub fn suffixes(&self, stage: usize) -> impl Iterator<Item = &str> {
        let all = self.of_stage.get(&stage).into_iter().flatten();
        all.map(|at| self.all[*at].suffix.as_str())
    }
}

/// Axes of two stages with the same name are distinguished by their stages.
fn suffix(drafts: &[Option<Draft>], choice: &[(AxisId, usize)]) -> String {
    let parameter = |id: AxisId| axis(drafts, id).parameter;
    let mut parts = Vec::with_capacity(choice.len());
    for (id, value) in choice {
        let name = parameter(*id);
        let label = &axis(drafts, *id).values[*value].label;
        let shared = choice.iter().filter(|(other, _)| parameter(*other) == name).count() > 1;
        let owner = drafts[id.stage].as_ref().map_or("", |draft| draft.name.value.as_str());
        parts.push(if shared {
            format!("{owner}.{name}={label}")
        } else {
            format!("{name}={label}")
        });
    }
    parts.join(",")
}

/// A reference in brackets that names no instance.
pub fn unknown_instance(name: &str, stage: &str, known: &[&str], span: Span) -> Problem {
    let message = format!("stage `{stage}` has no instance `[{}]`", name.escape_debug());
    let known: Vec<&str> = known.iter().copied().filter(|suffix| !suffix.is_empty()).collect();
    let known: Vec<String> = known.iter().map(|suffix| format!("`{stage}[{suffix}]`")).collect();
    let help = match known.len() {
        0 => format!("`{stage}` has no matrix: remove the brackets"),
        1..=20 => format!("known instances: {}", known.join(", ")),
        many => format!("it has {many} instances, such as {}", known[0]),
    };
    Problem::new("unknown_reference", span, message).help(help)
}
