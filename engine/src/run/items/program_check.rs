//! Detects a broken user program: the first items all fail alike.
//!
//! Until one of them ends differently, their failures are held back. A recorded verdict would stay
//! after the program or its environment is repaired, since neither is in any key.

use stage_core::{Parameters, Reject, StageError, Verdicts};

use super::queue::QueuedItem;
use crate::pipeline::StageSpec;

/// This number of equal failures without another outcome means that the program is broken.
const ALIKE: usize = 20;

/// An item to be quarantined.
pub struct QuarantinedItem {
    pub queued: QueuedItem,
    pub reject: Reject,
    /// A verdict is recorded; other failures are tried again by the next run.
    pub is_verdict: bool,
}

/// The first failures of a stage, before any other outcome.
pub struct ProgramCheck {
    pub held: Vec<QuarantinedItem>,
    /// The setting that always quarantines items, for the advice.
    way_out: String,
}

/// The result of holding back a failure.
pub enum CheckResult {
    /// Not decided yet.
    Held,
    /// The program is to blame.
    Broken,
    /// The items are to blame.
    Trusted(Vec<QuarantinedItem>),
}

impl ProgramCheck {
    /// `None` if that many equal failures are impossible, or mean nothing.
    pub fn of(spec: &StageSpec, todo: u64) -> Option<ProgramCheck> {
        let Verdicts::OfProgram { parameter, unless } = spec.kind.verdicts else { return None };
        let is_trusted = |parameters: &Parameters| parameters.text(parameter) == Ok(unless);
        let is_checked = todo > ALIKE as u64 && !is_trusted(&spec.parameters);
        let way_out = format!("{parameter} = \"{unless}\"");
        is_checked.then(|| ProgramCheck { held: Vec::new(), way_out })
    }

    pub fn judge(&mut self, item: QuarantinedItem) -> CheckResult {
        let is_alike = |first: &QuarantinedItem| alike(&first.reject) == alike(&item.reject);
        let agrees = self.held.first().is_none_or(is_alike);
        self.held.push(item);
        match (agrees, self.held.len()) {
            (false, _) => CheckResult::Trusted(std::mem::take(&mut self.held)),
            (true, ALIKE) => CheckResult::Broken,
            (true, _) => CheckResult::Held,
        }
    }

    pub fn error(&self) -> StageError {
        let told = self.held.first().map(|item| alike(&item.reject));
        let (_, what, last) = told.unwrap_or_default();
        let said = if last.is_empty() { String::new() } else { format!("; it said: {last}") };
        StageError::with_help(
            format!("the first {ALIKE} items failed in the same way: {what}{said}"),
            format!(
                "fix the command or its environment, and run again: none of these items is \
                    quarantined. If the items are to blame, write `{}`",
                self.way_out
            ),
        )
    }
}

/// Failures are equal if these are: the code, the exit status of the program, and its last line.
fn alike(reject: &Reject) -> (&str, &str, &str) {
    let (what, said) = reject.parts();
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    (&reject.code, what, last.unwrap_or_default().trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_alike_by_the_end_of_the_program_and_its_last_line() {
        let of = |what: &str, said: &str| Reject::said("command-failed", what, said);
        let first = of("ended with status 1", "Traceback\n  in line 3\nno module `x`\n\n");
        let same = of("ended with status 1", "no module `x`");
        assert_eq!(alike(&first), ("command-failed", "ended with status 1", "no module `x`"));
        assert_eq!(alike(&first), alike(&same));
        for other in [
            of("ended with status 2", "no module `x`"),
            of("ended with status 1", "no module `y`"),
            of("ended with status 1", ""),
            Reject::said("no-output", "ended with status 1", "no module `x`"),
        ] {
            assert_ne!(alike(&first), alike(&other), "{other}");
        }
    }
}
