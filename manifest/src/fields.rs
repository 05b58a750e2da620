//! Fields: which data set has which, and whether a stage's inputs have the fields that it reads.

use std::collections::BTreeMap;

use stage_core::output_types::is_folder;
use stage_core::output_types::{NUMBER, TEXT};
use stage_core::{
    Derived, FieldSet, FieldType, InputPort, Kind, OutputPort, ParameterType, ParameterValue,
    Parameters, PortType, artifact,
};

use super::nearest::{list, nearest};
use super::problem::{Collector, Problem, Span};
use crate::pipeline::{KnownFields, Reads};

/// A data set that arrives on a port.
pub struct InputFields<'a> {
    pub fields: &'a KnownFields,
    /// The position of the reference.
    pub span: Span,
    pub stage: &'a str,
}

/// The fields on an output, derived from those on the inputs. `broken` tests if the input of a port
/// is unknown because of an error, so that no further errors follow.
pub fn on_output(
    kind: &Kind,
    output: &OutputPort,
    parameters: &Parameters,
    arriving: &BTreeMap<&'static str, Vec<InputFields>>,
    broken: &dyn Fn(&str) -> bool,
) -> KnownFields {
    let passed = output.passes.and_then(|port| arriving.get(port));
    let mut known = passed.map(|passed| common(passed)).unwrap_or_default();
    known.open |= output.passes.is_some_and(broken);
    let writes_weights = output.writes.iter().any(|(name, _)| *name == artifact::WEIGHTS);
    if writes_weights {
        // Those of a data set that brings them, as `model.audition` hands them on.
        let brought = arriving.values().flatten().map(|data_set| data_set.fields.brings);
        let above = brought.into_iter().find(|brings| !brings.is_empty()).unwrap_or_default();
        known.brings = if output.brings.is_empty() { above } else { output.brings };
    }
    for (name, field_type) in output.writes {
        known.fields.insert((*name).to_owned(), *field_type);
    }
    let is_first = kind.outputs.first().is_some_and(|first| first.name == output.name);
    match declared(kind, parameters).filter(|_| output.open && is_first) {
        Some(names) => {
            known.fields.extend(names);
            known.open |= has_folder(kind, parameters);
        }
        None => known.open |= output.open,
    }
    known
}

/// Of several data sets, the fields that all of them have are known.
fn common(passed: &[InputFields]) -> KnownFields {
    let Some((first, others)) = passed.split_first() else { return KnownFields::default() };
    let mut known = first.fields.clone();
    for other in others {
        known.open |= other.fields.open || other.fields.fields != known.fields;
        known.brings = if known.brings == other.fields.brings { known.brings } else { &[] };
        known.fields.retain(|name, kind| other.fields.fields.get(name) == Some(kind));
    }
    known
}

/// The declared outputs: the table `outputs` of a kind with such a parameter. They are files,
/// except those in its list `texts`; a kind without such a list writes their types.
pub fn declared(kind: &Kind, parameters: &Parameters) -> Option<Vec<(String, FieldType)>> {
    let parameter = kind.parameter("outputs")?;
    if !matches!(parameter.parameter_type, ParameterType::Map(_)) {
        return None;
    }
    match parameters.get("outputs") {
        ParameterValue::Map(outputs) => {
            let texts = names_in(parameters.get("texts"));
            let are_typed = kind.parameter("texts").is_none();
            let field = |(name, value): (&String, &ParameterValue)| match value {
                ParameterValue::Text(word) if are_typed && word == NUMBER => FieldType::Number,
                ParameterValue::Text(word) if are_typed && word == TEXT => FieldType::Text,
                _ if texts.contains(name) => FieldType::Text,
                _ => FieldType::Blob,
            };
            let named = |output: (&String, &ParameterValue)| (output.0.clone(), field(output));
            let is_one =
                |(_, value): &(&String, &ParameterValue)| are_typed || !names_folder(value);
            Some(outputs.iter().filter(is_one).map(named).collect())
        }
        _ => Some(Vec::new()),
    }
}

/// The files of a folder are fields as well, and unknown until the program has run.
fn has_folder(kind: &Kind, parameters: &Parameters) -> bool {
    match parameters.get("outputs") {
        ParameterValue::Map(outputs) => {
            kind.parameter("texts").is_some() && outputs.values().any(names_folder)
        }
        _ => false,
    }
}

fn names_folder(value: &ParameterValue) -> bool {
    matches!(value, ParameterValue::Text(path) if is_folder(path))
}

/// The fields that an input port reads, under these parameters.
pub fn reads(port: &InputPort, parameters: &Parameters) -> Reads {
    if port.port_type == PortType::Artifact {
        return Reads::All;
    }
    let (named, also) = match port.reads {
        FieldSet::All => return Reads::All,
        FieldSet::These(fields) => (Vec::new(), fields),
        FieldSet::Named { parameter, also } => (names_in(parameters.get(parameter)), also),
        FieldSet::Derived(Derived { names, also, .. }) => {
            (names(parameters).into_iter().map(|(name, _)| name).collect(), also)
        }
    };
    let listed = also.iter().chain(port.may_read).map(|(name, _)| (*name).to_owned());
    let mut names: Vec<String> = listed.chain(named).collect();
    names.sort_unstable();
    names.dedup();
    let id = port.reads_id || names.iter().any(|name| name == "id");
    names.retain(|name| name != "id");
    Reads::Fields { names, id }
}

