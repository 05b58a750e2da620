//! A parameter on one line.

use stage_core::{Default, Parameter, ParameterType, Role, Unit};

use crate::page::default_cell;
use crate::unit;

/// A longer sentence is cut.
const MAX_DOC_BYTES: usize = 44;
/// A clause that is long enough to stand alone.
const MIN_CLAUSE_BYTES: usize = 24;
/// The place of the default in a line of a parameter that has to be given.
pub const REQUIRED: &str = ", required";

#[derive(Clone, PartialEq, Eq)]
pub struct ParameterEntry {
    pub name: &'static str,
    /// In the notation of the line, such as `: text` or nothing, and its unit.
    type_name: String,
    unit: String,
    doc: String,
    /// In the notation of the line: ` = 5`, `, required`, or nothing.
    pub default: String,
}

impl ParameterEntry {
    pub fn of(parameter: &Parameter) -> ParameterEntry {
        let default = match parameter.default {
            Default::Required => REQUIRED.to_owned(),
            Default::Absent => String::new(),
            Default::PipelineSeed => " = that of the pipeline".to_owned(),
            // With a point, unlike integers.
            Default::Number(number) => format!(" = {number:?}"),
            _ => format!(" = {}", default_cell(parameter).replace('`', "")),
        };
        let is_shown = default.starts_with(" = ") && is_shown_by_default(parameter);
        let type_name = type_name(&parameter.parameter_type, parameter.unit);
        // A duration is written with its unit.
        let unit = match unit::name(parameter.unit) {
            "" | "a count" | "seconds" => String::new(),
            unit => format!(" {unit}"),
        };
        ParameterEntry {
            name: parameter.name,
            type_name: if is_shown { String::new() } else { format!(": {type_name}") },
            unit,
            doc: shortened(parameter.doc),
            default,
        }
    }

    /// The same for a parameter of a kind. Amounts and flags that change no result, such as the size
    /// of a batch, have no sentence.
    pub fn in_kind(parameter: &Parameter) -> ParameterEntry {
        let is_amount = match parameter.parameter_type {
            ParameterType::CountOrShare { .. } => true,
            ParameterType::List(ParameterType::Device { .. }) => true,
            _ => is_shown_by_default(parameter),
        };
        let entry = ParameterEntry::of(parameter);
        let is_silent = is_amount && parameter.role == Role::Execution;
        if is_silent { ParameterEntry { doc: String::new(), ..entry } } else { entry }
    }

    pub fn line(&self) -> String {
        let ParameterEntry { name, type_name, unit, doc, default } = self;
        let stop = if doc.is_empty() { "" } else { ". " };
        format!("{name}{type_name}{default}{unit}{stop}{doc}\n")
    }

    pub fn differs_only_in_default(&self, other: &ParameterEntry) -> bool {
        ParameterEntry { default: String::new(), ..self.clone() }
            == ParameterEntry { default: String::new(), ..other.clone() }
    }
}

/// True if the default of a parameter of this type has a notation of its own.
fn is_shown_by_default(parameter: &Parameter) -> bool {
    match parameter.parameter_type {
        ParameterType::Number { min, max } => !unit::is_share(parameter.unit, min, max),
        ParameterType::Integer { .. }
        | ParameterType::Flag
        | ParameterType::Duration
        | ParameterType::Size => true,
        _ => false,
    }
}

