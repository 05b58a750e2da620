//! Detects a broken user program: the first items all fail alike.
//!
//! Until one of them ends differently, their failures are held back. A recorded verdict would stay
//! after the program or its environment is repaired, since neither is in any key.

use stage_core::{Parameters, Reject, StageError, Verdicts};

use super::item_stage::Queued;
use super::schedule::{Schedule, State};
use crate::engine::EngineError;
use crate::pipeline::{StageId, StageSpec};

/// This number of equal failures without another outcome means that the program is broken.
const ALIKE: usize = 20;

/// An item to be quarantined.
pub struct Unfit {
    pub queued: Queued,
    pub reject: Reject,
    /// A verdict is recorded; other failures are tried again by the next run.
    pub is_verdict: bool,
}

/// The first failures of a stage, before any other outcome.
pub struct ProgramCheck {
    held: Vec<Unfit>,
    /// The setting that always quarantines items, for the advice.
    way_out: String,
}

/// The result of holding back a failure.
enum Judged {
    /// Not decided yet.
    Held,
    /// The program is to blame.
    Broken,
    /// The items are to blame.
    Trusted(Vec<Unfit>),
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

    fn judge(&mut self, unfit: Unfit) -> Judged {
        let is_alike = |first: &Unfit| alike(&first.reject) == alike(&unfit.reject);
        let agrees = self.held.first().is_none_or(is_alike);
        self.held.push(unfit);
        match (agrees, self.held.len()) {
            (false, _) => Judged::Trusted(std::mem::take(&mut self.held)),
            (true, ALIKE) => Judged::Broken,
            (true, _) => Judged::Held,
        }
    }

    fn error(&self) -> StageError {
        let told = self.held.first().map(|unfit| alike(&unfit.reject));
        let (_, what, last) = told.unwrap_or_default();
        let said = if last.is_empty() { String::new() } else { format!("; it said: {last}") };
        StageError::with_help(
            format!("the first {ALIKE} items failed alike: {what}{said}"),
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

impl Schedule<'_> {
    /// Quarantines an item, unless the program is to blame.
    pub fn judge(&mut self, id: StageId, unfit: Unfit) -> Result<(), EngineError> {
        self.counts[id.0].executed += 1;
        let judged = match &mut self.states[id.0] {
            State::Items(stage) => match &mut stage.program_check {
                Some(check) => check.judge(unfit),
                None => Judged::Trusted(vec![unfit]),
            },
            // Results after a failure of the program are as doubtful as those before it.
            _ if self.pipeline.stage(id).kind.verdicts != Verdicts::Own => {
                self.free_followers(&unfit.queued);
                return Ok(());
            }
            _ => Judged::Trusted(vec![unfit]),
        };
        match judged {
            Judged::Held => Ok(()),
            Judged::Broken => {
                self.fail_broken(id);
                Ok(())
            }
            Judged::Trusted(held) => self.settle_program_check(id, held),
        }
    }

    /// An item succeeded: the program works, and earlier failures are those of the items.
    pub fn trust(&mut self, id: StageId) -> Result<(), EngineError> {
        let State::Items(stage) = &mut self.states[id.0] else { return Ok(()) };
        let Some(check) = stage.program_check.take() else { return Ok(()) };
        self.settle_program_check(id, check.held)
    }

    /// No more items come: too few failed to blame the program. True if there were any.
    pub fn trust_all(&mut self) -> Result<bool, EngineError> {
        let mut any = false;
        for id in self.pipeline.ids() {
            if let State::Items(stage) = &self.states[id.0] {
                any |= stage.program_check.as_ref().is_some_and(|check| !check.held.is_empty());
                self.trust(id)?;
            }
        }
        Ok(any)
    }

    fn settle_program_check(&mut self, id: StageId, held: Vec<Unfit>) -> Result<(), EngineError> {
        if let State::Items(stage) = &mut self.states[id.0] {
            stage.program_check = None;
        }
        held.into_iter().try_for_each(|unfit| match unfit.is_verdict {
            true => self.reject(id, unfit.queued, unfit.reject),
            false => self.item_fails(id, unfit.queued, unfit.reject),
        })
    }

    fn fail_broken(&mut self, id: StageId) {
        let State::Items(stage) = &mut self.states[id.0] else { return };
        let Some(check) = stage.program_check.take() else { return };
        self.fail(id, &check.error());
        check.held.iter().for_each(|unfit| self.free_followers(&unfit.queued));
    }

    /// Items with the key of a failed one are decided by their own stages.
    fn free_followers(&mut self, queued: &Queued) {
        for (id, follower) in self.followers.remove(&queued.key).unwrap_or_default() {
            self.requeue(id, follower);
        }
    }
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
