//! The documentation of stage kinds, as Markdown for the manual and as text for terminals.

use std::fmt::Write;

use stage_core::ExpressionForm;
use stage_core::device::DeviceName;
use stage_core::{
    Catalogue, Default, Derived, FieldSet, FieldType, InputPort, Kind, OutputPort, Parameter,
    ParameterType, PortType, Role, Unit, Work,
};

use super::executor;
use super::fields::describe;
use super::nearest::list;
use super::policy::COMMON;
use super::unit;

const INTRODUCTION: &str = include_str!("reference_intro.md");
/// The placeholder for their table in the introduction.
const KINDS_OF_ARTIFACTS: &str = "KINDS_OF_ARTIFACTS";

/// The manual of the manifest: its tables and keys, and a chapter for every kind of stage.
pub fn reference(catalogue: &Catalogue) -> String {
    let mut page = INTRODUCTION.trim_end().replace(KINDS_OF_ARTIFACTS, &artifact_table());
    page.push_str("\n\n## Keys of every stage\n\n");
    parameter_table(&mut page, COMMON);
    page.push_str("\n## Keys of `[executor.NAME]`\n\n");
    parameter_table(&mut page, executor::KEYS);
    let mut family = "";
    for kind in catalogue.iter() {
        let own = kind.name.split('.').next().unwrap_or(kind.name);
        if own != family {
            family = own;
            let _ = write!(page, "\n## The family `{family}`\n");
        }
        chapter(&mut page, kind);
    }
    page
}

fn artifact_table() -> String {
    let mut table = "| kind of artifact | contents |\n|---|---|".to_owned();
    for (kind, what) in stage_families::artifacts() {
        let _ = write!(table, "\n| `{kind}` | {what} |");
    }
    table
}

fn chapter(page: &mut String, kind: &Kind) {
    let _ = write!(page, "\n### `{}`\n\n{}\n", kind.name, kind.summary);
    if !kind.doc.is_empty() {
        let _ = write!(page, "\n{}\n", kind.doc.trim());
    }
    if !kind.inputs.is_empty() {
        page.push_str("\n| input | contents | reads |\n|---|---|---|\n");
        for port in kind.inputs {
            let _ = writeln!(
                page,
                "| `{}` | {} {} | {} |",
                port.name,
                input_type(port),
                cell(port.doc),
                cell(&reads(port))
            );
        }
    }
    if !kind.outputs.is_empty() {
        page.push_str("\n| output | contents | adds |\n|---|---|---|\n");
        for port in kind.outputs {
            let _ = writeln!(
                page,
                "| `{}` | {} {} | {} |",
                port.name,
                output_type(port),
                cell(port.doc),
                cell(&adds(port))
            );
        }
    }
    if !kind.parameters.is_empty() {
        page.push('\n');
        parameter_table(page, kind.parameters);
    }
}

fn parameter_table(page: &mut String, parameters: &[Parameter]) {
    page.push_str("| key | type | default | meaning |\n|---|---|---|---|\n");
    for parameter in parameters {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {}{} |",
            parameter.name,
            cell(&type_name(&parameter.parameter_type, parameter.unit)),
            cell(&default_cell(parameter)),
            cell(parameter.doc),
            role(parameter)
        );
    }
}

/// Everything about a kind, for a terminal.
pub fn kind_page(kind: &Kind) -> String {
    let mut page = format!("{}: {}\n", kind.name, kind.summary);
    let _ = writeln!(page, "{}, behaviour version {}", work(kind), kind.version);
    if !kind.doc.is_empty() {
        let _ = write!(page, "\n{}\n", kind.doc.trim());
    }
    if !kind.inputs.is_empty() {
        page.push_str("\nINPUTS\n");
    }
    for port in kind.inputs {
        entry(
            &mut page,
            port.name,
            &plain(&input_type(port)),
            &[port.doc, &said("reads", reads(port))],
        );
    }
    if !kind.outputs.is_empty() {
        page.push_str("\nOUTPUTS\n");
    }
    for port in kind.outputs {
        entry(
            &mut page,
            port.name,
            &plain(&output_type(port)),
            &[port.doc, &said("adds", adds(port))],
        );
    }
    if !kind.parameters.is_empty() {
        page.push_str("\nPARAMETERS\n");
    }
    for parameter in kind.parameters {
        let kind = type_name(&parameter.parameter_type, parameter.unit);
        let default = match default_cell(parameter) {
            text if text == "required" => text,
            text => format!("default {text}"),
        };
        let head = format!("{kind}; {default}").replace('`', "");
        entry(&mut page, parameter.name, &head, &[parameter.doc, role(parameter).trim()]);
        record_entries(&mut page, &parameter.parameter_type);
    }
    let common: Vec<&str> = COMMON.iter().map(|parameter| parameter.name).collect();
    let _ = write!(page, "\nEvery stage also takes {}, export and matrix.\n", common.join(", "));
    page
}

