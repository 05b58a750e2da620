//! The kept states of a training, as items of its output `checkpoints`.

use stage_core::{Blob, NewItem, NewValue};
use stage_formats::{FormatError, checkpoint};

use super::run::TrainingResult;

/// The best states, those of a fixed interval, and the last one unless it diverged; each step once.
/// `model` makes the fields of a model from the trained tensors.
pub fn items(
    trained: &TrainingResult,
    model: impl Fn(&[(String, Blob)]) -> Vec<(String, NewValue)>,
) -> Result<Vec<NewItem>, FormatError> {
    let best = trained.best.iter();
    let mut items = best
        .map(|(place, weights)| checkpoint::item(place.step, Some(place.loss), model(weights)))
        .collect::<Result<Vec<_>, _>>()?;
    let loss = |step: u64| {
        let measured = trained.record.iter().filter(|(_, name, _)| *name == "held_out");
        measured.filter(|(own, ..)| *own == step).map(|(.., loss)| loss).last()
    };
    let is_best = |step: u64| trained.best.iter().any(|(place, _)| place.step == step);
    for (step, weights) in trained.regular.iter().filter(|(step, _)| !is_best(*step)) {
        items.push(checkpoint::item(*step, loss(*step), model(weights))?);
    }
    let is_regular = trained.regular.iter().any(|(step, _)| *step == trained.steps);
    if trained.diverged.is_none() && !is_best(trained.steps) && !is_regular {
        items.push(checkpoint::item(trained.steps, trained.held_out, model(&trained.last))?);
    }
    Ok(items)
}
