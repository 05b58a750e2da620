//! Trainings that end in a state without a finite loss.
//!
//! A wild step may pass every check of its own: its loss and gradients are those before the update.
//! Later steps are then skipped, too few of them for a return, and the last state is no result.

use stage_core::StageError;

use super::Run;
use crate::train::trainee::Trainee;

/// The number of clips that are tried when none is held out.
const TRIED: usize = 8;

impl<T: Trainee> Run<'_, T> {
    /// The reason why the last state is no result, if it is none.
    pub(super) fn diverged(&mut self) -> Option<StageError> {
        let what = if self.held_out.is_empty() {
            self.no_clip_is_finite().then(|| "no clip has a finite loss".to_owned())
        } else {
            self.held_out_is_lost()
        }?;
        let (step, skipped) = (self.state.step, self.state.skipped);
        let skips = match skipped {
            0 => String::new(),
            skipped => format!("; {skipped} of {step} steps were skipped"),
        };
        let way_out = match self.state.ranking.places().first() {
            Some(best) => format!("; `take = \"best\"` uses the state of step {}", best.step),
            None => String::new(),
        };
        Some(StageError::with_help(
            format!("the training diverged: after step {step}, {what}{skips}"),
            format!(
                "lower `learning_rate`, raise `warm_up`, or check the clips of the steps before \
                 the loss became non-finite{way_out}"
            ),
        ))
    }

    /// The last loss on held-out clips is not finite, while an earlier one was. If none was ever
    /// finite, a held-out clip is to blame.
    fn held_out_is_lost(&self) -> Option<String> {
        let last = self.state.held_out.filter(|last| !last.loss.is_finite())?;
        let losses = self.record.iter().filter(|(_, name, _)| *name == "held_out");
        let (step, _, loss) =
            losses.filter(|(step, _, loss)| *step < last.step && loss.is_finite()).last()?;
        let when = match step {
            0 => "before the first step".to_owned(),
            step => format!("after step {step}"),
        };
        Some(format!("the loss on held-out clips is {}, but was {loss:.4} {when}", last.loss))
    }

    fn no_clip_is_finite(&mut self) -> bool {
        let every = self.job.clips.len().div_ceil(TRIED).max(1);
        let tried = (0..self.job.clips.len()).step_by(every);
        let finite: Vec<bool> = tried.filter_map(|clip| self.is_finite(clip)).collect();
        !finite.is_empty() && finite.iter().all(|is_finite| !is_finite)
    }
}
