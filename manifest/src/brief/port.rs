//! A port in a few words.

use stage_core::{FieldSet, FieldType, InputPort, OutputPort, PortType};

/// The port that most data sets have their other fields from.
const INPUT: &str = InputPort::DATASET.name;

/// Such as `validation? {text$, audio}` or `codec <any>`.
pub fn input(port: &InputPort) -> String {
    let optional = if port.optional { "?" } else { "" };
    let many = if port.many { ", a list too" } else { "" };
    let (read, named) = match port.reads {
        FieldSet::All => (&[][..], Some("all".to_owned())),
        FieldSet::These(read) => (read, None),
        FieldSet::Named { parameter, also } => (also, Some(format!("those in `{parameter}`"))),
        FieldSet::Derived(derived) => {
            (derived.also, Some(format!("those in `{}`", derived.parameter)))
        }
    };
    let id = port.reads_id.then(|| "id".to_owned());
    let mut fields: Vec<String> =
        id.into_iter().chain(read.iter().map(|of| field(of, ""))).collect();
    fields.extend(port.may_read.iter().map(|of| field(of, "?")));
    fields.extend(named);
    let contents = match port.port_type {
        PortType::Dataset => braced(&fields),
        PortType::Artifact => artifact(port.takes),
    };
    format!("{}{optional} {contents}{many}", port.name)
}

/// Such as `output + {seconds#}`, with the fields of the port `input`, or `log <report>`.
pub fn output(port: &OutputPort) -> String {
    let mut fields: Vec<String> = port.writes.iter().map(|of| field(of, "")).collect();
    if port.open {
        fields.push("others".to_owned());
    }
    let contents = match (port.port_type, port.passes) {
        (PortType::Dataset, None) => braced(&fields),
        (PortType::Dataset, Some(INPUT)) => format!("+ {}", braced(&fields)),
        (PortType::Dataset, Some(other)) => format!("{other} + {}", braced(&fields)),
        (PortType::Artifact, _) => artifact(port.gives),
    };
    format!("{} {contents}", port.name)
}

/// A text has a dollar sign behind its name, a number a hash, and a file nothing.
fn field((name, field_type): &(&str, FieldType), optional: &str) -> String {
    match field_type {
        FieldType::Blob => format!("{name}{optional}"),
        FieldType::Text => format!("{name}${optional}"),
        FieldType::Number => format!("{name}#{optional}"),
    }
}

fn braced(fields: &[String]) -> String {
    format!("{{{}}}", fields.join(", "))
}

fn artifact(kinds: &[&str]) -> String {
    match kinds {
        [] => "<any>".to_owned(),
        kinds => format!("<{}>", kinds.join(" | ")),
    }
}