/// Without the marks of Markdown.
fn plain(text: &str) -> String {
    text.replace('`', "")
}

fn said(what: &str, names: String) -> String {
    if names.is_empty() { names } else { format!("{what}: {names}").replace('`', "") }
}

fn entry(page: &mut String, name: &str, head: &str, lines: &[&str]) {
    let _ = writeln!(page, "  {name}  ({})", head.trim_end_matches('.'));
    for line in lines.iter().filter(|line| !line.is_empty()) {
        let _ = writeln!(page, "      {}", line.trim());
    }
}

fn record_entries(page: &mut String, parameter_type: &ParameterType) {
    let fields = match parameter_type {
        ParameterType::Record(fields) => fields,
        ParameterType::List(inner) | ParameterType::Map(inner) => {
            return record_entries(page, inner);
        }
        _ => return,
    };
    for field in *fields {
        let kind = type_name(&field.parameter_type, field.unit).replace('`', "");
        let _ = writeln!(page, "      {}  ({kind})  {}", field.name, field.doc);
    }
}

fn work(kind: &Kind) -> &'static str {
    match kind.work {
        Work::Item if kind.expands.is_some() => "makes several items of one",
        Work::Source => "reads files from outside the pipeline",
        Work::Item => "works on one item at a time",
        Work::Gather => "works on the whole data set",
        Work::Train => "trains on the whole data set; a stopped training resumes",
        Work::Chosen { .. } => {
            "works on one item at a time or on the whole data set; a parameter selects it"
        }
    }
}

fn input_type(port: &InputPort) -> String {
    let what = port_type(port.port_type, port.takes);
    match (port.many, port.optional) {
        (true, true) => format!("{what}, or a list of them; optional."),
        (true, false) => format!("{what}, or a list of them."),
        (false, true) => format!("{what}; optional."),
        (false, false) => format!("{what}."),
    }
}

fn output_type(port: &OutputPort) -> String {
    format!("{}.", port_type(port.port_type, port.gives))
}

/// A data set, or an artifact of these kinds.
pub fn port_type(port_type: PortType, kinds: &[&str]) -> String {
    match (port_type, kinds) {
        (PortType::Dataset, _) => "data set".to_owned(),
        (PortType::Artifact, []) => "artifact".to_owned(),
        (PortType::Artifact, kinds) => {
            let kinds = list(kinds.iter().copied()).replace("`, `", "` or `");
            format!("artifact: {kinds}")
        }
    }
}

fn reads(port: &InputPort) -> String {
    let (fields, named) = match port.reads {
        FieldSet::All => return "all fields".to_owned(),
        FieldSet::These(fields) => (fields, None),
        FieldSet::Named { parameter, also } => (also, Some(parameter)),
        FieldSet::Derived(Derived { parameter, also, .. }) => (also, Some(parameter)),
    };
    let mut parts: Vec<String> = fields.iter().map(field).collect();
    parts.extend(named.map(|parameter| format!("the fields in `{parameter}`")));
    parts.extend(port.may_read.iter().map(|each| format!("{} if present", field(each))));
    if port.reads_id {
        parts.push("the id".to_owned());
    }
    parts.join(", ")
}

fn adds(port: &OutputPort) -> String {
    let mut parts: Vec<String> = port.writes.iter().map(field).collect();
    if port.open {
        parts.push("others".to_owned());
    }
    if let Some(input) = port.passes {
        parts.push(format!("keeps the fields of `{input}`"));
    }
    parts.join(", ")
}

fn field((name, field_type): &(&str, FieldType)) -> String {
    format!("`{name}` ({})", describe(*field_type).trim_start_matches("a "))
}

