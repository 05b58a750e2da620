//! Expressions over measured sentences: requirements such as `mean(cer) <= base + 0.01`, and
//! measures such as `share(cer > 0.3 or stop != "end")`.
//!
//! A field has a value for each sentence, and an aggregate makes one number of these. `base` stands
//! for the value that the other side of a comparison has for the base. Types are checked when an
//! expression is read, and so before anything runs; nothing here has a default, so that a missing
//! value is an error of the evaluation.

mod ast;
mod evaluate;
mod fault;
mod lexer;
mod parser;
#[cfg(test)]
mod tests;
mod types;

use std::collections::BTreeMap;

pub use self::ast::{Aggregate, Comparison, Each, Operator, Relation, Requirement, Test, Whole};
pub use self::evaluate::Lacks;
pub use self::fault::Fault;
use stage_core::{ExpressionForm, FieldType};

/// Reads a requirement.
pub fn requirement(text: &str) -> Result<Requirement, Fault> {
    types::requirement(text, &parser::parse(text)?)
}

/// Reads a measure.
pub fn measure(text: &str) -> Result<Whole, Fault> {
    types::measure(&parser::parse(text)?)
}

/// Tests an expression.
pub fn check(form: ExpressionForm, text: &str) -> Result<(), Fault> {
    match form {
        ExpressionForm::Requirement => requirement(text).map(drop),
        ExpressionForm::Measure => measure(text).map(drop),
    }
}

/// The fields of sentences that an expression needs, with their types; none if it has a mistake.
pub fn fields(text: &str) -> BTreeMap<String, FieldType> {
    parser::parse(text).ok().and_then(|node| types::fields(&node).ok()).unwrap_or_default()
}
