//! Messages about wrong values.

use stage_core::{Parameter, ParameterType, ParameterValue, Unit};

use super::nearest::list;
use super::node::{Node, Value};
use super::problem::{Collector, Problem};
use super::unit;

/// The expected value, and its notation.
pub struct Expectation {
    pub what: String,
    pub help: Option<String>,
}

impl Expectation {
    fn new(what: impl Into<String>) -> Expectation {
        Expectation { what: what.into(), help: None }
    }

    fn with(what: impl Into<String>, help: impl Into<String>) -> Expectation {
        Expectation { what: what.into(), help: Some(help.into()) }
    }
}

/// The target of a value in messages: a parameter, or a key of a parameter that is a table.
pub struct Key {
    pub name: String,
    pub unit: Unit,
}

impl Key {
    pub fn of(parameter: &Parameter) -> Key {
        Key { name: parameter.name.to_owned(), unit: parameter.unit }
    }

    /// A key of this table.
    pub fn below(&self, name: &str) -> Key {
        Key { name: format!("{}.{}", self.name, name.escape_debug()), unit: self.unit }
    }
}

pub fn bounds(min: Option<String>, max: Option<String>) -> String {
    match (min, max) {
        (Some(min), Some(max)) => format!("between {min} and {max}"),
        (Some(min), None) => format!("at least {min}"),
        (None, Some(max)) => format!("at most {max}"),
        (None, None) => "a finite number".to_owned(),
    }
}

pub fn out_of_range(
    key: &Key,
    found: &str,
    bounds: &str,
    node: &Node,
    problems: &mut Collector,
) -> Option<ParameterValue> {
    let unit = match unit::name(key.unit) {
        "" | "a count" => String::new(),
        unit => format!(" {unit}"),
    };
    let message = format!("`{}` must be {bounds}{unit}", key.name);
    let problem =
        Problem::new("out_of_range", node.span, message).label(format!("this is {found}"));
    problems.add(with_use(problem, node));
    None
}

pub fn not_a_number(
    key: &Key,
    what: &str,
    node: &Node,
    problems: &mut Collector,
) -> Option<ParameterValue> {
    match (unit::example(key.unit), &node.value) {
        (Some(example), Value::Text(_)) => {
            let wanted = format!("{what} in {}", unit::name(key.unit));
            wrong_unit(key, &wanted, example, node, problems)
        }
        (example, _) => {
            let wanted = Expectation {
                what: what.to_owned(),
                help: example.map(|text| format!("such as {text}")),
            };
            problems.add(wrong_type(key, wanted, node));
            None
        }
    }
}

pub fn wrong_unit(
    key: &Key,
    wanted: &str,
    example: &str,
    node: &Node,
    problems: &mut Collector,
) -> Option<ParameterValue> {
    let message = format!("`{}` should be {wanted}", key.name);
    let problem = Problem::new("wrong_unit", node.span, message)
        .label("invalid value")
        .help(format!("write {example}"));
    problems.add(with_use(problem, node));
    None
}

pub fn wrong_type(key: &Key, wanted: Expectation, node: &Node) -> Problem {
    let message = format!("`{}` should be {}", key.name, wanted.what);
    let problem = Problem::new("wrong_type", node.span, message)
        .label(format!("this is {}", node.describe()))
        .help_if(wanted.help);
    with_use(problem, node)
}

/// Adds the position where a value of `[params]` is used, since its type comes from there.
pub fn with_use(problem: Problem, node: &Node) -> Problem {
    match node.used {
        Some(used) => problem.also(used, "used here"),
        None => problem,
    }
}

pub fn describe(wanted: &ParameterType) -> Expectation {
    match wanted {
        ParameterType::Text => Expectation::with("a text", "put it in quotes"),
        ParameterType::Choice(names) => {
            Expectation::with("a text", format!("allowed values: {}", list(names.iter().copied())))
        }
        ParameterType::Integer { .. } => Expectation::new("an integer"),
        ParameterType::CountOrShare { .. } => {
            Expectation::with(unit::COUNT_OR_SHARE, format!("such as {}", unit::SHARES))
        }
        ParameterType::Number { .. } => Expectation::new("a number"),
        ParameterType::Flag => Expectation::new("true or false"),
        ParameterType::Any => {
            Expectation::new("a text, a number, true or false, or a list of these")
        }
        ParameterType::Duration => Expectation::with(
            "a duration",
            "write the number with its unit: `\"90s\"`, `\"1.5h\"` or `\"11h30m\"`",
        ),
        ParameterType::Size => {
            Expectation::with("a size", "write the number with its unit: `\"64MB\"` or `\"12GiB\"`")
        }
        ParameterType::Device { .. } => {
            Expectation::with("the name of a device", "put it in quotes: `\"cpu\"` or `\"cuda:1\"`")
        }
        ParameterType::File | ParameterType::OptionalFile => Expectation::new("the path of a file"),
        ParameterType::SourcePath => Expectation::new("the path of a file or folder"),
        ParameterType::OptionalFolder => Expectation::new("the path of a folder"),
        ParameterType::List(_) => Expectation::with("a list", "put it in brackets: `[…]`"),
        ParameterType::Map(_) => Expectation::with("a table", "write `{ name = value }`"),
        ParameterType::Record(fields) => {
            let names = list(fields.iter().map(|field| field.name));
            Expectation::with("a table", format!("with the keys {names}"))
        }
        ParameterType::Expression(_) => Expectation::with("an expression", "put it in quotes"),
    }
}
