//! References: `stage`, `stage.port`, `stage[rate=16000]`, `assets.name`.

use std::collections::{BTreeMap, BTreeSet};

use stage_core::{InputPort, OutputPort, PortType};

use super::draft::Draft;
use super::nearest::{nearest, suggestion};
use super::node::{Entry, Value};
use super::problem::{Collector, Problem, Span};

/// A reference as written on a port.
pub struct ReferenceText {
    pub text: String,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Stage {
        /// The index of the written stage.
        stage: usize,
        port: &'static str,
        /// The values in brackets, if only that instance of a matrix is meant.
        instance: Option<String>,
    },
    Asset(String),
}

/// The references on a port: one, or a list where the port takes many.
pub fn read(entry: &Entry, port: &InputPort, problems: &mut Collector) -> Vec<ReferenceText> {
    let nodes = entry.node.elements();
    if matches!(entry.node.value, Value::List(_)) && !port.many {
        let message = format!("`{}` takes one reference, not a list", port.name);
        problems.add(Problem::new("wrong_type", entry.node.span, message));
        return Vec::new();
    }
    let mut written = Vec::new();
    for node in nodes {
        match node.text() {
            Some(text) => written.push(ReferenceText { text: text.to_owned(), span: node.span }),
            None => {
                let message = format!("`{}` should be the name of a stage or asset", port.name);
                let problem = Problem::new("wrong_type", node.span, message);
                problems.add(problem.label(format!("this is {}", node.describe())));
            }
        }
    }
    if nodes.is_empty() && !port.optional {
        let message = format!("`{}` does not name a stage", port.name);
        problems.add(Problem::new("missing_port", entry.node.span, message).label("an empty list"));
    }
    written
}

/// The names that references are looked up in.
pub struct Names<'a> {
    /// Every written stage; `None` if its kind is unknown, which has been reported.
    pub stages: &'a BTreeMap<String, usize>,
    pub drafts: &'a [Option<Draft>],
    pub assets: &'a BTreeSet<String>,
}

impl Names<'_> {
    /// `None` if it cannot be found; reported unless the stage itself is wrong.
    pub fn find(
        &self,
        port: &InputPort,
        written: &ReferenceText,
        problems: &mut Collector,
    ) -> Option<Target> {
        let text = written.text.as_str();
        if let Some(name) = text.strip_prefix("assets.") {
            return self.find_asset(name, port, written, problems);
        }
        let (name, instance, output) = split(text);
        let Some(&stage) = self.stages.get(name) else {
            problems.add(self.unknown(text, name, port, written));
            return None;
        };
        let draft = self.drafts.get(stage)?.as_ref()?;
        let output = find_output(draft, output, written, problems)?;
        if output.port_type != port.port_type {
            problems.add(wrong_port_type(port, written, text, output.port_type));
            return None;
        }
        Some(Target::Stage { stage, port: output.name, instance: instance.map(str::to_owned) })
    }

    fn find_asset(
        &self,
        name: &str,
        port: &InputPort,
        written: &ReferenceText,
        problems: &mut Collector,
    ) -> Option<Target> {
        if !self.assets.contains(name) {
            let message = format!("there is no asset `{}`", name.escape_debug());
            let known = self.assets.iter().map(String::as_str);
            let near =
                nearest(name, known.clone()).map(|near| format!("did you mean `assets.{near}`?"));
            let help = near
                .or_else(|| suggestion(name, "known assets", known))
                .unwrap_or_else(|| format!("add `[assets.{name}]` with its `path`"));
            problems.add(Problem::new("unknown_reference", written.span, message).help(help));
            return None;
        }
        if port.port_type == PortType::Dataset {
            problems.add(wrong_port_type(port, written, &written.text, PortType::Artifact));
            return None;
        }
        Some(Target::Asset(name.to_owned()))
    }

    fn unknown(
        &self,
        text: &str,
        name: &str,
        port: &InputPort,
        written: &ReferenceText,
    ) -> Problem {
        let assets: Vec<String> =
            self.assets.iter().map(|asset| format!("assets.{asset}")).collect();
        let stages: Vec<&str> = self.stages.keys().map(String::as_str).collect();
        let near = nearest(name, stages.iter().copied())
            .or_else(|| nearest(text, assets.iter().map(String::as_str)));
        let near_asset = || self.assets.contains(name).then(|| format!("assets.{name}"));
        let is_path = text.contains('/') && port.port_type == PortType::Artifact;
        let help = match near_asset().or_else(|| near.map(str::to_owned)) {
            Some(near) => Some(format!("did you mean `{near}`?")),
            None if is_path => Some(
                "files and models are assets: add `[assets.model]` with this `path`, and write \
                 `assets.model` here"
                    .to_owned(),
            ),
            None => suggestion(name, "known stages", stages),
        };
        let message = format!("there is no stage `{}`", name.escape_debug());
        Problem::new("unknown_reference", written.span, message)
            .label("unknown stage")
            .help_if(help)
    }
}

/// The name of the stage, the instance in brackets, and the port after the dot.
fn split(text: &str) -> (&str, Option<&str>, Option<&str>) {
    let bracket = text.find('[').and_then(|open| Some((open, text.rfind(']')?)));
    if let Some((open, close)) = bracket.filter(|(open, close)| open < close) {
        let port = text[close + 1..].strip_prefix('.');
        return (&text[..open], Some(&text[open + 1..close]), port);
    }
    match text.split_once('.') {
        Some((name, port)) => (name, None, Some(port)),
        None => (text, None, None),
    }
}

fn find_output(
    draft: &Draft,
    port: Option<&str>,
    written: &ReferenceText,
    problems: &mut Collector,
) -> Option<&'static OutputPort> {
    let (stage, kind) = (&draft.name.value, draft.kind);
    let found = match port {
        Some(name) => kind.output(name),
        None => kind.outputs.first(),
    };
    if found.is_none() {
        let known = kind.outputs.iter().map(|output| output.name);
        let problem = match port {
            Some(name) if !kind.outputs.is_empty() => {
                let message = format!("stage `{stage}` has no output `{}`", name.escape_debug());
                Problem::new("unknown_port", written.span, message).help_if(suggestion(
                    name,
                    "known outputs",
                    known,
                ))
            }
            _ => {
                let message = format!("stage `{stage}` has no outputs");
                Problem::new("unknown_port", written.span, message)
                    .help(format!("nothing can read from `{}`: remove the reference", kind.name))
            }
        };
        problems.add(problem.also(draft.name.span, format!("`{}`", kind.name)));
    }
    found
}

fn wrong_port_type(
    port: &InputPort,
    written: &ReferenceText,
    text: &str,
    found: PortType,
) -> Problem {
    let (wanted, found) = match found {
        PortType::Artifact => ("a data set", "an artifact"),
        PortType::Dataset => ("an artifact", "a data set"),
    };
    let help = (!port.doc.is_empty()).then(|| format!("`{}`: {}", port.name, port.doc));
    let message = format!("`{}` takes {wanted}, but `{text}` is {found}", port.name);
    Problem::new("wrong_port", written.span, message).label(found).help_if(help)
}
