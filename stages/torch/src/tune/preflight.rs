//! The common checks before hours of training.

use cache::Digest;
use stage_core::key::{HashSink, Sink};
use stage_core::{Context, Fields, StageError};

use super::{BaseNetwork, NetworkTrainee, Request};
use crate::lineage;
use crate::train::clips::{Clips, Trainable};
use crate::train::frozen::{check_frozen, frozen};
use crate::train::losses::Means;
use crate::train::run::{Data, Purpose};
use crate::train::{Settings, Trainee, rehearsal};

/// The base, the clips and the parameters that a preflight has looked at. A training that is stopped
/// before its first checkpoint need not repeat it.
pub fn identity(request: &Request<'_>, base: &Fields, clips: &Clips<impl Trainable>) -> Digest {
    let mut sink = HashSink::default();
    sink.text("preflight on", &request.device.to_string());
    sink.digest("base", &lineage::digest(base));
    for (name, value) in &request.parameters.0 {
        sink.text(name, &value.to_string());
    }
    clips.clips.iter().for_each(|clip| sink.text("clip", clip.id()));
    sink.finish()
}

/// The losses on a number of clips; refused if they are not finite.
pub fn losses<T: Trainee>(
    trainee: &T,
    data: &impl Data<T::Batch>,
    clips: usize,
) -> Result<Means, StageError> {
    let rows: Vec<Vec<usize>> = (0..clips).map(|clip| vec![clip]).collect();
    let batch = data.batch(&rows, Purpose::HeldOut)?;
    let means = trainee.evaluate(&batch)?.means(&T::count(&batch))?;
    match means.total().is_finite() {
        true => Ok(means),
        false => Err(StageError::with_help(
            format!("the loss of the base is {}", means.total()),
            "its weights are damaged, or too large for the precision: try `precision = \"f32\"`",
        )),
    }
}

/// Refuses adapters that change the model before training.
pub fn check_adapters(without: &Means, with: &Means) -> Result<(), StageError> {
    match without == with {
        true => Ok(()),
        false => Err(StageError::with_help(
            format!(
                "fresh adapters change the loss of the base from {} to {}",
                without.total(),
                with.total()
            ),
            "attaching them changed the base; this is a bug: please report it",
        )),
    }
}

/// Makes two steps, and again with a stop, a save and a reload between them; then everything is as
/// before.
pub fn rehearse<T: NetworkTrainee>(
    replicas: &mut [T],
    data: &impl Data<T::Batch>,
    clips: &Clips<impl Trainable>,
    settings: &Settings,
    context: &mut dyn Context,
) -> Result<(), StageError> {
    let before = frozen(replicas[0].model().tensors())?;
    rehearsal::rehearse(replicas, data, &clips.order(), settings, context)?;
    check_frozen(&before, &frozen(replicas[0].model().tensors())?)
}
