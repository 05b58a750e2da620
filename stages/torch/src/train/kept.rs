//! The kept states of a training, as items of its output `checkpoints`.

use stage_core::{Blob, NewItem, NewValue};
use stage_formats::{FormatError, checkpoint};

use super::run::Trained;

/// The best states and the last one, which may be one of them; not if it diverged. `model` makes the fields of a model
/// from the trained tensors.
pub fn items(
    trained: &Trained<Blob>,
    model: impl Fn(&[(String, Blob)]) -> Vec<(String, NewValue)>,
) -> Result<Vec<NewItem>, FormatError> {
    let best = trained.best.iter();
    let mut items = best
        .map(|(place, weights)| checkpoint::item(place.step, Some(place.loss), model(weights)))
        .collect::<Result<Vec<_>, _>>()?;
    let is_among = trained.best.iter().any(|(place, _)| place.step == trained.steps);
    if trained.diverged.is_none() && !is_among {
        items.push(checkpoint::item(trained.steps, trained.held_out, model(&trained.last))?);
    }
    Ok(items)
}
