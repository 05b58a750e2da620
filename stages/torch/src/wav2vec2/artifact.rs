//! A recogniser as an artifact: what is read of it.

use bytes::Bytes;
use stage_core::{Context, Fields, StageError};
use stage_formats::artifact;
use stage_formats::wav2vec2::{Config, Preprocessor, Vocabulary};
use tch::Device;

use super::model::Wav2Vec2;
use crate::stored;

/// A model that arrived on a port; its tensors are still in the store.
#[derive(Debug)]
pub struct Model {
    fields: Fields,
    pub config: Config,
    pub preprocessor: Preprocessor,
    pub vocabulary: Vocabulary,
}

impl Model {
    pub fn read(
        port: &str,
        fields: Option<&Fields>,
        context: &mut dyn Context,
    ) -> Result<Model, StageError> {
        let fields = fields
            .ok_or_else(|| StageError::failed(format!("no model arrived on port `{port}`")))?;
        match fields.text(artifact::FAMILY) {
            Some(artifact::WAV2VEC2) => (),
            Some(other) => return Err(no_model(port, &format!("it is `{other}`"))),
            None => return Err(no_model(port, "it does not say what it is")),
        }
        let mut file = |name: &str| -> Result<Bytes, StageError> {
            let blob = fields.blob(name);
            context.read(blob.ok_or_else(|| no_model(port, &format!("it has no `{name}`")))?)
        };
        let config = Config::parse(&file(artifact::CONFIG)?)?;
        Ok(Model {
            preprocessor: Preprocessor::parse(&file(artifact::PREPROCESSOR)?)?,
            vocabulary: Vocabulary::read(&file(artifact::VOCABULARY)?, &config)?,
            config,
            fields: fields.clone(),
        })
    }

    pub fn load(&self, device: Device, context: &mut dyn Context) -> Result<Wav2Vec2, StageError> {
        let weights = stored::weights(&self.fields, context)?;
        Ok(Wav2Vec2::load(&self.config, self.preprocessor, weights, device)?)
    }
}

fn no_model(port: &str, why: &str) -> StageError {
    StageError::with_help(
        format!("what arrived on `{port}` is no speech recogniser: {why}"),
        "give it a stage of the kind `model.import` with a checkpoint of Wav2Vec2ForCTC",
    )
}
