//! Export templates: the files for outputs, and checks that no two meet.

use std::collections::BTreeMap;

use cache::Link;
use stage_core::{FieldType, Kind, OutputPort, Parameters, PortType};

use super::fields::{declared, describe};
use super::nearest::{list, suggestion};
use super::node::{Entry, Node, Value};
use super::problem::{Collector, Problem, Span};
use super::value::Checks;
use crate::pipeline::{Export, KnownFields, Template, TemplatePart};

/// The folder of the cache, where exports must not write.
const STORE: &str = ".throstle";

/// One template as written.
#[derive(Clone)]
pub struct WrittenExport {
    /// Port and field, as far as the manifest names them.
    port: Option<&'static OutputPort>,
    field: Option<String>,
    key_span: Span,
    template: Template,
    /// True if the path may be written to; mistakes have been reported.
    is_safe: bool,
    link: Link,
    pub span: Span,
}

/// The key for the way files are made. A field with this name is given below its output.
const LINK: &str = "link";
/// Its values.
pub const LINKS: [(&str, Link); 2] = [("copy", Link::Copy), ("hard", Link::Hard)];

/// Reads `export = "…"`, `export = { audio = "…" }` and `export = { train = { audio = "…" } }`; the
/// tables may have `link`.
pub fn read(
    entry: &Entry,
    kind: &'static Kind,
    checks: &Checks,
    problems: &mut Collector,
) -> Vec<WrittenExport> {
    let mut exports = Vec::new();
    match &entry.node.value {
        Value::Text(text) => {
            add(&mut exports, None, None, entry.key.span, (text, &entry.node), checks, problems);
        }
        Value::Table(table) => {
            let own = |entry: &&Entry| entry.key.value != LINK;
            for Entry { key, node } in table.0.iter().filter(own) {
                let port = kind.output(&key.value);
                match (&node.value, port) {
                    (Value::Text(text), port) => {
                        let field = port.is_none().then(|| key.value.clone());
                        add(&mut exports, port, field, key.span, (text, node), checks, problems);
                    }
                    (Value::Table(fields), Some(_)) => {
                        for Entry { key, node } in &fields.0 {
                            let field = Some(key.value.clone());
                            match node.text() {
                                Some(text) => add(
                                    &mut exports,
                                    port,
                                    field,
                                    key.span,
                                    (text, node),
                                    checks,
                                    problems,
                                ),
                                None => problems.add(not_a_template(node)),
                            }
                        }
                    }
                    _ => problems.add(not_a_template(node)),
                }
            }
        }
        _ => problems.add(not_a_template(&entry.node)),
    }
    let link = link(entry, exports.is_empty(), problems);
    exports.iter_mut().for_each(|export| export.link = link);
    exports
}

/// The value of `link` in the table.
fn link(export: &Entry, is_alone: bool, problems: &mut Collector) -> Link {
    let Value::Table(table) = &export.node.value else { return Link::default() };
    let written = table.0.iter().find(|entry| entry.key.value == LINK);
    let Some(Entry { key, node }) = written else { return Link::default() };
    if is_alone && table.0.len() == 1 {
        let problem =
            Problem::new("wrong_type", key.span, "`link` needs an export path in the same table");
        problems
            .add(problem.help("write `export = { audio = \"out/{id}.wav\", link = \"hard\" }`"));
    }
    let named = |(name, _): &&(&str, Link)| node.text() == Some(*name);
    match LINKS.iter().find(named) {
        Some((_, link)) => *link,
        None => {
            let problem =
                Problem::new("wrong_type", node.span, "`link` should be `copy` or `hard`");
            let help = "write a field or an output with the name `link` as \
                        `{ output = { link = \"out/{id}\" } }`";
            problems.add(problem.label(format!("this is {}", node.describe())).help(help));
            Link::default()
        }
    }
}

