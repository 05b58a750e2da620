//! Colour if it is wanted, and lines that fit the terminal; everything stays readable without
//! colour.

use engine::event::Verdict;

use super::escape::wrap;

/// The decision to use colours, and the width of a line, made once by the caller that knows the
/// terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paint {
    pub colour: bool,
    /// `None` where nobody looks: lines are as long as they are.
    pub columns: Option<usize>,
}

impl Paint {
    /// The text in lines that fit, without a line break at the end. Lines after the first are
    /// indented.
    pub fn fold(self, text: &str, indent: usize) -> String {
        match self.columns {
            Some(columns) => wrap(text, columns, indent).join("\n"),
            None => text.to_owned(),
        }
    }

    pub fn good(self, text: &str) -> String {
        self.wrap("32", text)
    }

    pub fn warning(self, text: &str) -> String {
        self.wrap("33", text)
    }

    pub fn bad(self, text: &str) -> String {
        self.wrap("31;1", text)
    }

    /// For curves and other neutral parts.
    pub fn figure(self, text: &str) -> String {
        self.wrap("36", text)
    }

    pub fn strong(self, text: &str) -> String {
        self.wrap("1", text)
    }

    pub fn faint(self, text: &str) -> String {
        self.wrap("2", text)
    }

    pub fn verdict(self, verdict: Verdict) -> String {
        match verdict {
            Verdict::Fresh => self.good("fresh"),
            Verdict::Dirty => self.warning("dirty"),
            Verdict::Unknown => self.faint("unknown"),
            Verdict::Out => self.faint("out"),
        }
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}
