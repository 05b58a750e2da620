//! The models for synthesis: one for all sentences, or a checkpoint for each.

use stage_core::{Blob, Context, Fields, StageError};

use super::model::FishModel;
use super::vocabulary::Vocabulary;
use crate::dual_ar::{DualAr, Parity};
use crate::model_slot::ModelSlot;
use crate::npy;
use crate::sound::codec::CodecFormat;
use crate::tune::NetworkSource;

pub struct Voices {
    pub source: NetworkSource,
    /// The reference clip of the voice.
    pub reference: Option<Fields>,
    pub codec: CodecFormat,
    pub parity: Parity,
    pub loaded: ModelSlot<FishVoice>,
}

/// A model that is ready to speak.
pub struct FishVoice {
    pub model: DualAr,
    pub vocabulary: Vocabulary,
    /// Text and codes of the reference clip.
    pub reference: Option<(String, Vec<i32>)>,
}

impl Voices {
    /// Checks the inputs on the ports, without loading a tensor.
    pub fn check(&self, context: &mut dyn Context) -> Result<(), StageError> {
        if let Some(model) = self.source.base::<FishModel>(context)? {
            model.vocabulary.check_codec(&self.codec)?;
            self.spoken_in(&model.vocabulary, context)?;
        }
        Ok(())
    }

    /// Calls a function with the model of a sentence, or with the one on the port.
    ///
    /// # Errors
    ///
    /// [`StageError::Unable`] if there is no such model: other sentences would fail too.
    pub fn with<R>(
        &self,
        weights: Option<&Blob>,
        context: &mut dyn Context,
        work: impl FnOnce(&FishVoice) -> R,
    ) -> Result<R, StageError> {
        self.loaded.with(weights, || self.load(weights, context), work)
    }

    fn load(
        &self,
        weights: Option<&Blob>,
        context: &mut dyn Context,
    ) -> Result<FishVoice, StageError> {
        let (FishModel { vocabulary, .. }, net) = self.source.load(weights, context)?;
        vocabulary.check_codec(&self.codec)?;
        let reference = self.spoken_in(&vocabulary, context)?;
        Ok(FishVoice { model: net.with_parity(self.parity), vocabulary, reference })
    }

    fn spoken_in(
        &self,
        vocabulary: &Vocabulary,
        context: &mut dyn Context,
    ) -> Result<Option<(String, Vec<i32>)>, StageError> {
        let Some(fields) = &self.reference else { return Ok(None) };
        let (Some(text), Some(blob)) = (fields.text("text"), fields.blob("tokens")) else {
            return Err(StageError::with_help(
                "the artifact on port `reference` has no `text` or no `tokens`",
                "set `reference` to a `dataset.item` stage that reads clips with tokens",
            ));
        };
        let codes = npy::read(&context.read(blob)?)?;
        vocabulary.check_codes(&codes)?;
        let codes = codes.values.iter().map(|code| i32::from(*code)).collect();
        Ok(Some((text.to_owned(), codes)))
    }
}