fn add(
    exports: &mut Vec<WrittenExport>,
    port: Option<&'static OutputPort>,
    field: Option<String>,
    key_span: Span,
    (text, node): (&str, &Node),
    checks: &Checks,
    problems: &mut Collector,
) {
    let (template, refusals) = template(text, checks);
    let is_safe = refusals.is_empty();
    for (message, help) in refusals {
        problems.add(Problem::new("unsafe_path", node.span, message).help(help));
    }
    let (link, span) = (Link::default(), node.span);
    exports.push(WrittenExport { port, field, key_span, template, is_safe, link, span });
}

/// Reports mistakes in the templates of a stage of an unknown kind.
pub fn check(entry: &Entry, checks: &Checks, problems: &mut Collector) {
    let mut nodes = vec![&entry.node];
    while let Some(node) = nodes.pop() {
        match &node.value {
            Value::Text(text) => {
                for (message, help) in template(text, checks).1 {
                    problems.add(Problem::new("unsafe_path", node.span, message).help(help));
                }
            }
            Value::Table(table) => nodes.extend(table.0.iter().map(|entry| &entry.node)),
            _ => problems.add(not_a_template(node)),
        }
    }
}

fn not_a_template(node: &Node) -> Problem {
    Problem::new("wrong_type", node.span, "`export` should be a path")
        .label(format!("this is {}", node.describe()))
        .help("write `export = \"out/{id}.wav\"` or `export = { audio = \"out/{id}.wav\" }`")
}

/// A mistake in a template, with advice.
type Refusal = (String, &'static str);

/// The parts of a template, and all its mistakes. Paths stay below the folder of the manifest and
/// outside the cache.
fn template(text: &str, checks: &Checks) -> (Template, Vec<Refusal>) {
    let folders: Vec<&str> =
        text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let (template, mut refusals) = places(&folders.join("/"));
    let first = folders.first().copied().unwrap_or_default();
    let fixed = match template.0.first() {
        Some(TemplatePart::Text(text)) => text.as_str(),
        Some(TemplatePart::Field(_)) | None => "",
    };
    let is_in_cache = first.eq_ignore_ascii_case(STORE) || checks.is_in_cache(fixed);
    for (wrong, what) in [
        (
            text.is_empty() || text.chars().any(char::is_control),
            "cannot be empty or contain control characters",
        ),
        (
            text.starts_with('/') || text.contains(['\\', ':']),
            "must be relative, with `/` between folders",
        ),
        (folders.contains(&".."), "cannot contain `..`"),
        (is_in_cache, "cannot be in the cache folder"),
        (
            !text.is_empty() && (folders.is_empty() || text.ends_with('/')),
            "must end with the name of a file",
        ),
        (first.starts_with('{') && folders.len() == 1, "must begin with a folder or fixed text"),
    ] {
        if wrong {
            let help = "export to a folder beside the manifest, such as `out/{id}.wav`";
            refusals.push((format!("an export path {what}"), help));
        }
    }
    (template, refusals)
}

/// The valid fields, and the mistakes in the others.
fn places(text: &str) -> (Template, Vec<Refusal>) {
    let help = "write the name of a field in braces: `{speaker}`";
    let (mut parts, mut refusals) = (Vec::new(), Vec::new());
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let Some(length) = rest[open..].find('}') else { break };
        let name = &rest[open + 1..open + length];
        if open > 0 {
            parts.push(TemplatePart::Text(rest[..open].to_owned()));
        }
        if name.is_empty() || name.contains(['{', '/']) {
            refusals.push((format!("`{{{name}}}` is not a placeholder for a field"), help))
        } else {
            parts.push(TemplatePart::Field(name.to_owned()))
        }
        rest = &rest[open + length + 1..];
    }
    if rest.contains(['{', '}']) {
        refusals.push(("an export path has an unmatched brace".to_owned(), help));
    }
    if !rest.is_empty() {
        parts.push(TemplatePart::Text(rest.to_owned()));
    }
    (Template(parts), refusals)
}

const NO_FILES: &str =
    "the stage has no files; `throstle items` writes tables of texts and numbers";

