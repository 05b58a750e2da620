//! The common checks before hours of training.

use cache::Digest;
use stage_core::key::{HashSink, Sink};
use stage_core::{Fields, StageError};

use super::TuningRequest;
use crate::lineage;
use crate::train::Trainee;
use crate::train::clips::Clips;
use crate::train::losses::Means;
use crate::train::run::{Data, Purpose};

/// The base, the clips and the parameters that a preflight has looked at. A training that is stopped
/// before its first checkpoint need not repeat it.
pub fn identity<C>(request: &TuningRequest<'_>, base: &Fields, clips: &Clips<C>) -> Digest {
    let mut sink = HashSink::default();
    sink.text("preflight on", &request.device.to_string());
    sink.digest("base", &lineage::digest(base));
    for (name, value) in &request.parameters.0 {
        sink.text(name, &value.to_string());
    }
    clips.clips.iter().for_each(|clip| sink.text("clip", &clip.entry.id));
    sink.finish()
}

/// The losses on a number of clips; refused if they are not finite.
pub fn losses<T: Trainee>(
    trainee: &T,
    data: &dyn Data<T::Batch>,
    clips: usize,
) -> Result<Means, StageError> {
    let rows: Vec<Vec<usize>> = (0..clips).map(|clip| vec![clip]).collect();
    let batch = data.batch(&rows, Purpose::HeldOut)?;
    let means = trainee.evaluate(&batch)?.means(&T::count(&batch));
    if means.total().is_finite() {
        Ok(means)
    } else {
        Err(StageError::with_help(
            format!("the loss of the base is {}", means.total()),
            "its weights are damaged, or too large for the precision: try `precision = \"f32\"`",
        ))
    }
}

/// Refuses adapters that change the model before training.
pub fn check_adapters(without: &Means, with: &Means) -> Result<(), StageError> {
    if without == with {
        Ok(())
    } else {
        Err(StageError::with_help(
            format!(
                "fresh adapters change the loss of the base from {} to {}",
                without.total(),
                with.total()
            ),
            "attaching them changed the base; this is a bug: please report it",
        ))
    }
}