/// The names in a parameter: a list, one text, or the keys of a table.
fn names_in(value: &ParameterValue) -> Vec<String> {
    match value {
        ParameterValue::Text(text) => vec![text.clone()],
        ParameterValue::List(values) => values.iter().flat_map(names_in).collect(),
        ParameterValue::Map(values) => match values.get("field") {
            Some(field) => names_in(field),
            None => values.keys().cloned().collect(),
        },
        _ => Vec::new(),
    }
}

/// The reading stage, for messages.
pub struct Reader<'a> {
    pub stage: &'a str,
    pub kind: &'static Kind,
    pub parameters: &'a Parameters,
    /// The positions of its parameters.
    pub places: &'a BTreeMap<&'static str, Span>,
    /// The stages that write a field with a name.
    pub writers: &'a dyn Fn(&str) -> Vec<String>,
}

impl Reader<'_> {
    /// Reports fields that a port needs and that are missing or have another type.
    pub fn check(&self, port: &InputPort, arriving: &InputFields, problems: &mut Collector) {
        let (also, named) = match port.reads {
            FieldSet::These(fields) => (fields, None),
            FieldSet::Named { parameter, also } => (also, Some(parameter)),
            FieldSet::Derived(derived) => {
                self.check_derived(&derived, arriving, problems);
                (derived.also, None)
            }
            FieldSet::All => return,
        };
        for (name, wanted) in also {
            self.check_field(name, *wanted, arriving.span, arriving, problems);
        }
        let Some(parameter) = named else { return };
        let place = self.places.get(parameter).copied().unwrap_or(arriving.span);
        for name in names_in(self.parameters.get(parameter)) {
            let known = arriving.fields.fields.contains_key(&name) || name == "id";
            if !known && !arriving.fields.open {
                problems.add(self.missing(&name, place, arriving));
            }
        }
    }

    fn check_derived(&self, derived: &Derived, arriving: &InputFields, problems: &mut Collector) {
        let place = self.places.get(derived.parameter).copied().unwrap_or(arriving.span);
        for (name, wanted) in (derived.names)(self.parameters) {
            self.check_field(&name, wanted, place, arriving, problems);
        }
    }

    fn check_field(
        &self,
        name: &str,
        wanted: FieldType,
        place: Span,
        arriving: &InputFields,
        problems: &mut Collector,
    ) {
        match arriving.fields.fields.get(name) {
            Some(found) if *found == wanted => {}
            Some(found) => problems.add(self.wrong_type(name, wanted, *found, arriving)),
            None if arriving.fields.open => {}
            None => problems.add(self.missing(name, place, arriving)),
        }
    }

    /// Reports a port that is not given, although these items do not carry its artifact.
    pub fn check_brought(
        &self,
        port: &InputPort,
        place: Span,
        arriving: &InputFields,
        problems: &mut Collector,
    ) {
        let Some(field) = port.brought_by else { return };
        let (stage, name, above) = (self.stage, port.name, arriving.stage);
        let is_known = |brings: &&str| port.takes.contains(brings);
        let KnownFields { fields, open, brings } = arriving.fields;
        let (message, help) = if !fields.contains_key(field) && !open {
            let help = "name the model, or read sentences of `model.audition`".to_owned();
            (format!("stage `{stage}` has no `{name}`, and the items of `{above}` have none"), help)
        } else if !brings.is_empty() && !brings.iter().any(is_known) {
            let message = format!(
                "stage `{stage}` has no `{name}`, and the items of `{above}` have only {}",
                list(brings.iter().copied())
            );
            (message, "name the base of these adapters".to_owned())
        } else {
            return;
        };
        let help = format!("{help}: `{name} = \"…\"`");
        problems.add(Problem::new("missing_port", place, message).help(help));
    }

    fn missing(&self, name: &str, place: Span, arriving: &InputFields) -> Problem {
        let message = format!(
            "`{}` of stage `{}` needs the field `{}`, which `{}` does not have",
            self.kind.name,
            self.stage,
            name.escape_debug(),
            arriving.stage
        );
        let fields = arriving.fields.fields.keys().map(String::as_str);
        let mut help = match nearest(name, fields.clone()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("`{}` has {}", arriving.stage, names_or_nothing(fields)),
        };
        let writers = (self.writers)(name);
        if !writers.is_empty() {
            let writers = list(writers.iter().map(String::as_str));
            help.push_str(&format!("; `{name}` is written by {writers}"));
        }
        Problem::new("unknown_field", place, message)
            .label(format!("no `{}` here", name.escape_debug()))
            .help(help)
    }

    fn wrong_type(
        &self,
        name: &str,
        wanted: FieldType,
        found: FieldType,
        arriving: &InputFields,
    ) -> Problem {
        let message = format!(
            "`{}` of stage `{}` needs the field `{name}` as {}, but `{}` has it as {}",
            self.kind.name,
            self.stage,
            describe(wanted),
            arriving.stage,
            describe(found)
        );
        Problem::new("wrong_field_type", arriving.span, message)
            .label(format!("`{name}` is {} here", describe(found)))
    }
}

fn names_or_nothing<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names = list(names);
    if names.is_empty() { "no fields".to_owned() } else { format!("the fields {names}") }
}

pub fn describe(field_type: FieldType) -> &'static str {
    match field_type {
        FieldType::Text => "a text",
        FieldType::Number => "a number",
        FieldType::Blob => "a file",
    }
}