/// The exports of an instance of a stage.
pub struct Exporter<'a> {
    pub stage: &'a str,
    pub kind: &'static Kind,
    pub parameters: &'a Parameters,
    pub suffix: &'a str,
    pub fields: &'a BTreeMap<&'static str, KnownFields>,
}

impl Exporter<'_> {
    pub fn resolve(&self, written: &WrittenExport, problems: &mut Collector) -> Option<Export> {
        let port = self.port(written, problems)?;
        let field = match (port.port_type, &written.field) {
            (PortType::Artifact, None) => self.has_files(port, written, problems).then_some(None),
            _ => self.field(port, written, problems).map(Some),
        };
        let template = self.template(port, written, problems);
        Some(Export { port: port.name, field: field?, template: template?, link: written.link })
    }

    /// The named output, else the first with the named field, else the first.
    fn port(
        &self,
        written: &WrittenExport,
        problems: &mut Collector,
    ) -> Option<&'static OutputPort> {
        let has = |port: &&OutputPort| match (&written.field, self.fields.get(port.name)) {
            (Some(name), Some(known)) => known.fields.contains_key(name),
            _ => false,
        };
        let outputs = self.kind.outputs;
        let found = written.port.or_else(|| outputs.iter().find(has)).or(outputs.first());
        if found.is_none() {
            let message = format!("`{}` has no outputs to export", self.kind.name);
            problems.add(Problem::new("unknown_port", written.key_span, message));
        }
        found
    }

    /// False if the manifest declares only texts and numbers.
    fn has_files(
        &self,
        port: &OutputPort,
        written: &WrittenExport,
        problems: &mut Collector,
    ) -> bool {
        let declared = declared(self.kind, self.parameters).filter(|_| port.open);
        let kinds = declared.unwrap_or_default().into_iter().map(|(_, kind)| kind);
        let kinds: Vec<FieldType> = kinds.collect();
        if kinds.is_empty() || kinds.contains(&FieldType::Blob) {
            return true;
        }
        let message =
            format!("the outputs of stage `{}` are texts or numbers, not files", self.stage);
        let problem = Problem::new("wrong_field_type", written.key_span, message);
        problems.add(problem.help(NO_FILES));
        false
    }

    /// The field to write: the named one, or the first file that the stage adds.
    fn field(
        &self,
        port: &OutputPort,
        written: &WrittenExport,
        problems: &mut Collector,
    ) -> Option<String> {
        let known = self.fields.get(port.name)?;
        let Some(name) = &written.field else {
            return self.first_file(port, known, written, problems);
        };
        let problem = match known.fields.get(name) {
            Some(FieldType::Blob) => return Some(name.clone()),
            None if known.open => return Some(name.clone()),
            Some(other) => {
                let message = format!(
                    "field `{name}` is {}, but only files can be exported",
                    describe(*other)
                );
                let files = known.fields.iter().filter(|(_, kind)| **kind == FieldType::Blob);
                let names = list(files.map(|(name, _)| name.as_str()));
                let help = format!(
                    "fields with files: {names}; `throstle items` writes tables of texts and numbers"
                );
                Problem::new("wrong_field_type", written.key_span, message).help(help)
            }
            None => {
                let message = format!("stage `{}` has no output or field `{name}`", self.stage);
                let outputs = self.kind.outputs.iter().map(|output| output.name);
                let names = known.fields.keys().map(String::as_str).chain(outputs);
                Problem::new("unknown_field", written.key_span, message).help_if(suggestion(
                    name,
                    "known fields and outputs",
                    names,
                ))
            }
        };
        problems.add(problem);
        None
    }

    fn first_file(
        &self,
        port: &OutputPort,
        known: &KnownFields,
        written: &WrittenExport,
        problems: &mut Collector,
    ) -> Option<String> {
        let first = port.writes.iter().find(|(_, kind)| *kind == FieldType::Blob);
        let outputs = declared(self.kind, self.parameters).filter(|_| port.open);
        let mut outputs = outputs.unwrap_or_default();
        outputs.retain(|(_, kind)| *kind == FieldType::Blob);
        let files = known.fields.iter().filter(|(_, kind)| **kind == FieldType::Blob);
        let files: Vec<&str> = files.map(|(name, _)| name.as_str()).collect();
        match (first, outputs.len(), files.as_slice()) {
            (Some((name, _)), ..) => return Some((*name).to_owned()),
            (None, 1, _) => return outputs.pop().map(|(name, _)| name),
            (None, _, [name]) => return Some((*name).to_owned()),
            _ => {}
        }
        let message = format!("the export of stage `{}` does not name a field", self.stage);
        let help = match files.first() {
            None => NO_FILES.to_owned(),
            Some(first) => format!(
                "write `export = {{ {first} = \"out/{{id}}\" }}`; fields with files: {}",
                list(files.iter().copied())
            ),
        };
        problems.add(Problem::new("unknown_field", written.key_span, message).help(help));
        None
    }

    fn template(
        &self,
        port: &OutputPort,
        written: &WrittenExport,
        problems: &mut Collector,
    ) -> Option<Template> {
        let nothing = KnownFields::default();
        let known = self.fields.get(port.name).unwrap_or(&nothing);
        let is_dataset = port.port_type == PortType::Dataset;
        let mut parts: Vec<TemplatePart> = Vec::new();
        let mut places = 0;
        let mut is_whole = written.is_safe;
        for part in &written.template.0 {
            let part = match part {
                TemplatePart::Field(name) if name == "matrix" && !self.suffix.is_empty() => {
                    TemplatePart::Text(self.suffix.to_owned())
                }
                TemplatePart::Field(name) => {
                    places += 1;
                    is_whole &= self.check_place(name, known, is_dataset, written.span, problems);
                    part.clone()
                }
                TemplatePart::Text(_) => part.clone(),
            };
            match (parts.last_mut(), part) {
                (Some(TemplatePart::Text(before)), TemplatePart::Text(text)) => {
                    before.push_str(&text)
                }
                (_, part) => parts.push(part),
            }
        }
        if is_dataset && places == 0 && is_whole {
            let message =
                format!("every item of stage `{}` would be exported to the same file", self.stage);
            let problem = Problem::new("duplicate_export", written.span, message);
            problems
                .add(problem.help("add a field to the path that differs between items: `{id}`"));
            return None;
        }
        is_whole.then_some(Template(parts))
    }

    /// True if the field can be filled in.
    fn check_place(
        &self,
        name: &str,
        known: &KnownFields,
        is_dataset: bool,
        span: Span,
        problems: &mut Collector,
    ) -> bool {
        if is_dataset && name == "id" {
            return true;
        }
        let found = known.fields.get(name).filter(|_| is_dataset);
        match found {
            Some(FieldType::Text | FieldType::Number) => return true,
            None if known.open && is_dataset => return true,
            _ => {}
        }
        let texts = known.fields.iter().filter(|(_, kind)| **kind != FieldType::Blob);
        let names = texts.map(|(name, _)| name.as_str()).chain(["id"]);
        let problem = match found {
            Some(kind) => {
                let message = format!(
                    "field `{name}` is {}, which cannot be part of a path",
                    describe(*kind)
                );
                Problem::new("wrong_field_type", span, message).help_if(suggestion(
                    name,
                    "known fields",
                    names,
                ))
            }
            None if name == "matrix" => {
                let message = format!(
                    "stage `{}` has no matrix for the placeholder `{{matrix}}`",
                    self.stage
                );
                Problem::new("unknown_field", span, message)
            }
            None if !is_dataset => {
                let message =
                    format!("stage `{}` outputs no items, so it has no field `{name}`", self.stage);
                Problem::new("unknown_field", span, message).help("write a fixed path")
            }
            None => {
                let message = format!("stage `{}` has no field `{name}`", self.stage);
                Problem::new("unknown_field", span, message).help_if(suggestion(
                    name,
                    "known fields",
                    names,
                ))
            }
        };
        problems.add(problem);
        false
    }
}
