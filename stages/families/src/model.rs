//! The cost of a model and its number of speakers, from its sizes alone: no weights are needed, and
//! nothing is computed.

use stage_core::Parameters;
use stage_formats::shapes::Expected;

use crate::training::Trainable;
use crate::working::Working;

/// A model of known sizes.
pub trait Model {
    fn parameters(&self) -> i64;

    /// Size of the weights that a stage with these parameters makes or passes on, in bytes.
    fn bytes(&self, stage: &Parameters) -> f64;

    /// The number of values of each tensor; as if there were one if that is unknown.
    fn sizes(&self) -> Vec<i64> {
        vec![self.parameters()]
    }

    fn largest_tensor(&self) -> i64 {
        self.sizes().into_iter().max().unwrap_or(0)
    }

    /// Bytes of the weights that a stage holds in memory while it works with the model.
    fn held_bytes(&self, working: &Working<'_>) -> f64 {
        self.bytes(working.parameters)
    }

    /// Seconds of speech that an item gets on average: those of its text, or up to a limit.
    fn spoken_seconds(&self, working: &Working<'_>) -> f64 {
        working.seconds
    }

    /// Time relative to the published model, which the rates are for.
    fn share(&self) -> f64 {
        1.0
    }

    /// Bytes that working with it takes beside its weights, for each batch.
    fn working_bytes(&self, _working: &Working<'_>) -> f64 {
        0.0
    }

    /// The number of speakers among which a sentence may choose; none if it cannot choose.
    fn speakers(&self) -> Option<u64> {
        None
    }

    /// The cost of training, if it is trainable.
    fn trainable(&self) -> Option<&dyn Trainable> {
        None
    }
}

/// The number of values of each of these tensors.
pub(crate) fn sizes(tensors: &[Expected]) -> Vec<i64> {
    tensors.iter().map(|(_, shape)| shape.iter().product()).collect()
}

/// The assumed model if none exists.
pub struct AssumedModel {
    pub model: Box<dyn Model>,
    /// The assumption, as shown in a plan.
    pub told: &'static str,
}

/// The cost of a codec relative to the published one.
#[derive(Clone, Copy, Debug)]
pub struct Codec {
    /// Time relative to it.
    pub share: f64,
    /// The assumption behind that share, if any.
    pub told: Option<&'static str>,
    /// Bytes of its weights in memory.
    pub bytes: f64,
    /// Bytes that working with it takes beside its weights.
    pub working_bytes: fn(&Working<'_>) -> f64,
}
