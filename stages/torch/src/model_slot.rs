//! The models for synthesis: one for all sentences, or a checkpoint for each.
//!
//! One is in memory at a time; the engine hands out the sentences of a checkpoint together.

use std::sync::{Mutex, PoisonError};

use cache::Digest;
use stage_core::{Blob, Context, Fields, StageError};
use stage_formats::checkpoint;

use crate::runtime::heap;

/// Tensors must not be shared by threads, hence the lock.
pub struct ModelSlot<M>(Mutex<Option<(Option<Digest>, M)>>);

impl<M> Default for ModelSlot<M> {
    fn default() -> ModelSlot<M> {
        ModelSlot(Mutex::default())
    }
}

impl<M> ModelSlot<M> {
    /// Calls a function with the model of these weights, or with the default model; it is loaded
    /// unless it was the last one.
    ///
    /// # Errors
    ///
    /// [`StageError::Unable`] if there is no such model: other sentences would fail too.
    pub fn with<R>(
        &self,
        weights: Option<&Blob>,
        load: impl FnOnce() -> Result<M, StageError>,
        work: impl FnOnce(&M) -> R,
    ) -> Result<R, StageError> {
        let mut loaded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = weights.map(|blob| blob.digest);
        if let Some((_, model)) = loaded.as_ref().filter(|(own, _)| *own == wanted) {
            return Ok(work(model));
        }
        // Two models at a time may not fit into the memory of the device.
        *loaded = None;
        let (_, model) = loaded.insert((wanted, load().map_err(for_all)?));
        heap::give_back();
        Ok(work(model))
    }
}

/// The model or the adapters in the weights of a sentence.
pub fn brought(
    weights: Option<&Blob>,
    context: &mut dyn Context,
) -> Result<Option<Fields>, StageError> {
    let Some(blob) = weights else { return Ok(None) };
    Ok(Some(checkpoint::read(&context.read(blob)?)?))
}

/// An error that concerns more than one sentence.
fn for_all(error: StageError) -> StageError {
    match error {
        StageError::Failed { message, help } => StageError::Unable { message, help },
        other => other,
    }
}
