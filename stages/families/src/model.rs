//! What a model takes, from its sizes alone: no weights are needed, and nothing is computed.

use stage_core::Parameters;

use crate::training::Trainable;

/// A model of known sizes.
pub trait Model {
    fn parameters(&self) -> i64;

    /// Bytes of the weights that a stage with these parameters makes or carries.
    fn bytes(&self, stage: &Parameters) -> f64;

    /// Time of working with it relative to the published model, which rates are for.
    fn share(&self) -> f64 {
        1.0
    }

    /// How it is trained, if it is.
    fn trainable(&self) -> Option<&dyn Trainable> {
        None
    }
}

/// The model that one is taken for which is not there.
pub struct Assumed {
    pub model: Box<dyn Model>,
    /// The assumption, as a plan tells it.
    pub told: &'static str,
}

/// What a codec takes beside the published one.
#[derive(Clone, Copy, Debug)]
pub struct Codec {
    /// Share of its time.
    pub share: f64,
    /// The assumption behind that share, where there is one.
    pub told: Option<&'static str>,
    /// Bytes in memory.
    pub bytes: f64,
}
