//! Checks that the kinds of artifacts fit their ports.

use stage_core::{Catalogue, InputPort, Kind, OutputPort, PortType};

use super::draft::Draft;
use super::nearest::list;
use super::order::RemovedReference;
use super::problem::{Collector, Problem, Span};
use super::reference::Target;

/// An artifact that arrives on a port.
pub struct ArrivingArtifact<'a> {
    /// Its possible kinds, if known.
    pub given: &'a [&'a str],
    /// The reference as written in a manifest.
    pub name: String,
    /// The position of the reference.
    pub span: Span,
}

/// Names to suggest instead of a wrong artifact.
pub struct Alternatives<'a> {
    pub drafts: &'a [Option<Draft>],
    pub catalogue: &'a Catalogue,
}

impl Alternatives<'_> {
    /// Reports an artifact of the wrong kind.
    pub fn check(
        &self,
        reader: &str,
        port: &InputPort,
        arriving: &ArrivingArtifact,
        problems: &mut Collector,
    ) {
        if port.fits(arriving.given) {
            return;
        }
        let (wanted, found) = (either(port.takes), either(arriving.given));
        let message = format!(
            "`{}` of stage `{reader}` takes {wanted}, but `{}` gives {found}",
            port.name, arriving.name
        );
        let problem = Problem::new("wrong_artifact", arriving.span, message);
        // An artifact of the wrong kind also lacks the fields; that needs no second message.
        problems.add_last(problem.label(found).help(self.help(reader, port)));
    }

    /// The same for a reference within a cycle.
    pub fn check_removed(&self, removed: &RemovedReference, problems: &mut Collector) {
        let Target::Stage { stage, port: output, .. } = &removed.target else { return };
        let (Some(reader), Some(above)) = (&self.drafts[removed.reader], &self.drafts[*stage])
        else {
            return;
        };
        let output = above.kind.output(output);
        let (Some(port), Some(output)) = (reader.kind.input(removed.port), output) else { return };
        let arriving = ArrivingArtifact {
            given: output.given(&above.values),
            name: written(&above.name.value, above.kind, output),
            span: removed.span,
        };
        self.check(&reader.name.value, port, &arriving, problems);
    }

    /// Outputs of this manifest that fit, else kinds of stages with such an output.
    fn help(&self, reader: &str, port: &InputPort) -> String {
        let others = self.drafts.iter().flatten().filter(|draft| draft.name.value != reader);
        let fitting: Vec<String> = others.flat_map(|draft| fitting(draft, port)).collect();
        if !fitting.is_empty() {
            let verb = if fitting.len() == 1 { "fits" } else { "fit" };
            return format!("{} {verb}", list(fitting.iter().map(String::as_str)));
        }
        let gives = |output: &OutputPort| is_fitting(output.gives, port);
        let kinds = self.catalogue.iter().filter(|kind| kind.outputs.iter().any(gives));
        let kinds: Vec<&str> = kinds.map(|kind| kind.name).collect();
        match kinds.len() {
            0 => format!("`{}`: {}", port.name, port.doc),
            _ => format!("no stage of this manifest makes it; these kinds do: {}", list(kinds)),
        }
    }
}

/// The outputs of a stage that certainly fit, as references.
fn fitting(draft: &Draft, port: &InputPort) -> Vec<String> {
    let name = &draft.name.value;
    let fits = |output: &&OutputPort| is_fitting(output.given(&draft.values), port);
    let outputs = draft.kind.outputs.iter().filter(|port| port.port_type == PortType::Artifact);
    outputs.filter(fits).map(|output| written(name, draft.kind, output)).collect()
}

/// An output of a stage, written as a reference.
pub fn written(stage: &str, kind: &Kind, output: &OutputPort) -> String {
    if kind.outputs.first().is_some_and(|first| first.name == output.name) {
        stage.to_owned()
    } else {
        format!("{stage}.{}", output.name)
    }
}

fn is_fitting(given: &[&str], port: &InputPort) -> bool {
    !given.is_empty() && port.fits(given)
}

fn either(kinds: &[&str]) -> String {
    list(kinds.iter().copied()).replace("`, `", "` or `")
}
