//! A stage as written, with its keys sorted: ports, parameters, common keys, matrix.

use std::collections::BTreeMap;

use stage_core::{
    Catalogue, InputPort, Kind, Mistake, Parameter, ParameterValue, Parameters, Work,
};

use super::export::WrittenExport;
use super::nearest::{list, nearest, suggestion};
use super::node::{Entry, Node, Spanned, Value};
use super::policy;
use super::problem::{Collector, Problem, Span};
use super::reference::{ReferenceText, Target};
use super::value::{self, Checks};
use super::written::WrittenStage;
use crate::pipeline::{Policy, StageWork};

/// A matrix with more values than this is not a sweep.
const LONGEST_AXIS: usize = 1_000;

pub struct Draft {
    pub name: Spanned<String>,
    pub kind: &'static Kind,
    /// The values that all instances share.
    pub values: Parameters,
    /// The positions of parameters that name fields, for messages.
    pub places: BTreeMap<&'static str, Span>,
    pub axes: Vec<Axis>,
    pub ports: BTreeMap<&'static str, Vec<ReferenceText>>,
    /// The same as `ports`, resolved; filled in once every stage is known.
    pub inputs: BTreeMap<&'static str, Vec<(Target, Span)>>,
    pub exports: Vec<WrittenExport>,
    pub policy: Policy,
    /// The keys that misspelled ones probably mean; they are not reported as missing too.
    meant: Vec<&'static str>,
}

/// One parameter of a matrix, or the trials of a sweep, which change several parameters together.
#[derive(Clone)]
pub struct Axis {
    /// The name in brackets: that of the parameter, or `trial`.
    pub parameter: &'static str,
    pub values: Vec<AxisValue>,
    /// For an axis of a sweep, with the number of the sweep.
    pub dimension: Option<Dimension>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    Trial(usize),
    /// Its rungs, then its repeats with other seeds.
    Rung(usize),
}