fn type_name(parameter_type: &ParameterType, unit: Unit) -> String {
    let in_unit = |range: String| match unit::name(unit) {
        "" | "a count" => range,
        name => format!("{range} {name}"),
    };
    match parameter_type {
        ParameterType::Text => "text".to_owned(),
        ParameterType::Choice(names) => list(names.iter().copied()).replace("`, `", "` or `"),
        ParameterType::Integer { min, max } => in_unit(match (*min, *max) {
            (i64::MIN, i64::MAX) => "integer".to_owned(),
            (min, i64::MAX) => format!("integer from {min}"),
            (min, max) => format!("integer, {min} to {max}"),
        }),
        ParameterType::CountOrShare { min, max } => format!("integer, {min} to {max}, or share"),
        ParameterType::Number { min, max } if unit::is_share(unit, *min, *max) => {
            "share, 0 to 1".to_owned()
        }
        ParameterType::Number { min, max } => in_unit(match (*min > f64::MIN, *max < f64::MAX) {
            (true, true) => format!("number, {min} to {max}"),
            (true, false) => format!("number from {min}"),
            (false, true) => format!("number up to {max}"),
            (false, false) => "number".to_owned(),
        }),
        ParameterType::Flag => "true or false".to_owned(),
        ParameterType::Any => "any values".to_owned(),
        ParameterType::Duration => "duration".to_owned(),
        ParameterType::Size => "size".to_owned(),
        ParameterType::Device { .. } => "device".to_owned(),
        ParameterType::File | ParameterType::OptionalFile => "file".to_owned(),
        ParameterType::SourcePath => "file or folder".to_owned(),
        ParameterType::OptionalFolder => "folder".to_owned(),
        ParameterType::List(inner) => format!("list of {}", type_name(inner, unit)),
        ParameterType::Map(inner) => format!("table of {}", type_name(inner, unit)),
        ParameterType::Record(fields) => {
            format!("table with {}", list(fields.iter().map(|field| field.name)))
        }
        ParameterType::Expression(ExpressionForm::Requirement) => "requirement".to_owned(),
        ParameterType::Expression(ExpressionForm::Measure) => "measure".to_owned(),
    }
}

/// The default as it would be written; empty if there is none.
pub fn default(parameter: &Parameter) -> String {
    match parameter.default {
        Default::Required | Default::Absent => String::new(),
        Default::Text(text) => text.to_owned(),
        Default::Integer(number) => number.to_string(),
        Default::Number(number) => number.to_string(),
        Default::Flag(flag) => flag.to_string(),
        Default::Seconds(seconds) => duration(seconds),
        Default::Bytes(bytes) => size(bytes),
        Default::Texts(texts) => format!("{texts:?}"),
        Default::Device(device) => device.to_string(),
        Default::Devices(devices) => {
            format!("{:?}", devices.iter().map(DeviceName::to_string).collect::<Vec<String>>())
        }
        Default::PipelineSeed => "the seed of the pipeline".to_owned(),
    }
}

/// The same for a table or a list.
pub fn default_cell(parameter: &Parameter) -> String {
    match parameter.default {
        Default::Required => "required".to_owned(),
        Default::Absent => "none".to_owned(),
        Default::PipelineSeed => default(parameter),
        Default::Text(text) => format!("`{text:?}`"),
        Default::Seconds(_) | Default::Bytes(_) | Default::Device(_) => {
            format!("`\"{}\"`", default(parameter))
        }
        _ => format!("`{}`", default(parameter)),
    }
}

fn duration(seconds: f64) -> String {
    match seconds {
        hours if hours >= 3_600.0 && hours % 3_600.0 == 0.0 => format!("{}h", hours / 3_600.0),
        minutes if minutes >= 60.0 && minutes % 60.0 == 0.0 => format!("{}m", minutes / 60.0),
        short if short < 1.0 && short > 0.0 => format!("{}ms", (short * 1e6).round() / 1e3),
        seconds => format!("{seconds}s"),
    }
}

fn size(bytes: u64) -> String {
    for (unit, factor) in [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)] {
        if bytes >= factor && bytes.is_multiple_of(factor) {
            return format!("{}{unit}", bytes / factor);
        }
    }
    format!("{bytes}B")
}

fn role(parameter: &Parameter) -> &'static str {
    match parameter.role {
        Role::Content => "",
        Role::Execution => " Not part of the cache key.",
        Role::Secret => " The name of an environment variable; its value is never stored.",
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
