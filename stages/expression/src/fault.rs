//! Mistakes in expressions.

use std::ops::Range;

/// A mistake in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its position in the text, in bytes.
    pub span: Range<usize>,
    pub message: String,
    pub help: Option<String>,
}

impl Fault {
    pub(super) fn new(span: Range<usize>, message: impl Into<String>) -> Fault {
        Fault { span, message: message.into(), help: None }
    }

    pub(super) fn help(self, help: impl Into<String>) -> Fault {
        Fault { help: Some(help.into()), ..self }
    }
}