/// Without ranges: `check` knows them.
fn type_name(parameter_type: &ParameterType, unit: Unit) -> String {
    match parameter_type {
        ParameterType::Text => "text".to_owned(),
        ParameterType::Choice(names) => names.join(" | "),
        ParameterType::Integer { .. } => "int".to_owned(),
        ParameterType::CountOrShare { .. } => "int or share".to_owned(),
        ParameterType::Number { min, max } if unit::is_share(unit, *min, *max) => {
            "share".to_owned()
        }
        ParameterType::Number { .. } => "number".to_owned(),
        ParameterType::Flag => "bool".to_owned(),
        ParameterType::Any => "any".to_owned(),
        ParameterType::Duration => "duration".to_owned(),
        ParameterType::Size => "size".to_owned(),
        ParameterType::Device { .. } => "device".to_owned(),
        ParameterType::File | ParameterType::OptionalFile => "file".to_owned(),
        ParameterType::SourcePath => "file or folder".to_owned(),
        ParameterType::OptionalFolder => "folder".to_owned(),
        ParameterType::List(inner) => format!("[{}]", type_name(inner, unit)),
        ParameterType::Map(inner) => format!("{{NAME = {}}}", type_name(inner, unit)),
        ParameterType::Record(fields) => {
            let field = |field: &Parameter| {
                format!("{} = {}", field.name, type_name(&field.parameter_type, field.unit))
            };
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        ParameterType::Expression(_) => "expression".to_owned(),
    }
}

/// The first sentence without its full stop, or its beginning if it is long.
fn shortened(doc: &str) -> String {
    let doc = doc.trim();
    let sentence = doc.find(". ").map_or(doc, |end| &doc[..end]).trim_end_matches('.');
    let sentence = match sentence.strip_prefix("The ") {
        Some(rest) => capitalised(rest),
        None => sentence.to_owned(),
    };
    if sentence.len() <= MAX_DOC_BYTES {
        return sentence;
    }
    let is_clause = |at: &usize| {
        (MIN_CLAUSE_BYTES..=MAX_DOC_BYTES).contains(at) && sentence[*at + 1..].starts_with(' ')
    };
    let last = |mark| sentence.match_indices(mark).map(|(at, _)| at).rfind(is_clause);
    if let Some(at) = last(';').or_else(|| last(':')) {
        return sentence[..at].to_owned();
    }
    let spaces = sentence.match_indices(' ').map(|(at, _)| at);
    match spaces.take_while(|at| *at <= MAX_DOC_BYTES).last() {
        Some(at) => format!("{}…", sentence[..at].trim_end_matches(',')),
        None => sentence,
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_first_sentence_and_a_long_one_ends_early() {
        assert_eq!(shortened("The rate. More."), "Rate");
        let clauses = format!("One that is long enough; the other: {}.", "and so on ".repeat(10));
        assert_eq!(shortened(&clauses), "One that is long enough; the other");
        let long = format!("One word, {}", "and more ".repeat(12));
        assert_eq!(shortened(&long), format!("One word, {}and…", "and more ".repeat(3)));
        let short = format!("One: {}", "and more ".repeat(12));
        assert_eq!(shortened(&short), format!("One: {}and…", "and more ".repeat(4)));
    }

    #[test]
    fn an_amount_that_changes_no_result_has_no_sentence() {
        let parameter_type = ParameterType::Integer { min: 1, max: 9 };
        let default = Default::Integer(8);
        let content =
            Parameter { name: "batch", doc: "Clips.", parameter_type, default, ..Parameter::BASE };
        let execution = Parameter { role: Role::Execution, ..content };
        assert_eq!(ParameterEntry::in_kind(&content).line(), "batch = 8. Clips\n");
        assert_eq!(ParameterEntry::in_kind(&execution).line(), "batch = 8\n");
        assert_eq!(ParameterEntry::of(&execution).line(), "batch = 8. Clips\n");
    }

    #[test]
    fn a_type_is_left_out_where_the_default_shows_it() {
        let base = Parameter { name: "limit", doc: "The limit.", ..Parameter::BASE };
        let number = ParameterType::Number { min: 0.0, max: 5.0 };
        let line = |parameter_type, default| {
            ParameterEntry::of(&Parameter { parameter_type, default, ..base }).line()
        };
        assert_eq!(line(number, Default::Number(2.0)), "limit = 2.0. Limit\n");
        assert_eq!(line(number, Default::Absent), "limit: number. Limit\n");
        assert_eq!(line(number, Default::Required), "limit: number, required. Limit\n");
        assert_eq!(
            line(ParameterType::Duration, Default::Seconds(60.0)),
            "limit = \"1m\". Limit\n"
        );
        assert_eq!(line(ParameterType::Text, Default::Text("a")), "limit: text = \"a\". Limit\n");
    }
}
