//! The outputs that a program tells of, which are checked before anything is taken over.

use std::collections::BTreeMap;

use camino::Utf8Path;
use serde_json::{Map, Value as Json};
use stage_core::output_types::{NUMBER, TEXT};
use stage_core::{NewValue, Reject};

use super::run::{CommandError, output};
use crate::corpus::path::{self, PathProblem};

/// The reason why an output cannot be taken: a verdict on the item, or an error of the machine.
pub enum AnswerError {
    Reject(Reject),
    Error(CommandError),
}

fn reject(code: &str, reason: String) -> AnswerError {
    AnswerError::Reject(Reject::new(code, reason))
}

/// The declared outputs among these values. Files are in the folder `out` of the process's folder.
pub fn take(
    fields: &Map<String, Json>,
    kinds: &BTreeMap<String, String>,
    folder: &Utf8Path,
    out: &Utf8Path,
) -> Result<Vec<(String, NewValue)>, AnswerError> {
    if let Some(name) = fields.keys().find(|name| !kinds.contains_key(*name)) {
        let reason = format!("the program returned `{name}`, which is not in `outputs`");
        return Err(reject("unknown-output", reason));
    }
    kinds
        .iter()
        .map(|(name, kind)| match fields.get(name) {
            Some(value) => Ok((name.clone(), one(name, kind, value, folder, out)?)),
            None => {
                Err(reject("no-output", format!("the program did not return the output `{name}`")))
            }
        })
        .collect()
}

fn one(
    name: &str,
    kind: &str,
    value: &Json,
    folder: &Utf8Path,
    out: &Utf8Path,
) -> Result<NewValue, AnswerError> {
    match kind {
        NUMBER => match value.as_f64().filter(|number| number.is_finite()) {
            Some(number) => Ok(NewValue::Number(number)),
            None => Err(reject("output-no-number", format!("the output `{name}` is not a number"))),
        },
        TEXT => match value.as_str() {
            Some(text) => Ok(NewValue::Text(text.to_owned())),
            None => Err(reject("output-no-text", format!("the output `{name}` is not a text"))),
        },
        kind => {
            let Some(file) = value.get("path").and_then(Json::as_str) else {
                return Err(reject("output-no-file", format!("the output `{name}` is not a file")));
            };
            let inside = path::relative(file).map_err(|problem| {
                let problem = of_output(&problem);
                reject(
                    "output-outside",
                    format!(
                        "the output `{name}` is not in the folder of its item: its path {problem}"
                    ),
                )
            })?;
            match output(folder, &out.join(inside), "") {
                Ok(bytes) => Ok(NewValue::bytes(kind, bytes)),
                Err(error) => match error.reject_code() {
                    Some(code) => Err(reject(code, told(name, &error))),
                    None => Err(AnswerError::Error(error)),
                },
            }
        }
    }
}

/// The problem of an output's path.
pub fn of_output(problem: &PathProblem) -> String {
    match problem {
        PathProblem::Absolute { path } => {
            format!("`{path}` is absolute; write it relative to the folder of the outputs")
        }
        other => other.to_string(),
    }
}

fn told(name: &str, error: &CommandError) -> String {
    match error {
        CommandError::NoOutput { .. } => format!("the file of the output `{name}` does not exist"),
        CommandError::NotAFile { found, .. } => {
            format!("the output `{name}` is {found}, not a file")
        }
        other => other.to_string(),
    }
}