#[derive(Clone)]
pub struct AxisValue {
    /// The label in the names of the instances.
    pub label: String,
    /// Parameters with their values; `Absent` leaves one out.
    pub values: Vec<(&'static str, ParameterValue)>,
}

/// References must be kept even if other parts of a stage are wrong, so that one wrong stage does
/// not make its readers wrong.
pub fn read(
    stage: WrittenStage,
    catalogue: &Catalogue,
    checks: &Checks,
    problems: &mut Collector,
) -> Option<Draft> {
    // A missing kind has been reported.
    let found = stage.kind.as_ref().map(|node| find_kind(node, catalogue, problems));
    match found.unwrap_or(KindMatch::Unknown) {
        KindMatch::Known(kind) => Some(read_as(&stage, kind, checks, problems)),
        KindMatch::Meant(kind) => read_as_nearest(stage, kind, checks, problems),
        KindMatch::Unknown => {
            read_common(&stage, checks, problems);
            None
        }
    }
}

/// Handles a misspelled kind. If everything else in the stage fits the probable kind, that kind is
/// assumed, and mistakes in the rest are reported too.
fn read_as_nearest(
    stage: WrittenStage,
    kind: &'static Kind,
    checks: &Checks,
    problems: &mut Collector,
) -> Option<Draft> {
    let mut own = Collector::default();
    let draft = read_as(&stage, kind, checks, &mut own);
    if own.has_any(&["unknown_key", "missing_key", "missing_port"]) {
        read_common(&stage, checks, problems);
        None
    } else {
        problems.take(own);
        Some(draft)
    }
}

/// The mistakes that can be found in a stage of an unknown kind.
fn read_common(stage: &WrittenStage, checks: &Checks, problems: &mut Collector) {
    let mut policy = policy::usual();
    for entry in stage.entries.iter().filter(|entry| policy::is_common(&entry.key.value)) {
        policy::read(&mut policy, entry, checks, problems);
    }
    if let Some(export) = &stage.export {
        super::export::check(export, checks, problems);
    }
}

fn read_as(
    stage: &WrittenStage,
    kind: &'static Kind,
    checks: &Checks,
    problems: &mut Collector,
) -> Draft {
    let mut draft = Draft {
        name: stage.name.clone(),
        kind,
        values: Parameters::default(),
        places: BTreeMap::new(),
        axes: Vec::new(),
        ports: BTreeMap::new(),
        inputs: BTreeMap::new(),
        exports: Vec::new(),
        policy: policy::usual(),
        meant: Vec::new(),
    };
    if let Some(matrix) = &stage.matrix {
        draft.read_matrix(&matrix.node, checks, problems);
    }
    for entry in &stage.entries {
        draft.read_entry(entry, checks, problems);
    }
    draft.fill_in(checks, problems);
    if let Some(export) = &stage.export {
        draft.exports = super::export::read(export, kind, checks, problems);
    }
    draft
}

/// The meaning of the key `use`.
enum KindMatch {
    Known(&'static Kind),
    /// Not a kind, but a similar name exists.
    Meant(&'static Kind),
    Unknown,
}

fn find_kind(node: &Node, catalogue: &Catalogue, problems: &mut Collector) -> KindMatch {
    let Some(name) = node.text() else {
        let message = "`use` should be the name of a stage kind";
        problems.add(
            Problem::new("wrong_type", node.span, message)
                .label(format!("this is {}", node.describe())),
        );
        return KindMatch::Unknown;
    };
    if let Some(kind) = catalogue.get(name) {
        return KindMatch::Known(kind);
    }
    let message = format!("there is no stage kind `{}`", name.escape_debug());
    let near = nearest(name, catalogue.iter().map(|kind| kind.name));
    let help = near.map(|near| format!("did you mean `{near}`?"));
    let help = help.unwrap_or_else(|| {
        "`throstle stages` lists the kinds; a kind of another crate needs the program that \
         links it"
            .to_owned()
    });
    problems.add(Problem::new("unknown_kind", node.span, message).label("unknown kind").help(help));
    match near.and_then(|near| catalogue.get(near)) {
        Some(kind) => KindMatch::Meant(kind),
        None => KindMatch::Unknown,
    }
}

impl Draft {
    fn read_entry(&mut self, entry: &Entry, checks: &Checks, problems: &mut Collector) {
        let key = entry.key.value.as_str();
        if policy::is_common(key) {
            policy::read(&mut self.policy, entry, checks, problems);
        } else if let Some(port) = self.kind.input(key) {
            let written = super::reference::read(entry, port, problems);
            self.ports.insert(port.name, written);
        } else if let Some(parameter) = self.kind.parameter(key) {
            self.places.insert(parameter.name, entry.node.span);
            if let Some(axis) = self.axes.iter().find(|axis| axis.parameter == key) {
                let message = format!("`{}` is set here and in `matrix`", axis.parameter);
                problems.add(
                    Problem::new("duplicate_key", entry.key.span, message)
                        .help("remove one of the two"),
                );
            } else if let Some(value) = checks.value(parameter, &entry.node, problems) {
                self.values.0.insert(parameter.name.to_owned(), value);
            }
        } else {
            problems.add(self.unknown_key(&entry.key));
            self.meant.extend(nearest(&entry.key.value, self.names()));
        }
    }

    /// The ports and parameters of the kind.
    fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        let kind = self.kind;
        let ports = kind.inputs.iter().map(|port| port.name);
        ports.chain(kind.parameters.iter().map(|parameter| parameter.name))
    }

    fn unknown_key(&self, key: &Spanned<String>) -> Problem {
        let common = policy::COMMON.iter().map(|parameter| parameter.name);
        let own: Vec<&str> = self.names().collect();
        let all = own.iter().copied().chain(common).chain(["use", "export", "matrix"]);
        let near = nearest(&key.value, all).map(|near| format!("did you mean `{near}`?"));
        let kind = self.kind.name;
        let help = near.unwrap_or_else(|| {
            if own.is_empty() {
                format!("`{kind}` has no ports or parameters")
            } else {
                format!("ports and parameters of `{kind}`: {}", list(own))
            }
        });
        let message = format!("`{kind}` has no port or parameter `{}`", key.value.escape_debug());
        Problem::new("unknown_key", key.span, message).label("unknown key").help(help)
    }

    fn read_matrix(&mut self, node: &Node, checks: &Checks, problems: &mut Collector) {
        let Value::Table(table) = &node.value else {
            let problem =
                Problem::new("wrong_type", node.span, "`matrix` should be a table of lists");
            problems.add(problem.help("write `matrix = { rate = [16000, 22050] }`"));
            return;
        };
        for Entry { key, node } in &table.0 {
            let Some(parameter) = self.kind.parameter(&key.value) else {
                let message = format!("`{}` has no parameter `{}`", self.kind.name, key.value);
                let known = self.kind.parameters.iter().map(|parameter| parameter.name);
                problems.add(
                    Problem::new("unknown_key", key.span, message)
                        .label("not a parameter")
                        .help_if(suggestion(&key.value, "parameters", known)),
                );
                continue;
            };
            let values = match &node.value {
                Value::List(nodes) if nodes.len() > LONGEST_AXIS => {
                    let (name, count) = (&key.value, nodes.len());
                    let message = format!(
                        "the matrix of `{name}` has {count} values: the limit is {LONGEST_AXIS}"
                    );
                    let help = "a matrix runs the stage once for each value; process many inputs as \
                        the items of one data set";
                    problems.add(Problem::new("too_large", key.span, message).help(help));
                    continue;
                }
                Value::List(nodes) if !nodes.is_empty() => nodes,
                _ => {
                    let message =
                        format!("the matrix of `{}` should be a list of values", key.value);
                    problems.add(
                        Problem::new("wrong_type", node.span, message)
                            .help(format!("write `{} = [first, second]`", key.value)),
                    );
                    continue;
                }
            };
            let mut axis = Axis { parameter: parameter.name, values: Vec::new(), dimension: None };
            for node in values {
                let Some(value) = checks.value(parameter, node, problems) else { continue };
                axis.add(value, node, problems);
            }
            self.places.insert(parameter.name, node.span);
            self.axes.push(axis);
        }
        self.axes.retain(|axis| !axis.values.is_empty());
    }

    /// Fills in defaults, and reports missing keys that are required.
    fn fill_in(&mut self, checks: &Checks, problems: &mut Collector) {
        for parameter in self.kind.parameters {
            let name = parameter.name;
            if self.places.contains_key(name) || self.meant.contains(&name) {
                continue;
            }
            match value::default(parameter, checks.seed) {
                Some(ParameterValue::Absent) => {}
                Some(value) => drop(self.values.0.insert(name.to_owned(), value)),
                None => {
                    let message = format!(
                        "stage `{}` has no `{name}`, which `{}` needs",
                        self.name.value, self.kind.name
                    );
                    problems.add(
                        Problem::new("missing_key", self.name.span, message)
                            .help(format!("`{name}`: {}", parameter.doc)),
                    );
                }
            }
        }
        for port in self.kind.inputs {
            let written = self.ports.get(port.name);
            if !port.optional && written.is_none_or(Vec::is_empty) && !self.failed(port.name) {
                let message = format!(
                    "stage `{}` has no `{}`, which `{}` needs",
                    self.name.value, port.name, self.kind.name
                );
                let ports = list(self.kind.inputs.iter().map(|port| port.name));
                let help = format!(
                    "name the stage that it reads: `{} = \"…\"`; its ports are {ports}",
                    port.name
                );
                problems.add(Problem::new("missing_port", self.name.span, message).help(help));
            }
        }
    }

    /// Tests if the port was written but could not be read, which has been reported.
    fn failed(&self, port: &str) -> bool {
        self.ports.get(port).is_some_and(Vec::is_empty) || self.meant.contains(&port)
    }

    /// Reports mistakes in combinations of parameters of an instance.
    pub fn check(&self, parameters: &Parameters, problems: &mut Collector) {
        let is_unknown = |parameter: &Parameter| {
            let required = matches!(parameter.default, stage_core::Default::Required);
            let written = required
                || self.places.contains_key(parameter.name)
                || self.meant.contains(&parameter.name);
            written && !parameters.0.contains_key(parameter.name)
        };
        let unknown = self.kind.parameters.iter().filter(|parameter| is_unknown(parameter));
        let unknown: Vec<&str> = unknown.map(|parameter| parameter.name).collect();
        let replaced = self.kind.inputs.iter().filter_map(|port| self.replaced(port, parameters));
        let missing = self.without_replacement(parameters, &unknown);
        let found = (self.kind.check)(parameters, &unknown).into_iter();
        for mistake in found.chain(replaced).chain(missing) {
            let place = self.places.get(mistake.parameter).copied().unwrap_or(self.name.span);
            let problem = Problem::new("wrong_value", place, mistake.message);
            problems.add(problem.help_if(mistake.help));
        }
    }

    /// A port that is given beside a parameter in its place.
    fn replaced(&self, port: &InputPort, parameters: &Parameters) -> Option<Mistake> {
        let mut replacing = port.replaced_by.iter();
        let parameter = *replacing.find(|name| parameters.is_set(name))?;
        let message = format!("`{parameter}` and `{}` are both given", port.name);
        let help = Some("leave out one of them".to_owned());
        self.ports.contains_key(port.name).then_some(Mistake { parameter, message, help })
    }

    /// The mistake that neither a port nor one of the parameters that replace it is given.
    fn without_replacement(&self, parameters: &Parameters, unknown: &[&str]) -> Option<Mistake> {
        let replacing = |port: &&InputPort| !port.replaced_by.is_empty();
        let replacing = self.kind.inputs.iter().find(replacing)?.replaced_by;
        let ports = self.kind.inputs.iter().filter(|port| port.replaced_by == replacing);
        let mut names: Vec<&str> = ports.map(|port| port.name).collect();
        let is_given = |name: &&str| parameters.is_set(name) || unknown.contains(name);
        if replacing.iter().any(is_given) || names.iter().any(|port| self.has_port(port)) {
            return None;
        }
        names.extend(replacing);
        let parameter = *replacing.first()?;
        let (stage, kind) = (&self.name.value, self.kind.name);
        let names = list(names).replace("`, `", "` or `");
        let message = format!("stage `{stage}` has no {names}, and `{kind}` needs one");
        Some(Mistake { parameter, message, help: None })
    }

    /// True if the port is written, even if it could not be read.
    pub fn has_port(&self, port: &str) -> bool {
        self.ports.contains_key(port) || self.failed(port)
    }

    /// Tests if the input of the port is unknown because of an error.
    pub fn is_broken(&self, port: &str, found: usize) -> bool {
        let written = self.ports.get(port).map_or(0, Vec::len);
        let required = self.kind.input(port).is_some_and(|port| !port.optional);
        found < written || (required && found == 0)
    }

    /// The work of the stage under the parameters of an instance.
    pub fn work(kind: &Kind, values: &Parameters) -> StageWork {
        match kind.work {
            Work::Source => StageWork::Source,
            Work::Item => StageWork::Item,
            Work::Gather => StageWork::Gather,
            Work::Train => StageWork::Train,
            Work::Chosen { parameter } => match values.get(parameter) {
                ParameterValue::Text(text) if text == "item" => StageWork::Item,
                _ => StageWork::Gather,
            },
        }
    }
}

impl Axis {
    fn add(&mut self, value: ParameterValue, node: &Node, problems: &mut Collector) {
        let label = label(&value);
        if self.values.iter().any(|known| known.label == label) {
            let message = format!("the matrix has `{label}` twice for `{}`", self.parameter);
            problems
                .add(Problem::new("duplicate_value", node.span, message).label("the second time"));
            return;
        }
        self.values.push(AxisValue { label, values: vec![(self.parameter, value)] });
    }
}

/// A value as a part of names and paths, without separators or parent folders.
fn label(value: &ParameterValue) -> String {
    let text = match value {
        ParameterValue::Text(text) => text.clone(),
        other => other.to_string(),
    };
    let allowed =
        |letter: char| letter.is_alphanumeric() || matches!(letter, '.' | '-' | '+' | '_');
    text.chars().take(100).map(|letter| if allowed(letter) { letter } else { '_' }).collect()
}
