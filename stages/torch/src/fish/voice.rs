//! The models for synthesis: one for all sentences, or a checkpoint for each.

use stage_core::{Blob, Context, Fields, StageError};
use stage_families::artifact;
use tch::{Device, Kind};

use super::model::{Model, adapted};
use super::vocabulary::Vocabulary;
use crate::codec::CodecFormat;
use crate::dual_ar::{DualAr, Parity};
use crate::lineage::AdapterLineage;
use crate::loaded::{Loaded, brought};
use crate::lora;
use crate::npy;

/// The inputs that models are prepared from.
pub struct Source {
    /// The model on the port; needed for sentences without weights of their own, or with adapters.
    pub base: Option<Fields>,
    pub adapters: Option<Fields>,
    /// The reference clip of the voice.
    pub reference: Option<Fields>,
    pub codec: CodecFormat,
    pub device: Device,
    /// The compute type; None: the stored one.
    pub kind: Option<Kind>,
    pub parity: Parity,
}

pub struct Voices {
    source: Source,
    loaded: Loaded<Voice>,
}

/// A model that is ready to speak.
pub struct Voice {
    pub model: DualAr,
    pub vocabulary: Vocabulary,
    /// Text and codes of the reference clip.
    pub reference: Option<(String, Vec<i32>)>,
}

impl Voices {
    /// Checks the inputs on the ports, without loading a tensor.
    pub fn new(source: Source, context: &mut dyn Context) -> Result<Voices, StageError> {
        if let Some(base) = &source.base {
            let model = source.read(Some(base), context)?;
            if let Some(adapters) = &source.adapters {
                AdapterLineage::of(adapters)?.check_base(base)?;
            }
            source.spoken_in(&model.vocabulary, context)?;
        }
        Ok(Voices { source, loaded: Loaded::default() })
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
        work: impl FnOnce(&Voice) -> R,
    ) -> Result<R, StageError> {
        self.loaded.with(weights, || self.source.load(weights, context), work)
    }
}

impl Source {
    fn load(&self, weights: Option<&Blob>, context: &mut dyn Context) -> Result<Voice, StageError> {
        let brought = brought(weights, context)?;
        let are_adapters = |fields: &&Fields| fields.text(artifact::FAMILY) == Some(artifact::LORA);
        let (base, adapters) = match brought.as_ref() {
            Some(adapters) if are_adapters(&adapters) => {
                (self.base.as_ref(), Some(self.only(adapters)?))
            }
            Some(model) => (Some(model), self.adapters.as_ref()),
            None => (self.base.as_ref(), self.adapters.as_ref()),
        };
        let model = self.read(base, context)?;
        let kind = match self.kind {
            Some(kind) => kind,
            None => model.kind(context)?,
        };
        let mut loaded = model.load(self.device, kind, self.parity, context)?;
        if let Some(adapters) = adapters {
            AdapterLineage::of(adapters)?.check_base(&model.fields)?;
            adapted(&mut loaded, adapters, context)?;
            lora::merge(&mut loaded, kind)?;
        }
        let reference = self.spoken_in(&model.vocabulary, context)?;
        Ok(Voice { model: loaded, vocabulary: model.vocabulary, reference })
    }

    /// The adapters of a sentence, if there are no others.
    fn only<'a>(&self, adapters: &'a Fields) -> Result<&'a Fields, StageError> {
        match self.adapters {
            None => Ok(adapters),
            Some(_) => Err(StageError::with_help(
                "the sentences bring adapters, and others arrived on `adapters`",
                "leave out `adapters`, or give `input` sentences without checkpoints",
            )),
        }
    }

    fn read(&self, base: Option<&Fields>, context: &mut dyn Context) -> Result<Model, StageError> {
        let base = base.ok_or_else(|| {
            StageError::with_help(
                "no model arrived on port `model`, and the sentences bring none, or only adapters",
                "give `model` the base of the adapters, or `input` a `model.audition` stage over \
                 the checkpoints of a model",
            )
        })?;
        let model = Model::read("model", Some(base), context)?;
        model.vocabulary.check_codec(&self.codec)?;
        Ok(model)
    }

    fn spoken_in(
        &self,
        vocabulary: &Vocabulary,
        context: &mut dyn Context,
    ) -> Result<Option<(String, Vec<i32>)>, StageError> {
        let Some(fields) = &self.reference else { return Ok(None) };
        let (Some(text), Some(blob)) = (fields.text("text"), fields.blob("tokens")) else {
            return Err(StageError::with_help(
                "what arrived on `reference` has no `text` or no `tokens`",
                "give it a `dataset.item` stage over clips with tokens",
            ));
        };
        let codes = npy::read(&context.read(blob)?)?;
        vocabulary.check_codes(&codes)?;
        let codes = codes.values.iter().map(|code| i32::from(*code)).collect();
        Ok(Some((text.to_owned(), codes)))
    }
}
