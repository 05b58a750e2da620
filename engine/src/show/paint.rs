//! Colour if it is wanted; everything stays readable without it.

use stage_core::event::Verdict;

/// The decision to use colours, made once by the caller that knows the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paint {
    pub colour: bool,
}

impl Paint {
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
        }
    }

    fn wrap(self, code: &str, text: &str) -> String {
        match self.colour {
            true => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            false => text.to_owned(),
        }
    }
}
